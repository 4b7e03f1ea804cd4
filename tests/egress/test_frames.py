# SPDX-License-Identifier: Apache-2.0
"""Frames that no honest guest sends: they lead nowhere, and the helper is as well as before."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from egress.frames import (
    ACK,
    ARP,
    FIN,
    GATEWAY_MAC,
    ICMP,
    ICMP6,
    IPV4,
    IPV6,
    PSH,
    RST,
    SYN,
    TCP,
    UDP,
    URG,
    Wire,
    arp,
    checksum,
    echo,
    ethernet,
    ip,
    ipv4,
    ipv6,
    parse,
    summed,
    tcp,
    tcp_segment,
    udp,
    udp_datagram,
)  # fmt: skip
from egress.helper import FRAME_MAX, GATEWAY, GATEWAY6, GUEST, GUEST6, MAC, NAMESERVERS, SECONDS, Helper, config
from egress.hosts import UdpEcho, addresses, question
from egress.world import ECHO, FORBIDDEN, MACHINE, METADATA, OTHER, PRIVATE, RESOLVERS, WEB, WEB6, World

OTHERS_MAC = "52:54:00:00:00:01"


@pytest.fixture
def wire(helper: Callable[..., Helper]) -> Iterator[Wire]:
    """A helper with the internet. It must live, and end well."""
    h = helper()
    w = Wire(h)
    yield w
    w.ask_marked()
    assert h.end() == 0, h.said()


@pytest.fixture
def sink(world: World) -> Iterator[UdpEcho]:
    """A host that would show that something has got through."""
    echo = UdpEcho(world.internet, WEB, 9999)
    yield echo
    echo.close()


def datagram(data: bytes = b"smuggled") -> bytes:
    """A datagram for the sink, without an IP header."""
    return summed(UDP, udp_datagram(9999, data), 6, GUEST, WEB)


def fragment(data: bytes, offset: int, more: bool, number: int = 77) -> bytes:
    return ethernet(IPV4, ipv4(UDP, data, WEB, bits=offset // 8 | (0x2000 if more else 0), number=number))


# ---- what is dropped ----

DROPPED: dict[str, list[bytes]] = {
    "source of another machine": [ip(UDP, udp_datagram(9999, b"x"), WEB, 6, source="10.0.2.16")],
    "source of the gateway": [ip(UDP, udp_datagram(9999, b"x"), WEB, 6, source=GATEWAY)],
    "source of a public host": [ip(UDP, udp_datagram(9999, b"x"), WEB, 6, source="8.8.8.8")],
    "source of the loopback": [ip(UDP, udp_datagram(9999, b"x"), WEB, 6, source="127.0.0.1")],
    "source of nobody": [ip(UDP, udp_datagram(9999, b"x"), WEB, 6, source="0.0.0.0")],
    "source of the target": [ip(UDP, udp_datagram(9999, b"x"), WEB, 6, source=WEB)],
    "source of another machine, IPv6": [ip(TCP, tcp_segment(80, SYN), WEB6, 16, source="fd70:616e:6461::16")],
    "source of the link, IPv6": [ip(TCP, tcp_segment(80, SYN), WEB6, 16, source="fe80::5054:ff:fe70:616e")],
    "hardware address of another machine": [ethernet(IPV4, ipv4(UDP, datagram(), WEB), source=OTHERS_MAC)],
    "hardware address of the gateway": [ethernet(IPV4, ipv4(UDP, datagram(), WEB), source=GATEWAY_MAC)],
    "hardware address of all": [ethernet(IPV4, ipv4(UDP, datagram(), WEB), source="ff:ff:ff:ff:ff:ff")],
    "fragments": [fragment(datagram()[:8], 0, True), fragment(datagram()[8:], 8, False)],
    "tiny fragments": [fragment(datagram()[at : at + 8], at, at == 0) for at in (0, 8)],
    "overlapping fragments": [fragment(datagram(), 0, True), fragment(datagram(b"other")[8:], 8, False)],
    "fragments in the wrong order": [fragment(datagram()[8:], 8, False), fragment(datagram()[:8], 0, True)],
    "the last fragment alone": [fragment(datagram(), 0x1FFF * 8, False)],
    "a reserved bit": [ethernet(IPV4, ipv4(UDP, datagram(), WEB, bits=0x8000))],
    "an option: source route": [ethernet(IPV4, ipv4(UDP, datagram(), WEB, options=b"\x83\x07\x04\x0a\x42\x00\x05\x00"))],
    "an option: record route": [ethernet(IPV4, ipv4(UDP, datagram(), WEB, options=b"\x07\x07\x04\0\0\0\0\0"))],
    "options of nothing": [ethernet(IPV4, ipv4(UDP, datagram(), WEB, options=bytes(40)))],
    "an extension header: hop by hop": [ethernet(IPV6, ipv6(0, b"\x11\0\1\4\0\0\0\0" + datagram(), WEB6))],
    "an extension header: routing": [ethernet(IPV6, ipv6(43, b"\x11\2\0\1\0\0\0\0" + bytes(16) + datagram(), WEB6))],
    "an extension header: fragment": [ethernet(IPV6, ipv6(44, b"\x11\0\0\0\0\0\0\1" + datagram(), WEB6))],
    "an extension header: destination": [ethernet(IPV6, ipv6(60, b"\x11\0\1\4\0\0\0\0" + datagram(), WEB6))],
    "an extension header: authentication": [ethernet(IPV6, ipv6(51, b"\x11\4\0\0" + bytes(20) + datagram(), WEB6))],
    "no next header": [ethernet(IPV6, ipv6(59, datagram(), WEB6))],
    "a jumbogram": [ethernet(IPV6, ipv6(0, b"", WEB6) + b"\x11\0\xc2\4\0\1\0\0" + datagram())],
    "IPv4 within IPv4": [ethernet(IPV4, ipv4(4, ipv4(UDP, datagram(), PRIVATE), WEB))],
    "IPv6 within IPv4": [ethernet(IPV4, ipv4(41, ipv6(UDP, datagram(), WEB6), WEB))],
    "GRE": [ethernet(IPV4, ipv4(47, struct.pack("!HH", 0, IPV4) + ipv4(UDP, datagram(), PRIVATE), WEB))],
    "ESP": [ethernet(IPV4, ipv4(50, bytes(32), WEB))],
    "SCTP": [ethernet(IPV4, ipv4(132, bytes(32), WEB))],
    "IGMP": [ethernet(IPV4, ipv4(2, b"\x16\0\x09\x04\xe0\0\0\xfb", "224.0.0.251"))],
    "to many": [udp("224.0.0.1", 9999), udp("239.255.255.250", 1900), udp("255.255.255.255", 9999)],
    "to many, IPv6": [udp("ff02::1", 9999), udp("ff02::fb", 5353), udp("ff05::1:3", 547)],
    "a ping to many": [echo("224.0.0.1"), echo("255.255.255.255"), echo("ff02::1")],
    "a ping over IPv6": [echo(WEB6), echo("fd12:3456::5")],
    "BOOTP": [udp(GATEWAY, 67, bytes(300)), udp("255.255.255.255", 67, bytes(300))],
    "DHCPv6": [udp(GATEWAY6, 547, b"\x0b\0\0\1"), udp("ff02::1:2", 547, b"\x0b\0\0\1")],
    "TFTP": [udp(GATEWAY, 69, b"\0\1/etc/passwd\0octet\0"), udp(GATEWAY6, 69, b"\0\1/etc/passwd\0octet\0")],
    "ARP for the gateway's address": [arp(2, sender=GATEWAY), arp(1, sender=GATEWAY, target=GATEWAY)],
    "ARP for a resolver's address": [arp(2, sender=NAMESERVERS[0])],
    "ARP for a public address": [arp(2, sender=WEB)],
    "ARP in another's name": [arp(1, sender_mac=OTHERS_MAC), arp(2, sender_mac=GATEWAY_MAC)],
    "ARP of other kinds": [arp(3), arp(8), arp(0)],
    "looking for a router": [ip(ICMP6, struct.pack("!BBHI", 133, 0, 0, 0), "ff02::2", 2, source="fe80::1")],
    "being a router": [ip(ICMP6, struct.pack("!BBHI", 134, 0, 0, 0) + bytes(8), "ff02::1", 2, source="fe80::1")],
    "a redirect, IPv6": [ip(ICMP6, struct.pack("!BBHI", 137, 0, 0, 0) + bytes(32), GATEWAY6, 2, source="fe80::1")],
    "a neighbour's address": [ip(ICMP6, struct.pack("!BBHI", 136, 0, 0, 1 << 29) + bytes(16), GATEWAY6, 2, source=WEB6)],
    "a redirect": [ethernet(IPV4, ipv4(ICMP, b"\5\1" + struct.pack("!H", checksum(b"\5\1" + bytes(34))) + bytes(32), WEB))],
    "an ICMP error": [ethernet(IPV4, ipv4(ICMP, b"\3\1" + struct.pack("!H", checksum(b"\3\1" + bytes(34))) + bytes(32), WEB))],
    "an ICMP timestamp": [ethernet(IPV4, ipv4(ICMP, b"\x0d\0" + struct.pack("!H", checksum(b"\x0d\0" + bytes(18))) + bytes(16), WEB))],
    "urgent data": [tcp(WEB, 80, SYN | URG), tcp(WEB, 80, ACK | URG, urgent=2000, data=b"x")],
    "a VLAN": [ethernet(0x8100, struct.pack("!HH", 1, IPV4) + ipv4(UDP, datagram(), WEB))],
    "other protocols": [ethernet(kind, bytes(64)) for kind in (0, 0x002E, 0x8035, 0x8863, 0x8864, 0x88CC, 0x88F8, 0x9000)],
    "a datagram longer than it is": [ethernet(IPV4, ipv4(UDP, struct.pack("!HHHH", 4, 9999, 500, 0) + b"x", WEB))],
    "a datagram shorter than it is": [ethernet(IPV4, ipv4(UDP, struct.pack("!HHHH", 4, 9999, 0, 0) + b"x", WEB))],
    "a packet longer than it is": [ethernet(IPV4, ipv4(UDP, datagram(), WEB)[:-4])],
    "half a header": [ethernet(IPV4, ipv4(UDP, datagram(), WEB)[:19]), ethernet(IPV6, bytes(39)), ethernet(ARP, bytes(27))],
    "no frame at all": [b"", b"x", bytes(13)],
    "zeros": [bytes(size) for size in (14, 60, 1514, FRAME_MAX)],
    "a frame that is too long": [ethernet(IPV4, ipv4(UDP, datagram(), WEB)) + bytes(FRAME_MAX)],
}  # fmt: skip


@pytest.mark.parametrize("what", list(DROPPED))
def test_dropped(wire: Wire, sink: UdpEcho, what: str) -> None:
    for frame in DROPPED[what]:
        assert wire.is_ignored(frame)
    # And an honest one goes where it is sent: the sink has seen nothing else.
    assert wire.ask(udp(WEB, 9999, b"honest")).data == b"honest"
    assert [data for data, _ in sink.seen] == [b"honest"]
    assert wire.helper.control.take_denials() == []


def test_wrong_checksums(wire: Wire, sink: UdpEcho) -> None:
    """These the stack drops."""
    good = udp(WEB, 9999, b"smuggled")
    for at in (24, 25, 40, 41, 45):
        assert wire.ask_marked(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]) is None
    segment = tcp(WEB, ECHO)
    assert wire.ask_marked(segment[:50] + bytes([segment[50] ^ 1]) + segment[51:]) is None
    assert sink.seen == []


# ---- what is refused ----


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "240.0.0.5", GUEST, *FORBIDDEN[:6], MACHINE]
)
def test_addresses_that_a_kernel_would_not_send_to(wire: Wire, world: World, host: str) -> None:
    assert wire.ask(tcp(host, ECHO)).is_reset
    assert wire.ask(udp(host, ECHO)).is_prohibition
    assert wire.ask(echo(host)).is_prohibition
    assert [d["protocol"] for d in wire.helper.control.take_denials()] == ["tcp", "udp", "icmp"]


@pytest.mark.parametrize(
    "host", ["::", "::1", "::7f00:1", "fe80::1", "fe80::5054:ff:fe70:616e", GUEST6, "fd70:616e:6461::3"]
)
def test_addresses_of_ipv6_that_a_kernel_would_not_send_to(wire: Wire, host: str) -> None:
    answer = wire.ask(tcp(host, ECHO))
    assert answer.is_reset or answer.is_prohibition
    assert wire.ask(udp(host, ECHO)).is_prohibition
    assert [d["protocol"] for d in wire.helper.control.take_denials()] == ["tcp", "udp"]


@pytest.mark.parametrize("inner", ["127.0.0.1", PRIVATE, METADATA, MACHINE, WEB, *NAMESERVERS])
def test_ipv4_in_the_form_of_ipv6(wire: Wire, world: World, inner: str) -> None:
    """On a wire there is no such thing; a socket would take it for IPv4. The resolver's address is one that is rewritten."""
    asked = len(world.dns.questions)
    with_port = [(53, question("web.test")), (ECHO, b"x")]
    for port, data in with_port:
        assert wire.ask(tcp(f"::ffff:{inner}", port)).is_reset
        assert wire.ask(udp(f"::ffff:{inner}", port, data)).is_prohibition
    denials = wire.helper.control.take_denials()
    assert [d["why"] for d in denials] == ["it is an IPv4 address in a packet of IPv6"] * 4
    assert world.dns.questions[asked:] == []


