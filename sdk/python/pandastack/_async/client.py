# SPDX-License-Identifier: Apache-2.0
"""A daemon: its address, its key and connections to it; and what it has besides sandboxes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Callable

import httpx

from .. import _http, _websocket
from .._config import load_config
from .._gather import Gathered
from .._sse import Decoder, Event
from .._versions import note_version
from ..errors import APIConnectionError, Json
from ..execution import Result
from . import _io
from .catalog import AsyncSnapshots, AsyncTemplates
from .follower import AsyncFollower, T


class AsyncClient:
    """A daemon.

    Sandboxes that are made without one share a default client, which finds the daemon as the command line does:
    PANDASTACK_API and PANDASTACK_API_KEY, else `~/.config/pandastack/config.json`.

    Args:
        api_url: The daemon's address.
        api_key: The key.
        timeout: How long to wait for an answer, in seconds. Commands and cells have limits of their own, and a
            stream may be silent for as long as it lives.
    """

    def __init__(
        self, api_url: str | None = None, api_key: str | None = None, *, timeout: float = 300
    ) -> None:
        self._config = load_config(api_url, api_key)
        self._timeout = timeout
        self._http = httpx.AsyncClient(**_http.client_options(self._config, timeout))
        self.url = self._config.api
        self.snapshots = AsyncSnapshots(self)
        self.templates = AsyncTemplates(self)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def version(self) -> Json:
        """What the daemon is."""
        answer: Json = await self.call("GET", "/version")
        return answer

    # ---- for the rest of the package ----

    async def _send(self, request: httpx.Request, *, safe: bool, stream: bool = False) -> httpx.Response:
        """The answer, which is none of an error. `safe` says that the request may be sent twice."""
        pauses = iter(_http.RETRY_PAUSES)
        while True:
            try:
                response = await self._http.send(request, stream=stream)
                note_version(response.headers)
                good = response.is_success or response.status_code == 101
                if not good:
                    await response.aread()
            except httpx.TransportError as e:
                pause = next(pauses, None)
                if pause is None or not _http.may_retry(e, safe=safe):
                    raise _http.explain(e, self._config) from e
            else:
                if not good:
                    raise _http.refusal(response, self._config)
                return response
            await _io.sleep(pause)

    async def fetch(
        self, method: str, path: str, *, timeout: float | None = None, safe: bool = False, **content: Any
    ) -> httpx.Response:
        """The whole answer to a request; GET is always safe."""
        limit = httpx.Timeout(max(timeout or 0, self._timeout), connect=_http.CONNECT_SECONDS, pool=None)
        request = self._http.build_request(method, path, timeout=limit, **content)
        return await self._send(request, safe=safe or method == "GET")

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """As fetch(): the JSON of the answer."""
        return _http.json_of(await self.fetch(method, path, **options), self._config)

    @contextlib.asynccontextmanager
    async def stream(
        self, method: str, path: str, *, events: bool = False, **content: Any
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The pieces of an answer as they come. Leaving the block closes the connection, which cancels what runs."""
        limit = httpx.Timeout(_http.STREAM_SILENCE_SECONDS, connect=_http.CONNECT_SECONDS, pool=None)
        headers = {"Accept": _http.EVENTS} if events else {}
        request = self._http.build_request(method, path, timeout=limit, headers=headers, **content)
        response = await self._send(request, safe=False, stream=True)
        try:
            if events:
                _http.check_events(response, self._config)
            yield self._pieces(response)
        finally:
            await response.aclose()

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for piece in response.aiter_bytes():
                yield piece
        except httpx.TransportError as e:
            raise _http.explain(e, self._config, streams=True) from e

    async def open_socket(self, path: str, params: Json) -> httpx.Response:
        """A WebSocket: the answer's extension `network_stream` is its connection until the answer is closed."""
        key = _websocket.new_key()
        response = await self._send(
            self._http.build_request("GET", path, params=params, headers=_websocket.handshake(key)),
            safe=False,
            stream=True,
        )
        if response.headers.get("Sec-WebSocket-Accept") != _websocket.accepted(key):
            await response.aclose()
            raise _http.no_socket(self._config)
        return response

    async def events(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[Event]:
        """The events of a stream."""
        decoder = Decoder()
        async for piece in pieces:
            for event in decoder.feed(piece):
                yield event

    def follow(self, route: str, take: Callable[[Event], T], **params: Any) -> AsyncFollower[T]:
        """What the daemon tells as it happens; `take` makes a value of each event."""
        return AsyncFollower(self, route, take, _http.without_none(**params))

    async def _gathered(self, pieces: AsyncIterator[bytes], gathered: Gathered) -> AsyncIterator[Event]:
        lost: APIConnectionError | None = None
        try:
            async for event in self.events(pieces):
                gathered.take(event)
                yield event
        except APIConnectionError as e:
            lost = e
        failure = gathered.failure()
        if failure:
            raise failure from lost

    async def run(
        self,
        path: str,
        body: Json | None,
        on_stdout: Callable[[str], Any] | None,
        on_stderr: Callable[[str], Any] | None,
        on_result: Callable[[Result], Any] | None = None,
        on_lost: Callable[[int], Any] | None = None,
    ) -> Json:
        """Run a command or a cell as a stream, whose events listeners hear at once; its answer.

        Without a body it hears one that was started before.
        """
        gathered = Gathered()
        async with self.stream("POST" if body else "GET", path, events=True, json=body) as pieces:
            async for event in self._gathered(pieces, gathered):
                if event.name == "stdout":
                    await _io.tell(on_stdout, str(event.data.get("chunk", "")))
                elif event.name == "stderr":
                    await _io.tell(on_stderr, str(event.data.get("chunk", "")))
                elif event.name == "result":
                    await _io.tell(on_result, Result(event.data.get("data") or {}))
                elif event.name == "truncated":
                    await _io.tell(on_lost, int(event.data.get("bytes", 0)))
        return gathered.answer()


_default: tuple[object, AsyncClient] | None = None


def default_client() -> AsyncClient:
    """The client of all that was made without one."""
    global _default
    owner = _io.owner()
    if _default is None or _default[0] != owner:
        _default = (owner, AsyncClient())
    return _default[1]
