# SPDX-License-Identifier: Apache-2.0
"""Terminals, at the real daemon."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from harness import Daemon

from pandastack import (
    AsyncClient,
    AsyncSandbox,
    BadRequestError,
    Client,
    ExecInterrupted,
    NotFoundError,
    Pty,
    Sandbox,
)


class Screen:
    """What a terminal has shown."""

    def __init__(self) -> None:
        self._bytes = b""
        self._more = threading.Condition()

    def __call__(self, data: bytes) -> None:
        with self._more:
            self._bytes += data
            self._more.notify_all()

    def wait_for(self, words: bytes) -> None:
        with self._more:
            assert self._more.wait_for(lambda: words in self._bytes, 60), self._bytes

    @property
    def text(self) -> str:
        return self._bytes.decode().replace("\r\n", "\n")

    @property
    def bytes(self) -> bytes:
        return self._bytes


@pytest.fixture(scope="module")
def small(client: Client) -> Iterator[Sandbox]:
    with Sandbox.create("base", client=client, env={"WORD": "of the sandbox"}) as sandbox:
        yield sandbox


@pytest.fixture
def screen() -> Screen:
    return Screen()


def test_a_shell(small: Sandbox, screen: Screen) -> None:
    with small.open_pty(screen, rows=50, cols=132) as pty:
        pty.write("echo $((6 * 7)) $WORD; stty size; tty\n")
        screen.wait_for(b"50 132\r\n/dev/pts/")
        pty.resize(40, 100)
        pty.write("stty size; exit 3\n")
        assert pty.wait() == 3
    assert "42 of the sandbox\n" in screen.text
    assert "40 100\n" in screen.text


def test_a_command(small: Sandbox, screen: Screen) -> None:
    pty = small.open_pty(screen, cmd="pwd; id -un; test -t 0 && echo typed; exit 4", cwd="/tmp", user="nobody")
    assert pty.wait() == 4
    assert screen.text == "/tmp\nnobody\ntyped\n"
    assert small.open_pty(screen, cmd="kill -9 $$").wait() == 137


def test_bytes_stay_bytes(small: Sandbox, screen: Screen) -> None:
    data = bytes(range(256)) * 400
    pty = small.open_pty(screen, cmd=f"stty raw -echo; printf ready; head -c {len(data)}")
    screen.wait_for(b"ready")
    pty.write(data)
    assert pty.wait() == 0
    assert screen.bytes == b"ready" + data


def test_a_key_interrupts(small: Sandbox, screen: Screen) -> None:
    pty = small.open_pty(screen, cmd="trap 'echo bye; exit 5' INT; echo up; while :; do sleep 0.1; done")
    screen.wait_for(b"up")
    pty.write("\x03")
    assert pty.wait() == 5
    assert screen.text == "up\n^Cbye\n"


def test_closing_it_ends_what_runs_in_it(small: Sandbox, screen: Screen) -> None:
    with small.open_pty(screen, cmd="echo up; exec bash -c 'exec -a in-the-terminal sleep 300'") as pty:
        screen.wait_for(b"up")
    with pytest.raises(ExecInterrupted):
        pty.wait()
    small.exec("while pgrep -f '^[i]n-the-terminal'; do :; done", timeout=30)


def test_a_listener_may_answer(small: Sandbox) -> None:
    """Who waits for words answers them where they are heard."""
    opened = threading.Event()
    made: list[Pty] = []
    said: list[bytes] = []

    def listener(data: bytes) -> None:
        said.append(data)
        if b"name? " in data and opened.wait(60):
            made[0].write("panda\n")

    made.append(small.open_pty(listener, cmd="stty -echo; printf 'name? '; read x; echo hello $x"))
    opened.set()
    assert made[0].wait() == 0
    assert b"".join(said) == b"name? hello panda\r\n"


def test_much_of_it(small: Sandbox) -> None:
    sizes: list[int] = []
    command = "head -c 3000000 /dev/zero | tr '\\0' x"
    assert small.open_pty(lambda data: sizes.append(len(data)), cmd=command).wait() == 0
    assert sum(sizes) == 3_000_000


def test_a_sandbox_that_is_killed_under_it(client: Client, screen: Screen) -> None:
    with Sandbox.create("base", client=client) as sandbox:
        pty = sandbox.open_pty(screen, cmd="echo up; sleep 300")
        screen.wait_for(b"up")
        sandbox.kill()
        with pytest.raises(ExecInterrupted, match="deleted"):
            pty.wait()
        with pytest.raises(NotFoundError):
            sandbox.open_pty(screen)


def test_what_is_refused(small: Sandbox, screen: Screen) -> None:
    with pytest.raises(BadRequestError, match="rows"):
        small.open_pty(screen, rows=0)
    with pytest.raises(ExecInterrupted, match="/nowhere"):
        small.open_pty(screen, cwd="/nowhere").wait()
    with small.open_pty(screen, cmd="sleep 300") as pty:
        pty.resize(-1, 80)
        with pytest.raises(ExecInterrupted, match="rows"):
            pty.wait()


def test_asyncio(daemon: Daemon, small: Sandbox) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url, daemon.key) as client:
            sandbox = await AsyncSandbox.get(small.id, client=client)
            shown = b""
            up = asyncio.Event()

            async def listener(data: bytes) -> None:
                nonlocal shown
                shown += data
                if b"up" in shown:
                    up.set()

            async with await sandbox.open_pty(listener, cmd="stty -echo; echo up; cat; exit 6") as pty:
                await up.wait()
                await pty.resize(10, 20)
                await pty.write("é\n\x04")
                assert await pty.wait() == 6
            assert shown.decode() == "up\r\né\r\n"
            async with await sandbox.open_pty(listener) as pty:
                pass
            with pytest.raises(ExecInterrupted):
                await pty.wait()

    asyncio.run(main())
