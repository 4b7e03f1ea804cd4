# SPDX-License-Identifier: Apache-2.0
"""The agent with LangChain's fake model."""

import base64
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from pandastack import Execution

import agent
from recipes import story
from recipes.langchain_model import ScriptedModel, call
from recipes.typed import Typed


def test_it_corrects_itself_and_draws() -> None:
    model = ScriptedModel.of([*(call("run_python", code=code) for code in story.CELLS), story.ANSWER])
    assert agent.answer(story.QUESTION, model)[-1].text == story.ANSWER
    tools = [m for m in model.seen if isinstance(m, ToolMessage)]
    blocks = [block for m in tools for block in m.content_blocks]
    story.check(
        texts=[m.text for m in tools],
        pictures=[base64.b64decode(block["base64"]) for block in blocks if block["type"] == "image"],
    )
    assert all(isinstance(m.artifact, Execution) for m in tools)

    # What a live model would be sent of it.
    sent = ChatOpenAI(model="gpt-5", use_responses_api=True, api_key="none")._get_request_payload(model.seen)
    outputs = [item["output"] for item in sent["input"] if item.get("type") == "function_call_output"]
    assert [block["type"] for block in outputs[-1]] == ["input_text", "input_image"], outputs[-1]


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(Exception, match="StopIteration"):
        agent.answer(story.QUESTION, ScriptedModel.of([call("run_python", code="1")]))


def test_its_command_line(typed: Typed) -> None:
    printed, server = typed(story.QUESTION)
    assert printed.strip() == story.ANSWER
    story.check(*server.shown())
    story.check_png(Path("chart-1.png").read_bytes())
