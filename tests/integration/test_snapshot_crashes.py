# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed at each step of a capture, and the next one finds all of it or nothing: needs fault points."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from harness import Daemon
from harness.daemon import has_fault_points

MakeDaemon = Callable[..., Daemon]

CAPTURE = ["capture.paused", "capture.devices", "capture.memory", "capture.disk"]
SNAPSHOT = [
    "snapshot.sealed",
    "snapshot.synced",
    "snapshot.renamed",
    "snapshot.held",
    "snapshot.registered",
]
FORK = ["fork.captured", "fork.child", "fork.made"]
HIBERNATE = ["hibernate.synced", "hibernate.noted", "hibernate.ended"]
WAKE = ["wake.disk", "wake.restored", "wake.noted"]


class Killed:
    """A sandbox whose daemons are killed, each at a point, and followed by the next."""

    def __init__(self, make_daemon: MakeDaemon, points: list[str]) -> None:
        if not has_fault_points():
            pytest.skip("the program was built without -Dfaults=true")
        self.make = make_daemon
        self.points = points
        self.daemon = make_daemon(env={"PANDASTACK_FAULT": points[0]}).wait_ready()
        self.sandbox = self.daemon.api.create()
        self.kernel = self.sandbox.session()
        self.kernel.ok("n = 0")
        self.n = 0

    def each(self, call: str, json: object = None) -> Iterator[str]:
        """For each point: the call has killed the daemon there, and the next runs."""
        for at, point in enumerate(self.points):
            with pytest.raises(OSError):  # the connection breaks; any answer is a point that was not met
                raise AssertionError(self.daemon.api.call("POST", f"{self.sandbox.path}/{call}", json=json))
            assert self.daemon.wait() == -signal.SIGKILL
            self.restart(self.points[at + 1] if at + 1 < len(self.points) else "none")
            yield point

    def restart(self, point: str) -> None:
        """The next daemon, which will be killed there."""
        self.daemon.kill()
        self.daemon = self.make(self.daemon.data_dir, env={"PANDASTACK_FAULT": point}).wait_ready()
        self.sandbox = self.daemon.api.sandbox(self.sandbox.id)

    def check(self, point: str, status: str | None = "running") -> None:
        """It has its state and goes on, and nothing half-made is left."""
        d, s = self.daemon, self.sandbox
        if status:
            assert s.status() == status, point
        self.n += 1
        assert s.same(self.kernel).text("n += 1; n") == str(self.n), point
        assert s.output("echo fine") == "fine\n"
        snapshots = d.data_dir / "snapshots"
        assert list((d.data_dir / "forks").iterdir()) == [], point
        assert {p.name for p in snapshots.iterdir()} == set(d.api.snapshots()), point
        assert set(d.folders()) == d.api.ids(), point
        assert len(d.vms()) == len(d.folders()), point

    def end(self) -> None:
        self.daemon.stop()
        self.daemon.check_clean()


def test_killed_in_the_middle_of_a_snapshot(make_daemon: MakeDaemon) -> None:
    """The snapshot is whole or not there."""
    k = Killed(make_daemon, [*CAPTURE, *SNAPSHOT])
    for point in k.each("snapshots"):
        k.check(point)
        taken = list(k.daemon.api.snapshots())
        assert len(taken) == (point == "snapshot.registered"), point
        for each in taken:
            copy = k.daemon.api.restore(each)
            assert copy.same(k.kernel).text("n") == str(k.n - 1)
            copy.delete()
    k.end()


def test_killed_in_the_middle_of_a_delete_of_a_snapshot(make_daemon: MakeDaemon) -> None:
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    d = make_daemon(env={"PANDASTACK_FAULT": "snapshot.forgotten"}).wait_ready()
    taken = d.api.create("base").snapshot()["id"]
    with pytest.raises(OSError):
        d.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)
    d.wait()
    d = make_daemon(d.data_dir).wait_ready()
    assert d.api.snapshots() == {}
    assert list((d.data_dir / "snapshots").iterdir()) == []
    d.stop()
    d.check_clean()


def test_killed_in_the_middle_of_a_fork(make_daemon: MakeDaemon) -> None:
    """Children that are there are whole."""
    k = Killed(make_daemon, [*CAPTURE, *FORK])
    for point in k.each("fork-tree", {"count": 3}):
        k.check(point)
        for info in k.daemon.api.list():
            if info["id"] == k.sandbox.id:
                continue
            assert info["parent"] == k.sandbox.id
            child = k.daemon.api.sandbox(info["id"])
            assert child.same(k.kernel).text("n") == str(k.n - 1)
            child.delete()
    k.end()


def test_killed_in_the_middle_of_a_hibernation(make_daemon: MakeDaemon) -> None:
    k = Killed(make_daemon, [*CAPTURE, *HIBERNATE])
    for point in k.each("hibernate"):
        k.check(point, "hibernated" if point in HIBERNATE[1:] else "running")
    k.end()


def test_killed_in_the_middle_of_a_wake(make_daemon: MakeDaemon) -> None:
    k = Killed(make_daemon, ["none"])
    for point in WAKE:
        k.sandbox.hibernate()
        k.points = ["none"]
        k.restart(point)
        for _ in k.each("wake"):
            k.check(point, "running" if point == WAKE[-1] else "hibernated")
    k.end()
