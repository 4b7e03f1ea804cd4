# SPDX-License-Identifier: Apache-2.0
"""What goes on until it is left: events, logs, changes in a folder."""

from __future__ import annotations

import asyncio
import socket
from typing import Callable

import pytest
from bad_server import CHUNKED, Server, answer, event, events

import pandastack._http
from pandastack import (
    APIConnectionError,
    AsyncClient,
    AsyncSandbox,
    AuthError,
    Client,
    FileEvent,
    NotFoundError,
    NotSupportedError,
    Sandbox,
    SandboxFailed,
)

Serve = Callable[..., Server]
SANDBOX = {"id": "sb", "template": "base", "status": "running"}
LINES = [event("line", line="one\n"), event("line", line="two\n")]


def sandbox_of(server: Server) -> Sandbox:
    return Sandbox(Client(server.url, "k"), SANDBOX)


class Left:
    """Says some lines, and waits until the client has gone."""

    def __init__(self) -> None:
        self.closed = False

    def __call__(self, connection: socket.socket) -> None:
        connection.sendall(CHUNKED + b"".join(LINES))
        assert connection.recv(1) == b""
        self.closed = True


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("one\n", ["one"]),
        ("one\n\nno end", ["one", "", "no end"]),
        ("a\u2028b\r\n", ["a\u2028b\r"]),
        (b"\xff\n", ["\ufffd"]),
    ],
)
def test_logs(serve: Serve, text: str | bytes, lines: list[str]) -> None:
    assert sandbox_of(serve(answer(text))).logs() == lines


def test_logs_that_are_followed_say_what_is_lost(serve: Serve) -> None:
    part = "x" * 16384
    lost = event("truncated", bytes=9, line="[output was lost]\n", seq=1)
    server = serve(events(LINES[0], lost, event("line", line=part, seq=3)))
    assert list(sandbox_of(server).follow_logs(tail=1)) == ["one", "[output was lost]", part]
    assert server.requests[0].startswith(b"GET /v1/sandboxes/sb/logs?tail=1&follow=true HTTP")


def test_changes_in_a_folder_until_the_sandbox_fails(serve: Serve) -> None:
    said = events(
        event("rename", path="a", is_dir=False, to="b", seq=1),
        event("overflow", path="", is_dir=True, seq=2),
        event("error", error="the sandbox failed: its kernel panicked", code="sandbox.failed"),
    )
    server = serve(said)
    with sandbox_of(server).filesystem.watch("/d") as changes:
        assert next(changes) == FileEvent("rename", "a", False, "b")
        assert next(changes) == FileEvent("overflow", "", True)
        with pytest.raises(SandboxFailed, match="panicked"):
            next(changes)
        assert list(changes) == []
    assert server.requests[0].startswith(b"GET /v1/sandboxes/sb/fs/watch?path=%2Fd HTTP")


def test_a_block_listens_from_its_beginning_on_and_closes_at_its_end(serve: Serve) -> None:
    left = Left()
    server = serve(left)
    with sandbox_of(server).follow_logs() as lines:
        assert len(server.requests) == 1
        assert next(lines) == "one"
        for line in lines:
            assert line == "two"
            break
    server.close()
    assert left.closed
    assert list(lines) == [], "it is over"


def test_a_loop_that_is_left_closes_too(serve: Serve) -> None:
    left = Left()
    server = serve(left)
    for line in sandbox_of(server).follow_logs():
        assert line == "one"
        break
    server.close()
    assert left.closed


def test_one_that_was_never_begun_asks_nothing(serve: Serve) -> None:
    server = serve()
    sandbox_of(server).follow_events().close()
    assert server.requests == []


def test_a_connection_that_breaks_is_no_end(serve: Serve) -> None:
    lines = sandbox_of(serve(CHUNKED + LINES[0])).follow_logs()
    assert next(lines) == "one"
    with pytest.raises(APIConnectionError, match=r"broke .*: does it still run\?"):
        next(lines)


def test_a_silent_daemon(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandastack._http, "STREAM_SILENCE_SECONDS", 0.2)
    lines = sandbox_of(serve(Left())).follow_logs()
    assert [next(lines), next(lines)] == ["one", "two"]
    with pytest.raises(APIConnectionError, match="silent for too long: it hangs, or what is between does"):
        next(lines)


@pytest.mark.parametrize(
    ("status", "code", "cls"),
    [
        ("404 Not Found", "sandbox.not_found", NotFoundError),
        ("404 Not Found", "not_found", NotSupportedError),
        ("401 Unauthorized", "auth.unauthorized", AuthError),
    ],
)
def test_a_refusal_is_raised_at_the_beginning(serve: Serve, status: str, code: str, cls: type[Exception]) -> None:
    body = f'{{"error": "words", "code": "{code}"}}'
    for path in ("follow_events", "follow_logs"):
        with pytest.raises(cls, match="words"), getattr(sandbox_of(serve(answer(body, status))), path)():
            pass
    with pytest.raises(cls, match="words"):
        next(sandbox_of(serve(answer(body, status))).filesystem.watch("/d"))


def test_asyncio(serve: Serve) -> None:
    left, broken_off, cancelled = Left(), Left(), Left()
    server = serve(left, broken_off, cancelled)

    async def main() -> None:
        async with AsyncClient(server.url, "k") as client:
            sandbox = AsyncSandbox(client, SANDBOX)
            async with sandbox.follow_logs() as lines:
                assert [await lines.__anext__() for _ in range(2)] == ["one", "two"]
            assert [line async for line in lines] == []
            async for line in sandbox.follow_logs():
                assert line == "one"
                break
            told: list[str] = []
            up = asyncio.Event()

            async def listen() -> None:
                async for line in sandbox.follow_logs():
                    told.append(line)
                    if line == "two":
                        up.set()

            task = asyncio.ensure_future(listen())
            await up.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert told == ["one", "two"]

    asyncio.run(main())
    server.close()
    assert left.closed
    assert broken_off.closed
    assert cancelled.closed
