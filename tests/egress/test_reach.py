# SPDX-License-Identifier: Apache-2.0
"""What is allowed arrives, byte for byte, by every protocol that passes."""

from __future__ import annotations

import hashlib
import socket
import struct
import subprocess
import threading
import time

import pytest

from egress.frames import checksum
from egress.helper import GATEWAY, GATEWAY6, NAMESERVERS, Guest, Start
from egress.hosts import Server, UdpEcho, addresses, pattern, question, read_all, read_exactly
from egress.world import CDN, DIGEST, ECHO, NAT64_WEB, OTHER, SOURCE, SOURCE_BYTES, WEB, WEB6, World


@pytest.mark.parametrize("host", [WEB, WEB6])
def test_upload(start: Start, host: str) -> None:
    guest, helper = start()
    data = pattern(64 << 20)
    with guest.connect(host, DIGEST) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        assert read_all(s).decode() == hashlib.sha256(data).hexdigest()
    stats = helper.control.stats()
    assert stats["bytes_out"] > len(data)
    assert stats["connections"] == 1
    assert stats["denied"] == 0


@pytest.mark.parametrize("host", [WEB, WEB6])
def test_download(start: Start, host: str) -> None:
    guest, helper = start()
    with guest.connect(host, SOURCE) as s:
        data = read_all(s)
    assert hashlib.sha256(data).digest() == hashlib.sha256(pattern(SOURCE_BYTES)).digest()
    assert helper.control.stats()["bytes_in"] > SOURCE_BYTES


def test_both_ways_at_once(start: Start) -> None:
    guest, _ = start()
    data = pattern(16 << 20)
    with guest.connect(WEB, ECHO) as s:

        def send() -> None:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        assert read_all(s) == data
        sender.join()


def test_half_close_by_the_guest(start: Start) -> None:
    """It has said all, and the answer still comes."""
    guest, _ = start()
    with guest.connect(WEB, ECHO) as s:
        s.sendall(b"last words")
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"last words"


def test_half_close_by_the_host(start: Start, world: World) -> None:
    """It has said all, and what the guest goes on saying arrives."""
    heard: list[bytes] = []
    done = threading.Event()

    def serve(s: socket.socket) -> None:
        s.sendall(b"that is all")
        s.shutdown(socket.SHUT_WR)
        heard.append(read_all(s))
        done.set()

    server = Server(world.internet.listen(WEB), serve)
    guest, _ = start()
    data = pattern(1 << 20)
    with guest.connect(WEB, server.port) as s:
        assert read_all(s) == b"that is all"
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        assert done.wait(60)
    assert heard == [data]
    server.close()


def linger_reset(s: socket.socket) -> None:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def test_reset_by_the_host(start: Start, world: World) -> None:
    def serve(s: socket.socket) -> None:
        s.recv(1)
        linger_reset(s)

    server = Server(world.internet.listen(WEB), serve)
    guest, _ = start()
    with guest.connect(WEB, server.port) as s:
        s.sendall(b"x")
        with pytest.raises(ConnectionResetError):
            s.recv(1)
    server.close()


def test_reset_by_the_guest(start: Start, world: World) -> None:
    ended = threading.Event()

    def serve(s: socket.socket) -> None:
        s.sendall(b"hello")
        try:
            while s.recv(1):
                pass
        finally:
            ended.set()

    server = Server(world.internet.listen(WEB), serve)
    guest, _ = start()
    s = guest.connect(WEB, server.port)
    assert read_exactly(s, 5) == b"hello"
    linger_reset(s)
    assert ended.wait(60)
    server.close()


def test_nobody_listens(start: Start) -> None:
    """A refusal of the host's is the guest's, and no denial."""
    guest, helper = start()
    for host in (WEB, WEB6):
        with pytest.raises(ConnectionRefusedError):
            guest.connect(host, 9)
    assert helper.control.take_denials() == []


def test_a_thousand_connections(start: Start, world: World) -> None:
    """All at once, and each is its own."""
    guest, helper = start()

    def connect_all() -> list[socket.socket]:
        sockets = [socket.socket() for _ in range(1000)]
        for s in sockets:
            s.setblocking(False)
            assert s.connect_ex((OTHER, ECHO)) != 0
        for s in sockets:
            s.settimeout(60)
            s.sendall(struct.pack("!I", s.fileno()))
        return sockets

    sockets = guest.call(connect_all)
    for s in sockets:
        assert read_exactly(s, 4) == struct.pack("!I", s.fileno())
    assert helper.control.stats()["connections"] == 1000
    for s in sockets:
        s.shutdown(socket.SHUT_WR)
    for s in sockets:
        assert s.recv(1) == b""
        s.close()


@pytest.mark.parametrize("host", [WEB, WEB6])
@pytest.mark.parametrize("size", [0, 1, 1400, 1500, 9000, 60000])
def test_datagrams(start: Start, world: World, host: str, size: int) -> None:
    echo = UdpEcho(world.internet, host, 0)
    guest, _ = start()
    with guest.udp(host, echo.port) as s:
        data = pattern(size)
        s.send(data)
        assert s.recv(1 << 16) == data
    echo.close()


