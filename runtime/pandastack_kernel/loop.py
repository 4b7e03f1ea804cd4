# SPDX-License-Identifier: Apache-2.0
"""The asyncio loop of cells with a top-level ``await``.

One loop per kernel, made when first needed, so that what one cell starts (tasks, connections, servers) the
next can use. A cell without ``await`` runs outside of it: there ``asyncio.run`` works as in a script. Once
the loop exists it also runs while the kernel waits for its next request, as background tasks expect.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import traceback
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

CANCEL_GRACE_S = 1.0


with warnings.catch_warnings():
    # Policies are on their way out after Python 3.14; until then they are how get_event_loop can be answered.
    warnings.simplefilter("ignore", DeprecationWarning)
    _DefaultPolicy: Any = asyncio.DefaultEventLoopPolicy


class _Policy(_DefaultPolicy):
    """Answers ``asyncio.get_event_loop()`` in the main thread with the kernel's loop, as in a notebook."""

    def __init__(self, open_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        super().__init__()
        self._open_loop = open_loop
        self._main: asyncio.AbstractEventLoop | None = None

    def get_event_loop(self) -> Any:
        """Return the thread's loop; in the main thread there always is one."""
        if threading.current_thread() is not threading.main_thread():
            return super().get_event_loop()
        if self._main is None or self._main.is_closed():
            return self._open_loop()
        return self._main

    def set_event_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Set the thread's loop."""
        if threading.current_thread() is threading.main_thread():
            self._main = loop
        super().set_event_loop(loop)


class CellLoop:
    """Runs the coroutines of cells; main thread only."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self.cancelling = False
        """The running cell is being cancelled, because of an interrupt."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.set_event_loop_policy(_Policy(self._open))

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end and return its result.

        An interrupt that finds the loop waiting cancels the coroutine where it awaits, so that it can clean
        up and the traceback shows that place.

        Raises:
            KeyboardInterrupt: the coroutine did not end within CANCEL_GRACE_S of being cancelled.
        """
        loop = self._open()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            if task.done():
                raise
            self.cancelling = True
            try:
                task.cancel()
                loop.run_until_complete(asyncio.wait((task,), timeout=CANCEL_GRACE_S))
            finally:
                self.cancelling = False
            if not task.done() or task.cancelled():
                raise
            return task.result()

    def wait_readable(self, sock: socket.socket) -> None:
        """Return when ``sock`` can be read, running background tasks until then; at once if there is no loop."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        loop.add_reader(sock, loop.stop)
        try:
            while True:
                try:
                    loop.run_forever()
                    return
                except BaseException:
                    # SystemExit and the like out of a background task: its own, not the kernel's.
                    traceback.print_exc()
        finally:
            if not loop.is_closed():
                loop.remove_reader(sock)

    def close(self) -> None:
        """Close the loop; the next coroutine gets a new one. Loops do not survive a fork."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None
            asyncio.set_event_loop(None)

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        return self._loop
