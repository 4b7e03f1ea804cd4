# SPDX-License-Identifier: Apache-2.0
"""What a helper has given up by the time that its guest can talk to it, and what it costs when nobody does."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from egress.frames import RST, Wire, echo, tcp
from egress.helper import GATEWAY, Helper, is_sanitized
from egress.net import Namespace, attempt
from egress.test_frames import handshake
from egress.world import ECHO, WEB, World

NOBODY = 65534
plain = pytest.mark.skipif(is_sanitized(), reason="a sanitizer makes system calls and takes memory of its own")


@pytest.fixture(params=["started by root", "started by a user"])
def jailed(request: pytest.FixtureRequest, helper: Callable[..., Helper]) -> Helper:
    """A helper that serves."""
    h = helper(user=0 if request.param == "started by root" else 12345)
    Wire(h)
    return h


def test_privileges(jailed: Helper) -> None:
    status = jailed.status()
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    assert status["NoNewPrivs"] == "1"
    assert status["Groups"] == ""
    assert int(status["NSpid"].split()[-1]) == 1
    assert status["Threads"] == "1"


@plain
def test_system_calls(jailed: Helper) -> None:
    assert jailed.status()["Seccomp"] == "2"


def test_user(helper: Callable[..., Helper]) -> None:
    for user, then in ((0, NOBODY), (12345, 12345)):
        status = helper(user=user).status()
        assert status["Uid"].split() == [str(then)] * 4
        assert status["Gid"].split() == [str(then)] * 4


def test_files(jailed: Helper) -> None:
    """An empty directory, which takes nothing, and no way back to another."""
    root = Path(f"/proc/{jailed.pid}/root")
    assert list(root.iterdir()) == []
    assert attempt(lambda: (root / "file").write_text("x")) == "EROFS"
    assert os.readlink(f"/proc/{jailed.pid}/cwd") == "/"
    mounts = Path(f"/proc/{jailed.pid}/mounts").read_text().splitlines()
    assert [line.split()[1:3] for line in mounts] == [["/", "tmpfs"]]
    assert "ro" in mounts[0].split()[3].split(",")


def test_namespaces(jailed: Helper, world: World) -> None:
    """All its own, but for the network: that is its work."""
    for kind in ("user", "mnt", "pid", "ipc", "uts"):
        assert os.readlink(f"/proc/{jailed.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind
    assert os.readlink(f"/proc/{jailed.pid}/ns/net") == os.readlink(world.machine.path)


def test_descriptors(jailed: Helper) -> None:
    """Sockets, the engine's process, and where its standard output goes: no file of the machine's."""
    links = {fd.name: os.readlink(fd) for fd in Path(f"/proc/{jailed.pid}/fd").iterdir()}
    for fd, target in links.items():
        if int(fd) > 2:
            assert target.startswith(("socket:", "anon_inode:", "pidfd:")), (fd, target)
    # The four that it was given, one for routes, one for the next daemon.
    assert len(links) == 3 + 4 + 2


@plain
def test_limits(jailed: Helper) -> None:
    lines = Path(f"/proc/{jailed.pid}/limits").read_text().splitlines()[1:]
    hard = {line[:26].strip(): line[26:].split()[1] for line in lines}
    assert int(hard["Max open files"]) <= 2048
    assert int(hard["Max data size"]) <= 1 << 30
    assert hard["Max file size"] == hard["Max processes"] == hard["Max core file size"] == "0"


def test_only_one_process(jailed: Helper) -> None:
    """The one that was started has ended, and left the other to whoever adopts it."""
    assert jailed.process.wait(60) == 0
    assert jailed.pid != jailed.process.pid
    assert jailed.status()["PPid"] == str(os.getpid())
    assert Path(f"/proc/{jailed.pid}/task/{jailed.pid}/children").read_text() == ""


@plain
def test_memory(jailed: Helper) -> None:
    assert int(jailed.status()["VmRSS"].split()[0]) < 6 << 10


@pytest.fixture
def three_seconds() -> Callable[[], None]:
    """Wait for a neighbour that is not there, as long as a kernel asks for one."""
    silent = Namespace("silent")
    silent.ip(
        "link add left type veth peer name right",
        "link set left up",
        "link set right up",
        "addr add 10.9.9.1/24 dev left",
    )

    def wait() -> None:
        assert attempt(lambda: silent.connect("10.9.9.2", 9)) == "EHOSTUNREACH"
        silent.close()

    return wait


def switches(helper: Helper) -> tuple[int, int]:
    """How often it has run, and for how long, by the time that it has done all and waits."""
    for _ in range(2):
        helper.control.stats()  # answered before the frames of that round are looked at
    while not (status := helper.status())["State"].startswith("S"):
        pass
    return int(status["voluntary_ctxt_switches"]), helper.cpu_ticks()


def switches_so_far(helper: Helper) -> tuple[int, int]:
    """The same, and nothing is asked of it."""
    return int(helper.status()["voluntary_ctxt_switches"]), helper.cpu_ticks()


def test_idle(helper: Callable[..., Helper], three_seconds: Callable[[], None]) -> None:
    """It is not woken at all, be it that its guest has used the network before."""
    h = helper()
    wire = Wire(h)
    assert wire.ask(echo(GATEWAY)).is_echo
    before = switches(h)
    three_seconds()
    assert switches_so_far(h) == before


def test_idle_after_a_connection(helper: Callable[..., Helper], three_seconds: Callable[[], None]) -> None:
    """One that has ended is nothing that it waits for."""
    h = helper()
    wire = Wire(h)
    ours, theirs = handshake(wire, WEB, ECHO)
    wire.send(tcp(WEB, ECHO, RST, sequence=ours, ack=theirs))
    before = switches(h)
    three_seconds()
    assert switches_so_far(h) == before
