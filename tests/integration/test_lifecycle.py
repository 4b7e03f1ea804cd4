# SPDX-License-Identifier: Apache-2.0
"""Pause and resume, hibernate and wake: the same machine goes on, and meanwhile costs what it should."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import Api, Daemon, Sandbox, Session
from harness.daemon import fill, has_fault_points, wait_for_exit

Make = Callable[..., Sandbox]
Call = Callable[[Sandbox], None]
MakeDaemon = Callable[..., Daemon]
UNKNOWN = "00000000-0000-4000-8000-000000000000"
CALLS = ["pause", "resume", "hibernate", "wake"]


class Worker:
    """A sandbox in the middle of its work."""

    def __init__(self, s: Sandbox) -> None:
        self.sandbox = s
        self.kernel = s.session()
        self.kernel.ok("import random, time, os\nrandom.seed(1)\ndrawn = []\nlast = time.monotonic()\nx = 41")
        self.draws = random.Random(1)
        self.names = self.identity()
        s.write("/workspace/f", "data")
        s.output(
            "setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > /tmp/beat; sleep 0.05; done' >/dev/null 2>&1 &"
        )

    def identity(self) -> str:
        return self.sandbox.output("hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id")

    def check(self) -> None:
        """It is the same machine, with the right time."""
        s = self.sandbox
        before = time.time()
        now = float(self.kernel.text("time.time()"))
        assert before - 0.05 <= now <= time.time() + 0.05
        assert self.kernel.text("x, time.monotonic() >= last") == "(41, True)"
        assert float(self.kernel.text("random.random()")) == self.draws.random(), "it goes on as seeded"
        assert self.identity() == self.names
        assert s.read("/workspace/f") == b"data"
        s.output("a=$(cat /tmp/beat); until [ $(cat /tmp/beat) -gt $a ]; do :; done", timeout_seconds=20)


@pytest.fixture(scope="module")
def worker(api: Api) -> Iterator[Worker]:
    s = api.create(ttl_seconds=3000)
    try:
        yield Worker(s)
    finally:
        s.discard()


# ---- pause ----


def test_pause_and_resume(worker: Worker, daemon: Daemon) -> None:
    s = worker.sandbox
    s.pause()
    s.pause()
    assert s.status() == s.info()["status"] == "paused"
    assert s.info()["id"] in [x["id"] for x in s.api.list(status="paused")]
    assert daemon.vm_of(s.id) in daemon.vms()
    s.resume()
    s.resume()
    assert s.status() == "running"
    worker.check()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/exec", {"json": {"cmd": "true"}}),
        ("POST", "/exec/stream", {"json": {"cmd": "true"}}),
        ("POST", "/repl", {"json": {"code": "1"}}),
        ("POST", "/repl/sessions", {"json": {}}),
        ("GET", "/repl/sessions", {}),
        ("GET", "/fs", {"params": {"path": "/etc/passwd"}}),
        ("GET", "/fs/dir", {"params": {"path": "/"}}),
        ("PUT", "/fs", {"params": {"path": "/x"}, "data": b"x"}),
    ],
)
def test_calls_on_a_paused_one(worker: Worker, method: str, path: str, body: dict[str, Any]) -> None:
    """Refused at once, with what to do."""
    worker.sandbox.pause()
    try:
        began = time.monotonic()
        answer = worker.sandbox.api.refused(method, worker.sandbox.path + path, 409, "conflict", **body)
        assert time.monotonic() - began < 2
        assert "paused" in answer["error"]
        assert "resume" in answer["error"]
    finally:
        worker.sandbox.resume()


def test_a_stream_outlasts_a_pause(worker: Worker) -> None:
    with worker.sandbox.stream("echo one; while [ ! -e /tmp/two ]; do sleep 0.02; done; echo two") as events:
        assert next(events).data["chunk"] == "one\n"
        worker.sandbox.pause()
        worker.sandbox.resume()
        worker.sandbox.write("/tmp/two", "")
        assert [e.data.get("chunk", e.data.get("exit_code")) for e in events] == ["two\n", 0]


# ---- hibernate ----


def test_hibernate_and_wake(worker: Worker, daemon: Daemon) -> None:
    """No process and no memory meanwhile."""
    s = worker.sandbox
    vm = daemon.vm_of(s.id)
    s.hibernate()
    s.hibernate()
    assert s.status() == s.info()["status"] == "hibernated"
    assert wait_for_exit(vm, 0)
    assert vm not in daemon.vms()
    s.wake()
    s.wake()
    assert s.status() == "running"
    assert not (daemon.data_dir / "sandboxes" / s.id / "hibernated").exists()
    worker.check()


def test_aliases(worker: Worker) -> None:
    s = worker.sandbox
    assert s.api.call("POST", f"{s.path}/stop") == {"status": "hibernated"}
    assert s.status() == "hibernated"
    assert s.api.call("POST", f"{s.path}/start") == {"status": "running"}
    worker.check()


WAKERS: dict[str, Callable[[Worker], object]] = {
    "exec": lambda w: w.sandbox.output("true"),
    "cell": lambda w: w.kernel.ok("1"),
    "read": lambda w: w.sandbox.read("/workspace/f"),
    "write": lambda w: w.sandbox.write("/workspace/g", "x"),
    "folder": lambda w: w.sandbox.entries("/workspace"),
    "sessions": lambda w: w.sandbox.sessions(),
    "session": lambda w: w.sandbox.session().delete(),
}


@pytest.mark.parametrize("waker", WAKERS)
def test_what_wakes_it(worker: Worker, waker: str) -> None:
    worker.sandbox.hibernate()
    WAKERS[waker](worker)
    assert worker.sandbox.status() == "running"
    worker.check()


def test_what_does_not_wake_it(worker: Worker) -> None:
    s = worker.sandbox
    s.hibernate()
    s.info()
    s.api.list()
    s.lifecycle()
    s.lifecycle(ttl_seconds=3000)
    s.api.refused("POST", f"{s.path}/exec", 400, "request.invalid", json={})
    assert s.status() == "hibernated"
    s.wake()


def test_it_is_woken_once(worker: Worker, daemon: Daemon) -> None:
    """By many requests at once; each gets its answer."""
    s = worker.sandbox
    s.hibernate()
    mark = daemon.mark()
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda i: s.output(f"echo {i}"), range(6))) == [f"{i}\n" for i in range(6)]
    woken = [r for r in daemon.records[mark:] if r["msg"] == "sandbox woken" and r["sandbox"] == s.id]
    assert len(woken) == 1
    worker.check()


def test_requests_while_it_goes_to_sleep(worker: Worker) -> None:
    """None is lost, whatever comes first."""
    s = worker.sandbox
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            hibernation = pool.submit(s.hibernate)
            got = pool.map(lambda _: s.api.request("POST", f"{s.path}/exec", json={"cmd": "echo hi"}), range(3))
            for answer in got:
                # One that was under way when the machine stopped ends with it, and says so.
                assert (answer.status_code, answer.json().get("stdout")) == (200, "hi\n") or answer.status_code in (
                    409,
                    503,
                ), answer.text
            hibernation.result()
    worker.check()


def test_of_a_paused_one(worker: Worker) -> None:
    """It runs when it wakes."""
    worker.sandbox.pause()
    worker.sandbox.hibernate()
    assert worker.sandbox.status() == "hibernated"
    worker.sandbox.wake()
    worker.check()


def test_a_stream_ends_with_it(worker: Worker) -> None:
    """With an error that says why; nothing hangs, and the command is gone when it wakes (S7)."""
    s = worker.sandbox
    with s.stream("echo up; sleep 6666") as events:
        next(events)
        s.hibernate()
        last = list(events)[-1]
    assert last.name == "error"
    assert "hibernated" in last.data["error"]
    assert s.exec("pgrep -fx 'sleep 6666'")["stdout"] == ""
    worker.check()


# ---- what each bad transition answers ----


def test_a_hibernated_one_can_not_be_paused(worker: Worker) -> None:
    s = worker.sandbox
    s.hibernate()
    for call in ("pause", "resume"):
        answer = s.api.refused("POST", f"{s.path}/{call}", 409, "conflict")
        assert "hibernated" in answer["error"]
    s.wake()


def test_a_paused_one_can_not_be_woken(worker: Worker) -> None:
    s = worker.sandbox
    s.pause()
    assert "paused" in s.api.refused("POST", f"{s.path}/wake", 409, "conflict")["error"]
    s.resume()


@pytest.mark.parametrize("call", CALLS)
def test_failed_and_gone(sandbox: Make, daemon: Daemon, call: str) -> None:
    s = sandbox("base")
    mark = daemon.mark()
    os.kill(daemon.vm_of(s.id), signal.SIGKILL)
    daemon.wait_log("sandbox failed", since=mark, sandbox=s.id)
    assert "failed" in s.api.refused("POST", f"{s.path}/{call}", 409, "conflict")["error"]
    assert s.status() == "failed"
    s.delete()
    s.api.refused("POST", f"{s.path}/{call}", 404, "sandbox.not_found")


@pytest.mark.parametrize("stop", ["pause", "hibernate"])
def test_delete(sandbox: Make, daemon: Daemon, stop: str) -> None:
    s = sandbox("base")
    getattr(s, stop)()
    s.delete()
    assert s.id not in daemon.folders()
    s.api.refused("GET", s.path, 404, "sandbox.not_found")


def test_a_paused_one_whose_machine_dies(sandbox: Make, daemon: Daemon) -> None:
    s = sandbox("base")
    s.pause()
    mark = daemon.mark()
    os.kill(daemon.vm_of(s.id), signal.SIGKILL)
    daemon.wait_log("sandbox failed", since=mark, sandbox=s.id)
    assert s.status() == "failed"


@pytest.mark.parametrize("name", ["delta", "devices", "scratch.ext4"])
def test_a_state_that_was_lost(sandbox: Make, daemon: Daemon, name: str) -> None:
    """It can't be woken, which is said; it stays hibernated, and is whole when the file is back."""
    s = sandbox("base")
    s.write("/workspace/f", "data")
    s.hibernate()
    path = daemon.data_dir / "sandboxes" / s.id / "hibernated" / name
    path.rename(path.with_name("away"))
    response = s.api.request("POST", f"{s.path}/exec", json={"cmd": "true"})
    assert response.status_code == 500
    assert "woken" in response.json()["error"]
    assert s.status() == "hibernated"
    assert not [vm for vm in daemon.vms() if s.id in str(Path(f"/proc/{vm}/cwd").readlink())]
    path.with_name("away").rename(path)
    assert s.read("/workspace/f") == b"data"


