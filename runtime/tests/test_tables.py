# SPDX-License-Identifier: Apache-2.0
"""The data of a DataFrame beside its HTML: case K14, each kind of column, what is cut, formatters of the user."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import KernelClient

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")

from pandastack_kernel import tables  # noqa: E402

MIME = tables.MIME


def table(frame: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(tables.bundle(frame)[MIME], parse_constant=pytest.fail)
    return made


def column(values: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return what the schema says of a column, and its cells."""
    made = table(pd.DataFrame({"c": values}))
    facts = made["schema"]["fields"][1]
    assert facts.pop("name") == "c"
    return facts, [row["c"] for row in made["data"]]


def test_k14_missing_values(shared: KernelClient) -> None:
    answer = shared.ok(
        "import pandas as pd, numpy as np\n"
        "pd.DataFrame({'a': [1.5, np.nan, float('inf')], 'b': ['x', None, pd.NA], 'c': [1, 2, 3]})"
    )
    assert set(answer.main) == {"text/plain", "text/html", MIME}
    assert not answer.stderr
    assert not answer.pipe_err
    made = json.loads(answer.main[MIME], parse_constant=pytest.fail)
    assert made == {
        "schema": {
            "fields": [
                {"name": "index", "type": "integer"},
                {"name": "a", "type": "number"},
                {"name": "b", "type": "string"},
                {"name": "c", "type": "integer"},
            ],
            "primaryKey": ["index"],
        },
        "rows": 3,
        "data": [
            {"index": 0, "a": 1.5, "b": "x", "c": 1},
            {"index": 1, "a": None, "b": None, "c": 2},
            {"index": 2, "a": None, "b": None, "c": 3},
        ],
    }


def test_series_display_and_styler(shared: KernelClient) -> None:
    answer = shared.ok("import pandas as pd; pd.Series([1, 2], name='s', index=['a', 'b'])")
    assert set(answer.main) == {"text/plain", MIME}
    assert json.loads(answer.main[MIME])["data"] == [{"index": "a", "s": 1}, {"index": "b", "s": 2}]
    (event,) = shared.ok("display(pd.DataFrame({'a': [1]}))").results
    assert json.loads(event["data"][MIME])["data"] == [{"index": 0, "a": 1}]
    pytest.importorskip("jinja2")
    assert MIME not in shared.ok("pd.DataFrame({'a': [1]}).style").main


def test_formatters_of_the_user_win(kernel: KernelClient) -> None:
    kernel.ok(
        "import pandas as pd\nf = get_ipython().display_formatter.formatters\n"
        "f['text/html'].for_type(pd.DataFrame, lambda d: '<mine>')"
    )
    main = kernel.ok("pd.DataFrame({'a': [1]})").main
    assert main["text/html"] == "<mine>"
    assert MIME in main
    kernel.ok("pd.set_option('display.html.table_schema', True)")
    assert "pandas_version" in kernel.ok("pd.DataFrame({'a': [1]})").main[MIME]


@pytest.mark.parametrize(
    ("values", "kind", "cells"),
    [
        ([1, 2], "integer", [1, 2]),
        ([True, False], "boolean", [True, False]),
        ([1.5, float("-inf")], "number", [1.5, None]),
        (np.array([1.5, 2], dtype="float32"), "number", [1.5, 2]),
        (np.array([2**63], dtype="uint64"), "string", [str(2**63)]),
        (pd.array([1, None], dtype="Int64"), "integer", [1, None]),
        (pd.array([2**60 + 1, None], dtype="Int64"), "integer", [2**60 + 1, None]),
        (pd.array([True, None], dtype="boolean"), "boolean", [True, None]),
        (pd.array([1.5, None], dtype="Float64"), "number", [1.5, None]),
        (pd.array(["x", None], dtype="string"), "string", ["x", None]),
        (pd.to_datetime(["2024-01-01", None]), "datetime", ["2024-01-01T00:00:00", None]),
        (pd.to_datetime(["2024-01-01 00:00:00.25"]), "datetime", ["2024-01-01T00:00:00.250"]),
        (pd.to_timedelta(["1 days 00:00:01.5", None]), "duration", ["P1DT0H0M1.5S", None]),
        (pd.to_timedelta(["-1h"]), "duration", ["-P0DT1H0M0S"]),
        (pd.period_range("2024-01", periods=1, freq="M"), "string", ["2024-01"]),
        (pd.arrays.IntervalArray.from_breaks([0, 1]), "string", ["(0, 1]"]),
        (np.array([1 + 2j]), "string", ["(1+2j)"]),
        ([[1, 2], {"b": 1, "a": (2,)}], "string", ["[1, 2]", "{'b': 1, 'a': (2,)}"]),
        ([b"ok", b"\xff"], "string", ["ok", "\\xff"]),
        ([np.int8(3), np.float64("nan"), pd.NaT], "integer", [3, None, None]),
        ([1, "x"], "any", [1, "x"]),
        ([10**5000], "string", ["<int: str() failed with ValueError>"]),
        ([10**30], "string", ["1" + "0" * 30]),
        ([np.datetime64("NaT"), None], "datetime", [None, None]),
        ([], "string", []),
    ],
)
def test_column(values: Any, kind: str, cells: list[Any]) -> None:
    if isinstance(values, list) and values and not isinstance(values[0], (bool, float)) and values != [1, 2]:
        values = pd.Series(values, dtype=None if kind == "datetime" else object)
    facts, found = column(values)
    assert (facts["type"] if values is not None and len(found) else kind) == kind
    assert found == cells


