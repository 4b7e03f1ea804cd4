# SPDX-License-Identifier: Apache-2.0
"""The client's end of a WebSocket: what it sends, and what it takes of a server that means no good."""

from __future__ import annotations

import random

import pytest

import pandastack._websocket
from pandastack import ServerError
from pandastack._websocket import (
    BINARY,
    CLOSE,
    MESSAGE_BYTES_MAX,
    PING,
    PONG,
    TEXT,
    Decoder,
    Message,
    accepted,
    close_reason,
    frame,
    new_key,
)


def sent(first: int, data: bytes, size: bytes | None = None) -> bytes:
    """A frame as a server sends it: `first` is its first byte."""
    if size is None:
        size = bytes((len(data),)) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
    return bytes((first,)) + size + data


def unmasked(data: bytes) -> tuple[int, bytes]:
    """First byte and contents of a client's frame, in another way than the module has."""
    size, at = data[1] & 0x7F, 2
    assert data[1] & 0x80, "a client masks"
    if size >= 126:
        end = at + (2 if size == 126 else 8)
        size, at = int.from_bytes(data[at:end], "big"), end
    mask, body = data[at : at + 4], data[at + 4 :]
    assert len(body) == size
    return data[0], bytes(byte ^ mask[i % 4] for i, byte in enumerate(body))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 125, 126, 127, 65535, 65536, 70001])
def test_what_is_sent_is_masked_and_whole(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert unmasked(frame(BINARY, data)) == (0x82, data)
    assert frame(TEXT, data) != frame(TEXT, data), "each has a mask of its own"


def test_the_handshake_of_the_rfc() -> None:
    assert accepted("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert new_key() != new_key()


STREAM = b"".join(
    (
        sent(0x82, b"shown"),
        sent(0x01, b"{"),  # a text in three parts, with control frames between them
        sent(0x89, b"are you there"),
        sent(0x00, b""),
        sent(0x8A, b""),
        sent(0x80, b"}"),
        sent(0x82, b"x" * 300),
        sent(0x82, b"", b"\x7f" + bytes(8)),
        sent(0x88, b"\x03\xe8"),
    )
)
MESSAGES = [
    Message(BINARY, b"shown"),
    Message(PING, b"are you there"),
    Message(PONG, b""),
    Message(TEXT, b"{}"),
    Message(BINARY, b"x" * 300),
    Message(BINARY, b""),
    Message(CLOSE, b"\x03\xe8"),
]


def test_cut_anywhere() -> None:
    for at in range(len(STREAM) + 1):
        decoder = Decoder()
        assert decoder.feed(STREAM[:at]) + decoder.feed(STREAM[at:]) == MESSAGES, at
    decoder = Decoder()
    assert [m for i in range(len(STREAM)) for m in decoder.feed(STREAM[i : i + 1])] == MESSAGES


HOSTILE = {
    "masked": sent(0x82, b"\0\0\0\0x", b"\x81"),
    "of an extension": sent(0xC2, b"x"),
    "of an unknown kind": sent(0x83, b"x"),
    "of an unknown control kind": sent(0x8B, b""),
    "a large ping": sent(0x89, b"x" * 126),
    "half a ping": sent(0x09, b"x"),
    "going on before it began": sent(0x80, b"x"),
    "beginning twice": sent(0x02, b"x") + sent(0x82, b"x"),
    "endless": sent(0x82, b"", b"\x7f" + b"\xff" * 8),
    "too large": sent(0x82, b"", b"\x7f" + (MESSAGE_BYTES_MAX + 1).to_bytes(8, "big")),
    "too large in parts": sent(0x02, b"x") + sent(0x80, b"", b"\x7f" + MESSAGE_BYTES_MAX.to_bytes(8, "big")),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_no_server_may_send(data: bytes) -> None:
    """It costs no memory: nothing of what is announced is waited for."""
    with pytest.raises(ServerError, match="WebSocket"):
        Decoder().feed(data)
    with pytest.raises(ServerError, match="WebSocket"):
        decoder = Decoder()
        for i in range(len(data)):
            decoder.feed(data[i : i + 1])


def test_the_largest_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandastack._websocket, "MESSAGE_BYTES_MAX", 300)
    decoder = Decoder()
    for _ in range(3):
        assert decoder.feed(sent(0x02, b"x" * 100) + sent(0x80, b"x" * 200)) == [Message(BINARY, b"x" * 300)]
    with pytest.raises(ServerError, match="more than 300 bytes"):
        decoder.feed(sent(0x02, b"x" * 100) + sent(0x80, b"x" * 201))


def test_random_bytes_are_an_error_or_wait_for_more() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        decoder = Decoder()
        try:
            for _ in range(8):
                decoder.feed(bytes((chance.choice((0x01, 0x82, 0x80, 0x89, 0x88, chance.randrange(256))),)))
                decoder.feed(chance.randbytes(chance.randrange(8)))
        except ServerError:
            pass


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", ""), (b"\x03", ""), (b"\x03\xe8", ""), (b"\x03\xf3it \xff", "it \ufffd")]
)
def test_why_it_is_closed(data: bytes, reason: str) -> None:
    assert close_reason(data) == reason