# ---- by itself ----


def test_idle(sandbox: Make, daemon: Daemon) -> None:
    """A persistent one is hibernated when nobody uses it, and is not ended by its time."""
    mark = daemon.mark()
    s = sandbox("base", persistent=True, idle_seconds=1, ttl_seconds=1)
    assert s.created["persistent"] is True
    assert s.created["idle_seconds"] == 1
    assert "expires_at" not in s.created
    s.write("/workspace/f", "data")
    daemon.wait_log("sandbox is idle", since=mark, sandbox=s.id, seconds=10)
    daemon.wait_log("sandbox hibernated", since=mark, sandbox=s.id, seconds=10)
    assert s.read("/workspace/f") == b"data"
    mark = daemon.mark()
    s.output("sleep 1.5")
    assert s.status() == "running", "a call under way is use"
    daemon.wait_log("sandbox hibernated", since=mark, sandbox=s.id, seconds=10)


def test_a_hibernated_one_expires(sandbox: Make, daemon: Daemon) -> None:
    mark = daemon.mark()
    s = sandbox("base", ttl_seconds=2)
    s.hibernate()
    daemon.wait_log("sandbox expired", since=mark, sandbox=s.id, seconds=10)
    daemon.wait_log("sandbox deleted", since=mark, sandbox=s.id, seconds=10)
    assert s.id not in daemon.folders()


