# SPDX-License-Identifier: Apache-2.0
"""A Jupyter kernel's process and its sockets.

Theory of operation. The kernel gets a connection file and binds five ZeroMQ sockets, all of them Unix sockets in a
private directory: no port is opened. jupyter_client's ``Session`` makes and signs the messages.

Loss. A kernel publishes (iopub) without waiting: ZeroMQ throws messages away once its queue for a subscriber is full,
1000 messages as a rule. So this end takes everything at once, without a limit of its own in ZeroMQ, into ``Inbox``;
when that holds more than the agent takes in time, the kernel is stopped (SIGSTOP) until there is room again. What
remains: a kernel that publishes more than its queue holds before this process gets the processor once.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import string
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.session import Session

from . import driver
from .kernelspecs import KernelSpec

INBOX_BYTES = 32 << 20
"""From here on the kernel is stopped; it goes on at half of it."""

_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
_MAX_DIRECTORY_CHARS = 80
"""The name of a Unix socket has at most 107 bytes."""


class KernelProcess:
    """A running kernel. Its process group is its own; it dies with this process."""

    def __init__(self, spec: KernelSpec) -> None:
        self._by_message = spec.interrupt_by_message
        directory = tempfile.mkdtemp(prefix="jupyter-")
        if len(directory) > _MAX_DIRECTORY_CHARS:
            Path(directory).rmdir()
            directory = tempfile.mkdtemp(prefix="jupyter-", dir="/tmp")
        self._directory = directory
        key = secrets.token_hex(32)
        address = str(Path(directory, "socket"))
        ports = {f"{name}_port": number for number, name in enumerate(_CHANNELS, 1)}
        info = {"transport": "ipc", "ip": address, **ports, "key": key, "signature_scheme": "hmac-sha256"}
        file = Path(directory, "connection.json")
        file.write_text(json.dumps({**info, "kernel_name": spec.name}))
        file.chmod(0o600)
        self._stopped = False
        env = {name: string.Template(value).safe_substitute(os.environ) for name, value in spec.env.items()}
        self._process = subprocess.Popen(
            spec.command(str(file)),
            env={**os.environ, **env, "JPY_PARENT_PID": str(os.getpid())},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=driver.die_with_parent,
        )
        self.session = Session(key=key.encode(), username="pandastack")
        self._context = zmq.Context()
        self._sockets = {
            name: self._connect(name, f"ipc://{address}-{info[f'{name}_port']}") for name in _CHANNELS[:4]
        }
        self._inbox: deque[tuple[str, list[bytes]]] = deque()
        self._inbox_bytes = 0

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def poll(self) -> int | None:
        """Return how the process has ended, as ``subprocess`` says it; None while it runs."""
        return self._process.poll()

    def send(self, channel: str, kind: str, content: dict[str, Any], parent: Any = None) -> str:
        """Send a message; return its id."""
        message = self.session.send(self._sockets[channel], kind, content, parent=parent)
        return str(message["header"]["msg_id"])

    def receive(self) -> tuple[str, dict[str, Any]] | None:
        """Return the next message and its channel, None if none is here. What is no message is dropped."""
        self.collect()
        while self._inbox:
            channel, parts = self._inbox.popleft()
            self._inbox_bytes -= sum(map(len, parts))
            self._hold_back()
            try:
                _, parts = self.session.feed_identities(parts)
                return channel, self.session.deserialize(parts)
            except (ValueError, TypeError, KeyError):
                continue
        return None

    def collect(self) -> list[int]:
        """Take in what has come; return the descriptors that tell when to do so again.

        ZeroMQ's descriptors announce only what is new: wait for them after this, with nothing in between.
        """
        for name, sock in self._sockets.items():
            while True:
                try:
                    parts = sock.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                self._inbox.append((name, parts))
                self._inbox_bytes += sum(map(len, parts))
        self._hold_back()
        return [sock.fileno() for sock in self._sockets.values()]

    def interrupt(self) -> None:
        """Interrupt the running cell, in the way that the kernel wants."""
        if self._by_message:
            self.send("control", "interrupt_request", {})
        else:
            self._signal(signal.SIGINT)
        if self._stopped:
            self._signal(signal.SIGCONT)
            self._stopped = False

    def close(self, timeout_s: float, wait: Callable[[float], None]) -> None:
        """Have the kernel end by itself, or end it; ``wait`` waits for a time or a signal."""
        if self.poll() is None:
            if self._stopped:
                self._signal(signal.SIGCONT)
            self.send("control", "shutdown_request", {"restart": False})
            wait(timeout_s)
        if self.poll() is None:
            self._signal(signal.SIGKILL)
        self._context.destroy(linger=0)
        self.clean()

    def clean(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _connect(self, name: str, address: str) -> zmq.Socket[bytes]:
        sock = self._context.socket(zmq.SUB if name == "iopub" else zmq.DEALER)
        sock.linger = 0
        sock.rcvhwm = 0
        if name == "iopub":
            sock.subscribe(b"")
        else:
            sock.identity = self.session.bsession
        sock.connect(address)
        return sock

    def _hold_back(self) -> None:
        """Stop the kernel while too much of what it said is still here."""
        if self._inbox_bytes > INBOX_BYTES and not self._stopped:
            self._stopped = True
            self._signal(signal.SIGSTOP)
        elif self._stopped and self._inbox_bytes < INBOX_BYTES // 2:
            self._stopped = False
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass
