# SPDX-License-Identifier: Apache-2.0
"""Output and results of cells: the cases that other tools got wrong (K1 to K23)."""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Callable

import pytest

from harness import Event, Sandbox, Session, joined

MakeSession = Callable[..., Session]


def streamed(kernel: Session, code: str, **body: object) -> list[Event]:
    with kernel.stream(code, **body) as events:
        return list(events)


def text_of(events: list[Event], name: str = "stdout") -> str:
    return "".join(e.data["chunk"] for e in events if e.name == name)


def pngs(answer: dict[str, list[dict[str, str]]]) -> list[bytes]:
    return [base64.b64decode(r["image/png"]) for r in answer["results"] if "image/png" in r]


def test_K1_much_output_is_cut_with_a_word(kernel: Session) -> None:
    got = kernel.ok('print("x" * 22_000_000)', timeout_ms=120_000)
    assert got["truncated"] is True
    assert got["output_bytes"]["stdout"] == 22_000_001
    assert 1_000_000 <= len(got["stdout"]) < 1_200_000
    assert got["stdout"].lstrip("x").strip() != "", "the text itself says that it was cut"


def test_K1_a_stream_has_every_byte(kernel: Session) -> None:
    total = 0
    with kernel.stream('print("x" * 22_000_000)', timeout_ms=120_000) as events:
        for e in events:
            total += len(e.data.get("chunk", ""))
            last = e
    assert total == 22_000_001
    assert last.data["status"] == "ok"


def test_K2_ten_thousand_flushes(kernel: Session) -> None:
    code = "import sys\nfor i in range(10_000):\n    sys.stdout.write(f'{i}\\n'); sys.stdout.flush()\nprint('hi')"
    want = "".join(f"{i}\n" for i in range(10_000)) + "hi\n"
    assert kernel.ok(code, timeout_ms=120_000)["stdout"] == want
    assert text_of(streamed(kernel, code, timeout_ms=120_000)) == want


