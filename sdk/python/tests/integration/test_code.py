# SPDX-License-Identifier: Apache-2.0
"""Code contexts at the real daemon."""

from __future__ import annotations

import base64
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Daemon

from pandastack import (
    APIConnectionError,
    BadRequestError,
    Client,
    CodeContext,
    ExecInterrupted,
    Execution,
    LimitError,
    NotFoundError,
    Result,
    Sandbox,
    SandboxTimeout,
)


@pytest.fixture
def ctx(box: Sandbox) -> Iterator[CodeContext]:
    with box.create_code_context() as ctx:
        yield ctx


def test_the_state_stays(ctx: CodeContext) -> None:
    assert ctx.run_code("x = 41").text is None
    got = ctx.run_code("print('out')\nimport sys\nprint('err', file=sys.stderr)\nx + 1")
    assert (got.text, got.stdout, got.stderr, got.error, got.status) == ("42", "out\n", "err\n", None, "ok")
    failed = ctx.run_code("y = 1\n1/0")
    assert failed.error is not None
    assert "ZeroDivisionError" in failed.error
    assert (failed.error_name, failed.error_line) == ("ZeroDivisionError", 2)
    assert (failed.status, failed.exit_code) == ("error", 1)
    assert ctx.run_code("x, y").text == "(41, 1)"


def test_rich_results(ctx: CodeContext) -> None:
    table = ctx.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2]})").results[0]
    assert table.html is not None
    assert "<table" in table.html
    assert table.table["rows"] == 2
    chart = ctx.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 4]); plt.title('t')")
    assert chart.png is not None
    assert base64.b64decode(chart.png).startswith(b"\x89PNG")
    shown = next(r for r in chart.results if r.png)
    assert (shown.chart["type"], shown.chart["title"]) == ("line", "t")
    got = ctx.run_code("from IPython.display import *\ndisplay(Markdown('*m*'), Latex('$l$'), JSON([1]), HTML('h'))")
    markdown, latex, json, html = got.results
    assert (markdown.markdown, latex.latex, json.json, html.html) == ("*m*", "$l$", [1], "h")


def test_listeners_hear_it_as_it_comes(ctx: CodeContext) -> None:
    heard: list[Any] = []
    got = ctx.run_code(
        "import os\nos.write(1, b'a'); display(1); os.write(2, b'b'); 2",
        on_stdout=lambda chunk: heard.append(("stdout", chunk)),
        on_stderr=lambda chunk: heard.append(("stderr", chunk)),
        on_result=lambda result: heard.append(result),
    )
    assert heard == [("stdout", "a"), Result({"text/plain": "1"}), ("stderr", "b"), Result({"text/plain": "2"})]
    assert (got.stdout, got.stderr, got.text) == ("a", "b", "2")


CELLS = [
    "1 + 1",
    "print('x' * 3_000_000)",
    "1/0",
    "import sys; sys.exit(3)",
    "from IPython.display import clear_output\nfor i in range(3):\n    clear_output(wait=True); print(i); display(i)",
    "h = display('first', display_id='a')\nprint('x')\nh.update('second')",
    "import os; os._exit(3)",
    "'after'",
    "open('/workspace/made', 'w').write('x')",
    "!printf 'a\\377b'",
    "import matplotlib.pyplot as plt; plt.plot([1, 2])",
]


def test_a_stream_gives_what_a_buffered_answer_would(box: Sandbox, client: Client) -> None:
    """The same cells in two kernels, once by the SDK, once without a stream."""

    def facts(execution: Execution) -> dict[str, Any]:
        answer = execution.to_dict()
        for name in ("duration_ms", "output_bytes"):
            answer.pop(name)
        answer["results"] = [{k: v for k, v in r.items() if "0x" not in v} for r in answer["results"]]
        return answer

    with box.create_code_context() as streamed, box.create_code_context() as buffered:
        path = f"/v1/sandboxes/{box.id}/repl/sessions/{buffered.id}/run"
        for code in CELLS:
            want = Execution.from_json(client.call("POST", path, json={"code": code}))
            box.exec("rm -f /workspace/made")
            assert facts(streamed.run_code(code)) == facts(want), code


def test_honest_facts(ctx: CodeContext) -> None:
    ctx.run_code("kept = 1")
    died = ctx.run_code("import os; os.kill(os.getpid(), 11)")
    assert (died.status, died.signal, died.state_lost) == ("died", 11, True)
    assert died.error
    again = ctx.run_code("kept")
    assert (again.kernel_restarted, again.error_name) == (True, "NameError")
    assert ctx.run_code("open('/workspace/f', 'w').close()").files_changed == ["/workspace/f"]
    long = ctx.run_code("print('x' * 3_000_000)")
    assert long.truncated
    assert long.output_bytes["stdout"] == 3_000_001


