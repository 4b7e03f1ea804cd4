# SPDX-License-Identifier: Apache-2.0
"""The client's end of a WebSocket (RFC 6455): handshake and frames, without input and output.

What the server sends is checked: a frame that no server may send, or a message that is too large, is an error.
"""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass

from .errors import not_understood

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
CONTROL_BYTES_MAX = 125
MESSAGE_BYTES_MAX = 1 << 20

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def new_key() -> str:
    """The client's word of a handshake."""
    return base64.b64encode(os.urandom(16)).decode()


def accepted(key: str) -> str:
    """The server's, which proves that it has read the client's."""
    return base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()


def handshake(key: str) -> dict[str, str]:
    """Headers of a request for a WebSocket."""
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }


def frame(opcode: int, data: bytes) -> bytes:
    """A whole message as a client sends it: masked (5.3), so that nothing between the two takes it for HTTP."""
    size = len(data)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
    mask = os.urandom(4)
    pad = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")
    return head + mask + masked.to_bytes(size, "big")


def close_reason(data: bytes) -> str:
    """The words in a close frame, behind its code."""
    return data[2:].decode(errors="replace")


@dataclass(frozen=True)
class Message:
    """A message, or a control frame."""

    opcode: int
    data: bytes


@dataclass(frozen=True)
class _Head:
    """Of a frame."""

    opcode: int
    final: bool
    starts: int  # where its data do
    ends: int


class Decoder:
    """Makes messages of bytes, wherever these were cut."""

    def __init__(self) -> None:
        self._bytes = bytearray()  # of frames that are not whole
        self._opcode = CONTINUATION  # of the message that has begun, if one has
        self._parts = bytearray()

    def feed(self, chunk: bytes) -> list[Message]:
        """The messages that end in this chunk, with the control frames between them."""
        self._bytes += chunk
        messages: list[Message] = []
        while True:
            head = self._head()
            if not head or len(self._bytes) < head.ends:
                return messages
            data = bytes(self._bytes[head.starts : head.ends])
            del self._bytes[: head.ends]
            if head.opcode >= CLOSE:
                messages.append(Message(head.opcode, data))
                continue
            self._opcode = head.opcode or self._opcode
            self._parts += data
            if head.final:
                messages.append(Message(self._opcode, bytes(self._parts)))
                self._opcode = CONTINUATION
                self._parts.clear()

    def _head(self) -> _Head | None:
        """That of the next frame, checked; None if not all of it is there."""
        if len(self._bytes) < 2:
            return None
        first, second = self._bytes[:2]
        opcode, final, size = first & 0x0F, first >= 0x80, second & 0x7F
        if first & 0x70 or second & 0x80 or opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise not_understood(f"a frame of a WebSocket begins with {first:02x} {second:02x}")
        if opcode >= CLOSE:
            if size > CONTROL_BYTES_MAX or not final:
                raise not_understood("a control frame of a WebSocket is too large or in parts")
        elif (opcode == CONTINUATION) == (self._opcode == CONTINUATION):
            raise not_understood("a message of a WebSocket begins within another one, or goes on before it has begun")
        starts = 2
        if size >= 126:
            starts += 2 if size == 126 else 8
            if len(self._bytes) < starts:
                return None
            size = int.from_bytes(self._bytes[2:starts], "big")
        if opcode < CLOSE and len(self._parts) + size > MESSAGE_BYTES_MAX:
            raise not_understood(f"a message of a WebSocket has more than {MESSAGE_BYTES_MAX} bytes")
        return _Head(opcode, final, starts, starts + size)
