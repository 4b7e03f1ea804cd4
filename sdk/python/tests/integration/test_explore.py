# SPDX-License-Identifier: Apache-2.0
"""explore(): the best stays, and nothing else, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pandastack import Client, ExecResult, ExploreError, PandastackError, Sandbox


@pytest.fixture(autouse=True)
def nothing_is_left(box: Sandbox, client: Client) -> Iterator[None]:
    before = {s.id for s in Sandbox.list(client=client)}
    yield
    assert {s.id for s in Sandbox.list(client=client)} == before


def write_out(child: Sandbox, text: str) -> ExecResult:
    if text == "raise":
        raise ValueError(text)
    return child.exec(f"echo {text} > /tmp/out; cat /tmp/out", check=True)


def test_the_best_stays(box: Sandbox) -> None:
    best = box.explore(["aa", "raise", "aaaa", "a"], write_out, score=lambda result: len(result.stdout))
    with best.winner as winner:
        assert winner.exec("cat /tmp/out").stdout == "aaaa\n"
        assert best.outcome is best.outcomes[2]
        assert best.outcome.sandbox_id == winner.id
        assert [o.candidate for o in best.outcomes] == ["aa", "raise", "aaaa", "a"]
        assert [o.score for o in best.outcomes] == [3, float("-inf"), 5, 2]
        assert isinstance(best.outcomes[1].error, ValueError)
    assert not box.filesystem.exists("/tmp/out"), "the sandbox itself is as it was"


def test_they_run_at_once(box: Sandbox) -> None:
    barrier = threading.Barrier(3, timeout=60)
    box.explore([1, 2, 3], lambda child, n: barrier.wait(), score=float).winner.kill()


def test_all_fail(box: Sandbox) -> None:
    with pytest.raises(ExploreError, match="all 2 candidates failed") as e:
        box.explore(["raise", "raise"], write_out, score=lambda result: 1)
    assert len(e.value.outcomes) == 2


def test_a_score_that_raises(box: Sandbox) -> None:
    with pytest.raises(ZeroDivisionError):
        box.explore(["a"], write_out, score=lambda result: 1 / 0)


def test_an_attempt_that_is_interrupted(box: Sandbox) -> None:
    """The others' calls end, for their sandboxes do."""
    waiting = threading.Event()

    def attempt(child: Sandbox, n: int) -> object:
        if n:
            return child.exec_stream("echo up; sleep 300", lambda chunk: waiting.set())
        assert waiting.wait(60)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        box.explore([0, 1], attempt, score=lambda result: 1)


def test_a_promotion_that_fails(box: Sandbox) -> None:
    with pytest.raises(PandastackError):
        box.explore(["a", "b"], lambda child, n: child.kill(), score=float)


@pytest.mark.parametrize("count", [0, 17])
def test_too_few_and_too_many(box: Sandbox, count: int) -> None:
    with pytest.raises(PandastackError):
        box.explore(range(count), lambda child, n: n, score=float)