@contextlib.contextmanager
def stuck(d: Daemon, s: Sandbox) -> Iterator[None]:
    """Its machine's process does not answer the daemon: whatever needs it takes as long as this block."""
    pid = d.vm_of(s.id)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def others(d: Daemon, sandbox: Make) -> Iterator[None]:
    """Two that are there before the block; after it, one expires, and one is found dead."""
    expires, dies = sandbox("base"), sandbox("base")
    yield
    mark = d.mark()
    expires.lifecycle(ttl_seconds=1)
    os.kill(d.vm_of(dies.id), signal.SIGKILL)
    d.wait_log("sandbox failed", since=mark, sandbox=dies.id, seconds=15)
    d.wait_log("sandbox deleted", since=mark, sandbox=expires.id, seconds=15)


@pytest.mark.parametrize(("call", "status"), [("snapshots", 201), ("hibernate", 200), ("pause", 204)])
def test_others_do_not_wait_for_a_slow_operation(sandbox: Make, daemon: Daemon, call: str, status: int) -> None:
    s = sandbox("base")
    with ThreadPoolExecutor(1) as pool, stuck(daemon, s):
        with others(daemon, sandbox):
            operation = pool.submit(s.api.request, "POST", f"{s.path}/{call}")
        assert not operation.done()
    assert operation.result().status_code == status
    for snapshot in s.api.snapshots(sandbox_id=s.id):
        s.api.call("DELETE", f"/v1/snapshots/{snapshot}", want=204)


