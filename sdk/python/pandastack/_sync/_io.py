# SPDX-License-Identifier: Apache-2.0
"""What threads do in another way than asyncio: the twin of `_async/_io.py`, and all here that is not generated."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, TypeVar

T = TypeVar("T")

Lock = threading.Lock
sleep = time.sleep


def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call what blocks; we may block."""
    return function(*args)


def tell(listener: Callable[[T], Any] | None, value: T) -> None:
    """Call a listener."""
    if listener:
        listener(value)


def gather(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What the calls return, all made at once; they raise nothing of their own."""
    pool = ThreadPoolExecutor(len(calls))
    try:
        return [future.result() for future in [pool.submit(call) for call in calls]]
    finally:
        pool.shutdown(wait=False)  # after Ctrl-C the caller ends what they wait for


def start(work: Callable[[], None]) -> threading.Thread:
    """Begin work that goes on beside the caller."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def join(work: threading.Thread) -> None:
    """Wait for its end."""
    work.join()


def owner() -> object:
    """Whom connections belong to: they cannot be used from a forked process."""
    return os.getpid()
