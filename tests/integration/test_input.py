# SPDX-License-Identifier: Apache-2.0
"""input() that the client answers: K19's second half."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import Session
from harness.api import Event


def answered(kernel: Session, events: Iterator[Event], *values: str) -> tuple[list[dict[str, object]], list[Event]]:
    """The questions of a cell, each answered by the next value, and all its events."""
    left = list(values)
    questions, seen = [], []
    for e in events:
        seen.append(e)
        if e.name == "input_request":
            questions.append({k: e.data[k] for k in ("prompt", "password")})
            kernel.api.call("POST", f"{kernel.path}/input", want=204, json={"value": left.pop(0)})
    return questions, seen


def test_K19_input_is_answered(kernel: Session) -> None:
    code = "import getpass\nname = input('name? ')\nkey = getpass.getpass('key? ')\nname + key"
    with kernel.stream(code, allow_stdin=True) as events:
        questions, seen = answered(kernel, events, "Zoë ", "\u2028☕")
    assert questions == [{"prompt": "name? ", "password": False}, {"prompt": "key? ", "password": True}]
    assert [e.data["data"]["text/plain"] for e in seen if e.name == "result"] == ["'Zoë \\u2028☕'"]
    assert seen[-1].data["exit_code"] == 0


def test_output_before_the_question_comes_before_it(kernel: Session) -> None:
    with kernel.stream("print('first')\ninput()", allow_stdin=True) as events:
        _, seen = answered(kernel, events, "x")
    names = [e.name for e in seen]
    assert names.index("stdout") < names.index("input_request")


def test_nobody_asked(kernel: Session) -> None:
    for body in ({"value": "x"},):
        refused = kernel.api.refused("POST", f"{kernel.path}/input", 409, "conflict", json=body)
        assert "waits for input" in refused["error"]


@pytest.mark.parametrize("body", [{}, {"value": 1}, {"value": None}, {"value": "x" * (64 * 1024 + 1)}])
def test_bad_answers(kernel: Session, body: dict[str, object]) -> None:
    status = kernel.api.request("POST", f"{kernel.path}/input", json=body).status_code
    assert status in (400, 413)


def test_a_question_needs_a_stream(kernel: Session) -> None:
    refused = kernel.api.refused(
        "POST", f"{kernel.path}/run", 400, "request.invalid", json={"code": "input()", "allow_stdin": True}
    )
    assert "stream" in refused["error"]


def test_a_question_that_nobody_answers_ends_with_the_time(kernel: Session) -> None:
    kernel.ok("kept = 1")
    with kernel.stream("input('?')", allow_stdin=True, timeout_ms=1000) as events:
        seen = list(events)
    assert [e.name for e in seen] == ["input_request", "error", "error", "exit"]
    assert seen[-1].data["status"] == "timeout"
    assert seen[-1].data["state_lost"] is False
    assert kernel.text("kept") == "1"


def test_a_client_that_leaves_takes_its_question_along(kernel: Session) -> None:
    with kernel.stream("input('?')", allow_stdin=True) as events:
        assert next(events).name == "input_request"
    assert kernel.text("1 + 1") == "2"
    kernel.api.refused("POST", f"{kernel.path}/input", 409, "conflict", json={"value": "late"})
