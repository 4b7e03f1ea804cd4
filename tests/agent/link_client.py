# SPDX-License-Identifier: Apache-2.0
"""A small client of the guest link (api/link.md), for tests: one thread, one socket, many streams."""

from __future__ import annotations

import base64
import json
import os
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

MAGIC = 0xA5
HELLO, OPEN, DATA, EVENT, END, CREDIT, CLOSE = range(1, 8)
MORE = 1
FRAME = 64 * 1024
WINDOW = 256 * 1024
TIMEOUT = 30.0
PADDING = bytes(FRAME + 12)

Json = dict[str, Any]


class LinkError(Exception):
    """The guest answered with an error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


@dataclass
class Stream:
    """What arrived on one stream."""

    link: Link
    id: int
    data: dict[int, bytearray] = field(default_factory=lambda: {0: bytearray(), 1: bytearray(), 2: bytearray()})
    events: list[Json] = field(default_factory=list)
    log: list[tuple[str, Any]] = field(default_factory=list)
    partial: bytearray = field(default_factory=bytearray)
    received: int = 0
    tx_window: int = WINDOW
    ended: bool = False
    answer: Json | None = None
    auto_credit: bool = True

    @property
    def stdout(self) -> bytes:
        return bytes(self.data[1])

    @property
    def stderr(self) -> bytes:
        return bytes(self.data[2])

    @property
    def body(self) -> bytes:
        return bytes(self.data[0])

    def send(self, data: bytes, timeout: float = TIMEOUT) -> None:
        view = memoryview(data)
        deadline = time.monotonic() + timeout
        while view and self.answer is None:
            n = min(len(view), FRAME, self.tx_window)
            if n:
                self.link.frame(DATA, 0, self.id, bytes(view[:n]))
                self.tx_window -= n
                view = view[n:]
                self.link.pump(0)
            elif not self.link.pump(max(0.0, deadline - time.monotonic())):
                raise TimeoutError("no credit")

    def end(self) -> None:
        self.link.frame(END, 0, self.id)

    def event(self, event: Json) -> None:
        self.link.frame(EVENT, 0, self.id, json.dumps(event).encode())

    def cancel(self) -> None:
        self.link.frame(CLOSE, 0, self.id)

    def credit(self, n: int) -> None:
        self.link.frame(CREDIT, 0, self.id, struct.pack("<I", n))

    def wait(self, condition: Any = None, timeout: float = TIMEOUT) -> None:
        """Until condition() holds, or the stream is over."""
        deadline = time.monotonic() + timeout
        while not (condition() if condition else self.answer is not None):
            if not self.link.pump(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"stream {self.id}: {self.events[-3:]} {self.stdout[-200:]!r}")

    def result(self, timeout: float = TIMEOUT) -> Json:
        self.wait(timeout=timeout)
        assert self.answer is not None
        if "error" in self.answer:
            raise LinkError(**self.answer["error"])
        ok: Json = self.answer["ok"]
        return ok


class Link:
    """The host end."""

    def __init__(self, sock: socket.socket, padded: bool = False) -> None:
        self.sock = sock
        self.streams: dict[int, Stream] = {}
        self.buffer = bytearray()
        self.nonce = b""
        self.greeted = False
        self.last = 0
        self.unsent = bytearray()
        self.sending = False
        self.hello(padded)

    def hello(self, padded: bool = False) -> None:
        """Begins a generation."""
        self.nonce = os.urandom(16)
        self.greeted = False
        self.last = 0
        self.streams = {}
        if padded:
            self.raw(PADDING)
        self.frame(HELLO, 0, 0, self.nonce + struct.pack("<I", 1))

    def raw(self, data: bytes) -> None:
        """Sends, in order. While the guest does not take it, what it sends is handled; that may add to the queue."""
        self.unsent += data
        if self.sending:
            return
        self.sending = True
        try:
            while self.unsent:
                _, writable, _ = select.select([self.sock], [self.sock], [], TIMEOUT)
                if writable:
                    del self.unsent[: self.sock.send(self.unsent[: 256 * 1024], socket.MSG_DONTWAIT)]
                else:
                    self.pump(0)
        finally:
            self.sending = False

    def frame(self, kind: int, arg: int, stream: int, payload: bytes = b"") -> None:
        self.raw(struct.pack("<BBBBII", MAGIC, kind, arg, 0, stream, len(payload)) + payload)

    def open(self, op: str, **request: Any) -> Stream:
        self.last += 1
        s = Stream(self, self.last)
        self.streams[s.id] = s
        text = json.dumps({"op": op, **{k: v for k, v in request.items() if v is not None}}).encode()
        parts = [text[i : i + FRAME] for i in range(0, len(text), FRAME)]
        for i, part in enumerate(parts):
            self.frame(OPEN, MORE if i + 1 < len(parts) else 0, s.id, part)
        return s

    def call(self, op: str, timeout: float = TIMEOUT, **request: Any) -> Json:
        return self.open(op, **request).result(timeout)

    def pump(self, timeout: float = TIMEOUT) -> bool:
        """Handles what arrives; False when nothing did within the timeout."""
        readable, _, _ = select.select([self.sock], [], [], timeout)
        if not readable:
            return False
        data = self.sock.recv(1 << 20)
        if not data:
            raise ConnectionError("the guest is gone")
        self.buffer += data
        if not self.greeted:
            answer = struct.pack("<BBBBII", MAGIC, HELLO, 0, 0, 0, 20) + self.nonce
            at = self.buffer.find(answer)
            if at < 0:
                del self.buffer[: max(0, len(self.buffer) - len(answer))]
                return True
            del self.buffer[:at]
            self.greeted = True
        while len(self.buffer) >= 12:
            magic, kind, arg, zero, stream, length = struct.unpack_from("<BBBBII", self.buffer)
            assert magic == MAGIC and zero == 0 and length <= FRAME, bytes(self.buffer[:32])
            if len(self.buffer) < 12 + length:
                break
            payload = bytes(self.buffer[12 : 12 + length])
            del self.buffer[: 12 + length]
            if stream in self.streams:
                self._handle(self.streams[stream], kind, arg, payload)
        return True

    def _handle(self, s: Stream, kind: int, arg: int, payload: bytes) -> None:
        assert s.answer is None, "a frame after CLOSE"
        if kind == DATA:
            s.data[arg] += payload
            s.log.append((("body", "stdout", "stderr")[arg], payload))
        elif kind == EVENT:
            s.partial += payload
            if not arg & MORE:
                s.events.append(json.loads(bytes(s.partial)))
                s.log.append(("event", s.events[-1]))
                s.partial.clear()
        elif kind == CREDIT:
            s.tx_window += struct.unpack("<I", payload)[0]
            assert s.tx_window <= WINDOW
        elif kind == END:
            s.ended = True
        elif kind == CLOSE:
            s.answer = json.loads(payload)
        if kind in (DATA, EVENT):
            s.received += len(payload)
            if s.auto_credit:
                s.credit(len(payload))

    # What the tests do all the time.

    def resume(self, **kw: Any) -> Json:
        request = {
            "time_ns": time.time_ns(),
            "entropy": base64.b64encode(os.urandom(64)).decode(),
            "hostname": "sandbox",
            "machine_id": os.urandom(16).hex(),
            **kw,
        }
        return self.call("resume", **request)

    def exec(self, cmd: str, timeout: float = TIMEOUT, **kw: Any) -> tuple[Json, bytes, bytes]:
        s = self.open("exec", cmd=cmd, **kw)
        result = s.result(timeout)
        return result, s.stdout, s.stderr

    def write(self, path: str, data: bytes, **kw: Any) -> Json:
        s = self.open("write", path=path, **kw)
        s.send(data)
        s.end()
        return s.result()

    def read(self, path: str) -> bytes:
        s = self.open("read", path=path)
        s.result()
        return s.body

    def list(self, path: str) -> list[Json]:
        s = self.open("list", path=path)
        s.result()
        return [entry for event in s.events for entry in event["entries"]]

    def cell(self, session: str, code: str, **kw: Any) -> Stream:
        s = self.open("session_run", session=session, **kw)
        s.send(code.encode())
        s.end()
        return s
