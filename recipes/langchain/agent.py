# SPDX-License-Identifier: Apache-2.0
"""An agent of LangChain's create_agent() with a sandboxed Python; charts are image blocks of the tool's message."""

import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pandastack import Sandbox
from pandastack.integrations.langchain import python_tool


def answer(question: str, model: BaseChatModel) -> list[AnyMessage]:
    """The whole conversation. One sandbox and one kernel for it, whatever happens."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "langchain"})
    try:
        agent = create_agent(
            model,
            tools=[python_tool(sandbox.create_code_context())],
            system_prompt="Compute with run_python; never guess a number. Read a traceback, correct the code, go on.",
        )
        return agent.invoke({"messages": [{"role": "user", "content": question}]})["messages"]
    finally:
        sandbox.kill()


if __name__ == "__main__":
    # OpenAI takes images from a tool in its Responses API.
    messages = answer(" ".join(sys.argv[1:]), ChatOpenAI(model="gpt-5", use_responses_api=True))
    print(messages[-1].text)
    executions = [m.artifact for m in messages if isinstance(m, ToolMessage) and m.artifact]
    charts = [picture for execution in executions for picture in execution.for_model()[1]]
    for number, chart in enumerate(charts, 1):
        Path(f"chart-{number}.png").write_bytes(chart.data)
