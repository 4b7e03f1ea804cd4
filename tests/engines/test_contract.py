# SPDX-License-Identifier: Apache-2.0
"""What every engine has to do. A new one is finished when it passes.

The engine is the one that this machine has; under hardware virtualisation it is tried by `proving-ground`.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness import Api, Daemon, Sandbox

MakeDaemon = Callable[..., Daemon]
Step = Callable[[str], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def box(api: Api, step: Step) -> Iterator[Sandbox]:
    """A sandbox for the whole module, the first of the daemon."""
    with step("create, ready to serve"):
        s = api.create("platform")
    try:
        yield s
    finally:
        s.discard()


def test_it_says_what_it_is(api: Api, box: Sandbox) -> None:
    engine = api.call("GET", "/healthz")["engine"]
    got = box.info()
    assert (got["engine"], got["accel"], got["isolation"]) == (engine["name"], engine["accel"], "microvm")
    assert got["boot_mode"] == "snapshot"


def test_what_it_lacks_is_answered_so(api: Api) -> None:
    """With 501 and the word; without asking for it one gets a sandbox that says what it has."""
    lacks = api.call("GET", "/healthz")["engine"]["lacks"]
    assert set(lacks) <= {"network", "streams"}
    if "network" in lacks:
        body = {"template": "platform", "network": {"egress": "internet"}}
        answer = api.refused("POST", "/v1/sandboxes", 501, "not_supported", json=body)
        assert "network is not supported by the engine" in answer["error"]
        s = api.create("platform")
        assert s.created["network"] == {"egress": "none"}
        answer = api.refused("PATCH", f"{s.path}/network", 501, "not_supported", json={"egress": "internet"})
        assert "network" in answer["error"]
        s.delete()


def test_its_system_calls_are_filtered(daemon: Daemon, box: Sandbox) -> None:
    """In each thread of the process, which is what a guest that has broken out of its machine is in."""
    modes = set()
    for status in Path(f"/proc/{daemon.vm_of(box.id)}/task").glob("*/status"):
        modes |= {line.split()[1] for line in status.read_text().splitlines() if line.startswith("Seccomp:")}
    if modes == {"0"} and box.created["engine"] == "firecracker":
        pytest.skip("this Firecracker was built without seccomp filters; its releases have them")
    assert modes == {"2"}


def test_exec(box: Sandbox, step: Step) -> None:
    with step("exec of `true`"):
        box.output("true")
    assert box.output("uname -s; id -u") == "Linux\n0\n"
    assert box.exec("exit 3")["exit_code"] == 3


def test_files(box: Sandbox, step: Step) -> None:
    data = bytes(range(256)) * 4096
    with step("a file of 1 MiB, in"):
        box.write("/workspace/f", data)
    with step("the same, out"):
        assert box.read("/workspace/f") == data
    assert box.stat("/workspace/f")["size"] == len(data)
    assert "f" in box.entries("/workspace")
    box.remove("/workspace/f")


def test_a_kernel(box: Sandbox, step: Step) -> None:
    with step("session, and its first cell"):
        kernel = box.session()
        assert kernel.text("x = 41; x + 1") == "42"
    with step("a cell, `x + 1`"):
        assert kernel.text("x + 1") == "42"
    kernel.delete()


def test_the_disk_takes_data(box: Sandbox) -> None:
    box.output("dd if=/dev/urandom of=/workspace/big bs=1M count=32 conv=fsync status=none && rm /workspace/big")


def test_pause(box: Sandbox) -> None:
    box.pause()
    assert box.status() == "paused"
    box.resume()
    assert box.output("echo on") == "on\n"


def test_the_clock(box: Sandbox) -> None:
    """Set after each restore: not the time of the bake."""
    assert abs(float(box.output("date +%s.%N")) - time.time()) < 2


def test_no_two_are_alike(api: Api, box: Sandbox) -> None:
    """What a machine makes up at random, it makes up alone."""
    other = api.create("platform")
    try:
        ask = "cat /proc/sys/kernel/random/uuid /etc/machine-id /etc/hostname; head -c 16 /dev/urandom | base64"
        assert not set(box.output(ask).splitlines()) & set(other.output(ask).splitlines())
        code = "import random, secrets, uuid; (random.random(), secrets.token_hex(), str(uuid.uuid4()))"
        assert box.session().text(code) != other.session().text(code)
    finally:
        other.discard()


def test_snapshot_and_restore(api: Api, step: Step) -> None:
    s = api.create("platform")
    kernel = s.session()
    kernel.ok("x = list(range(1000))")
    s.write("/workspace/f", "kept")
    with step("snapshot"):
        snapshot = s.snapshot()
    kernel.ok("x = None")
    s.write("/workspace/f", "later")
    try:
        with step("restore, ready to serve"):
            again = api.restore(snapshot["id"])
        try:
            assert again.same(kernel).text("sum(x)") == "499500"
            assert again.read("/workspace/f") == b"kept"
            assert s.read("/workspace/f") == b"later"
            # A snapshot of what stands on a snapshot.
            again.same(kernel).ok("x.append(1)")
            second = again.snapshot()
            third = api.restore(second["id"])
            assert third.same(kernel).text("sum(x)") == "499501"
            third.delete()
            api.call("DELETE", f"/v1/snapshots/{second['id']}", want=204)
        finally:
            again.discard()
    finally:
        s.discard()
        api.request("DELETE", f"/v1/snapshots/{snapshot['id']}")


def test_fork(api: Api, step: Step) -> None:
    s = api.create("platform")
    kernel = s.session()
    kernel.ok("x = 1")
    s.write("/workspace/f", "parent's")
    try:
        with step("fork, both ready"):
            child = s.fork()
        try:
            child.same(kernel).ok("x = 2")
            child.write("/workspace/f", "child's")
            assert kernel.text("x") == "1"
            assert s.read("/workspace/f") == b"parent's"
            assert child.same(kernel).text("x") == "2"
            first, second = child.fork_tree(2)
            assert {first.same(kernel).text("x"), second.same(kernel).text("x")} == {"2"}
            first.discard()
            second.discard()
        finally:
            child.discard()
    finally:
        s.discard()


def test_hibernate_and_wake(api: Api, step: Step) -> None:
    s = api.create("platform")
    kernel = s.session()
    kernel.ok("x = 7")
    with step("hibernate"):
        s.hibernate()
    with step("wake"):
        s.wake()
    assert kernel.text("x") == "7"
    s.delete()


BODY = os.urandom(3 << 20)

# What a request to an address comes to, and whether one had to wait for that.
ASK = """
import hashlib, sys, time, urllib.request
start = time.monotonic()
try:
    answer = urllib.request.urlopen(sys.argv[1], data=sys.stdin.buffer.read() or None, timeout=60)
    print(hashlib.sha256(answer.read()).hexdigest())
