# SPDX-License-Identifier: Apache-2.0
"""The graph with LangChain's fake model."""

import base64
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

import agent
from recipes import story
from recipes.langchain_model import ScriptedModel, call
from recipes.typed import Typed


def test_it_corrects_itself_and_draws() -> None:
    model = ScriptedModel.of([*(call("run_python", code=code) for code in story.CELLS), story.ANSWER])
    assert agent.answer(story.QUESTION, model)[-1].text == story.ANSWER
    shown = [block for m in model.seen if isinstance(m, HumanMessage) for block in m.content_blocks]
    story.check(
        texts=[m.text for m in model.seen if isinstance(m, ToolMessage)],
        pictures=[base64.b64decode(block["base64"]) for block in shown if block["type"] == "image"],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(Exception, match="StopIteration"):
        agent.answer(story.QUESTION, ScriptedModel.of([call("run_python", code="1")]))


def test_its_command_line(typed: Typed) -> None:
    printed, server = typed(story.QUESTION)
    assert printed.strip() == story.ANSWER
    story.check(*server.shown())
    story.check_png(Path("chart-1.png").read_bytes())
