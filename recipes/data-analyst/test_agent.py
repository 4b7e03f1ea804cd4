# SPDX-License-Identifier: Apache-2.0
"""The analyst on the weather of Seattle, with a scripted server in place of OpenAI's."""

import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import pytest
from openai import BadRequestError, OpenAI

import agent
from recipes import story
from recipes.openai_server import ScriptedServer, call, say, scripted

WEATHER = Path(__file__).parents[2] / "examples" / "seattle-weather" / "seattle-weather.csv"
QUESTION = "How warm do the days get, by month? Draw it."
WRONG = "by_month = df.groupby(df.date.dt.month)['temp_max'].mean()"
RIGHT = "df['date'] = pd.to_datetime(df.date)\n" + WRONG + "\nround(float(by_month[8]), 2)"
DRAWN = "ax = by_month.plot.bar(title='Seattle, daily maximum')\nax.figure"


def client(server: ScriptedServer) -> OpenAI:
    return OpenAI(api_key="none", base_url=server.url, max_retries=0)


def august() -> Iterator[float]:
    with WEATHER.open() as f:
        for row in csv.DictReader(f):
            if row["date"][5:7] == "08":
                yield float(row["temp_max"])


def test_it_analyses_a_csv() -> None:
    cells = [call("run_python", code=code) for code in (WRONG, RIGHT, DRAWN)]
    with scripted(*cells, say("August is warmest.")) as server:
        answer, charts = agent.analyse(WEATHER, QUESTION, client(server))
        assert answer == "August is warmest."
        about = server.requests[0]["messages"][1]["content"]
        assert "1461 entries" in about, "the model is told what there is"
        assert "temp_max" in about
        (failed, value, drawn), pictures = server.shown()
        assert "AttributeError: Can only use .dt accessor" in failed
        assert value == str(round(mean(august()), 2))
        assert "iVBOR" not in drawn
        assert pictures == [chart.data for chart in charts]
    story.check_png(charts[0].data)


def test_what_is_no_csv(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.touch()
    with scripted() as server, pytest.raises(ValueError, match="cannot be read as CSV"):
        agent.analyse(empty, QUESTION, client(server))


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with scripted(call("run_python", code="1")) as server, pytest.raises(BadRequestError):
        agent.analyse(WEATHER, QUESTION, client(server))
