# SPDX-License-Identifier: Apache-2.0
"""AutoGen: a code executor in place of the local one. Needs autogen-core."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult

from .. import AsyncCodeContext, AsyncSandbox, Picture

SHELLS = ("sh", "bash", "shell")


@dataclass
class SandboxCodeResult(CodeResult):
    """A result with what was drawn."""

    pictures: list[Picture] = field(default_factory=list[Picture])


class SandboxCodeExecutor(CodeExecutor):
    """Runs Python blocks in one kernel, which remembers, and shell blocks as commands beside it.

    `start()` makes the kernel and `stop()` ends it, as `async with` does; the sandbox is its owner's to kill.
    """

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox
        self._ctx: AsyncCodeContext | None = None

    async def start(self) -> None:
        """Make the kernel."""
        self._ctx = self._ctx or await self._sandbox.create_code_context()

    async def stop(self) -> None:
        """End it."""
        ctx, self._ctx = self._ctx, None
        if ctx:
            await ctx.close()

    async def restart(self) -> None:
        """Forget all variables."""
        await self.stop()
        await self.start()

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> SandboxCodeResult:
        """Run blocks up to the first that fails. Cancelling ends what runs."""
        running = asyncio.ensure_future(self._run_all(code_blocks))
        cancellation_token.link_future(running)
        return await running

    async def _run_all(self, blocks: list[CodeBlock]) -> SandboxCodeResult:
        whole = SandboxCodeResult(0, "")
        for block in blocks:
            one = await self._run(block)
            whole.exit_code = one.exit_code
            whole.output = f"{whole.output}\n{one.output}".lstrip("\n")
            whole.pictures += one.pictures
            if one.exit_code:
                break
        return whole

    async def _run(self, block: CodeBlock) -> SandboxCodeResult:
        language = block.language.lower()
        if language in SHELLS:
            done = await self._sandbox.exec(block.code)
            return SandboxCodeResult(done.exit_code, done.stdout + done.stderr)
        if language not in ("python", "py"):
            raise ValueError(f"there is no {block.language} here, only python and {', '.join(SHELLS)}")
        await self.start()
        assert self._ctx
        execution = await self._ctx.run_code(block.code)
        text, pictures = execution.for_model()
        return SandboxCodeResult(execution.exit_code, text, pictures)
