# SPDX-License-Identifier: Apache-2.0
"""smolagents: an executor, so that all code that a CodeAgent writes runs in a sandbox. Needs smolagents."""

from __future__ import annotations

from typing import Any

from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

from .. import CodeContext, Execution, Picture


class SandboxExecutor(RemotePythonExecutor):
    """`CodeAgent(executor=SandboxExecutor(ctx))`. Tools go there as source; the final answer comes back as JSON.

    Attributes:
        pictures: What was drawn since somebody last took them; a step callback shows them to the model.
    """

    def __init__(self, ctx: CodeContext, logger: AgentLogger | None = None) -> None:
        super().__init__([], logger or AgentLogger(level=LogLevel.ERROR), allow_pickle=False)
        self._ctx = ctx
        self.pictures: list[Picture] = []

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Run a step's code. A traceback is an AgentError, which the model gets to read."""
        execution = self._ctx.run_code(code)
        if execution.error_name == self.FINAL_ANSWER_EXCEPTION:
            return CodeOutput(self._final_answer(execution), execution.stdout, is_final_answer=True)
        text, pictures = execution.for_model()
        if execution.error:
            raise AgentError(text, self.logger)
        self.pictures += pictures
        return CodeOutput(execution.text, execution.stdout + execution.stderr, is_final_answer=False)

    def _final_answer(self, execution: Execution) -> Any:
        try:
            return self._deserialize_final_answer(execution.error_value or "", self.allow_pickle)
        except Exception as e:  # the guest may send anything
            raise AgentError(f"what came back is no final answer: {e}", self.logger) from e

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Install what tools want and the template has not; pip would take its time to find nothing to do."""
        there = '__import__("importlib.metadata").metadata.distributions'
        missing = self._ctx.run_code(f"[p for p in {additional_imports!r} if not any({there}(name=p))]").text or ""
        super().install_packages([p for p in additional_imports if repr(p) in missing])
        return additional_imports

    def take_pictures(self) -> list[Picture]:
        """What was drawn, once."""
        taken, self.pictures = self.pictures, []
        return taken
