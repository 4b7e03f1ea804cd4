# SPDX-License-Identifier: Apache-2.0
"""What the daemon tells as it happens: events, lines of a log, changes in a folder."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

from .._sse import Event
from ..errors import Json, make_error

if TYPE_CHECKING:
    from .client import AsyncClient

T = TypeVar("T")


async def listen(
    client: AsyncClient, path: str, params: Json, take: Callable[[Event], Any]
) -> AsyncGenerator[Any]:
    """First None, when the connection is there; then what comes.

    It knows no follower, so one that is let go of is freed at once, and not by a garbage collector in the middle of
    whatever.
    """
    async with client.stream("GET", path, events=True, params=params) as pieces:
        yield None
        async for event in client.events(pieces):
            if event.name == "error":
                raise make_error(event.data)
            yield take(event)


class AsyncFollower(Generic[T]):
    """An iterator over what happens, until there can be no more of it.

    As a context manager it listens from the beginning of the block on, and its connection is closed at the end:

    ```python
    async with sandbox.follow_logs() as lines:
        async for line in lines:
            if "ready" in line:
                break
    ```
    """

    def __init__(self, client: AsyncClient, path: str, take: Callable[[Event], T], params: Json) -> None:
        self._client = client
        self._path = path
        self._take = take
        self._params = params
        self._told: AsyncGenerator[Any] | None = None

    async def _open(self) -> AsyncGenerator[Any]:
        if self._told is None:
            self._told = listen(self._client, self._path, self._params, self._take)
            await self._told.__anext__()
        return self._told

    async def __aenter__(self) -> AsyncFollower[T]:
        await self._open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncFollower[T]:
        return self

    async def __anext__(self) -> T:
        told: T = await (await self._open()).__anext__()
        return told

    async def aclose(self) -> None:
        """Close the connection; there is nothing more to come then."""
        if self._told:
            await self._told.aclose()
