# SPDX-License-Identifier: Apache-2.0
"""A guest whose agent has been taken over: it may write any bytes to the link. The daemon must not mind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import ApiError, Daemon, Sandbox
from harness.daemon import has_fault_points

Make = Callable[..., Sandbox]

# Takes the agent's own descriptor of the port (the device opens only once) and writes to it.
SPEAK = """
import ctypes, os, select
libc = ctypes.CDLL(None, use_errno=True)
fd = next(int(n) for n in os.listdir("/proc/1/fd") if "vport" in os.readlink("/proc/1/fd/" + n))
pidfd = os.pidfd_open(1)
port = libc.syscall(438, pidfd, fd, 0)
assert port >= 0, os.strerror(ctypes.get_errno())
def frame(type, stream, payload, arg=0, length=None):
    n = len(payload) if length is None else length
    return bytes([0xA5, type, arg, 0]) + stream.to_bytes(4, "little") + n.to_bytes(4, "little") + payload
def say(data):
    view = memoryview(data)
    while view:
        select.select([], [port], [])
        try:
            view = view[os.write(port, view):]
        except BlockingIOError:
            pass  # the agent was faster
"""

ATTACKS = {
    "garbage": "say(os.urandom(1 << 16))",
    "one wrong byte": "say(b'x')",
    "a length over the limit": "say(frame(3, 1, b'', 1, 0xFFFFFFFF))",
    "a little over the limit": "say(frame(3, 1, b'x' * 65537, 1))",
    "an unknown type": "say(frame(99, 1, b''))",
    "a request to the host": 'say(frame(2, 1, b\'{"op":"exec","cmd":"id"}\'))',
    "a hello out of turn": "say(frame(1, 0, b'x' * 20))",
    "a short hello": "say(frame(1, 0, b'x'))",
}

# On the stream of the very command that does this: its number is the highest that there is.
OWN_STREAM = {
    "more than the window": "say(b''.join(frame(3, n, b'x' * 65536, 1) for _ in range(20)))",
    "an event that is no JSON": "say(frame(4, n, b'{'))",
    "an answer that is no JSON": "say(frame(7, n, b'not json'))",
    "credit of four billion": "say(frame(6, n, b'\\xff\\xff\\xff\\xff') * 3)",
    "credit of two bytes": "say(frame(6, n, b'xx'))",
}

HARMLESS = {
    "padding": "say(bytes(1 << 20))",
    "streams that never were": "say(frame(3, 4000000, b'x', 1) + frame(7, 4000001, b'{}') + frame(5, 4000002, b''))",
}


# Waits until the agent sets the clock, as it is told to when the machine goes on. The FIFO tells that it waits.
WHEN_IT_GOES_ON = """
CLOCK_REALTIME, ABSTIME, CANCEL_ON_SET = 0, 1, 2
timer = libc.timerfd_create(CLOCK_REALTIME, 0)
libc.timerfd_settime(timer, ABSTIME | CANCEL_ON_SET, (ctypes.c_long * 4)(0, 0, 1 << 33, 0), None)
open("/tmp/ready", "w").close()
try:
    os.read(timer, 8)
except OSError:
    pass  # ECANCELED
