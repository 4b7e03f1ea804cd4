# SPDX-License-Identifier: Apache-2.0
"""Connections to servers on the guest's loopback, and what listens there."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from link_client import WINDOW, Link, LinkError, Stream

SECONDS = 30


class Server:
    """A listening socket."""

    def __init__(self, address: str = "127.0.0.1", backlog: int = 256) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.sock = socket.create_server((address, 0), family=family, backlog=backlog)
        self.sock.settimeout(SECONDS)
        self.port = int(self.sock.getsockname()[1])

    def accept(self) -> socket.socket:
        peer, _ = self.sock.accept()
        peer.settimeout(SECONDS)
        return peer


@pytest.fixture
def server() -> Iterator[Server]:
    s = Server()
    yield s
    s.sock.close()


def connect(link: Link, server: Server) -> tuple[Stream, socket.socket]:
    """Both ends of a connection."""
    s = link.open("connect", port=server.port)
    s.wait(lambda: s.events)
    assert s.events == [{"connected": True}]
    return s, server.accept()


def free_port() -> int:
    """A port on which nothing listens, most probably."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        return int(s.getsockname()[1])


def reset(peer: socket.socket) -> None:
    """Closes it with a RST."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def read_all(peer: socket.socket) -> bytes:
    """Everything up to the other side's end."""
    got = bytearray()
    while piece := peer.recv(1 << 16):
        got += piece
    return bytes(got)


def in_thread(work: Any, *args: Any) -> tuple[threading.Thread, list[Any]]:
    """Runs it; the list has its result at the end."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work(*args)))
    thread.start()
    return thread, results


def test_bytes_both_ways(link: Link, server: Server) -> None:
    up, down = os.urandom(3_000_000), os.urandom(3_000_000)
    s, peer = connect(link, server)
    reader, received = in_thread(read_all, peer)
    writer, _ = in_thread(peer.sendall, down)
    s.send(up)
    s.end()
    s.wait(lambda: len(s.body) == len(down))
    reader.join()
    writer.join()
    peer.close()
    assert s.result() == {}
    assert received == [up] and s.body == down


def test_what_is_sent_before_the_connection_is_there(link: Link, server: Server) -> None:
    s = link.open("connect", port=server.port)
    s.send(b"early")
    s.end()
    peer = server.accept()
    assert read_all(peer) == b"early"
    peer.close()
    assert s.result() == {}


def test_the_host_ends_first(link: Link, server: Server) -> None:
    s, peer = connect(link, server)
    s.send(b"question")
    s.end()
    assert read_all(peer) == b"question"
    peer.sendall(b"answer")
    s.wait(lambda: s.body)
    assert s.body == b"answer" and not s.ended and s.answer is None
    peer.close()
    assert s.result() == {} and s.ended


def test_the_server_ends_first(link: Link, server: Server) -> None:
    s, peer = connect(link, server)
    peer.sendall(b"hello")
    peer.shutdown(socket.SHUT_WR)
    s.wait(lambda: s.ended)
    assert s.body == b"hello" and s.answer is None
    s.send(b"more")
    s.end()
    assert read_all(peer) == b"more"
    assert s.result() == {}


def test_nothing_listens(link: Link) -> None:
    with pytest.raises(LinkError) as e:
        link.call("connect", port=free_port())
    assert e.value.kind == "refused" and "nothing listens" in e.value.message


@pytest.mark.parametrize("port", [0, -1, 65536, "80", None, 1.5])
def test_no_port(link: Link, port: object) -> None:
    with pytest.raises(LinkError) as e:
        link.call("connect", port=port)
    assert e.value.kind == "invalid"


def test_a_server_on_ipv6_alone(link: Link) -> None:
    server = Server("::1")
    s, peer = connect(link, server)
    peer.sendall(b"six")
    peer.close()
    s.wait(lambda: s.ended)
    s.end()
    assert s.result() == {} and s.body == b"six"
    server.sock.close()


def test_a_server_that_resets(link: Link, server: Server) -> None:
    s, peer = connect(link, server)
    peer.sendall(b"half")
    s.wait(lambda: s.body == b"half")
    reset(peer)
    with pytest.raises(LinkError) as e:
        s.result()
    assert e.value.kind == "reset" and not s.ended


def test_a_server_that_resets_after_its_end(link: Link, server: Server) -> None:
    s, peer = connect(link, server)
    peer.shutdown(socket.SHUT_WR)
    s.wait(lambda: s.ended)
    reset(peer)
    with pytest.raises(LinkError) as e:
        s.result()
    assert e.value.kind == "reset"


@pytest.mark.parametrize("how", ["cancel", "generation"])
def test_a_host_that_goes_away_resets(link: Link, server: Server, how: str) -> None:
    s, peer = connect(link, server)
    s.send(b"half")
    assert peer.recv(4, socket.MSG_WAITALL) == b"half"
    if how == "cancel":
        s.cancel()
        with pytest.raises(LinkError):
            s.result()
    else:
        link.hello(padded=True)
        assert link.exec("true")[0]["exit_code"] == 0
    with pytest.raises(ConnectionResetError):
        peer.recv(1)


def test_a_host_that_has_said_everything_may_go(link: Link, server: Server) -> None:
    s, peer = connect(link, server)
    s.send(b"all of it")
    s.end()
    assert read_all(peer) == b"all of it"
    s.cancel()
    with pytest.raises(LinkError):
        s.result()
    assert peer.recv(1) == b""
    peer.close()


def test_an_answer_before_the_end_of_the_question(link: Link, server: Server) -> None:
    """A server that reads no more and answers all the same, as HTTP's do with what is too large."""
    s, peer = connect(link, server)
    peer.sendall(b"too large")
    peer.shutdown(socket.SHUT_RD)
    s.wait(lambda: s.body == b"too large")
    s.send(b"x" * 4 * WINDOW)
    peer.close()
    s.end()
    with pytest.raises(LinkError):
        s.result()  # it was closed over bytes that nobody read


