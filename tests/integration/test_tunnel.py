# SPDX-License-Identifier: Apache-2.0
"""TCP to a port of a sandbox over a WebSocket: bytes, their ends, and slow sides."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from harness import Api, Daemon, Sandbox
from harness.guest import TcpServer
from harness.websocket import CLOSE, RefusedError, WebSocket

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(box: Sandbox) -> Iterator[TcpServer]:
    """The server in the module's sandbox."""
    with TcpServer(box) as s:
        yield s


@pytest.mark.parametrize("size", [1, 125, 126, 65535, 65536, 3 * MIB])
def test_bytes(server: TcpServer, size: int) -> None:
    data = os.urandom(size)
    with server.tunnel("echo") as ws:
        ws.send(data)
        assert ws.bytes(size) == data
        ws.send({"eof": True})
        assert ws.bytes(3) == b"bye"
        assert ws.json() == {"eof": True}
        assert ws.receive() is None
        assert ws.closed == 1000


def test_borders_of_messages_do_not_count(server: TcpServer) -> None:
    with server.tunnel() as ws:
        ws.frame(2, b"ec", final=False)
        ws.frame(9, b"ping")
        ws.frame(0, b"ho\na", final=False)
        ws.frame(0, b"", final=True)
        ws.send(b"")
        ws.send(b"b")
        assert ws.bytes(2) == b"ab"


def test_the_server_ends_first(server: TcpServer) -> None:
    with server.tunnel("talk 100000") as ws:
        assert ws.bytes(100000) == bytes(100000)
        assert ws.json() == {"eof": True}
        ws.send(b"x" * 1000)
        ws.send({"eof": True})
        assert ws.receive() is None
        assert ws.closed == 1000
    server.wait_for("talk: 1000 and the end")


def test_the_server_breaks_off(server: TcpServer) -> None:
    with server.tunnel("reset") as ws:
        assert ws.receive() is None
        assert ws.closed == 1011
        assert ws.reason == f"port {server.port}: the server broke the connection off"


def test_a_client_that_closes_has_said_all(server: TcpServer) -> None:
    with server.tunnel("deaf") as ws:
        server.wait_for("deaf: begins")
        ws.send(b"x" * 300_000)
        ws.frame(CLOSE, b"\x03\xe8")
        server.tunnel("go").drop()
        server.wait_for("deaf: 300000 and the end")


def test_a_client_that_is_gone_resets(server: TcpServer) -> None:
    ws = server.tunnel("talk 0")
    assert ws.json() == {"eof": True}
    ws.send(b"part")
    ws.drop()
    server.wait_for("and a reset")


def test_a_reader_that_is_slow(server: TcpServer, daemon: Daemon) -> None:
    """What nobody reads fills the way, and nothing else."""
    size = 64 * MIB
    with server.tunnel(f"talk {size}") as ws, server.tunnel("echo") as other, daemon.stays_small():
        ws.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert len(ws.bytes(65536)) == 65536
        other.send(b"x" * MIB)
        assert len(other.bytes(MIB)) == MIB
        ws.drop()


def test_a_server_that_is_slow(server: TcpServer, daemon: Daemon) -> None:
    with TcpServer(server.sandbox) as own, own.tunnel("deaf") as ws, daemon.stays_small():
        own.wait_for("deaf: begins")
        ws.sock.settimeout(2)
        with pytest.raises(TimeoutError):
            for _ in range(64):
                ws.send(b"x" * MIB)
        ws.drop()
        own.tunnel("go").drop()
        own.wait_for("and a reset")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({}, 'send bytes as binary messages, and {"eof":true} at their end'),
        ({"eof": 1}, "`eof` must be true or false"),
        ("text", "the body is not valid JSON"),
    ],
)
def test_what_is_no_message(server: TcpServer, message: str, reason: str) -> None:
    with server.tunnel("echo") as ws:
        ws.send(message)
        assert ws.receive() is None
        assert ws.closed == 1003
        assert ws.reason.startswith(reason)


def test_nothing_listens(api: Api, box: Sandbox) -> None:
    with pytest.raises(RefusedError, match="502") as e:
        box.socket("ports/1/tunnel")
    assert b'"code":"upstream.failed"' in e.value.body
    assert b"port 1: nothing listens there" in e.value.body
    for port in ("0", "65536", "x", "-1"):
        api.refused("GET", f"{box.path}/ports/{port}/tunnel", 400, "request.invalid")


def test_plain_requests_are_told(api: Api, box: Sandbox) -> None:
    for call in ("exec/ws", "exec/pty", "ssh", "ports/80/tunnel"):
        answer = api.refused("GET", f"{box.path}/{call}", 400, "request.invalid")
        assert answer["error"].startswith("this path is a WebSocket")
        api.refused("POST", f"{box.path}/{call}", 405, "request.method")


def test_100_at_once(server: TcpServer) -> None:
    sockets = [server.tunnel("echo") for _ in range(100)]
    for i, ws in enumerate(sockets):
        ws.send(b"%3d" % i)
    for i, ws in enumerate(sockets):
        assert ws.bytes(3) == b"%3d" % i
    for ws in sockets:
        ws.close()
        ws.drop()


# ---- the ends of other things ----


def test_a_hibernated_sandbox_is_woken(sandbox: Callable[..., Sandbox]) -> None:
    s = sandbox("base")
    with TcpServer(s) as server, server.tunnel("echo") as ws:
        ws.send(b"x")
        assert ws.bytes(1) == b"x"
        s.output("(setsid python3 /tmp/tcp.py > /tmp/log 2>&1 &); until grep listening /tmp/log; do :; done")
        port = int(s.read("/tmp/log").split()[-1])
        s.hibernate()
        assert ws.receive() is None
        assert ws.closed == 1011
        assert "hibernated" in ws.reason
    with s.socket(f"ports/{port}/tunnel") as ws:
        ws.send(b"echo\nx")
        assert ws.bytes(1) == b"x"
    assert s.status() == "running"


def test_an_open_connection_is_use(sandbox: Callable[..., Sandbox]) -> None:
    s = sandbox("base", ttl_seconds=2)
    with TcpServer(s) as server, server.tunnel("echo") as ws:
        s.output("sleep 3")
        ws.send(b"x")
        assert ws.bytes(1) == b"x"


def test_the_daemon_stops(make_daemon: Callable[..., Daemon]) -> None:
    """Who is connected is told."""
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    with TcpServer(s) as server:
        sockets: list[WebSocket] = [server.tunnel("echo") for _ in range(3)]
        sockets.append(s.socket("exec/ws"))
        for ws in sockets[:3]:
            ws.send(b"x")
            assert ws.bytes(1) == b"x"
        assert d.stop() == 0
        for ws in sockets:
            assert ws.receive() is None
            assert ws.closed == 1001
            assert ws.reason == "the daemon stops"
    d.check_clean()