def test_time_zone() -> None:
    facts, cells = column(pd.to_datetime(["2024-07-01 12:00", None]).tz_localize("Europe/Berlin"))
    assert facts == {"type": "datetime", "tz": "Europe/Berlin"}
    assert cells == ["2024-07-01T10:00:00Z", None]


def test_categories() -> None:
    facts, cells = column(pd.Categorical(["b", None, "a"], categories=["b", "a"], ordered=True))
    assert facts == {"type": "string", "constraints": {"enum": ["b", "a"]}, "ordered": True}
    assert cells == ["b", None, "a"]


def test_objects_of_all_kinds() -> None:
    import datetime
    import decimal

    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError

    objects = [decimal.Decimal("1.10"), datetime.date(2024, 1, 1), datetime.time(1, 2), Bad(), list(range(1000))]
    _, cells = column(pd.Series(objects, dtype=object))
    assert cells[:3] == ["1.10", "2024-01-01", "01:02:00"]
    assert cells[3] == "<Bad: str() failed with RuntimeError>"
    assert cells[4].endswith(", 98, 99, ...]")


def test_names_and_indexes() -> None:
    made = table(pd.DataFrame([[1, 2, 3, 4]], columns=["a", "a", "index", 5]))
    assert made["data"] == [{"index": 0, "a": 1, "a.1": 2, "index.1": 3, "5": 4}]
    frame = pd.DataFrame(
        [[1, 2]],
        columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]),
        index=pd.MultiIndex.from_tuples([("p", 7)], names=["n", None]),
    )
    made = table(frame)
    assert made["data"] == [{"n": "p", "level_1": 7, "a_x": 1, "a_y": 2}]
    assert made["schema"]["primaryKey"] == ["n", "level_1"]
    assert "primaryKey" not in table(pd.DataFrame({"a": [1, 2]}, index=[0, 0]))["schema"]
    index = pd.DatetimeIndex(["2024-01-01"], tz="UTC", name="t")
    assert table(pd.DataFrame({"a": [1]}, index=index))["data"] == [{"t": "2024-01-01T00:00:00Z", "a": 1}]
    assert table(pd.DataFrame())["data"] == []


def test_what_is_cut() -> None:
    made = table(pd.DataFrame({"a": range(5000)}))
    assert (made["rows"], made["truncated"], len(made["data"])) == (5000, True, tables.MAX_ROWS)
    made = table(pd.DataFrame(np.zeros((1, 150))))
    assert (made["rows"], made["truncated"], len(made["data"][0])) == (1, True, tables.MAX_COLUMNS + 1)
    text = tables.bundle(pd.DataFrame({"a": ["x" * 4000] * 1000}))[MIME]
    assert len(text) < tables.MAX_CHARS + 1000
    assert len(json.loads(text)["data"]) == 260
    made = table(pd.DataFrame({"a": ["x" * 5000]}))
    assert (len(made["data"][0]["a"]), made["truncated"]) == (tables.MAX_CELL_CHARS, True)
    assert "truncated" not in table(pd.DataFrame({"a": [1]}))


def test_a_broken_frame_is_shown_without_its_data(kernel: KernelClient) -> None:
    answer = kernel.ok(
        "import pandas as pd, warnings\nwarnings.simplefilter('error')\n"
        "class F(pd.DataFrame):\n    @property\n    def iloc(self): raise RuntimeError('no')\n"
        "    def _repr_html_(self): return '<f>'\n    def __repr__(self): return 'F'\nF({'a': [1]})"
    )
    assert answer.main == {"text/plain": "F", "text/html": "<f>"}
    assert not answer.stderr


def test_a_lone_surrogate(shared: KernelClient) -> None:
    answer = shared.ok("import pandas as pd; pd.DataFrame({'a': ['\\ud800x']}, dtype=object)")
    assert "x" in json.loads(answer.main[MIME])["data"][0]["a"]