def test_a_server_that_does_not_read_fills_the_window_alone(link: Link, server: Server) -> None:
    s, peer = connect(link, server)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with pytest.raises(TimeoutError):
        s.send(b"x" * 64 * WINDOW, timeout=2)
    assert link.exec("echo fine")[1] == b"fine\n"
    s.cancel()
    peer.close()


def test_a_host_that_does_not_read_stops_that_server_alone(link: Link, server: Server) -> None:
    slow, peer = connect(link, server)
    slow.auto_credit = False
    data = os.urandom(8_000_000)
    writer, _ = in_thread(peer.sendall, data)
    slow.wait(lambda: len(slow.body) == WINDOW)
    other, other_peer = connect(link, server)
    other_peer.sendall(b"quick")
    other.wait(lambda: other.body == b"quick")
    assert len(slow.body) == WINDOW
    slow.auto_credit = True
    slow.credit(WINDOW)
    slow.wait(lambda: len(slow.body) == len(data))
    assert slow.body == data
    writer.join()
    peer.close()
    other_peer.close()
    for s in (slow, other):
        s.end()
        assert s.result() == {}


def test_many_at_once(link: Link, server: Server) -> None:
    limit = 128
    pairs = [connect(link, server) for _ in range(limit)]
    with pytest.raises(LinkError) as e:
        link.call("connect", port=server.port)
    assert e.value.kind == "limit"
    assert link.exec("echo fine")[1] == b"fine\n"
    for i, (_, peer) in enumerate(pairs):
        peer.sendall(f"{i}".encode())
        peer.close()
    for i, (s, _) in enumerate(pairs):
        s.end()
        assert s.result() == {} and s.body == f"{i}".encode()
    again, peer = connect(link, server)
    again.cancel()
    peer.close()


def test_ports(link: Link) -> None:
    listening = [Server("127.0.0.1"), Server("0.0.0.0"), Server("::1"), Server("::"), Server("127.0.0.2")]
    ports = link.call("ports")["ports"]
    assert ports == sorted(set(ports))
    assert [s.port in ports for s in listening] == [True, True, True, True, False]  # connect would not reach the last
    # A connection of one's own is not listening.
    client = socket.create_connection(("127.0.0.1", listening[0].port))
    assert client.getsockname()[1] not in link.call("ports")["ports"]
    client.close()
    for s in listening:
        s.sock.close()
    ports = link.call("ports")["ports"]
    assert not any(s.port in ports for s in listening)
