# SPDX-License-Identifier: Apache-2.0
"""The agent with the SDK's own scripted model."""

import base64

import pytest
from agents.testing import ScriptedModel, UnexpectedModelCall, assistant_message, function_call

import agent
from recipes import story
from recipes.typed import Typed


def test_it_corrects_itself_and_draws() -> None:
    calls = [function_call("run_python", {"code": code}, call_id=f"{i}") for i, code in enumerate(story.CELLS)]
    model = ScriptedModel([*([call] for call in calls), [assistant_message(story.ANSWER)]])
    assert agent.answer(story.QUESTION, model).final_output == story.ANSWER
    assert model.last_call
    outputs = [item["output"] for item in model.last_call.input if item.get("type") == "function_call_output"]
    images = [part["image_url"] for output in outputs for part in output if part["type"] == "input_image"]
    story.check(
        texts=[output[0]["text"] for output in outputs],
        pictures=[base64.b64decode(url.removeprefix("data:image/png;base64,")) for url in images],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(UnexpectedModelCall):
        agent.answer(story.QUESTION, ScriptedModel([[function_call("run_python", {"code": "1"}, call_id="1")]]))


def test_its_command_line(typed: Typed) -> None:
    printed, server = typed(story.QUESTION)
    assert printed.strip() == story.ANSWER
    story.check(*server.shown())
