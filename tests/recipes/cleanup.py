# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: what a recipe's test makes says whose it is, has a time to live, and is gone after the test.

It goes by what the daemon answers. A fixture that serves several tests may keep a sandbox for them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from pandastack import Sandbox

Json = dict[str, Any]
_made: list[tuple[Json, Json]] = []  # what was asked for, and what it became
_heard: list[str] = []  # the ids of all


def _hear(response: httpx.Response) -> httpx.Response:
    request = response.request
    if (request.method, request.url.path, response.status_code) == ("POST", "/v1/sandboxes", 201):
        _made.append((json.loads(request.content), response.json()))
        _heard.append(_made[-1][1]["id"])
    return response


def _hearing(send: Callable[..., httpx.Response]) -> Callable[..., httpx.Response]:
    return lambda *args, **options: _hear(send(*args, **options))


def _hearing_too(send: Callable[..., Awaitable[httpx.Response]]) -> Callable[..., Awaitable[httpx.Response]]:
    async def heard(*args: Any, **options: Any) -> httpx.Response:
        return _hear(await send(*args, **options))

    return heard


httpx.Client.send = _hearing(httpx.Client.send)
httpx.AsyncClient.send = _hearing_too(httpx.AsyncClient.send)


@pytest.fixture(autouse=True)
def cleanup(request: pytest.FixtureRequest) -> Iterator[None]:
    """Also when the test's model fails in the middle."""
    _made.clear()
    yield
    there = {box.id for box in Sandbox.list()}
    for asked, made in _made:
        assert made["metadata"].get("recipe") == request.path.parent.name
        assert made["ttl_seconds"] == asked.get("ttl_seconds"), "as it was asked for, and not a default"
        assert made["id"] not in there, "it was left behind"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """An agent that makes sandboxes has made one, and it was heard."""
    makes = "Sandbox.create(" in (session.config.rootpath / "agent.py").read_text()
    if makes and not _heard:
        print("no sandbox was seen to be made")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