@pytest.mark.parametrize("limit", [{"timeout": 1}, {"timeout_seconds": 0.5}])
def test_timeout(ctx: CodeContext, limit: dict[str, float]) -> None:
    ctx.run_code("x = 5")
    with pytest.raises(SandboxTimeout) as e:
        ctx.run_code("print('so far')\nwhile True: pass", **limit)  # type: ignore[arg-type]
    assert (e.value.stdout, e.value.details["state_lost"], e.value.status) == ("so far\n", False, 504)
    assert ctx.run_code("x").text == "5"


def test_interrupt_and_restart(ctx: CodeContext) -> None:
    ctx.run_code("import os; x = 5")
    interrupted: list[bool] = []
    code = "os.write(1, b'up')\nwhile True: pass"
    got = ctx.run_code(code, on_stdout=lambda _: interrupted.append(ctx.interrupt()))
    assert interrupted == [True]
    assert got.status == "interrupted"
    assert ctx.run_code("x").text == "5"
    assert ctx.interrupt() is False
    ctx.restart()
    assert ctx.run_code("x").error_name == "NameError"


def test_cells_that_wait_for_their_turn(ctx: CodeContext) -> None:
    """However long the first one takes, the second one's limit counts from its own beginning."""
    order: list[str] = []
    second = threading.Thread(target=lambda: order.append(ctx.run_code("'second'", timeout=1).text or ""))

    ctx.run_code("import os, time\nos.write(1, b'up'); time.sleep(2)", on_stdout=lambda chunk: second.start())
    order.append("first")
    second.join()
    assert sorted(order) == ["'second'", "first"]


def test_where_it_runs(box: Sandbox) -> None:
    with box.create_code_context("bash", cwd="/tmp", env={"A": "b"}) as ctx:
        assert ctx.language == "bash"
        got = ctx.run_code("echo $WORD $A $B; pwd", env={"B": "c"})
        assert got.stdout == "of the sandbox b c\n/tmp\n"
        assert ctx.id in [c.id for c in box.list_code_contexts()]
    assert ctx.id not in [c.id for c in box.list_code_contexts()]
    with pytest.raises(BadRequestError, match="python, javascript, bash"):
        box.create_code_context("cobol")


def test_close(box: Sandbox) -> None:
    ctx = box.create_code_context()
    ctx.close()
    ctx.close()
    with pytest.raises(NotFoundError) as e:
        ctx.run_code("1")
    assert e.value.code == "session.not_found"


def test_there_are_as_many_as_there_may_be(client: Client) -> None:
    with Sandbox.create(client=client) as sandbox, pytest.raises(LimitError) as e:
        for _ in range(20):
            sandbox.create_code_context("bash")
    assert e.value.status == 429


def test_once(box: Sandbox) -> None:
    got = box.run_code("x = 6\nprint('out')\nx * 7")
    assert (got.text, got.stdout, got.error) == ("42", "out\n", None)
    assert box.run_code("x").error_name == "NameError", "nothing is kept"
    assert box.run_code("console.log(6 * 7)", "js").stdout == "42\n"
    failed = box.run_code("echo out; echo why >&2; exit 3", "bash", env={"A": "b"})
    assert (failed.stdout, failed.error, failed.exit_code) == ("out\n", "why\n", 3)
    with pytest.raises(SandboxTimeout):
        box.run_code("while True: pass", timeout=1)


def test_the_default_context(box: Sandbox) -> None:
    box.run_code("x = 6", keep_state=True)
    assert box.run_code("x * 7", keep_state=True).text == "42"
    box.run_code("x=7", "bash", keep_state=True)
    assert box.run_code("echo $x", "bash", keep_state=True).stdout == "7\n"
    assert box.run_code("x", keep_state=True).text == "6"


def test_a_template_without_a_kernel(client: Client) -> None:
    with Sandbox.create("base", client=client) as sandbox:
        assert sandbox.run_code("print(6 * 7)").stdout == "42\n"
        failed = sandbox.run_code("1/0")
        assert failed.error is not None
        assert "ZeroDivisionError" in failed.error


def test_a_daemon_that_dies_in_mid_call(tmp_path: Path, daemon: Daemon) -> None:
    """What there was is not lost, and the next call says how to start it."""
    own = Daemon(tmp_path / "data")
    try:
        own.wait_ready()
        with Client(own.url, own.key) as client:
            ctx = Sandbox.create(client=client).create_code_context()
            with pytest.raises(ExecInterrupted, match="not known") as e:
                ctx.run_code(
                    "import os, time; os.write(1, b'so far'); time.sleep(300)",
                    timeout=400,
                    on_stdout=lambda _: os.kill(own.process.pid, signal.SIGKILL),
                )
            assert e.value.stdout == "so far"
            own.wait()
            with pytest.raises(APIConnectionError, match="pandastack serve"):
                ctx.run_code("1")
    finally:
        own.dispose()
