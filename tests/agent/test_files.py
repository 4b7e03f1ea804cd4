# SPDX-License-Identifier: Apache-2.0
"""Files through the agent."""

from __future__ import annotations

import base64
import os
import stat
import time
from pathlib import Path

import pytest
from link_client import Link, LinkError

NAMES = [
    "a b",
    "emoji \U0001f43c",
    "nbsp\u202f",
    "%20",
    "a+b",
    "quo\"te's",
    "new\nline",
    "-rf",
    "--help",
    "\\",
    "x" * 255,
]


def kind(call: object) -> str:
    with pytest.raises(LinkError) as e:
        call()  # type: ignore[operator]
    return e.value.kind


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 1_000_000, 20_000_000])
def test_up_and_down(link: Link, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    path = f"{tmp_path}/file"
    assert link.write(path, data) == {"bytes": size}
    assert Path(path).read_bytes() == data
    s = link.open("read", path=path)
    assert s.result() == {"bytes": size}
    assert s.body == data
    assert s.events[0]["size"] == size and s.events[0]["mode"] == "0644"


def test_all_bytes(link: Link, tmp_path: Path) -> None:
    data = bytes(range(256)) * 3
    link.write(f"{tmp_path}/bytes", data)
    assert link.read(f"{tmp_path}/bytes") == data


@pytest.mark.parametrize("name", NAMES)
def test_names(link: Link, tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/d/{name}"
    link.write(path, b"x")
    assert link.call("stat", path=path)["name"] == name
    assert [e["name"] for e in link.list(f"{tmp_path}/d")] == [name]
    link.call("move", path=path, to=f"{tmp_path}/moved")
    assert link.read(f"{tmp_path}/moved") == b"x"
    link.call("move", path=f"{tmp_path}/moved", to=path)
    link.call("remove", path=path)
    assert link.list(f"{tmp_path}/d") == []
    link.call("mkdir", path=path)
    link.write(path + "/in", b"")
    link.call("remove", path=path)
    assert not os.path.exists(path)


def test_names_that_are_not_utf8(link: Link, tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/d/bad\xff\xc3"
    os.mkdir(os.path.dirname(raw))
    open(raw, "w").close()
    (entry,) = link.list(f"{tmp_path}/d")
    assert entry["name"] == "bad\ufffd\ufffd"
    assert base64.b64decode(entry["name_bytes"]) == b"bad\xff\xc3"


def test_paths_that_are_none(link: Link, tmp_path: Path) -> None:
    for path in ("relative", "", None, 5, "/" + "x" * 5000, "/a\0b"):
        assert kind(lambda path=path: link.call("stat", path=path)) == "invalid"
    assert kind(lambda: link.call("move", path="/x", to="y")) == "invalid"
    assert kind(lambda: link.call("stat", path=f"{tmp_path}/none")) == "not_found"
    assert kind(lambda: link.read(f"{tmp_path}/none")) == "not_found"
    assert kind(lambda: link.read(str(tmp_path))) == "is_a_directory"
    assert kind(lambda: link.list("/etc/passwd")) == "not_a_directory"
    assert kind(lambda: link.write(str(tmp_path), b"x")) == "is_a_directory"
    assert kind(lambda: link.write(f"{tmp_path}/", b"x")) == "is_a_directory"
    assert kind(lambda: link.write("/etc/passwd/x", b"x")) == "not_a_directory"


def test_what_could_block_is_refused(link: Link, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (f"{tmp_path}/fifo", "/dev/zero", "/dev/tty"):
        start = time.monotonic()
        assert kind(lambda path=path: link.read(path)) in ("invalid", "not_found")
        assert kind(lambda path=path: link.write(path, b"x")) in ("invalid", "not_found")
        assert time.monotonic() - start < 2
    assert stat.S_ISFIFO(os.stat(tmp_path / "fifo").st_mode)


def test_proc_files_have_no_size(link: Link) -> None:
    assert b"MemTotal" in link.read("/proc/meminfo")


def test_a_file_that_grows_ends_at_its_announced_size(link: Link, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1_000_000)
    s = link.open("read", path=str(path))
    s.auto_credit = False
    s.wait(lambda: s.received > 200_000)
    with path.open("ab") as f:
        f.write(b"y" * 1000)
    s.auto_credit = True
    s.credit(s.received)
    assert s.result() == {"bytes": 1_000_000}


def test_modes(link: Link, tmp_path: Path) -> None:
    path = tmp_path / "f"
    link.write(str(path), b"1", mode="0755")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    link.write(str(path), b"2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert link.call("stat", path=str(path))["mode"] == "0755"
    for wrong in ("rwx", "", "8", "77777"):
        assert kind(lambda wrong=wrong: link.write(str(path), b"3", mode=wrong)) == "invalid"
    assert path.read_bytes() == b"2"


def test_a_symlink_is_followed(link: Link, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/file")
    link.write(f"{tmp_path}/link", b"dangling")
    assert (tmp_path / "real" / "file").read_bytes() == b"dangling"
    link.write(f"{tmp_path}/link", b"again")
    assert (tmp_path / "link").is_symlink() and link.read(f"{tmp_path}/link") == b"again"
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert kind(lambda: link.write(f"{tmp_path}/a", b"x")) == "invalid"
    assert kind(lambda: link.read(f"{tmp_path}/a")) == "invalid"


def test_a_write_that_breaks_off_leaves_nothing(link: Link, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    s = link.open("write", path=f"{tmp_path}/d/f")
    s.send(b"x" * 200_000)
    s.cancel()
    assert kind(s.result)
    assert os.listdir(tmp_path / "d") == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs a mount")
def test_no_space(link: Link, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    assert os.system(f"mount -t tmpfs -o size=1m none {small}") == 0
    try:
        link.write(f"{small}/keep", b"k")
        assert kind(lambda: link.write(f"{small}/f", b"x" * 3_000_000)) == "no_space"
        assert os.listdir(small) == ["keep"]
        link.write(f"{small}/g", b"ok")
        link.call("move", path=f"{small}/g", to=f"{tmp_path}/g")  # another file system
        assert (tmp_path / "g").read_bytes() == b"ok" and not (small / "g").exists()
        assert kind(lambda: link.call("remove", path=str(small))) == "denied"
        assert kind(lambda: link.call("move", path=f"{tmp_path}/root", to=f"{small}/no/dir")) == "not_found"
    finally:
        os.system(f"umount {small}")


def test_stat(link: Link, tmp_path: Path) -> None:
    info = link.call("stat", path=str(tmp_path))
    assert info["is_dir"] is True and info["type"] == "directory" and info["name"] == tmp_path.name
    assert link.call("stat", path="/")["name"] == "/"
    (tmp_path / "dangling").symlink_to("nowhere")
    assert link.call("stat", path=f"{tmp_path}/dangling")["type"] == "symlink"
    (tmp_path / "to-dir").symlink_to(".")
    assert link.call("stat", path=f"{tmp_path}/to-dir")["is_dir"] is True


def test_a_huge_directory(link: Link, tmp_path: Path) -> None:
    d = tmp_path / "huge"
    d.mkdir()
    for i in range(5000):
        (d / f"{i:05d}-{'é' * 60}").touch()
    s = link.open("list", path=str(d))
    assert s.result() == {"path": str(d)}
    assert all(len(e["entries"]) <= 256 for e in s.events)
    assert len({e["name"] for event in s.events for e in event["entries"]}) == 5000


def test_mkdir(link: Link, tmp_path: Path) -> None:
    link.call("mkdir", path=f"{tmp_path}/a/b/c")
    link.call("mkdir", path=f"{tmp_path}/a/b/c")
    (tmp_path / "f").touch()
    assert kind(lambda: link.call("mkdir", path=f"{tmp_path}/f")) == "exists"
    assert kind(lambda: link.call("mkdir", path=f"{tmp_path}/f/g")) == "not_a_directory"


def test_remove(link: Link, tmp_path: Path) -> None:
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "f").touch()
    tree = tmp_path / "tree"
    for i in range(30):
        (tree / str(i) / "deep").mkdir(parents=True)
        (tree / str(i) / "deep" / "f").touch()
        (tree / str(i) / "l").symlink_to("../../keep")
    link.call("remove", path=str(tree))
    assert not tree.exists() and (tmp_path / "keep" / "f").exists()
    assert kind(lambda: link.call("remove", path=str(tree))) == "not_found"
    for path in ("/", "//", "/.", "/proc", "/tmp/.."):
        assert kind(lambda path=path: link.call("remove", path=path)) == "denied"


def test_remove_a_tree_deeper_than_a_path_may_be_long(link: Link, tmp_path: Path) -> None:
    os.mkdir(tmp_path / "deep")
    here = os.getcwd()
    try:
        os.chdir(tmp_path / "deep")
        for _ in range(100):
            os.mkdir("x" * 100)
            os.chdir("x" * 100)
    finally:
        os.chdir(here)
    link.call("remove", path=f"{tmp_path}/deep")
    assert not (tmp_path / "deep").exists()


def test_many_readers_take_turns(link: Link, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "f").write_bytes(data)
    streams = [link.open("read", path=f"{tmp_path}/f") for _ in range(16)]
    for s in streams:
        assert s.result() == {"bytes": len(data)}
        assert s.body == data
