# SPDX-License-Identifier: Apache-2.0
"""The sending end of a kernel's control socket: ordered, thread-safe, whole frames only.

Theory of operation. Text that Python code writes, results and errors leave through one socket, so their
order is exact. Three things make that less simple than ``sendall``.

Interrupts. A KeyboardInterrupt must be able to end a write that blocks because the reader is slow, and must
not leave half a frame behind. Frames therefore go through a queue of unsent bytes: ``_pump`` sends without
blocking and, when the socket is full, waits in ``poll`` with nothing half recorded. Only there is the
interrupt let in. What was not sent stays at the head of the queue and goes out before anything later.

Many small writes. ``print`` writes twice, a progress bar thousands of times. Text is sent at once as long as
writes are few (``BURST_CREDIT`` in quick succession); after that it is collected and sent every
``COALESCE_S`` or ``COALESCE_BYTES``. A thread of the channel guarantees that interval; it is started by the first
such burst only, sleeps on a lock when there is none, and is stopped before a fork.

Forks. A child that user code forks (multiprocessing) shares the socket's description and must never write to
it: there the channel drops its socket and becomes a plain writer on descriptors 1 and 2.

A peer that has gone away ends the process: nobody is left to hear it. Not connected at all (while the
zygote warms up) the channel swallows everything.
"""

from __future__ import annotations

import _thread
import itertools
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from . import cstdio, frames
from .interrupts import Interrupts

BURST_CREDIT = 64
COALESCE_S = 0.01
COALESCE_BYTES = 16 << 10
_LOCK_POLL_S = 0.05
_STOP_TIMEOUT_S = 0.1
_BUFFERS_AT_ONCE = 64

_DESCRIPTORS = {frames.STDOUT: 1, frames.STDERR: 2}
_current: Channel | None = None


class _Flusher:
    """The coalescing thread as its channel sees it."""

    def __init__(self) -> None:
        self.stop = False
        # Locked while there is nothing to do, and until the thread has ended.
        self.wake = _thread.allocate_lock()
        self.gone = _thread.allocate_lock()
        self.wake.acquire()
        self.gone.acquire()


