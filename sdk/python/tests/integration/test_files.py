# SPDX-License-Identifier: Apache-2.0
"""Files at the real daemon: bytes are bytes, both ways."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest

from pandastack import BadRequestError, Client, NotFoundError, Sandbox

ALL_BYTES = bytes(range(256)) * 3


@pytest.mark.parametrize(
    "name", ["plain.bin", "é ☕", "a b", "a+b", "a%20b", "quote\"'", "new\nline", "narrow\u202fspace", "-rf", "#?&="]
)
def test_any_bytes_under_any_name(box: Sandbox, name: str) -> None:
    path = f"/workspace/names/{name}"
    box.filesystem.write(path, ALL_BYTES)
    assert box.filesystem.read(path) == ALL_BYTES
    info = box.filesystem.stat(path)
    assert (info.name, info.path, info.size, info.is_dir) == (name, path, len(ALL_BYTES), False)
    assert [(e.name, e.path) for e in box.filesystem.list("/workspace/names")] == [(name, path)]
    box.filesystem.move(path, path + ".moved")
    assert not box.filesystem.exists(path)
    box.filesystem.remove(path + ".moved")
    assert box.filesystem.list("/workspace/names") == []


def test_text(box: Sandbox) -> None:
    box.filesystem.write("/tmp/text", "größe\r\n\u2028")
    assert box.filesystem.read_text("/tmp/text") == "größe\r\n\u2028"
    assert box.filesystem.read("/tmp/text") == "größe\r\n\u2028".encode()
    box.filesystem.write("/tmp/latin", b"gr\xf6\xdfe")
    assert box.filesystem.read_text("/tmp/latin", "latin-1") == "größe"
    with pytest.raises(UnicodeDecodeError):
        box.filesystem.read_text("/tmp/latin")
    box.filesystem.write("/tmp/empty", b"")
    assert box.filesystem.read("/tmp/empty") == b""


def test_folders(box: Sandbox) -> None:
    fs = box.filesystem
    fs.mkdir("/tmp/a/b")
    fs.mkdir("/tmp/a/b")
    fs.write("/tmp/a/b/f", "x")
    box.exec("ln -s f /tmp/a/b/link", check=True)
    listed = {e.name: e for e in fs.listdir("/tmp/a/b/")}
    assert set(listed) == {"f", "link"}
    assert listed["f"].path == "/tmp/a/b/f"
    assert listed["link"].type == "symlink"
    assert fs.stat("/tmp/a").is_dir
    assert "tmp" in [e.name for e in fs.list()]
    fs.remove("/tmp/a")
    assert fs.exists("/tmp/a/b") is False


def test_what_is_not_there(box: Sandbox, client: Client) -> None:
    fs = box.filesystem
    for call in (fs.read, fs.stat, fs.list, fs.remove):
        with pytest.raises(NotFoundError) as e:
            call("/tmp/none")
        assert e.value.code == "file.not_found"
    with pytest.raises(NotFoundError):
        fs.move("/tmp/none", "/tmp/none2")
    with pytest.raises(BadRequestError, match="absolute"):
        fs.read("relative")
    with Sandbox.create("base", client=client) as gone:
        gone.kill()
        with pytest.raises(NotFoundError):
            gone.filesystem.exists("/tmp")


def test_upload_and_download_in_pieces(box: Sandbox, tmp_path: Path) -> None:
    data = bytes(range(251)) * 20_000
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(data)
    sent: list[tuple[int, int | None]] = []
    box.filesystem.upload(source, "/tmp/up.bin", lambda *progress: sent.append(progress))
    assert sent[-1] == (len(data), len(data))
    assert len(sent) >= 3
    assert [n for n, _ in sent] == sorted(n for n, _ in sent)
    assert box.exec("sha256sum < /tmp/up.bin").stdout.split()[0] == hashlib.sha256(data).hexdigest()
    received: list[tuple[int, int | None]] = []
    box.filesystem.download("/tmp/up.bin", target, lambda *progress: received.append(progress))
    assert target.read_bytes() == data
    assert received[-1] == (len(data), len(data))
    assert len(received) >= 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source", "target"], "no half file is left"


def test_open_files(box: Sandbox) -> None:
    source = io.BytesIO(b"skipped" + ALL_BYTES)
    source.seek(7)
    box.filesystem.upload(source, "/tmp/open.bin")
    target = io.BytesIO()
    box.filesystem.download("/tmp/open.bin", target)
    assert target.getvalue() == ALL_BYTES
    assert not source.closed


class Pipe(io.RawIOBase):
    """A source that cannot tell its size."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def test_a_source_of_unknown_size(box: Sandbox) -> None:
    sent: list[tuple[int, int | None]] = []
    box.filesystem.upload(Pipe([b"one", b"two"]), "/tmp/pipe", lambda *p: sent.append(p))  # type: ignore[arg-type]
    assert box.filesystem.read("/tmp/pipe") == b"onetwo"
    assert sent == [(3, None), (6, None)]


def test_a_download_that_fails_leaves_what_was_there(box: Sandbox, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("before")
    with pytest.raises(NotFoundError):
        box.filesystem.download("/tmp/none", target)
    box.exec("head -c 5000000 /dev/zero > /tmp/zeros", check=True)

    def stop(received: int, total: int | None) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        box.filesystem.download("/tmp/zeros", target, stop)
    assert target.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["target"]


def test_a_refusal_in_the_middle_of_an_upload(box: Sandbox) -> None:
    with pytest.raises(BadRequestError, match="absolute"):
        box.filesystem.upload(io.BytesIO(bytes(40_000_000)), "relative")
    assert box.exec("echo fine").stdout == "fine\n"
