# SPDX-License-Identifier: Apache-2.0
"""A sandbox reaches neither the host, nor another sandbox, nor a network."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import Api, ApiError, Daemon, Sandbox


@pytest.fixture(scope="module")
def pair(api: Api) -> Iterator[tuple[Sandbox, Sandbox]]:
    made = api.create(), api.create()
    yield made
    for s in made:
        s.discard()


def test_files_are_its_own(pair: tuple[Sandbox, Sandbox]) -> None:
    a, b = pair
    secret = str(uuid.uuid4())
    for path in ("/workspace/mine", "/tmp/mine", "/etc/mine", "/dev/shm/mine", "/root/mine"):
        a.write(path, secret)
        with pytest.raises(ApiError) as e:
            b.read(path)
        assert e.value.status == 404
    assert b.output(f"grep -rsl {secret} /workspace /tmp /etc /root /dev/shm || true") == ""


def written(path: Path) -> Iterator[bytes]:
    """What a sparse file holds, piece by piece."""
    with path.open("rb") as f:
        end, at = os.fstat(f.fileno()).st_size, 0
        while at < end:
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            hole = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            yield os.pread(f.fileno(), hole - at, at)
            at = hole


def test_a_sandbox_that_comes_later_sees_nothing_of_an_earlier_one(api: Api, daemon: Daemon) -> None:
    secret = f"left-{uuid.uuid4()}"
    first = api.create()
    first.output(f"echo {secret} > /workspace/f; echo {secret} > /etc/f; sync")
    first.session().ok(f"kept = {secret!r}")
    disk = daemon.data_dir / "sandboxes" / first.id / "scratch.ext4"
    assert any(secret.encode() in piece for piece in written(disk)), "where it is looked for"
    first.delete()
    second = api.create()
    try:
        assert second.output("ls -A /workspace") == ""
        disk = daemon.data_dir / "sandboxes" / second.id / "scratch.ext4"
        assert not any(secret.encode() in piece for piece in written(disk))
    finally:
        second.delete()


def test_sessions_of_another_sandbox(pair: tuple[Sandbox, Sandbox]) -> None:
    a, b = pair
    session = a.session()
    session.ok("x = 1")
    for call in ("run", "interrupt", "restart"):
        a.api.refused(
            "POST", f"{b.path}/repl/sessions/{session.id}/{call}", 404, "session.not_found", json={"code": "x"}
        )
    assert b.sessions() == {}


def test_the_base_disk_is_read_only(pair: tuple[Sandbox, Sandbox]) -> None:
    a, b = pair
    got = a.exec(
        "for d in /dev/vda /dev/vdb; do echo $d $(blockdev --getro $d); done;"
        " mount -o remount,rw /dev/vda / 2>/dev/null;"
        " dd if=/dev/zero of=/dev/vda bs=4096 count=1 conv=fsync,notrunc 2>&1"
    )
    assert "/dev/vda 1" in got["stdout"]
    assert got["exit_code"] != 0
    assert b.output("python3 -c 'print(1)'") == "1\n"


def test_the_network_leads_to_nobody_near(daemon: Daemon, pair: tuple[Sandbox, Sandbox]) -> None:
    """Not the host's loopback, not another sandbox, not a private network, not a metadata service."""
    a, _ = pair
    port = daemon.url.rsplit(":", 1)[1]
    probe = f"""
import socket
for host, port in (
    ("127.0.0.1", {port}), ("10.0.2.2", {port}), ("10.0.2.77", 22), ("169.254.169.254", 80),
    ("10.0.0.1", 53), ("192.168.0.1", 80), ("::1", {port}), ("fd00:ec2::254", 80),
):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    s.settimeout(2)
    try:
        s.connect((host, port))
        print("reached", host)
    except OSError as e:
        print("no", host, e)
"""
    answer = a.session().ok(probe, timeout_ms=60_000)
    assert "reached" not in answer["stdout"], answer["stdout"]
    assert len(answer["stdout"].splitlines()) == 8


def test_vsock_and_other_roads_to_the_host(pair: tuple[Sandbox, Sandbox]) -> None:
    a, _ = pair
    got = a.session().run("import socket\nsocket.socket(socket.AF_VSOCK).connect((2, 1024))", timeout_ms=20_000)
    assert got["status"] == "error"
    assert a.output("ls /dev | grep -xE 'kvm|vhost.*|fw_cfg' || true") == ""


def test_the_machine_is_confined(daemon: Daemon, pair: tuple[Sandbox, Sandbox]) -> None:
    """QEMU, which its guest may take over: a seccomp filter, no socket but its own, no file of others."""
    a, b = pair
    pid = daemon.vm_of(a.id)
    status = Path(f"/proc/{pid}/status").read_text()
    assert "Seccomp:\t2" in status
    assert "NoNewPrivs:\t1" in status
    allowed = (
        str(daemon.data_dir / "sandboxes" / a.id),
        str(daemon.template_dir),
        "/dev/null",
        "/memfd:",
        "/dev/kvm",
    )
    targets = descriptors(pid)
    for target in targets:
        assert not target.startswith("/") or target.startswith(allowed), target
        assert b.id not in target
    for table in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            assert f"socket:[{line.split()[9]}]" not in targets, "an Internet socket"


def descriptors(pid: int) -> set[str]:
    found = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(fd.readlink()))
    return found


def test_sockets_and_folders_are_the_owners_alone(daemon: Daemon, pair: tuple[Sandbox, Sandbox]) -> None:
    folder = daemon.data_dir / "sandboxes" / pair[0].id
    for path in (daemon.data_dir, daemon.data_dir / "sandboxes", folder):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_sandbox_is_not_listed_twice_nor_guessable(api: Api, sandbox: Callable[..., Sandbox]) -> None:
    made = [sandbox().id for _ in range(2)]
    assert all(len(i) == 36 and i[14] == "4" for i in made), "122 random bits"