@pytest.mark.parametrize("flags", [0, FIN, RST, ACK, FIN | ACK, PSH | ACK, SYN | ACK, SYN | FIN, SYN | RST, 0xDF])
def test_segments_of_no_connection(wire: Wire, flags: int) -> None:
    """They open none, whatever they claim to go on with."""
    before = wire.helper.control.stats()["connections"]
    for host in (WEB, PRIVATE, METADATA):
        answer = wire.ask_marked(tcp(host, ECHO, flags, ack=77, data=b"data"))
        assert answer is None or answer.is_reset
    assert wire.helper.control.stats()["connections"] == before


def test_data_with_the_first_segment(wire: Wire) -> None:
    """Nothing of it goes to an address that is refused."""
    assert wire.ask(tcp(PRIVATE, ECHO, SYN, data=b"GET / HTTP/1.0\r\n\r\n")).is_reset
    assert wire.ask(tcp(PRIVATE, 80, SYN, options=b"\x22\x0a12345678\1\1", data=b"GET / HTTP/1.0\r\n\r\n")).is_reset


@pytest.mark.parametrize("port", [0, 65535])
def test_ports_at_the_ends(wire: Wire, port: int) -> None:
    assert wire.ask(tcp(PRIVATE, port)).is_reset
    assert wire.ask(tcp(PRIVATE, ECHO, source_port=port)).is_reset
    assert wire.ask(udp(PRIVATE, port)).is_prohibition


