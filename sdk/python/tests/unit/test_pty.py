# SPDX-License-Identifier: Apache-2.0
"""A terminal, at a server that speaks as the daemon's exec/pty does, or worse."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from typing import Callable

import pytest
from bad_server import Server, answer
from test_websocket import sent, unmasked

import pandastack._http
from pandastack import (
    APIConnectionError,
    AsyncClient,
    AsyncPty,
    AsyncSandbox,
    AuthError,
    Client,
    ExecInterrupted,
    NotFoundError,
    NotSupportedError,
    Pty,
    Sandbox,
    SandboxFailed,
    ServerError,
)
from pandastack._websocket import accepted

Serve = Callable[..., Server]
SANDBOX = {"id": "sb", "template": "base", "status": "running"}
EXIT = sent(0x81, b'{"exit": 3, "type": "exit"}')
CLOSE = sent(0x88, b"\x03\xe8")
BYE = sent(0x88, b"\x03\xf3the sandbox was deleted")


class Peer:
    """The server's end: what the client sends, frame by frame."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._bytes = b""

    def _more(self, size: int) -> None:
        while len(self._bytes) < size:
            piece = self.connection.recv(65536)
            if not piece:
                raise EOFError
            self._bytes += piece

    def hear(self) -> tuple[int, bytes]:
        """First byte and contents of the next frame."""
        self._more(2)
        size = self._bytes[1] & 0x7F
        head = 6 if size < 126 else 8 if size == 126 else 14
        self._more(head)
        if size >= 126:
            size = int.from_bytes(self._bytes[2 : head - 4], "big")
        self._more(head + size)
        frame, self._bytes = self._bytes[: head + size], self._bytes[head + size :]
        return unmasked(frame)

    def say(self, *frames: bytes) -> None:
        self.connection.sendall(b"".join(frames))

    def gone(self) -> bool:
        """Hears until the client has closed."""
        try:
            while True:
                self.hear()
        except (EOFError, ConnectionError):
            return True


def terminals(serve: Serve, *scripts: Callable[[Peer], object], early: bytes = b"") -> Server:
    """A server of terminals; the first bytes of each come together with its answer."""

    def script_of(script: Callable[[Peer], object]) -> Callable[[socket.socket], None]:
        def run(connection: socket.socket) -> None:
            key = re.search(rb"Sec-WebSocket-Key: (.*)\r\n", server.requests[-1])
            assert key
            head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket"
            accept = accepted(key[1].decode())
            connection.sendall(f"{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode() + early)
            script(Peer(connection))

        return run

    server: Server = serve(*map(script_of, scripts))
    return server


def sandbox_of(server: Server) -> Sandbox:
    return Sandbox(Client(server.url, "pds_k"), SANDBOX)


def ignore(data: bytes) -> None:
    """A listener."""


def test_what_is_typed_shown_and_resized_and_its_end(serve: Serve) -> None:
    heard: list[tuple[int, bytes]] = []

    def script(peer: Peer) -> None:
        for _ in range(3):
            heard.append(peer.hear())
            peer.say(sent(0x82, b"echo "), sent(0x82, heard[-1][1]))
        peer.say(EXIT, CLOSE)
        assert peer.hear() == (0x88, b"\x03\xe8"), "the close is answered"
        assert peer.gone()

    server = terminals(serve, script, early=sent(0x82, b"$ "))
    shown: list[bytes] = []
    pty = sandbox_of(server).open_pty(shown.append, cmd="sh -i", rows=50, cols=132, cwd="/tmp", user="nobody")
    pty.write("é☕\r")
    pty.write(b"\x03")
    pty.resize(40, 100)
    assert pty.wait() == 3
    resize = b'{"resize": {"rows": 40, "cols": 100}}'
    assert heard == [(0x82, "é☕\r".encode()), (0x82, b"\x03"), (0x81, resize)]
    assert b"".join(shown) == b"$ echo " + "é☕\r".encode() + b"echo \x03echo " + resize
    asked = server.requests[0].decode().lower()
    query = "?cmd=sh(\\+|%20)-i&rows=50&cols=132&cwd=(/|%2f)tmp&user=nobody"
    assert re.match(rf"get /v1/sandboxes/sb/exec/pty\{query} http", asked)
    assert "authorization: bearer pds_k" in asked
    with pytest.raises(APIConnectionError, match=r"open_pty\(\) opens another"):
        pty.write("more")
    assert pty.wait() == 3


def test_a_large_paste_comes_in_messages(serve: Serve) -> None:
    data = bytes(range(256)) * 1000
    heard: list[bytes] = []

    def script(peer: Peer) -> None:
        while sum(map(len, heard)) < len(data):
            heard.append(peer.hear()[1])
        peer.say(EXIT, CLOSE)

    pty = sandbox_of(terminals(serve, script)).open_pty(ignore)
    pty.write(data)
    assert pty.wait() == 3
    assert b"".join(heard) == data
    assert max(map(len, heard)) <= 1 << 15


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([], "known$"),
        ([CLOSE], "known$"),
        ([BYE], r"\(the sandbox was deleted\)$"),
        ([BYE, EXIT], r"\(the sandbox was deleted\)$"),
        ([sent(0x81, b'{"of a newer": "daemon"}'), sent(0x81, b"[]")], "known$"),
        ([b"\x82\x05half"], "known$"),
    ],
)
def test_a_terminal_that_the_daemon_closes(serve: Serve, frames: list[bytes], why: str) -> None:
    with pytest.raises(ExecInterrupted, match=why):
        sandbox_of(terminals(serve, lambda peer: peer.say(*frames))).open_pty(ignore).wait()


