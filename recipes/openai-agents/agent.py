# SPDX-License-Identifier: Apache-2.0
"""An agent of the OpenAI Agents SDK with a sandboxed Python; charts are images of the tool's output."""

import sys

from agents import Agent, Model, RunConfig, Runner, RunResult, ToolOutputImage, ToolOutputText, function_tool
from pandastack import CodeContext, Sandbox


def build_agent(ctx: CodeContext) -> Agent:
    @function_tool
    def run_python(code: str) -> list[ToolOutputText | ToolOutputImage]:
        """Run Python. Variables stay from one call to the next; the last value and charts are shown to you."""
        text, pictures = ctx.run_code(code).for_model()
        return [ToolOutputText(text=text), *(ToolOutputImage(image_url=p.url) for p in pictures)]

    return Agent(
        name="Analyst",
        instructions="Compute with run_python; never guess a number. Read a traceback, correct the code, go on.",
        tools=[run_python],
    )


def answer(question: str, model: str | Model) -> RunResult:
    """The whole run. One sandbox and one kernel for it, whatever happens."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "openai-agents"})
    try:
        agent = build_agent(sandbox.create_code_context())
        return Runner.run_sync(agent, question, run_config=RunConfig(model=model, tracing_disabled=True))
    finally:
        sandbox.kill()


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:]), "gpt-5").final_output)
