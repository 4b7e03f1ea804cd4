# SPDX-License-Identifier: Apache-2.0
"""Best of N: the model proposes several ways, each is tried in a copy of the machine, and the best copy stays."""

import csv
import json
import sys
from pathlib import Path

from openai import OpenAI
from pandastack import CodeContext, Exploration, Sandbox

DATA = Path(__file__).parents[2] / "examples" / "seattle-weather" / "seattle-weather.csv"
LINES = DATA.read_text().splitlines(keepends=True)
PAST = "".join(line for line in LINES if not line.startswith("2015"))
TRUTH = [float(row["temp_max"]) for row in csv.DictReader(LINES) if row["date"].startswith("2015")]
SETUP = 'import pandas as pd; past = pd.read_csv("/workspace/past.csv", parse_dates=["date"])'
TASK = """\
The DataFrame `past` has the columns date, precipitation, temp_max, temp_min and wind of some years in Seattle. \
Write a Python function predict(date) that gives the temp_max of a day of the next year. Answer with code alone."""
PREDICT = 'import json; print(json.dumps([float(predict(d)) for d in pd.date_range("2015-01-01", "2015-12-31")]))'


class AttemptError(Exception):
    """A candidate's code failed, with this traceback."""


def attempt(ctx: CodeContext, code: str) -> float:
    """The mean error of a candidate, in degrees. It is reckoned here: the truth never enters the sandbox."""
    for cell in (code, PREDICT):
        ex = ctx.run_code(cell, timeout=60)
        if ex.error:
            raise AttemptError(ex.error)
    return sum(abs(guess - true) for guess, true in zip(json.loads(ex.stdout), TRUTH, strict=True)) / len(TRUTH)


def propose(client: OpenAI, count: int) -> list[str]:
    """So many answers to the same question."""
    messages = [{"role": "user", "content": TASK}]
    answer = client.chat.completions.create(model="gpt-4o", messages=messages, n=count, temperature=1)
    texts = [(choice.message.content or "").strip() for choice in answer.choices]
    return [text.removeprefix("```python").removeprefix("```").removesuffix("```") for text in texts]


def explore(client: OpenAI, count: int) -> Exploration[str, float]:
    """The winner's sandbox is the caller's to kill; all others are gone, whatever happens."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "fork-on-explore"})
    try:
        sandbox.filesystem.write("/workspace/past.csv", PAST)
        ctx = sandbox.create_code_context()
        loaded = ctx.run_code(SETUP)  # once: each copy has it in memory
        assert not loaded.error, loaded.error
        return sandbox.explore(
            propose(client, count),
            lambda child, code: attempt(CodeContext(child, ctx.id), code),
            score=lambda error: -error,
        )
    finally:
        sandbox.kill()


if __name__ == "__main__":
    best = explore(OpenAI(), int(sys.argv[1]))
    try:
        for outcome in best.outcomes:
            print("failed" if outcome.error else f"{outcome.value:.2f} degrees off")
        print(best.outcome.candidate)
    finally:
        best.winner.kill()
