# SPDX-License-Identifier: Apache-2.0
"""Sessions in other languages than Python: JavaScript, bash, Jupyter kernels, in real machines."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator

import pytest

from harness import Api, Sandbox, Session
from harness.daemon import templates

MakeSession = Callable[..., Session]
STARTS_MS = 60_000
"""For what starts another program on a software CPU."""


@pytest.fixture
def js(session: MakeSession) -> Session:
    return session(language="javascript")


@pytest.fixture
def bash(session: MakeSession) -> Session:
    return session(language="bash")


def test_the_list(api: Api) -> None:
    assert api.call("GET", "/v1/repl/languages")[:3] == ["python", "javascript", "bash"]
    assert set(api.call("GET", "/v1/templates/code-interpreter")["languages"]) >= {"python", "javascript", "bash"}


def test_the_session_says_its_language(js: Session, bash: Session) -> None:
    listed = js.sandbox.sessions()
    assert (listed[js.id]["language"], listed[bash.id]["language"]) == ("javascript", "bash")
    assert js.created["language"] == "javascript"


# JavaScript


def test_javascript_state_values_and_await(js: Session) -> None:
    js.ok("const x = 41; let f = (n) => n + 1; class A { get v() { return 'é☕' } }")
    assert js.text("f(x)") == "42"
    assert js.text("const x = 1; x") == "1"
    assert js.text("await new Promise((r) => setTimeout(() => r(new A().v), 1))") == "'é☕'"
    got = js.ok("async function main() { console.log('a'); console.error('b'); return [1, {k: 2}] }\nmain()")
    assert (got["stdout"], got["stderr"]) == ("a\n", "b\n")
    assert got["results"] == [{"text/plain": "[ 1, { k: 2 } ]"}]


def test_javascript_modules(js: Session) -> None:
    assert js.text("const { join } = require('node:path'); join('a', 'b')") == "'a/b'"
    assert js.text("import { basename } from 'node:path'; basename('/x/y')") == "'y'"
    assert js.text("(await import('node:os')).EOL") == "'\\n'"
    js.ok("require('fs').writeFileSync('own.mjs', 'export const v = 7')")
    assert js.text("(await import('./own.mjs')).v") == "7"


def test_javascript_errors_leave_the_kernel(js: Session) -> None:
    js.ok("let kept = 1")
    got = js.run("function deep() {\n  throw new TypeError('bad ☕')\n}\ndeep()")
    assert (got["error_name"], got["error_value"], got["error_line"]) == ("TypeError", "bad ☕", 2)
    assert "Cell[2]:2" in got["error"]
    assert "javascript.mjs" not in got["error"]
    assert js.run("const = 1")["error_name"] == "SyntaxError"
    assert js.run("Promise.reject(new Error('late'))")["error_value"] == "late"
    assert js.run("process.exit(3)")["exit_code"] == 3
    assert js.text("kept") == "1"


def test_javascript_interrupt_and_timeout(js: Session) -> None:
    js.ok("let kept = 5")
    details = js.timeout("while (true);", 1)
    assert details["state_lost"] is False
    details = js.timeout("await new Promise(() => {})", 1)
    assert details["state_lost"] is False
    assert js.text("kept") == "5"


def test_javascript_death(js: Session) -> None:
    got = js.run("process.kill(process.pid, 'SIGKILL')")
    assert (got["status"], got["signal"], got["state_lost"]) == ("died", 9, True)
    assert js.ok("1")["kernel_restarted"] is True


def test_javascript_output_of_children_and_files(js: Session) -> None:
    got = js.ok(
        "require('child_process').execSync('echo child', {stdio: 'inherit'})\n"
        "require('fs').writeFileSync('out.txt', '')"
    )
    assert got["stdout"] == "child\n"
    assert got["files_changed"] == ["/workspace/out.txt"]


# bash


def test_bash_state(bash: Session) -> None:
    bash.ok("x=41; f() { echo $((x + $1)); }; cd /tmp; export Y=ü")
    got = bash.ok('f 1; pwd; echo "$Y"; python3 -c \'import os; print(os.environ["Y"])\'')
    assert got["stdout"] == "42\n/tmp\nü\nü\n"
    assert bash.ok("cat <<X\nhere $x\nX")["stdout"] == "here 41\n"


def test_bash_status(bash: Session) -> None:
    got = bash.run("echo out; echo err >&2; (exit 3)")
    assert (got["stdout"], got["stderr"], got["exit_code"]) == ("out\n", "err\n", 3)
    assert (got["error_name"], got["error_value"]) == ("ExitStatus", "3")
    assert "exit status 3" in got["error"]
    got = bash.run("no-such-command-anywhere")
    assert got["exit_code"] == 127
    got = bash.run("echo a\nif")
    assert "line 3" in got["stderr"] or "line 2" in got["stderr"]
    assert bash.run("set -e; false; echo never")["stdout"] == ""
    assert bash.ok("set +e; echo alive")["stdout"] == "alive\n"


def test_bash_interrupt_keeps_the_state_and_kills_what_runs(bash: Session) -> None:
    bash.ok("kept=1; sleep 1000 & job=$!")
    for code in ("while :; do :; done", "sleep 1000; touch /tmp/went-on", "wait"):
        details = bash.timeout(code, 1)
        assert details["state_lost"] is False, code
    assert bash.ok("echo $kept; kill -0 $job && echo job; test ! -e /tmp/went-on")["stdout"] == "1\njob\n"


def test_bash_exit_ends_the_shell(bash: Session) -> None:
    got = bash.run("x=1; exit 3")
    assert (got["status"], got["state_lost"]) == ("died", True)
    got = bash.ok("echo ${x-gone}")
    assert (got["stdout"], got["kernel_restarted"]) == ("gone\n", True)


def test_P9_environment_of_a_bash_session(session: MakeSession) -> None:
    s = session(language="bash", env={"A": "1"}, cwd="/tmp")
    assert s.ok("echo $A; pwd")["stdout"] == "1\n/tmp\n"
    assert s.ok("echo $A$B", env={"A": "2", "B": "3"})["stdout"] == "23\n"
    assert s.ok("echo $A${B-}")["stdout"] == "1\n"


# Jupyter kernels


@pytest.fixture(scope="module")
def ipykernel(box: Sandbox) -> Iterator[Session]:
    s = box.session(language="jupyter:python3")
    try:
        yield s
    finally:
        s.discard()


def test_jupyter_ipykernel(ipykernel: Session) -> None:
    ipykernel.ok("x = 41", timeout_ms=STARTS_MS)
    got = ipykernel.ok("print('out'); x + 1")
    assert got["stdout"] == "out\n"
    assert got["results"] == [{"text/plain": "42"}]
    got = ipykernel.run("1/0")
    assert got["error_name"] == "ZeroDivisionError"
    assert "\x1b" not in got["error"]
    assert "ipykernel" in ipykernel.text("type(get_ipython()).__module__")


def test_jupyter_interrupt_and_death(ipykernel: Session) -> None:
    ipykernel.ok("kept = 1", timeout_ms=STARTS_MS)
    assert ipykernel.timeout("import time\ntime.sleep(1000)", 1)["state_lost"] is False
    assert ipykernel.text("kept") == "1"
    got = ipykernel.run("import os; os.kill(os.getpid(), 9)")
    assert (got["status"], got["signal"]) == ("died", 9)
    assert ipykernel.ok("1", timeout_ms=STARTS_MS)["kernel_restarted"] is True


def test_jupyter_input(ipykernel: Session) -> None:
    with ipykernel.stream("input('name? ')", allow_stdin=True, timeout_ms=STARTS_MS) as events:
        shown = []
        for e in events:
            if e.name == "input_request":
                ipykernel.api.call("POST", f"{ipykernel.path}/input", want=204, json={"value": "Zoë"})
            if e.name == "result":
                shown.append(e.data["data"]["text/plain"])
    assert shown == ["'Zoë'"]


def test_jupyter_kernel_that_is_broken(box: Sandbox) -> None:
    box.write("/usr/local/share/jupyter/kernels/broken/kernel.json", '{"argv": ["/no/such"], "language": "none"}')
    try:
        answer = box.api.request("POST", f"{box.path}/repl/sessions", json={"language": "broken"})
        assert answer.status_code in (400, 500)
        assert "/no/such" in answer.json()["error"]
    finally:
        box.exec("rm -r /usr/local/share/jupyter/kernels/broken")


@pytest.mark.skipif(not (templates() / "r" / "current").exists(), reason="the template r is not built here")
def test_R(sandbox: Callable[..., Sandbox]) -> None:
    s = sandbox("r").session(language="R")
    s.ok("x <- 41", timeout_ms=STARTS_MS)
    got = s.ok("cat('out\\n'); x + 1", timeout_ms=STARTS_MS)
    assert got["stdout"] == "out\n"
    assert got["results"][0]["text/plain"] == "[1] 42"
    got = s.run("stop('bad')")
    assert "bad" in got["error"]
    got = s.ok("data.frame(a = 1:2, b = c('x', 'y'))", timeout_ms=STARTS_MS)
    assert "<table" in got["results"][0]["text/html"]
    got = s.ok("plot(1:3)", timeout_ms=STARTS_MS)
    assert base64.b64decode(got["results"][0]["image/png"]).startswith(b"\x89PNG")


def test_four_languages_side_by_side(session: MakeSession) -> None:
    """Sessions of different languages run in parallel and share the machine's files."""
    python, js, bash = session(), session(language="javascript"), session(language="bash")
    python.ok("open('/tmp/shared', 'w').write('from python')")
    assert js.text("require('fs').readFileSync('/tmp/shared', 'utf8')") == "'from python'"
    began = time.monotonic()
    with bash.stream("echo in; sleep 30") as events:
        assert next(events).name == "stdout"
        assert js.text("1 + 1") == "2"
        assert python.text("1 + 1") == "2"
    assert time.monotonic() - began < 30
