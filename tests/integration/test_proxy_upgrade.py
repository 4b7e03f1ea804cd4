# SPDX-License-Identifier: Apache-2.0
"""WebSockets of servers in a sandbox, and what becomes of open connections when their sandbox or the daemon stops."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import pytest

from harness import Daemon, Sandbox
from harness.guest import GuestServer, read_all
from harness.websocket import PING, PONG, RefusedError, WebSocket

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(box: Sandbox) -> Iterator[GuestServer]:
    """The server in the module's sandbox."""
    with GuestServer(box) as s:
        yield s


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 3 * MIB])
def test_messages(server: GuestServer, size: int) -> None:
    data = os.urandom(size)
    with server.websocket() as ws:
        assert ws.receive() == "hello"
        ws.send(data)
        assert ws.receive() == data
        ws.send("text")
        assert ws.receive() == "text"


def test_the_request_arrives(server: GuestServer) -> None:
    with server.websocket("/ws?a=%2F") as ws:
        assert ws.headers["x-target"] == "/ws?a=%2F"
        assert ws.headers["connection"] == "Upgrade"


def test_by_host_and_by_link(server: GuestServer) -> None:
    token = server.link()
    for target, headers in [
        ("/ws", {"Host": server.host, "Authorization": f"Bearer {server.api.key}"}),
        (f"/ws?access_token={server.api.key}", {"Host": server.host}),
        ("/ws", {"Host": server.host, "Cookie": f"pandastack_preview={token}", "Origin": f"http://{server.host}"}),
        (f"/v1/p/{token}/ws", {}),
        (f"{server.prefix}/ws?access_token={token}", {}),
    ]:
        with WebSocket(server.api.url, target, headers) as ws:
            assert ws.receive() == "hello"
            assert ws.headers["x-target"] == "/ws"
    with pytest.raises(RefusedError) as e:
        WebSocket(server.api.url, f"{server.prefix}/ws")
    assert e.value.status == 401
    with pytest.raises(RefusedError) as e:
        WebSocket(
            server.api.url,
            "/ws",
            {"Host": server.host, "Cookie": f"pandastack_preview={token}", "Origin": "http://evil.example"},
        )
    assert e.value.status == 401


def test_a_server_that_refuses(server: GuestServer) -> None:
    with pytest.raises(RefusedError) as e:
        server.websocket("/echo")
    assert e.value.status == 200


def test_frames_are_not_looked_at(server: GuestServer) -> None:
    with server.websocket() as ws:
        assert ws.receive() == "hello"
        ws.frame(PING, b"ping")
        assert ws._frame() == (PING, True, b"ping"), "the server's echo, no pong of ours"
        ws.frame(PONG, b"")
        assert ws._frame() == (PONG, True, b"")


def test_what_came_with_the_request(server: GuestServer) -> None:
    with server.connect() as s:
        s.sendall(
            server.raw("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x")
            + b"\x82\x84\0\0\0\0abcd\x88\x80\0\0\0\0"
        )
        assert read_all(s).endswith(b"\x81\x05hello\x82\x04abcd\x88\x00")


def test_a_client_that_hangs_up(server: GuestServer) -> None:
    ws = server.websocket()
    assert ws.receive() == "hello"
    ws.drop()
    server.wait_for("websocket: the client is gone")


def test_a_reader_that_is_slow(server: GuestServer, daemon: Daemon) -> None:
    """An echo that nobody reads fills the way there and back, and nothing else."""
    with server.websocket() as ws, daemon.stays_small():
        assert ws.receive() == "hello"
        ws.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ws.sock.settimeout(2)
        with pytest.raises(TimeoutError):
            for _ in range(64):
                ws.send(b"x" * MIB)
        assert server.request("GET", "/echo").status_code == 200
        ws.drop()


# ---- the ends of other things ----


def test_50_at_once(box: Sandbox) -> None:
    with GuestServer(box) as server:
        sockets = [server.websocket() for _ in range(50)]
        for ws in sockets:
            assert ws.receive() == "hello"
        for i, ws in enumerate(sockets):
            ws.send(f"{i}")
        for i, ws in enumerate(sockets):
            assert ws.receive() == f"{i}"
            ws.close()
            ws.drop()


def test_hibernation_ends_connections(sandbox: Callable[..., Sandbox]) -> None:
    """They end at once on both sides, and new ones work when it is back."""
    s = sandbox()
    with GuestServer(s) as server, server.websocket() as ws, server.connect() as raw:
        assert ws.receive() == "hello"
        raw.sendall(server.raw("GET", "/deaf", "Connection: close"))
        server.wait_for("deaf: has a request")
        s.output("(setsid python3 /tmp/server.py 4711 > /tmp/log 2>&1 &)")
        s.output("until grep listening /tmp/log; do :; done")
        s.hibernate()
        with pytest.raises((EOFError, ConnectionResetError)):
            ws.receive()
        assert read_all(raw).startswith(b"HTTP/1.1 409 ")
    with WebSocket(s.api.url, f"{s.path}/proxy/4711/ws", {"Authorization": f"Bearer {s.api.key}"}) as ws:
        assert ws.receive() == "hello"


def test_the_daemon_stops(make_daemon: Callable[..., Daemon]) -> None:
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    with GuestServer(s) as server:
        sockets = [server.websocket() for _ in range(3)]
        for ws in sockets:
            assert ws.receive() == "hello"
        assert d.stop() == 0
        for ws in sockets:
            with pytest.raises((EOFError, ConnectionResetError)):
                ws.receive()
    d.check_clean()


def test_an_open_connection_is_use(sandbox: Callable[..., Sandbox]) -> None:
    """A sandbox does not expire under somebody's hands."""
    s = sandbox("base", ttl_seconds=2)
    with GuestServer(s) as server, server.websocket() as ws:
        assert ws.receive() == "hello"
        s.output("sleep 3")
        for i in range(3):
            ws.send(f"{i}")
            assert ws.receive() == f"{i}"
