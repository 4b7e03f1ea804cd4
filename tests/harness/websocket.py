# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client for tests (RFC 6455): one socket, one thread, strict about what a server may send."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
SECONDS = 60


class RefusedError(AssertionError):
    """The server answered with something else."""

    def __init__(self, status: int, head: str, body: bytes) -> None:
        super().__init__(f"{head}\n{body!r}")
        self.status = status
        self.body = body


def masked(mask: bytes, data: bytes) -> bytes:
    """As a client sends it."""
    key = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(len(data), "big")


class WebSocket:
    """A connection that has been upgraded."""

    def __init__(self, url: str, target: str, headers: Mapping[str, str] | None = None) -> None:
        """`url` is the API's; `headers` may replace Host."""
        at = urlsplit(url)
        self.sock = socket.create_connection((at.hostname, at.port), SECONDS)
        self.file = self.sock.makefile("rb")
        self.closed: int | None = None  # with this code
        self.reason = ""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = {
            "Host": at.netloc,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Version": "13",
            **(headers or {}),
        }
        request = f"GET {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
        self.sock.sendall(request.encode())
        head = ""
        while not head.endswith("\r\n\r\n"):
            line = self.file.readline().decode("latin-1")
            assert line, f"the server hung up: {head!r}"
            head += line
        self.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head.split("\r\n")[1:] if line)}
        status = int(head.split(" ")[1])
        if status != 101:
            body = self.file.read(int(self.headers.get("content-length", 0)))
            self.drop()
            raise RefusedError(status, head, body)
        wanted = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()
        assert self.headers["sec-websocket-accept"] == wanted
        assert self.headers["upgrade"].lower() == "websocket"
        assert "upgrade" in self.headers["connection"].lower()

    def __enter__(self) -> WebSocket:
        """A block, at whose end it is closed."""
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        """Close it."""
        with contextlib.suppress(OSError, EOFError):
            self.close()
        self.drop()

    def frame(self, opcode: int, data: bytes, *, final: bool = True) -> None:
        """One frame."""
        mask = os.urandom(4)
        size = len(data)
        if size < 126:
            length = bytes([0x80 | size])
        elif size < 1 << 16:
            length = b"\xfe" + struct.pack("!H", size)
        else:
            length = b"\xff" + struct.pack("!Q", size)
        self.sock.sendall(bytes([(0x80 if final else 0) | opcode]) + length + mask + masked(mask, data))

    def send(self, message: bytes | str | dict[str, Any]) -> None:
        """A message: bytes, text, or JSON as text."""
        if isinstance(message, bytes):
            self.frame(BINARY, message)
        else:
            self.frame(TEXT, (message if isinstance(message, str) else json.dumps(message)).encode())

    def _frame(self) -> tuple[int, bool, bytes]:
        head = self.file.read(2)
        if len(head) < 2:
            raise EOFError
        assert not head[0] & 0x70, "reserved bits"
        assert not head[1] & 0x80, "a server must not mask"
        size = head[1]
        if size == 126:
            (size,) = struct.unpack("!H", self.file.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.file.read(8))
        data = self.file.read(size)
        assert len(data) == size, "cut off in mid-frame"
        return head[0] & 0xF, bool(head[0] & 0x80), data

    def receive(self) -> bytes | str | None:
        """The next message; None when the server has closed. Pings are answered."""
        kind, whole = 0, b""
        while True:
            opcode, final, data = self._frame()
            if opcode == PING:
                self.frame(PONG, data)
            elif opcode == CLOSE:
                self.closed = struct.unpack("!H", data[:2])[0] if data else 1005
                self.reason = data[2:].decode()
                return None
            elif opcode != PONG:
                kind = opcode or kind
                whole += data
                if final:
                    return whole.decode() if kind == TEXT else whole

    def bytes(self, size: int) -> bytes:
        """The next messages, which must be binary and together of that size."""
        got = bytearray()
        while len(got) < size:
            message = self.receive()
            assert isinstance(message, bytes), message
            got += message
        assert len(got) == size
        return bytes(got)

    def json(self) -> dict[str, Any]:
        """The next message, which must be JSON."""
        message = self.receive()
        assert isinstance(message, str), message
        value = json.loads(message)
        assert isinstance(value, dict)
        return value

    def close(self, code: int = 1000) -> None:
        """Say that it is over, and wait until the server has said so, too."""
        if self.closed is None:
            self.frame(CLOSE, struct.pack("!H", code))
            while self.receive() is not None:
                pass

    def drop(self) -> None:
        """Be gone."""
        self.file.close()
        self.sock.close()
