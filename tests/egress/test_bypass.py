# SPDX-License-Identifier: Apache-2.0
"""Ways around the policy, tried with a real kernel's sockets and real programs. Those that need frames of one's own: test_frames.py."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator

import pytest

from egress.helper import GATEWAY, GATEWAY6, NAMESERVERS, Guest, Start
from egress.hosts import Server, UdpEcho, addresses, question, read_all
from egress.net import attempt
from egress.test_policy import PROHIBITED, REFUSED, lookup
from egress.world import (
    CDN,
    ECHO,
    MACHINE,
    METADATA,
    NEIGHBOUR,
    OTHER,
    PRIVATE,
    PRIVATE6,
    WEB,
    WEB6,
    World,
)  # fmt: skip


@pytest.fixture
def quiet(world: World) -> Iterator[None]:
    """Nothing may have been asked of a host that is not the web's."""
    seen = len(world.local.heads)
    yield
    assert world.local.heads[seen:] == []


def curl(guest: Guest, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run curl in the guest. Its exit code 7 is a connection that was refused."""
    return subprocess.run(
        [*guest.enter(), "curl", "-sS", "--noproxy", "*", "--max-time", "60", *argv], capture_output=True, text=True
    )


# ---- addresses in disguise ----


@pytest.mark.parametrize(
    "host",
    [
        "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518", "169.16689662",
        "00000251.254.169.254", "10.4325381", "0x0a420005", "012.0x42.5", "100.100.100.200", "[fd00:ec2::254]",
        "[64:ff9b::a9fe:a9fe]", "[64:ff9b::169.254.169.254]", "[2002:a9fe:a9fe::5]", "10.0.2.2", "10.0.2.3",
        "192.168.77.5", MACHINE, NEIGHBOUR, f"[64:ff9b::{MACHINE}]", f"[64:ff9b::{NEIGHBOUR}]", "[64:ff9b::127.0.0.1]",
    ],
)  # fmt: skip
def test_other_ways_to_write_an_address(start: Start, quiet: None, host: str) -> None:
    guest, helper = start()
    done = curl(guest, f"http://{host}/")
    assert done.returncode == 7, done.stdout
    assert len(helper.control.take_denials()) == 1


@pytest.mark.parametrize(
    "target", [f"http://{METADATA}/", "http://2852039166/", f"http://{PRIVATE}/", f"http://[{PRIVATE6}]/",
               f"http://{MACHINE}/", f"http://{NEIGHBOUR}/", f"http://{GATEWAY}/", f"http://[{GATEWAY6}]/"],
)  # fmt: skip
def test_redirects(start: Start, quiet: None, target: str) -> None:
    """A public server sends the client there."""
    guest, helper = start()
    done = curl(guest, "-L", f"http://{WEB}/redirect/{target}")
    assert done.returncode == 7, done.stdout
    assert len(helper.control.take_denials()) == 1


# ---- names ----


@pytest.mark.parametrize("name", ["metadata.test", "private.test"])
@pytest.mark.parametrize("allow", [[], ["metadata.test", "private.test"], ["*"]])
def test_a_name_that_points_inside(start: Start, name: str, allow: list[str]) -> None:
    """Whatever the resolver answers for a name, its address is judged for itself."""
    guest, helper = start(allow=allow)
    for address in lookup(guest, name):
        assert attempt(lambda a=address: guest.connect(a, 80)) == REFUSED  # type: ignore[misc]
    assert len(helper.control.take_denials()) == 1


def test_rebinding(start: Start, world: World) -> None:
    """A name that was public when it was asked for, and is not the next time."""
    guest, _ = start(allow=["flip.test"])
    world.dns.table["flip.test"] = [WEB]
    assert lookup(guest, "flip.test") == [WEB]
    assert attempt(lambda: guest.connect(WEB, 80)) == "none"
    for address in (PRIVATE, METADATA, MACHINE):
        world.dns.table["flip.test"] = [address]
        assert lookup(guest, "flip.test") == [address]
        assert attempt(lambda a=address: guest.connect(a, 80)) == REFUSED  # type: ignore[misc]


def test_a_name_of_ones_own_for_a_shared_address(start: Start, world: World) -> None:
    """It leads there; what is asked for there must still be that name."""
    world.dns.table["mine.good.test"] = [CDN]
    guest, _ = start(allow=["*.good.test"])
    assert lookup(guest, "mine.good.test") == [CDN]
    seen = len(world.web.heads)
    with guest.connect(CDN, 80) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            s.recv(1)
    assert world.web.heads[seen:] == []


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"secret",
        bytes(12),
        struct.pack("!HHHHHH", 1, 0x0100, 2, 0, 0, 0) + question("a.cdn.test")[12:] + question("evil.test")[12:],
        question("a.cdn.test") + b"a message behind it",
        struct.pack("!HHHHHH", 1, 0x2800, 1, 0, 0, 0) + question("a.cdn.test")[12:],
        struct.pack("!HHHHHH", 1, 0x8180, 1, 0, 0, 0) + question("a.cdn.test")[12:],
        struct.pack("!HHHHHH", 1, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1",
        question("a\0.cdn.test"),
        question("evil.test"),
        question("secret.a.cdn.test.evil.test"),
    ],
)  # fmt: skip
def test_messages_to_the_resolver(start: Start, world: World, message: bytes) -> None:
    """What is no question for an allowed name does not get there, whatever it looks like."""
    guest, _ = start(allow=["a.cdn.test"])
    asked = len(world.dns.questions)
    with guest.udp(NAMESERVERS[0], 53) as s:
        s.send(message)
        assert attempt(lambda: s.recv(1)) == PROHIBITED
    assert world.dns.questions[asked:] == []


def test_the_resolver_by_tcp(start: Start, world: World) -> None:
    guest, helper = start(allow=["a.cdn.test"])
    assert attempt(lambda: guest.connect(NAMESERVERS[0], 53)) == REFUSED
    assert [d["why"] for d in helper.control.take_denials()] == [
        "the policy has names, and questions by TCP are not looked into"
    ]


@pytest.mark.parametrize("port", [22, 52, 54, 80, 443, 853, 5353])
def test_the_resolver_on_other_ports(start: Start, port: int) -> None:
    """Its address in the guest's network is a resolver's on port 53 and nobody's else."""
    guest, _ = start()
    for nameserver in NAMESERVERS:
        assert attempt(lambda n=nameserver: guest.connect(n, port)) == REFUSED  # type: ignore[misc]
        with guest.udp(nameserver, port) as s:
            s.send(question("web.test"))
            assert attempt(lambda s=s: s.recv(1)) == PROHIBITED  # type: ignore[misc]


def test_another_resolver(start: Start) -> None:
    """Under a list of names no other is asked: it would answer what it likes."""
    guest, _ = start(allow=["a.cdn.test"])
    with guest.udp(OTHER, 53) as s:
        s.send(question("a.cdn.test"))
        assert attempt(lambda: s.recv(1)) == PROHIBITED
    assert attempt(lambda: guest.connect(OTHER, 53)) == REFUSED


def test_an_answer_of_a_strangers_teaches_nothing(start: Start, world: World) -> None:
    """An address that a stranger gave for an allowed name is not that name's. By rule any host may be asked on port 53."""
    guest, _ = start(allow=["a.cdn.test", f"{OTHER}:53"])
    forged = struct.pack("!HHHHHH", 0x1234, 0x8180, 1, 1, 0, 0) + question("a.cdn.test")[12:]
    forged += b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(WEB)
    with world.internet.listen(OTHER, 53, socket.SOCK_DGRAM) as liar, guest.udp(OTHER, 53) as s:
        s.send(b"lie to me")
        _, client = liar.recvfrom(100)
        liar.sendto(forged, client)
        assert addresses(s.recv(100)) == [WEB]
    assert attempt(lambda: guest.connect(WEB, 80)) == REFUSED


# ---- names in streams ----


def pieces(guest: Guest, host: str, port: int, data: bytes, size: int) -> bytes:
    """Send in segments of that many bytes; what comes until the end."""
    with guest.connect(host, port) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), size):
            s.sendall(data[at : at + size])
        return read_all(s)


