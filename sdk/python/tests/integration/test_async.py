# SPDX-License-Identifier: Apache-2.0
"""The asyncio side at the real daemon: that it is one, and what only it has."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from harness import Daemon

from pandastack import AsyncClient, AsyncCodeContext, AsyncSandbox, NotFoundError, SandboxTimeout


@pytest.fixture
def run(daemon: Daemon) -> Callable[[Callable[[AsyncClient], Awaitable[None]]], None]:
    async def main(test: Callable[[AsyncClient], Awaitable[None]]) -> None:
        async with AsyncClient(daemon.url, daemon.key) as client:
            await test(client)

    return lambda test: asyncio.run(main(test))


Run = Callable[[Callable[[AsyncClient], Awaitable[None]]], None]


def test_all_of_it(run: Run, tmp_path: Path) -> None:
    async def test(client: AsyncClient) -> None:
        async with await AsyncSandbox.create(client=client, metadata={"by": "asyncio"}) as sandbox:
            assert [s.id for s in await AsyncSandbox.list(metadata={"by": "asyncio"}, client=client)] == [sandbox.id]
            assert (await sandbox.exec("echo hi")).stdout == "hi\n"
            async with await sandbox.create_code_context() as ctx:
                heard: list[str] = []

                async def listener(chunk: str) -> None:
                    await asyncio.sleep(0)
                    heard.append(chunk)

                assert (await ctx.run_code("print('out'); x = 41", on_stdout=listener)).error is None
                assert "".join(heard) == "out\n"
                with pytest.raises(SandboxTimeout):
                    await ctx.run_code("while True: pass", timeout=1)
                async with await sandbox.fork() as child:
                    assert (await AsyncCodeContext(child, ctx.id).run_code("x + 1")).text == "42"
            fs = sandbox.filesystem
            await fs.upload(io.BytesIO(b"\xff\x00" * 1_000_000), "/tmp/a")
            await fs.download("/tmp/a", tmp_path / "a", lambda done, total: None)
            assert (tmp_path / "a").read_bytes() == b"\xff\x00" * 1_000_000
            snapshot = await sandbox.snapshot()
            assert (await client.snapshots.get(snapshot)).sandbox_id == sandbox.id
            await client.snapshots.delete(snapshot)
        with pytest.raises(NotFoundError):
            await sandbox.refresh()

    run(test)


def test_what_goes_on(run: Run) -> None:
    """Commands in the background, and what is followed."""

    async def test(client: AsyncClient) -> None:
        async with await AsyncSandbox.create("base", client=client) as sandbox:
            async with sandbox.follow_logs() as lines, sandbox.filesystem.watch("/tmp") as changes:
                process = await sandbox.commands.start("cat; echo >/tmp/file", stdin=True)
                await process.write("one\ntwo\n", eof=True)
                out: list[str] = []

                async def on_stdout(chunk: str) -> None:
                    out.append(chunk)

                assert await process.stream(on_stdout) == 0
                assert "".join(out) == "one\ntwo\n"
                assert [await lines.__anext__() for _ in range(2)] == ["one", "two"]
                assert (await changes.__anext__()).path == "file"
            async for event in sandbox.follow_events():
                assert event.type == "sandbox.running"
                break
            assert await (await sandbox.commands.get(process.id)).wait() == 0
            assert [p.id for p in await sandbox.commands.list()] == [process.id]
            assert await sandbox.logs(tail=1) == ["two"]
            assert await sandbox.ports() == []

    run(test)


def test_many_at_once(run: Run) -> None:
    async def test(client: AsyncClient) -> None:
        async with await AsyncSandbox.create(client=client) as sandbox:
            answers = await asyncio.gather(*(sandbox.exec(f"echo {i}") for i in range(20)))
            assert [a.stdout for a in answers] == [f"{i}\n" for i in range(20)]

    run(test)


def test_cancelling_ends_the_command(run: Run) -> None:
    async def test(client: AsyncClient) -> None:
        async with await AsyncSandbox.create("base", client=client) as sandbox:
            up = asyncio.Event()
            call = asyncio.ensure_future(
                sandbox.exec_stream("echo up; exec bash -c 'exec -a cancelled sleep 300'", lambda chunk: up.set())
            )
            await up.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await sandbox.exec("while pgrep -f '^[c]ancelled'; do :; done", timeout=30)

    run(test)


def test_explore_that_is_cancelled_leaves_nothing(run: Run) -> None:
    async def test(client: AsyncClient) -> None:
        async with await AsyncSandbox.create("base", client=client) as sandbox:
            best = await sandbox.explore([1, 2], lambda s, n: s.exec(f"exit {n}"), score=lambda r: r.exit_code)
            assert best.outcome.candidate == 2
            await best.winner.kill()
            up = asyncio.Event()

            async def attempt(child: AsyncSandbox, n: int) -> int:
                return await child.exec_stream("echo up; sleep 300", lambda chunk: up.set())

            call = asyncio.ensure_future(sandbox.explore([1, 2], attempt, score=float))
            await up.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert [s.id for s in await AsyncSandbox.list(client=client)] == [sandbox.id]

    run(test)


def test_the_default_client_belongs_to_its_loop(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    async def main() -> None:
        async with await AsyncSandbox.create("base") as sandbox:
            assert (await AsyncSandbox.get(sandbox.id)).client is sandbox.client
        await sandbox.client.aclose()

    asyncio.run(main())
    asyncio.run(main())
