# SPDX-License-Identifier: Apache-2.0
"""An engine whose calls fail, each at each call of the API that makes it: the fake one (fake.c), over real machines.

Whatever fails, the answer says so, nobody is left standing still who is called running, and nothing half-made stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import Daemon, Sandbox
from harness.api import Json, Session
from harness.daemon import templates

MakeDaemon = Callable[..., Daemon]

# What a call of the API asks of the engine before anything has changed, and what makes a machine.
CAPTURE = ["pause", "save_devices", "save_memory"]
BEGIN = ["start", "load"]


class Faults:
    """The folder from which the engine takes its faults."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.env = {"PANDASTACK_ENGINE_FAULTS": str(folder)}
        self.put("spare", "never")  # whose start would take the place of a request's

    def put(self, operation: str, fault: str) -> None:
        new = self.folder / ".new"
        new.write_text(fault)
        new.rename(self.folder / operation)

    @contextlib.contextmanager
    def when(self, **faults: str) -> Iterator[None]:
        """All of these happen in the block."""
        for operation, fault in faults.items():
            self.put(operation, fault)
        yield
        left = [operation for operation in faults if (self.folder / operation).exists()]
        for operation in left:
            (self.folder / operation).unlink()
        assert not left, "the engine was not asked for that"


class Lab:
    """A daemon whose engine can be told to fail, and a sandbox of it with a kernel."""

    def __init__(self, daemon: Daemon, faults: Faults) -> None:
        self.daemon = daemon
        self.api = daemon.api
        self.faults = faults
        self.when = faults.when

    def new(self) -> tuple[Sandbox, Session]:
        s = self.api.create("platform")
        kernel = s.session()
        kernel.ok("n = 0")
        return s, kernel

    def refused(self, method: str, path: str, json: Json | None = None) -> str:
        """An error that says that the engine failed."""
        error = str(self.api.refused(method, path, 500, "engine.failed", json=json or {})["error"])
        assert "the fake engine failed to" in error
        return error

    def check(self) -> None:
        """Each sandbox has a folder and, if it runs, a machine; and nothing else is there."""
        d = self.daemon
        status = {s["id"]: s["status"] for s in self.api.list()}
        assert set(d.folders()) == set(status)
        assert len(d.vms()) == sum(s in ("running", "paused") for s in status.values())
        assert list((d.data_dir / "forks").iterdir()) == []
        assert {p.name for p in (d.data_dir / "snapshots").iterdir()} == set(self.api.snapshots())


def as_ever(s: Sandbox, kernel: Session) -> None:
    """It runs and has its memory."""
    assert s.status() == "running"
    n = int(kernel.text("n += 1; n"))
    assert kernel.text("n") == str(n)
    assert s.output("echo on") == "on\n"


def failed(s: Sandbox, *words: str) -> None:
    """It has failed, or is about to, and says why; then it can be deleted."""
    with s.follow("events", follow=1) as events:
        died = next(e for e in events if e.data["type"] == "vm.died")
    assert any(word in str(died.data) for word in words), died
    s.api.refused("POST", f"{s.path}/exec", 503, "sandbox.failed", json={"cmd": "true"})
    assert s.info()["status"] == "failed"
    s.delete()


@pytest.fixture(scope="module")
def fake(program: Path) -> Path:
    return program.with_name("pandastack-fake")


