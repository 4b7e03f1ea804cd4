# SPDX-License-Identifier: Apache-2.0
"""Snapshots: a machine that stays, whole or not at all, and any number of sandboxes that go on from there."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import Api, Daemon, Sandbox, joined
from harness.daemon import fill

Make = Callable[..., Sandbox]
Call = Callable[[Sandbox], None]
MakeDaemon = Callable[..., Daemon]
UNKNOWN = "00000000-0000-4000-8000-000000000000"


class Original:
    """A sandbox in the middle of its work, and a snapshot of it."""

    def __init__(self, api: Api) -> None:
        self.sandbox = s = api.create(metadata={"of": "parent"}, env={"WORD": "kept"}, ttl_seconds=1234)
        self.python = s.session()
        self.python.ok(
            "import os, threading, pandas as pd\n"
            "df = pd.DataFrame({'a': [1, 2, 3]})\n"
            "os.makedirs('/workspace/deep', exist_ok=True); os.chdir('/workspace/deep')\n"
            "f = open('/workspace/open.txt', 'w+'); _ = f.write('half'); f.flush()\n"
            "gone = open('/tmp/gone', 'w+'); _ = gone.write('unlinked'); gone.flush(); os.unlink('/tmp/gone')\n"
            "x = 41"
        )
        self.bash = s.session(language="bash")
        self.bash.ok("cd /usr/share; word=shell; twice() { echo $1$1; }; export SHOWN=yes")
        self.node = s.session(language="javascript")
        self.node.ok("const words = new Map([['a', 1]]); let n = 5")
        s.write("/workspace/file", bytes(range(256)) * 1000)
        s.output(
            "setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > /tmp/beat; sleep 0.05; done' >/dev/null 2>&1 &"
        )
        self.answer = s.snapshot()
        self.id = str(self.answer["id"])


@pytest.fixture(scope="module")
def original(api: Api) -> Iterator[Original]:
    made = Original(api)
    try:
        yield made
    finally:
        made.sandbox.discard()
        api.request("DELETE", f"/v1/snapshots/{made.id}")


@pytest.fixture
def restored(api: Api, original: Original) -> Iterator[Sandbox]:
    s = api.restore(original.id)
    try:
        yield s
    finally:
        s.discard()


def look(s: Sandbox, o: Original) -> None:
    """All that was in the original is in that copy of it."""
    python, bash, node = s.same(o.python), s.same(o.bash), s.same(o.node)
    assert python.text("(x, int(df.a.sum()), os.getcwd())") == "(41, 6, '/workspace/deep')"
    assert python.ok("f.write('+rest'); f.seek(0); print(f.read()); gone.seek(0); print(gone.read())")["stdout"] == (
        "half+rest\nunlinked\n"
    )
    assert bash.ok("pwd; twice $word; echo $SHOWN $WORD")["stdout"] == "/usr/share\nshellshell\nyes kept\n"
    assert node.text("[words.get('a'), n]") == "[ 1, 5 ]"
    assert s.read("/workspace/file") == bytes(range(256)) * 1000
    assert s.output("cat /workspace/open.txt; echo; echo $WORD") == "half+rest\nkept\n"
    s.output("a=$(cat /tmp/beat); until [ $(cat /tmp/beat) -gt $a ]; do :; done", timeout_seconds=20)
    assert set(s.sessions()) == {o.python.id, o.bash.id, o.node.id}


# ---- what it keeps ----


def test_all_is_there(original: Original, restored: Sandbox) -> None:
    look(restored, original)


def test_the_new_sandbox(original: Original, api: Api) -> None:
    """Its own id and metadata; a template beside the snapshot says nothing, even an unknown one."""
    body = {"from_snapshot": original.id, "template": "no-such", "metadata": {"of": "child"}, "ttl_seconds": 55}
    s = Sandbox(api, api.call("POST", "/v1/sandboxes", want=201, json=body))
    try:
        got = s.created
        assert got["id"] != original.sandbox.id
        assert got["status"] == "running"
        assert got["template"] == "code-interpreter"
        assert got["metadata"] == {"of": "child"}
        assert got["from_snapshot"] == original.id
        assert got["boot_mode"] == "snapshot"
        assert got["ttl_seconds"] == 55
        assert "parent" not in got
        assert s.output("hostname") == f"sandbox-{s.id[:8]}\n"
    finally:
        s.discard()


def test_the_parent_goes_on(original: Original, restored: Sandbox) -> None:
    """Neither sees what the other does."""
    o = original
    restored.same(o.python).ok("x = 'child'; df.loc[0, 'a'] = 100")
    restored.write("/workspace/file", "child's")
    o.python.ok("y = 'parent'")
    o.sandbox.write("/workspace/parents", "mine")
    assert o.python.text("(x, int(df.a.sum()))") == "(41, 6)"
    assert len(o.sandbox.read("/workspace/file")) == 256_000
    assert restored.same(o.python).run("y")["error_name"] == "NameError"
    restored.api.refused("GET", f"{restored.path}/fs", 404, "file.not_found", params={"path": "/workspace/parents"})
    o.sandbox.remove("/workspace/parents")
    assert o.sandbox.info()["status"] == "running"


def test_many_at_once(original: Original, api: Api) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: api.restore(original.id), range(4)))
        try:
            list(pool.map(lambda s: look(s, original), made))
            ids = {s.output("cat /etc/machine-id") for s in made}
            assert len(ids) == 4
        finally:
            for s in made:
                s.discard()


def test_a_snapshot_of_its_child(original: Original, restored: Sandbox, api: Api) -> None:
    restored.same(original.python).ok("x += 1; z = 'second'")
    second = restored.snapshot()
    restored.delete()
    grandchild = api.restore(second["id"])
    try:
        assert grandchild.same(original.python).text("(x, z, int(df.a.sum()))") == "(42, 'second', 6)"
        assert grandchild.output("echo $WORD; cat /workspace/open.txt") == "kept\nhalf"
        assert api.snapshots(sandbox_id=restored.id).keys() == {second["id"]}
    finally:
        grandchild.discard()
        api.call("DELETE", f"/v1/snapshots/{second['id']}", want=204)


def test_an_open_stream_goes_on_without_loss(sandbox: Make) -> None:
    """In the parent. In the copy nobody listens: it and all that it started are gone, and exec works (S7)."""
    s = sandbox()
    script = (
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; [ -e /tmp/enough ] && break; sleep 0.01; done; echo end"
    )
    with s.stream(f"sleep 4444 & {script}", timeout_seconds=100) as events:
        first = next(events)
        taken = s.snapshot()
        copy = s.api.restore(taken["id"])
        try:
            assert copy.exec("pgrep -fx 'sleep 4444'")["stdout"] == ""
            assert copy.output("echo fine") == "fine\n"
            s.write("/tmp/enough", "")
            shown = joined([first, *events])
        finally:
            copy.discard()
            s.api.request("DELETE", f"/v1/snapshots/{taken['id']}")
    lines = shown[0][1].split()
    assert lines[-1] == "end"
    assert lines[:-1] == [str(i) for i in range(1, len(lines))]


def test_a_cell_that_runs(sandbox: Make) -> None:
    """Goes on in the parent, and is interrupted in the copy, whose variables stay."""
    s = sandbox()
    kernel = s.session()
    kernel.ok("import os, time\nx = 7")
    code = "print('in', flush=True)\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nx += 1; x"
    with kernel.stream(code) as events:
        next(events)
        taken = s.snapshot()
        copy = s.api.restore(taken["id"])
        try:
            same = copy.same(kernel)
            assert same.text("x", timeout_ms=20_000) == "7"
            assert same.ok("x")["kernel_restarted"] is False
        finally:
            copy.discard()
            s.api.request("DELETE", f"/v1/snapshots/{taken['id']}")
        s.write("/tmp/go", "")
        assert joined(events)[-1] == ("result", "8")


# ---- the calls ----


def test_what_is_said_of_it(original: Original, api: Api) -> None:
    got = original.answer
    assert got["id"] == got["snapshot_id"] == original.id
    assert got["sandbox_id"] == original.sandbox.id
    assert got["template"] == "code-interpreter"
    assert got["memory_mb"] == original.sandbox.created["memory_mb"]
    assert 0 < got["delta_bytes"] <= got["size_bytes"] < (got["memory_mb"] << 20)
    assert 0 < got["pause_ms"] < 5000
    assert api.call("GET", f"/v1/snapshots/{original.id}") == got
    assert api.snapshots()[original.id] == got
    assert api.snapshots(sandbox_id=original.sandbox.id) == {original.id: got}
    assert api.snapshots(sandbox_id=UNKNOWN) == {}


def test_delete(sandbox: Make, daemon: Daemon) -> None:
    """What was restored from it lives on; the folder is gone."""
    s = sandbox()
    s.write("/workspace/f", "data")
    taken = s.snapshot()["id"]
    child = s.api.restore(taken)
    try:
        assert (daemon.data_dir / "snapshots" / taken / "delta").exists()
        s.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)
        assert not (daemon.data_dir / "snapshots" / taken).exists()
        assert taken not in s.api.snapshots()
        for method in ("GET", "DELETE"):
            s.api.refused(method, f"/v1/snapshots/{taken}", 404, "snapshot.not_found")
        s.api.refused("POST", "/v1/sandboxes", 404, "snapshot.not_found", json={"from_snapshot": taken})
        assert child.read("/workspace/f") == b"data"
        again = child.snapshot()["id"]
        child.api.call("DELETE", f"/v1/snapshots/{again}", want=204)
    finally:
        child.discard()


def test_the_snapshot_outlives_its_sandbox(sandbox: Make, api: Api) -> None:
    s = sandbox()
    s.write("/workspace/f", "data")
    taken = s.snapshot()["id"]
    s.delete()
    child = api.restore(taken)
    assert child.read("/workspace/f") == b"data"
    child.delete()
    api.call("DELETE", f"/v1/snapshots/{taken}", want=204)


@pytest.mark.parametrize("wrong", [UNKNOWN, "x", "..", "../sandboxes", ".new-x", "a/b", "é", "x" * 300])
def test_unknown(api: Api, wrong: str) -> None:
    before = api.ids()
    api.refused("POST", "/v1/sandboxes", 404, "snapshot.not_found", json={"from_snapshot": wrong})
    assert api.ids() == before
    if "/" not in wrong and ".." not in wrong:
        api.refused("GET", f"/v1/snapshots/{wrong}", 404, "snapshot.not_found")
        api.refused("DELETE", f"/v1/snapshots/{wrong}", 404, "snapshot.not_found")


@pytest.mark.parametrize(
    "body",
    [
        {"from_snapshot": 5},
        {"from_snapshot": ["x"]},
        {"from_snapshot": ""},
        {"from_snapshot": UNKNOWN, "env": {"A": "b"}},
        {"from_snapshot": UNKNOWN, "metadata": 1},
    ],
)
def test_bad_bodies(api: Api, body: dict[str, object]) -> None:
    api.refused("POST", "/v1/sandboxes", 400, "request.invalid", json=body)


# ---- in every state ----


@pytest.mark.parametrize(
    ("stop", "go", "status"),
    [(Sandbox.pause, Sandbox.resume, "paused"), (Sandbox.hibernate, Sandbox.wake, "hibernated")],
)
def test_of_one_that_stands_still(sandbox: Make, api: Api, stop: Call, go: Call, status: str) -> None:
    """The copy runs; it stays as it is, and goes on from there."""
    s = sandbox()
    kernel = s.session()
    kernel.ok("x = 1")
    stop(s)
    taken = s.snapshot()["id"]
    assert s.status() == status
    copy = api.restore(taken)
    assert copy.same(kernel).text("x") == "1"
    copy.same(kernel).ok("x = 2")
    copy.delete()
    assert s.status() == status
    go(s)
    assert kernel.text("x") == "1"
    api.call("DELETE", f"/v1/snapshots/{taken}", want=204)


def test_of_a_failed_sandbox(sandbox: Make, daemon: Daemon) -> None:
    s = sandbox()
    mark = daemon.mark()
    os.kill(daemon.vm_of(s.id), signal.SIGKILL)
    daemon.wait_log("sandbox failed", since=mark, sandbox=s.id)
    answer = s.api.refused("POST", f"{s.path}/snapshots", 409, "conflict")
    assert "failed" in answer["error"]
    assert s.api.snapshots(sandbox_id=s.id) == {}


def test_of_one_that_is_gone(sandbox: Make) -> None:
    s = sandbox("base")
    s.delete()
    s.api.refused("POST", f"{s.path}/snapshots", 404, "sandbox.not_found")


def test_while_it_is_deleted(sandbox: Make) -> None:
    """Either one comes first."""
    s = sandbox()
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(s.api.request("POST", f"{s.path}/snapshots").status_code))
    thread.start()
    s.delete()
    thread.join(60)
    assert answers[0] in (201, 404, 409, 503)
    left = s.api.snapshots(sandbox_id=s.id)
    assert len(left) == (answers[0] == 201)
    for taken in left:
        copy = s.api.restore(taken)
        assert copy.output("echo whole") == "whole\n"
        copy.delete()
        s.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)


# ---- the machine dies in the middle ----


def test_qemu_killed_during_the_capture(make_daemon: MakeDaemon) -> None:
    """The call fails and says why, the sandbox has failed, the others never notice."""
    d = make_daemon().wait_ready()
    s, other = d.api.create(), d.api.create("base")
    kernel = s.session()
    kernel.ok("import numpy as np\nbig = np.ones(30_000_000)")
    vm = d.vm_of(s.id)
    snapshots = d.data_dir / "snapshots"
    answers: list[tuple[int, str]] = []

    def take() -> None:
        response = d.api.request("POST", f"{s.path}/snapshots")
        answers.append((response.status_code, response.text))

    thread = threading.Thread(target=take)
    thread.start()
    while thread.is_alive() and not any(p.stat().st_size > 1 << 20 for p in snapshots.glob(".new-*/delta")):
        pass
    os.kill(vm, signal.SIGKILL)
    thread.join(60)
    status, text = answers[0]
    if status == 201:
        pytest.skip("the capture was quicker than the signal")
    assert status in (500, 503), text
    d.wait_log("sandbox failed", sandbox=s.id, seconds=10)
    assert s.info()["status"] == "failed"
    assert d.api.snapshots() == {}
    assert list(snapshots.iterdir()) == []
    assert other.output("echo never noticed") == "never noticed\n"
    d.stop()
    d.check_clean()


@pytest.mark.parametrize("call", ["snapshots", "fork", "hibernate", "pause"])
def test_qemu_stopped_and_killed(make_daemon: MakeDaemon, call: str) -> None:
    """Whatever is asked of a machine that hangs and then dies: an answer, and no sandbox that only seems to run."""
    d = make_daemon().wait_ready()
    s, other = d.api.create("base"), d.api.create("base")
    vm = d.vm_of(s.id)
    os.kill(vm, signal.SIGSTOP)
    answers: list[tuple[int, str]] = []

    def ask() -> None:
        response = d.api.request("POST", f"{s.path}/{call}")
        answers.append((response.status_code, response.text))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    assert other.output("echo not held up") == "not held up\n"
    os.kill(vm, signal.SIGKILL)
    thread.join(30)
    assert answers[0][0] in (500, 503), answers
    d.wait_log("sandbox failed", sandbox=s.id, seconds=10)
    assert s.info()["status"] == "failed"
    assert "signal 9" in s.info()["failure"]
    assert other.output("echo fine") == "fine\n"
    assert not list((d.data_dir / "snapshots").iterdir())
    assert not list((d.data_dir / "forks").iterdir())
    d.stop()
    d.check_clean()


# ---- on the disk ----


def test_after_restarts(make_daemon: MakeDaemon) -> None:
    """Of the daemon by SIGKILL and by SIGTERM; half-written ones are cleared away, lost ones are forgotten."""
    d = make_daemon().wait_ready()
    s = d.api.create(env={"WORD": "kept"})
    kernel = s.session()
    kernel.ok("x = 41")
    kept, lost = s.snapshot(), s.snapshot()
    d.kill()
    snapshots = d.data_dir / "snapshots"
    shutil.rmtree(snapshots / lost["id"])
    for name in (".new-x", UNKNOWN):
        shutil.copytree(snapshots / kept["id"], snapshots / name, ignore=shutil.ignore_patterns("scratch.ext4"))
    (snapshots / "stray").write_text("no folder")
    d = make_daemon(d.data_dir).wait_ready()
    d.wait_log("a snapshot's folder is gone: it is forgotten", snapshot=lost["id"])
    assert d.api.snapshots() == {kept["id"]: kept}
    assert [p.name for p in snapshots.iterdir()] == [kept["id"]]
    d.api.refused("POST", "/v1/sandboxes", 404, "snapshot.not_found", json={"from_snapshot": UNKNOWN})
    d.api.restore(kept["id"]).delete()
    assert d.stop() == 0
    d.check_clean()
    d = make_daemon(d.data_dir).wait_ready()
    assert d.api.list() == []
    copy = d.api.restore(kept["id"])
    assert copy.same(kernel).text("x") == "41"
    assert copy.output("echo $WORD") == "kept\n"
    d.stop()
    d.check_clean()


def test_of_another_daemon(original: Original, make_daemon: MakeDaemon) -> None:
    """Its id says nothing here, and neither does its folder."""
    d = make_daemon().wait_ready()
    d.api.refused("POST", "/v1/sandboxes", 404, "snapshot.not_found", json={"from_snapshot": original.id})
    d.api.refused("GET", f"/v1/snapshots/{original.id}", 404, "snapshot.not_found")
    d.stop()


@contextlib.contextmanager
def flipped(path: Path) -> Iterator[None]:
    """One bit of it, in the middle of what is not zero; and back."""

    def flip() -> None:
        with path.open("r+b") as f:
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1]))

    with path.open("rb") as f:
        start = os.lseek(f.fileno(), 0, os.SEEK_DATA)
        end = os.lseek(f.fileno(), start, os.SEEK_HOLE)
        f.seek(start)
        data = f.read(end - start)
    at = start + next(i for i in range(len(data) // 2, len(data)) if data[i])
    flip()
    try:
        yield
    finally:
        flip()


def test_one_flipped_bit(make_daemon: MakeDaemon) -> None:
    """In any of its files: refused, with nothing left of the attempt; never a wrong machine."""
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    s.write("/workspace/f", os.urandom(100_000))
    taken, other = s.snapshot()["id"], s.snapshot()["id"]
    folder = d.data_dir / "snapshots" / taken
    running = d.folders()
    for restart in (False, True):
        for name in ("delta", "devices", "scratch.ext4"):
            with flipped(folder / name):
                if restart:
                    d.kill()
                    d = make_daemon(d.data_dir).wait_ready()
                answer = d.api.refused(
                    "POST", "/v1/sandboxes", 500, "snapshot.damaged", json={"from_snapshot": taken}
                )
                assert "damaged" in answer["error"], name
                assert d.folders() == running
                d.api.restore(other).delete()
            d.api.restore(taken).delete()
    d.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)
    d.stop()
    d.check_clean()


def test_a_lost_delta(make_daemon: MakeDaemon) -> None:
    """A machine with a memory of its own would start without it: refused, whenever it was lost."""
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    s.output("head -c 100M /dev/zero | tr '\\0' x > /dev/shm/big")
    child = s.fork_tree(2)[0]
    taken = child.snapshot()["id"]
    folder = d.data_dir / "snapshots" / taken
    assert (folder / "memory").exists()
    d.api.restore(taken).delete()
    for restart in (False, True):
        (folder / "delta").rename(folder / "lost")
        if restart:
            d.kill()
            d = make_daemon(d.data_dir).wait_ready()
        running = d.folders()
        d.api.refused("POST", "/v1/sandboxes", 500, "snapshot.damaged", json={"from_snapshot": taken})
        d.api.refused("GET", f"/v1/snapshots/{taken}/export", 500, "snapshot.damaged")
        assert d.folders() == running
        (folder / "lost").rename(folder / "delta")
        d.api.restore(taken).delete()
    child = d.api.sandbox(child.id)
    child.hibernate()
    delta = d.data_dir / "sandboxes" / child.id / "hibernated" / "delta"
    delta.rename(folder / "lost")
    for call in ("fork", "snapshots", "wake"):
        d.api.refused("POST", f"{child.path}/{call}", 500, "snapshot.damaged")
        assert child.status() == "hibernated"
    (folder / "lost").rename(delta)
    assert child.output("wc -c < /dev/shm/big") == f"{100 << 20}\n"
    d.stop()
    d.check_clean()


def test_compressed(make_daemon: MakeDaemon) -> None:
    """Less on the disk, all in it; of a running and of a hibernated sandbox; and any daemon restores it."""
    d = make_daemon(args=["--snapshot-compression=zstd"]).wait_ready()
    s = d.api.create()
    kernel = s.session()
    kernel.ok("import os, zlib; big = os.urandom(4 << 20) + bytes(range(256)) * (16 << 10)")
    crc = kernel.text("zlib.crc32(big)")
    running = s.snapshot()
    s.hibernate()
    hibernated = s.snapshot()
    s.delete()
    for taken in (running, hibernated):
        files = {p.name: p.stat().st_size for p in (d.data_dir / "snapshots" / taken["id"]).iterdir()}
        assert set(files) == {"devices", "delta", "scratch.ext4"}
        assert 4 << 20 < files["delta"] < 0.7 * running["delta_bytes"]
        assert taken["size_bytes"] < running["delta_bytes"]
    for restart in (False, True):
        if restart:
            d.kill()
            d = make_daemon(d.data_dir).wait_ready()
        for taken in (running, hibernated):
            with flipped(d.data_dir / "snapshots" / taken["id"] / "delta"):
                d.api.refused("POST", "/v1/sandboxes", 500, "snapshot.damaged", json={"from_snapshot": taken["id"]})
            copy = d.api.restore(taken["id"])
            assert copy.same(kernel).text("zlib.crc32(big)") == crc
            copy.delete()
    child = d.api.restore(running["id"]).fork()
    assert child.same(kernel).text("zlib.crc32(big)") == crc
    d.stop()
    d.check_clean()


@pytest.mark.parametrize("name", ["delta", "devices", "scratch.ext4"])
@pytest.mark.parametrize("how", ["cut", "empty", "missing", "longer"])
def test_a_damaged_file(api: Api, daemon: Daemon, original: Original, name: str, how: str) -> None:
    path = daemon.data_dir / "snapshots" / original.id / name
    whole = path.with_name("whole")
    running = daemon.vms()
    path.rename(whole)
    try:
        if how != "missing":
            subprocess.run(["cp", "--reflink=auto", "--sparse=always", whole, path], check=True)
            os.truncate(path, {"cut": whole.stat().st_size - 1, "empty": 0, "longer": whole.stat().st_size + 1}[how])
        response = api.request("POST", "/v1/sandboxes", json={"from_snapshot": original.id})
        assert response.status_code == 500, response.text
        assert daemon.vms() == running
    finally:
        whole.replace(path)


def test_disk_full(small_disk: tuple[Daemon, Path]) -> None:
    """Nothing is registered, nothing is left, the parent runs on; and when there is room it works (S11)."""
    d, disk = small_disk
    s = d.api.create()
    kernel = s.session()
    kernel.ok("x = 5")
    filler = fill(disk)
    for leave in (0, 1 << 20, 8 << 20):
        os.truncate(filler, max(0, filler.stat().st_size - leave))
        answer = d.api.refused("POST", f"{s.path}/snapshots", 507, "no_space")
        assert "space" in answer["error"].lower()
        assert d.api.snapshots() == {}
        assert list((disk / "snapshots").iterdir()) == []
        assert s.status() == "running"
        assert kernel.text("x") == "5"
        fill(disk)
    filler.unlink()
    taken = s.snapshot()["id"]
    s.delete()
    copy = d.api.restore(taken)
    assert copy.same(kernel).text("x") == "5"
    d.stop()
    d.check_clean()


def test_disk_full_in_the_guest(sandbox: Make) -> None:
    """Nothing to the host: the snapshot is taken, and the copy is as full (S11)."""
    s = sandbox("base")
    s.exec("fallocate -l 7500M /workspace/big; for i in 1 2 3 4; do fallocate -l 200M /workspace/big$i; done")
    s.exec("dd if=/dev/zero of=/workspace/more bs=1M")
    taken = s.snapshot()["id"]
    copy = s.api.restore(taken)
    try:
        assert copy.exec("head -c 9999999 /dev/zero > /workspace/again")["exit_code"] != 0
        copy.output("rm /workspace/* && echo fine > /workspace/small")
    finally:
        copy.discard()
        s.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)
