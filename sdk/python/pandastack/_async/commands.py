# SPDX-License-Identifier: Apache-2.0
"""Commands in the background: they go on by themselves, and are heard, answered and ended at any time."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, Callable

from .._files import BYTES
from .._http import path_of, without_none
from ..models import ExecResult, ProcessInfo, items

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox

# How long one request waits for the end of a process; then the next one does.
WAIT_SECONDS = 60


class AsyncProcess(ProcessInfo):
    """A command in the background. Its attributes are what was true when the daemon last told: see refresh()."""

    def __init__(self, sandbox: AsyncSandbox, data: Any) -> None:
        self.sandbox = sandbox
        self._update(data)

    def _update(self, data: Any) -> None:
        self.__dict__.update(vars(ProcessInfo.from_json(data)))

    def _path(self, *action: str) -> str:
        return path_of("sandboxes", self.sandbox.id, "processes", str(self.id), *action)

    async def refresh(self) -> AsyncProcess:
        """Ask what is true now."""
        self._update(await self.sandbox.client.call("GET", self._path()))
        return self

    async def wait(self, timeout: float | None = None) -> int | None:
        """Wait until it has ended, for so many seconds at most; its exit code, None if it still runs."""
        left = math.inf if timeout is None else timeout
        while True:
            params = {"timeout_seconds": math.ceil(min(left, WAIT_SECONDS))}
            self._update(await self.sandbox.client.call("POST", self._path("wait"), params=params, safe=True))
            left -= WAIT_SECONDS
            if self.status == "exited" or left <= 0:
                return self.exit_code

    async def stream(
        self,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        on_lost: Callable[[int], Any] | None = None,
    ) -> int:
        """Hear what it has written from its beginning on, and what it writes until it ends; its exit code.

        A listener that raises ends the stream, and not the command.

        Args:
            on_stdout: Hears what is written; a chunk may hold several lines, or part of one.
            on_stderr: As on_stdout.
            on_lost: Hears, where it happens, how many bytes are lost: only the last 256 KiB are kept.

        Raises:
            SandboxFailed: The machine died.
            ExecInterrupted: The connection broke, or the daemon ended.
        """
        client = self.sandbox.client
        answer = await client.run(self._path("stream"), None, on_stdout, on_stderr, on_lost=on_lost)
        return ExecResult.from_json(answer).exit_code

    async def write(self, data: bytes | str, *, eof: bool = False) -> None:
        """Write to its stdin, which `start(stdin=True)` has left open; with `eof` it ends there."""
        content = data.encode() if isinstance(data, str) else data
        params = without_none(eof=eof or None)
        await self.sandbox.client.call("POST", self._path("stdin"), params=params, content=content, headers=BYTES)

    async def send_signal(self, signal: int | str) -> None:
        """Send a signal, by its number or its name ("INT"), to its process group."""
        await self.sandbox.client.call("POST", self._path("signal"), json={"signal": signal})

    async def kill(self) -> None:
        """End it at once, with all that it started."""
        await self.send_signal("KILL")


class AsyncCommands:
    """The commands of a sandbox: `sandbox.commands`. `run()` is another name of `sandbox.exec()`."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox
        self.run = sandbox.exec

    async def start(
        self,
        cmd: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: bool = False,
        user: str | None = None,
        timeout: float | None = None,
    ) -> AsyncProcess:
        """Start a command (`sh -c`) and leave it running.

        Args:
            cmd: The command.
            cwd: Its folder.
            env: Variables of its environment.
            stdin: Leave its stdin open, for write().
            user: Who it runs as.
            timeout: Its limit in seconds; it has none by default.
        """
        body = without_none(
            cmd=cmd, background=True, cwd=cwd, env=env, stdin=stdin or None, user=user, timeout_seconds=timeout
        )
        path = path_of("sandboxes", self._sandbox.id, "exec")
        return AsyncProcess(self._sandbox, await self._sandbox.client.call("POST", path, json=body))

    async def list(self) -> builtins.list[AsyncProcess]:
        """Those that run, and the last ones that ended; oldest first."""
        answer = await self._sandbox.client.call("GET", path_of("sandboxes", self._sandbox.id, "processes"))
        return [AsyncProcess(self._sandbox, info) for info in items(answer)]

    async def get(self, id: int) -> AsyncProcess:
        """The one of that id."""
        path = path_of("sandboxes", self._sandbox.id, "processes", str(id))
        return AsyncProcess(self._sandbox, await self._sandbox.client.call("GET", path))
