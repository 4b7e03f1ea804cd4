# SPDX-License-Identifier: Apache-2.0
"""Best of several: the same machine goes on in several ways at once, and the best one stays."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Generic, TypeVar, cast

from ..errors import ExploreError, PandastackError
from . import _io

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox

C = TypeVar("C")
R = TypeVar("R")


@dataclass
class Outcome(Generic[C, R]):
    """What became of one candidate: a value, or the exception that its attempt raised."""

    candidate: C
    sandbox_id: str
    value: R | None = None
    error: Exception | None = None
    score: float = float("-inf")


@dataclass
class Exploration(Generic[C, R]):
    """The sandbox that is left, what became of its candidate, and of all in the order of the candidates."""

    winner: AsyncSandbox
    outcome: Outcome[C, R]
    outcomes: list[Outcome[C, R]]


async def _attempt(
    child: AsyncSandbox, candidate: C, attempt: Callable[[AsyncSandbox, C], Awaitable[R]]
) -> Outcome[C, R]:
    try:
        return Outcome(candidate, child.id, await attempt(child, candidate))
    except Exception as e:
        return Outcome(candidate, child.id, error=e)


async def _kill(child: AsyncSandbox) -> None:
    with contextlib.suppress(PandastackError):
        await child.kill()


async def explore(
    parent: AsyncSandbox,
    candidates: Sequence[C],
    attempt: Callable[[AsyncSandbox, C], Awaitable[R]],
    score: Callable[[R], float],
) -> Exploration[C, R]:
    """See AsyncSandbox.explore()."""
    children = await parent.fork_tree(len(candidates))
    left = children
    try:
        calls = [functools.partial(_attempt, *pair, attempt) for pair in zip(children, candidates)]
        outcomes = await _io.gather(calls)
        for outcome in outcomes:
            if outcome.error is None:
                outcome.score = score(cast(R, outcome.value))
        best = max(outcomes, key=lambda outcome: outcome.score)
        if best.error:
            raise ExploreError(f"all {len(outcomes)} candidates failed; the first: {outcomes[0].error}", outcomes)
        winner = children[outcomes.index(best)]
        await winner.promote()
        left = [child for child in children if child is not winner]
        return Exploration(winner, best, outcomes)
    finally:
        await _io.gather([functools.partial(_kill, child) for child in left])