def test_a_terminal_that_is_closed_here(serve: Serve) -> None:
    heard: list[tuple[int, bytes]] = []
    ends: list[bool] = []

    def script(peer: Peer) -> None:
        heard.append(peer.hear())
        ends.append(peer.gone())

    server = terminals(serve, script, script)
    sandbox = sandbox_of(server)
    with sandbox.open_pty(ignore) as pty:
        pass
    other = sandbox.open_pty(ignore)
    other.close()
    other.close()
    for each in (pty, other):
        with pytest.raises(ExecInterrupted):
            each.wait()
    server.close()
    assert heard == [(0x88, b"\x03\xe8")] * 2
    assert ends == [True, True]
    assert not pty._reader.is_alive()


@pytest.mark.parametrize("frames", [sent(0x83, b""), sent(0x81, b"no JSON"), sent(0x81, b"\xff")])
def test_a_hostile_server(serve: Serve, frames: bytes) -> None:
    ends: list[bool] = []

    def script(peer: Peer) -> None:
        peer.say(frames)
        ends.append(peer.gone())

    server = terminals(serve, script)
    with pytest.raises(ServerError, match="update the daemon and restart it"):
        sandbox_of(server).open_pty(ignore).wait()
    server.close()
    assert ends == [True]


def test_what_a_listener_raises_closes_it(serve: Serve) -> None:
    reason = InterruptedError("enough")

    def listener(data: bytes) -> None:
        raise reason

    def script(peer: Peer) -> None:
        peer.say(sent(0x82, b"x"))
        assert peer.gone()

    with pytest.raises(InterruptedError) as e, sandbox_of(terminals(serve, script)).open_pty(listener) as pty:
        pty.wait()
    assert e.value is reason


