# SPDX-License-Identifier: Apache-2.0
"""The team with AutoGen's replaying client."""

import asyncio
import base64

import pytest
from autogen_core import Image
from autogen_core.models import LLMMessage, ModelFamily, ModelInfo, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

import agent
from recipes import story


def scripted(*answers: str) -> ReplayChatCompletionClient:
    sighted = ModelInfo(
        vision=True, function_calling=True, json_output=True, family=ModelFamily.UNKNOWN, structured_output=True
    )
    return ReplayChatCompletionClient(list(answers), model_info=sighted)


def parts_from_runner(messages: list[LLMMessage]) -> list[list[str | Image]]:
    said = [m.content for m in messages if isinstance(m, UserMessage) and m.source == "runner"]
    return [[content] if isinstance(content, str) else content for content in said]


def test_it_corrects_itself_and_draws() -> None:
    blocks = [f"```python\n{code}\n```" for code in story.CELLS]
    model = scripted(*blocks, f"{story.ANSWER} DONE")
    result = asyncio.run(agent.answer(story.QUESTION, model))
    assert result.messages[-1].to_text() == f"{story.ANSWER} DONE"
    seen = parts_from_runner(model.create_calls[-1]["messages"])
    images = [part for parts in seen for part in parts if isinstance(part, Image)]
    story.check(
        texts=[parts[0] for parts in seen],
        pictures=[base64.b64decode(image.to_base64()) for image in images],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(Exception, match="No more mock responses"):
        asyncio.run(agent.answer(story.QUESTION, scripted()))
