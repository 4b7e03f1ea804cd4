# SPDX-License-Identifier: Apache-2.0
"""A helper as a process, with a daemon's end and a network card's end in our hands."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from egress.net import LIBC, Namespace
from egress.world import RESOLVERS

REPO = Path(__file__).resolve().parents[2]
FRAME_MAX = 14 + 65535
SECONDS = 60

GUEST, GATEWAY, NAMESERVERS = "10.0.2.15", "10.0.2.2", ["10.0.2.3", "10.0.2.4", "10.0.2.5"]
GUEST6, GATEWAY6 = "fd70:616e:6461::15", "fd70:616e:6461::2"
MAC = "52:54:00:70:61:6e"
MTU = 65520


def program() -> Path:
    """Return the helper that is tested."""
    return Path(os.environ.get("PANDASTACK_EGRESS") or REPO / "build" / "pandastack-egress")


def is_sanitized() -> bool:
    """Whether it was built with a sanitizer, which makes system calls and takes memory of its own."""
    return program().is_file() and b"__asan_init" in program().read_bytes()


def adopt_orphans() -> None:
    """Have the helper's second process, whose parent ends at once, be our child: we await how it ends."""
    pr_set_child_subreaper = 36
    assert LIBC.prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())


def config(
    *,
    internet: bool = True,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    host_allow: Iterable[str] = (),
    host_deny: Iterable[str] = (),
    resolvers: Iterable[str] = RESOLVERS,
    rate: int = 0,
) -> str:
    """Return what the daemon sends: proto/egress_config.h. With `allow`, that and not the internet."""
    lists = {"allow": allow, "deny": deny, "host-allow": host_allow, "host-deny": host_deny, "resolver": resolvers}
    lines = [f"{word} {rule}" for word, rules in lists.items() for rule in rules]
    return "\n".join(
        ["config", f"internet {'yes' if internet and not list(allow) else 'no'}", *lines, f"rate {rate}", ""]
    )


class Control:
    """A daemon's connection. What the helper tells of its own accord is kept until it is asked for."""

    def __init__(self, s: socket.socket) -> None:
        self.socket = s
        self.socket.settimeout(SECONDS)
        self.denials: list[dict[str, Any]] = []

    def _read(self) -> dict[str, Any]:
        packet = self.socket.recv(1 << 16)
        if not packet:
            raise EOFError
        message: dict[str, Any] = json.loads(packet)
        return message

    def ask(self, text: str | bytes) -> dict[str, Any]:
        """Send a packet; the answer."""
        self.socket.send(text.encode() if isinstance(text, str) else text)
        while "denied" in (message := self._read()):
            self.denials.append(message["denied"] | {"more": message["more"]})
        return message

    def set(self, text: str) -> None:
        """Set another policy."""
        assert self.ask(text) == {"ok": True}

    def stats(self) -> dict[str, int]:
        """Return the counters; all denials so far are in `denials` afterwards."""
        stats: dict[str, int] = self.ask("stats")["stats"]
        return stats

    def take_denials(self) -> list[dict[str, Any]]:
        """Return what was refused since the last call."""
        self.stats()
        taken, self.denials = self.denials, []
        return taken

    def close(self) -> None:
        """Go away, as a daemon that ends does."""
        self.socket.close()


