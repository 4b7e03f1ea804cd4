# SPDX-License-Identifier: Apache-2.0
"""What every engine has to do. A new one is finished when it passes.

The engine is the one that this machine has; under hardware virtualisation it is tried by `proving-ground`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

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
    assert set(lacks) <= {"network"}
    if "network" in lacks:
        body = {"template": "platform", "network": {"egress": "internet"}}
        answer = api.refused("POST", "/v1/sandboxes", 501, "not_supported", json=body)
        assert "network is not supported by the engine" in answer["error"]
        s = api.create("platform")
        assert s.created["network"] == {"egress": "none"}
        answer = api.refused("PATCH", f"{s.path}/network", 501, "not_supported", json={"egress": "internet"})
        assert "network" in answer["error"]
        s.delete()


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


def test_the_machine_dies(api: Api, daemon: Daemon) -> None:
    """Its end is noticed, with what ended it."""
    s = api.create("platform")
    with s.follow("events", follow=1) as events:
        os.kill(daemon.vm_of(s.id), signal.SIGKILL)
        died = next(e for e in events if e.data["type"] == "vm.died")
    assert "signal 9" in str(died.data)
    assert s.info()["status"] == "failed"
    s.delete()


def test_a_panic_ends_the_machine(api: Api) -> None:
    s = api.create("platform")
    with s.follow("events", follow=1) as events:
        api.request("POST", f"{s.path}/exec", json={"cmd": "echo c > /proc/sysrq-trigger", "timeout_seconds": 20})
        died = next(e for e in events if e.data["type"] == "vm.died")
    assert "panic" in str(died.data)
    s.delete()
