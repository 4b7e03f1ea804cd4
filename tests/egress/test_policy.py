# SPDX-License-Identifier: Apache-2.0
"""What is not allowed is refused at once, told with its reason, and no longer open once it is forbidden."""

from __future__ import annotations

import socket
import ssl
import struct
from functools import partial
from typing import Any

import pytest

from egress.helper import NAMESERVERS, Guest, Start, config
from egress.hosts import UdpEcho, addresses, question, read_exactly
from egress.net import attempt
from egress.world import (
    CDN,
    ECHO,
    FORBIDDEN,
    FORBIDDEN6,
    MACHINE,
    MACHINE6,
    METADATA,
    NEIGHBOUR,
    NEIGHBOUR6,
    OTHER,
    PRIVATE,
    WEB,
    WEB6,
    World,
)  # fmt: skip

REFUSED = "ECONNREFUSED"
PROHIBITED = "EHOSTUNREACH"


def why(denials: list[dict[str, Any]]) -> list[tuple[str, str, int, str]]:
    """Return the denials in short."""
    return [(d["protocol"], d["address"], d["port"], d["why"]) for d in denials]


def lookup(guest: Guest, name: str) -> list[str]:
    """Ask the resolver as a program would."""
    with guest.udp(NAMESERVERS[0], 53) as s:
        s.send(question(name))
        return addresses(s.recv(4096))


# ---- by address ----


@pytest.mark.parametrize("host", [*FORBIDDEN, MACHINE, NEIGHBOUR, *FORBIDDEN6, MACHINE6, NEIGHBOUR6])
def test_forbidden_addresses(start: Start, world: World, host: str) -> None:
    """The machine reaches each of them, the sandbox none, by no protocol, and hears so."""
    world.machine.connect(host, ECHO).close()
    guest, helper = start()
    assert attempt(lambda: guest.connect(host, ECHO)) in (REFUSED, PROHIBITED, "EACCES", "ENETUNREACH")
    with guest.udp(host, 9) as s:
        s.send(b"x")
        assert attempt(lambda: s.recv(1)) in (PROHIBITED, "EACCES", "ENETUNREACH")
    denials = helper.control.take_denials()
    assert [(d["protocol"], d["address"], d["port"]) for d in denials] == [("tcp", host, ECHO), ("udp", host, 9)]
    assert all(d["why"].startswith("it is ") for d in denials)


def test_reasons(start: Start) -> None:
    guest, helper = start(host_deny=["93.184.216.35"], deny=["*:8081"])
    for host, port in [
        (METADATA, 80),
        (PRIVATE, 80),
        (MACHINE, 80),
        (NEIGHBOUR, 80),
        (OTHER, 80),
        (WEB, 8081),
        ("10.0.2.2", 22),
    ]:
        assert attempt(partial(guest.connect, host, port)) in (REFUSED, PROHIBITED)
    assert [d["why"] for d in helper.control.take_denials()] == [
        "it is a link-local address, where clouds keep their metadata",
        "it is a private address",
        "it is an address of this machine",
        "it is on the machine's local network",
        'the daemon denies "93.184.216.35"',
        'the sandbox\'s policy denies "*:8081"',
        "it is in the sandbox's own network, which has no services",
    ]


def test_lists(start: Start) -> None:
    guest, helper = start(allow=[f"{WEB}:7000", "2606:2800:220:1::/64"])
    assert attempt(lambda: guest.connect(WEB, ECHO)) == "none"
    assert attempt(lambda: guest.connect(WEB6, 80)) == "none"
    assert attempt(lambda: guest.connect(WEB, 80)) == REFUSED
    assert attempt(lambda: guest.connect(OTHER, ECHO)) == REFUSED
    assert [d["why"] for d in helper.control.take_denials()] == ["the sandbox's policy does not allow it"] * 2


def test_the_daemon_opens_private_addresses(start: Start) -> None:
    guest, helper = start(host_allow=[f"{PRIVATE}:7000", METADATA, f"{MACHINE}:80"])
    assert attempt(lambda: guest.connect(PRIVATE, ECHO)) == "none"
    assert attempt(lambda: guest.connect(MACHINE, 80)) == "none"
    assert attempt(lambda: guest.connect(PRIVATE, 80)) == REFUSED
    assert attempt(lambda: guest.connect(MACHINE, ECHO)) == REFUSED
    assert attempt(lambda: guest.connect(METADATA, 80)) == REFUSED
    assert len(helper.control.take_denials()) == 3