class Channel:
    """Sends text and events of one kernel. Any thread may call ``text`` and ``event``."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._main = _thread.get_ident()
        self.forked = False
        """True in a process that user code forked from the kernel."""
        self._sock: socket.socket | None = None
        self._lock = _thread.RLock()
        self._busy = False
        self._queue: deque[memoryview] = deque()
        # What the lock's owner was given to send while it was sending.
        self._nested: deque[tuple[bytes | None, bytes]] = deque()
        # Collected text, all of one kind.
        self._text: list[bytes] = []
        self._text_bytes = 0
        self._text_kind = frames.STDOUT
        self._credit = BURST_CREDIT
        self._flushed_at = 0.0
        self._written_at = 0.0
        self._flusher: _Flusher | None = None
        self._flusher_armed = False

    def connect(self, sock: socket.socket) -> None:
        """Start sending to ``sock``, which stays the caller's. Once, from the main thread, before any other use."""
        global _current
        self._sock = sock
        self._main = _thread.get_ident()
        _current = self

    def text(self, kind: bytes, data: bytes) -> None:
        """Send what was written to a standard stream.

        Args:
            kind: ``frames.STDOUT`` or ``frames.STDERR``.
            data: bytes, UTF-8 as a rule; any others pass unchanged.

        Blocks while the reader is slow. Raises KeyboardInterrupt from such a wait; the rest of ``data``
        is then dropped at a frame's end.
        """
        if not data:
            return
        if self._sock is None:
            if self.forked:
                _write_all(_DESCRIPTORS[kind], data)
            return
        self._locked(kind, data)

    def event(self, kind: bytes, value: Any, *, body: Iterable[bytes] = (), last: bool = False) -> None:
        """Send ``value`` as JSON, after all text written before it, by Python or by C code.

        Args:
            kind: the frame's type.
            value: what ``json`` can encode.
            body: bytes to be sent ahead of it (``bundles.detach``).
            last: the cell is as good as over: send this together with what follows, so that the reader wakes
                up once. ``flush`` sends it earlier.
        """
        if self.forked:
            _event_in_child(value)
            return
        frame = frames.encode_event(kind, value, body)
        if self._sock is not None:
            self._locked(None, frame, flush_c=True, pump=not last)

    def flush(self) -> None:
        """Send what is collected, now."""
        if self._sock is not None and (self._text or self._queue):
            self._locked(None, b"")

    def disconnect(self) -> None:
        """Send nothing any more; what comes is swallowed."""
        self.stop_flusher()
        self._sock = None

    def _locked(self, kind: bytes | None, data: bytes, *, flush_c: bool = False, pump: bool = True) -> None:
        """Take the lock and send: text of ``kind``, or (None) whole frames."""
        main = _thread.get_ident() == self._main
        if main:
            self._interrupts.held += 1
        try:
            if flush_c:
                cstdio.flush()
            if not self._acquire(main):
                self._nested.append((kind, data))
                return
            try:
                self._take(kind, data, main, pump)
                while self._nested:
                    self._take(*self._nested.popleft(), main, True)
            finally:
                self._release()
        finally:
            if main:
                self._interrupts.release()

    def _acquire(self, main: bool) -> bool:
        """Take the lock; or say False if this thread is busy with it already.

        That is a signal handler or a ``__del__`` that prints while a frame is being sent.
        """
        while not self._lock.acquire(True, _LOCK_POLL_S):
            if main:
                self._interrupts.check()
        if self._busy:
            self._lock.release()
            return False
        self._busy = True
        return True

    def _release(self) -> None:
        self._busy = False
        self._lock.release()

    # Below: with the lock held.

    def _take(self, kind: bytes | None, data: bytes, main: bool, pump: bool) -> None:
        if kind is None:
            if self._text:
                self._flush_text(main, pump)
            if data:
                self._queue.append(memoryview(data))
            if pump:
                self._pump(main)
            return
        if self._text and kind != self._text_kind:
            self._flush_text(main)
        self._text_kind = kind
        self._text.append(data)
        self._text_bytes += len(data)
        now = time.monotonic()
        if now - self._written_at > COALESCE_S:
            self._credit = BURST_CREDIT
        self._written_at = now
        if self._credit > 0:
            self._credit -= 1
            self._flush_text(main)
        elif self._text_bytes >= COALESCE_BYTES or now - self._flushed_at > COALESCE_S:
            self._flush_text(main)
        elif not self._flusher_armed:
            self._arm_flusher(main)

    def _flush_text(self, main: bool, pump: bool = True) -> None:
        if self._text:
            kind = self._text_kind
            data = self._text[0] if len(self._text) == 1 else b"".join(self._text)
            self._text.clear()
            self._text_bytes = 0
            if len(data) <= frames.TEXT_CHUNK_BYTES:
                self._queue.append(memoryview(frames.encode(kind, data)))
            else:
                for chunk in frames.text_chunks(data):
                    self._queue.append(memoryview(frames.encode(kind, chunk)))
                    self._pump(main)
        if pump:
            self._pump(main)
        self._flushed_at = time.monotonic()

    def _pump(self, main: bool) -> None:
        """Send the queue. On KeyboardInterrupt what is left stays queued, to the byte."""
        queue = self._queue
        sock = self._sock
        while queue and sock is not None:
            try:
                if len(queue) == 1:
                    sent = sock.send(queue[0], socket.MSG_DONTWAIT)
                else:
                    sent = sock.sendmsg(itertools.islice(queue, _BUFFERS_AT_ONCE), (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            except OSError:
                os._exit(1)
            if not sent:
                self._wait_writable(sock, main)
            while sent:
                head = queue[0]
                if sent < len(head):
                    queue[0] = head[sent:]
                    break
                sent -= len(head)
                queue.popleft()

    def _wait_writable(self, sock: socket.socket, main: bool) -> None:
        if main:
            self._interrupts.wait(sock.fileno(), select.POLLOUT)
            return
        poller = select.poll()
        poller.register(sock, select.POLLOUT)
        poller.poll()

    # The coalescing thread.

    def _arm_flusher(self, main: bool) -> None:
        self._flusher_armed = True
        if self._flusher is not None:
            self._flusher.wake.release()
            return
        self._flusher = _Flusher()
        try:
            _thread.start_new_thread(self._flush_loop, (self._flusher,))
        except RuntimeError:
            # There can be no more threads, or the interpreter is about to end: then nothing is collected.
            self._flusher = None
            self._flusher_armed = False
            self._flush_text(main)

    def _flush_loop(self, flusher: _Flusher) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not flusher.stop:
            time.sleep(COALESCE_S)
            self._acquire(False)
            self._flusher_armed = False
            try:
                self._flush_text(False)
            finally:
                self._release()
            flusher.wake.acquire()
        flusher.gone.release()

    def stop_flusher(self) -> None:
        """Send collected text and end the coalescing thread (the next burst starts another). For forks."""
        self.flush()
        flusher, self._flusher = self._flusher, None
        self._flusher_armed = False
        if flusher is not None:
            flusher.stop = True
            if flusher.wake.locked():
                flusher.wake.release()
            # A thread blocked by a slow reader is left behind: the child does not need it gone.
            flusher.gone.acquire(True, _STOP_TIMEOUT_S)

    def become_child(self) -> None:
        """In a process that user code has forked: leave the socket alone, write to descriptors 1 and 2."""
        self.forked = True
        self._lock = _thread.RLock()
        self._busy = False
        self._queue.clear()
        self._nested.clear()
        self._text.clear()
        self._text_bytes = 0
        self._flusher = None
        self._flusher_armed = False
        self._interrupts.disarm()
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _event_in_child(value: Any) -> None:
    """Show an event of a forked child as text, the only thing it can still be."""
    if value.get("type") == "error":
        _write_all(2, (value["traceback"] + "\n").encode("utf-8", "backslashreplace"))
    elif value.get("type") == "result" and "text/plain" in value["data"]:
        _write_all(1, (value["data"]["text/plain"] + "\n").encode("utf-8", "backslashreplace"))


def _before_fork() -> None:
    if _current is not None:
        _current.stop_flusher()


def _after_fork_in_child() -> None:
    if _current is not None:
        _current.become_child()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