@pytest.mark.parametrize("ttl", [0, 1])
def test_a_packet_at_the_end_of_its_life(wire: Wire, sink: UdpEcho, ttl: int) -> None:
    """As traceroute sends it: the gateway says so, and the host sees nothing."""
    answer = wire.ask(ethernet(IPV4, ipv4(UDP, datagram(), WEB, ttl=ttl)))
    assert (answer.protocol, answer.body[:1], answer.source) == (ICMP, b"\x0b", GATEWAY)
    assert sink.seen == []


def handshake(wire: Wire, host: str, port: int, **fields: Any) -> tuple[int, int]:
    """Open a connection by hand: the next sequence numbers of both sides."""
    opened = wire.ask(tcp(host, port, SYN, **fields))
    assert opened.flags & (SYN | ACK) == SYN | ACK, opened
    (theirs,) = struct.unpack_from("!I", opened.body, 4)
    wire.send(tcp(host, port, ACK, sequence=1001, ack=theirs + 1, **fields))
    return 1001, theirs + 1


def test_a_connection_that_is_taken_over(wire: Wire) -> None:
    """Its other end is what was judged: a segment for another host belongs to no connection."""
    ours, theirs = handshake(wire, WEB, ECHO)
    answer = wire.ask_marked(tcp(PRIVATE, ECHO, PSH | ACK, sequence=ours, ack=theirs, data=b"hello"))
    assert answer is not None
    assert answer.is_reset
    answer = wire.ask(tcp(WEB, ECHO, PSH | ACK, sequence=ours, ack=theirs, data=b"hello"))
    while not answer.data:
        answer = wire.receive()
    assert answer.data == b"hello"


