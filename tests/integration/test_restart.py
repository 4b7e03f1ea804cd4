# SPDX-License-Identifier: Apache-2.0
"""The daemon may end at any moment: its machines are not its hostages."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from harness import Daemon
from harness.daemon import wait_for_exit

MakeDaemon = Callable[..., Daemon]


def test_without_keep_nothing_is_left(make_daemon: MakeDaemon) -> None:
    d = make_daemon().wait_ready()
    made = [d.api.create() for _ in range(2)]
    vms = d.vms()
    assert len(vms) == 2
    with made[0].stream("echo up; sleep 300") as events:
        next(events)
        began = time.monotonic()
        assert d.stop() == 0
        assert time.monotonic() - began < 10
    d.check_clean()
    assert {p.name for p in d.data_dir.iterdir()} <= {
        "config.json",
        "forks",
        "lock",
        "pool",
        "preview.key",
        "registry.db",
        "registry.db-wal",
        "registry.db-shm",
        "sandboxes",
        "snapshots",
        "templates",
    }
    again = make_daemon(d.data_dir).wait_ready()
    assert again.api.list() == []
    again.stop()
    again.check_clean()


def end_keeping(d: Daemon) -> None:
    assert d.stop() == 0


def end_by_kill(d: Daemon) -> None:
    d.kill()


@pytest.mark.parametrize("end", [end_keeping, end_by_kill])
def test_the_next_daemon_serves_them(make_daemon: MakeDaemon, end: Callable[[Daemon], None]) -> None:
    first = make_daemon(args=["--keep"]).wait_ready()
    s = first.api.create(metadata={"k": "v"}, ttl_seconds=1000, env={"WORD": "kept"})
    kernel = s.session()
    kernel.ok("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\nx = 41")
    s.write("/workspace/f", "data")
    vms = first.vms()
    end(first)
    assert first.vms() == vms, "the machine runs on"
    second = make_daemon(first.data_dir).wait_ready()
    second.wait_log("sandbox taken over", sandbox=s.id)
    same = second.api.sandbox(s.id)
    assert {**same.created, "expires_at": 0} == {**s.created, "expires_at": 0}
    assert same.created["status"] == "running"
    assert list(same.sessions()) == [kernel.id]
    path = f"{same.path}/repl/sessions/{kernel.id}/run"
    got = second.api.call("POST", path, json={"code": "x += 1\n(x, df.a.sum())"})
    assert "42" in got["results"][0]["text/plain"]
    assert got["kernel_restarted"] is False
    assert same.read("/workspace/f") == b"data"
    assert same.output("echo $WORD") == "kept\n"
    second.api.create().delete()
    second.stop()
    second.check_clean()
    assert all(wait_for_exit(vm, 0) for vm in vms)


def test_three_generations(make_daemon: MakeDaemon) -> None:
    """Commands in flight die with their daemon; the link works in every generation (S7)."""
    d = make_daemon().wait_ready()
    s = d.api.create()
    kernel = s.session()
    kernel.ok("n = 0")
    for generation in range(1, 4):
        with s.stream("echo up; sleep 3000") as events:
            next(events)
            d.kill()
            with pytest.raises(requests.RequestException):
                list(events)
        d = make_daemon(d.data_dir).wait_ready()
        s = d.api.sandbox(s.id)
        assert s.output("while pgrep -x sleep >/dev/null; do :; done; echo clean", timeout_seconds=20) == "clean\n"
        got = d.api.call("POST", f"{s.path}/repl/sessions/{kernel.id}/run", json={"code": "n += 1; n"})
        assert got["results"] == [{"text/plain": str(generation)}]
    s.delete()
    d.stop()
    d.check_clean()


def test_a_cell_in_flight_is_interrupted_by_the_daemons_end(make_daemon: MakeDaemon) -> None:
    d = make_daemon().wait_ready()
    s = d.api.create()
    kernel = s.session()
    kernel.ok("x = 9")
    with kernel.stream("print('in', flush=True)\nwhile True: pass") as events:
        next(events)
        d.kill()
    d = make_daemon(d.data_dir).wait_ready()
    got = d.api.call("POST", f"{s.path}/repl/sessions/{kernel.id}/run", json={"code": "x"})
    assert got["results"] == [{"text/plain": "9"}]
    d.stop()
    d.check_clean()


def test_a_machine_that_ended_meanwhile(make_daemon: MakeDaemon) -> None:
    d = make_daemon().wait_ready()
    s, other = d.api.create(), d.api.create()
    vm = d.vm_of(s.id)
    d.kill()
    os.kill(vm, signal.SIGKILL)
    assert wait_for_exit(vm, 10)
    d = make_daemon(d.data_dir).wait_ready()
    info = d.api.sandbox(s.id).created
    assert info["status"] == "failed"
    assert "while no daemon ran" in info["failure"]
    assert d.api.sandbox(other.id).output("echo alive") == "alive\n"
    d.stop()
    d.check_clean()


def test_expired_meanwhile(make_daemon: MakeDaemon) -> None:
    """The next daemon gives it its time anew, and then ends it."""
    d = make_daemon().wait_ready()
    s = d.api.create(ttl_seconds=2)
    vm = d.vm_of(s.id)
    d.kill()
    assert not wait_for_exit(vm, 2.5)
    d = make_daemon(d.data_dir).wait_ready()
    d.wait_log("sandbox deleted", sandbox=s.id, seconds=10)
    assert wait_for_exit(vm, 0)
    d.stop()
    d.check_clean()


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15, 0.3])
def test_killed_in_the_middle_of_a_create(make_daemon: MakeDaemon, delay: float) -> None:
    """Whatever the moment: the next start has the sandbox whole, or nothing of it."""
    d = make_daemon().wait_ready()

    def create() -> None:
        with contextlib.suppress(requests.RequestException):
            d.api.create()

    thread = threading.Thread(target=create)
    thread.start()
    thread.join(delay)
    d.kill()
    thread.join()
    d = make_daemon(d.data_dir).wait_ready()
    listed = d.api.list()
    assert d.folders() == sorted(s["id"] for s in listed)
    assert len(d.vms()) == len(listed)
    for info in listed:
        assert info["status"] == "running"
        assert d.api.sandbox(info["id"]).output("echo whole") == "whole\n"
    d.stop()
    d.check_clean()


def test_killed_in_the_middle_of_a_delete(make_daemon: MakeDaemon) -> None:
    d = make_daemon().wait_ready()
    made = [d.api.create() for _ in range(3)]
    threads = [threading.Thread(target=s.discard) for s in made]
    for t in threads:
        t.start()
    d.kill()
    for t in threads:
        t.join()
    d = make_daemon(d.data_dir).wait_ready()
    running = {s["id"] for s in d.api.list(status="running")}
    assert set(d.folders()) == d.api.ids()
    for sandbox_id in running:
        assert d.api.sandbox(sandbox_id).output("echo ok") == "ok\n"
    d.stop()
    d.check_clean()


def test_rubbish_in_the_data_folder(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    """What an earlier crash may have left is cleared away; what is nobody's is not followed."""
    first = make_daemon().wait_ready()
    first.stop()
    sandboxes = first.data_dir / "sandboxes"
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    (sandboxes / "half").mkdir()
    (sandboxes / "half" / "vm.json").write_text('{"engine":"qemu","accel":"tcg","pid":1,"started":1}')
    (sandboxes / "half" / "link").symlink_to(victim)
    (sandboxes / "torn").mkdir()
    (sandboxes / "torn" / "vm.json").write_text('{"engine"')
    (sandboxes / "away").symlink_to(victim)
    second = make_daemon(first.data_dir).wait_ready()
    assert (victim / "file").read_text() == "mine"
    assert second.api.list() == []
    second.api.create().delete()
    second.stop()
    second.check_clean()


def test_sigint_ends_it_as_well(make_daemon: MakeDaemon) -> None:
    d = make_daemon().wait_ready()
    d.api.create()
    d.process.send_signal(signal.SIGINT)
    assert d.wait() == 0
    d.check_clean()
