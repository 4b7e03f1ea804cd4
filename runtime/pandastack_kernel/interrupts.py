# SPDX-License-Identifier: Apache-2.0
"""When a SIGINT becomes a KeyboardInterrupt.

Theory of operation. The agent interrupts a cell with SIGINT. Python runs the handler in the main thread
between two bytecodes, so without care a KeyboardInterrupt could strike anywhere: in the middle of a
frame, after the cell has ended, in the runtime's own bookkeeping. The handler therefore looks at four
flags, which only the main thread writes:

    armed    a cell is running; otherwise the signal is dropped
    held     the main thread is in a critical section (nesting count): the interrupt is kept until it ends
    waiting  inside a critical section, but blocked with nothing half done: raise at once
    pending  an interrupt came while held

A wait is the place where an interrupt could be lost: one that comes when the flags have been looked at and the
system call has not begun does not end that, for the handler runs only after it. So while ``wait`` waits, signals also
leave a byte in a pipe that it looks at (``signal.set_wakeup_fd``, which asyncio uses, too: it gets their bytes).

One KeyboardInterrupt is raised per ``BURST_S`` at most. So a burst of signals cannot strike both the
user's code and the handler that cleans up after it, and leaving the cell (``disarm`` in a ``finally``, then
an outer ``except KeyboardInterrupt``) has no window in which a second one could escape.

A KeyboardInterrupt that strikes inside a ``__del__`` or a weak reference's callback is swallowed by Python
itself; the agent may repeat the signal after half a second.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from types import FrameType

BURST_S = 0.05


class Interrupts:
    """The SIGINT gate of a process. All methods are for the main thread only."""

    def __init__(self) -> None:
        self.armed = False
        self.held = 0
        self.waiting = False
        self.pending = False
        self._raised_at = 0.0
        self._pipe: tuple[int, int] | None = None

    def install(self) -> None:
        """Make this gate the process's SIGINT handler (and SIGINT's action in programs it starts the default)."""
        signal.signal(signal.SIGINT, self._on_sigint)
        self._pipe = None  # that of the process from which this one was forked, if any

    def arm(self) -> None:
        """Let interrupts through: a cell begins. Takes the signal back from a handler the user installed."""
        self.pending = False
        self.waiting = False
        if signal.getsignal(signal.SIGINT) != self._on_sigint:
            signal.signal(signal.SIGINT, self._on_sigint)
        self.armed = True

    def disarm(self) -> None:
        """Drop interrupts from here on: the cell has ended."""
        self.armed = False
        self.pending = False

    def hold(self) -> None:
        """Enter a critical section; pair with ``release`` in a ``finally``."""
        self.held += 1

    def release(self) -> None:
        """Leave a critical section.

        Raises:
            KeyboardInterrupt: one came meanwhile.
        """
        self.held -= 1
        if self.pending and not self.held:
            self._raise()

    def check(self) -> None:
        """Inside a critical section, at a point where nothing is half done: raise what is pending."""
        if self.pending:
            self._raise()

    def wait(self, descriptor: int, events: int) -> None:
        """Inside a critical section, where nothing is half done: block until poll(2) has one of ``events``.

        Raises:
            KeyboardInterrupt: one is pending, or came meanwhile.
        """
        if self._pipe is None:
            self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        woken, wakes = self._pipe
        poller = select.poll()
        poller.register(descriptor, events)
        poller.register(woken, select.POLLIN)
        others = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        try:
            self.waiting = True
            self.check()
            while all(ready != descriptor for ready, _ in poller.poll()):
                _pass_on(woken, others)
        finally:
            self.waiting = False
            signal.set_wakeup_fd(others)
            _pass_on(woken, others)

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        if not self.armed:
            return
        if self.held and not self.waiting:
            self.pending = True
            return
        self._raise()

    def _raise(self) -> None:
        self.pending = False
        now = time.monotonic()
        if not self.armed or now - self._raised_at < BURST_S:
            return
        self._raised_at = now
        self.waiting = False
        raise KeyboardInterrupt


def _pass_on(source: int, target: int) -> None:
    """Empty a pipe of signals, into the one that was there before, if one was."""
    with contextlib.suppress(OSError):  # it is empty; or its owner has left it full, or closed it
        signals = os.read(source, 4096)
        if target >= 0:
            os.write(target, signals)
