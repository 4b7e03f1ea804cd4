# SPDX-License-Identifier: Apache-2.0
"""A terminal in a sandbox, over a WebSocket: binary messages are what is typed and shown, text messages are JSON.

Theory of operation: a reader of its own (a task, or a thread) hears what the daemon sends, from the opening on until
either side closes. It calls the listener, answers pings, and frees the connection, which nobody else does: who closes
shuts the socket down, and the reader sees its end. Who writes may have to wait, for as long as what runs there reads
nothing; the reader never waits for that, so that what is shown goes on.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any, Callable

import httpcore
import httpx

from .. import _http
from .._websocket import BINARY, CLOSE, PING, PONG, TEXT, Decoder, Message, close_reason, frame
from ..errors import APIConnectionError, ExecInterrupted, json_object, not_understood
from . import _io

READ_BYTES = 1 << 16
WRITE_BYTES = 1 << 15  # in one message

_LOST = (httpcore.NetworkError, httpcore.TimeoutException)


class AsyncPty:
    """A terminal; `sandbox.open_pty()` opens one. At the end of its block it is closed."""

    def __init__(self, response: httpx.Response, on_data: Callable[[bytes], Any]) -> None:
        self._response = response
        self._stream = response.extensions["network_stream"]
        self._on_data = on_data
        self._writing = _io.Lock()
        self._exit_code: int | None = None
        self._failure: Exception | None = None
        self._reason = ""
        self._over = False
        self._reader = _io.start(self._read)

    async def __aenter__(self) -> AsyncPty:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
        await _io.join(self._reader)

    async def write(self, data: bytes | str) -> None:
        """Type something; a text as UTF-8."""
        content = data.encode() if isinstance(data, str) else data
        for at in range(0, len(content), WRITE_BYTES):
            await self._send(BINARY, content[at : at + WRITE_BYTES])

    async def resize(self, rows: int, cols: int) -> None:
        """Give it another size."""
        await self._send(TEXT, json.dumps({"resize": {"rows": rows, "cols": cols}}).encode())

    async def close(self) -> None:
        """Close it, and end what runs in it; nothing happens to one that is over."""
        with contextlib.suppress(APIConnectionError):
            await self._send_at_once(CLOSE, (1000).to_bytes(2, "big"))
        self._shut_down()

    async def wait(self) -> int:
        """Wait for the end of what runs in it; its exit code. What on_data raised has closed it, and is raised here.

        Raises:
            ExecInterrupted: It was closed before that, here or by the daemon.
        """
        await _io.join(self._reader)
        if self._exit_code is not None:
            return self._exit_code
        if self._failure and not isinstance(self._failure, _LOST):
            raise self._failure
        why = self._reason or self._failure
        raise ExecInterrupted(
            "the terminal was closed before what runs in it ended: what became of it is not known"
            + (f" ({why})" if why else "")
        ) from self._failure

    async def _send(self, opcode: int, data: bytes) -> None:
        async with self._writing:
            try:
                if self._over:
                    raise httpcore.WriteError("it is over")
                await self._stream.write(frame(opcode, data), _http.STREAM_SILENCE_SECONDS)
            except _LOST as e:
                self._shut_down()  # half a message may be on its way
                raise APIConnectionError(f"this terminal is closed ({e}): open_pty() opens another one") from e

    async def _send_at_once(self, opcode: int, data: bytes) -> None:
        if not self._writing.locked():
            await self._send(opcode, data)

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError):  # it is closed already
            self._stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    async def _read(self) -> None:
        decoder = Decoder()
        try:
            while chunk := await self._receive():
                for message in decoder.feed(chunk):
                    if message.opcode == CLOSE:
                        self._reason = close_reason(message.data)
                        return
                    await self._take(message)
        except Exception as e:
            self._failure = e
        finally:
            await self.close()
            self._over = True
            await self._response.aclose()

    async def _receive(self) -> bytes:
        """What comes next; nothing at the end. Where all is silent, we ask whether the daemon is there."""
        try:
            chunk: bytes = await self._stream.read(READ_BYTES, _http.STREAM_SILENCE_SECONDS)
        except httpcore.ReadTimeout:
            await self._send_at_once(PING, b"")
            chunk = await self._stream.read(READ_BYTES, _http.STREAM_SILENCE_SECONDS)
        return chunk

    async def _take(self, message: Message) -> None:
        if message.opcode == BINARY:
            await _io.tell(self._on_data, message.data)
        elif message.opcode == TEXT and self._exit_code is None:
            self._exit_code = exit_code_of(message.data)
        elif message.opcode == PING:
            await self._send_at_once(PONG, message.data)


def exit_code_of(text: bytes) -> int | None:
    """What the daemon says at the end."""
    try:
        said = json_object(json.loads(text)) or {}
    except ValueError as e:
        raise not_understood("a text message of a terminal is no JSON") from e
    return said["exit"] if isinstance(said.get("exit"), int) else None
