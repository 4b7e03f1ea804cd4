# SPDX-License-Identifier: Apache-2.0
"""A Pydantic AI agent whose dependency is a kernel in a sandbox; charts are binary content of the tool's return."""

import sys

from pandastack import CodeContext, Sandbox
from pydantic_ai import Agent, BinaryContent, RunContext
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult

agent = Agent(
    deps_type=CodeContext,
    instructions="Compute with run_python; never guess a number. Read a traceback, correct the code, go on.",
)


@agent.tool
def run_python(run: RunContext[CodeContext], code: str) -> str | list[str | BinaryContent]:
    """Run Python. Variables stay from one call to the next; the last value and charts are shown to you."""
    text, pictures = run.deps.run_code(code).for_model()
    images = [BinaryContent(p.data, media_type=p.mime_type) for p in pictures]
    return [text, *images] if images else text  # a list of text alone would be JSON for the model


def answer(question: str, model: str | Model) -> AgentRunResult[str]:
    """The whole run. One sandbox and one kernel for it, whatever happens."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "pydantic-ai"})
    try:
        return agent.run_sync(question, model=model, deps=sandbox.create_code_context())
    finally:
        sandbox.kill()


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:]), "openai:gpt-5").output)
