# SPDX-License-Identifier: Apache-2.0
"""The network of a sandbox beside QEMU's own user networking, on the same machine, in the same run.

For the comparison a second daemon finds a QEMU on its PATH that is a script: it starts the real one, with
`-netdev user` in place of the socket to the egress helper. The guest is the same in both.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.bench import Daemon

TRANSFER_MIB = 256
CONNECTS = 100

# Runs in the guest: `send` writes, `receive` reads, `connect` opens and closes; prints seconds, one figure a line.
GUEST = """
import socket, sys, time
what, address, port, n = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
block = b"x" * (1 << 20)
if what == "connect":
    for _ in range(n):
        start = time.perf_counter()
        s = socket.create_connection((address, port))
        print(time.perf_counter() - start)
        s.close()
    sys.exit()
s = socket.create_connection((address, port))
s.sendall(b"s" if what == "send" else b"r")
start = time.perf_counter()
if what == "send":
    for _ in range(n):
        s.sendall(block)
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
else:
    left = n << 20
    while left:
        left -= len(s.recv(1 << 20))
print(time.perf_counter() - start)
"""

# What the agent does for a machine that has a helper.
CARD_UP = (
    "ip link set eth0 up; ip addr replace 10.0.2.15/32 dev eth0;"
    " ip route replace 10.0.2.2 dev eth0; ip route replace default via 10.0.2.2"
)


class Guest:
    """A sandbox that talks to the peer."""

    def __init__(self, daemon: Daemon, sandbox: str, address: str, port: int) -> None:
        self._daemon, self._sandbox, self._peer = daemon, sandbox, f"{address} {port}"
        url = f"{sandbox}/fs?path=/tmp/net.py"
        daemon.connection.request("PUT", url, GUEST.encode(), daemon.headers)
        daemon.connection.getresponse().read()

    def sh(self, cmd: str) -> str:
        """What a command prints."""
        answer = self._daemon.call("POST", f"{self._sandbox}/exec", {"cmd": cmd, "timeout_seconds": 120})
        if answer["exit_code"]:
            raise RuntimeError(answer["stderr"])
        return str(answer["stdout"])

    def seconds(self, what: str, n: int) -> list[float]:
        """Of `send`, `receive` or `connect`."""
        return [float(line) for line in self.sh(f"python3 /tmp/net.py {what} {self._peer} {n}").split()]

    def close(self) -> None:
        """No more of it."""
        self._daemon.call("DELETE", self._sandbox)


class Peer:
    """A server on all addresses of this machine: takes all that comes, or sends what is wanted."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("0.0.0.0", 0), backlog=128)
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=[connection], daemon=True).start()

    @staticmethod
    def _talk(connection: socket.socket) -> None:
        with connection:
            kind = connection.recv(1)
            if kind == b"s":
                buffer = bytearray(1 << 20)
                while connection.recv_into(buffer):
                    pass
                connection.sendall(b"!")
            elif kind == b"r":
                for _ in range(TRANSFER_MIB):
                    connection.sendall(bytes(1 << 20))

    def close(self) -> None:
        """No more connections."""
        self.listener.close()


def own_address() -> str | None:
    """An address of this machine that is not its loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("203.0.113.1", 9))  # sends nothing
        except OSError:
            return None
        return str(s.getsockname()[0])


@contextmanager
def qemu_with_user_network() -> Iterator[str]:
    """A PATH on which QEMU has its own network."""
    name = "qemu-system-x86_64"
    real = shutil.which(name)
    assert real
    with tempfile.TemporaryDirectory(prefix="pandastack-bench-") as folder:
        script = Path(folder) / name
        script.write_text(
            '#!/bin/bash\nfor a; do [[ $a != dgram,id=network,* ]] || a=user,id=network; args+=("$a"); done\n'
            f'exec {shlex.quote(real)} "${{args[@]}}"\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        yield f"{folder}:{os.environ['PATH']}"


def helpers() -> set[int]:
    """All egress helpers of this machine."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().startswith("pandastack-egre"):
                found.add(int(entry.name))
        except FileNotFoundError:
            continue
    return found


def resident_mb(pid: int) -> float:
    """Of a process whose other figures are hidden."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
