# SPDX-License-Identifier: Apache-2.0
"""Snapshots as files: exported, imported, and refused where they are not what they should be or can't run."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from harness import Api, Daemon
from harness.snapshot_file import forge, manifest_of

MakeDaemon = Callable[..., Daemon]
IMPORT = "/v1/snapshots/import"


def export(api: Api, snapshot_id: str) -> bytes:
    response = api.request("GET", f"/v1/snapshots/{snapshot_id}/export")
    assert response.status_code == 200, response.text
    return response.content


@pytest.fixture(scope="module")
def snapshot(api: Api) -> Iterator[str]:
    sandbox = api.create("base", env={"WORD": "kept"})
    try:
        sandbox.write("/workspace/file", bytes(range(256)) * 4000)
        sandbox.output("setsid sleep 1000 >/dev/null 2>&1 &")
        made = str(sandbox.snapshot()["id"])
    finally:
        sandbox.discard()
    yield made
    api.request("DELETE", f"/v1/snapshots/{made}")


@pytest.fixture(scope="module")
def file(api: Api, snapshot: str) -> bytes:
    return export(api, snapshot)


@pytest.fixture(scope="module")
def manifest(file: bytes) -> dict[str, Any]:
    return manifest_of(file)


def test_round_trip(api: Api, snapshot: str, file: bytes) -> None:
    """What was imported is a snapshot as any: it is restored, forked, hibernated, exported again."""
    before = api.call("GET", f"/v1/snapshots/{snapshot}")
    made = api.call("POST", IMPORT, want=201, data=file)
    try:
        assert made["id"] != snapshot
        for same in ("sandbox_id", "template", "template_version", "created_at", "memory_mb"):
            assert made[same] == before[same]
        assert before["delta_bytes"] > 0
        assert made["delta_bytes"] == 0  # its memory is whole
        sandbox = api.restore(made["id"])
        child = sandbox.fork()
        sandbox.hibernate()
        for s in (sandbox, child):
            assert s.output("echo $WORD; pgrep -c sleep; md5sum < /workspace/file").split()[:2] == ["kept", "1"]
            assert s.read("/workspace/file") == bytes(range(256)) * 4000
        again = child.snapshot()
        assert len(export(api, again["id"])) > len(file) // 2
        api.call("DELETE", f"/v1/snapshots/{again['id']}", want=204)
        sandbox.delete()
        child.delete()
    finally:
        api.request("DELETE", f"/v1/snapshots/{made['id']}")


def test_of_a_compressed_one(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=["--snapshot-compression=zstd"]).wait_ready()
    sandbox = d.api.create("base")
    sandbox.output("seq 1000000 > /dev/shm/file")
    want = sandbox.output("md5sum < /dev/shm/file")
    made = d.api.call("POST", IMPORT, want=201, data=export(d.api, sandbox.snapshot()["id"]))
    assert d.api.restore(made["id"]).output("md5sum < /dev/shm/file") == want
    d.stop()
    d.check_clean()


@pytest.mark.parametrize(
    ("change", "status", "code", "said"),
    [
        ({"engine": "other"}, 409, "conflict", "engine"),
        ({"engine_version": "0.1"}, 409, "conflict", "0.1"),
        ({"accel": "abacus"}, 409, "conflict", "acceleration"),
        ({"cpu_model": "other"}, 409, "conflict", "processor"),
        ({"cpus": 7}, 409, "conflict", "processors"),
        ({"memory_bytes": 1 << 30}, 409, "conflict", "memory"),
        ({"files": {"scratch.ext4": 1 << 40}}, 409, "conflict", "size"),
        ({"rootfs": "00" * 32}, 409, "conflict", "file system"),
        ({"template": "nothing"}, 503, "template.stale", "pandastack template build nothing"),
        ({"template": "../base"}, 400, "request.invalid", "manifest"),
        ({"version": "../x"}, 400, "request.invalid", "manifest"),
        ({"sandbox_id": "../x"}, 400, "request.invalid", "manifest"),
        ({"env": {"A": 1}}, 400, "request.invalid", "manifest"),
        ({"files": {"devices": 1 << 40}}, 400, "request.invalid", "manifest"),
        ({"files": {"memory": -1}}, 400, "request.invalid", "lengths"),
        ({"format": 1}, 400, "request.invalid", "version"),
    ],
)
def test_forged(
    api: Api, manifest: dict[str, Any], change: dict[str, Any], status: int, code: str, said: str
) -> None:
    before = api.snapshots()
    assert said in api.refused("POST", IMPORT, status, code, data=forge(manifest, **change))["error"]
    assert api.snapshots() == before


def test_damaged(api: Api, file: bytes) -> None:
    before = api.snapshots()
    flipped = bytearray(file)
    flipped[len(file) // 2] ^= 1
    for bad in (b"", b"hello", file[:-1], file[: len(file) // 2], file + b"x", file + file, bytes(flipped)):
        api.refused("POST", IMPORT, 400, "request.invalid", data=bad)
    assert api.snapshots() == before


def test_unknown(api: Api) -> None:
    api.refused("GET", "/v1/snapshots/none/export", 404, "snapshot.not_found")


def send_half(d: Daemon, file: bytes) -> socket.socket:
    """An upload that stops in the middle."""
    address = urlsplit(d.url)
    assert address.hostname and address.port
    client = socket.create_connection((address.hostname, address.port))
    fields = f"Host: x\r\nAuthorization: Bearer {d.key}\r\nContent-Length: {len(file)}"
    client.sendall(f"POST {IMPORT} HTTP/1.1\r\n{fields}\r\n\r\n".encode() + file[: len(file) // 2])
    return client


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def test_nothing_is_left_of_half_an_import(make_daemon: MakeDaemon, file: bytes) -> None:
    """Neither when the client goes away, nor when the daemon is killed."""
    d = make_daemon().wait_ready()
    imports = d.data_dir / "imports"
    with send_half(d, file):
        wait_until(lambda: any(imports.glob("*")))
    wait_until(lambda: not any(imports.glob("*")))
    with send_half(d, file):
        wait_until(lambda: any(imports.glob("*")))
        d.kill()
    d = make_daemon(data_dir=d.data_dir).wait_ready()
    assert not any(imports.glob("*"))
    assert d.api.snapshots() == {}
