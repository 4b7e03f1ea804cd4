# SPDX-License-Identifier: Apache-2.0
"""A machine's cgroup: what it limits, where it lies, and that it ends with it. Firecracker, with either version."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import Api, Daemon, Sandbox
from harness.daemon import wait_for_exit

MakeDaemon = Callable[..., Daemon]

TOP = Path("/sys/fs/cgroup")
V1_LIMITS = {"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"}


def is_v2() -> bool:
    return (TOP / "cgroup.controllers").exists()


@pytest.fixture(scope="module", autouse=True)
def host() -> None:
    if os.environ.get("PANDASTACK_TEST_ENGINE") != "firecracker" or os.geteuid() != 0:
        pytest.skip("needs Firecracker, KVM, and root")


def folders(pid: int) -> list[Path]:
    """Of the cgroups of a machine's process."""
    found = []
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if Path(path).name.startswith("pandastack-"):
            found.append(TOP / names / path[1:])
    return found


def limits(pid: int) -> tuple[int, int, int]:
    """Memory, processes, and CPU time in each 0.1 s."""
    if is_v2():
        (one,) = folders(pid)
        quota, period = (one / "cpu.max").read_text().split()
        assert period == "100000"
        return int((one / "memory.max").read_text()), int((one / "pids.max").read_text()), int(quota)
    at = {path.relative_to(TOP).parts[0]: path for path in folders(pid)}
    memory, pids, cpu = (at[name] / file for name, file in V1_LIMITS.items())
    return int(memory.read_text()), int(pids.read_text()), int(cpu.read_text())


def programs(path: Path) -> list[int]:
    """The processes in it, less the kernel's threads: KVM has one for a machine."""
    pids = map(int, path.joinpath("cgroup.procs").read_text().split())
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes()]


def all_of(daemon: Daemon, s: Sandbox) -> list[Path]:
    """Its cgroups, in which there is nobody else."""
    pid = daemon.vm_of(s.id)
    found = folders(pid)
    assert len(found) == (1 if is_v2() else 3)
    for path in found:
        assert programs(path) == [pid]
    return found


def none_of(paths: list[Path]) -> bool:
    return not any(path.exists() for path in paths)


def test_it_has_one_for_its_life(api: Api, daemon: Daemon) -> None:
    """With the limits of its sandbox, and room for what the engine needs; a copy has its own."""
    s = api.create("platform")
    first = all_of(daemon, s)
    info = s.info()
    memory = info["memory_mb"] << 20
    assert limits(daemon.vm_of(s.id)) == (memory + memory // 16 + (128 << 20), 32 + info["cpu"], info["cpu"] * 100000)
    child = s.fork()
    other = all_of(daemon, child)
    assert set(other).isdisjoint(first)
    s.hibernate()
    assert none_of(first)
    s.wake()
    again = all_of(daemon, s)
    s.delete()
    child.delete()
    assert none_of(again + other)


def test_what_a_machine_has_started_ends_with_it(api: Api, daemon: Daemon) -> None:
    """A Firecracker that its guest has taken over may have children."""
    s = api.create("platform")
    (one, *_) = found = all_of(daemon, s)
    with subprocess.Popen(["sleep", "100"]) as stray:
        for path in found:
            path.joinpath("cgroup.procs").write_text(str(stray.pid))
        assert str(stray.pid) in one.joinpath("cgroup.procs").read_text().split()
        s.delete()
        assert stray.wait(10) == -9
    assert none_of(found)


def test_another_daemon(tmp_path: Path, make_daemon: MakeDaemon) -> None:
    """Takes over those of the machines that run, and removes those of the machines that ended meanwhile."""
    first = make_daemon(tmp_path / "data").wait_ready()
    runs, ends = first.api.create("platform"), first.api.create("platform")
    kept, left = all_of(first, runs), all_of(first, ends)
    pid = first.vm_of(ends.id)
    first.kill()
    os.kill(pid, 9)
    assert wait_for_exit(pid, 10)
    assert all(path.exists() for path in left)
    second = make_daemon(tmp_path / "data").wait_ready()
    assert none_of(left)
    assert all_of(second, runs) == kept
    for s in (runs, ends):
        second.api.sandbox(s.id).delete()
    assert none_of(kept)
    second.stop()
    second.check_clean()


@pytest.fixture
def own() -> Iterator[Path]:
    """A cgroup for a daemon, as a unit has it."""
    if not is_v2():
        pytest.skip("cgroup v2")
    path = TOP / "unit"
    path.mkdir()
    try:
        yield path
    finally:
        for one in (path / "daemon", path):
            if one.exists():
                one.rmdir()


def within(path: Path) -> list[str]:
    """A wrapper that joins it."""
    return ["sh", "-e", "-c", f'echo 0 >{path}/cgroup.procs; exec "$@"', "sh"]


def test_in_a_cgroup_of_its_own(own: Path, make_daemon: MakeDaemon) -> None:
    """The daemon moves out of the way, once: the next one begins where this one was."""
    for start in (own, own / "daemon"):
        d = make_daemon(wrapper=within(start)).wait_ready()
        assert (own / "daemon" / "cgroup.procs").read_text().split() == [str(d.process.pid)]
        assert "cgroup" not in d.wait_log("engine chosen")["why"]
        s = d.api.create("platform")
        (found,) = all_of(d, s)
        assert found.parent == own
        s.delete()
        assert none_of([found])
        d.stop()
        d.check_clean()


def test_among_others(own: Path, make_daemon: MakeDaemon) -> None:
    """It moves nobody else: machines have none, and it is said."""
    with subprocess.Popen(["sleep", "100"]) as other:
        own.joinpath("cgroup.procs").write_text(str(other.pid))
        d = make_daemon(wrapper=within(own)).wait_ready()
        why = "no cgroups for its machines: other processes are in the daemon's (systemd: Delegate=yes)"
        assert why in d.wait_log("engine chosen")["why"]
        assert why in next(e["why"] for e in d.api.call("GET", "/v1/engines") if e["selected"])
        s = d.api.create("platform")
        assert folders(d.vm_of(s.id)) == []
        assert s.output("echo on") == "on\n"
        s.delete()
        d.stop()
        d.check_clean()
        other.kill()
