# SPDX-License-Identifier: Apache-2.0
"""Code contexts: kernels that remember."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable

from .._http import path_of, without_none
from ..errors import NotFoundError, SandboxFailed
from ..execution import Execution, Result
from ..models import member

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox

# The daemon's own default is what clients without streams can wait for. A cell that installs packages takes longer.
CELL_SECONDS = 300


def milliseconds(limit: float | None) -> int:
    """A cell's limit, as the API has it."""
    return int((CELL_SECONDS if limit is None else limit) * 1000)


class AsyncCodeContext:
    """A kernel of a sandbox: what a cell defines, the next one sees. Cells run one after the other.

    `sandbox.create_code_context()` makes one. In a sandbox that was forked or restored from a snapshot the kernels
    of the original live on under their ids: `AsyncCodeContext(fork, ctx.id)`.
    """

    def __init__(self, sandbox: AsyncSandbox, id: str, language: str = "python") -> None:
        self.sandbox = sandbox
        self.id = id
        self.language = language

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sandbox.id!r}, {self.id!r}, {self.language!r})"

    async def __aenter__(self) -> AsyncCodeContext:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _path(self, *action: str) -> str:
        return path_of("sandboxes", self.sandbox.id, "repl", "sessions", self.id, *action)

    async def run_code(
        self,
        code: str,
        timeout: float | None = None,
        *,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        on_result: Callable[[Result], Any] | None = None,
        env: dict[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Execution:
        """Run a cell. An exception in it is no exception here: the traceback is `error` of what is returned.

        Args:
            code: The cell.
            timeout: Its limit in seconds, 300 by default. The variables survive it, unless `details["state_lost"]`
                of the exception says otherwise.
            on_stdout: Hears what is written, as it comes; a chunk may hold several lines, or part of one.
            on_stderr: As on_stdout.
            on_result: Hears what is displayed, as it comes.
            env: Variables of the environment for this cell alone.
            timeout_seconds: The same as timeout.

        Raises:
            SandboxTimeout: It took longer.
            SandboxFailed: The machine died.
            ExecInterrupted: The connection broke, or the daemon ended.
        """
        limit = timeout if timeout is not None else timeout_seconds
        body = without_none(code=code, timeout_ms=milliseconds(limit), env=env, stream=True)
        client = self.sandbox.client
        return Execution.from_json(await client.run(self._path("run"), body, on_stdout, on_stderr, on_result))

    async def interrupt(self) -> bool:
        """Interrupt the cell that runs; False if none does."""
        answer = await self.sandbox.client.call("POST", self._path("interrupt"))
        return bool(member(answer, "interrupted"))

    async def restart(self) -> None:
        """Begin anew, with a fresh kernel."""
        await self.sandbox.client.call("POST", self._path("restart"))

    async def close(self) -> None:
        """End the kernel; nothing happens to one that is gone."""
        with contextlib.suppress(NotFoundError, SandboxFailed):
            await self.sandbox.client.call("DELETE", self._path(), safe=True)
