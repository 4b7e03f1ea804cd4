# SPDX-License-Identifier: Apache-2.0
"""Sessions through the agent, with a stand-in for the Python runtime (fake_runtime/)."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import HERE, Agent
from link_client import WINDOW, Link, LinkError, Stream

Json = dict[str, Any]


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    a = Agent(tmp_path / "root", "--python", sys.executable, "--runtime", str(HERE / "fake_runtime"))
    yield a
    assert a.close() == 0


@pytest.fixture
def link(agent: Agent) -> Link:
    return agent.link


@pytest.fixture
def s(link: Link) -> str:
    assert link.call("session_create", session="s", language="python")["pid"] > 1
    return "s"


def run(link: Link, code: str, session: str = "s", **kw: Any) -> tuple[Json, Stream]:
    stream = link.cell(session, code, **kw)
    return stream.result(), stream


def test_warm(link: Link) -> None:
    assert link.call("warm")["ipython"] == "9"
    assert link.call("warm")["python"] == "3"


def test_no_runtime_in_this_template(tmp_path: Path) -> None:
    a = Agent(tmp_path / "root", "--python", "/no/python")
    for op in ("warm", "session_create"):
        with pytest.raises(LinkError) as e:
            a.link.call(op, session="s")
        assert e.value.kind == "unsupported"
    assert a.link.call("session_list") == {"sessions": []}
    assert a.close() == 0


def test_a_zygote_that_dies(agent: Agent) -> None:
    agent.link.resume(env={"FAKE_ZYGOTE": "die"})
    with pytest.raises(LinkError):
        agent.link.call("warm")
    agent.link.resume()
    assert agent.link.call("warm")["python"] == "3"
    os.kill(agent.link.call("warm")["pid"], signal.SIGKILL)
    time.sleep(0.1)
    assert agent.link.call("session_create", session="a")["pid"] > 1  # from a new one


def test_state_and_output(link: Link, s: str) -> None:
    result, stream = run(link, "x = 5; print('out'); import sys; print('err', file=sys.stderr)")
    assert result == {"status": "ok", "execution_count": 1, "exit_code": 0, "duration_ms": result["duration_ms"]}
    assert (stream.stdout, stream.stderr) == (b"out\n", b"err\n")
    result, stream = run(link, "print(x); event({'type': 'result', 'data': [x]})")
    assert result["execution_count"] == 2 and stream.events == [{"type": "result", "data": [5]}]
    result, stream = run(link, "1/0")
    assert result["status"] == "error" and result["exit_code"] == 1
    assert stream.events == [{"type": "error", "name": "ZeroDivisionError"}]
    (listed,) = link.call("session_list")["sessions"]
    assert listed == {"session": "s", "language": "python", "cells": 3, "running": False}


def test_request_members(link: Link, s: str) -> None:
    _, stream = run(link, "print(ansi, os.environ['A'])", ansi=True, env={"A": "b"})
    assert stream.stdout == b"True b\n"
    _, stream = run(link, "print(ansi, os.environ.get('A'))")
    assert stream.stdout == b"False None\n"


def test_environment_and_directory(agent: Agent, tmp_path: Path) -> None:
    link = agent.link
    link.resume(env={"A": "sandbox", "B": "sandbox"})
    link.call("session_create", session="s", env={"B": "session"}, cwd=str(tmp_path))
    show = "print(os.environ['A'], os.environ['B'], os.getcwd())"
    wanted = f"sandbox session {tmp_path}\n".encode()
    assert run(link, show)[1].stdout == wanted
    run(link, "os._exit(0)")
    assert run(link, show)[1].stdout == wanted


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        ({}, "invalid"),
        ({"session": ""}, "invalid"),
        ({"session": "x" * 129}, "invalid"),
        ({"session": "r", "language": "R"}, "unsupported"),
        ({"session": "c", "cwd": "/no/dir"}, "not_found"),
        ({"session": "e", "env": {"": "x"}}, "invalid"),
        ({"session": "s"}, "exists"),
    ],
)
def test_create_refuses(link: Link, s: str, request_: Json, kind: str) -> None:
    with pytest.raises(LinkError) as e:
        link.call("session_create", **request_)
    assert e.value.kind == kind


def test_kernels_of_a_copy_seed_their_generators(link: Link, tmp_path: Path) -> None:
    """Once, before their next cell; and where none comes, soon."""
    seeded = tmp_path / "seeded"
    os.mkfifo(seeded)
    link.call("session_create", session="s")
    link.call("session_create", session="idle", env={"FAKE_SEEDED": str(seeded)})
    link.resume()
    assert run(link, "print(seeds)")[1].stdout == b"1\n"
    seeded.read_bytes()  # waits for the kernel
    for name in ("s", "idle"):
        assert run(link, "print(seeds)", session=name)[1].stdout == b"1\n"


def test_no_new_seeds_for_a_machine_that_goes_on(link: Link, s: str) -> None:
    link.resume(hostname=None, machine_id=None)
    assert run(link, "print(seeds)")[1].stdout == b"0\n"


def test_a_kernel_that_is_starting_in_a_copy_seeds_its_generators(link: Link) -> None:
    """It may have drawn its numbers before."""
    created = link.open("session_create", session="s")
    link.resume()
    created.result()
    assert run(link, "print(seeds)")[1].stdout == b"1\n"


def test_unknown_sessions(link: Link) -> None:
    for op in ("session_run", "session_interrupt", "session_restart", "session_delete"):
        with pytest.raises(LinkError) as e:
            link.call(op, session="none")
        assert e.value.kind == "no_session"


def test_eight_sessions(link: Link) -> None:
    for i in range(8):
        link.call("session_create", session=str(i))
    with pytest.raises(LinkError) as e:
        link.call("session_create", session="8")
    assert e.value.kind == "limit"
    link.call("session_delete", session="3")
    link.call("session_create", session="8")
    slow = link.cell("0", "import time; time.sleep(0.5)")
    assert run(link, "print(1)", session="1")[1].stdout == b"1\n"  # in parallel
    assert slow.answer is None
    slow.result()


@pytest.mark.parametrize("how", ["die", "wrong_pid", "agent_pid", "garbage"])
def test_a_kernel_that_starts_wrong(link: Link, how: str) -> None:
    with pytest.raises(LinkError) as e:
        link.call("session_create", session="x", env={"FAKE_START": how})
    assert e.value.kind == "io"
    assert link.call("session_list") == {"sessions": []}


def test_delete_while_starting(link: Link) -> None:
    create = link.open("session_create", session="x", env={"FAKE_START": "silent"})
    run_ = link.cell("x", "1")
    with pytest.raises(LinkError):
        link.call("session_restart", session="x")
    link.call("session_delete", session="x")
    with pytest.raises(LinkError) as e:
        create.result()
    assert e.value.kind == "not_found"
    assert run_.result()["status"] == "died"


def test_cells_queue(link: Link, s: str) -> None:
    first = link.open("session_run", session="s")  # its code comes last
    others = [link.cell("s", f"print({i})") for i in range(5)]
    link.pump(0.2)
    assert not any(o.answer for o in others)
    first.send(b"print('first')")
    first.end()
    assert first.result()["execution_count"] == 1
    assert [o.result()["execution_count"] for o in others] == [2, 3, 4, 5, 6]


def test_cancel_in_the_queue(link: Link, s: str) -> None:
    running = link.cell("s", "import time; time.sleep(0.4); print('kept')")
    waiting = link.cell("s", "print('never')")
    last = link.cell("s", "print('last')")
    waiting.cancel()
    assert waiting.result()["status"] == "interrupted"
    assert running.result()["status"] == "ok" and running.stdout == b"kept\n"
    assert last.result()["execution_count"] == 2


def test_code_that_is_not_utf8(link: Link, s: str) -> None:
    stream = link.open("session_run", session="s")
    stream.send(b"print('\xff')")
    stream.end()
    with pytest.raises(LinkError) as e:
        stream.result()
    assert e.value.kind == "invalid"
    assert run(link, "print('é☕')")[1].stdout == "é☕\n".encode()


@pytest.mark.parametrize("how", ["cancel", "new generation"])
def test_a_queued_cell_that_nobody_hears_runs_on_a_new_kernel(link: Link, how: str) -> None:
    """What the new kernel said while it started goes to nobody then."""
    link.call("session_create", session="s", env={"FAKE_WORDS": "words\n"})
    first = link.cell("s", "import signal; signal.signal(2, lambda *_: os._exit(1)); print('up'); signal.pause()")
    first.wait(lambda: b"up" in first.stdout)
    waiting = link.cell("s", "x = 1", detach=True)
    if how == "cancel":
        waiting.cancel()
        assert waiting.result() == {"status": "detached"}
        first.event({"interrupt": True})
        assert first.result()["status"] == "died"
    else:
        link.hello(padded=True)
    result, stream = run(link, "print(x)")
    assert result["execution_count"] == 2 and stream.stdout == b"1\n"


def test_timeout_keeps_the_state(link: Link, s: str) -> None:
    run(link, "x = 1")
    start = time.monotonic()
    result, _ = run(link, "while True: pass", timeout_ms=300)
    assert 0.25 < time.monotonic() - start < 1.9
    assert result["status"] == "timeout" and "state_lost" not in result
    result, stream = run(link, "print(x)")
    assert stream.stdout == b"1\n" and "kernel_restarted" not in result


STUBBORN = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"


def test_a_stubborn_cell_is_killed_after_the_grace(link: Link, s: str) -> None:
    start = time.monotonic()
    result, _ = run(link, STUBBORN, timeout_ms=200)
    assert 2.1 < time.monotonic() - start < 5
    assert result["status"] == "timeout" and result["state_lost"] is True and result["signal"] == 9
    result, _ = run(link, "print(1)")
    assert result["kernel_restarted"] is True and result["execution_count"] == 1
    assert "kernel_restarted" not in run(link, "print(1)")[0]


def test_interrupts(link: Link, s: str) -> None:
    stream = link.cell("s", "print('up')\nwhile True: pass")
    stream.wait(lambda: stream.stdout)
    assert link.call("session_interrupt", session="s") == {"running": True}
    assert stream.result()["status"] == "interrupted"
    assert link.call("session_interrupt", session="s") == {"running": False}
    stream = link.cell("s", "print('up')\nwhile True: pass")
    stream.wait(lambda: stream.stdout)
    stream.event({"interrupt": True})
    assert stream.result()["status"] == "interrupted"
    stream = link.cell("s", "print('up')\nwhile True: print('x' * 1000)")
    stream.wait(lambda: stream.stdout)
    stream.cancel()
    assert stream.result()["status"] == "interrupted"
    assert run(link, "print(2)")[1].stdout == b"2\n"


def test_children_of_an_interrupted_cell_die(agent: Agent) -> None:
    if not agent.cgroup:
        pytest.skip("needs a cgroup2 file system")
    link = agent.link
    link.call("session_create", session="s")
    run(link, "import subprocess; old = subprocess.Popen(['sleep', '100'], start_new_session=True)")
    time.sleep(0.05)
    code = "new = subprocess.Popen(['sleep', '100'], start_new_session=True)\nprint('up')\nwhile True: pass"
    stream = link.cell("s", code)
    stream.wait(lambda: stream.stdout)
    stream.event({"interrupt": True})
    stream.result()
    _, stream = run(link, "print(old.poll(), new.wait())")
    assert stream.stdout == b"None -9\n"


@pytest.mark.parametrize(
    ("code", "signal_", "reason"),
    [("os._exit(3)", None, "exited with code 3"), ("os.kill(os.getpid(), 11)", 11, "signal 11")],
)
def test_a_kernel_that_dies(link: Link, s: str, code: str, signal_: int | None, reason: str) -> None:
    result, stream = run(link, f"print('last words'); os.write(1, b'and more\\n'); {code}")
    assert result["status"] == "died" and result["state_lost"] is True and reason in result["reason"]
    assert result.get("signal") == signal_ and result["exit_code"] == (1 if signal_ else 3)
    assert sorted(stream.stdout.splitlines()) == [b"and more", b"last words"]
    assert run(link, "print(1)")[0]["kernel_restarted"] is True


DIE = "os.kill(os.getpid(), {})"
COUNT = "open(f'{{group}}/memory.events', 'w').write('oom 9\\noom_kill {}\\n')"


@pytest.mark.parametrize(
    ("cells", "status"),
    [
        ([DIE.format(9)], "died"),
        ([COUNT.format(1), DIE.format(11)], "died"),
        ([COUNT.format(1), DIE.format(9)], "died"),
        ([f"{COUNT.format(1)}; {DIE.format(11)}"], "died"),
        ([f"{COUNT.format(1)}; {DIE.format(9)}"], "oom"),
        ([COUNT.format(1), f"{COUNT.format(2)}; {DIE.format(9)}"], "oom"),
    ],
)
def test_who_ran_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: list[str], status: str
) -> None:
    """Not a kernel that dies otherwise, or long after one of its children was killed for it."""
    monkeypatch.setattr("conftest.find_cgroup", lambda: None)
    groups = tmp_path / "groups"
    groups.mkdir()
    (groups / "zygote-1").touch()  # no process can be born in a plain folder; a kernel only writes itself there
    runtime = ("--python", sys.executable, "--runtime", str(HERE / "fake_runtime"))
    a = Agent(tmp_path / "root", *runtime, "--cgroup", str(groups))
    a.link.call("warm")
    a.link.call("session_create", session="s")
    *handled, last = cells
    for code in handled:
        assert run(a.link, code)[0]["status"] == "ok"
    assert run(a.link, last)[0]["status"] == status
    assert a.close() == 0


@pytest.fixture
def died(link: Link) -> bytes:
    """What a kernel says that dies of SIGSEGV between cells, which has happened to session `s`."""
    pid = link.call("session_create", session="s")["pid"]
    run(link, "import faulthandler; faulthandler.enable(2); os.write(1, b'heard\\n')")
    os.kill(pid, signal.SIGSEGV)
    try:
        while True:  # until the agent has taken its status
            os.kill(pid, 0)
            link.call("stats")
    except ProcessLookupError:
        return b"Fatal Python error: Segmentation fault"


def said(link: Link, code: str) -> tuple[bytes, bytes]:
    _, stream = run(link, code)
    return stream.stdout, stream.stderr


def test_a_kernel_that_dies_between_cells(link: Link, died: bytes) -> None:
    """Its last words are the beginning of the next cell."""
    link.resume(env={"FAKE_WORDS": "words\n"})
    result, stream = run(link, "print(1)")
    assert result["kernel_restarted"] is True and result["execution_count"] == 1
    assert stream.stderr.startswith(died) and stream.stderr.endswith(b"words\n")
    assert stream.stdout == b"words\n1\n"
    assert said(link, "print(2)") == (b"2\n", b"")


def test_last_words_end_with_a_restart(link: Link, died: bytes) -> None:
    link.call("session_restart", session="s")
    assert said(link, "print(1)") == (b"1\n", b"")


@pytest.mark.parametrize(("words", "told"), [(None, "it ended"), ("no\nroom \n", "room")])
def test_last_words_of_a_kernel_before_are_not_those_of_a_failed_start(
    link: Link, died: bytes, words: str | None, told: str
) -> None:
    link.resume(env={"FAKE_START": "die", **({"FAKE_WORDS": words} if words else {})})
    with pytest.raises(LinkError) as e:
        run(link, "1")
    assert e.value.message == f"the kernel did not start: {told}"
    link.resume(env={})
    assert said(link, "print(1)") == (b"1\n", b"")


def test_a_new_kernel_that_dies_too(link: Link, s: str) -> None:
    run(link, "os._exit(0)")
    result, _ = run(link, "os._exit(0)")
    assert result["kernel_restarted"] is True and result["status"] == "died"


def test_pipes_come_before_the_event(link: Link, s: str) -> None:
    _, stream = run(link, "for i in range(50):\n os.write(1, b'%d\\n' % i); event({'n': i})")
    order = b"".join(v if k == "stdout" else b"e%d\n" % v["n"] for k, v in stream.log).split()
    for i in range(50):  # what is in the pipe already may overtake an event, never the other way round
        assert order.index(b"%d" % i) < order.index(b"e%d" % i)
    assert stream.stdout == b"".join(b"%d\n" % i for i in range(50))


def test_output_between_cells(link: Link, s: str) -> None:
    run(link, "threading.Timer(0.1, lambda: (os.write(1, b'later\\n'), print('too'))).start()")
    time.sleep(0.3)
    assert sorted(run(link, "print('now')")[1].stdout.splitlines()) == [b"later", b"now", b"too"]
    run(link, "threading.Timer(0.05, lambda: [os.write(1, b'x' * 1000) for _ in range(1000)]).start()")
    time.sleep(0.5)
    _, stream = run(link, "print('now')")
    assert stream.stdout == b"x" * 65536 + b"now\n"
    assert b"934464 bytes of output between cells were dropped" in stream.stderr


def test_a_large_event_arrives_in_parts(link: Link, s: str) -> None:
    _, stream = run(link, "event({'data': 'y' * 5_000_000})")
    assert stream.events == [{"data": "y" * 5_000_000}]


def test_a_slow_reader_stops_only_its_cell(link: Link, s: str) -> None:
    code = "event({'data': 'y' * 1_000_000}); print('z' * 1_000_000); os.write(2, b'e' * 500_000)"
    stream = link.open("session_run", session="s")
    stream.auto_credit = False
    stream.send(code.encode())
    stream.end()
    stream.wait(lambda: stream.received == WINDOW)
    assert link.exec("echo quick")[1] == b"quick\n"
    assert stream.received == WINDOW
    stream.auto_credit = True
    stream.credit(WINDOW)
    assert stream.result()["status"] == "ok"
    assert stream.events == [{"data": "y" * 1_000_000}]
    assert len(stream.stdout) == 1_000_001 and len(stream.stderr) == 500_000


def test_a_slow_reader_of_a_dead_kernel(link: Link, s: str) -> None:
    stream = link.open("session_run", session="s")
    stream.auto_credit = False
    stream.send(f"os.write(2, b'e' * 60000); print('z' * {WINDOW}); os._exit(1)".encode())
    stream.end()
    stream.wait(lambda: stream.received == WINDOW)
    time.sleep(0.2)
    stream.auto_credit = True
    stream.credit(WINDOW)
    assert stream.result()["status"] == "died"
    assert len(stream.stdout) == WINDOW + 1 and len(stream.stderr) == 60000


def test_a_timeout_under_a_slow_reader(link: Link, s: str) -> None:
    stream = link.open("session_run", session="s", timeout_ms=300)
    stream.auto_credit = False
    stream.send(b"while True: print('z' * 10000)")
    stream.end()
    stream.wait(lambda: stream.received == WINDOW)
    time.sleep(3)  # the kernel cannot say that it was interrupted: it is killed
    stream.auto_credit = True
    stream.credit(WINDOW)
    assert stream.result()["status"] == "timeout"


@pytest.mark.parametrize(
    "code",
    [
        "raw(b'\\xff' * 100)",
        "raw(b'\\xff\\xff\\xff\\xffm')",
        "frame('q', b'')",
        "raw(b'\\1\\0\\2\\0d')",
        "raw(b'\\1\\0')\nos._exit(0)",
        "os.close(next(i for i in range(3, 20) if os.path.exists("
        "f'/proc/self/fd/{i}') and 'socket' in os.readlink(f'/proc/self/fd/{i}')))\nwhile True: pass",
    ],
)
def test_nonsense_kills_the_kernel_alone(link: Link, s: str, code: str) -> None:
    result, _ = run(link, code)
    assert result["status"] == "died"
    assert run(link, "print(1)")[0]["kernel_restarted"] is True


def test_frames_that_are_out_of_place(link: Link, s: str) -> None:
    for code in ("frame('k', b'{\"pid\": 1}')", "frame('m', b'')", "frame('o', b'')", "frame('k', b'nonsense')"):
        assert run(link, code)[0]["status"] == "ok"
    run(link, "frame('d', b'not json')")  # ends this cell; the fake's own frame belongs to none
    time.sleep(0.2)
    assert run(link, "print(1)")[1].stdout == b"1\n"


def packed(kind: str, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload)) + kind.encode() + payload


EVENT = b'{"type": "result", "body": {"text/plain": 4}}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (packed("m", EVENT)[:5], EVENT),
        (packed("m", EVENT)[:9], EVENT[4:]),
        (packed("i", EVENT)[:9], EVENT[4:]),
        (packed("b", b"body")[:7], b"dy" + packed("m", EVENT)),
        (packed("b", b"body"), packed("m", EVENT)),
        (packed("b", b"body"), packed("b", b"more") + packed("m", EVENT)),
        (packed("b", b"body"), packed("b", b"more") + packed("i", EVENT)),
        (packed("b", b"body") + packed("m", EVENT)[:9], EVENT[4:]),
    ],
)
def test_an_event_that_began_between_cells(link: Link, s: str, before: bytes, after: bytes) -> None:
    """All of it is dropped, its body too: half of it, in the next cell, would break the link."""
    ended = packed("d", b'{"status": "ok"}')
    mine = packed("b", b"mine") + packed("m", b'{"mine": 1}')
    first = link.cell(
        s, f"raw({ended + before!r}); next_cell(); raw({after + mine + packed('e', b'up')!r}); next_cell()"
    )
    assert first.result()["status"] == "ok" and not first.events
    second = link.cell(s, "", allow_stdin=True)
    second.wait(lambda: second.stderr)
    assert second.events == [{"mine": 1}] and second.body == b"mine"
    with pytest.raises(LinkError) as e:
        link.call("session_input", session=s, value="nobody asked")
    assert e.value.kind == "busy"


def test_restart(link: Link, s: str) -> None:
    run(link, "x = 1")
    busy = link.cell("s", "while True: pass")
    queued = link.cell("s", "print(x)")
    assert link.call("session_restart", session="s")["pid"] > 1
    assert busy.result()["status"] == queued.result()["status"] == "died"
    result, stream = run(link, "print('x' in globals())")
    assert stream.stdout == b"False\n" and "kernel_restarted" not in result


def test_delete_kills(link: Link) -> None:
    pid = link.call("session_create", session="s")["pid"]
    stream = link.cell("s", "while True: pass")
    link.call("session_delete", session="s")
    assert stream.result()["status"] == "died"
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(pid, 0)
            time.sleep(0.02)


def test_sessions_outlive_a_generation(link: Link, s: str) -> None:
    run(link, "x = 7")
    busy = link.cell("s", "print('up')\nwhile True: print('y' * 1000)")
    busy.wait(lambda: busy.stdout)
    link.cell("s", "x = 8")
    link.hello(padded=True)
    result, stream = run(link, "print(x)")
    assert stream.stdout.endswith(b"7\n") and result["status"] == "ok"


def test_code_of_many_megabytes(link: Link, s: str) -> None:
    code = "x = '" + "\\n" * 2_000_000 + "'\nprint(len(x))"
    assert run(link, code)[1].stdout == b"2000000\n"
    stream = link.open("session_run", session="s")
    with pytest.raises(LinkError) as e:
        stream.send(b"#" * (17 << 20))
        stream.end()
        stream.result()
    assert "too long" in e.value.message


def test_body_of_an_event_is_passed_on(link: Link, s: str) -> None:
    result, stream = run(link, "frame('b', b'\\xff' * 600_000); frame('b', b'end'); event({'type': 'result'})")
    assert result["status"] == "ok"
    assert bytes(stream.data[0]) == b"\xff" * 600_000 + b"end"
    assert [kind for kind, _ in stream.log][-1] == "event"


def test_input_is_answered_once(link: Link, s: str) -> None:
    with pytest.raises(LinkError) as e:
        link.call("session_input", session=s, value="early")
    assert e.value.kind == "busy"
    stream = link.cell(s, "x = ask(); print(x, allow_stdin)", allow_stdin=True)
    stream.wait(lambda: stream.events)
    assert stream.events == [{"type": "input_request", "prompt": "?", "password": False}]
    assert link.call("session_input", session=s, value="é\n") == {}
    with pytest.raises(LinkError) as e:
        link.call("session_input", session=s, value="again")
    assert e.value.kind == "busy"
    assert stream.result()["status"] == "ok"
    assert stream.stdout == "é\n True\n".encode()
    for wrong in ({"session": "none", "value": ""}, {"session": s}, {"session": s, "value": 1}):
        with pytest.raises(LinkError):
            link.call("session_input", **wrong)


def test_a_question_ends_with_its_cell(link: Link, s: str) -> None:
    stream = link.cell(s, "ask()", allow_stdin=True)
    stream.wait(lambda: stream.events)
    assert link.call("session_interrupt", session=s) == {"running": True}
    assert stream.result()["status"] == "interrupted"
    assert run(link, "print(allow_stdin)")[1].stdout == b"False\n"
    with pytest.raises(LinkError):
        link.call("session_input", session=s, value="late")


@pytest.mark.parametrize(
    ("code", "wanted"),
    [("exit_code = 3; 1/0", 3), ("exit_code = 256; 1/0", 1), ("exit_code = -1; 1/0", 1), ("1/0", 1)],
)
def test_exit_code_of_a_cell(link: Link, s: str, code: str, wanted: int) -> None:
    assert run(link, code)[0]["exit_code"] == wanted


def test_words_of_a_refused_fork(link: Link, s: str) -> None:
    for _ in range(3):
        with pytest.raises(LinkError) as e:
            link.call("session_create", session="r", language="cobol")
        assert e.value.kind == "unsupported"
        assert "python is all there is" in str(e.value)
    assert [x["session"] for x in link.call("session_list")["sessions"]] == [s]
