# SPDX-License-Identifier: Apache-2.0
"""An AutoGen team: one agent writes code, another runs it in a sandbox and answers with text and pictures."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence

from autogen_agentchat.agents import ApprovalRequest, ApprovalResponse, AssistantAgent, CodeExecutorAgent
from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, MultiModalMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, Image
from autogen_core.code_executor import CodeBlock, CodeResult
from autogen_core.models import ChatCompletionClient
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pandastack import AsyncSandbox
from pandastack.integrations.autogen import SandboxCodeExecutor, SandboxCodeResult

PROMPT = """\
Compute with Python: a message's ```python block is run, and the next message says what came of it. Variables stay. \
Read a traceback, correct the code, go on. When you know the answer, say it without code, and end with DONE."""


class CodeRunner(CodeExecutorAgent):
    """AutoGen's own answers with text alone; this one shows charts, too."""

    result: CodeResult | None = None

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (*super().produced_message_types, MultiModalMessage)

    async def execute_code_block(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        self.result = await super().execute_code_block(code_blocks, cancellation_token)
        return self.result

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        async for item in super().on_messages_stream(messages, cancellation_token):
            result, self.result = self.result, None
            if isinstance(item, Response) and isinstance(result, SandboxCodeResult) and result.pictures:
                content = [result.output, *(Image.from_base64(p.base64) for p in result.pictures)]
                item = Response(chat_message=MultiModalMessage(content=content, source=self.name))
            yield item


def approve(request: ApprovalRequest) -> ApprovalResponse:
    return ApprovalResponse(approved=True, reason="it runs in a sandbox")


async def answer(question: str, model: ChatCompletionClient) -> TaskResult:
    """The whole conversation. One sandbox and one kernel for it, whatever happens."""
    sandbox = await AsyncSandbox.create(ttl_seconds=600, metadata={"recipe": "autogen"})
    try:
        async with SandboxCodeExecutor(sandbox) as executor:
            coder = AssistantAgent("coder", model, system_message=PROMPT)
            runner = CodeRunner("runner", executor, sources=["coder"], approval_func=approve)
            done = TextMentionTermination("DONE", sources=["coder"]) | MaxMessageTermination(30)
            return await RoundRobinGroupChat([coder, runner], termination_condition=done).run(task=question)
    finally:
        await sandbox.kill()


async def main() -> None:
    result = await answer(" ".join(sys.argv[1:]), OpenAIChatCompletionClient(model="gpt-5"))
    print(result.messages[-1].to_text())


if __name__ == "__main__":
    asyncio.run(main())