def test_no_rules_at_all(start: Start) -> None:
    guest, helper = start(internet=False)
    assert attempt(lambda: guest.connect(WEB, 80)) == REFUSED
    with guest.udp(NAMESERVERS[0], 53) as s:
        s.send(question("web.test"))
        assert attempt(lambda: s.recv(1)) == PROHIBITED
    denied = helper.control.take_denials()
    assert [d.get("name") for d in denied] == [None, "web.test"]
    assert denied[1]["why"] == "the sandbox's policy does not allow the name"


# ---- by name ----


def http(guest: Guest, host: str, head: str, port: int = 80) -> bytes:
    """Send the head of a request, and return what comes."""
    with guest.connect(host, port) as s:
        s.sendall(head.encode())
        return s.recv(4096)


def tls(guest: Guest, host: str, name: str | None, port: int = 443) -> str:
    """Shake hands with that server name; what the server saw."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with guest.connect(host, port) as s, context.wrap_socket(s, server_hostname=name) as t:
        return t.recv(100).decode()


def test_a_name_opens_its_address(start: Start) -> None:
    guest, helper = start(allow=["a.cdn.test"])
    assert attempt(lambda: guest.connect(CDN, 80)) == REFUSED, "it has not been asked for yet"
    assert lookup(guest, "a.cdn.test") == [CDN]
    assert b"200 OK" in http(guest, CDN, "GET / HTTP/1.1\r\nHost: a.cdn.test\r\n\r\n")
    assert tls(guest, CDN, "a.cdn.test") == "'a.cdn.test'"
    assert attempt(lambda: guest.connect(WEB, 80)) == REFUSED
    assert len(helper.control.take_denials()) == 2


def test_a_name_needs_its_own_on_a_shared_address(start: Start, world: World) -> None:
    guest, helper = start(allow=["a.cdn.test"])
    lookup(guest, "a.cdn.test")
    seen = len(world.web.heads), len(world.tls.names)
    for head in (
        "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET http://evil.test/ HTTP/1.1\r\nHost: a.cdn.test\r\n\r\n",
    ):
        with pytest.raises(ConnectionResetError):
            http(guest, CDN, head)
    for name in ("evil.test", None):
        with pytest.raises((ConnectionResetError, ssl.SSLError)):
            tls(guest, CDN, name)
    assert (len(world.web.heads), len(world.tls.names)) == seen
    assert [d["why"] for d in helper.control.take_denials()] == [
        "the sandbox's policy allows this address only for other names",
        "its HTTP request has no Host",
        "the sandbox's policy allows this address only for other names",
        "the sandbox's policy allows this address only for other names",
        "its TLS ClientHello has no server name",
    ]


def test_names_that_may_not_be_asked_for(start: Start, world: World) -> None:
    """The question does not leave the machine: it would be a message."""
    guest, helper = start(allow=["*.cdn.test"], host_deny=["b.cdn.test"])
    asked = len(world.dns.questions)
    for name in ("secret.evil.test", "b.cdn.test", "cdn.test"):
        with guest.udp(NAMESERVERS[0], 53) as s:
            s.send(question(name))
            assert attempt(lambda s=s: s.recv(1)) == PROHIBITED  # type: ignore[misc]
    assert world.dns.questions[asked:] == []
    assert [(d["name"], d["why"]) for d in helper.control.take_denials()] == [
        ("secret.evil.test", "the sandbox's policy does not allow the name"),
        ("b.cdn.test", 'the daemon denies "b.cdn.test"'),
        ("cdn.test", "the sandbox's policy does not allow the name"),
    ]


def test_a_denied_name(start: Start) -> None:
    """In an internet that is otherwise open: neither asked for, nor shown on an address that is."""
    guest, _ = start(deny=["evil.test"])
    assert lookup(guest, "a.cdn.test") == [CDN]
    assert tls(guest, CDN, "a.cdn.test") == "'a.cdn.test'"
    assert b"200 OK" in http(guest, CDN, "GET / HTTP/1.1\r\nHost: a.cdn.test\r\n\r\n")
    with pytest.raises((ConnectionResetError, ssl.SSLError)):
        tls(guest, CDN, "evil.test")
    with pytest.raises(ConnectionResetError):
        http(guest, CDN, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    with guest.udp(NAMESERVERS[0], 53) as s:
        s.send(question("evil.test"))
        assert attempt(lambda: s.recv(1)) == PROHIBITED


def test_a_name_of_the_daemons(start: Start) -> None:
    """It opens a private address for itself: no other name that the server there has, be it allowed elsewhere."""
    guest, _ = start(allow=["private.test", "index.test"], host_allow=["index.test"])
    assert lookup(guest, "private.test") == [PRIVATE]
    assert attempt(lambda: guest.connect(PRIVATE, 443)) == REFUSED
    assert lookup(guest, "index.test") == [PRIVATE]
    assert tls(guest, PRIVATE, "index.test") == "'index.test'"
    with pytest.raises((ConnectionResetError, ssl.SSLError)):
        tls(guest, PRIVATE, "private.test")


def test_other_protocols_go_by_the_resolver(start: Start) -> None:
    guest, _ = start(allow=["web.test:7000"])
    lookup(guest, "web.test")
    with guest.connect(WEB, ECHO) as s:
        s.sendall(b"SSH-2.0-client\r\n")
        assert read_exactly(s, 16) == b"SSH-2.0-client\r\n"
    with guest.udp(WEB, ECHO) as s:
        s.send(b"x")
        assert attempt(lambda: s.recv(1)) == PROHIBITED


# ---- a policy that changes ----


def test_an_open_connection_is_reset(start: Start, world: World) -> None:
    guest, helper = start()
    with guest.connect(WEB, ECHO) as web, guest.connect(OTHER, ECHO) as other:
        for s in (web, other):
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        helper.control.set(config(deny=[OTHER]))
        with pytest.raises(ConnectionResetError):
            other.recv(1)
        web.sendall(b"y")
        assert web.recv(1) == b"y", "what is still allowed goes on"
        helper.control.set(config(internet=False))
        with pytest.raises(ConnectionResetError):
            web.recv(1)
    assert why(helper.control.take_denials()) == [
        ("tcp", OTHER, ECHO, "the policy has changed"),
        ("tcp", WEB, ECHO, "the policy has changed"),
    ]
    assert attempt(lambda: guest.connect(WEB, ECHO)) == REFUSED


def test_a_connection_that_stalls_is_reset(start: Start, world: World) -> None:
    """Both sides have sent more than is taken: the helper has it in its buffers when the policy changes."""
    guest, helper = start()
    listener = world.internet.listen(WEB)
    with guest.connect(WEB, listener.getsockname()[1]) as s, listener.accept()[0] as far:
        for end in (s, far):
            end.setblocking(False)
            with pytest.raises(BlockingIOError):
                while True:
                    end.send(bytes(1 << 20))
        helper.control.set(config(internet=False))
        for end in (s, far):
            end.settimeout(60)
            with pytest.raises(ConnectionResetError):
                while end.recv(1 << 20):
                    pass
    listener.close()


def test_a_connection_to_the_resolver_is_reset(start: Start, world: World) -> None:
    """By TCP anything can be asked; under a list nothing may."""
    guest, helper = start()
    with guest.connect(NAMESERVERS[0], 53) as s:
        packet = struct.pack("!H", len(question("web.test"))) + question("web.test")
        s.sendall(packet)
        assert read_exactly(s, 2)
        helper.control.set(config(allow=["web.test"]))
        asked = len(world.dns.questions)
        with pytest.raises(ConnectionResetError):
            while True:
                s.sendall(packet)
                s.recv(100)
        assert world.dns.questions[asked:] == []


def test_datagrams_stop_both_ways(start: Start, world: World) -> None:
    echo = UdpEcho(world.internet, WEB, 0)
    port = echo.port
    guest, helper = start()
    with guest.udp(WEB, port) as s:
        s.send(b"before")
        assert s.recv(100) == b"before"
        client = echo.seen[0][1]
        helper.control.set(config(internet=False))
        echo.socket.sendto(b"after", client)
        # What was sent before this is answered has been dropped by then.
        dropped_by_now(world, helper)
        s.send(b"again")
        assert attempt(lambda: s.recv(100)) == PROHIBITED
        s.setblocking(False)
        assert attempt(lambda: s.recv(100)) == "EAGAIN"
        assert [data for data, _ in echo.seen] == [b"before"]
    echo.close()


def dropped_by_now(world: World, helper: Any) -> None:
    """Two rounds of the helper: one that sees what came before this call, and has it behind it in the second."""
    helper.control.stats()
    helper.control.stats()


def test_more_is_allowed(start: Start) -> None:
    guest, helper = start(internet=False)
    assert attempt(lambda: guest.connect(WEB, ECHO)) == REFUSED
    helper.control.set(config())
    assert attempt(lambda: guest.connect(WEB, ECHO)) == "none"


def test_a_flood_of_denials(start: Start) -> None:
    """Some are told one by one, the others counted."""
    guest, helper = start()

    def flood() -> None:
        for port in range(1, 301):
            with socket.socket() as s:
                assert attempt(lambda s=s, port=port: s.connect((PRIVATE, port))) == REFUSED  # type: ignore[misc]

    guest.call(flood)
    stats = helper.control.stats()
    assert stats["denied"] == 300
    told = helper.control.denials
    assert 20 <= len(told) < 300
    assert len(told) + sum(d["more"] for d in told) <= 300
