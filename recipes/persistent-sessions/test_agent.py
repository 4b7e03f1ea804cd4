# SPDX-License-Identifier: Apache-2.0
"""A conversation over several processes, with a scripted server in place of OpenAI's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pandastack import Client, Sandbox
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import agent
from agent import Session
from recipes import story
from recipes.openai_server import ScriptedServer, call, say, scripted


def turn(path: Path, cell: str) -> ScriptedServer:
    """A turn of a new process, which knows the file and nothing else: one cell, and an answer."""
    with scripted(call("run_python", code=cell), say(story.ANSWER)) as server:
        assert process(path, story.QUESTION, **server.environment).strip() == story.ANSWER
    return server


def process(*args: object, **environment: str) -> str:
    """What the command prints."""
    command = [sys.executable, agent.__file__, *map(str, args)]
    return subprocess.check_output(command, env={**os.environ, **environment}, text=True)


def test_it_goes_on_after_the_process_and_after_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    turn(path, story.CELLS[0])
    first = Session(path).sandbox_id
    turn(path, story.CELLS[1])
    assert Session(path).sandbox_id == first, "the machine was still warm"

    assert Sandbox.get(first or "").kill()  # as its time to live would
    server = turn(path, story.CELLS[2])
    assert Session(path).sandbox_id != first
    story.check(*server.shown())
    (sandbox,) = Sandbox.list(metadata={"recipe": "persistent-sessions", "session": "sales"})
    assert sandbox.ttl_seconds == 900
    with Client() as client:
        assert [s.id for s in client.snapshots.list()] == [Session(path).snapshot_id], "the last one is enough"
        process(path)
        assert client.snapshots.list() == []
    assert Sandbox.list() == []
    assert not path.exists()


def test_a_turn_that_fails_has_not_been(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    assert Session(path).turn("?", saying(cell("x = 1"), TextPart("Done."))) == "Done."
    with pytest.raises((StopIteration, RuntimeError)):
        Session(path).turn("?", saying(cell("x = 2")))
    assert Sandbox.list() == []
    assert turn(path, "x").shown()[0][-1] == "1"
    Session(path).end()


def saying(*parts: ToolCallPart | TextPart) -> FunctionModel:
    script = iter(parts)
    return FunctionModel(lambda messages, info: ModelResponse([next(script)]))


def cell(code: str) -> ToolCallPart:
    return ToolCallPart("run_python", {"code": code})


def test_an_end_without_a_beginning(tmp_path: Path) -> None:
    Session(tmp_path / "never.json").end()