def test_one_socket_for_many(start: Start, world: World) -> None:
    """Each answer comes from where it was asked for."""
    echoes = [UdpEcho(world.internet, host, 9000) for host in (WEB, OTHER, CDN)]
    guest, _ = start()
    with guest.open(kind=socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        for host in (WEB, OTHER, CDN, WEB):
            s.sendto(host.encode(), (host, 9000))
            assert s.recvfrom(100) == (host.encode(), (host, 9000))
    for echo in echoes:
        echo.close()


def test_closed_port_of_udp(start: Start) -> None:
    guest, _ = start()
    for host in (WEB, WEB6):
        with guest.udp(host, 9) as s:
            s.send(b"x")
            with pytest.raises(ConnectionRefusedError):
                s.recv(1)


def ping(guest: Guest, host: str, data: bytes = b"abcdefgh") -> bytes:
    """Return what comes back for an echo request."""
    v6 = ":" in host
    s = guest.open(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_RAW, 58 if v6 else 1)
    with s:
        s.settimeout(60)
        s.connect((host, 0))
        request = struct.pack("!BBHHH", 128 if v6 else 8, 0, 0, 0x7061, 1) + data
        if not v6:
            request = request[:2] + struct.pack("!H", checksum(request)) + request[4:]
        s.send(request)
        while True:
            answer = s.recv(1 << 16)
            if not v6:
                answer = answer[20:]
            if answer[0] == (129 if v6 else 0):
                assert struct.unpack("!HH", answer[4:8]) == (0x7061, 1)
                return answer[8:]


def test_ping(start: Start) -> None:
    guest, _ = start()
    data = pattern(1000)
    assert ping(guest, WEB, data) == data
    assert ping(guest, GATEWAY, data) == data
    assert ping(guest, GATEWAY6, data) == data


@pytest.mark.parametrize("nameserver", NAMESERVERS[:2])
def test_names(start: Start, nameserver: str) -> None:
    """The host's resolvers answer at the guest's addresses for them."""
    guest, _ = start()
    with guest.udp(nameserver, 53) as s:
        for name in ("web.test", "cname.web.test", "WeB.tEsT"):
            s.send(question(name))
            assert addresses(s.recv(4096)) == [WEB]
            s.send(question(name, kind=28))
            assert addresses(s.recv(4096)) == [WEB6]
        s.send(question("nowhere.test"))
        assert addresses(s.recv(4096)) == []


def test_names_by_tcp(start: Start) -> None:
    guest, _ = start()
    with guest.connect(NAMESERVERS[0], 53) as s:
        s.sendall(struct.pack("!H", len(question("web.test"))) + question("web.test"))
        (size,) = struct.unpack("!H", read_exactly(s, 2))
        assert addresses(read_exactly(s, size)) == [WEB]


def test_a_resolver_on_the_hosts_loopback(start: Start) -> None:
    """As systemd-resolved has it."""
    guest, _ = start(resolvers=["127.0.0.53"])
    with guest.udp(NAMESERVERS[0], 53) as s:
        s.send(question("web.test"))
        assert addresses(s.recv(4096)) == [WEB]


def test_a_resolver_that_is_not_there(start: Start) -> None:
    """It is refused at once, so that the next is asked."""
    guest, _ = start()
    with guest.udp(NAMESERVERS[2], 53) as s:
        s.send(question("web.test"))
        with pytest.raises(OSError, match="No route to host"):
            s.recv(4096)


def test_real_programs(start: Start) -> None:
    guest, _ = start()
    done = subprocess.run(
        [*guest.enter(), "curl", "-sS", "--max-time", "60", f"http://{WEB}/a", f"http://[{WEB6}]/b"],
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{WEB} /a {WEB}[{WEB6}] /b {WEB6}", done.stderr


def test_what_carries_a_public_address(start: Start) -> None:
    guest, _ = start()
    with guest.connect(NAT64_WEB, ECHO) as s:
        s.sendall(b"x")
        assert s.recv(1) == b"x"


@pytest.mark.parametrize("rate", [1 << 20, 8 << 20])
@pytest.mark.parametrize("way", ["up", "down"])
def test_rate(start: Start, world: World, rate: int, way: str) -> None:
    """Within a fifth of what was said, over two seconds; what it has saved for a burst is gone by then."""
    arrived: list[tuple[float, int]] = []

    def note(s: socket.socket) -> None:
        total = 0
        while total < 3 * rate and (part := s.recv(1 << 16)):
            total += len(part)
            arrived.append((time.monotonic(), total))

    server = Server(world.internet.listen(WEB), note)
    guest, _ = start(rate=rate)
    if way == "up":
        with guest.connect(WEB, server.port) as s:
            s.sendall(bytes(3 * rate))
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == b""
    else:
        with guest.connect(WEB, SOURCE) as s:
            note(s)
    timed = [(at, total) for at, total in arrived if rate <= total <= 3 * rate]
    (begin, before), (end, after) = timed[0], timed[-1]
    assert (after - before) / (end - begin) <= 1.2 * rate
    # A machine that had other things to do for a moment makes one second slow, and not all.
    seconds = [(e, b) for b in timed for e in timed if e[1] - b[1] >= rate]
    assert max((e[1] - b[1]) / (e[0] - b[0]) for e, b in seconds) >= 0.8 * rate
    server.close()