def test_a_listener_may_close_it_and_write(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.say(sent(0x82, b"? "))
        assert peer.hear() == (0x82, b"yes\n")
        assert peer.gone()

    def listener(data: bytes) -> None:
        assert opened.wait(60)
        made[0].write("yes\n")
        made[0].close()

    made: list[Pty] = []
    opened = threading.Event()
    made.append(sandbox_of(terminals(serve, script)).open_pty(listener))
    opened.set()
    with pytest.raises(ExecInterrupted):
        made[0].wait()


def test_pings_are_answered_and_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is said for long, the client asks; a server that does not answer is gone."""
    monkeypatch.setattr(pandastack._http, "STREAM_SILENCE_SECONDS", 0.2)

    def lively(peer: Peer) -> None:
        peer.say(sent(0x89, b"there?"))
        assert peer.hear() == (0x8A, b"there?")
        for _ in range(2):
            assert peer.hear() == (0x89, b"")
            peer.say(sent(0x8A, b""))
        peer.say(EXIT, CLOSE)

    server = terminals(serve, lively, lambda peer: peer.gone())
    assert sandbox_of(server).open_pty(ignore).wait() == 3
    with pytest.raises(ExecInterrupted, match=r"timed out"):
        sandbox_of(server).open_pty(ignore).wait()


def test_who_reads_does_not_wait_for_who_writes(serve: Serve) -> None:
    """What runs there reads nothing of a large paste and writes: it is shown, and close() closes at once."""
    seen = threading.Event()

    def script(peer: Peer) -> None:
        peer.say(sent(0x89, b"there?"), sent(0x82, b"busy"))
        assert seen.wait(60)
        peer.gone()

    pty = sandbox_of(terminals(serve, script)).open_pty(lambda data: seen.set())
    errors: list[BaseException] = []

    def paste() -> None:
        try:
            pty.write(bytes(64 << 20))
        except APIConnectionError as e:
            errors.append(e)

    stuck = threading.Thread(target=paste)
    stuck.start()
    assert seen.wait(60)
    pty.close()
    stuck.join(60)
    assert not stuck.is_alive()
    assert len(errors) == 1


def refused(status: str, code: str) -> bytes:
    return answer(json.dumps({"error": "words", "code": code}), status, "Content-Type: application/json")


@pytest.mark.parametrize(
    ("script", "cls", "words"),
    [
        (refused("404 Not Found", "sandbox.not_found"), NotFoundError, "words"),
        (refused("401 Unauthorized", "auth.unauthorized"), AuthError, "pandastack serve"),
        (refused("501 Not Implemented", "not_supported"), NotSupportedError, "words"),
        (refused("503 Service Unavailable", "sandbox.failed"), SandboxFailed, "words"),
        (answer("{}"), APIConnectionError, "proxy"),
        (answer("<html>bad gateway</html>", "502 Bad Gateway"), ServerError, "PANDASTACK_API"),
        (b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", APIConnectionError, "proxy"),
        (b"", APIConnectionError, "does it still run"),
    ],
)
def test_a_refusal_says_why(serve: Serve, script: bytes, cls: type[Exception], words: str) -> None:
    with pytest.raises(cls, match=words):
        sandbox_of(serve(script)).open_pty(ignore)


def test_nobody_there(serve: Serve) -> None:
    server = serve()
    server.close()
    with pytest.raises(APIConnectionError, match="pandastack serve"):
        sandbox_of(server).open_pty(ignore)


def test_asyncio(serve: Serve) -> None:
    """The source of all of the above; here what only asyncio has."""

    def script(peer: Peer) -> None:
        peer.say(sent(0x89, b"there?"), sent(0x82, b"$ "))
        assert [peer.hear() for _ in range(2)] == [(0x8A, b"there?"), (0x82, b"exit 3\n")]
        peer.say(EXIT, CLOSE)

    ends: list[bool] = []

    def endless(peer: Peer) -> None:
        peer.say(sent(0x82, b"x"))
        ends.append(peer.gone())

    def stuck(peer: Peer) -> None:
        peer.say(sent(0x82, b"x"))
        assert pasting.wait(60)
        ends.append(peer.gone())

    pasting = threading.Event()
    server = terminals(serve, script, endless, endless, endless, stuck)

    async def main() -> None:
        async with AsyncClient(server.url, "k") as client:
            sandbox = AsyncSandbox(client, SANDBOX)
            shown = asyncio.Event()

            async def listener(data: bytes) -> None:
                await asyncio.sleep(0)
                shown.set()

            async with await sandbox.open_pty(listener) as pty:
                await shown.wait()
                await pty.write("exit 3\n")
                assert await pty.wait() == 3

            async with await sandbox.open_pty(listener) as pty:
                waiting = asyncio.ensure_future(pty.wait())
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(waiting, 0.1)
            with pytest.raises(ExecInterrupted):
                await pty.wait()

            async def bad_listener(data: bytes) -> None:
                raise InterruptedError

            with pytest.raises(InterruptedError):
                await (await sandbox.open_pty(bad_listener)).wait()

            made: asyncio.Future[AsyncPty] = asyncio.get_running_loop().create_future()

            async def closer(data: bytes) -> None:
                await (await made).close()

            made.set_result(await sandbox.open_pty(closer))
            with pytest.raises(ExecInterrupted):
                await made.result().wait()

            shown.clear()
            pty = await sandbox.open_pty(listener)
            paste = asyncio.ensure_future(pty.write(bytes(64 << 20)))
            await shown.wait()
            pasting.set()
            await pty.close()
            with pytest.raises(APIConnectionError):
                await paste

    asyncio.run(main())
    server.close()
    assert ends == [True] * 4
