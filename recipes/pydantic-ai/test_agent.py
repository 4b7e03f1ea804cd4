# SPDX-License-Identifier: Apache-2.0
"""The agent with Pydantic AI's FunctionModel; a call of a real one would be refused."""

from collections.abc import Iterator

import pytest
from pydantic_ai import BinaryContent, models
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agent
from recipes import story
from recipes.typed import Typed

models.ALLOW_MODEL_REQUESTS = False


class Script:
    def __init__(self, parts: Iterator[TextPart | ToolCallPart]) -> None:
        self.parts = parts
        self.seen: list[ModelMessage] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen = list(messages)
        return ModelResponse([next(self.parts)])


def test_it_corrects_itself_and_draws() -> None:
    calls = [ToolCallPart("run_python", {"code": code}) for code in story.CELLS]
    script = Script(iter([*calls, TextPart(story.ANSWER)]))
    assert agent.answer(story.QUESTION, FunctionModel(script)).output == story.ANSWER
    returns = [part for m in script.seen for part in m.parts if isinstance(part, ToolReturnPart)]
    contents = [part.content if isinstance(part.content, list) else [part.content] for part in returns]
    story.check(
        texts=[content[0] for content in contents],
        pictures=[item.data for content in contents for item in content if isinstance(item, BinaryContent)],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises((StopIteration, RuntimeError)):
        agent.answer(story.QUESTION, FunctionModel(Script(iter([ToolCallPart("run_python", {"code": "1"})]))))


def test_its_command_line(typed: Typed) -> None:
    with models.override_allow_model_requests(True):
        printed, server = typed(story.QUESTION)
    assert printed.strip() == story.ANSWER
    story.check(*server.shown())
