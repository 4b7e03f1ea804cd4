# SPDX-License-Identifier: Apache-2.0
"""What asyncio does in another way than threads. `_sync/_io.py` is its twin; all else there is generated."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Callable, TypeVar

T = TypeVar("T")

Lock = asyncio.Lock
sleep = asyncio.sleep
in_thread = asyncio.to_thread


async def tell(listener: Callable[[T], Any] | None, value: T) -> None:
    """Call a listener, which may be a coroutine function."""
    outcome = listener(value) if listener else None
    if inspect.isawaitable(outcome):
        await outcome


async def gather(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """What the calls return, all made at once; they raise nothing of their own."""
    return await asyncio.gather(*(call() for call in calls))


def start(work: Callable[[], Coroutine[None, None, None]]) -> asyncio.Task[None]:
    """Begin work that goes on beside the caller."""
    return asyncio.ensure_future(work())


async def join(work: asyncio.Task[None]) -> None:
    """Wait for its end. Who is cancelled here does not cancel it."""
    await asyncio.wait({work})


def owner() -> object:
    """Whom connections belong to: they cannot be used from another event loop."""
    return asyncio.get_running_loop()
