# SPDX-License-Identifier: Apache-2.0
"""Frames as a hostile guest makes them, and reading what comes back."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from egress.helper import FRAME_MAX, GATEWAY, GATEWAY6, GUEST, GUEST6, MAC, SECONDS, Helper

ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
ICMP, TCP, UDP, ICMP6 = 1, 6, 17, 58
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
GATEWAY_MAC = "52:55:0a:00:02:02"


def mac(text: str) -> bytes:
    """Return the bytes of a hardware address."""
    return bytes.fromhex(text.replace(":", ""))


def packed(text: str) -> bytes:
    """Return the bytes of an address."""
    return ipaddress.ip_address(text).packed


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(kind: int, payload: bytes, source: str = MAC, target: str = GATEWAY_MAC) -> bytes:
    """Return a frame."""
    return mac(target) + mac(source) + struct.pack("!H", kind) + payload


def ipv4(protocol: int, payload: bytes, target: str, *, source: str = GUEST, options: bytes = b"", bits: int = 0,
         number: int = 1, ttl: int = 64) -> bytes:  # fmt: skip
    """Return an IPv4 packet. `bits`: the fragment field."""
    head = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, 0, 20 + len(options) + len(payload), number, bits, ttl,
                       protocol, 0) + packed(source) + packed(target) + options  # fmt: skip
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ipv6(protocol: int, payload: bytes, target: str, *, source: str = GUEST6, hops: int = 255) -> bytes:
    """Return an IPv6 packet."""
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, hops) + packed(source) + packed(target) + payload


def summed(protocol: int, payload: bytes, at: int, source: str, target: str) -> bytes:
    """Put the checksum of a transport into its place."""
    pseudo = packed(source) + packed(target) + struct.pack("!II", len(payload), protocol)
    return payload[:at] + struct.pack("!H", checksum(pseudo + payload) or 0xFFFF) + payload[at + 2 :]


def ip(protocol: int, payload: bytes, target: str, at: int | None, source: str | None = None) -> bytes:
    """Return a frame with a transport in it, of whichever version the target is."""
    v6 = ":" in target
    source = source or (GUEST6 if v6 else GUEST)
    if at is not None:
        payload = summed(protocol, payload, at, source, target)
    if v6:
        return ethernet(IPV6, ipv6(protocol, payload, target, source=source))
    return ethernet(IPV4, ipv4(protocol, payload, target, source=source))


def tcp_segment(port: int, flags: int, *, sequence: int = 1000, ack: int = 0, data: bytes = b"", window: int = 65535,
                source_port: int = 40000, urgent: int = 0, options: bytes = b"") -> bytes:  # fmt: skip
    """Return a segment without its checksum."""
    return struct.pack("!HHIIBBHHH", source_port, port, sequence & 0xFFFFFFFF, ack & 0xFFFFFFFF,
                       (5 + len(options) // 4) << 4, flags, window, 0, urgent) + options + data  # fmt: skip


def udp_datagram(port: int, data: bytes, source_port: int = 40000) -> bytes:
    """Return a datagram without its checksum."""
    return struct.pack("!HHHH", source_port, port, 8 + len(data), 0) + data


def tcp(target: str, port: int, flags: int = SYN, **fields: object) -> bytes:
    """Return a frame with a TCP segment."""
    return ip(TCP, tcp_segment(port, flags, **fields), target, 16)  # type: ignore[arg-type]


def udp(target: str, port: int, data: bytes = b"x", source_port: int = 40000) -> bytes:
    """Return a frame with a datagram."""
    return ip(UDP, udp_datagram(port, data, source_port), target, 6)


def echo(target: str, data: bytes = b"abcdefgh") -> bytes:
    """Return a frame with an echo request."""
    if ":" in target:
        return ip(ICMP6, struct.pack("!BBHHH", 128, 0, 0, 1, 1) + data, target, 2)
    request = struct.pack("!BBHHH", 8, 0, 0, 1, 1) + data
    return ip(ICMP, request[:2] + struct.pack("!H", checksum(request)) + request[4:], target, None)


def arp(op: int = 1, *, sender: str = GUEST, sender_mac: str = MAC, target: str = "10.0.2.2") -> bytes:
    """Return a frame of the address resolution protocol."""
    body = struct.pack("!HHBBH", 1, IPV4, 6, 4, op) + mac(sender_mac) + packed(sender) + bytes(6) + packed(target)
    return ethernet(ARP, body, target="ff:ff:ff:ff:ff:ff" if op == 1 else GATEWAY_MAC)


def solicitation(target: str) -> bytes:
    """Return a frame that asks for a neighbour of IPv6."""
    group = ipaddress.ip_address(packed("ff02::1:ff00:0")[:13] + packed(target)[13:])
    return ip(ICMP6, struct.pack("!BBHI", 135, 0, 0, 0) + packed(target), str(group), 2)


@dataclass
class Answer:
    """What came back, as far as the tests want to know."""

    kind: int
    protocol: int
    source: str
    body: bytes  # of the transport

    @property
    def is_reset(self) -> bool:
        """Whether it is a reset of TCP."""
        return self.protocol == TCP and bool(self.body[13] & RST)

    @property
    def is_prohibition(self) -> bool:
        """Whether it is the ICMP error for what is administratively prohibited."""
        return (self.protocol == ICMP and self.body[:2] == b"\x03\x0d") or (
            self.protocol == ICMP6 and self.body[:2] == b"\x01\x01"
        )

    @property
    def is_echo(self) -> bool:
        """Whether it is the answer to an echo request."""
        return (self.protocol, self.body[0]) in ((ICMP, 0), (ICMP6, 129))

    @property
    def flags(self) -> int:
        """Of TCP."""
        return self.body[13]

    @property
    def data(self) -> bytes:
        """Of TCP or UDP."""
        return self.body[(self.body[12] >> 4) * 4 :] if self.protocol == TCP else self.body[8:]


def parse(frame: bytes) -> Answer:
    """Take a frame apart; its checksums must be right."""
    (kind,) = struct.unpack_from("!H", frame, 12)
    p = frame[14:]
    if kind == IPV4:
        (total,) = struct.unpack_from("!H", p, 2)
        p = p[:total]
        assert p[0] == 0x45
        assert checksum(p[:20]) == 0
        source, target, protocol, body = p[12:16], p[16:20], p[9], p[20:]
    elif kind == IPV6:
        source, target, protocol, body = p[8:24], p[24:40], p[6], p[40:]
    else:
        return Answer(kind, 0, "", p)
    if protocol == ICMP:
        assert checksum(body) == 0
    else:
        assert checksum(source + target + struct.pack("!II", len(body), protocol) + body) == 0
    return Answer(kind, protocol, str(ipaddress.ip_address(source)), body)


class Wire:
    """A helper's card in our own hands."""

    def __init__(self, helper: Helper) -> None:
        self.helper = helper
        self.card = helper.card
        self.card.settimeout(SECONDS)
        # So that it knows our hardware address, and answers at once.
        self.send(arp())
        assert self.receive().kind == ARP
        self.send(solicitation(GATEWAY6))
        assert self.receive().body[0] == 136

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        self.card.send(frame)

    def receive(self) -> Answer:
        """Return the next frame that the helper sends."""
        return parse(self.card.recv(FRAME_MAX))

    def ask(self, frame: bytes) -> Answer:
        """Send a frame, and return what comes next."""
        self.send(frame)
        return self.receive()

    def is_ignored(self, frame: bytes) -> bool:
        """Whether nothing comes back: the answer to an echo request behind it is the first, and it was counted as dropped."""
        before = self.helper.control.stats()["dropped"]
        answer = self.ask_marked(frame)
        return answer is None and self.helper.control.stats()["dropped"] == before + 1

    def ask_marked(self, *frames: bytes) -> Answer | None:
        """Send frames and an echo request to the gateway; return the first that comes before the answer to that."""
        for frame in frames:
            self.send(frame)
        self.send(echo(GATEWAY, b"mark"))
        first = None
        while not (answer := self.receive()).is_echo:
            first = first or answer
        return first
