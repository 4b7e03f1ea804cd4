# SPDX-License-Identifier: Apache-2.0
"""Clients that break the rules of WebSockets: each is told which, and costs the daemon and the others nothing."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable

import pytest

from harness import Daemon, Sandbox
from harness.websocket import CLOSE, PING, TEXT, RefusedError, WebSocket

MIB = 1 << 20
SOCKETS_MAX = 256  # LIMIT_WEBSOCKETS


def closed(ws: WebSocket) -> int | None:
    """The code with which the daemon closes, whatever it said before."""
    while ws.receive() is not None:
        pass
    with contextlib.suppress(OSError):
        ws.frame(CLOSE, b"")
    assert ws.file.read() == b"", "nothing comes behind a close"
    return ws.closed


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x02{}", 1002),  # no mask
        (b"\xc1\x82\0\0\0\0{}", 1002),  # a reserved bit
        (b"\x83\x80\0\0\0\0", 1002),  # an opcode that is none
        (b"\x80\x80\0\0\0\0", 1002),  # continues nothing
        (b"\x01\x81\0\0\0\0{\x81\x82\0\0\0\0{}", 1002),  # a message within another
        (b"\x09\x80\0\0\0\0", 1002),  # a control frame in pieces
        (b"\x89\xfe\0\x7e\0\0\0\0" + b"x" * 126, 1002),  # a long one
        (b"\x81\xfe\0\x02\0\0\0\0{}", 1002),  # a length in long form
        (b"\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0", 1002),  # over 63 bits
        (b"\x81\x81\0\0\0\0\xff", 1007),
        (b"\x01\x82\0\0\0\0\xe2\x82\x80\x80\0\0\0\0", 1007),
        (b"\x88\x82\0\0\0\0\x03\xe7", 1002),  # a code that is none
        (b"\x88\x83\0\0\0\0\x03\xe8\xff", 1007),
        (b"GET / HTTP/1.1\r\n\r\n", 1002),
    ],
)
@pytest.mark.parametrize("path", ["exec/ws", "exec/pty"])
def test_broken_rules(box: Sandbox, path: str, data: bytes, code: int) -> None:
    ws = box.socket(path)
    ws.sock.sendall(data + b"\x81\x82\0\0\0\0{}")
    assert closed(ws) == code
    ws.drop()


@pytest.mark.parametrize("path", ["exec/ws", "exec/pty"])
def test_a_text_that_is_too_long(box: Sandbox, daemon: Daemon, path: str) -> None:
    """Whether it says so at once, or comes in pieces without end."""
    with daemon.stays_small():
        for pieces in (1, 40):
            ws = box.socket(path)
            for i in range(pieces):
                ws.frame(0 if i else TEXT, b" " * (2 * MIB // pieces), final=i == pieces - 1)
            assert closed(ws) == 1009
            ws.drop()


def test_a_frame_of_which_nothing_comes(box: Sandbox, daemon: Daemon) -> None:
    """A length costs nothing."""
    with daemon.stays_small():
        sockets = [box.socket("exec/ws") for _ in range(20)]
        for ws in sockets:
            ws.sock.sendall(b"\x81\xff" + struct.pack("!Q", (1 << 63) - 1) + b"\0\0\0\0{")
        assert box.output("echo on") == "on\n"
        for ws in sockets:
            ws.drop()


def test_pings_that_nobody_reads_the_answers_to(box: Sandbox, daemon: Daemon) -> None:
    with daemon.stays_small(), box.socket("exec/ws") as ws:
        ws.sock.settimeout(5)
        with pytest.raises(TimeoutError):
            for _ in range(1000):
                ws.sock.sendall((b"\x89\xfd\0\0\0\0" + b"x" * 125) * 1000)
        assert box.output("echo on") == "on\n"
        ws.drop()


def test_errors_that_nobody_reads(box: Sandbox, daemon: Daemon) -> None:
    """A short message has a long answer."""
    with daemon.stays_small(), box.socket("exec/ws") as ws:
        ws.sock.settimeout(5)
        with pytest.raises(TimeoutError):
            for _ in range(1000):
                ws.sock.sendall(b"\x81\x82\0\0\0\0[]" * 1000)
        assert box.output("echo on") == "on\n"
        ws.drop()


@pytest.mark.timeout(120)
def test_no_pong(box: Sandbox) -> None:
    """Who does not answer is gone; what it ran ends."""
    ws, alive = box.socket("exec/ws"), box.socket("exec/ws")
    ws.send({"id": 1, "cmd": "echo $$; exec sleep 1000"})
    pid = ws.json()["data"].strip()
    assert ws._frame()[0] == PING
    alive.send({"id": 1, "cmd": f"while [ -e /proc/{pid} ]; do sleep 0.1; done"})
    assert alive.json().items() >= {"id": 1, "exit": 0}.items(), "it answers its pings"
    assert ws.file.read() == b""
    alive.close()
    alive.drop()
    ws.drop()


def test_a_client_that_closes_and_talks_on(box: Sandbox) -> None:
    ws = box.socket("exec/ws")
    ws.frame(CLOSE, b"\x03\xe8")
    ws.send({"id": 1, "cmd": "echo on > /tmp/talked-on"})
    assert closed(ws) == 1000
    assert box.exec("[ -e /tmp/talked-on ]")["exit_code"] == 1


def test_1000_connections(make_daemon: Callable[..., Daemon]) -> None:
    """Those over the limit are refused; everything else goes on meanwhile."""
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    sockets: list[WebSocket] = []
    refused = 0
    for _ in range(1000):
        try:
            sockets.append(s.socket("exec/ws"))
        except RefusedError as e:
            assert e.status == 429
            assert b"256 WebSockets are open already" in e.body
            refused += 1
    assert (len(sockets), refused) == (SOCKETS_MAX, 1000 - SOCKETS_MAX)
    assert s.output("echo on") == "on\n"
    assert "pandastack_websockets 256\n" in d.api.request("GET", "/metrics").text
    sockets[0].send({"id": 1, "cmd": "echo on"})
    assert sockets[0].json()["data"] == "on\n"
    for ws in sockets:
        ws.sock.shutdown(socket.SHUT_RDWR)
        ws.drop()
    while "pandastack_websockets 0\n" not in d.api.request("GET", "/metrics").text:
        pass
    with s.socket("exec/ws") as ws:
        ws.send({"id": 1, "cmd": "echo on"})
        assert ws.json()["data"] == "on\n"
    assert d.stop() == 0
    d.check_clean()


def test_connections_that_are_no_requests(make_daemon: Callable[..., Daemon]) -> None:
    """Handshakes that end in the middle."""
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    for cut in (1, 20, 200):
        sock = socket.create_connection(("127.0.0.1", int(d.api.url.rsplit(":", 1)[1])), 60)
        head = (
            f"GET {s.path}/exec/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Authorization: Bearer {d.api.key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        sock.sendall(head.encode()[:cut])
        sock.close()
    assert s.output("echo on") == "on\n"
    assert d.stop() == 0
    d.check_clean()
