# SPDX-License-Identifier: Apache-2.0
"""What the drivers of foreign kernels share: the agent's socket, the signals, the ways to end.

Theory of operation. A driver is a fork of the zygote that runs no user code: it stands between the agent and a child
process (bash, a Jupyter kernel) that does. It has one thread and one place where it waits, ``Link.wait``. Signals
only leave a byte in a pipe that this wait looks at too, so that nothing is ever interrupted halfway; an interrupt
reaches the child even while the driver waits for the agent to take a frame (``Link.send`` waits there as well).

What became of the child becomes of the driver: it ends with the same exit status or by the same signal
(``end_like``), and the agent, whose child the driver is, reports that.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from . import frames

_RECEIVE_BYTES = 64 << 10
_PR_SET_PDEATHSIG = 1
_TICK_POLL_S = 0.001
_START_FIELD = 22
"""Of /proc/PID/stat: when the process started, in clock ticks since boot."""


class Link:
    """The driver's end of the control socket; owns the socket, and the process's SIGINT and SIGCHLD."""

    def __init__(self, control: socket.socket) -> None:
        self.on_interrupt: Callable[[], None] = _nothing
        """Called by ``wait`` after a SIGINT."""
        self.on_child: Callable[[], None] = _nothing
        """Called by ``wait`` when a child may have ended."""
        self.while_blocked: Callable[[], Iterable[int]] = tuple
        """Called each time before ``send`` waits for the agent; it goes on waiting also for these descriptors."""
        self._control = control
        self._decoder = frames.Decoder()
        self._open = True
        self._wakeup, signalled = socket.socketpair()
        for end in (control, self._wakeup, signalled):
            end.setblocking(False)
        self._signalled = signalled
        signal.set_wakeup_fd(signalled.fileno(), warn_on_full_buffer=False)
        # With a handler, not ignored: a program that we start then has the default action.
        for number in (signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, _ignore)

    def ready(self, child_pid: int) -> None:
        """Send ``k``, once the clock tick in which the child started is over.

        The agent's interrupt kills what has started in the running cell's first tick or later; ticks are 10 ms.
        """
        started = _start_tick(child_pid)
        while _now_tick() <= started:
            time.sleep(_TICK_POLL_S)
        self.send(frames.KERNEL_READY, {"pid": os.getpid()})

    def send(self, kind: bytes, value: Any, *, body: Iterable[bytes] = ()) -> None:
        """Send ``value`` as JSON, after the bytes that ``bundles.detach`` took out of it; wait until all is taken."""
        self._send_all(frames.encode_event(kind, value, body))

    def send_text(self, kind: bytes, text: str) -> None:
        """Send what was written to a standard stream, as UTF-8; wait like ``send``."""
        for chunk in frames.text_chunks(text.encode("utf-8", "backslashreplace")):
            self._send_all(frames.encode(kind, chunk))

    def receive(self) -> tuple[bytes, bytes] | None:
        """Wait for a frame; None when the agent has closed the socket."""
        while True:
            frame = self.next()
            if frame is not None or not self._open:
                return frame
            self.wait(read_control=True)

    def next(self) -> tuple[bytes, bytes] | None:
        """Return the next frame that is here already."""
        return self._decoder.next()

    @property
    def closed(self) -> bool:
        """Whether the agent has closed the socket."""
        return not self._open

    def wait(
        self,
        *fds: int,
        timeout_s: float | None = None,
        read_control: bool = False,
        writable: bool = False,
    ) -> set[int]:
        """Wait for one of several things, handling signals that come meanwhile.

        Args:
            fds: descriptors to be readable.
            timeout_s: seconds; None: for ever.
            read_control: also take in what the agent sends, for ``next``.
            writable: also return when the control socket takes bytes.

        Returns:
            Those of ``fds`` that can be read. Empty after a signal, a frame, the timeout.
        """
        poller = select.poll()
        for fd in (*fds, self._wakeup.fileno()):
            poller.register(fd, select.POLLIN)
        events = (select.POLLIN if read_control and self._open else 0) | (select.POLLOUT if writable else 0)
        if events:
            poller.register(self._control, events)
        found = dict(poller.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))
        if self._wakeup.fileno() in found:
            self.take_signals()
        if read_control and found.get(self._control.fileno(), 0) & ~select.POLLOUT:
            self._read_control()
        return found.keys() & set(fds)

    def take_signals(self) -> None:
        """Handle what has been signalled so far. ``wait`` may miss a signal that came just before what it found."""
        try:
            numbers = self._wakeup.recv(4096)
        except BlockingIOError:
            return
        if signal.SIGCHLD in numbers:
            self.on_child()
        if signal.SIGINT in numbers:
            self.on_interrupt()

    def _send_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._control.send(view) :]
            except BlockingIOError:
                self.wait(*self.while_blocked(), writable=True)
            except OSError:
                # Nobody is left to hear it.
                os._exit(1)

    def _read_control(self) -> None:
        try:
            data = self._control.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._decoder.feed(data)
        else:
            self._open = False


class BadRequestError(ValueError):
    """An ``R`` frame that is none."""


def parse_run(payload: bytes) -> dict[str, Any]:
    """Return the request in an ``R`` frame: ``code`` (text), ``ansi``, ``env`` (names to text), ``allow_stdin``.

    Raises:
        BadRequestError: it is not one.
    """
    try:
        request = json.loads(payload)
        code, env = request["code"], request.get("env") or {}
        if not isinstance(code, str) or not isinstance(env, dict):
            raise TypeError("code must be a string and env an object")
        if not all(isinstance(value, str) for value in env.values()):
            raise TypeError("the values in env must be strings")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRequestError(f"bad request: {error}") from error
    return {
        "code": code,
        "env": env,
        "ansi": bool(request.get("ansi")),
        "allow_stdin": bool(request.get("allow_stdin")),
    }


def die_with_parent() -> None:
    """In a child between fork and exec: be killed when the driver ends, however it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end_like(status: int) -> NoReturn:
    """End this process as a child has ended.

    Args:
        status: the child's exit status, or minus the number of the signal that killed it (as ``subprocess`` says it).
    """
    if status < 0:
        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
        os.kill(os.getpid(), -status)
        status = 128 - status
    os._exit(status)


def _start_tick(pid: int) -> int:
    # Field 2, the name, may hold anything: count from the last parenthesis, which ends it.
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return int(stat.rpartition(")")[2].split()[_START_FIELD - 3])


def _now_tick() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def _ignore(signum: int, frame: FrameType | None) -> None:
    """Do nothing: the byte in the wakeup pipe is what counts."""


def _nothing() -> None:
    """Do nothing, until the driver has something to be told."""


_libc = ctypes.CDLL(None)
