# SPDX-License-Identifier: Apache-2.0
"""Changes below a folder, through the agent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import Agent
from link_client import WINDOW, Link, LinkError, Stream


class Watch:
    """A watch that has begun."""

    def __init__(self, link: Link, path: Path, recursive: bool = True) -> None:
        self.stream: Stream = link.open("watch", path=str(path), recursive=recursive)
        self.stream.wait(lambda: self.stream.events == [{"ready": True}])
        self.path = path

    @property
    def all(self) -> list[dict[str, Any]]:
        return [e for message in self.stream.events[1:] for e in message["events"]]

    def told(self) -> list[tuple[str, ...]]:
        return [(e["type"], e["path"], *([e["to"]] if "to" in e else [])) for e in self.all]

    def until(self, *last: str) -> list[tuple[str, ...]]:
        """What was told up to this event, which must come."""
        self.stream.wait(lambda: last in self.told())
        told = self.told()
        return told[: told.index(last) + 1]


def end(w: Watch) -> list[tuple[str, ...]]:
    """All that was told before a last file."""
    (w.path / "end").touch()
    return w.until("create", "end")[:-1]


def test_files(link: Link, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    w = Watch(link, tmp_path, recursive=False)
    (tmp_path / "new").write_text("1")
    with (tmp_path / "old").open("a") as f:
        f.write("2")
    (tmp_path / "old").chmod(0o600)
    (tmp_path / "old").rename(tmp_path / "moved")
    (tmp_path / "moved").unlink()
    os.symlink("nowhere", tmp_path / "link")
    os.mkfifo(tmp_path / "fifo")
    assert end(w) == [
        ("create", "new"),
        ("write", "new"),
        ("write", "old"),
        ("chmod", "old"),
        ("rename", "old", "moved"),
        ("remove", "moved"),
        ("create", "link"),
        ("create", "fifo"),
    ]
    assert all(e["is_dir"] is False for e in w.all)
    w.stream.cancel()
    assert link.call("stat", path=str(tmp_path))["is_dir"]


def test_only_one_folder(link: Link, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    w = Watch(link, tmp_path, recursive=False)
    (tmp_path / "a" / "x").touch()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    assert end(w) == [("create", "b")]
    assert w.all[0]["is_dir"] is True


def test_a_tree(link: Link, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    w = Watch(link, tmp_path)
    (tmp_path / "a" / "b" / "x").touch()
    w.until("create", "a/b/x")
    (tmp_path / "c").mkdir()
    w.until("create", "c")
    (tmp_path / "c" / "d").mkdir()
    w.until("create", "c/d")
    (tmp_path / "c" / "d" / "y").touch()
    w.until("create", "c/d/y")
    shutil.rmtree(tmp_path / "a")
    told = end(w)
    assert ("remove", "a/b/x") in told
    assert ("remove", "a/b") in told
    assert ("remove", "a") in told
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "again").touch()
    w.until("create", "a/again")


def test_folders_that_fill_at_once(link: Link, tmp_path: Path) -> None:
    """What is in a folder when it is first seen is told, though nobody watched it yet."""
    w = Watch(link, tmp_path)
    for i in range(50):
        (tmp_path / f"{i}" / "a" / "b").mkdir(parents=True)
        (tmp_path / f"{i}" / "a" / "b" / "x").touch()
    for i in range(50):
        for path in (f"{i}", f"{i}/a", f"{i}/a/b", f"{i}/a/b/x"):
            w.until("create", path)


def test_a_tree_that_comes_and_goes(link: Link, tmp_path: Path) -> None:
    """Renamed, moved in, moved out: paths are those of now."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "a" / "b").mkdir(parents=True)
    outside.mkdir()
    w = Watch(link, root)
    (root / "a").rename(root / "c")
    w.until("rename", "a", "c")
    (root / "c" / "b" / "x").touch()
    w.until("create", "c/b/x")
    (root / "c").rename(outside / "c")
    w.until("remove", "c")
    (outside / "c" / "b" / "unseen").touch()
    (outside / "c" / "b").rename(root / "d")
    told = w.until("create", "d/x")
    assert ("create", "d") in told
    (root / "d" / "z").touch()
    told = w.until("create", "d/z")
    assert not [e for e in told if "unseen" in e[1] and not e[1].startswith("d/")]
    (root / "e").touch()
    (root / "e").rename(root / "d" / "e")
    w.until("rename", "e", "d/e")


