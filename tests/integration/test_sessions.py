# SPDX-License-Identifier: Apache-2.0
"""Kernels: state, values, output, tracebacks, rich results; and code without a session."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable

import pytest

from harness import Api, Sandbox, Session

MakeSession = Callable[..., Session]


def test_create_list_delete(box: Sandbox, api: Api) -> None:
    s = box.session(language="python")
    assert s.created["session_id"] == s.id
    assert s.created["sandbox_id"] == box.id
    assert s.created["language"] == "python"
    assert s.created["created_at"].endswith("Z")
    s.ok("1")
    s.ok("2")
    listed = box.sessions()[s.id]
    assert listed["cells"] == 2
    assert listed["running"] is False
    assert listed["created_at"] == s.created["created_at"]
    s.delete()
    assert s.id not in box.sessions()
    for method, path, body in (
        ("POST", f"{s.path}/run", {"code": "1"}),
        ("DELETE", s.path, None),
        ("POST", f"{s.path}/interrupt", None),
        ("POST", f"{s.path}/restart", None),
    ):
        api.refused(method, path, 404, "session.not_found", json=body)


@pytest.mark.parametrize("language", ["python", "Python", "py", "python3"])
def test_names_of_the_language(session: MakeSession, language: str) -> None:
    assert session(language=language).text("6 * 7") == "42"


def test_language_without_a_kernel(box: Sandbox) -> None:
    answer = box.api.refused("POST", f"{box.path}/repl/sessions", 400, "request.invalid", json={"language": "cobol"})
    assert "cobol" in answer["error"]
    assert "python" in answer["error"]


def test_state_persists(kernel: Session) -> None:
    kernel.ok("import math\nx = 41\ndef f(n):\n    return n + 1")
    assert kernel.text("f(x)") == "42"
    assert kernel.text("math.floor(math.pi)") == "3"


def test_sessions_do_not_share(session: MakeSession) -> None:
    a, b = session(), session()
    a.ok("x = 1")
    assert b.run("x")["error_name"] == "NameError"


def test_shape_of_an_answer(kernel: Session) -> None:
    got = kernel.ok("import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
    assert got["stdout"] == "out\n"
    assert got["stderr"] == "err\n"
    assert got["results"] == [{"text/plain": "42"}]
    assert got["execution_count"] == 1
    assert got["duration_ms"] >= 0
    assert got["truncated"] is False
    assert got["kernel_restarted"] is False
    assert got["state_lost"] is False


def test_value_of_the_last_expression_only(kernel: Session) -> None:
    assert kernel.ok("1\n2\n3")["results"] == [{"text/plain": "3"}]
    assert kernel.ok("x = 1")["results"] == []
    assert kernel.ok("None")["results"] == []
    assert kernel.ok("5;")["results"] == []
    assert kernel.ok("print(1)")["results"] == []
    assert kernel.text("_ + 1" if kernel.ok("41") else "") == "42"
    assert kernel.ok("")["results"] == []
    assert kernel.ok("# nothing")["results"] == []


def test_traceback(kernel: Session) -> None:
    got = kernel.run("def f():\n    return 1 / 0\n\nprint('before')\nf()")
    assert got["status"] == "error"
    assert got["exit"] == got["exit_code"] == 1
    assert got["stdout"] == "before\n"
    assert got["error_name"] == "ZeroDivisionError"
    assert got["error_value"] == "division by zero"
    assert "Traceback (most recent call last)" in got["error"]
    assert "return 1 / 0" in got["error"]
    assert got["error"].rstrip().endswith("ZeroDivisionError: division by zero")
    assert kernel.text("'alive'") == "'alive'"


def test_syntax_error(kernel: Session) -> None:
    got = kernel.run("x = = 1")
    assert got["error_name"] == "SyntaxError"
    assert "x = = 1" in got["error"]


def test_name_error_as_the_guide_has_it(kernel: Session) -> None:
    assert "NameError: name 'pd' is not defined" in kernel.run("pd.DataFrame()")["error"]
    assert kernel.ok("import pandas as pd\npd.DataFrame()")["results"]


def test_png_of_matplotlib(kernel: Session) -> None:
    got = kernel.ok("import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.title('t')\nplt.show()")
    pngs = [base64.b64decode(r["image/png"]) for r in got["results"] if "image/png" in r]
    assert len(pngs) == 1
    assert pngs[0].startswith(b"\x89PNG\r\n\x1a\n")
    assert pngs[0].endswith(b"IEND\xaeB`\x82")
    assert len(pngs[0]) > 3000
    assert got["stderr"] == ""


def test_html_of_pandas(kernel: Session) -> None:
    got = kernel.ok("import pandas as pd\npd.DataFrame({'city': ['Zürich', '<b>'], 'n': [1, 2]})")
    result = got["results"][0]
    assert "<table" in result["text/html"]
    assert "Zürich" in result["text/html"]
    assert "&lt;b&gt;" in result["text/html"]
    assert "Zürich" in result["text/plain"]


def test_values_of_a_bundle_are_text(kernel: Session) -> None:
    got = kernel.ok("from IPython.display import JSON, display\ndisplay(JSON({'a': [1, None]}))\n1")
    for result in got["results"]:
        assert all(isinstance(v, str) for v in result.values())
    found = next(r["application/json"] for r in got["results"] if "application/json" in r)
    assert json.loads(found) == {"a": [1, None]}


def test_shell_and_magics(kernel: Session) -> None:
    assert kernel.ok("!echo from the shell")["stdout"] == "from the shell\n"
    assert kernel.text("files = !ls /etc/passwd\nlist(files)") == "['/etc/passwd']"
    assert kernel.ok("%%bash\necho $((6*7))")["stdout"] == "42\n"
    assert kernel.ok("%pip --version")["stdout"].startswith("pip ")
    assert kernel.ok("!pip --version")["stdout"].split("from ")[1].startswith("/opt/venv/")


def test_cwd_and_env_of_a_session(session: MakeSession) -> None:
    s = session(cwd="/usr/lib", env={"WORD": "☕"})
    assert s.text("import os; (os.getcwd(), os.environ['WORD'])") == "('/usr/lib', '☕')"


def test_files_of_exec_are_those_of_cells(box: Sandbox, kernel: Session) -> None:
    box.write("/tmp/shared.csv", "a,b\n1,2\n")
    assert kernel.text("import pandas as pd; pd.read_csv('/tmp/shared.csv').b.sum()") in ("2", "np.int64(2)")
    kernel.ok("open('/tmp/back.txt', 'w').write('from the cell')")
    assert box.read("/tmp/back.txt") == b"from the cell"


def test_default_folder_is_that_of_exec(box: Sandbox, kernel: Session) -> None:
    assert kernel.text("import os; os.getcwd()") == repr(box.output("pwd").strip())


def test_interrupt_from_another_connection(kernel: Session) -> None:
    kernel.ok("x = 7")
    with kernel.stream("print('in', flush=True)\nwhile True: pass") as events:
        assert next(events).data["chunk"].startswith("in")
        assert kernel.sandbox.sessions()[kernel.id]["running"] is True
        assert kernel.interrupt() == {"interrupted": True}
        rest = list(events)
    assert rest[-1].name == "exit"
    assert rest[-1].data["status"] == "interrupted"
    assert rest[-1].data["state_lost"] is False
    assert any(e.name == "error" and "KeyboardInterrupt" in e.data["error"] for e in rest)
    assert kernel.text("x") == "7"
    assert kernel.interrupt() == {"interrupted": False}


def test_restart_forgets(kernel: Session) -> None:
    kernel.ok("x = 1")
    kernel.restart()
    assert kernel.run("x")["error_name"] == "NameError"


def test_cells_of_one_session_queue(kernel: Session) -> None:
    kernel.ok("import time; seen = []")
    threads = [
        threading.Thread(target=kernel.ok, args=(f"seen.append({i}); time.sleep(0.2); seen.append({i})",))
        for i in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seen = eval(kernel.text("seen"))
    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(seen[i] == seen[i + 1] for i in range(0, 8, 2)), seen


def test_sessions_run_in_parallel(box: Sandbox, session: MakeSession) -> None:
    a, b = session(), session()
    box.output("mkfifo /tmp/between")
    results: list[str] = []
    reader = threading.Thread(target=lambda: results.append(a.text("open('/tmp/between').read()")))
    reader.start()
    b.ok("with open('/tmp/between', 'w') as f: f.write('hello')")
    reader.join()
    assert results == ["'hello'"]
    box.output("rm /tmp/between")


def test_nine_sessions_are_too_many(api: Api, sandbox: Callable[..., Sandbox]) -> None:
    s = sandbox()
    made = [s.session() for _ in range(8)]
    refused = api.refused("POST", f"{s.path}/repl/sessions", 429, "limit.reached", json={})
    assert "8" in refused["error"]
    made[0].delete()
    assert s.session().text("1") == "1"


# ---- code without a session ----


def test_one_shot_python(box: Sandbox) -> None:
    before = box.sessions()
    got = box.repl("x = 6\nprint('hi')\nx * 7", language="python")
    assert got["language"] == "python"
    assert got["stdout"] == "hi\n"
    assert got["results"] == [{"text/plain": "42"}]
    assert got["exit_code"] == 0
    assert box.repl("x")["error_name"] == "NameError"
    assert box.sessions() == before


def test_one_shot_default_is_python(box: Sandbox) -> None:
    assert box.repl("import sys; sys.version_info.major")["results"] == [{"text/plain": "3"}]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("bash", "echo $((6*7)); [[ a == a ]] && exit 3"),
        ("sh", "echo 42; exit 3"),
        ("javascript", "console.log(6*7); process.exit(3)"),
        ("js", "console.log(42); process.exit(3)"),
    ],
)
def test_one_shot_other_languages(box: Sandbox, language: str, code: str) -> None:
    got = box.repl(code, language=language)
    assert (got["stdout"], got["exit_code"]) == ("42\n", 3)


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; print(os.getcwd(), os.environ['A'])"),
        ("bash", "echo $PWD $A"),
        ("javascript", "console.log(process.cwd(), process.env.A)"),
    ],
)
def test_cwd_and_env_of_a_one_shot(box: Sandbox, language: str, code: str) -> None:
    assert box.repl(code, language=language, cwd="/usr/lib", env={"A": "☕"})["stdout"] == "/usr/lib ☕\n"
    body = {"code": code, "language": language, "cwd": 1}
    assert "cwd" in box.api.refused("POST", f"{box.path}/repl", 400, "request.invalid", json=body)["error"]


def test_one_shot_language_that_is_unknown(box: Sandbox) -> None:
    box.api.refused("POST", f"{box.path}/repl", 400, "request.invalid", json={"language": "cobol", "code": "x"})


def test_languages(api: Api) -> None:
    assert set(api.call("GET", "/v1/repl/languages")) >= {"python", "bash", "javascript"}


def test_one_shot_times_out_and_is_gone(box: Sandbox) -> None:
    before = box.sessions()
    box.api.refused("POST", f"{box.path}/repl", 504, "timeout", json={"code": "while True: pass", "timeout_ms": 1000})
    assert box.sessions() == before


def test_unicode_code_and_output(kernel: Session) -> None:
    assert kernel.ok("größe = '☕\\u2028🎉'\nprint(größe)")["stdout"] == "☕\u2028🎉\n"
    with kernel.stream("print(größe, end='')") as events:
        assert "".join(e.data["chunk"] for e in events if e.name == "stdout") == "☕\u2028🎉"


def test_large_cell(kernel: Session) -> None:
    assert kernel.text("len('" + "é" * 2_000_000 + "')", timeout_ms=120_000) == "2000000"


def test_result_of_a_megabyte(kernel: Session) -> None:
    got = kernel.ok("'x' * 1_000_000")
    assert got["results"] == [{"text/plain": "'" + "x" * 1_000_000 + "'"}]
