# SPDX-License-Identifier: Apache-2.0
"""The chart object beside a matplotlib or plotly figure: case K11, each type, limits, figures that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import KernelClient

for _name in ("numpy", "pandas", "matplotlib"):
    pytest.importorskip(_name)

from pandastack_kernel import charts, charts_statistics  # noqa: E402

MIME = charts.MIME
PLT = "import matplotlib.pyplot as plt, numpy as np, pandas as pd\nfig, ax = plt.subplots()\n"
SNS = PLT + "import seaborn as sns\n"
GO = "import plotly.graph_objects as go, plotly.express as px, numpy as np\n"


def chart_of(kernel: KernelClient, code: str) -> dict[str, Any]:
    """Return the chart of the one figure that a cell shows."""
    answer = kernel.ok(code)
    assert not answer.stderr, answer.stderr
    assert not answer.pipe_err
    (event,) = answer.results
    assert "image/png" in event["data"] or "application/vnd.plotly.v1+json" in event["data"]
    chart: dict[str, Any] = json.loads(event["data"][MIME], parse_constant=pytest.fail)
    return chart


def drawn(kernel: KernelClient, code: str) -> dict[str, Any]:
    return chart_of(kernel, PLT + code + "\nplt.show()")


def bars(chart: dict[str, Any]) -> list[tuple[Any, Any, Any, Any]]:
    return [(e["label"], e["group"], e["value"], e.get("base", 0)) for e in chart["elements"] if e["type"] == "bar"]


# matplotlib.


def test_line(shared: KernelClient) -> None:
    chart = drawn(
        shared,
        "ax.plot([1, 2, 3], [4, float('nan'), 6], label='a'); ax.set(title='T', xlabel='Time (s)', ylabel='v [km/h]')",
    )
    assert chart["type"] == "line"
    assert chart["title"] == "T"
    assert (chart["x_label"], chart["x_unit"], chart["x_scale"]) == ("Time (s)", "s", "linear")
    assert (chart["y_label"], chart["y_unit"], chart["y_scale"]) == ("v [km/h]", "km/h", "linear")
    assert chart["elements"] == [{"type": "line", "label": "a", "points": [[1, 4], [2, None], [3, 6]]}]
    assert chart["x_ticks"][:2] == [1, 1.25]
    assert chart["x_tick_labels"][:2] == ["1.00", "1.25"]
    assert "truncated" not in chart
    assert "row" not in chart


@pytest.mark.parametrize(
    ("label", "unit"),
    [
        ("Temperature (°C)", "°C"),
        ("Speed [km/h]", "km/h"),
        ("Speed / km/h", "km/h"),
        ("f(x)", None),
        ("Rate", None),
        (None, None),
    ],
)
def test_units(label: str | None, unit: str | None) -> None:
    assert charts.unit(label) == unit


def test_lines_are_named_by_the_legend(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.plot([1, 2]); ax.plot([3, 4], 'o'); ax.legend(['first', 'second'])")
    assert [(e["type"], e["label"]) for e in chart["elements"]] == [("line", "first"), ("scatter", "second")]
    assert chart["type"] == "scatter"


def test_reference_lines_are_in_data(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.plot([0, 10], [0, 1]); ax.set_xlim(0, 10); ax.axhline(0.5)")
    (left, right) = chart["elements"][1]["points"]
    assert left == [pytest.approx(0, abs=1e-9), 0.5]
    assert right == [pytest.approx(10), 0.5]


@pytest.mark.parametrize("scale", ["log", "symlog"])
def test_scale(shared: KernelClient, scale: str) -> None:
    chart = drawn(shared, f"ax.plot([1, 10, 1000]); ax.set_yscale({scale!r})")
    assert chart["y_scale"] == scale
    assert chart["y_ticks"][-1] == 1000
    assert chart["y_tick_labels"][-1] == "10^3"


def test_dates(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.plot(pd.to_datetime(['2024-01-01T00:00', '2024-01-02T12:00', None]), [1, 2, 3])")
    assert chart["x_scale"] == "datetime"
    assert chart["elements"][0]["points"] == [["2024-01-01T00:00:00", 1], ["2024-01-02T12:00:00", 2], [None, 3]]
    assert chart["x_ticks"][0].startswith("2024-01-01")
    chart = drawn(shared, "pd.Series([1, 2], pd.date_range('2024-01-31', periods=2, freq='D')).plot(ax=ax)")
    assert chart["elements"][0]["points"] == [["2024-01-31", 1], ["2024-02-01", 2]]
    chart = drawn(shared, "ax.plot(pd.to_datetime(['2024-01-01T01:00+01:00', '2024-01-02T01:00+01:00']), [1, 2])")
    assert chart["elements"][0]["points"][0] == ["2024-01-01T00:00:00Z", 1]


def test_k11_bars(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.bar(['a', 'b'], [1, -2.5])")
    assert chart["type"] == "bar"
    assert chart["x_scale"] == "categorical"
    assert chart["x_ticks"] == chart["x_tick_labels"] == ["a", "b"]
    assert bars(chart) == [("a", None, 1, 0), ("b", None, -2.5, 0)]
    assert (chart["orientation"], chart["stacked"]) == ("vertical", False)


def test_bars_that_lie_stand_in_groups_or_on_each_other(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.barh(['a', 'b'], [1, 2])")
    assert bars(chart) == [("a", None, 1, 0), ("b", None, 2, 0)]
    assert chart["orientation"] == "horizontal"
    chart = drawn(
        shared,
        "x = np.arange(2)\nax.bar(x - .2, [1, 2], .4, label='p'); ax.bar(x + .2, [3, 4], .4, label='q')\n"
        "ax.set_xticks(x, ['a', 'b'])",
    )
    assert bars(chart) == [("a", "p", 1, 0), ("b", "p", 2, 0), ("a", "q", 3, 0), ("b", "q", 4, 0)]
    chart = drawn(shared, "ax.bar(['a'], [1], label='p'); ax.bar(['a'], [2], bottom=[1], label='q')")
    assert bars(chart) == [("a", "p", 1, 0), ("a", "q", 2, 1)]
    assert chart["stacked"] is True
    assert bars(drawn(shared, "ax.bar([2020, 2021], [1, 2])")) == [(2020, None, 1, 0), (2021, None, 2, 0)]


def test_bars_and_a_line(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.bar(['a', 'b'], [1, 2], yerr=.1, capsize=3); ax.plot(['a', 'b'], [3, 4])")
    assert chart["type"] == "bar"
    assert [e["type"] for e in chart["elements"]] == ["bar", "bar", "line"], "a cap of an error bar is no line"
    assert chart["elements"][2]["points"] == [["a", 3], ["b", 4]]


def test_scatter(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.scatter(['u', 'v'], [1, 2], label='s')")
    assert chart["elements"] == [{"type": "scatter", "label": "s", "points": [["u", 1], ["v", 2]]}]


def test_pie(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.pie([1, 3], labels=['a', 'b'], autopct='%d'); ax.set_title('T')")
    assert chart["type"] == "pie"
    assert chart["elements"] == [
        {"type": "pie", "label": "a", "value": 1, "angle": 90, "radius": 1},
        {"type": "pie", "label": "b", "value": 3, "angle": 270, "radius": 1},
    ]
    assert chart["x_ticks"] == []


def test_box(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.boxplot([[1, 2, 3, 4, 5, 50], [1, 1, 1]], tick_labels=['a', 'b'])")
    assert chart["type"] == "box"
    assert chart["elements"][0] == {
        "type": "box", "label": "a", "group": None, "min": 1, "first_quartile": 2.25, "median": 3.5,
        "third_quartile": 4.75, "max": 5, "outliers": [50],
    }  # fmt: skip
    assert chart["elements"][1]["label"] == "b"
    assert len(chart["elements"]) == 2
    chart = drawn(shared, "ax.boxplot([[1, 2, 3]], orientation='horizontal')")
    assert (chart["orientation"], chart["elements"][0]["label"]) == ("horizontal", "1")


@pytest.mark.parametrize(
    ("code", "counts"),
    [
        ("ax.hist([1, 1, 2, 4], bins=[1, 2, 4], label='h', rwidth=.5)", [[2, 2]]),
        ("ax.hist([1, 1, 2, 4], bins=[1, 2, 4], histtype='step')", [[2, 2]]),
        ("ax.hist([[1, 1], [2, 4]], bins=[1, 2, 4], stacked=True)", [[2, 0], [0, 2]]),
        ("ax.hist([1, 1, 2, 4], bins=[1, 2, 4], orientation='horizontal')", [[2, 2]]),
        ("ax.stairs([2, 2], [1, 2, 4])", [[2, 2]]),
        ("ax.bar([1, 2], [2, 2], width=[1, 2], align='edge')", [[2, 2]]),
    ],
)
def test_histogram(shared: KernelClient, code: str, counts: list[list[int]]) -> None:
    chart = drawn(shared, code)
    assert chart["type"] == "histogram"
    assert [e["counts"] for e in chart["elements"]] == counts
    assert all(e["edges"] == [1, 2, 4] for e in chart["elements"])
    assert chart["orientation"] == ("horizontal" if "horizontal" in code else "vertical")


@pytest.mark.parametrize("origin", ["upper", "lower"])
def test_heat_map_with_a_colour_bar(shared: KernelClient, origin: str) -> None:
    code = f"im = ax.imshow([[1, 2], [3, np.nan]], origin={origin!r}); fig.colorbar(im, label='°C')"
    chart = drawn(shared, code)
    assert chart["type"] == "heatmap", "a colour bar is no chart of its own"
    (element,) = chart["elements"]
    assert element["values"] == [[1, 2], [3, None]]
    assert (element["x"], element["y"], element["label"]) == ([0, 1], [0, 1], "°C")


def test_mesh_and_a_photograph(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.pcolormesh([0, 1, 3], [0, 10], [[5, 6]])")
    assert chart["elements"] == [{"type": "heatmap", "label": None, "x": [0.5, 2], "y": [5], "values": [[5, 6]]}]
    assert drawn(shared, "ax.imshow(np.zeros((2, 2, 3)))")["elements"] == []


def test_subplots_and_twins(shared: KernelClient) -> None:
    code = (
        "fig, axes = plt.subplots(2, 2); fig.suptitle('all')\naxes[0, 0].plot([1]); axes[0, 1].bar(['a'], [1])\n"
        "axes[1, 0].set_title('c'); axes[1, 0].scatter([1], [2]); axes[1, 1].axis('off')\n"
        "twin = axes[0, 0].twinx(); twin.plot([9]); twin.set_ylabel('w (kg)'); plt.show()"
    )
    chart = chart_of(shared, PLT + "plt.close()\n" + code)
    assert (chart["type"], chart["title"]) == ("superchart", "all")
    inner = [(c["type"], c["row"], c["column"]) for c in chart["elements"]]
    assert inner == [("line", 0, 0), ("bar", 0, 1), ("scatter", 1, 0), ("line", 0, 0)]
    assert chart["elements"][2]["title"] == "c"
    assert chart["elements"][3]["y_unit"] == "kg"
    assert chart["elements"][3]["x_ticks"] == [], "its x axis is not drawn"


@pytest.mark.parametrize(
    "code",
    [
        "pass",
        "ax.contourf([[1, 2], [3, 4]])",
        "ax.stackplot([1, 2], [1, 2])",
        "plt.close(); plt.polar([1, 2], [3, 4]); ax = plt.gca()",
        "plt.close(); ax = plt.figure().add_subplot(projection='3d'); ax.plot([1], [2], [3])",
        "ax.quiver([1], [1], [1], [1])",
        "ax.text(0, 0, 'x')",
        "ax.plot([], [])",
        "ax.axline((0, 0), (1, 1))",
    ],
)
def test_unknown(shared: KernelClient, code: str) -> None:
    chart = drawn(shared, code + "\nax.set_title('T')")
    assert (chart["type"], chart["title"], chart["elements"]) == ("unknown", "T", [])


def test_pandas_plots(shared: KernelClient) -> None:
    frame = "df = pd.DataFrame({'c': ['u', 'v'], 'a': [1, 2], 'b': [3, 4]})\n"
    chart = drawn(shared, frame + "df.plot.bar(x='c', stacked=True, ax=ax)")
    assert bars(chart) == [("u", "a", 1, 0), ("v", "a", 2, 0), ("u", "b", 3, 1), ("v", "b", 4, 2)]
    assert chart["stacked"] is True
    chart = drawn(shared, frame + "df[['a', 'b']].plot.box(ax=ax)")
    assert [(e["label"], e["median"]) for e in chart["elements"]] == [("a", 1.5), ("b", 3.5)]
    chart = drawn(shared, frame + "df.plot(y=['a', 'b'], secondary_y='b', ax=ax)")
    assert [c["elements"][0]["label"] for c in chart["elements"]] == ["a", "b (right)"]
    chart = drawn(shared, frame + "df.a.plot.pie(ax=ax)")
    assert [(e["label"], e["value"]) for e in chart["elements"]] == [("0", 1), ("1", 2)]
    chart = drawn(shared, frame + "df.a.plot.hist(bins=2, ax=ax)")
    assert chart["elements"] == [{"type": "histogram", "label": "a", "edges": [1, 1.5, 2], "counts": [1, 1]}]


def test_seaborn_plots(shared: KernelClient) -> None:
    pytest.importorskip("seaborn")
    frame = SNS + "d = pd.DataFrame({'x': [1, 2, 1, 2], 'y': [1., 2, 3, 4], 'h': ['m', 'm', 'n', 'n']})\n"
    chart = chart_of(shared, frame + "sns.lineplot(d, x='x', y='y', hue='h'); plt.show()")
    assert {e["label"]: e["points"] for e in chart["elements"]} == {"m": [[1, 1], [2, 2]], "n": [[1, 3], [2, 4]]}
    chart = chart_of(shared, frame + "sns.scatterplot(d, x='x', y='y', hue='h'); plt.show()")
    assert {e["label"]: e["points"] for e in chart["elements"]} == {"m": [[1, 1], [2, 2]], "n": [[1, 3], [2, 4]]}
    chart = chart_of(shared, frame + "sns.barplot(d, x='x', y='y', hue='h'); plt.show()")
    assert bars(chart) == [("1", "m", 1, 0), ("2", "m", 2, 0), ("1", "n", 3, 0), ("2", "n", 4, 0)]
    assert {e["type"] for e in chart["elements"]} == {"bar"}, "an error bar is no line"
    chart = chart_of(shared, frame + "sns.boxplot(d, x='h', y='y'); plt.show()")
    assert [(e["label"], e["median"]) for e in chart["elements"]] == [("m", 1.5), ("n", 3.5)]
    chart = chart_of(shared, frame + "sns.histplot(d, x='y', bins=2); plt.show()")
    assert chart["elements"] == [{"type": "histogram", "label": None, "edges": [1, 2.5, 4], "counts": [2, 2]}]
    chart = chart_of(shared, frame + "sns.heatmap(d.pivot(index='h', columns='x', values='y')); plt.show()")
    assert chart["elements"] == [
        {"type": "heatmap", "label": None, "x": ["1", "2"], "y": ["m", "n"], "values": [[1, 2], [3, 4]]}
    ]
    assert chart_of(shared, frame + "sns.violinplot(d, x='h', y='y'); plt.show()")["type"] == "unknown"


def test_a_large_figure_is_thinned(shared: KernelClient) -> None:
    chart = drawn(shared, "ax.plot(np.arange(1_000_000)); ax.plot([5, 6], label='small')")
    assert (chart["truncated"], chart["points"]) == (True, 1_000_002)
    large, small = chart["elements"]
    assert small["points"] == [[0, 5], [1, 6]]
    assert len(large["points"]) == charts.MAX_POINTS - 2
    assert (large["points"][0], large["points"][-1]) == ([0, 0], [999_999, 999_999])
    chart = drawn(shared, "ax.imshow(np.ones((300, 500)))")
    (element,) = chart["elements"]
    assert chart["points"] == 150_000
    assert len(element["y"]) * len(element["x"]) <= charts.MAX_POINTS
    assert len(element["values"]) == len(element["y"])


def test_shares() -> None:
    assert charts.shares([5, 100, 100], 50) == [5, 22, 23]
    assert charts.shares([1, 2], 50) == [1, 2]
    assert charts.shares([], 50) == []
    assert sum(charts.shares([1] * 100, 50)) == 50


def test_signatures_and_results_stay(shared: KernelClient) -> None:
    code = (
        "import inspect\nfig, ax = plt.subplots()\nn, edges, bars = ax.hist([1, 2])\n"
        "print(type(bars).__name__, len(ax.boxplot([1, 2])['boxes']), list(inspect.signature(ax.hist).parameters)[:2])\n"
        "import pickle; pickle.loads(pickle.dumps(fig)); plt.close(fig)"
    )
    assert shared.ok(PLT + "plt.close()\n" + code).stdout == "BarContainer 1 ['x', 'bins']\n"
    answer = shared.run(PLT + "plt.close()\nplt.gca().hist([1], bins='nosuch')")
    assert answer.error["name"] == "ValueError"
    shared.run("plt.close('all')")


def test_what_was_taken_off_is_forgotten(shared: KernelClient) -> None:
    assert drawn(shared, "ax.hist([1, 2]); ax.clear(); ax.plot([1, 2])")["type"] == "line"
    assert drawn(shared, "ax.boxplot([1, 2]); ax.cla(); ax.plot([1, 2])")["type"] == "line"


@pytest.mark.parametrize(
    "code",
    [
        "import warnings; warnings.simplefilter('error'); ax.plot([1, np.nan]); ax.imshow(np.full((2, 2), np.nan))",
        "ax.lines_ = 1; line, = ax.plot([1, 2]); line.get_xydata = lambda: 1 / 0",
        "line, = ax.plot([1, 2]); line.get_label = lambda: print('called') or 1 / 0",
        "ax.get_legend = lambda: 1 / 0; ax.plot([1])",
        "import sys; sys.modules['pandastack_kernel.charts_axis'] = None; ax.plot([1, 2])",
    ],
)
def test_a_figure_that_cannot_be_read_is_shown(kernel: KernelClient, code: str) -> None:
    answer = kernel.ok(PLT + code + "\nplt.show()")
    assert answer.pngs == 1
    assert not answer.stderr
    (event,) = answer.results
    assert json.loads(event["data"][MIME])["type"] in ("unknown", "line", "heatmap")


def test_a_broken_extractor_loses_no_picture(kernel: KernelClient) -> None:
    kernel.ok("import pandastack_kernel.charts as c; c.assemble = None")
    answer = kernel.ok(PLT + "ax.plot([1, 2]); plt.show()")
    assert (answer.pngs, answer.stderr) == (1, "")
    assert MIME not in answer.results[0]["data"]


def test_other_formats_have_the_chart_too(kernel: KernelClient) -> None:
    kernel.ok("%config InlineBackend.figure_formats = ['svg', 'png']")
    (event,) = kernel.ok(PLT + "ax.plot([1, 2]); plt.show()").results
    assert set(event["data"]) == {"image/svg+xml", "image/png", MIME}
    assert json.loads(event["data"][MIME])["type"] == "line"


def test_no_name_is_left_behind(kernel: KernelClient) -> None:
    kernel.ok(PLT + "ax.plot([1]); plt.show()")
    assert kernel.ok("sorted(n for n in globals() if 'chart' in n)").text == "[]"


# plotly.


def plotted(kernel: KernelClient, expression: str) -> dict[str, Any]:
    pytest.importorskip("plotly")
    chart = chart_of(kernel, GO + expression)
    assert chart_of(kernel, GO + f"({expression}).show()") == chart
    return chart


def test_plotly_lines_and_points(shared: KernelClient) -> None:
    chart = plotted(
        shared,
        "go.Figure([go.Scatter(x=['2024-01-01', '2024-01-02'], y=[1, None], name='a<br>b'),"
        " go.Scattergl(x=['2024-01-01'], y=np.array([5.]), mode='markers')],"
        " dict(title='<b>T</b>', xaxis_title='day', yaxis=dict(title='m (kg)', type='log', tickvals=[1, 10])))",
    )
    assert (chart["type"], chart["title"]) == ("scatter", "T")
    assert (chart["x_label"], chart["x_scale"]) == ("day", "datetime")
    assert (chart["y_unit"], chart["y_scale"], chart["y_ticks"], chart["y_tick_labels"]) == (
        "kg", "log", [1, 10], ["1", "10"],
    )  # fmt: skip
    assert chart["elements"] == [
        {"type": "line", "label": "a b", "points": [["2024-01-01", 1], ["2024-01-02", None]]},
        {"type": "scatter", "label": None, "points": [["2024-01-01", 5]]},
    ]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float32", "float64"])
def test_plotly_encoded_arrays(shared: KernelClient, dtype: str) -> None:
    chart = plotted(shared, f"go.Figure(go.Scatter(x=np.arange(2, dtype={dtype!r}), y=np.ones(2, dtype={dtype!r})))")
    assert chart["elements"][0]["points"] == [[0, 1], [1, 1]]


def test_plotly_bars(shared: KernelClient) -> None:
    two = "[go.Bar(x=['u', 'v'], y=[1, -2], name='p'), go.Bar(x=['u', 'v'], y=[3, -4], name='q')]"
    chart = plotted(shared, f"go.Figure({two})")
    assert bars(chart) == [("u", "p", 1, 0), ("v", "p", -2, 0), ("u", "q", 3, 0), ("v", "q", -4, 0)]
    assert (chart["stacked"], chart["orientation"], chart["x_scale"]) == (False, "vertical", "categorical")
    chart = plotted(shared, f"go.Figure({two}, dict(barmode='stack'))")
    assert bars(chart)[2:] == [("u", "q", 3, 1), ("v", "q", -4, -2)]
    assert chart["stacked"] is True
    chart = plotted(shared, "go.Figure(go.Bar(x=[1, 2], y=['u', 'v'], orientation='h'))")
    assert bars(chart) == [("u", None, 1, 0), ("v", None, 2, 0)]
    assert (chart["orientation"], chart["y_scale"]) == ("horizontal", "categorical")


def test_plotly_pie(shared: KernelClient) -> None:
    chart = plotted(shared, "go.Figure(go.Pie(labels=['a', 'b', 'a'], values=[1, 1, 2]))")
    assert [(e["label"], e["value"], e["angle"]) for e in chart["elements"]] == [("a", 3, 270), ("b", 1, 90)]


@pytest.mark.parametrize("kind", ["Box", "Violin"])
def test_plotly_boxes(shared: KernelClient, kind: str) -> None:
    chart = plotted(shared, f"go.Figure(go.{kind}(y=[1, 2, 3, 4, 50], x=['a'] * 5, name='n'))")
    assert (chart["type"], chart["orientation"]) == ("box", "vertical")
    assert chart["elements"] == [
        {"type": "box", "label": "a", "group": "n", "min": 1, "first_quartile": 1.75, "median": 3,
         "third_quartile": 15.5, "max": 15.5, "outliers": [50]},
    ]  # fmt: skip
    assert plotted(shared, f"go.Figure(go.{kind}(x=[1, 2, 3]))")["orientation"] == "horizontal"


def test_plotly_boxes_of_quartiles(shared: KernelClient) -> None:
    chart = plotted(shared, "go.Figure(go.Box(x=['a'], q1=[1], median=[2], q3=[3], lowerfence=[0], upperfence=[4]))")
    assert [chart["elements"][0][name] for name in charts.BOX_STATISTICS] == [0, 1, 2, 3, 4]
    assert chart["elements"][0]["label"] == "a"


def test_plotly_histograms(shared: KernelClient) -> None:
    chart = plotted(shared, "go.Figure(go.Histogram(x=[1, 1, 2, 4], xbins=dict(start=0, end=6, size=2)))")
    assert chart["elements"] == [{"type": "histogram", "label": None, "edges": [0, 2, 4, 6], "counts": [2, 1, 1]}]
    chart = plotted(shared, "go.Figure(go.Histogram(x=[1, 1, 2, 4], nbinsx=2, histnorm='percent'))")
    assert chart["elements"][0] == {"type": "histogram", "label": None, "edges": [0, 2, 4, 6], "counts": [50, 25, 25]}
    chart = plotted(shared, "go.Figure(go.Histogram(x=['u', 'v', 'u'], y=[1, 2, 5], histfunc='avg'))")
    assert bars(chart) == [("u", None, 3, 0), ("v", None, 2, 0)]
    chart = plotted(shared, "go.Figure(go.Histogram(x=['2024-01-01', '2024-01-02T05:00'], nbinsx=2))")
    assert chart["elements"][0]["edges"] == ["2024-01-01", "2024-01-02", "2024-01-03"]


def test_plotly_heat_maps(shared: KernelClient) -> None:
    chart = plotted(shared, "go.Figure(go.Heatmap(z=[[1, None]], x=['a', 'b'], y=['p'], colorbar_title='K'))")
    assert chart["elements"] == [
        {"type": "heatmap", "label": "K", "x": ["a", "b"], "y": ["p"], "values": [[1, None]]},
    ]
    chart = plotted(shared, "px.imshow(np.arange(4.).reshape(2, 2))")
    assert chart["elements"][0]["values"] == [[0, 1], [2, 3]]


def test_plotly_subplots(shared: KernelClient) -> None:
    pytest.importorskip("plotly")
    chart = chart_of(
        shared,
        GO + "from plotly.subplots import make_subplots\n"
        "f = make_subplots(1, 2, subplot_titles=['L', 'R'], specs=[[{'secondary_y': True}, {'type': 'domain'}]])\n"
        "f.add_bar(x=['a'], y=[1], row=1, col=1); f.add_scatter(x=['a'], y=[9], row=1, col=1, secondary_y=True)\n"
        "f.add_pie(labels=['p'], values=[1], row=1, col=2); f.update_layout(title='all')\nf",
    )
    assert (chart["type"], chart["title"]) == ("superchart", "all")
    assert [(c["type"], c["title"]) for c in chart["elements"]] == [("bar", "L"), ("line", "L"), ("pie", "R")]


def test_plotly_unknown_and_large(shared: KernelClient) -> None:
    chart = plotted(shared, "go.Figure(go.Scatter3d(x=[1], y=[1], z=[1]), dict(title='T'))")
    assert (chart["type"], chart["title"], chart["elements"]) == ("unknown", "T", [])
    chart = plotted(shared, "go.Figure(go.Scattergl(y=np.arange(1_000_000), x=np.arange(1_000_000)))")
    assert (chart["truncated"], chart["points"]) == (True, 1_000_000)
    assert chart["elements"][0]["points"][-1] == [999_999, 999_999]
    assert len(chart["elements"][0]["points"]) == charts.MAX_POINTS
    answer = shared.ok(GO + "go.Figure()")
    assert MIME not in answer.main


def test_plotly_hostile_specs() -> None:
    from pandastack_kernel import charts_plotly

    class Bad:
        def __str__(self) -> str:
            raise RuntimeError

    bad: list[Any] = [
        {"data": [{"type": "scatter", "x": {"dtype": "f8", "bdata": "!!"}, "y": [1]}]},
        {"data": [{"type": "scatter", "x": {"dtype": "O", "bdata": ""}, "y": 5}]},
        {"data": [{"type": "heatmap", "z": [[1], [1, 2]]}]},
        {
            "data": [
                {"type": "box", "y": [None]},
                {"type": "pie"},
                {"type": "bar"},
                {"type": "histogram", "x": ["x", None]},
            ]
        },
        {"data": [{"type": "scatter", "x": [Bad()], "y": [{}], "name": Bad()}], "layout": {"title": Bad()}},
        {"data": [None, 5, {"type": ["x"]}]},
        {"data": 5},
        None,
    ]
    for spec in bad:
        made = charts_plotly.bundle(spec)
        json.dumps(made, allow_nan=False)
    assert made == {}


def test_statistics() -> None:
    import numpy as np

    assert charts_statistics.edges(np.array([0.0, 10.0]), 5).tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert charts_statistics.edges(np.array([3.0, 3.0]), None).tolist() == [2.5, 3.5]
    assert len(charts_statistics.edges(np.array([0.0, 1e-300]), 5)) < 20
    five, beyond = charts_statistics.five_numbers(np.array([7.0, np.nan]))
    assert (five["min"], five["median"], five["max"], beyond.tolist()) == (7, 7, 7, [])
