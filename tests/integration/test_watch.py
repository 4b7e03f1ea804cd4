# SPDX-License-Identifier: Apache-2.0
"""Changes below a folder of a sandbox, told as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness import Sandbox
from harness.api import Event

Make = Callable[..., Sandbox]


def take(events: Iterator[Event], *last: str) -> list[tuple[str, ...]]:
    """What is told up to this event."""
    told = []
    for e in events:
        told.append((e.name, e.data["path"], *([e.data["to"]] if "to" in e.data else [])))
        if told[-1] == last:
            return told
    raise AssertionError(f"the stream ended: {told}")


def test_what_code_does(box: Sandbox) -> None:
    box.mkdir("/workspace/w/sub")
    with box.follow("fs/watch", path="/workspace/w", recursive="true") as events:
        box.output("cd /workspace/w; echo 1 > a; mv a sub/b; chmod 600 sub/b; rm sub/b; echo x > 'a b'")
        told = take(events, "write", "a b")
    assert told == [
        ("create", "a"),
        ("write", "a"),
        ("rename", "a", "sub/b"),
        ("chmod", "sub/b"),
        ("remove", "sub/b"),
        ("create", "a b"),
        ("write", "a b"),
    ]
    box.remove("/workspace/w")


def test_what_the_api_does(box: Sandbox) -> None:
    """Nothing is missed from the moment on at which the answer begins."""
    box.mkdir("/tmp/w")
    for i in range(10):
        with box.follow("fs/watch", path="/tmp/w") as events:
            box.write(f"/tmp/w/{i}", b"x")
            assert take(events, "write", f"{i}") == [("create", f"{i}"), ("write", f"{i}")]
    with box.follow("fs/watch", path="/tmp/w", recursive=1) as events:
        box.mkdir("/tmp/w/new")
        take(events, "create", "new")
        box.move("/tmp/w/1", "/tmp/w/new/one")
        take(events, "rename", "1", "new/one")
        box.remove("/tmp/w/new")
        told = take(events, "remove", "new")
        assert ("remove", "new/one") in told
    box.remove("/tmp/w")


def test_form(box: Sandbox) -> None:
    box.mkdir("/tmp/w")
    with box.follow("fs/watch", path="/tmp/w") as events:
        box.mkdir("/tmp/w/d")
        assert next(events) == Event("create", {"path": "d", "is_dir": True, "seq": 0})
        box.write("/tmp/w/f", b"")
        box.move("/tmp/w/f", "/tmp/w/g")
        take(events, "write", "f")
        assert next(events) == Event("rename", {"path": "f", "is_dir": False, "to": "g", "seq": 3})
        box.remove("/tmp/w")
        assert [e.data["path"] for e in events][-1] == "", "the folder itself, and then the end"


def test_files_of_the_template(box: Sandbox) -> None:
    """Those that are changed for the first time, on the disk that all sandboxes share."""
    with box.follow("fs/watch", path="/etc") as events:
        box.output("echo >> /etc/services; chmod 600 /etc/protocols; mv /etc/protocols /etc/moved; rm /etc/shells")
        assert take(events, "remove", "shells") == [
            ("write", "services"),
            ("chmod", "protocols"),
            ("rename", "protocols", "moved"),
            ("remove", "shells"),
        ]


def test_watchers_of_all_that_code_writes(box: Sandbox) -> None:
    """A flood is told as far as it can be; the watch goes on."""
    box.mkdir("/tmp/w")
    with box.follow("fs/watch", path="/tmp/w", recursive=1) as events:
        box.output("cd /tmp/w; for d in a b c; do mkdir $d; (cd $d; seq 300 | xargs touch); done; touch end")
        told = take(events, "create", "end")
    assert {e[1] for e in told if e[0] == "create"} >= {f"{d}/{i}" for d in "abc" for i in range(1, 301)}
    box.remove("/tmp/w")


def test_it_ends_with_its_sandbox(sandbox: Make) -> None:
    s = sandbox("base")
    with s.follow("fs/watch", path="/tmp") as events:
        s.hibernate()
        last = next(events)
        assert last.name == "error"
        assert list(events) == []
    assert s.output("cat /proc/[0-9]*/comm | grep -cx init").strip() == "1", "nobody watches any more"


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("", 400, "request.invalid"),
        ("path=relative", 400, "request.invalid"),
        ("path=/etc/passwd", 400, "request.invalid"),
        ("path=/no/such/dir", 404, "file.not_found"),
        ("path=/tmp&recursive=maybe", 400, "request.invalid"),
    ],
)
def test_what_can_not_be_watched(box: Sandbox, query: str, status: int, code: str) -> None:
    box.api.refused("GET", f"{box.path}/fs/watch?{query}", status, code)