def test_K3_binary_and_both_pipes(kernel: Session) -> None:
    got = kernel.ok("!head -c 118000 /dev/urandom")
    assert "\ufffd" in got["stdout"]
    got = kernel.ok(r"!printf 'a\377b\376\375c'")
    assert got["stdout"] == "a\ufffdb\ufffd\ufffdc"
    both = "import os\nfor i in range(200): os.write(1, b'o' * 1000); os.write(2, b'e' * 1000)"
    got = kernel.ok(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', '''{both}'''])\nNone")
    assert (len(got["stdout"]), len(got["stderr"])) == (200_000, 200_000)


def test_K4_c_code_that_fills_the_pipe_and_holds_the_gil(kernel: Session) -> None:
    code = 'import ctypes\nn = ctypes.PyDLL(None).printf(b"1" * 100_000)\nctypes.PyDLL(None).fflush(None)\nn'
    got = kernel.ok(code)
    assert got["stdout"].count("1") == 100_000
    assert got["results"][-1]["text/plain"] == "100000"
    details = kernel.timeout("import ctypes\nwhile True: ctypes.PyDLL(None).printf(b'1' * 100_000)", 1)
    assert details["stdout"].startswith("111")
    assert kernel.text("n") == "100000", "an interrupt kept the state"


def test_K5_output_below_python(kernel: Session) -> None:
    assert "HI\n" in kernel.ok('import os; os.system("echo HI"); None')["stdout"]
    assert kernel.ok("os.write(1, b'raw\\n'); None")["stdout"] == "raw\n"
    got = kernel.ok("import ctypes; libc = ctypes.CDLL(None); libc.puts(b'from C'); libc.fflush(None); None")
    assert got["stdout"] == "from C\n"


def test_K7_order_of_the_two_streams(kernel: Session) -> None:
    code = "import sys\nfor i in range(4): print(i, file=(sys.stderr, sys.stdout)[i % 2])"
    events = streamed(kernel, code)
    seqs = [e.data["seq"] for e in events]
    assert seqs == sorted(seqs)
    assert len(set(seqs)) == len(seqs)
    assert joined(events) == [("stderr", "0\n"), ("stdout", "1\n"), ("stderr", "2\n"), ("stdout", "3\n")]


def test_K8_display_between_prints(kernel: Session) -> None:
    events = streamed(kernel, 'print("a"); display(1); print("b")')
    assert joined(events) == [("stdout", "a\n"), ("result", "1"), ("stdout", "b\n")]
    assert kernel.ok('print("a"); display(1); print("b")')["results"] == [{"text/plain": "1"}]


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("fig = plt.figure(); plt.plot([1]); fig", 1),
        ("plt.plot([1]);", 1),
        ("plt.plot([1])", 1),
        ("for i in range(3):\n    plt.figure(); plt.plot([i]); plt.show()", 3),
        ("for i in range(3):\n    plt.figure(); plt.plot([i])", 3),
        ("fig, ax = plt.subplots(); ax.plot([1]); plt.close(fig)", 0),
        ("x = 1", 0),
    ],
)
def test_K10_a_figure_is_shown_once(kernel: Session, code: str, count: int) -> None:
    kernel.ok("import matplotlib.pyplot as plt")
    assert len(pngs(kernel.ok(code))) == count


def test_K10_first_text_is_not_that_of_the_figure(kernel: Session) -> None:
    kernel.ok("import matplotlib.pyplot as plt")
    got = kernel.ok("plt.plot([1]); plt.show()\n'the value'")
    assert next(r["text/plain"] for r in got["results"] if "text/plain" in r) == "'the value'"


def test_K11_bars(kernel: Session) -> None:
    got = kernel.ok("import matplotlib.pyplot as plt\nplt.figure(); plt.bar(['a', 'b'], [1, 2]); plt.show()")
    (png,) = pngs(got)
    width, height = struct.unpack(">II", png[16:24])
    assert width > 300
    assert height > 200


def test_K14_dataframe_with_missing_values(kernel: Session) -> None:
    got = kernel.ok(
        "import numpy as np, pandas as pd\n"
        "c = pd.array([1, None, 3], dtype='Int64')\n"
        "pd.DataFrame({'a': [1.5, np.nan, np.inf], 'b': [pd.NA, None, 'x'], 'c': c})"
    )
    result = got["results"][0]
    assert got["stderr"] == ""
    assert "<table" in result["text/html"]
    assert "NaN" in result["text/html"]
    assert "NaN" in result["text/plain"]
    for mime, value in result.items():
        if "json" in mime:
            json.loads(value, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_K16_updates_of_a_display(kernel: Session) -> None:
    code = "h = display('first', display_id='a')\nprint('x')\nh.update('second')"
    events = streamed(kernel, code)
    shown = [e.data for e in events if e.name == "result"]
    assert [d["data"]["text/plain"] for d in shown] == ["'first'", "'second'"]
    assert shown[0]["display_id"] == shown[1]["display_id"] == "a"
    assert shown[1]["update"] is True
    assert [r["text/plain"] for r in kernel.ok(code)["results"]] == ["'second'"]


def test_K16_clear_output_in_a_loop(kernel: Session) -> None:
    code = (
        "from IPython.display import clear_output\n"
        "for i in range(5):\n    clear_output(wait=True); print(i); display(i)"
    )
    got = kernel.ok(code)
    assert got["stdout"] == "4\n"
    assert got["results"] == [{"text/plain": "4"}]
    events = streamed(kernel, code)
    assert [e.name for e in events].count("clear_output") == 5
    assert text_of(events) == "0\n1\n2\n3\n4\n"
    assert kernel.ok("print('gone'); clear_output()")["stdout"] == ""


def test_K17_traceback_without_colours(kernel: Session) -> None:
    for code in ("1/0", 'raise ValueError("é\\x1b[31m")'):
        got = kernel.run(code)
        assert "\x1b" not in got["error"].replace("\\x1b", "")
        assert got["status"] == "error"
    assert "é" in got["error"]
    assert "[31m" in got["error"], "the user's own bytes are escaped, not lost"
    assert got["error_name"] == "ValueError"
    assert "\x1b" in kernel.run("1/0", ansi=True)["error"]


def test_K18_await_and_asyncio_run(kernel: Session) -> None:
    assert kernel.text("import asyncio\nawait asyncio.sleep(0); 1") == "1"
    got = kernel.run("async def f(): return 2\nasyncio.run(f())")
    if got["status"] == "ok":
        assert got["results"] == [{"text/plain": "2"}]
    else:
        assert got["error_name"] == "RuntimeError"
    assert kernel.text("await f()") == "2"


def test_K19_input_fails_at_once(kernel: Session) -> None:
    began = time.monotonic()
    got = kernel.run('input("name?")')
    assert time.monotonic() - began < 10
    assert got["status"] == "error"
    assert "input" in got["error"]
    assert kernel.text("1") == "1"
    assert kernel.run("import sys; sys.stdin.read()")["status"] in ("ok", "error")


@pytest.mark.parametrize(("code", "exit_code"), [("import sys; sys.exit(3)", 3), ("exit()", 0), ("quit()", 0)])
def test_K20_exit_keeps_the_variables(kernel: Session, code: str, exit_code: int) -> None:
    kernel.ok("kept = 1")
    got = kernel.run(code)
    assert got["error_name"] == "SystemExit"
    assert got["exit_code"] == (exit_code or 1)
    assert got["state_lost"] is False
    assert kernel.text("kept") == "1"


@pytest.mark.parametrize(
    ("code", "signal", "words"),
    [
        ("import os; os._exit(3)", None, "code 3"),
        ("import os; os.kill(os.getpid(), 11)", 11, "signal 11"),
        ("import ctypes; ctypes.string_at(0)", 11, "signal 11"),
        ("import os; os.kill(os.getpid(), 9)", 9, "signal 9"),
    ],
)
def test_K20_death_of_the_kernel(kernel: Session, code: str, signal: int | None, words: str) -> None:
    kernel.ok("kept = 1")
    got = kernel.run(f"print('last words')\n{code}")
    assert got["status"] == "died"
    assert got["exit_code"] == (1 if signal else 3)
    assert got["stdout"] == "last words\n"
    assert got["state_lost"] is True
    assert words in got["reason"]
    assert words in got["error"]
    assert got.get("signal") == signal
    again = kernel.run("kept")
    assert again["kernel_restarted"] is True
    assert again["error_name"] == "NameError"
    assert kernel.ok("1")["kernel_restarted"] is False


def test_K21_memory(box: Sandbox, kernel: Session) -> None:
    assert kernel.run("bytearray(10**12)")["error_name"] == "MemoryError"
    kernel.ok("kept = 1")
    got = kernel.run("blocks = []\nwhile True: blocks.append(bytearray(b'x') * 10_000_000)", timeout_ms=120_000)
    assert got["status"] == "oom", got
    assert got["state_lost"] is True
    assert "memory" in got["error"]
    assert box.info()["status"] == "running"
    assert box.output("echo alive") == "alive\n"
    again = kernel.ok("1")
    assert again["kernel_restarted"] is True


def test_K22_fonts(kernel: Session) -> None:
    got = kernel.ok(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.title('中文 العربية 😀 日本語'); plt.show()",
        timeout_ms=60_000,
    )
    assert len(pngs(got)) == 1
    assert got["stderr"] == "", "no warning about a glyph"


def test_K23_the_cell_is_not_prefixed(kernel: Session) -> None:
    assert kernel.ok("%%bash\necho $WORD", env={"WORD": "of the call"})["stdout"] == "of the call\n"
    assert kernel.ok("from __future__ import annotations\nx: Unknown = 1", env={"A": "b"})["status"] == "ok"
    got = kernel.run("1/0", env={"A": "b"})
    assert got["error_line"] == 1
    assert "line 1" in got["error"] or "----> 1" in got["error"]


def test_html_js_and_latex(kernel: Session) -> None:
    got = kernel.ok(
        "from IPython.display import HTML, Latex, Markdown, SVG, display\n"
        "display(HTML('<b>h</b>'), Markdown('*m*'), Latex('$l$'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))"
    )
    kinds = [set(r) for r in got["results"]]
    for kind, mime in zip(kinds, ("text/html", "text/markdown", "text/latex", "image/svg+xml"), strict=True):
        assert mime in kind


def test_plotly(kernel: Session) -> None:
    got = kernel.ok("import plotly.express as px\npx.bar(x=['a', 'b'], y=[1, 2])", timeout_ms=120_000)
    kinds = set().union(*got["results"])
    assert kinds & {"text/html", "image/png", "application/vnd.plotly.v1+json"}, kinds


def test_warnings_and_logging_are_stderr(kernel: Session) -> None:
    got = kernel.ok("import logging, warnings\nwarnings.warn('careful')\nlogging.getLogger('x').warning('logged')")
    assert "careful" in got["stderr"]
    assert "logged" in got["stderr"]
    assert got["stdout"] == ""


def test_output_of_a_thread_after_its_cell(kernel: Session) -> None:
    """What comes late is not lost: it is in the next cell."""
    kernel.ok(
        "import os, threading\nr, w = os.pipe()\n"
        "t = threading.Thread(target=lambda: (os.read(r, 1), print('late')))\nt.start()"
    )
    got = kernel.ok("os.write(w, b'x'); t.join()")
    assert got["stdout"] == "late\n"


def test_a_huge_message_of_an_error_costs_only_its_middle(kernel: Session) -> None:
    kernel.ok("kept = 'x' * (33 << 20)")
    got = kernel.run("raise ValueError('bad reply: ' + kept)", timeout_ms=120_000)
    assert (got["status"], got["error_name"], got["state_lost"]) == ("error", "ValueError", False)
    for text in (got["error"], got["error_value"]):
        assert " characters left out ...]" in text
        assert 1_000_000 < len(text) < 1_200_000
    assert got["error_value"].startswith("bad reply: x")
    assert kernel.text("len(kept)") == str(33 << 20)


def test_a_result_too_large_for_an_event_is_told(kernel: Session) -> None:
    code = "from IPython.display import display\nkept = 'x' * (33 << 20)\ndisplay(1, metadata={'note': kept})"
    got = kernel.ok(code, timeout_ms=120_000)
    assert (got["truncated"], got["results"]) == (True, [])
    assert [e.name for e in streamed(kernel, code, timeout_ms=120_000)] == ["truncated", "exit"]
    assert kernel.text("len(kept)") == str(33 << 20)