def test_segments_out_of_order_and_over_each_other(wire: Wire) -> None:
    """The host gets one stream, and the later bytes do not replace what was judged."""
    ours, theirs = handshake(wire, WEB, ECHO)
    wire.send(tcp(WEB, ECHO, PSH | ACK, sequence=ours + 5, ack=theirs, data=b"56789"))
    wire.send(tcp(WEB, ECHO, PSH | ACK, sequence=ours + 3, ack=theirs, data=b"34xx"))
    wire.send(tcp(WEB, ECHO, PSH | ACK, sequence=ours, ack=theirs, data=b"0123456789"))
    got = b""
    while len(got) < 10:
        answer = wire.receive()
        got += answer.data
        theirs += len(answer.data)
        wire.send(tcp(WEB, ECHO, ACK, sequence=ours + 10, ack=theirs))
    assert len(got) == 10
    assert got[:3] == b"012"


def test_a_second_beginning(wire: Wire) -> None:
    """A SYN with another segment size in the middle of a connection."""
    ours, theirs = handshake(wire, WEB, ECHO)
    for size in (1, 32, 536, 1460, 65535):
        wire.send(tcp(WEB, ECHO, SYN, sequence=ours, options=struct.pack("!BBH", 2, 4, size)))
        wire.send(tcp(WEB, ECHO, PSH | ACK, sequence=ours, ack=theirs, data=b"x" * 1000))
    wire.send(tcp(WEB, ECHO, RST, sequence=ours))


