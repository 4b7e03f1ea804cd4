# SPDX-License-Identifier: Apache-2.0
"""The world around a helper: the machine that it runs on, its local network, and an internet with good and bad hosts.

    guest  --(frames)--  helper on `machine`  --(veth)--  `internet`: a gateway, a neighbour, and all other addresses

Nothing of it leads out of this computer. Every host that a sandbox must not reach is really there, and `machine` reaches it.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from egress.hosts import Dns, Server, Tls, Web, serve_digest, serve_echo, serve_source
from egress.net import Namespace, link

MACHINE, MACHINE6 = "81.2.69.2", "2a00:1450:4001::2"
GATEWAY, GATEWAY6 = "81.2.69.1", "2a00:1450:4001::1"
NEIGHBOUR, NEIGHBOUR6 = "81.2.69.9", "2a00:1450:4001::9"

WEB, WEB6 = "93.184.216.34", "2606:2800:220:1::34"
OTHER, OTHER6 = "93.184.216.35", "2606:2800:220:1::35"
CDN = "93.184.216.80"
RESOLVERS = ["93.184.216.53", "93.184.216.54"]
METADATA = "169.254.169.254"
PRIVATE, PRIVATE6 = "10.66.0.5", "fd12:3456::5"

# What nobody may reach without a rule of the daemon, and its kind.
FORBIDDEN = [
    METADATA, "168.63.129.16", "100.100.100.200", "192.0.0.192",
    PRIVATE, "172.20.0.5", "172.31.255.5", "192.168.77.5", "100.64.0.5", "198.18.0.5", "192.0.0.5",
    "10.0.2.3", "10.0.2.4", "10.0.2.5", "10.0.2.9", "240.0.0.5",
]  # fmt: skip
FORBIDDEN6 = [
    "fd00:ec2::254", "fd20:ce::254", PRIVATE6, "fec0::5", "100::5", "2001:0:5db8:d822::5", "64:ff9b:1::a42:5",
    "64:ff9b::a9fe:a9fe", "64:ff9b::a42:5", "2002:a9fe:a9fe::5", "2002:a42:5::5", "200::5", "4000::5",
    "::ffff:0:a42:5", "fd70:616e:6461::99",
]  # fmt: skip
# Public, in a form that carries IPv4.
NAT64_WEB = "64:ff9b::5db8:d822"

ECHO, DIGEST, SOURCE = 7000, 7001, 7002
SOURCE_BYTES = 64 << 20

NAMES = {
    "web.test": [WEB, WEB6],
    "other.test": [OTHER, OTHER6],
    "a.cdn.test": [CDN],
    "b.cdn.test": [CDN],
    "evil.test": [CDN],
    "metadata.test": [METADATA, "fd00:ec2::254"],
    "private.test": [PRIVATE, PRIVATE6],
    "loop.test": ["127.0.0.1", "::1"],
    "index.test": [PRIVATE],
}


class World:
    """All hosts, serving."""

    def __init__(self, folder: Path) -> None:
        self.internet = Namespace("internet")
        self.machine = Namespace("machine")
        self.web, self.tls, self.dns = Web(), Tls(folder), Dns(NAMES)
        self.local = Web()
        self._wire()
        for host in ("0.0.0.0", "::"):
            self._serve(self.internet, host, 80, self.web.serve)
            self._serve(self.internet, host, 8080, self.web.serve)
            self._serve(self.internet, host, 443, self.tls.serve)
            self._serve(self.internet, host, ECHO, serve_echo)
            self._serve(self.internet, host, DIGEST, serve_digest)
            self._serve(self.internet, host, SOURCE, serve_source(SOURCE_BYTES))
            self._serve(self.internet, host, 53, self.dns.serve_tcp)
            self._serve(self.machine, host, 80, self.local.serve)
            self._serve(self.machine, host, ECHO, serve_echo)
        for resolver in RESOLVERS:
            self._resolve(self.internet, resolver)
        self._resolve(self.machine, "127.0.0.53")

    def _wire(self) -> None:
        link(self.internet, "cable", self.machine, "cable")
        self.internet.ip(
            f"addr add {GATEWAY}/24 dev cable",
            f"addr add {NEIGHBOUR}/24 dev cable",
            f"addr add {GATEWAY6}/64 dev cable nodad",
            f"addr add {NEIGHBOUR6}/64 dev cable nodad",
            *(f"addr add {a}/32 dev lo" for a in [WEB, OTHER, CDN, *RESOLVERS, *FORBIDDEN]),
            *(f"addr add {a}/128 dev lo nodad" for a in [WEB6, OTHER6, NAT64_WEB, *FORBIDDEN6]),
        )
        self.machine.ip(
            f"addr add {MACHINE}/24 dev cable",
            f"addr add {MACHINE6}/64 dev cable nodad",
            f"route add default via {GATEWAY}",
            f"route add default via {GATEWAY6}",
        )
        # Where this is closed, as it is by default, an unprivileged program can't send an echo.
        self.machine.write("ipv4/ping_group_range", "0 2147483647")

    def _serve(self, namespace: Namespace, host: str, port: int, serve) -> None:  # type: ignore[no-untyped-def]
        Server(namespace.listen(host, port), serve)

    def _resolve(self, namespace: Namespace, host: str) -> None:
        s = namespace.listen(host, 53, socket.SOCK_DGRAM)
        threading.Thread(target=self.dns.serve_udp, args=(s,), daemon=True).start()

    def close(self) -> None:
        """End it."""
        self.machine.close()
        self.internet.close()
