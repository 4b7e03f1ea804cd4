# SPDX-License-Identifier: Apache-2.0
"""The agent with LlamaIndex's mock of a model that calls functions."""

import asyncio
import base64
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

import agent
from recipes import story
from recipes.typed import Typed


class Script:
    def __init__(self, blocks: Iterator[TextBlock | ToolCallBlock]) -> None:
        self.blocks = blocks
        self.seen: list[ChatMessage] = []

    def __call__(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
        self.seen = list(messages)
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[next(self.blocks)])


def run_python(number: int, code: str) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id=str(number), tool_name="run_python", tool_kwargs={"code": code})


def test_it_corrects_itself_and_draws() -> None:
    script = Script(iter([*map(run_python, range(3), story.CELLS), TextBlock(text=story.ANSWER)]))
    output = asyncio.run(agent.answer(story.QUESTION, MockFunctionCallingLLM(response_generator=script)))
    assert output.response.content == story.ANSWER
    tools = [m for m in script.seen if m.role == MessageRole.TOOL]
    images = [block for m in tools for block in m.blocks if isinstance(block, ImageBlock)]
    story.check(
        texts=[m.content or "" for m in tools],
        pictures=[base64.b64decode(image.image or b"") for image in images],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    script = Script(iter([run_python(0, "1")]))
    with pytest.raises(Exception, match="StopIteration"):
        asyncio.run(agent.answer(story.QUESTION, MockFunctionCallingLLM(response_generator=script)))


def test_its_command_line(typed: Typed) -> None:
    printed, server = typed(story.QUESTION)
    assert printed.strip() == story.ANSWER
    story.check(*server.shown())
