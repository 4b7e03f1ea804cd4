# SPDX-License-Identifier: Apache-2.0
"""Commands, buffered and streamed (P1 to P10)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from harness import Api, Daemon, Event, Sandbox, joined

Make = Callable[..., Sandbox]


def test_answer(box: Sandbox) -> None:
    got = box.exec("echo out; echo err >&2; exit 3")
    assert got["stdout"] == "out\n"
    assert got["stderr"] == "err\n"
    assert got["exit_code"] == 3
    assert 0 <= got["duration_ms"] < 30000
    assert got["timed_out"] is False
    assert got["truncated"] is False
    assert "signal" not in got


def test_shell_and_environment(box: Sandbox) -> None:
    assert box.output("cd /tmp && pwd && echo $((6*7)) | tee f && rm f") == "/tmp\n42\n"
    assert box.output("echo $HOME; id -un") == "/root\nroot\n"
    assert box.output("which python3 pip uv").split() == [f"/opt/venv/bin/{p}" for p in ("python3", "pip", "uv")]
    assert box.exec("which bash git curl node npm gcc")["exit_code"] == 0


def test_cwd_env_stdin_user(box: Sandbox) -> None:
    assert box.output("pwd", cwd="/usr/lib") == "/usr/lib\n"
    assert box.output('printf %s "$GREETING"', env={"GREETING": "a 'b' \"c\" $d é"}) == "a 'b' \"c\" $d é"
    assert box.output("cat", stdin="line\n☕") == "line\n☕"
    assert box.output("wc -c", stdin="x" * 200_000).strip() == "200000"
    assert box.output("id -un; echo $HOME", user="nobody").split()[0] == "nobody"
    # Not 404: to a client that means that the sandbox is gone.
    missing = box.api.refused(
        "POST", f"{box.path}/exec", 400, "request.invalid", json={"cmd": "true", "cwd": "/no/such/folder"}
    )
    assert "/no/such/folder" in missing["error"]
    unknown = box.api.refused(
        "POST", f"{box.path}/exec", 400, "request.invalid", json={"cmd": "true", "user": "nobody-here"}
    )
    assert "nobody-here" in unknown["error"]
    for streamed in ({"cwd": "/no/such/folder"}, {"user": "nobody-here"}):
        with box.stream("true", **streamed) as events:
            assert [(e.name, e.data["code"]) for e in events] == [("error", "request.invalid")]


def test_stdin_that_nobody_reads(box: Sandbox) -> None:
    assert box.exec("true", stdin="x" * 200_000)["exit_code"] == 0


@pytest.mark.parametrize("cmd", ["no-such-command-xyz", "/no/such/program"])
def test_command_that_does_not_exist(box: Sandbox, cmd: str) -> None:
    got = box.exec(cmd)
    assert got["exit_code"] == 127
    assert cmd in got["stderr"]


def test_not_executable(box: Sandbox) -> None:
    assert box.exec("/etc/passwd")["exit_code"] == 126


def test_P1_returns_when_the_shell_exits(box: Sandbox) -> None:
    for cmd in ("sleep 100 &", "setsid sleep 100 > /dev/null &", "sleep 100 & echo started"):
        began = time.monotonic()
        got = box.exec(cmd)
        took = time.monotonic() - began
        assert got["exit_code"] == 0
        assert took < 2, (cmd, took)  # 300 ms and what emulation on a busy machine costs
        assert got["stdout"] == ("started\n" if "echo" in cmd else "")
    assert box.exec("pkill -x sleep")["exit_code"] == 0


def test_P1_a_service_in_the_background_lives_on(box: Sandbox) -> None:
    """It writes to the pipe of a call that has long been answered, and must not die of that."""
    box.output("mkfifo /tmp/go /tmp/done")
    box.output("(read x < /tmp/go; for i in 1 2 3; do echo late $i; done; echo alive > /tmp/done) &")
    box.output("echo > /tmp/go", timeout_seconds=20)
    assert box.output("cat /tmp/done; rm /tmp/go /tmp/done", timeout_seconds=20) == "alive\n"


def test_P2_timeout_kills_the_whole_tree(box: Sandbox) -> None:
    began = time.monotonic()
    answer = box.api.refused(
        "POST",
        f"{box.path}/exec",
        504,
        "timeout",
        json={
            "cmd": "echo before; sleep 300 & setsid sleep 301 & setsid setsid nohup sleep 302 & wait",
            "timeout_seconds": 1,
        },
    )
    took = time.monotonic() - began
    assert 0.9 <= took < 5, took
    assert answer["error"] == "command timeout after 1s"
    assert answer["details"]["stdout"] == "before\n"
    assert answer["details"]["timed_out"] is True
    assert box.exec("pgrep -a sleep")["stdout"] == ""


def test_P2_timeout_of_a_fraction(box: Sandbox) -> None:
    began = time.monotonic()
    box.api.refused("POST", f"{box.path}/exec", 504, "timeout", json={"cmd": "sleep 60", "timeout_seconds": 0.5})
    assert 0.4 <= time.monotonic() - began < 4


@pytest.mark.parametrize(
    ("cmd", "code", "signal"),
    [
        ("kill -9 $$", 137, 9),
        ("kill -SEGV $$", 139, 11),
        ("kill -TERM $$", 143, 15),
        ("python3 -c 'import ctypes; ctypes.string_at(0)'", 139, None),
    ],
)
def test_P3_signals(box: Sandbox, cmd: str, code: int, signal: int | None) -> None:
    got = box.exec(cmd)
    assert got["exit_code"] == code
    if signal:
        assert got["signal"] == signal
    exits = [e for e in streamed(box, cmd) if e.name == "exit"]
    assert exits[0].data["exit_code"] == code


def test_P4_stdin_is_at_its_end(box: Sandbox) -> None:
    began = time.monotonic()
    assert box.output("cat; python3 -c 'import sys; print(repr(sys.stdin.read()))'") == "''\n"
    assert time.monotonic() - began < 20
    for cmd in ("read x; echo $?", "cat | wc -c"):
        assert box.output(cmd).strip() in ("1", "0")


def test_P6_unicode_across_reads(box: Sandbox) -> None:
    assert box.output('python3 -c \'print("☕" * 100_000, end="")\'') == "☕" * 100_000
    halves = r"printf '\342\230'; sleep 0.02; printf '\225\n'"
    assert box.output(halves) == "☕\n"
    text = "".join(e.data["chunk"] for e in streamed(box, halves) if e.name == "stdout")
    assert text == "☕\n"
    many = "".join(
        e.data["chunk"] for e in streamed(box, "python3 -c 'print(\"☕\" * 100_000)'") if e.name == "stdout"
    )
    assert many == "☕" * 100_000 + "\n"


def test_P6_invalid_bytes_are_replaced_once(box: Sandbox) -> None:
    assert box.output(r"printf 'a\377b\300\n'") == "a\ufffdb\ufffd\n"
    assert box.output(r"printf 'cut \342\230'") == "cut \ufffd"


def test_P7_orphans_leave_no_zombie(box: Sandbox) -> None:
    box.output("for i in $(seq 200); do (sh -c 'true &' &) ; done; wait")
    # The last of them may be on their way out still.
    box.output("until ! ps -eo stat= | grep -q ^Z; do :; done", timeout_seconds=30)


def test_P9_environment_for_one_call(sandbox: Make) -> None:
    s = sandbox(env={"LEVEL": "create", "KEPT": "yes"})
    kernel = s.session(env={"OF_SESSION": "1"})
    show = "import os; [os.environ.get(k) for k in ('LEVEL', 'KEPT', 'OF_SESSION')]"
    assert s.output("echo $LEVEL $KEPT") == "create yes\n"
    assert kernel.text(show) == "['create', 'yes', '1']"
    assert s.output("echo $LEVEL $KEPT", env={"LEVEL": "call"}) == "call yes\n"
    assert s.output("echo $LEVEL") == "create\n"
    assert kernel.text(show, env={"LEVEL": "call"}) == "['call', 'yes', '1']"
    assert kernel.text(show) == "['create', 'yes', '1']"
    assert kernel.text("!echo $LEVEL\n1", env={"LEVEL": "call"}) == "1"
    kernel.restart()
    assert kernel.text(show) == "['create', 'yes', '1']"


def test_output_over_the_cap_is_cut_and_says_so(box: Sandbox) -> None:
    got = box.exec("head -c 3000000 /dev/zero | tr '\\0' x; echo err >&2")
    assert got["truncated"] is True
    assert got["output_bytes"]["stdout"] == 3_000_000
    assert got["stdout"].startswith("x" * 1_000_000)
    assert len(got["stdout"]) < 1_100_000
    assert got["stdout"][-300:].strip("x") != "", "the text itself says that it was cut"
    assert got["stderr"] == "err\n"


def test_both_pipes_full_at_once(box: Sandbox) -> None:
    got = box.exec('python3 -c \'import os\nfor i in range(200): os.write(1, b"o"*1000); os.write(2, b"e"*1000)\'')
    assert (len(got["stdout"]), len(got["stderr"])) == (200_000, 200_000)


def test_commands_in_parallel(box: Sandbox) -> None:
    """Eight that wait for each other: they must run at the same time."""
    box.output("rm -rf /tmp/meet; mkdir /tmp/meet; mkfifo /tmp/meet/gate")
    answers: list[str] = []

    def arrive(i: int) -> None:
        answers.append(box.output(f"touch /tmp/meet/{i}; cat /tmp/meet/gate; echo {i}", timeout_seconds=60))

    threads = [threading.Thread(target=arrive, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    box.output(
        "until [ $(ls /tmp/meet | wc -l) = 9 ]; do sleep 0.05; done; exec 3>/tmp/meet/gate; sleep 0.2",
        timeout_seconds=60,
    )
    for t in threads:
        t.join()
    assert sorted(answers) == [f"{i}\n" for i in range(8)]
    box.output("rm -r /tmp/meet")


# ---- streams ----


def streamed(box: Sandbox, cmd: str, **body: object) -> list[Event]:
    with box.stream(cmd, **body) as events:
        return list(events)


def test_stream(box: Sandbox) -> None:
    events = streamed(box, "echo out; sleep 0.1; echo err >&2; sleep 0.1; echo more; exit 5")
    assert joined(events) == [("stdout", "out\n"), ("stderr", "err\n"), ("stdout", "more\n")]
    assert events[-1].name == "exit"
    assert events[-1].data["exit_code"] == 5


def test_stream_comes_while_the_command_runs(box: Sandbox) -> None:
    box.output("mkfifo /tmp/next")
    with box.stream("exec 3<>/tmp/next; for i in 1 2 3; do echo $i; read x <&3; done") as events:
        for i in (1, 2, 3):
            assert next(events).data["chunk"] == f"{i}\n"
            box.output("echo > /tmp/next", timeout_seconds=20)
        assert next(events).name == "exit"
        assert list(events) == []
    box.output("rm /tmp/next")


def test_stream_headers(box: Sandbox) -> None:
    with box.api.request("POST", f"{box.path}/exec/stream", json={"cmd": "true"}, stream=True) as response:
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-cache"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert response.headers["Transfer-Encoding"] == "chunked"


def test_stream_of_much(box: Sandbox) -> None:
    total = 0
    with box.stream("head -c 20000000 /dev/zero | tr '\\0' y") as events:
        for e in events:
            total += len(e.data.get("chunk", ""))
            last = e
    assert total == 20_000_000
    assert last.data["exit_code"] == 0


def test_stream_timeout_is_an_event(box: Sandbox) -> None:
    events = streamed(box, "echo hi; sleep 300", timeout_seconds=1)
    assert events[0].data["chunk"] == "hi\n"
    assert events[-1].name == "error"
    assert "timeout" in events[-1].data["error"]


def test_stream_says_something_while_the_command_is_silent(box: Sandbox) -> None:
    """Clients give up after 30 s of silence; a comment comes before."""
    with box.api.request(
        "POST", f"{box.path}/exec/stream", json={"cmd": "sleep 18"}, stream=True, timeout=17
    ) as response:
        body = b"".join(response.iter_content(chunk_size=None))
    assert b"\n:" in b"\n" + body
    assert b"event: exit\n" in body


def test_a_client_that_leaves_kills_its_command(box: Sandbox) -> None:
    box.output("mkfifo /tmp/leave")
    with box.stream("exec 3<>/tmp/leave; setsid sleep 300 & echo up; sleep 300") as events:
        assert next(events).data["chunk"] == "up\n"
    until_dead = "while pgrep -x sleep >/dev/null; do :; done; rm /tmp/leave; echo gone"
    assert box.output(until_dead, timeout_seconds=20) == "gone\n"


def test_a_client_that_leaves_a_buffered_call_kills_its_command(box: Sandbox) -> None:
    with pytest.raises(Exception, match="timed out"):
        box.api.request("POST", f"{box.path}/exec", json={"cmd": "sleep 311"}, timeout=1)
    until_dead = "while pgrep -f 'sleep 31[1]' >/dev/null; do :; done; echo gone"
    assert box.output(until_dead, timeout_seconds=20) == "gone\n"


def test_a_slow_reader_stops_nobody_else(box: Sandbox, api: Api) -> None:
    with box.stream("yes slow | head -c 50000000") as events:
        assert next(events).name == "stdout"
        assert box.output("echo quick") == "quick\n"
        session = box.session()
        assert session.text("1 + 1") == "2"
        session.delete()


def test_P10_the_machine_dies_under_a_stream(daemon: Daemon, sandbox: Make) -> None:
    s = sandbox()
    with s.stream("echo up; sleep 300") as events:
        assert next(events).data["chunk"] == "up\n"
        began = time.monotonic()
        os.kill(daemon.vm_of(s.id), signal.SIGKILL)
        rest = list(events)
    assert time.monotonic() - began < 1.5
    assert rest[-1].name == "error"
    assert "signal 9" in rest[-1].data["error"]
    info = s.info()
    assert info["status"] == "failed"
    assert "signal 9" in info["failure"]
    refused = s.api.refused("POST", f"{s.path}/exec", 503, "sandbox.failed", json={"cmd": "true"})
    assert "signal 9" in refused["error"]
