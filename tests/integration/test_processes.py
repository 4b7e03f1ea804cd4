# SPDX-License-Identifier: Apache-2.0
"""Commands in the background: start, output, stdin, signals, the end, and what they outlive."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from harness import Daemon, Sandbox
from harness.api import Process, joined

Make = Callable[..., Sandbox]
MakeDaemon = Callable[..., Daemon]
Start = Callable[..., Process]
FOREVER = "exec sleep 1000"


@pytest.fixture
def start(box: Sandbox) -> Iterator[Start]:
    """A factory of processes in the module's sandbox that end with the test."""
    made: list[Process] = []

    def make(cmd: str, **body: Any) -> Process:
        made.append(box.start(cmd, **body))
        return made[-1]

    yield make
    for p in made:
        if box.processes().get(p.id, {}).get("status") == "running":
            p.signal("KILL")
            p.wait()


def test_start_and_end(box: Sandbox, start: Start) -> None:
    p = start("echo out; echo err >&2; sleep 0.2; exit 7")
    now = datetime.now(UTC)
    assert set(p.created) == {"id", "pid", "cmd", "status", "stdin", "started_at", "output_bytes"}
    assert p.created["status"] == "running"
    assert p.created["cmd"] == "echo out; echo err >&2; sleep 0.2; exit 7"
    assert p.created["stdin"] is False
    assert abs((now - datetime.fromisoformat(p.created["started_at"].replace("Z", "+00:00"))).total_seconds()) < 5
    assert str(p.created["pid"]) in box.output("ls /proc")
    ended = p.wait()
    assert ended["status"] == "exited"
    assert ended["exit_code"] == 7
    assert ended["timed_out"] is False
    assert ended["duration_ms"] >= 200
    assert ended["output_bytes"] == 8
    assert p.info() == p.wait() == box.processes()[p.id] == ended
    with p.stream() as events:
        got = list(events)
    assert sorted(joined(got)) == [("stderr", "err\n"), ("stdout", "out\n")]
    assert got[-1].name == "exit"
    assert got[-1].data["exit_code"] == 7
    assert got[-1].data["timed_out"] is False
    assert got[-1].data["duration_ms"] == ended["duration_ms"]
    assert [e.data["seq"] for e in got] == list(range(len(got)))


def test_output_as_it_comes(box: Sandbox, start: Start) -> None:
    """From the beginning, for any number of readers; one that leaves changes nothing."""
    p = start("echo one; until [ -e /tmp/two ]; do sleep 0.02; done; echo two")
    with p.stream() as events:
        assert next(events).data["chunk"] == "one\n"
    with p.stream() as first, p.stream() as second:
        assert next(first).data["chunk"] == next(second).data["chunk"] == "one\n"
        box.write("/tmp/two", "")
        for events in (first, second):
            assert [e.data.get("chunk", e.name) for e in events] == ["two\n", "exit"]
    box.remove("/tmp/two")


def test_text_that_is_cut(start: Start) -> None:
    """A character in two halves, bytes that are no text."""
    p = start(r"printf '\342\230'; sleep 0.1; printf '\225\377!'")
    assert p.output() == "\u2615\ufffd!"


def test_more_output_than_is_kept(start: Start) -> None:
    p = start("head -c 2000000 /dev/zero | tr '\\0' x; echo end")
    assert p.wait()["output_bytes"] == 2_000_004
    with p.stream() as events:
        got = list(events)
    assert got[0].name == "truncated"
    text = "".join(e.data["chunk"] for e in got if e.name == "stdout")
    assert 200_000 < len(text) < 300_000
    assert text.endswith("xend\n")
    assert got[0].data["bytes"] + len(text) == 2_000_004


def test_stdin(start: Start) -> None:
    p = start('while read line; do echo "got $line"; done; echo end', stdin=True)
    assert p.created["stdin"] is True
    with p.stream() as events:
        for word in ("one", "two"):
            assert p.write(f"{word}\n".encode()) == 4
            assert next(events).data["chunk"] == f"got {word}\n"
        assert p.write(b"", eof=1) == 0
        assert [e.data.get("chunk", e.name) for e in events] == ["end\n", "exit"]
    answer = p.api.refused("POST", f"{p.path}/stdin", 409, "conflict", data=b"x")
    assert "no more input" in answer["error"]


def test_much_stdin(start: Start) -> None:
    """Bytes arrive as they are, at the pace of the process."""
    data = os.urandom(5_000_000)
    p = start("sha256sum", stdin=True)
    assert p.write(data, eof="true") == len(data)
    assert p.output().split()[0] == hashlib.sha256(data).hexdigest()


def test_stdin_that_is_not_there(start: Start) -> None:
    p = start("cat; echo at its end; sleep 1000")
    with p.stream() as events:
        assert next(events).data["chunk"] == "at its end\n"
    answer = p.api.refused("POST", f"{p.path}/stdin", 400, "request.invalid", data=b"x")
    assert "without `stdin`" in answer["error"]


@pytest.mark.parametrize(("sig", "code"), [("SIGTERM", 143), ("term", 143), (15, 143), ("KILL", 137), (10, 138)])
def test_signals(start: Start, sig: int | str, code: int) -> None:
    p = start(FOREVER)
    p.signal(sig)
    ended = p.wait()
    assert (ended["exit_code"], ended["signal"]) == (code, code - 128)
    p.api.refused("POST", f"{p.path}/signal", 409, "conflict", json={"signal": sig})