def client_hello(name: str) -> bytes:
    """Return what OpenSSL begins with."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def in_records(hello: bytes, size: int) -> bytes:
    """Cut a handshake into records of that many bytes."""
    body = hello[5:]
    cut = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(hello[:3] + struct.pack("!H", len(part)) + part for part in cut)


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
@pytest.mark.parametrize("record", [1, 50, 1000])
def test_a_client_hello_in_pieces(start: Start, world: World, size: int, record: int) -> None:
    guest, _ = start(allow=["a.cdn.test"])
    lookup(guest, "a.cdn.test")
    seen = len(world.tls.names)
    for name in ("evil.test", "b.cdn.test"):
        with pytest.raises(ConnectionError):
            pieces(guest, CDN, 443, in_records(client_hello(name), record), size)
    assert world.tls.names[seen:] == []


@pytest.mark.parametrize(
    "text",
    [
        "GET / HTTP/1.1\r\nHost: a.cdn.test\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.cdn.test\r\nHost: evil.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: evil.test\r\nHost: a.cdn.test\r\n\r\n",
        "GET / HTTP/1.1\nHost:evil.test\n\n",
        "GET / HTTP/1.1\r\nHost : evil.test\r\nHost: a.cdn.test\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: evil.test\r\nHost: a.cdn.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n evil.test\r\nHost: a.cdn.test\r\n\r\n",
        "GET / HTTP/1.1\rHost: evil.test\r\nHost: a.cdn.test\r\n\r\n",
        "GET http://evil.test/ HTTP/1.1\r\nHost: a.cdn.test\r\n\r\n",
        "GET" + 5000 * " " + "http://evil.test/ HTTP/1.1\r\nHost: a.cdn.test\r\n\r\n",
        "GET http://a.cdn.test@evil.test/ HTTP/1.1\r\nHost: a.cdn.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.cdn.test@evil.test\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.cdn.test\r\nContent-Length: 0\r\n\r\nXX http://evil.test/ HTTP/1.1\r\nHost: a.cdn.test\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        "not http\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 10000])
def test_requests_for_another_name(start: Start, world: World, text: str, size: int) -> None:
    """The server hears of the allowed name only, if of anything."""
    guest, helper = start(allow=["a.cdn.test"])
    lookup(guest, "a.cdn.test")
    seen = len(world.web.heads)
    with pytest.raises(ConnectionError):
        pieces(guest, CDN, 80, text.encode(), size)
    assert not any(b"evil" in head for head in world.web.heads[seen:])
    assert len(helper.control.take_denials()) == 1


def test_tls_behind_something_else(start: Start, world: World) -> None:
    """A ClientHello with the right name, but not at the beginning: it would have the rest pass."""
    guest, _ = start(allow=["a.cdn.test"])
    lookup(guest, "a.cdn.test")
    seen = len(world.web.heads)
    head = b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    with pytest.raises(ConnectionError):
        pieces(guest, CDN, 80, b"\r\n" + client_hello("a.cdn.test") + b"\n" + head, 10000)
    assert world.web.heads[seen:] == []


# ---- datagrams that nobody asked for ----


@pytest.mark.parametrize("host", [PRIVATE, METADATA, NEIGHBOUR, "10.0.2.9"])
def test_datagrams_of_strangers(start: Start, world: World, host: str) -> None:
    """The host's socket takes what anybody sends to it. The guest hears whom it may send to, and no one else."""
    echo = UdpEcho(world.internet, WEB, 0)
    guest, _ = start()
    with guest.open(kind=socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        s.sendto(f"from {host} 5000".encode(), (WEB, echo.port))
        assert s.recvfrom(100)[1] == (WEB, echo.port)
        s.sendto(b"again", (WEB, echo.port))
        assert s.recvfrom(100) == (b"again", (WEB, echo.port))
    echo.close()


def test_a_socket_that_asks_a_resolver_hears_resolvers(start: Start, world: World) -> None:
    """To the guest all that it hears would come from the resolver: any public host could answer for it."""
    guest, _ = start()
    with guest.udp(NAMESERVERS[0], 53) as s, world.internet.listen(OTHER, 53, socket.SOCK_DGRAM) as liar:
        world.dns.clients.clear()
        s.send(question("web.test"))
        assert addresses(s.recv(4096)) == [WEB]
        liar.sendto(b"a lie", world.dns.clients[-1])
        s.send(question("other.test"))
        assert addresses(s.recv(4096)) == [OTHER]


def test_names_are_no_licence_for_datagrams(start: Start) -> None:
    guest, _ = start(allow=["web.test"])
    assert lookup(guest, "web.test") == [WEB]
    with guest.udp(WEB, ECHO) as s:
        s.send(b"x")
        assert attempt(lambda: s.recv(1)) == PROHIBITED


def test_the_last_verdict_is_not_the_next(start: Start, world: World) -> None:
    """One socket of the guest's, and so of the host's, for what is allowed and what is not."""
    echo = UdpEcho(world.internet, WEB, 0)
    inside = UdpEcho(world.internet, PRIVATE, echo.port)
    guest, _ = start()
    with guest.open(kind=socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        s.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR: tell of errors though it is not connected
        for _ in range(3):
            s.sendto(b"good", (WEB, echo.port))
            assert s.recv(100) == b"good"
            s.sendto(b"bad", (PRIVATE, echo.port))
            assert attempt(lambda: s.recv(100)) == PROHIBITED
            s.recvmsg(100, 1000, socket.MSG_ERRQUEUE)
    assert inside.seen == []
    echo.close()
    inside.close()


# ---- the host's own services ----


def test_the_machine_has_many_addresses(start: Start, world: World) -> None:
    """One that it is given while the helper runs is its own at once."""
    guest, _ = start()
    world.internet.ip(f"addr del {OTHER}/32 dev lo")
    try:
        world.machine.ip(f"addr add {OTHER}/32 dev lo")
        try:
            assert attempt(lambda: guest.connect(OTHER, ECHO)) == REFUSED
        finally:
            world.machine.ip(f"addr del {OTHER}/32 dev lo")
    finally:
        world.internet.ip(f"addr add {OTHER}/32 dev lo")
    assert attempt(lambda: guest.connect(OTHER, ECHO)) == "none"


def test_a_network_that_the_machine_joins(start: Start, world: World) -> None:
    """A route without a gateway: whoever is there is a neighbour by now."""
    guest, _ = start()
    assert attempt(lambda: guest.connect(OTHER, ECHO)) == "none"
    world.machine.ip("route add 93.184.216.32/28 dev cable")
    try:
        assert attempt(lambda: guest.connect(OTHER, ECHO)) == REFUSED
    finally:
        world.machine.ip("route del 93.184.216.32/28 dev cable")


def test_nobody_can_come_in(start: Start, world: World) -> None:
    """A guest that listens is not heard of: no port of the machine leads to it."""
    guest, helper = start()
    with guest.listen("0.0.0.0", 7777), guest.connect(WEB, ECHO):
        listening = world.machine.run("ss", "-Htlnp")
        assert f"pid={helper.pid}" not in listening
        assert attempt(lambda: world.internet.connect(MACHINE, 7777)) == REFUSED


def test_what_a_host_says_of_other_hosts(start: Start, world: World) -> None:
    """An FTP server's answer with a private address in it is text, and opens nothing (libslirp once knew better)."""

    def serve(s: socket.socket) -> None:
        s.sendall(b"227 Entering Passive Mode (10,66,0,5,27,88)\r\n")
        s.recv(1)

    server = Server(world.internet.listen(WEB, 21), serve)
    guest, helper = start()
    with guest.connect(WEB, 21) as s:
        assert s.recv(100) == b"227 Entering Passive Mode (10,66,0,5,27,88)\r\n"
        s.sendall(b"PORT 10,0,2,15,27,88\r\n")
    assert f"pid={helper.pid}" not in world.machine.run("ss", "-Htlnp")
    server.close()


def test_both_families(start: Start) -> None:
    """A rule for one family says nothing of the other."""
    guest, _ = start(allow=[f"{WEB}:7000"])
    assert attempt(lambda: guest.connect(WEB, ECHO)) == "none"
    assert attempt(lambda: guest.connect(WEB6, ECHO)) == REFUSED