"""


def attack(s: Sandbox, code: str) -> None:
    s.write("/tmp/attack.py", SPEAK + code + "\n")
    try:
        s.exec("python3 /tmp/attack.py; sleep 5", timeout_seconds=20)
    except ApiError as e:
        assert e.status in (500, 503, 504), str(e)[:500]


@pytest.mark.parametrize("what", ATTACKS)
def test_nonsense_fails_the_sandbox_alone(daemon: Daemon, box: Sandbox, sandbox: Make, what: str) -> None:
    s = sandbox()
    mark = daemon.mark()
    began = time.monotonic()
    attack(s, ATTACKS[what])
    record = daemon.wait_log("sandbox failed", since=mark, sandbox=s.id, seconds=20)
    assert time.monotonic() - began < 30
    assert record["why"]
    info = s.info()
    assert info["status"] == "failed"
    assert info["failure"] == record["why"]
    s.api.refused("POST", f"{s.path}/exec", 503, "sandbox.failed", json={"cmd": "true"})
    assert box.output("echo never noticed") == "never noticed\n"
    assert daemon.api.call("GET", "/healthz")["status"] == "ok"


@pytest.mark.parametrize("what", OWN_STREAM)
def test_nonsense_on_a_stream_that_is_open(daemon: Daemon, box: Sandbox, sandbox: Make, what: str) -> None:
    """It may guess which; all that there can be are tried."""
    s = sandbox()
    attack(s, "for n in range(1, 40):\n    " + OWN_STREAM[what])
    assert s.info()["status"] in ("failed", "running")
    if s.info()["status"] == "failed":
        assert s.info()["failure"]
    assert box.output("echo never noticed") == "never noticed\n"
    assert daemon.status_kib("VmRSS") < 1024 * 1024


@pytest.mark.parametrize("what", HARMLESS)
def test_what_the_protocol_allows(sandbox: Make, what: str) -> None:
    s = sandbox()
    attack(s, HARMLESS[what])
    assert s.info()["status"] == "running"
    assert s.output("echo fine") == "fine\n"


def test_answers_of_the_wrong_shape(daemon: Daemon, sandbox: Make) -> None:
    """A guest that answers with the wrong types gets no crash and no odd JSON out of the daemon."""
    shapes = [
        b'{"ok":[]}',
        b'{"ok":{"exit_code":"x"}}',
        b'{"error":7}',
        b'{"error":{"kind":[],"message":{}}}',
        b"[]",
        b"{}",
    ]
    for shape in shapes:
        s = sandbox()
        code = f"for n in range(1, 40):\n    say(frame(7, n, {shape!r}))"
        s.write("/tmp/attack.py", SPEAK + code)
        response = s.api.request(
            "POST", f"{s.path}/exec", json={"cmd": "python3 /tmp/attack.py; sleep 5", "timeout_seconds": 20}
        )
        assert response.status_code in (200, 400, 500, 503, 504), response.text
        assert isinstance(response.json(), dict)
        s.discard()
    assert daemon.api.call("GET", "/healthz")["status"] == "ok"


def test_lies_to_those_who_look_on(daemon: Daemon, sandbox: Make) -> None:
    """Who follows logs, a folder or a process is told what makes sense, and nothing else."""
    lies = [
        b'{"live":7,"missed":"x","events":7}',
        b'{"live":null,"missed":[],"events":[7,[],{},{"type":7,"path":"p"},{"type":"create","path":7}]}',
        b'{"events":[{"type":"error","path":"p"},{"type":"exit\\ndata: x","path":"p"}]}',
        b'{"live":true}',
    ]
    end = b'{"ok":{"exit_code":"x","signal":[],"duration_ms":{},"timed_out":7}}'
    everywhere = "for n in range(1, 40):\n    "
    s = sandbox()
    s.mkdir("/tmp/w")
    p = s.start("exec sleep 1000")
    with (
        s.follow("logs", follow=1) as logs,
        s.follow("fs/watch", path="/tmp/w") as changes,
        p.stream() as output,
    ):
        s.write("/tmp/attack.py", SPEAK + everywhere + f"say(b''.join(frame(4, n, lie) for lie in {lies!r}))")
        s.output("python3 /tmp/attack.py")
        s.output("touch /tmp/w/x; echo out")
        assert next(changes).data == {"path": "x", "is_dir": False, "seq": 0}
        assert next(logs).data == {"line": "out\n", "seq": 0}
        s.write("/tmp/attack.py", SPEAK + everywhere + f"say(frame(7, n, {end!r}))")
        assert s.exec("python3 /tmp/attack.py")["exit_code"] == -1
        assert [(e.name, e.data["exit_code"], e.data["timed_out"]) for e in output] == [("exit", -1, False)]
        assert list(logs) == []
    assert daemon.api.call("GET", "/healthz")["status"] == "ok"


@pytest.mark.parametrize(("call", "status"), [("snapshots", 201), ("resume", 204)])
def test_nonsense_while_it_goes_on(
    make_daemon: Callable[..., Daemon], tmp_path: Path, call: str, status: int
) -> None:
    """The link is gone before the daemon speaks to a machine that stood still."""
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    held = tmp_path / "held"
    os.mkfifo(held)
    d = make_daemon(env={"PANDASTACK_FAULT": f"machine.goes_on={held}"}).wait_ready()
    other, s = d.api.create("base"), d.api.create("base")
    if call == "resume":
        s.pause()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(s.api.request, "POST", f"{s.path}/{call}")
        with held.open("wb"):
            attack(s, ATTACKS["garbage"])
            d.wait_log("sandbox failed", sandbox=s.id)
        assert answer.result().status_code == status
    assert s.status() == "failed"
    assert other.output("echo never noticed") == "never noticed\n"
    d.stop()
    d.check_clean()


@pytest.mark.parametrize("calls", [{"snapshots": 201}, {"pause": 204, "resume": 204}])
def test_nonsense_as_soon_as_it_goes_on(daemon: Daemon, box: Sandbox, sandbox: Make, calls: dict[str, int]) -> None:
    """Several at once, while the daemon speaks to them; what was asked for is done."""
    made = [sandbox("base") for _ in range(4)]
    mark = daemon.mark()
    for s in made:
        s.write("/tmp/attack.py", SPEAK + WHEN_IT_GOES_ON + ATTACKS["garbage"])
        s.output("mkfifo /tmp/ready; setsid python3 /tmp/attack.py >/dev/null 2>&1 & cat /tmp/ready")

    def stop_and_go(s: Sandbox) -> None:
        for call, status in calls.items():
            s.api.call("POST", f"{s.path}/{call}", want=status)

    with ThreadPoolExecutor(len(made)) as pool:
        list(pool.map(stop_and_go, made))
    for s in made:
        daemon.wait_log("sandbox failed", since=mark, sandbox=s.id, seconds=20)
        for snapshot in s.api.snapshots(sandbox_id=s.id):
            s.api.call("DELETE", f"/v1/snapshots/{snapshot}", want=204)
    assert box.output("echo never noticed") == "never noticed\n"
