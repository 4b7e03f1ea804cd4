# SPDX-License-Identifier: Apache-2.0
"""What goes on in a sandbox, at the real daemon: logs, changes in folders, events; and its servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest

from pandastack import BadRequestError, Client, NotFoundError, Port, Sandbox, SandboxFailed


@pytest.fixture
def fresh(client: Client) -> Iterator[Sandbox]:
    """One that has done nothing yet."""
    with Sandbox.create("base", client=client) as sandbox:
        yield sandbox


def test_logs(fresh: Sandbox) -> None:
    fresh.exec("echo one; echo two >&2; echo é")
    assert sorted(fresh.logs()) == ["one", "two", "é"]
    assert fresh.logs(stream="stdout", tail=1) == ["é"]
    lines: list[str] = []
    with fresh.follow_logs(stream="stdout") as followed:
        for line in followed:
            lines.append(line)
            if len(lines) == 2:
                fresh.exec("echo three")
            if line == "three":
                break
    assert lines == ["one", "é", "three"]
    fresh.exec("echo from the console >/dev/console; printf 'no end'")
    assert fresh.logs(tail=1) == ["no end"]
    said = "from the console\r"  # a terminal's line ends in two characters
    assert said in iter(fresh.follow_logs(stream="console"))
    assert said in fresh.logs(stream="console")
    with pytest.raises(BadRequestError, match="console"):
        fresh.logs(stream="both of them")  # type: ignore[arg-type]


def test_a_follower_ends_with_the_sandbox(fresh: Sandbox) -> None:
    with fresh.follow_events() as events, fresh.follow_logs() as lines:
        assert next(events).type == "sandbox.running"
        fresh.kill()
        assert [event.type for event in events] == ["sandbox.deleted"]
        with pytest.raises(SandboxFailed, match="deleted"):
            list(lines)
    with pytest.raises(NotFoundError):
        next(fresh.follow_logs())


def test_changes_in_a_folder(fresh: Sandbox) -> None:
    fs = fresh.filesystem
    fs.mkdir("/d/sub")
    with fs.watch("/d", recursive=True) as changes, fs.watch("/d") as flat:
        fs.write("/d/sub/a", b"x")
        fresh.exec("mv /d/sub/a /d/sub/b; chmod 600 /d/sub/b; mkdir /d/dir")
        seen = [next(change for change in changes if change.type == kind) for kind in ("rename", "chmod", "create")]
        assert [(c.path, c.is_dir, c.to) for c in seen][1:] == [("sub/b", False, None), ("dir", True, None)]
        assert seen[0].to in ("sub/a", "sub/b")
        assert next(flat).path == "dir", "what happens below it is not told"
        fs.remove("/d")
        assert (list(changes)[-1].type, list(flat)[-1].path) == ("remove", "")
    with pytest.raises(NotFoundError):
        next(fs.watch("/d"))
    with pytest.raises(BadRequestError):
        next(fs.watch("relative"))


def test_one_that_is_left_is_closed(fresh: Sandbox) -> None:
    """It has few watches; those of who has left are free again."""
    for _ in range(40):
        with fresh.filesystem.watch("/tmp"):
            pass
        for line in fresh.follow_events():
            assert line.type == "sandbox.running"
            break


def test_a_server_is_reached_by_a_link_until_that_is_over(client: Client) -> None:
    with Sandbox.create(client=client) as sandbox:
        sandbox.filesystem.write("/srv/report/a.txt", "größe")
        server = sandbox.commands.start("python3 -m http.server 8000", cwd="/srv")
        sandbox.exec("until curl -s localhost:8000; do :; done", timeout=60)
        assert sandbox.label_port(8000, "web").label == "web"
        assert sandbox.ports() == [Port(8000, True, "user", f"/v1/sandboxes/{sandbox.id}/proxy/8000/", "web")]
        assert sandbox.refresh().metadata == {"port.8000": "web"}
        sandbox.unlabel_port(8000)
        assert [(port.port, port.label, port.source) for port in sandbox.ports()] == [(8000, None, "detected")]
        url = sandbox.preview_url(8000, ttl_seconds=600, paths=["/report"])
        assert httpx.get(f"{url}report/a.txt").content.decode() == "größe"
        assert httpx.get(f"{url}elsewhere").status_code == 403
        with pytest.raises(BadRequestError):
            sandbox.preview_url(0)
        server.kill()


def test_many_followers_at_once(fresh: Sandbox) -> None:
    """Threads share a client."""
    heard: list[str] = []
    ready = threading.Barrier(9)

    def listen() -> None:
        with fresh.follow_logs(stream="stdout") as lines:
            ready.wait(60)
            heard.append(next(lines))

    threads = [threading.Thread(target=listen) for _ in range(8)]
    for thread in threads:
        thread.start()
    ready.wait(60)
    fresh.exec("echo one")
    for thread in threads:
        thread.join(60)
    assert heard == ["one"] * 8