def test_uploads(link: Link, tmp_path: Path) -> None:
    """Under their name, not under the one that they have meanwhile."""
    w = Watch(link, tmp_path)
    link.write(f"{tmp_path}/file", b"x" * 200_000)
    link.write(f"{tmp_path}/file", b"y")
    assert end(w) == [("create", "file"), ("write", "file")] * 2
    link.write(f"{tmp_path}/sub/file", b"z")
    told = w.until("create", "sub/file")
    assert "pandastack" not in str(told)


def test_writes_are_not_told_again_and_again(link: Link, tmp_path: Path) -> None:
    w = Watch(link, tmp_path)
    with (tmp_path / "f").open("wb", buffering=0) as f:
        for _ in range(20_000):
            f.write(b"x")
    told = end(w)
    assert told[:2] == [("create", "f"), ("write", "f")]
    assert len(told) < 2000


@pytest.mark.parametrize("name", ["a b", "\u2615", "-rf", 'q"\\\n', "%20"])
def test_names(link: Link, tmp_path: Path, name: str) -> None:
    w = Watch(link, tmp_path)
    (tmp_path / name).touch()
    assert end(w)[0] == ("create", name)


def test_names_that_are_no_text(link: Link, tmp_path: Path) -> None:
    w = Watch(link, tmp_path)
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    w.until("create", "\ufffd")
    with open(os.fsencode(tmp_path) + b"/\xff/\xfe", "w"):
        pass
    w.until("create", "\ufffd/\ufffd")


def test_long_paths(link: Link, tmp_path: Path) -> None:
    """Of bytes that all need an escape."""
    w = Watch(link, tmp_path)
    fd = os.open(tmp_path, os.O_RDONLY)
    name = "\x01" * 255
    try:
        for _ in range(20):
            os.mkdir(name, dir_fd=fd)
            inner = os.open(name, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
    finally:
        os.close(fd)
    deep = "/".join([name] * ((4096 - 1) // 256))
    w.until("create", deep)
    shutil.rmtree(tmp_path)


def test_the_folder_itself_goes(link: Link, tmp_path: Path) -> None:
    for how in (lambda p: p.rmdir(), lambda p: p.rename(tmp_path / "elsewhere")):
        (tmp_path / "w").mkdir()
        w = Watch(link, tmp_path / "w")
        how(tmp_path / "w")
        assert w.stream.result() == {}
        assert w.told() == [("remove", "")]


def test_what_can_not_be_watched(link: Link, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, kind in (("no", "not_found"), ("file", "not_a_directory")):
        with pytest.raises(LinkError) as e:
            link.call("watch", path=f"{tmp_path}/{path}")
        assert e.value.kind == kind
        assert str(tmp_path) in e.value.message
    with pytest.raises(LinkError) as e:
        link.call("watch", path="relative")
    assert e.value.kind == "invalid"


def test_too_many_folders(link: Link, tmp_path: Path) -> None:
    """At the beginning they are refused; later that is told."""
    many = tmp_path / "many"
    for i in range(8200):
        (many / f"{i}").mkdir(parents=True)
    with pytest.raises(LinkError) as e:
        link.call("watch", path=str(tmp_path), recursive=True)
    assert e.value.kind == "limit"
    assert "8192" in e.value.message
    many.rename(tmp_path.parent / "elsewhere")
    w = Watch(link, tmp_path)
    (tmp_path.parent / "elsewhere").rename(tmp_path / "many")
    w.until("overflow", "many")
    shutil.rmtree(tmp_path)


def test_a_reader_that_does_not_read(link: Link, tmp_path: Path) -> None:
    """It holds up nobody, and is told that it has missed something."""
    w = Watch(link, tmp_path)
    w.stream.auto_credit = False
    for _ in range(6):
        for i in range(2000):
            (tmp_path / f"{'x' * 200}{i}").touch()
        for i in range(2000):
            (tmp_path / f"{'x' * 200}{i}").unlink()
        assert link.exec("echo quick")[1] == b"quick\n"
    assert w.stream.received <= WINDOW
    w.stream.auto_credit = True
    w.stream.credit(w.stream.received)
    w.until("overflow", "")
    (tmp_path / "after").touch()
    w.until("create", "after")


def test_many_at_once(agent: Agent, tmp_path: Path) -> None:
    """And nothing of them is left."""
    link = agent.link
    watches = [Watch(link, tmp_path) for _ in range(8)]
    (tmp_path / "x").touch()
    for w in watches:
        w.until("create", "x")
    link.hello(padded=True)
    while True:
        children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text()
        if not children.split():
            break
        link.exec("true")