@pytest.fixture(scope="module")
def lab(fake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("faults")
    faults = Faults(folder / "faults")
    d = Daemon(folder / "data", program=fake, args=["--prespawn=0"], env=faults.env)
    try:
        yield Lab(d.wait_ready(), faults)
        for left in d.api.list():
            d.api.sandbox(left["id"]).discard()
        d.stop()
        d.check_clean()
    finally:
        d.dispose()


@pytest.fixture(scope="module")
def kept(lab: Lab) -> tuple[Sandbox, Session]:
    """A sandbox that lives through all that it must live through."""
    return lab.new()


def each(**calls: list[str]) -> pytest.MarkDecorator:
    """Each call of the API with each call of the engine."""
    return pytest.mark.parametrize(("call", "operation"), [(c, o) for c, all in calls.items() for o in all])


@pytest.mark.parametrize("fault", ["fail", "late"])
@each(snapshots=CAPTURE, fork=[*CAPTURE, *BEGIN], hibernate=CAPTURE, pause=["pause"])
def test_nothing_has_changed(lab: Lab, kept: tuple[Sandbox, Session], call: str, operation: str, fault: str) -> None:
    """When it fails before it is done, also where the machine stands still by then."""
    s, kernel = kept
    with lab.when(**{operation: fault}):
        assert operation in lab.refused("POST", f"{s.path}/{call}")
    as_ever(s, kernel)
    lab.check()


@each(snapshots=["unpause"], fork=["unpause"], hibernate=["save_memory", "unpause"], pause=["pause", "unpause"])
@pytest.mark.parametrize("fault", ["fail", "late"])
def test_it_can_not_be_let_go_on(lab: Lab, call: str, operation: str, fault: str) -> None:
    """It would stand still for ever and be called running: it has failed."""
    s, _ = lab.new()
    faults = {operation: fault, "unpause": fault}
    if call == "pause":
        faults["pause"] = "late"
    elif call == "hibernate":
        faults["save_memory"] = "fail"
    with lab.when(**faults):
        lab.refused("POST", f"{s.path}/{call}")
    failed(s, "let go on")
    lab.check()


@pytest.mark.parametrize("fault", ["fail", "late"])
def test_resume(lab: Lab, kept: tuple[Sandbox, Session], fault: str) -> None:
    """It is still paused, for all that one knows, and can be asked once more."""
    s, kernel = kept
    s.pause()
    with lab.when(unpause=fault):
        lab.refused("POST", f"{s.path}/resume")
    assert s.status() == "paused"
    lab.check()
    # What is captured of it meanwhile is whole.
    snapshot = s.snapshot()
    copy = lab.api.restore(snapshot["id"])
    as_ever(copy, copy.same(kernel))
    copy.delete()
    lab.api.call("DELETE", f"/v1/snapshots/{snapshot['id']}", want=204)
    s.resume()
    as_ever(s, kernel)


@pytest.mark.parametrize("fault", ["fail", "late"])
def test_resume_and_not_be_stopped_again(lab: Lab, fault: str) -> None:
    """Nobody knows whether it runs: it has failed."""
    s, _ = lab.new()
    s.pause()
    with lab.when(unpause="late", pause=fault):
        lab.refused("POST", f"{s.path}/resume")
    failed(s, "let go on")
    lab.check()


@pytest.mark.parametrize("fault", ["fail", "late"])
@pytest.mark.parametrize("call", ["snapshots", "fork", "hibernate"])
def test_of_a_paused_one(lab: Lab, kept: tuple[Sandbox, Session], call: str, fault: str) -> None:
    """It stays paused."""
    s, kernel = kept
    s.pause()
    with lab.when(save_memory=fault):
        lab.refused("POST", f"{s.path}/{call}")
    assert s.status() == "paused"
    lab.check()
    s.resume()
    as_ever(s, kernel)


@pytest.mark.parametrize("fault", ["fail", "late", "die"])
@pytest.mark.parametrize("operation", BEGIN)
def test_create(lab: Lab, operation: str, fault: str) -> None:
    """There is none, and the next one is as ever."""
    before = lab.api.ids()
    with lab.when(**{operation: fault}):
        lab.api.refused("POST", "/v1/sandboxes", 500, "engine.failed", json={"template": "platform"})
    assert lab.api.ids() == before
    lab.check()
    lab.api.create("platform").delete()


@pytest.mark.parametrize("fault", ["fail", "late", "die"])
@pytest.mark.parametrize("operation", BEGIN)
def test_wake(lab: Lab, kept: tuple[Sandbox, Session], operation: str, fault: str) -> None:
    """It is still hibernated, and wakes at the next try."""
    s, kernel = kept
    s.hibernate()
    with lab.when(**{operation: fault}):
        lab.api.refused("POST", f"{s.path}/wake", 500, "engine.failed")
    assert s.status() == "hibernated"
    lab.check()
    s.wake()
    as_ever(s, kernel)


@pytest.mark.parametrize("fault", ["fail", "late", "die"])
@pytest.mark.parametrize("operation", BEGIN)
def test_one_child_of_some(lab: Lab, kept: tuple[Sandbox, Session], operation: str, fault: str) -> None:
    """All or none; or those that could be made, with what became of the other."""
    s, kernel = kept
    before = lab.api.ids()
    with lab.when(**{operation: fault}):
        lab.api.refused("POST", f"{s.path}/fork-tree", 500, "engine.failed", json={"count": 3})
    assert lab.api.ids() == before
    lab.check()
    with lab.when(**{operation: fault}):
        body = {"count": 3, "allow_partial": True}
        got = lab.api.call("POST", f"{s.path}/fork-tree", want=201, json=body)
    assert [len(got["children"]), len(got["errors"])] == [2, 1]
    for child in (lab.api.sandbox(c["id"]) for c in got["children"]):
        as_ever(child, child.same(kernel))
        child.delete()
    as_ever(s, kernel)
    lab.check()


@each(
    snapshots=[*CAPTURE, "unpause"],
    fork=[*CAPTURE, "unpause"],
    hibernate=CAPTURE,
    pause=["pause"],
    resume=["unpause"],
)
def test_the_machine_dies_at(lab: Lab, call: str, operation: str) -> None:
    """Which is not the call's failure: the sandbox has ended, and both say so."""
    s, _ = lab.new()
    if call == "resume":
        s.pause()
    with lab.when(**{operation: "die"}):
        answer = lab.api.refused("POST", f"{s.path}/{call}", 503, "sandbox.failed", json={})
    assert "create a new one" in answer["error"]
    failed(s, "signal 9")
    lab.check()


def test_the_link_is_not_made_anew(lab: Lab) -> None:
    """Of an engine whose link does not outlive a stop."""
    if "streams" not in lab.api.call("GET", "/healthz")["engine"]["lacks"]:
        pytest.skip("this engine's link outlives a stop")
    for call in ("snapshots", "fork"):
        s, _ = lab.new()
        with lab.when(relink="fail"):
            lab.refused("POST", f"{s.path}/{call}")
        failed(s, "relink")
    lab.check()


@pytest.mark.parametrize("fault", ["fail", "late", "die"])
@pytest.mark.parametrize(
    ("operation", "paused"), [("adopt", False), ("unpause", False), ("pause", True)], ids=["adopt", "go-on", "stop"]
)
def test_a_new_daemon(
    fake: Path, tmp_path: Path, make_daemon: MakeDaemon, operation: str, paused: bool, fault: str
) -> None:
    """That can't take a machine over says so of its sandbox, ends it, and serves the others."""
    faults = Faults(tmp_path / "faults")
    args = ["--prespawn=0"]
    first = make_daemon(tmp_path / "data", program=fake, args=args, env=faults.env).wait_ready()
    s = first.api.create("platform")
    if paused:
        s.pause()
    first.kill()
    with faults.when(**{operation: fault}):
        second = make_daemon(tmp_path / "data", program=fake, args=args, env=faults.env).wait_ready()
    lab = Lab(second, faults)
    again = second.api.sandbox(s.id)
    failed(again, "it can't be taken over: ")
    assert not second.vms()
    second.api.create("platform").delete()
    lab.check()
    second.stop()
    second.check_clean()


@pytest.mark.parametrize("operation", CAPTURE)
def test_the_daemon_ends(fake: Path, tmp_path: Path, make_daemon: MakeDaemon, operation: str) -> None:
    """A persistent sandbox that can't be hibernated then is not lost: the next daemon has it."""
    faults = Faults(tmp_path / "faults")
    args = ["--prespawn=0"]
    first = make_daemon(tmp_path / "data", program=fake, args=args, env=faults.env).wait_ready()
    s = first.api.create("platform", persistent=True)
    kernel = s.session()
    kernel.ok("n = 0")
    with faults.when(**{operation: "late"}):
        assert first.stop() == 0
    assert operation in first.wait_log("can't hibernate a sandbox: its machine runs on, for the next daemon")["error"]
    second = make_daemon(tmp_path / "data", program=fake, args=args, env=faults.env).wait_ready()
    again = second.api.sandbox(s.id)
    as_ever(again, again.same(kernel))
    again.delete()
    second.stop()
    second.check_clean()


@pytest.mark.parametrize("fault", ["fail", "late", "die"])
@pytest.mark.parametrize("operation", ["spare", "settle"])
def test_spares(fake: Path, tmp_path: Path, make_daemon: MakeDaemon, operation: str, fault: str) -> None:
    """Without one a request makes its own machine."""
    faults = Faults(tmp_path / "faults")
    (faults.folder / "spare").unlink()
    only = tmp_path / "templates"  # none of which it begins to make spares by itself
    only.mkdir()
    (only / "platform").symlink_to(templates() / "platform")
    d = make_daemon(tmp_path / "data", program=fake, template_dir=only, env=faults.env).wait_ready()
    with faults.when(**{operation: fault}):
        d.api.create("platform").delete()
        d.wait_log("no spare machine")
    assert not d.vms("pool")
    s = d.api.create("platform")
    assert s.output("echo on") == "on\n"
    s.delete()
    d.stop()
    d.check_clean()


@pytest.mark.parametrize("fault", ["fail", "late", "die"])
def test_the_network_card(lab: Lab, fault: str) -> None:
    """Without a way to it there is no sandbox that is to have one."""
    body = {"template": "platform", "network": {"egress": "internet"}}
    if "network" in lab.api.call("GET", "/healthz")["engine"]["lacks"]:
        pytest.skip("this engine's machines have no network here")
    before = lab.api.ids()
    with lab.when(open_network=fault):
        response = lab.api.request("POST", "/v1/sandboxes", json=body)
    if response.status_code == 201:  # a machine that dies just then has died afterwards
        assert fault == "die"
        failed(Sandbox(lab.api, response.json()), "signal 9")
    else:
        assert (response.status_code, response.json()["code"]) == (500, "engine.failed")
    assert lab.api.ids() == before
    lab.check()
