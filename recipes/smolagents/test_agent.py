# SPDX-License-Identifier: Apache-2.0
"""The agent with a Model of our own: smolagents brings none for tests."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest

import agent
from recipes import story
from smolagents import ChatMessage, MessageRole, Model


class ScriptedModel(Model):
    def __init__(self, codes: Iterator[str]) -> None:
        super().__init__()
        self.codes = codes
        self.seen: list[ChatMessage] = []

    def generate(self, messages: list[ChatMessage], **kwargs: Any) -> ChatMessage:
        self.seen = list(messages)
        return ChatMessage(MessageRole.ASSISTANT, f"Thought: code it.\n<code>\n{next(self.codes)}\n</code>")


def as_png(image: Any) -> bytes:
    out = BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()


def test_it_corrects_itself_and_draws() -> None:
    final = "final_answer({'mean': float(sales.mean()), 'rows': len(sales)})"
    model = ScriptedModel(iter([*story.CELLS, final]))
    assert agent.answer(story.QUESTION, model) == {"mean": 120.0, "rows": 3}, "the final answer is an object"
    responses = [m for m in model.seen if m.role == MessageRole.TOOL_RESPONSE]
    parts = [part for m in model.seen for part in m.content if part["type"] == "image"]
    story.check(
        texts=["".join(part.get("text", "") for part in m.content) for m in responses if "text" in m.content[0]],
        pictures=[as_png(part["image"]) for part in parts],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(Exception, match="generating model output"):
        agent.answer(story.QUESTION, ScriptedModel(iter([])))
