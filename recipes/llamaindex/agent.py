# SPDX-License-Identifier: Apache-2.0
"""A LlamaIndex FunctionAgent that computes at query time: a FunctionTool with a sandbox; charts are image blocks."""

import asyncio
import sys

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai import OpenAIResponses
from pandastack import AsyncCodeContext, AsyncSandbox


def python_tool(ctx: AsyncCodeContext) -> FunctionTool:
    async def run_python(code: str) -> list[TextBlock | ImageBlock]:
        """Run Python. Variables stay from one call to the next; the last value and charts are shown to you."""
        text, pictures = (await ctx.run_code(code)).for_model()
        images = [ImageBlock(image=p.data, image_mimetype=p.mime_type) for p in pictures]
        return [TextBlock(text=text), *images]

    return FunctionTool.from_defaults(async_fn=run_python)


async def answer(question: str, llm: FunctionCallingLLM) -> AgentOutput:
    """The agent's last word, and all its calls. One sandbox and one kernel for it, whatever happens."""
    sandbox = await AsyncSandbox.create(ttl_seconds=600, metadata={"recipe": "llamaindex"})
    try:
        agent = FunctionAgent(
            tools=[python_tool(await sandbox.create_code_context())],
            llm=llm,
            streaming=False,
            system_prompt="Compute with run_python; never guess a number. Read a traceback, correct the code, go on.",
        )
        return await agent.run(question)
    finally:
        await sandbox.kill()


if __name__ == "__main__":
    print(asyncio.run(answer(" ".join(sys.argv[1:]), OpenAIResponses(model="gpt-5"))))
