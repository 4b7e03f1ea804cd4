# SPDX-License-Identifier: Apache-2.0
"""The crew with a BaseLLM that follows the script, as CrewAI's own tests have it."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from crewai.llms.base_llm import BaseLLM

import agent
from recipes import story
from recipes.typed import Typed


class ScriptedLLM(BaseLLM):
    script: Iterator[Any]
    seen: list[dict[str, Any]] = []  # noqa: RUF012 # pydantic copies it

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.seen = list(messages)
        step = next(self.script, None)
        if step is None:
            raise ConnectionError("the script is over")
        return step


def run_python(number: int, code: str) -> list[dict[str, Any]]:
    call = {"name": "run_python", "arguments": json.dumps({"code": code})}
    return [{"id": f"call-{number}", "type": "function", "function": call}]


def test_it_corrects_itself_and_draws() -> None:
    llm = ScriptedLLM(model="scripted", script=iter([*map(run_python, range(3), story.CELLS), story.ANSWER]))
    assert agent.answer(story.QUESTION, llm).raw == story.ANSWER
    parts = [part for m in llm.seen if isinstance(m["content"], list) for part in m["content"]]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    story.check(
        texts=[m["content"] for m in llm.seen if m["role"] == "tool"],
        pictures=[base64.b64decode(url.removeprefix("data:image/png;base64,")) for url in urls],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(ConnectionError, match="the script is over"):
        agent.answer(story.QUESTION, ScriptedLLM(model="scripted", script=iter([run_python(0, "1")])))


def test_its_command_line(typed: Typed) -> None:
    printed, server = typed(story.QUESTION)
    assert printed.strip() == story.ANSWER
    story.check(*server.shown())
