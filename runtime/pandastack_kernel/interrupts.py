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

One KeyboardInterrupt is raised per ``BURST_S`` at most. So a burst of signals cannot strike both the
user's code and the handler that cleans up after it, and leaving the cell (``disarm`` in a ``finally``, then
an outer ``except KeyboardInterrupt``) has no window in which a second one could escape.

A KeyboardInterrupt that strikes inside a ``__del__`` or a weak reference's callback is swallowed by Python
itself; the agent may repeat the signal after half a second.
"""

from __future__ import annotations

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

    def install(self) -> None:
        """Make this gate the process's SIGINT handler (and SIGINT's action in programs it starts the default)."""
        signal.signal(signal.SIGINT, self._on_sigint)

    def arm(self) -> None:
        """Let interrupts through: a cell begins. Takes the signal back from a handler the user installed."""
        self.pending = False
        self.waiting = False
        if signal.getsignal(signal.SIGINT) != self._on_sigint:
            self.install()
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