except OSError as e:
    print("refused" if time.monotonic() - start < 10 else f"refused late: {e}")
"""


class Handler(BaseHTTPRequestHandler):
    """Gives the same to all, and back what it gets."""

    def do_GET(self) -> None:
        self._send(BODY)

    def do_POST(self) -> None:
        self._send(self.rfile.read(int(self.headers["Content-Length"])))

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("0.0.0.0", 0), Handler) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield s
        s.shutdown()


def test_the_network(
    api: Api, tmp_path: Path, make_daemon: MakeDaemon, step: Step, server: ThreadingHTTPServer, own_address: str
) -> None:
    """What its policy allows is reached, at the first try, whatever became of the machine; all else is refused."""
    if "network" in api.call("GET", "/healthz")["engine"]["lacks"]:
        pytest.skip("this engine's machines have no network here")
    url = f"http://{own_address}:{server.server_port}/"
    there = hashlib.sha256(BODY).hexdigest()
    args = [f"--egress-allow={own_address}:{server.server_port}"]
    first = make_daemon(tmp_path / "data", args=args).wait_ready()
    s = first.api.create("platform")
    s.write("/tmp/ask.py", ASK)

    def ask(who: Sandbox, what: str = url, data: str = "/dev/null") -> str:
        return who.output(f"python3 /tmp/ask.py {what} < {data}", timeout_seconds=120).strip()

    with step("3 MiB from the network"):
        assert ask(s) == there
    s.write("/tmp/body", BODY)
    with step("3 MiB there and back"):
        assert ask(s, data="/tmp/body") == there
    assert ask(s, f"http://{own_address}:9/") == "refused"
    assert ask(s, f"http://10.0.2.77:{server.server_port}/") == "refused"
    child = s.fork()
    snapshot = s.snapshot()
    restored = first.api.restore(snapshot["id"])
    s.hibernate()
    s.wake()
    assert [ask(who) for who in (child, restored, s)] == [there] * 3
    child.delete()
    restored.delete()
    s.api.call("PATCH", f"{s.path}/network", json={"egress": "none"})
    assert ask(s) == "refused"
    s.api.call("PATCH", f"{s.path}/network", json={"egress": "internet"})
    assert ask(s) == there
    first.kill()
    second = make_daemon(tmp_path / "data", args=args).wait_ready()
    again = second.api.sandbox(s.id)
    assert ask(again) == there
    again.delete()
    second.api.call("DELETE", f"/v1/snapshots/{snapshot['id']}", want=204)
    second.stop()
    second.check_clean()


def test_the_daemon_dies_and_the_machine_runs_on(tmp_path: Path, make_daemon: MakeDaemon) -> None:
    first = make_daemon(tmp_path / "data").wait_ready()
    s = first.api.create("platform")
    kernel = s.session()
    kernel.ok("x = 5")
    first.kill()
    second = make_daemon(tmp_path / "data").wait_ready()
    again = second.api.sandbox(s.id)
    assert again.same(kernel).text("x") == "5"
    again.delete()
    second.stop()
    second.check_clean()


def test_a_paused_one_outlives_the_daemon(tmp_path: Path, make_daemon: MakeDaemon) -> None:
    first = make_daemon(tmp_path / "data").wait_ready()
    s = first.api.create("platform")
    kernel = s.session()
    kernel.ok("x = 5")
    s.pause()
    first.kill()
    second = make_daemon(tmp_path / "data").wait_ready()
    again = second.api.sandbox(s.id)
    assert again.status() == "paused"
    again.resume()
    # Longer than the daemon takes to give a machine up whose link is broken.
    assert again.same(kernel).text("import time; time.sleep(1.5); x") == "5"
    assert again.status() == "running"
    again.delete()
    second.stop()
    second.check_clean()


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_a_persistent_one_outlives_the_daemon(tmp_path: Path, make_daemon: MakeDaemon, paused: bool) -> None:
    """It is hibernated at the end of the daemon, and wakes in the next one's time; others are gone."""
    first = make_daemon(tmp_path / "data").wait_ready()
    first.api.create("platform")
    s = first.api.create("platform", persistent=True)
    kernel = s.session()
    kernel.ok("x = 5")
    if paused:
        s.pause()
    assert first.stop() == 0
    second = make_daemon(tmp_path / "data").wait_ready()
    assert [(one["id"], one["status"]) for one in second.api.list()] == [(s.id, "hibernated")]
    again = second.api.sandbox(s.id)
    assert again.same(kernel).text("x") == "5"
    again.delete()
    second.stop()
    second.check_clean()


