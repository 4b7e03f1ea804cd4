# SPDX-License-Identifier: Apache-2.0
"""The official client with `pandastack mcp`: here the test is the model."""

import asyncio
import os

import pytest
from pandastack import Sandbox

import agent
from recipes import story

DAEMON = {name: os.environ[name] for name in ("PATH", "PANDASTACK_API", "PANDASTACK_API_KEY")}


def test_any_client_runs_code() -> None:
    async def converse() -> None:
        async with agent.connect(DAEMON) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"run_code", "run_command", "write_file", "fork_sandbox"} <= names
            texts, pictures, failures = zip(*[await agent.run_code(client, c) for c in story.CELLS], strict=True)
            story.check(texts, [p for drawn in pictures for p in drawn])
            assert failures == (True, False, False)
            (sandbox,) = Sandbox.list()
            assert sandbox.metadata["made-by"] == "mcp"
            assert sandbox.ttl_seconds == 3600

    asyncio.run(converse())
    assert Sandbox.list() == [], "it ended with the connection"


def test_a_client_that_fails_leaves_no_sandbox() -> None:
    async def converse() -> None:
        async with agent.connect(DAEMON) as client:
            await agent.run_code(client, "1")
            raise InterruptedError

    with pytest.raises((InterruptedError, ExceptionGroup)):
        asyncio.run(converse())
    assert Sandbox.list() == []
