# SPDX-License-Identifier: Apache-2.0
"""smolagents: an executor, so that all code that a CodeAgent writes runs in a sandbox. Needs smolagents."""

from __future__ import annotations

from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

from .. import CodeContext, Picture


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
            answer = self._deserialize_final_answer(execution.error_value or "", self.allow_pickle)
            return CodeOutput(answer, execution.stdout, is_final_answer=True)
        text, pictures = execution.for_model()
        if execution.error:
            raise AgentError(text, self.logger)
        self.pictures += pictures
        return CodeOutput(execution.text, execution.stdout + execution.stderr, is_final_answer=False)

    def take_pictures(self) -> list[Picture]:
        """What was drawn, once."""
        taken, self.pictures = self.pictures, []
        return taken
