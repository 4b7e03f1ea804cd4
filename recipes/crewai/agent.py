# SPDX-License-Identifier: Apache-2.0
"""A crew whose analyst computes in a sandbox. A tool of CrewAI gives text; charts follow as a message with images."""

import os
import sys

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")  # before crewai is imported
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")

from crewai import LLM, Agent, Crew, Task
from crewai.crews import CrewOutput
from crewai.hooks import LLMCallHookContext, register_before_llm_call_hook, unregister_before_llm_call_hook
from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool, tool
from pandastack import CodeContext, Picture, Sandbox


def python_tool(ctx: CodeContext, drawn: list[Picture]) -> BaseTool:
    @tool("run_python")
    def run_python(code: str) -> str:
        """Run Python. Variables stay from one call to the next; the last value and charts are shown to you."""
        text, pictures = ctx.run_code(code).for_model()
        drawn.extend(pictures)
        return text

    run_python.cache_function = lambda *_: False  # the same code may give something else the next time
    return run_python


def build_crew(question: str, llm: BaseLLM, ctx: CodeContext, drawn: list[Picture]) -> Crew:
    analyst = Agent(
        role="Data analyst",
        goal="Answer with figures that were computed",
        backstory="You compute with run_python and never guess. You read a traceback, correct the code and go on.",
        tools=[python_tool(ctx, drawn)],
        llm=llm,
    )
    task = Task(description=question, expected_output="The answer, in a sentence or two", agent=analyst)
    return Crew(agents=[analyst], tasks=[task])


def answer(question: str, llm: BaseLLM) -> CrewOutput:
    """What the crew came to. One sandbox and one kernel for it, whatever happens."""
    drawn: list[Picture] = []

    def show_charts(call: LLMCallHookContext) -> None:
        """Before the model is asked: what was drawn since the last time."""
        if call.llm is llm and drawn:
            images = [{"type": "image_url", "image_url": {"url": picture.url}} for picture in drawn]
            text = {"type": "text", "text": "This is what was drawn:"}
            call.messages.append({"role": "user", "content": [text, *images]})
            drawn.clear()

    register_before_llm_call_hook(show_charts)
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "crewai"})
    try:
        return build_crew(question, llm, sandbox.create_code_context(), drawn).kickoff()
    finally:
        sandbox.kill()
        unregister_before_llm_call_hook(show_charts)


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:]), LLM(model="openai/gpt-5")).raw)