class Helper:
    """The process. `card` is what the engine has."""

    def __init__(self, machine: Namespace, folder: Path, text: str, *, user: int = 0, wait: bool = True) -> None:
        self.socket_path = folder / "egress.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.socket_path))
        listener.listen()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.card, card = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.engine = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        engine = os.pidfd_open(self.engine.pid)
        self.control = Control(ours)
        if text:
            self.control.socket.send(text.encode())
        as_user = [f"--setuid={user}", f"--setgid={user}"] if user else []
        fds = [card.fileno(), listener.fileno(), theirs.fileno(), engine]
        identity = os.readlink(f"/proc/self/fd/{card.fileno()}")
        self.errors = (folder / "stderr").open("w+")
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "${@:5}" 3<&"$1"- 4<&"$2"- 5<&"$3"- 6<&"$4"-', "bash", *map(str, fds),
             *machine.enter(), *as_user, str(program())],
            pass_fds=fds,
            # In its jail there is no process to look for leaks with.
            env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
        )  # fmt: skip
        for s in (listener, theirs, card):
            s.close()
        os.close(engine)
        self.pid = self.process.pid
        if wait:
            # It has answered: so it is where it stays, and whoever started it ends.
            self.control.stats()
            assert self.process.wait(SECONDS) == 0
            self.pid = self._find(identity)
        # A number may be another's once its process has been waited for.
        self.pidfd = os.pidfd_open(self.pid)

    def _find(self, identity: str) -> int:
        """Return the process that has the card: in its own PID namespace it can't say."""
        for entry in Path("/proc").glob("[0-9]*/fd/3"):
            with contextlib.suppress(OSError):
                if os.readlink(entry) == identity:
                    return int(entry.parts[2])
        raise AssertionError(f"no helper: {self.said()}")

    def connect(self) -> Control:
        """Be another daemon."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(str(self.socket_path))
        return Control(s)

    def said(self) -> str:
        """Return what it wrote to stderr."""
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read()

    def status(self) -> dict[str, str]:
        """Return the fields of /proc/PID/status."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def cpu_ticks(self) -> int:
        """Return its time on the processor so far, in its own and the kernel's code."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def await_end(self) -> int:
        """Wait for its end: the exit code, or a negative signal."""
        first = self.process.wait(SECONDS)
        if self.pid == self.process.pid:
            return first
        assert select.select([self.pidfd], [], [], SECONDS)[0], "the helper does not end"
        ended = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        assert ended is not None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def end(self) -> int:
        """End the engine, and await the helper's end."""
        self.engine.communicate()
        return self.await_end()

    def dispose(self) -> None:
        """Leave nothing behind, whatever the test did."""
        self.engine.communicate()
        self.card.close()
        self.control.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        os.close(self.pidfd)
        self.process.kill()
        self.process.wait()
        self.errors.close()


class Guest(Namespace):
    """A sandbox without its machine: this computer's kernel, behind the helper's card, so that all real programs work."""

    def __init__(self, helper: Helper) -> None:
        super().__init__("guest")
        self.helper = helper
        self.tap: int = self.call(self._open_tap)
        self.stop_read, self.stop_write = os.pipe()
        for name, value in {
            "accept_ra": "0",
            "autoconf": "0",
            "router_solicitations": "0",
            "accept_dad": "0",
        }.items():
            self.write(f"ipv6/conf/eth0/{name}", value)
        self.ip(
            f"link set eth0 address {MAC} mtu {MTU}",
            "link set eth0 up",
            f"addr add {GUEST}/32 dev eth0",
            f"addr add {GUEST6}/128 dev eth0 nodad",
            f"route add {GATEWAY} dev eth0",
            f"route add {GATEWAY6} dev eth0",
            f"route add default via {GATEWAY}",
            f"route add default via {GATEWAY6}",
        )
        # The end of the helper is the test's to see.
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self._from_card, self._to_card)]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def _open_tap() -> int:
        tunsetiff, iff_tap, iff_no_pi = 0x400454CA, 2, 0x1000
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(fd, tunsetiff, struct.pack("16sH22x", b"eth0", iff_tap | iff_no_pi))
        return fd

    def _to_card(self) -> None:
        poll = select.poll()
        poll.register(self.tap, select.POLLIN)
        poll.register(self.stop_read, select.POLLIN)
        with contextlib.suppress(OSError):
            while all(fd != self.stop_read for fd, _ in poll.poll()):
                self.helper.card.send(os.read(self.tap, FRAME_MAX))

    def _from_card(self) -> None:
        with contextlib.suppress(OSError):
            while frame := self.helper.card.recv(FRAME_MAX):
                os.write(self.tap, frame)

    def close(self) -> None:
        """Unplug the card."""
        os.write(self.stop_write, b"x")
        with contextlib.suppress(OSError):
            self.helper.card.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for fd in (self.tap, self.stop_read, self.stop_write):
            os.close(fd)
        super().close()


Start = Callable[..., tuple[Guest, Helper]]