def test_others_do_not_wait_for_an_idle_one(sandbox: Make, daemon: Daemon) -> None:
    """It is hibernated by nobody's request, and slowly."""
    s = sandbox("base")
    mark = daemon.mark()
    with stuck(daemon, s):
        with others(daemon, sandbox):
            s.lifecycle(persistent=True, idle_seconds=1)
            daemon.wait_log("sandbox is idle", since=mark, sandbox=s.id, seconds=10)
        assert s.status() == "hibernating"
    daemon.wait_log("sandbox hibernated", since=mark, sandbox=s.id, seconds=10)


def test_others_do_not_wait_for_one_that_is_busy_when_it_expires(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    """The keeper has found that nobody uses it, and then somebody does."""
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    held = tmp_path / "held"
    os.mkfifo(held)
    d = make_daemon(env={"PANDASTACK_FAULT": f"keeper.expires={held}"}).wait_ready()
    s = d.api.create("base", ttl_seconds=1)
    with ThreadPoolExecutor(1) as pool, stuck(d, s):
        with others(d, d.api.create), held.open("wb"):
            operation = pool.submit(s.api.request, "POST", f"{s.path}/hibernate")
            while s.status() != "hibernating":
                assert not operation.done()
            held.unlink()
        assert not operation.done()
    assert operation.result().status_code == 200
    s.discard()
    d.stop()
    d.check_clean()


def test_a_death_is_found_that_came_when_somebody_was_busy(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    held = tmp_path / "held"
    os.mkfifo(held)
    d = make_daemon(env={"PANDASTACK_FAULT": f"network.counted={held}"}).wait_ready()
    s = d.api.create("base", network={"egress": "none"})  # nor has it a helper whose end is heard of
    mark = d.mark()
    with ThreadPoolExecutor(1) as pool:
        operation = pool.submit(s.api.request, "GET", f"{s.path}/network")
        with held.open("wb"):
            held.unlink()
            os.kill(d.vm_of(s.id), signal.SIGKILL)
            with others(d, d.api.create):
                pass
            assert not operation.done()
    assert operation.result().status_code == 200
    d.wait_log("sandbox failed", since=mark, sandbox=s.id, seconds=10)
    s.discard()
    d.stop()
    d.check_clean()


@pytest.mark.parametrize("point", ["hibernate.ended", "wake.restored"])
def test_one_expires_that_changed_when_the_keeper_looked(point: str, make_daemon: MakeDaemon, tmp_path: Path) -> None:
    """It does not look at one that is being hibernated or woken; both lead to one that is hibernated."""
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    held = tmp_path / "held"
    d = make_daemon(env={"PANDASTACK_FAULT": f"{point}={held}"}).wait_ready()
    mark = d.mark()
    s = d.api.create("base", ttl_seconds=3)
    call = "hibernate"
    if point.startswith("wake"):
        s.hibernate()
        (d.data_dir / "sandboxes" / s.id / "hibernated" / "delta").unlink()
        call = "wake"
    os.mkfifo(held)
    with ThreadPoolExecutor(1) as pool:
        operation = pool.submit(s.api.request, "POST", f"{s.path}/{call}")
        with held.open("wb"):
            held.unlink()
            with others(d, d.api.create):
                pass
            assert not operation.done()
    assert operation.result().status_code == (200 if call == "hibernate" else 500)
    d.wait_log("sandbox deleted", since=mark, sandbox=s.id, seconds=20)
    d.stop()
    d.check_clean()


def test_lifecycle(sandbox: Make, daemon: Daemon) -> None:
    s = sandbox("base", ttl_seconds=500)
    first = {"ttl_seconds": 500, "persistent": False, "idle_seconds": 300, "status": "running"}
    assert s.lifecycle() == first
    assert s.lifecycle(persistent=True) == {**first, "persistent": True}
    assert s.lifecycle(idle_seconds=7) == {**first, "persistent": True, "idle_seconds": 7}
    assert s.lifecycle(ttl_seconds=9, persistent=False) == {**first, "ttl_seconds": 9, "idle_seconds": 7}
    assert s.info()["ttl_seconds"] == 9
    assert s.lifecycle(ttl_seconds=0)["ttl_seconds"] == sandbox("base").created["ttl_seconds"]
    mark = daemon.mark()
    s.lifecycle(ttl_seconds=1)
    daemon.wait_log("sandbox deleted", since=mark, sandbox=s.id, seconds=10)


@pytest.mark.parametrize(
    "body",
    [
        {"ttl_seconds": -1},
        {"ttl_seconds": "x"},
        {"ttl_seconds": 1e30},
        {"ttl_seconds": 1.5},
        {"idle_seconds": 0},
        {"idle_seconds": -5},
        {"idle_seconds": []},
        {"persistent": "yes"},
        {"persistent": 1},
        {"ttl_seconds": 5, "persistent": "no"},
    ],
)
def test_bad_lifecycles(worker: Worker, body: dict[str, Any]) -> None:
    s = worker.sandbox
    before = s.lifecycle()
    s.api.refused("PATCH", f"{s.path}/lifecycle", 400, "request.invalid", json=body)
    assert s.lifecycle() == before


@pytest.mark.parametrize("body", [b"[]", b"5", b"{", b"null"])
def test_bodies_that_are_no_object(worker: Worker, body: bytes) -> None:
    s = worker.sandbox
    s.api.refused("PATCH", f"{s.path}/lifecycle", 400, "request.invalid", data=body)


def test_lifecycle_of_nobody(api: Api) -> None:
    api.refused("GET", f"/v1/sandboxes/{UNKNOWN}/lifecycle", 404, "sandbox.not_found")
    api.refused("PATCH", f"/v1/sandboxes/{UNKNOWN}/lifecycle", 404, "sandbox.not_found", json={})


# ---- the daemon's end ----


@pytest.mark.parametrize("kept", [False, True])
def test_over_a_restart(make_daemon: MakeDaemon, kept: bool) -> None:
    """A hibernated one stays what it is, and so does a paused one; lifecycle settings too."""
    d = make_daemon(args=["--keep"]).wait_ready()
    asleep, paused = Worker(d.api.create(persistent=True, idle_seconds=77)), d.api.create("base")
    asleep.sandbox.hibernate()
    paused.pause()
    if kept:
        assert d.stop() == 0
    else:
        d.kill()
    d = make_daemon(d.data_dir).wait_ready()
    asleep.sandbox = d.api.sandbox(asleep.sandbox.id)
    asleep.kernel = Session(asleep.sandbox, asleep.kernel.created)
    assert asleep.sandbox.status() == "hibernated"
    assert asleep.sandbox.lifecycle()["persistent"] is True
    assert asleep.sandbox.lifecycle()["idle_seconds"] == 77
    paused = d.api.sandbox(paused.id)
    assert paused.status() == "paused"
    paused.resume()
    assert paused.output("echo on") == "on\n"
    asleep.check()
    asleep.sandbox.discard()  # it would stay
    d.stop()
    d.check_clean()


@pytest.mark.parametrize(
    ("stop", "go", "status"),
    [(Sandbox.hibernate, Sandbox.wake, "hibernated"), (Sandbox.pause, Sandbox.resume, "paused")],
)
def test_disk_full(small_disk: tuple[Daemon, Any], stop: Call, go: Call, status: str) -> None:
    """What can't be written, or only noted, is undone: it runs on, or stays as it is until there is room (S11)."""
    d, disk = small_disk
    s = d.api.create()
    kernel = s.session()
    kernel.ok("x = 5")
    filler = fill(disk)
    d.api.refused("POST", f"{s.path}/{stop.__name__}", 507, "no_space")
    assert s.status() == "running"
    assert kernel.text("x") == "5"
    assert not (disk / "sandboxes" / s.id / "hibernated").exists()
    filler.unlink()
    stop(s)
    filler = fill(disk)
    d.api.refused("POST", f"{s.path}/{go.__name__}", 507, "no_space")
    assert s.status() == status
    filler.unlink()
    go(s)
    assert kernel.text("x") == "5"
    d.stop()
    d.check_clean()


def test_what_outlives_the_daemon(make_daemon: Callable[..., Daemon]) -> None:
    """SIGTERM without --keep ends what runs; the hibernated and the persistent are there for the next daemon."""
    d = make_daemon().wait_ready()
    gone, asleep, lasting = d.api.create("base"), d.api.create("base"), d.api.create("base", persistent=True)
    for s in (asleep, lasting):
        s.write("/root/kept", s.id)
    d.api.call("POST", f"{asleep.path}/hibernate")
    assert d.stop() == 0
    assert not d.vms()
    again = make_daemon(d.data_dir).wait_ready()
    assert {s["id"]: s["status"] for s in again.api.list()} == {asleep.id: "hibernated", lasting.id: "hibernated"}
    assert gone.id not in {s["id"] for s in again.api.list()}
    for s in (asleep, lasting):
        woken = again.api.sandbox(s.id)
        assert woken.output("cat /root/kept") == s.id
        woken.discard()
    again.stop()