def test_the_resolvers_real_address_is_not_the_guests(wire: Wire) -> None:
    """What a resolver answers comes from its address in the guest's network; the real one is an ordinary host."""
    answer = wire.ask(udp(NAMESERVERS[0], 53, question("web.test")))
    assert (answer.source, addresses(answer.data)) == (NAMESERVERS[0], [WEB])
    answer = wire.ask(udp(NAMESERVERS[1], 53, question("web.test")))
    assert (answer.source, addresses(answer.data)) == (NAMESERVERS[1], [WEB])
    answer = wire.ask(udp(RESOLVERS[0], 53, question("web.test")))
    assert answer.source == RESOLVERS[0]


def test_many_questions_at_once(wire: Wire) -> None:
    """From one port to all resolvers, as musl asks: each answer is heard."""
    for nameserver in NAMESERVERS[:2]:
        wire.send(udp(nameserver, 53, question("web.test")))
    got = [wire.receive(), wire.receive()]
    assert all(addresses(answer.data) == [WEB] for answer in got)
    assert {answer.source for answer in got} <= set(NAMESERVERS)


def test_a_denied_datagram_is_as_long_as_it_likes(wire: Wire) -> None:
    for size in (0, 1, 500, 1472, 9000, 65000):
        assert wire.ask(udp(PRIVATE, 9, bytes(size))).is_prohibition


def test_the_first_frame_is_refused(helper: Callable[..., Helper]) -> None:
    """The helper does not know yet where the answer is to go: it asks, and then gives it."""
    h = helper()
    h.card.settimeout(SECONDS)
    h.card.send(udp(PRIVATE, 9))
    asked = h.card.recv(FRAME_MAX)
    assert asked[12:14] == struct.pack("!H", ARP)
    h.card.send(arp(2))
    assert parse(h.card.recv(FRAME_MAX)).body[0] == 3
    assert h.control.stats()["denied"] == 1


def test_the_policy_is_that_of_the_moment(wire: Wire, sink: UdpEcho) -> None:
    """The last verdict of a socket does not outlive the policy that it was given by."""
    for _ in range(3):
        assert wire.ask(udp(WEB, 9999, b"yes")).data == b"yes"
        wire.helper.control.set(config(deny=[OTHER, f"{WEB}:9999"]))
        assert wire.ask(udp(WEB, 9999, b"no")).is_prohibition
        wire.helper.control.set(config())
    assert {data for data, _ in sink.seen} == {b"yes"}


def test_frames_for_other_hardware(wire: Wire) -> None:
    """Whoever is meant by them, they are the helper's to judge."""
    frame = ethernet(
        IPV4, ipv4(TCP, summed(TCP, tcp_segment(ECHO, SYN), 16, GUEST, PRIVATE), PRIVATE), target=OTHERS_MAC
    )
    assert wire.ask(frame).is_reset
    assert MAC != OTHERS_MAC
