# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: a recipe's command line as its page has it, with a scripted server in place of OpenAI's."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recipes.openai_server import Json, ScriptedServer, scripted, told

Typed = Callable[..., tuple[str, ScriptedServer]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    """Runs agent.py in an empty folder, with a model that tells the story; what it prints, and the server."""
    monkeypatch.chdir(tmp_path)
    agent = importlib.util.find_spec("agent")
    assert agent
    assert agent.origin
    file = agent.origin

    def run(*args: str, model: list[Json] | None = None) -> tuple[str, ScriptedServer]:
        monkeypatch.setattr(sys, "argv", [file, *args])
        with scripted(*(model or told())) as server:
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            runpy.run_path(file, run_name="__main__")
        return capsys.readouterr().out, server

    return run
