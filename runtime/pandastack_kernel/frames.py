# SPDX-License-Identifier: Apache-2.0
"""The frames that every socket of the runtime carries: pure encoding and decoding, no I/O.

A frame is a little-endian u32 payload length, one byte of type, and the payload. The length does not
count the five bytes of the header.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any

_HEADER = struct.Struct("<IB")

HEADER_BYTES = _HEADER.size
MAX_REQUEST_BYTES = 6 * ((16 << 20) + (256 << 10)) + 4096
"""Largest payload that the agent may send to a kernel or to the zygote, its TX_BYTES: 16 MiB of code and 256 KiB of
environment, each byte an escape such as ``\\u0001`` at worst, and what is around them."""
BODY_FRAME_BYTES = 8 << 20
"""Largest payload of a body frame."""
EVENT_FRAME_BYTES = 31 << 20
"""Largest event that goes out as it is. More than 32 MiB (its LIMIT_EVENT_BYTES) the agent takes for nonsense, which
ends the kernel."""
TEXT_CHUNK_BYTES = 64 << 10
"""Largest payload of a text frame; longer text is cut at a character boundary."""

# Zygote.
ZYGOTE_READY = b"r"
ZYGOTE_FORK = b"f"
ZYGOTE_FAILED = b"x"

# Kernel to agent.
KERNEL_READY = b"k"
STDOUT = b"o"
STDERR = b"e"
BODY = b"b"
EVENT = b"m"
ASK = b"i"
DONE = b"d"
RESEEDED = b"s"

# Agent to kernel.
RUN = b"R"
INPUT = b"I"
RESEED = b"S"


class FrameError(ValueError):
    """The peer sent something that is no frame; the stream cannot be used any more."""


def encode(kind: bytes, payload: bytes | memoryview = b"") -> bytes:
    """Return one whole frame.

    Args:
        kind: the type, one byte.
        payload: at most 4 GiB - 1.
    """
    return b"".join((_HEADER.pack(len(payload), kind[0]), payload))


def encode_json(kind: bytes, value: Any) -> bytes:
    """Return a frame whose payload is ``value`` as JSON text.

    Text that UTF-8 cannot carry (lone surrogates, as in undecodable file names) arrives as
    backslash escapes.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    try:
        return encode(kind, text.encode())
    except UnicodeEncodeError:
        return encode(kind, json.dumps(_without_surrogates(value), ensure_ascii=False, default=str).encode())


def encode_event(kind: bytes, value: Any, body: Iterable[bytes] = ()) -> bytes:
    """Return ``value`` as a JSON frame, behind the bytes that ``bundles.detach`` took out of it.

    What is too large for the agent is replaced by the event that says so: clients hear ``truncated``.
    """
    frame = encode_json(kind, value)
    if len(frame) > HEADER_BYTES + EVENT_FRAME_BYTES:
        return encode_json(EVENT, {"type": "dropped", "bytes": len(frame) - HEADER_BYTES})
    return b"".join((*encode_body(body), frame))


def encode_body(pieces: Iterable[bytes]) -> list[bytes]:
    """Return the frames of values that go ahead of their event; where one ends, the event says."""
    return [
        encode(BODY, piece[start : start + BODY_FRAME_BYTES])
        for piece in pieces
        for start in range(0, len(piece), BODY_FRAME_BYTES)
    ]


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(v) for v in value]
    return value if isinstance(value, (int, float, type(None))) else _without_surrogates(str(value))


def decode_header(header: bytes | bytearray | memoryview) -> tuple[bytes, int]:
    """Return (type, payload length in bytes) of a frame from its first ``HEADER_BYTES`` bytes."""
    size, kind = _HEADER.unpack(header)
    return bytes((kind,)), size


def text_chunks(data: bytes) -> list[memoryview]:
    """Cut UTF-8 ``data`` into pieces of at most ``TEXT_CHUNK_BYTES``, never inside a character.

    Bytes that are no UTF-8 pass unchanged: a cut moves back over at most three continuation bytes.
    """
    view = memoryview(data)
    pieces = []
    start = 0
    while len(data) - start > TEXT_CHUNK_BYTES:
        end = start + TEXT_CHUNK_BYTES
        back = end
        while end - back < 4 and data[back] & 0xC0 == 0x80:
            back -= 1
        if data[back] & 0xC0 != 0x80:
            end = back
        pieces.append(view[start:end])
        start = end
    pieces.append(view[start:])
    return pieces


class Decoder:
    """Cuts a byte stream into frames.

    ``feed`` what was read, then call ``next`` until it returns None. Memory is bounded by ``max_bytes``
    plus what one ``feed`` brings.
    """

    def __init__(self, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        self._buffer = bytearray()
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> None:
        """Add bytes as they came from the socket."""
        self._buffer += data

    def next(self) -> tuple[bytes, bytes] | None:
        """Return the next whole frame as (type, payload), or None if more bytes are needed.

        Raises:
            FrameError: a header announces more than ``max_bytes``.
        """
        buffer = self._buffer
        if len(buffer) < HEADER_BYTES:
            return None
        kind, size = decode_header(bytes(buffer[:HEADER_BYTES]))
        if size > self._max_bytes:
            raise FrameError(f"frame {kind!r} of {size} bytes, at most {self._max_bytes} are accepted")
        end = HEADER_BYTES + size
        if len(buffer) < end:
            return None
        payload = bytes(buffer[HEADER_BYTES:end])
        del buffer[:end]
        return kind, payload
