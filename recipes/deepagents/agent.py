# SPDX-License-Identifier: Apache-2.0
"""A deep agent whose files and commands are those of a sandbox: it writes a script, runs it, looks at the chart."""

import sys
from pathlib import Path

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from langchain_openai import ChatOpenAI
from pandastack import Sandbox
from pandastack.integrations.deepagents import SandboxBackend

PROMPT = """\
Work in /workspace, and compute by running Python scripts there; never guess a number. Read a traceback, correct the \
script, run it again. Save charts as PNG and look at them with read_file before you answer."""


def answer(question: str, model: BaseChatModel) -> tuple[list[AnyMessage], dict[str, bytes]]:
    """The whole conversation, and the charts by name. One sandbox for it, whatever happens."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "deepagents"})
    try:
        agent = create_deep_agent(model, backend=SandboxBackend(sandbox), system_prompt=PROMPT)
        messages = agent.invoke({"messages": [{"role": "user", "content": question}]})["messages"]
        files = sandbox.filesystem.list("/workspace")
        charts = {f.name: sandbox.filesystem.read(f"/workspace/{f.name}") for f in files if f.name.endswith(".png")}
        return messages, charts
    finally:
        sandbox.kill()


if __name__ == "__main__":
    messages, charts = answer(" ".join(sys.argv[1:]), ChatOpenAI(model="gpt-5", use_responses_api=True))
    print(messages[-1].text)
    for name, chart in charts.items():
        Path(name).write_bytes(chart)