def test_signal_by_default(start: Start) -> None:
    p = start("trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.02; done")
    with p.stream() as events:
        assert next(events).data["chunk"] == "up\n"
        p.api.call("POST", f"{p.path}/signal", want=204)
        *rest, last = events
    assert ("stdout", "bye\n") in joined(rest), "a shell also says on stderr that its child was ended"
    assert (last.name, last.data["exit_code"]) == ("exit", 4)


def test_kill_takes_the_tree(box: Sandbox, start: Start) -> None:
    p = start("setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000")
    with p.stream() as events:
        child = next(events).data["chunk"].strip()
    p.signal("KILL")
    assert p.wait()["signal"] == signal.SIGKILL
    assert box.exec(f"kill -0 {child}")["exit_code"] != 0


def test_wait(start: Start) -> None:
    p = start(FOREVER)
    began = time.monotonic()
    assert p.wait(timeout_seconds=1)["status"] == "running"
    assert 0.9 < time.monotonic() - began < 10
    assert p.wait(timeout_seconds=0)["status"] == "running"


def test_timeout(start: Start) -> None:
    """Killed with its children; by default there is no limit."""
    p = start(f"sleep 1000 & {FOREVER}", timeout_seconds=0.3)
    ended = p.wait()
    assert (ended["timed_out"], ended["exit_code"]) == (True, 124)


def test_environment(start: Start) -> None:
    assert start("pwd; echo $A; id -un", cwd="/tmp", env={"A": "b"}, user="nobody").output() == "/tmp\nb\nnobody\n"


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"background": "yes"}, "background"),
        ({"background": True}, "cmd"),
        ({"background": True, "cmd": "true", "stdin": "text"}, "stdin"),
        ({"background": True, "cmd": "true", "cwd": "/no/such/dir"}, "/no/such/dir"),
        ({"background": True, "cmd": "true", "user": "nobody-like-that"}, "nobody-like-that"),
        ({"background": True, "cmd": "true", "timeout_seconds": -1}, "timeout_seconds"),
    ],
)
def test_bad_requests(box: Sandbox, body: dict[str, Any], word: str) -> None:
    before = box.processes()
    answer = box.api.refused("POST", f"{box.path}/exec", 400, "request.invalid", json=body)
    assert word in answer["error"]
    assert box.processes() == before


def test_bad_calls(box: Sandbox, start: Start) -> None:
    p = start(FOREVER)
    for sig in (0, 65, "SIGNOTHING", "SIG", 1.5, True):
        p.api.refused("POST", f"{p.path}/signal", 400, "request.invalid", json={"signal": sig})
    p.api.refused("POST", f"{p.path}/wait?timeout_seconds=x", 400, "request.invalid")
    p.api.refused("POST", f"{p.path}/wait?timeout_seconds=-1", 400, "request.invalid")
    p.api.refused("POST", f"{p.path}/stdin?eof=perhaps", 400, "request.invalid", data=b"x")
    answer = p.api.refused(
        "POST", f"{box.path}/exec/stream", 400, "request.invalid", json={"cmd": "true", "background": True}
    )
    assert "/stream" in answer["error"]
    calls = (("GET", ""), ("POST", "/wait"), ("GET", "/stream"), ("POST", "/stdin"), ("POST", "/signal"))
    for unknown in ("0", "999999", "4294967296", "x", "-1", "1x"):
        for method, call in calls:
            p.api.refused(method, f"{box.path}/processes/{unknown}{call}", 404, "process.not_found")


def test_number(sandbox: Make) -> None:
    """32 at once; those that have ended make place."""
    s = sandbox("base")
    first = s.start("true")
    first.wait()
    running = [s.start(FOREVER) for _ in range(32)]
    assert set(s.processes()) == {p.id for p in running}
    first.api.refused("GET", first.path, 404, "process.not_found")
    answer = s.api.refused("POST", f"{s.path}/exec", 429, "limit.reached", json={"cmd": "true", "background": True})
    assert "32" in answer["error"]


def test_what_they_outlive(make_daemon: MakeDaemon) -> None:
    """A client, a restart of the daemon, a pause, a sleep; and copies have them too."""
    d = make_daemon().wait_ready()
    s = d.api.create()
    p = s.start('i=0; while read x; do i=$((i+1)); echo "$x $i"; done', stdin=True)
    p.write(b"a\n")
    with p.stream() as events:
        assert next(events).data["chunk"] == "a 1\n"
        d.kill()
    d = make_daemon(d.data_dir).wait_ready()
    s = d.api.sandbox(s.id)
    p = Process(s, s.processes()[p.id])
    assert p.created["status"] == "running"
    p.write(b"b\n")
    s.hibernate()
    s.wake()
    child = s.fork()
    copy = Process(child, child.processes()[p.id])
    copy.write(b"copy\n", eof=1)
    p.write(b"own\n", eof=1)
    assert copy.output() == "a 1\nb 2\ncopy 3\n"
    assert p.output() == "a 1\nb 2\nown 3\n"
    assert d.stop() == 0
    d.check_clean()


def test_a_reader_when_it_goes_to_sleep(sandbox: Make) -> None:
    """The stream ends with an error, the process does not."""
    s = sandbox()
    p = s.start("echo up; read x; echo $x", stdin=True)
    with p.stream() as events:
        assert next(events).data["chunk"] == "up\n"
        s.hibernate()
        last = next(events)
        assert last.name == "error"
        assert "hibernated" in last.data["error"]
        assert list(events) == []
    p.write(b"again\n")
    assert p.output() == "up\nagain\n"
