# SPDX-License-Identifier: Apache-2.0
"""Commands in the background through the agent, and the log of what all commands have written."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Agent
from link_client import FRAME, WINDOW, Link, LinkError, Stream

RING = 256 * 1024
PROCESSES_MAX = 32
FOREVER = "exec sleep 300"


def start(link: Link, cmd: str, **kw: Any) -> dict[str, Any]:
    return link.call("process_start", cmd=cmd, **kw)


def wait(link: Link, process: int, wait_ms: int = 30000) -> dict[str, Any]:
    return link.call("process_get", process=process, wait_ms=wait_ms)


def output(link: Link, process: int) -> Stream:
    """All of it, to the end."""
    s = link.open("process_output", process=process)
    s.result()
    return s


def refused(link: Link, op: str, kind: str, **kw: Any) -> str:
    with pytest.raises(LinkError) as e:
        link.call(op, **kw)
    assert e.value.kind == kind
    return e.value.message


def test_start_and_end(link: Link) -> None:
    began = time.time()
    p = start(link, "echo out; echo err >&2; sleep 0.1; exit 7")
    assert set(p) == {"process", "pid", "cmd", "running", "stdin", "started_ms", "output_bytes"}
    assert p["process"] == 1
    assert p["cmd"] == "echo out; echo err >&2; sleep 0.1; exit 7"
    assert p["running"] is True and p["stdin"] is False
    assert began - 1 < p["started_ms"] / 1000 < time.time() + 1
    assert os.path.exists(f"/proc/{p['pid']}")
    ended = wait(link, 1)
    assert ended.pop("duration_ms") >= 100
    assert ended == {**p, "running": False, "exit_code": 7, "output_bytes": 8}
    s = output(link, 1)
    assert (s.stdout, s.stderr) == (b"out\n", b"err\n")
    assert s.answer is not None
    assert s.answer["ok"].pop("duration_ms") >= 100
    assert s.answer["ok"] == ended
    assert link.call("process_get", process=1)["exit_code"] == 7
    assert [x["process"] for x in link.call("process_list")["processes"]] == [1]


def test_argv(link: Link) -> None:
    p = link.call("process_start", argv=["printf", "%s|", "a b", "$HOME"])
    assert p["cmd"] == "printf %s| a b $HOME"
    assert output(link, p["process"]).stdout == b"a b|$HOME|"


def test_long_commands_are_cut_for_show(link: Link) -> None:
    assert start(link, ": " + "\u2615" * 1000)["cmd"] == ": " + "\u2615" * 84
    for _ in range(PROCESSES_MAX - 1):
        start(link, ":" + "\x01" * 1000)
    assert len(link.call("process_list")["processes"]) == PROCESSES_MAX


@pytest.mark.parametrize("request_", [{}, {"argv": []}, {"argv": [1]}, {"cmd": "true", "env": []}])
def test_wrong_requests(link: Link, request_: dict[str, object]) -> None:
    refused(link, "process_start", "invalid", **request_)
    refused(link, "process_start", "not_found", cmd="true", cwd="/no/such/dir")
    assert link.call("process_list") == {"processes": []}


@pytest.mark.parametrize("op", ["process_get", "process_output", "process_input", "process_signal"])
def test_no_such_process(link: Link, op: str) -> None:
    for kw in ({"process": 1}, {"process": "1"}, {}):
        refused(link, op, "no_process", signal=15, **kw)


def test_output_is_followed(link: Link, tmp_path: Path) -> None:
    """First what there was, then what comes."""
    p = start(
        link, f"echo one; until [ -e {tmp_path}/two ]; do sleep 0.02; done; echo two >&2; sleep 0.05; echo three"
    )
    first = link.open("process_output", process=p["process"])
    first.wait(
        lambda: (
            first.log == [("event", {"live": True}), ("stdout", b"one\n")]
            or first.log == [("stdout", b"one\n"), ("event", {"live": True})]
        )
    )
    second = link.open("process_output", process=p["process"])
    second.wait(lambda: second.log == [("stdout", b"one\n"), ("event", {"live": True})])
    (tmp_path / "two").touch()
    for s in (first, second):
        assert s.result()["exit_code"] == 0
        assert [x for x in s.log if x[0] != "event"] == [
            ("stdout", b"one\n"),
            ("stderr", b"two\n"),
            ("stdout", b"three\n"),
        ]


def test_it_waits_for_no_reader(link: Link) -> None:
    """What does not fit is dropped, the oldest first, and a reader is told how much it has missed."""
    p = start(link, "head -c 3000000 /dev/zero; echo end")
    assert wait(link, p["process"])["output_bytes"] == 3_000_004
    s = output(link, p["process"])
    assert s.log[0][0] == "event"
    assert RING * 0.9 < len(s.stdout) < RING
    assert s.stdout.endswith(b"\0end\n")
    assert s.log[0][1] == {"missed": 3_000_004 - len(s.stdout)}


def test_a_slow_reader_is_overtaken(link: Link, tmp_path: Path) -> None:
    p = start(
        link, f"head -c 1000000 /dev/zero; until [ -e {tmp_path}/go ]; do sleep 0.02; done; head -c 1000000 /dev/zero"
    )
    slow = link.open("process_output", process=p["process"])
    slow.auto_credit = False
    slow.wait(lambda: slow.received >= WINDOW - FRAME)
    (tmp_path / "go").touch()
    assert wait(link, p["process"])["exit_code"] == 0
    assert link.exec("echo quick")[1] == b"quick\n"
    slow.auto_credit = True
    slow.credit(slow.received)
    slow.result()
    missed = sum(e.get("missed", 0) for e in slow.events)
    assert missed > 1_000_000
    assert len(slow.stdout) + missed == 2_000_000


def test_it_outlives_its_streams(agent: Agent) -> None:
    """And the generation of the link; a stream that ends does it no harm."""
    link = agent.link
    p = start(link, "echo one; read line; echo $line", stdin=True)
    s = link.open("process_output", process=p["process"])
    s.wait(lambda: s.stdout == b"one\n")
    s.cancel()
    waiting = link.open("process_get", process=p["process"], wait_ms=60000)
    feeding = link.open("process_input", process=p["process"])
    link.call("process_list")
    waiting.cancel()
    link.hello(padded=True)
    assert feeding.answer is None
    assert link.call("process_get", process=p["process"])["running"] is True
    following = link.open("process_output", process=p["process"])
    feed = link.open("process_input", process=p["process"])
    feed.send(b"two\n")
    feed.end()
    assert feed.result() == {"bytes": 4}
    assert following.result()["exit_code"] == 0
    assert following.stdout == b"one\ntwo\n"


def test_wait(link: Link) -> None:
    p = start(link, FOREVER)
    began = time.monotonic()
    assert wait(link, p["process"], 200)["running"] is True
    assert 0.19 < time.monotonic() - began < 5
    assert wait(link, p["process"], 0)["running"] is True
    waiters = [link.open("process_get", process=p["process"], wait_ms=60000) for _ in range(3)]
    link.call("process_signal", process=p["process"], signal=int(signal.SIGTERM))
    for w in waiters:
        result = w.result()
        assert (result["exit_code"], result["signal"]) == (143, 15)


def test_stdin(link: Link) -> None:
    data = os.urandom(3_000_000)
    p = start(link, "cat | sha256sum; cat", stdin=True)
    assert p["stdin"] is True
    for i in range(0, len(data), 1_000_000):
        s = link.open("process_input", process=p["process"], eof=i + 1_000_000 >= len(data))
        s.send(data[i : i + 1_000_000])
        s.end()
        assert s.result() == {"bytes": 1_000_000}
    ended = wait(link, p["process"])
    assert ended["stdin"] is False
    assert output(link, p["process"]).stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_stdin_in_pieces(link: Link) -> None:
    p = start(link, "cat", stdin=True)
    out = link.open("process_output", process=p["process"])
    for i in range(20):
        s = link.open("process_input", process=p["process"])
        s.send(b"%d\n" % i)
        s.end()
        assert s.result()["bytes"] == len(b"%d\n" % i)
        out.wait(lambda: out.stdout.endswith(b"%d\n" % i))  # noqa: B023
    s = link.open("process_input", process=p["process"], eof=True)
    s.end()
    assert s.result() == {"bytes": 0}
    assert out.result()["exit_code"] == 0


def test_stdin_that_can_not_be_written(link: Link) -> None:
    without = start(link, FOREVER)
    assert "without `stdin`" in refused(link, "process_input", "invalid", process=without["process"])
    closed = start(link, f"exec 0<&-; echo closed; {FOREVER}", stdin=True)
    out = link.open("process_output", process=closed["process"])
    out.wait(lambda: out.stdout == b"closed\n")
    s = link.open("process_input", process=closed["process"])
    s.send(b"x" * 1000)
    s.end()
    with pytest.raises(LinkError) as e:
        s.result()
    assert e.value.kind == "busy"
    full = start(link, FOREVER, stdin=True)
    s = link.open("process_input", process=full["process"], eof=True)
    s.send(b"x" * 200_000)
    s.end()
    assert "another request" in refused(link, "process_input", "busy", process=full["process"])
    link.call("process_signal", process=full["process"], signal=9)
    with pytest.raises(LinkError) as e:
        s.result()
    assert e.value.kind == "busy"
    assert "reads no more" in refused(link, "process_input", "busy", process=full["process"])


def test_input_that_ends_after_its_process(link: Link) -> None:
    """All was taken: that the host says so later is no error, but more would be."""
    p = start(link, "read x; echo $x", stdin=True)
    s = link.open("process_input", process=p["process"])
    s.send(b"last\n")
    assert wait(link, p["process"])["running"] is False
    for _ in range(PROCESSES_MAX - 1):
        start(link, FOREVER)
    refused(link, "process_start", "limit", cmd="true")
    s.end()
    assert s.result() == {"bytes": 5}
    p = start(link, "read x; exec 0<&-; echo closed; sleep 300", stdin=True)
    out = link.open("process_output", process=p["process"])
    s = link.open("process_input", process=p["process"])
    s.send(b"one\n")
    out.wait(lambda: out.stdout == b"closed\n")
    s.send(b"two\n")
    with pytest.raises(LinkError) as e:
        s.result()
    assert e.value.kind == "busy"


def test_input_that_was_given_up(link: Link) -> None:
    """What had not been taken is never delivered, and the next request can write."""
    p = start(link, "read first; sleep 0.2; cat", stdin=True)
    s = link.open("process_input", process=p["process"])
    s.send(b"x" * 200_000)
    link.call("process_list")
    s.cancel()
    while True:
        try:
            s = link.open("process_input", process=p["process"], eof=True)
            s.send(b"\nend\n")
            s.end()
            assert s.result() == {"bytes": 5}
            break
        except LinkError as e:
            assert e.kind == "busy"
    assert output(link, p["process"]).stdout.endswith(b"end\n")
    assert len(output(link, p["process"]).stdout) < 100_000


def test_signals(agent: Agent) -> None:
    link = agent.link
    p = start(link, "trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.02; done")
    out = link.open("process_output", process=p["process"])
    out.wait(lambda: out.stdout == b"ready\n")
    assert link.call("process_signal", process=p["process"], signal=int(signal.SIGUSR1)) == {}
    assert out.result()["exit_code"] == 3
    assert out.stdout == b"ready\ncaught\n"
    assert "ended" in refused(link, "process_signal", "busy", process=p["process"], signal=15)
    for wrong in (0, -1, 65, "TERM", None):
        refused(link, "process_signal", "invalid", process=p["process"], signal=wrong)
    if not agent.cgroup:
        return
    mark = f"pandastack-mark-{os.getpid()}-{time.monotonic_ns()}"
    p = start(link, f"setsid sh -c 'echo up; sleep 300; : {mark}' & sleep 300")
    out = link.open("process_output", process=p["process"])
    out.wait(lambda: out.stdout == b"up\n")
    link.call("process_signal", process=p["process"], signal=9)
    assert out.result()["signal"] == 9
    _, ps, _ = link.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert b": " + mark.encode() not in ps.replace(b"cat ", b"")


def test_timeout(link: Link) -> None:
    p = start(link, f"echo up; {FOREVER}", timeout_ms=200)
    ended = wait(link, p["process"])
    assert (ended["timed_out"], ended["exit_code"]) == (True, 124)
    assert output(link, p["process"]).stdout == b"up\n"


def test_children_that_hold_its_pipes(link: Link, tmp_path: Path) -> None:
    """It is over, and what they write is kept all the same."""
    p = start(
        link, f"(until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo late; touch {tmp_path}/done) & echo early"
    )
    assert wait(link, p["process"])["exit_code"] == 0
    assert output(link, p["process"]).stdout == b"early\n"
    (tmp_path / "go").touch()
    while not (tmp_path / "done").exists():
        link.exec("sleep 0.02")
    assert output(link, p["process"]).stdout == b"early\nlate\n"


def test_number(link: Link, tmp_path: Path) -> None:
    """The oldest that has ended makes place; what its children hold does not break."""
    service = start(
        link, f"(until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo late; touch {tmp_path}/done) & true"
    )
    assert wait(link, service["process"])["running"] is False
    read = start(link, "true")
    wait(link, read["process"])
    running = [start(link, FOREVER)["process"] for _ in range(PROCESSES_MAX - 2)]
    running.append(start(link, FOREVER)["process"])
    refused(link, "process_get", "no_process", process=service["process"])
    (tmp_path / "go").touch()
    while not (tmp_path / "done").exists():
        link.exec("sleep 0.02")
    running.append(start(link, FOREVER)["process"])
    refused(link, "process_get", "no_process", process=read["process"])
    assert f"{PROCESSES_MAX} processes" in refused(link, "process_start", "limit", cmd="true")
    assert [p["process"] for p in link.call("process_list")["processes"]] == running
    link.call("process_signal", process=running[5], signal=9)
    wait(link, running[5])
    refused(link, "process_start", "not_found", cmd="true", cwd="/no/such/dir")
    assert link.call("process_get", process=running[5])["signal"] == 9
    assert start(link, "true")["process"] == running[-1] + 1
    refused(link, "process_get", "no_process", process=running[5])


def test_one_that_is_read_is_not_forgotten(link: Link, tmp_path: Path) -> None:
    p = start(link, f"echo up; until [ -e {tmp_path}/go ]; do sleep 0.02; done; head -c 1000000 /dev/zero")
    s = link.open("process_output", process=p["process"])
    s.auto_credit = False
    s.wait(lambda: s.stdout == b"up\n")
    (tmp_path / "go").touch()
    wait(link, p["process"])
    assert s.answer is None
    for _ in range(PROCESSES_MAX - 1):
        start(link, FOREVER)
    refused(link, "process_start", "limit", cmd="true")
    s.auto_credit = True
    s.credit(s.received)
    assert s.result()["exit_code"] == 0
    start(link, FOREVER)
    refused(link, "process_get", "no_process", process=p["process"])


def test_environment(agent: Agent) -> None:
    agent.link.resume(env={"A": "sandbox"})
    p = start(agent.link, "echo $A $B; pwd", env={"B": "request"}, cwd="/")
    assert output(agent.link, p["process"]).stdout == b"sandbox request\n/\n"


# ---- the log of all ----


def logs(link: Link) -> Stream:
    s = link.open("logs")
    s.result()
    return s


def test_logs_have_all_commands(link: Link) -> None:
    assert logs(link).log == []
    link.exec("echo one; echo two >&2")
    wait(link, start(link, "echo three")["process"])
    s = logs(link)
    assert (s.stdout, s.stderr) == (b"one\nthree\n", b"two\n")
    assert s.answer == {"ok": {}}
    assert s.events == []


def test_logs_are_followed(link: Link) -> None:
    link.exec("echo before")
    s = link.open("logs", follow=True)
    s.wait(lambda: s.log == [("stdout", b"before\n"), ("event", {"live": True})])
    link.exec("echo after >&2")
    s.wait(lambda: s.stderr == b"after\n")
    link.hello(padded=True)
    assert logs(link).stdout == b"before\n"


def test_logs_are_bounded(link: Link) -> None:
    link.exec("head -c 5000000 /dev/zero")
    link.exec("echo end")
    s = logs(link)
    assert RING * 0.9 < len(s.stdout) < RING
    assert s.stdout.endswith(b"\0end\n")
    assert s.events == [{"missed": 5_000_004 - len(s.stdout)}]


def test_logs_end_while_output_goes_on(link: Link) -> None:
    """At what there was as they were asked for, however fast more comes."""
    p = start(link, "yes")
    while link.call("process_get", process=p["process"])["output_bytes"] < 2 * RING:
        pass
    streams = [link.open("logs") for _ in range(4)]
    for s in streams:
        s.result()
        assert 0 < len(s.stdout) <= RING
    link.call("process_signal", process=p["process"], signal=int(signal.SIGKILL))


def test_logs_wait_for_nobody(link: Link) -> None:
    s = link.open("logs", follow=True)
    s.auto_credit = False
    _, out, _ = link.exec("head -c 5000000 /dev/zero; echo end")
    assert len(out) == 5_000_004
    s.auto_credit = True
    s.credit(s.received)
    s.wait(lambda: s.stdout.endswith(b"end\n"))
    assert sum(e.get("missed", 0) for e in s.events) + len(s.stdout) == 5_000_004
