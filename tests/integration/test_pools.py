# SPDX-License-Identifier: Apache-2.0
"""Spare machines: who gets one, who does not, and that nobody can tell by anything but the time that it took."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Api, Daemon, Sandbox
from harness.daemon import templates, wait_for_exit

MakeDaemon = Callable[..., Daemon]
READY = "spare machine ready"
DEBUG = "--log-level=debug"
WARM = ["--prespawn=0", "--warm=1", DEBUG]
PRESPAWN = ["--prespawn=1", DEBUG]
BASE = "code-interpreter"


def takes(api: Api, pool: str, result: str) -> int:
    """How often a pool had a machine ("hits") or not ("misses")."""
    text = api.request("GET", "/metrics").text
    found = re.search(rf'^pandastack_pool_{result}_total{{pool="{pool}"}} (\d+)$', text, re.MULTILINE)
    assert found, text
    return int(found[1])


def spare_of(d: Daemon) -> int:
    """The process of the one spare."""
    (folder,) = (d.data_dir / "pool").iterdir()
    text = (folder / "vm.json").read_text()
    return int(re.findall(r'"pid":(\d+)', text)[0])


def fork(sandbox: Sandbox) -> Sandbox:
    """Its only child."""
    answer = sandbox.api.call("POST", f"{sandbox.path}/fork", want=201, json={})
    return sandbox.api.sandbox(answer["children"][0])


def identity(s: Sandbox) -> list[str]:
    """All that no two sandboxes may share."""
    names = "hostname; cat /etc/hostname /etc/machine-id /proc/sys/kernel/random/boot_id"
    script = f"{names}; od -An -tx1 -N16 /dev/urandom | tr -d ' '"
    return [*s.output(script).split(), s.session().text("__import__('uuid').uuid4().hex")]


def test_warm_machines_become_different_sandboxes(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=WARM).wait_ready()
    made: list[tuple[Sandbox, int]] = []
    for i in range(3):
        d.wait_log(READY, since=made[-1][1] if made else 0, pool="warm")
        mark = d.mark()
        s = d.api.create(env={"WHO": str(i)}, metadata={"n": str(i)}, ttl_seconds=500 + i)
        made.append((s, mark))
        assert s.created["boot_mode"] == "warm"
        assert s.created["metadata"] == {"n": str(i)}
        assert s.created["ttl_seconds"] == 500 + i
        assert s.output("echo $WHO") == f"{i}\n"
        assert s.sessions() == {}
        assert (d.data_dir / "sandboxes" / s.id / "vm.json").exists()
    assert takes(d.api, "warm", "hits") == 3
    seen = [identity(s) for s, _ in made]
    for column in zip(*seen, strict=True):
        assert len(set(column)) == 3, f"shared: {column}"
    for s, _ in made:
        assert s.output("hostname").strip() == f"sandbox-{s.id[:8]}"
        assert abs(float(s.output("date +%s")) - time.time()) < 5
        s.delete()
    d.stop()
    d.check_clean()
    assert not (d.data_dir / "pool").exists()


def test_a_spare_is_not_a_sandbox(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=WARM).wait_ready()
    d.wait_log(READY, pool="warm")
    (folder,) = (d.data_dir / "pool").iterdir()
    assert d.api.list() == []
    assert d.folders() == []
    d.api.refused("GET", f"/v1/sandboxes/{folder.name}", 404, "sandbox.not_found")
    d.stop()
    d.check_clean()


def test_a_prespawned_process_serves_create_restore_and_fork(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=PRESPAWN).wait_ready()
    api = d.api

    def wait() -> int:
        d.wait_log(READY, since=mark, pool="prespawn")
        return d.mark()

    mark = 0
    mark = wait()
    parent = api.create()
    assert parent.created["boot_mode"] == "snapshot"
    kernel = parent.session()
    kernel.ok("x = 41")
    parent.write("/workspace/f", "of the parent")
    mark = wait()
    snapshot = api.call("POST", f"{parent.path}/snapshots", want=201, json={})["id"]
    restored = Sandbox(api, api.call("POST", "/v1/sandboxes", want=201, json={"from_snapshot": snapshot}))
    mark = wait()
    child = fork(parent)
    assert takes(api, "prespawn", "hits") == 3
    assert restored.created["boot_mode"] == "snapshot"
    assert child.created["boot_mode"] == "fork"
    for s in (restored, child):
        answer = api.call("POST", f"{s.path}/repl/sessions/{kernel.id}/run", json={"code": "x + 1"})
        assert answer["results"][0]["text/plain"] == "42"
        assert s.read("/workspace/f") == b"of the parent"
        s.write("/workspace/f", s.id)
        s.output("sync")
    assert restored.read("/workspace/f") == restored.id.encode()
    assert parent.read("/workspace/f") == b"of the parent"
    # What was written goes to the disk that the process had open before it was the sandbox's.
    disk = d.data_dir / "sandboxes" / child.id / "scratch.ext4"
    assert disk.stat().st_nlink == 1
    assert child.id.encode() in disk_data(disk)
    d.stop()


def disk_data(path: Path) -> bytes:
    """What of a sparse file is data."""
    found: list[bytes] = []
    with path.open("rb") as f:
        at = 0
        while True:
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:
                return b"".join(found)
            end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            found.append(os.pread(f.fileno(), end - at, at))
            at = end


def test_without_a_spare_it_takes_the_long_way(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=PRESPAWN).wait_ready()
    d.wait_log(READY)
    first, second = d.api.create(), d.api.create()
    hits, misses = takes(d.api, "prespawn", "hits"), takes(d.api, "prespawn", "misses")
    assert hits + misses == 2
    assert first.output("echo 1") + second.output("echo 2") == "1\n2\n"
    d.stop()
    d.check_clean()


def test_no_pool(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=["--prespawn=0", DEBUG]).wait_ready()
    assert d.api.create().created["boot_mode"] == "snapshot"
    assert not (d.data_dir / "pool").exists()
    assert takes(d.api, "prespawn", "misses") == 0
    d.stop()


@pytest.mark.parametrize("args", [WARM, PRESPAWN])
def test_a_spare_that_died_is_not_noticed(make_daemon: MakeDaemon, args: list[str]) -> None:
    d = make_daemon(args=args).wait_ready()
    d.wait_log(READY)
    pid = spare_of(d)
    mark = d.mark()
    os.kill(pid, signal.SIGKILL)
    assert wait_for_exit(pid, 10)
    s = d.api.create()
    assert s.created["boot_mode"] == "snapshot"
    assert s.output("echo ok") == "ok\n"
    d.wait_log(READY, since=mark)
    assert spare_of(d) != pid
    d.stop()
    d.check_clean()


def test_a_spare_of_no_use(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=PRESPAWN).wait_ready()
    d.wait_log(READY)
    (folder,) = (d.data_dir / "pool").iterdir()
    shutil.rmtree(folder)  # the process lives on, and its folder can't be taken over
    s = d.api.create()
    assert s.output("echo ok") == "ok\n"
    d.wait_log("a spare machine was of no use")
    d.stop()


@pytest.mark.parametrize("args", [WARM, PRESPAWN])
def test_the_next_daemon_ends_what_a_killed_one_left(make_daemon: MakeDaemon, args: list[str]) -> None:
    first = make_daemon(args=args).wait_ready()
    first.wait_log(READY)
    pid = spare_of(first)
    (folder,) = (first.data_dir / "pool").iterdir()
    first.kill()
    second = make_daemon(first.data_dir, args=args).wait_ready()
    second.wait_log("removed a spare machine", spare=folder.name)
    assert wait_for_exit(pid, 10)
    second.wait_log(READY)
    assert not folder.exists()
    assert second.api.create().output("echo ok") == "ok\n"
    second.stop()
    second.check_clean()


def test_a_process_that_waits_ends_with_its_daemon(make_daemon: MakeDaemon) -> None:
    """Nobody else would end it before the next daemon starts, which may be never."""
    d = make_daemon(args=PRESPAWN).wait_ready()
    d.wait_log(READY)
    pid = spare_of(d)
    assert d.vms("pool") == {pid}
    d.kill()
    assert wait_for_exit(pid, 30)


@pytest.fixture
def own_templates(tmp_path: Path) -> Path:
    """A copy of the templates that may be changed."""
    copy = tmp_path / "templates"
    version = (templates() / BASE / "current").resolve()
    (copy / BASE / version.name).mkdir(parents=True)
    for f in version.iterdir():
        os.link(f, copy / BASE / version.name / f.name)
    (copy / BASE / "current").symlink_to(version.name)
    return copy


def rebuild(folder: Path) -> str:
    """Makes a version with another name the current one, as a build does; its name."""
    old = (folder / "current").resolve()
    new = folder / "00ff00ff"
    new.mkdir()
    for f in old.iterdir():
        if f.name != "manifest.json":
            os.link(f, new / f.name)
    text = (old / "manifest.json").read_text()
    (new / "manifest.json").write_text(text.replace(f'"version": "{old.name}"', f'"version": "{new.name}"'))
    (folder / "next").symlink_to(new.name)
    (folder / "next").rename(folder / "current")
    return new.name


def test_spares_of_an_old_version_are_dropped(make_daemon: MakeDaemon, own_templates: Path) -> None:
    try:
        d = make_daemon(template_dir=own_templates, args=PRESPAWN).wait_ready()
        old = d.wait_log(READY)["version"]
        pid = spare_of(d)
        new = rebuild(own_templates / BASE)
        assert new != old
        s = d.api.create()
        assert (takes(d.api, "prespawn", "hits"), takes(d.api, "prespawn", "misses")) == (0, 1)
        d.wait_log(READY, version=new)
        assert wait_for_exit(pid, 10)
        assert s.output("echo ok") == "ok\n"
        d.stop()
    finally:
        shutil.rmtree(own_templates)


def test_gc_ends_spares_of_an_old_version(make_daemon: MakeDaemon, own_templates: Path) -> None:
    """They have its files open, whose room would not be free."""
    try:
        d = make_daemon(template_dir=own_templates, args=PRESPAWN).wait_ready()
        d.wait_log(READY)
        pid = spare_of(d)
        new = rebuild(own_templates / BASE)
        d.api.call("POST", "/v1/gc")
        assert wait_for_exit(pid, 10)
        d.wait_log(READY, version=new)
        d.stop()
        d.check_clean()
    finally:
        shutil.rmtree(own_templates)


def test_removing_a_template_ends_its_spares(make_daemon: MakeDaemon, own_templates: Path) -> None:
    try:
        d = make_daemon(template_dir=own_templates, args=PRESPAWN).wait_ready()
        d.wait_log(READY)
        pid = spare_of(d)
        d.api.call("DELETE", f"/v1/templates/{BASE}", want=204)
        assert wait_for_exit(pid, 10)
        d.stop()
        d.check_clean()
    finally:
        shutil.rmtree(own_templates)


def test_the_pool_follows_what_is_asked_for(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=PRESPAWN).wait_ready()
    if not any(t["name"] == "base" for t in d.api.call("GET", "/v1/templates")):
        pytest.skip("no second template")
    d.wait_log(READY, template=BASE)
    d.api.create("base")
    d.wait_log(READY, template="base")
    d.api.create("base")
    assert (takes(d.api, "prespawn", "hits"), takes(d.api, "prespawn", "misses")) == (1, 1)
    d.stop()


def wait_for_spares(d: Daemon, count: int, since: int) -> None:
    """Wait until so many have been made since that place in the log."""
    for _ in range(count):
        since = d.records.index(d.wait_log(READY, since=since), since) + 1


def test_a_burst_leaves_more_spares(make_daemon: MakeDaemon) -> None:
    """Who has forked a tree does it again."""
    d = make_daemon(args=PRESPAWN).wait_ready()
    s = d.api.create("base")
    d.wait_log(READY, template="base")
    mark = d.mark()
    made = s.fork_tree(4)
    hits, misses = takes(d.api, "prespawn", "hits"), takes(d.api, "prespawn", "misses")
    wait_for_spares(d, 4, mark)
    assert len(d.vms("pool")) == 4
    made += s.fork_tree(4)
    assert takes(d.api, "prespawn", "hits") == hits + 4
    assert takes(d.api, "prespawn", "misses") == misses
    assert {c.output("echo fine") for c in made} == {"fine\n"}
    d.stop()
    d.check_clean()


def test_boot_mode_outlives_the_daemon(make_daemon: MakeDaemon) -> None:
    first = make_daemon(args=[*WARM, "--keep"]).wait_ready()
    first.wait_log(READY)
    s = first.api.create()
    assert s.created["boot_mode"] == "warm"
    first.stop()
    second = make_daemon(first.data_dir).wait_ready()
    assert second.api.sandbox(s.id).created["boot_mode"] == "warm"
    second.stop()
