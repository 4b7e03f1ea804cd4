# SPDX-License-Identifier: Apache-2.0
"""A conversation over several lives of the process, with Pydantic AI's FunctionModel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pandastack import Client, Sandbox
from pydantic_ai import BinaryContent, models
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agent import Session
from recipes import story

models.ALLOW_MODEL_REQUESTS = False


class Script:
    """A turn: one cell, and an answer."""

    def __init__(self, *cells: str) -> None:
        calls = (ToolCallPart("run_python", {"code": cell}) for cell in cells)
        self.parts: Iterator[ToolCallPart | TextPart] = iter([*calls, TextPart(story.ANSWER)])
        self.seen: list[ModelMessage] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen = list(messages)
        return ModelResponse([next(self.parts)])

    def returned(self) -> list[list[str | BinaryContent]]:
        returns = [part for m in self.seen for part in m.parts if isinstance(part, ToolReturnPart)]
        return [part.content if isinstance(part.content, list) else [part.content] for part in returns]


def turn(path: Path, *cells: str) -> Script:
    """A turn of a new process, which knows the file and nothing else."""
    script = Script(*cells)
    assert Session(path).turn(story.QUESTION, FunctionModel(script)) == story.ANSWER
    return script


def test_it_goes_on_after_the_process_and_after_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    turn(path, story.CELLS[0])
    first = Session(path).sandbox_id
    turn(path, story.CELLS[1])
    assert Session(path).sandbox_id == first, "the machine was still warm"

    assert Sandbox.get(first or "").kill()  # as its time to live would
    script = turn(path, story.CELLS[2])
    assert Session(path).sandbox_id != first
    contents = script.returned()
    story.check(
        texts=[str(content[0]) for content in contents],
        pictures=[item.data for content in contents for item in content if isinstance(item, BinaryContent)],
    )
    with Client() as client:
        assert [s.id for s in client.snapshots.list()] == [Session(path).snapshot_id], "the last one is enough"
        Session(path).end()
        assert client.snapshots.list() == []
    assert not path.exists()


def test_a_turn_that_fails_has_not_been(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    turn(path, "x = 1")
    with pytest.raises(ZeroDivisionError):
        Session(path).turn("?", FunctionModel(failing))
    assert turn(path, "x").returned()[-1] == ["1"]
    Session(path).end()


def failing(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) > 5:  # the second call of this turn
        raise ZeroDivisionError
    return ModelResponse([ToolCallPart("run_python", {"code": "x = 2"})])


def test_an_end_without_a_beginning(tmp_path: Path) -> None:
    Session(tmp_path / "never.json").end()
