# SPDX-License-Identifier: Apache-2.0
"""Network namespaces, and sockets within them. A namespace lives as long as a process of ours in it."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network of its own: its loopback is up, and nothing else is there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "ready\n"
        self.path = f"/proc/{self.holder.pid}/ns/net"

    def close(self) -> None:
        """Ends it; its devices go with it."""
        self.holder.communicate()

    def enter(self) -> list[str]:
        """Return the words before a command that is to run in it."""
        return ["nsenter", f"--net={self.path}"]

    def run(self, *argv: str, check: bool = True, timeout: float = 60) -> str:
        """Run a program in it; its stdout."""
        done = subprocess.run([*self.enter(), *argv], capture_output=True, text=True, timeout=timeout)
        assert not check or done.returncode == 0, f"{self.name}: {argv}: {done.stderr}"
        return done.stdout

    def ip(self, *lines: str) -> None:
        """Commands of ip(8), a line each."""
        done = subprocess.run(
            [*self.enter(), "ip", "-batch", "-"], input="\n".join(lines), capture_output=True, text=True
        )
        assert done.returncode == 0, f"{self.name}: {done.stderr}"

    def write(self, path: str, value: str) -> None:
        """Set a value below /proc/sys/net."""
        self.call(lambda: Path("/proc/sys/net", path).write_text(value))

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in a thread that is in the namespace: whatever sockets it makes are its."""
        result: list[T] = []
        failure: list[BaseException] = []

        def body() -> None:
            with Path(self.path).open() as f:
                if LIBC.setns(f.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            try:
                result.append(function())
            except BaseException as e:
                failure.append(e)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if failure:
            raise failure[0]
        return result[0]

    def open(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """Return a socket of that network."""
        return self.call(lambda: socket.socket(family, kind, protocol))

    def connect(self, host: str, port: int, timeout: float = 30) -> socket.socket:
        """Return a connection of TCP, or raise the error of connect(2)."""
        s = self.open(socket.AF_INET6 if ":" in host else socket.AF_INET)
        s.settimeout(timeout)
        try:
            s.connect((host, port))
        except BaseException:
            s.close()
            raise
        return s

    def udp(self, host: str, port: int, timeout: float = 30) -> socket.socket:
        """Return a connected socket of UDP."""
        s = self.open(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(timeout)
        s.connect((host, port))
        return s

    def listen(self, host: str, port: int = 0, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Return a bound socket; of TCP it listens."""
        s = self.open(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((host, port))
        if kind == socket.SOCK_STREAM:
            s.listen(1024)
        return s


def link(a: Namespace, name_a: str, b: Namespace, name_b: str) -> None:
    """Put a cable between two namespaces; both ends are up."""
    a.ip(f"link add {name_a} type veth peer name {name_b} netns {b.holder.pid}", f"link set {name_a} up")
    b.ip(f"link set {name_b} up")


def why_not() -> str | None:
    """Why this machine has no network namespaces for us, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("unshare", "nsenter", "ip"):
        if not any(Path(folder, program).exists() for folder in os.environ.get("PATH", "").split(":")):
            return f"the program {program} is missing"
    probe = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "probe", "type", "veth"], capture_output=True, text=True
    )
    if probe.returncode:
        return f"no network namespace to be had here: {probe.stderr.strip()}"
    return None if Path("/dev/net/tun").exists() else "/dev/net/tun is missing"


def attempt(function: Callable[[], Any]) -> str:
    """Return the name of the error that a call ends with ("ECONNREFUSED"), or "none"."""
    import errno

    try:
        result = function()
    except TimeoutError:
        return "timeout"
    except OSError as e:
        return errno.errorcode.get(e.errno or 0, str(e))
    if isinstance(result, socket.socket):
        result.close()
    return "none"