def test_the_machine_dies(api: Api, daemon: Daemon) -> None:
    """Its end is noticed, with what ended it."""
    s = api.create("platform")
    with s.follow("events", follow=1) as events:
        os.kill(daemon.vm_of(s.id), signal.SIGKILL)
        died = next(e for e in events if e.data["type"] == "vm.died")
    assert "signal 9" in str(died.data)
    assert s.info()["status"] == "failed"
    s.delete()


@pytest.mark.parametrize("call", ["snapshots", "fork", "pause", "hibernate"])
def test_the_machine_dies_in_the_middle_of(api: Api, daemon: Daemon, call: str) -> None:
    """Of a call to its engine, which is stopped before and takes no more: it fails at once, and the next works."""
    s = api.create("platform")
    process = daemon.vm_of(s.id)
    os.kill(process, signal.SIGSTOP)
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(api.refused, "POST", f"{s.path}/{call}", 503, "sandbox.failed", json={})
        with pytest.raises(TimeoutError):
            answer.result(timeout=1)
        os.kill(process, signal.SIGKILL)
        assert "create a new one" in answer.result()["error"]
    s.delete()
    other = api.create("platform")
    assert other.output("echo on") == "on\n"
    other.delete()


def test_a_panic_ends_the_machine(api: Api) -> None:
    s = api.create("platform")
    with s.follow("events", follow=1) as events:
        api.request("POST", f"{s.path}/exec", json={"cmd": "echo c > /proc/sysrq-trigger", "timeout_seconds": 20})
        died = next(e for e in events if e.data["type"] == "vm.died")
    assert "panic" in str(died.data)
    s.delete()
