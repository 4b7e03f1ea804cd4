# SPDX-License-Identifier: Apache-2.0
"""Three ways to predict the weather, of which one fails, with a scripted server in place of OpenAI's."""

import pytest
from openai import BadRequestError, OpenAI
from pandastack import CodeContext, ExploreError, Sandbox

import agent
from recipes.openai_server import ScriptedServer, say, scripted
from recipes.typed import Typed

MEAN = "mean = past.temp_max.mean()\npredict = lambda date: mean"
BROKEN = "predict = lambda date: past.temperature.mean()"
MONTHLY = """```python
monthly = past.groupby(past.date.dt.month).temp_max.mean()
predict = lambda date: monthly[date.month]
```"""


def client(server: ScriptedServer) -> OpenAI:
    return OpenAI(api_key="none", base_url=server.url, max_retries=0)


def test_the_best_of_three_stays() -> None:
    with scripted([say(MEAN), say(BROKEN), say(MONTHLY)]) as server:
        best = agent.explore(client(server), 3)
    assert server.requests[0]["n"] == 3
    mean, broken, monthly = best.outcomes
    assert best.outcome is monthly
    assert 0 < (monthly.value or 0) < (mean.value or 0)
    assert "AttributeError" in str(broken.error)
    assert [box.id for box in Sandbox.list()] == [best.winner.id], "the others are gone"
    (ctx,) = best.winner.list_code_contexts()
    assert CodeContext(best.winner, ctx.id).run_code("len(monthly)").text == "12", "the winner goes on from here"
    assert best.winner.metadata["recipe"] == "fork-on-explore"
    assert best.winner.ttl_seconds == 600
    best.winner.kill()


def test_when_all_fail_the_tracebacks_are_said() -> None:
    with scripted([say(BROKEN), say("1/0")]) as server, pytest.raises(ExploreError, match="temperature"):
        agent.explore(client(server), 2)
    assert Sandbox.list() == []


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with scripted() as server, pytest.raises(BadRequestError):
        agent.explore(client(server), 2)
    assert Sandbox.list() == []


def test_its_command_line(typed: Typed) -> None:
    printed, _ = typed("2", model=[[say(BROKEN), say(MEAN)]])
    first, second, *best = printed.splitlines()
    assert first == "failed"
    assert second.endswith(" degrees off")
    assert best == MEAN.splitlines()
    assert Sandbox.list() == []
