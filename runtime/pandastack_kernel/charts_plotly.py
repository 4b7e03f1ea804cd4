# SPDX-License-Identifier: Apache-2.0
"""The chart of a plotly figure, read from its JSON: ``{"data": [traces], "layout": {...}}``.

Lines and points (scatter, scattergl), bars, pies, boxes, violins (as boxes), histograms and heat maps have elements;
any other trace has none, and axes with nothing else are *unknown*. What plotly's browser part computes when it draws
is computed by ``charts_statistics``, ticks excepted: only those that the figure fixes are known.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import charts, charts_statistics, charts_values
from .charts import Chart, Panel, Series
from .charts_values import Spec

_SCALES = {"linear": "linear", "log": "log", "date": "datetime", "category": "categorical"}
_SCALES["multicategory"] = "categorical"
_STACKING = frozenset(("stack", "relative"))
_CARTESIAN = frozenset(
    (
        *("scatter", "scattergl", "bar", "box", "violin", "histogram", "heatmap", "heatmapgl", "waterfall", "funnel"),
        *("histogram2d", "histogram2dcontour", "contour", "image", "candlestick", "ohlc"),
    )
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


def bundle(spec: Any) -> dict[str, Chart]:
    """Return ``{charts.MIME: chart}`` of a figure's parsed JSON; empty if it has no traces."""
    return charts.guarded(lambda: _chart(spec))


def _chart(spec: Spec) -> Chart | None:
    layout = spec.get("layout") or {}
    groups: dict[tuple[str, ...], list[Spec]] = {}
    for index, trace in enumerate(spec.get("data") or ()):
        if isinstance(trace, dict) and trace.get("visible", True) is True:
            groups.setdefault(_place(trace, index), []).append(trace)
    panels = [_panel(traces, place, layout, single=len(groups) == 1) for place, traces in groups.items()]
    return charts.assemble(_title(layout), panels)


def _place(trace: Spec, index: int) -> tuple[str, ...]:
    """Return where a trace is drawn: the names of its axes, or of whatever it is drawn on instead."""
    if trace.get("type", "scatter") in _CARTESIAN:
        return str(trace.get("xaxis") or "x"), str(trace.get("yaxis") or "y")
    for key in ("scene", "subplot", "geo"):
        if key in trace:
            return key, str(trace[key])
    return "domain", str(trace.get("domain") or index)


def _panel(traces: list[Spec], place: tuple[str, ...], layout: Spec, *, single: bool) -> Panel:
    panel = Panel(charts.blank(None if single else _subplot_title(traces[0], place, layout)))
    try:
        if traces[0].get("type", "scatter") in _CARTESIAN:
            _Reader(panel, traces, place, layout).fill()
        else:
            panel.series += [
                series for trace in traces if trace.get("type") == "pie" for series in _pie(trace, layout)
            ]
    except Exception:
        panel.series.clear()
    return panel


class _Reader:
    """Fills one panel from the traces of one pair of axes."""

    def __init__(self, panel: Panel, traces: list[Spec], place: tuple[str, ...], layout: Spec) -> None:
        self.panel = panel
        self.traces = traces
        self.layout = layout
        self.axes = {side: layout.get(_axis_key(name)) or {} for side, name in zip("xy", place, strict=True)}
        self.tops: dict[tuple[Any, bool], float] = {}
        """Of stacked bars: where the next one begins, by category and whether it is negative."""
        self.stacked = layout.get("barmode") in _STACKING

    def fill(self) -> None:
        readers = {
            "scatter": self.scatter,
            "scattergl": self.scatter,
            "bar": self.bar,
            "box": self.box,
            "violin": self.box,
            "histogram": self.histogram,
            "heatmap": self.heatmap,
            "heatmapgl": self.heatmap,
        }
        kinds = {trace.get("type", "scatter"): None for trace in self.traces}
        for trace in self.traces:
            reader = readers.get(trace.get("type", "scatter"))
            if reader is not None:
                self.panel.series += reader(trace)
        chart = self.panel.chart
        for side in "xy":
            self.describe(chart, side)
        if kinds.keys() & {"bar", "box", "violin", "histogram"}:
            chart["orientation"] = "horizontal" if any(map(_is_horizontal, self.traces)) else "vertical"
        if any(series.kind == "bar" for series in self.panel.series):
            groups = [series for series in self.panel.series if series.kind == "bar"]
            chart["stacked"] = self.stacked and len(groups) > 1

    def describe(self, chart: Chart, side: str) -> None:
        axis = self.axes[side]
        label = _title(axis)
        places = charts_values.array(axis.get("tickvals"))
        chart[f"{side}_label"] = label
        chart[f"{side}_unit"] = charts.unit(label)
        chart[f"{side}_scale"] = _SCALES.get(str(axis.get("type"))) or self.scale_of_data(side)
        if places is not None:
            chart[f"{side}_ticks"] = charts_values.as_json(places[: charts.MAX_TICKS])
            texts = charts_values.array(axis.get("ticktext"))
            shown = chart[f"{side}_ticks"] if texts is None else texts[: charts.MAX_TICKS].tolist()
            chart[f"{side}_tick_labels"] = [_plain(each) or "" for each in shown]

    def scale_of_data(self, side: str) -> str:
        """Return the scale that plotly chooses: by the first trace that has data there."""
        for trace in self.traces:
            if isinstance(trace.get(side), dict):
                return "linear"
            values = charts_values.array(trace.get(side))
            if values is not None and len(values):
                return charts_values.scale(values)
        sideways = any(map(_is_horizontal, self.traces))
        boxes = any(trace.get("type") in ("box", "violin") for trace in self.traces)
        return "categorical" if boxes and side == ("y" if sideways else "x") else "linear"

    def scatter(self, trace: Spec) -> Iterator[Series]:
        x, y = charts_values.with_default(trace, "x", "y"), charts_values.with_default(trace, "y", "x")
        size = min(len(x), len(y))
        mode = str(trace.get("mode") or ("lines+markers" if size < 20 else "lines"))
        if size:
            kind = "line" if "lines" in mode else "scatter"
            yield charts.xy(kind, x[:size], y[:size], charts_values.as_json, charts_values.as_json, _name(trace))

    def bar(self, trace: Spec) -> Iterator[Series]:
        along, across = ("y", "x") if _is_horizontal(trace) else ("x", "y")
        values = charts_values.array(trace.get(across))
        if values is None or not len(values):
            return
        labels = charts_values.with_default(trace, along, across)
        size = min(len(values), len(labels))
        values = charts_values.floats(values[:size])
        yield self._bars(charts_values.as_json(labels[:size]), values, trace)

    def _bars(self, labels: list[Any], values: Any, trace: Spec) -> Series:
        bases = charts_values.array(trace.get("base"))
        if bases is not None:
            bases = np.broadcast_to(charts_values.floats(bases), values.shape)
        elif self.stacked:
            bases = np.array(
                [self._stack(label, value) for label, value in zip(labels, values.tolist(), strict=True)]
            )
        return charts.bars(labels, values, bases, charts_values.as_json, _name(trace))

    def _stack(self, label: Any, value: float) -> float:
        key = (label, value < 0)
        base = self.tops.get(key, 0.0)
        self.tops[key] = base + (value if np.isfinite(value) else 0)
        return base

    def box(self, trace: Spec) -> Iterator[Series]:
        along, across = ("y", "x") if _is_horizontal(trace) else ("x", "y")
        name = _name(trace)
        if "q1" in trace:
            yield from _computed_boxes(trace, along, name)
            return
        samples = charts_values.array(trace.get(across))
        if samples is None:
            return
        samples = charts_values.floats(samples)
        groups = charts_values.array(trace.get(along))
        if groups is None or len(groups) != len(samples):
            label = charts.text(trace.get(f"{along}0")) or name
            parts = [(label, samples)]
        else:
            names, which = charts_values.factor(groups)
            parts = [(label, samples[which == index]) for index, label in enumerate(names[: charts.MAX_TICKS])]
        for label, part in parts:
            if np.isfinite(part).any():
                yield charts.box(label, *charts_statistics.five_numbers(part), name)

    def histogram(self, trace: Spec) -> Iterator[Series]:
        along, across = ("y", "x") if _is_horizontal(trace) else ("x", "y")
        values = charts_values.array(trace.get(along))
        if values is None or not len(values):
            return
        weights = charts_values.array(trace.get(across))
        weights = None if weights is None else charts_values.floats(weights)[: len(values)]
        function = str(trace.get("histfunc") or "count")
        how = str(trace.get("histnorm") or "")
        scale = _SCALES.get(str(self.axes[along].get("type"))) or charts_values.scale(values)
        if scale == "categorical":
            names, which = charts_values.factor(values)
            counts = charts_statistics.aggregate(which, len(names), weights, function)
            yield self._bars(names, charts_statistics.normalise(counts, 1, how), trace)
            return
        numeric = charts_values.moments(values) if scale == "datetime" else charts_values.floats(values)
        known = np.isfinite(numeric)
        if known.any():
            bins = _bins(numeric[known], trace, along, dates=scale == "datetime")
            where = np.clip(np.searchsorted(bins, numeric, "right") - 1, -1, len(bins) - 1)
            known &= (where >= 0) & (where < len(bins) - 1)
            weights = None if weights is None else weights[known]
            counts = charts_statistics.aggregate(where[known], len(bins) - 1, weights, function)
            counts = charts_statistics.normalise(counts, np.diff(bins), how)
            if (trace.get("cumulative") or {}).get("enabled"):
                counts = np.cumsum(counts)
            read = charts_values.read_moments if scale == "datetime" else charts.numbers
            yield charts.histogram(counts, bins, read, _name(trace))

    def heatmap(self, trace: Spec) -> Iterator[Series]:
        rows = trace.get("z")
        cells = (
            charts_values.array(rows)
            if isinstance(rows, dict)
            else charts_values.floats(np.array(rows, dtype=object))
        )
        if cells is None or cells.ndim != 2:
            return
        axis = self.layout.get(trace.get("coloraxis") or "") or trace
        label = _title(axis.get("colorbar") or {}) or _name(trace)
        y, x = (charts_values.centres(trace, side, size) for side, size in zip("yx", cells.shape, strict=True))
        yield charts.heatmap(x, y, cells, label)


def _pie(trace: Spec, layout: Spec) -> Iterator[Series]:
    values, labels = charts_values.array(trace.get("values")), charts_values.array(trace.get("labels"))
    if labels is None and values is not None:
        labels = np.arange(len(values))
    if labels is None or not len(labels):
        return
    names, which = charts_values.factor(labels)
    amounts = None if values is None else charts_values.floats(values)
    size = min(len(which), len(which) if amounts is None else len(amounts))
    if amounts is not None:
        amounts = np.where(amounts[:size] > 0, amounts[:size], 0)
    sums = charts_statistics.aggregate(which[:size], len(names), amounts, "sum")
    hidden = layout.get("hiddenlabels") or ()
    shown = [(name, value) for name, value in zip(names, sums.tolist(), strict=True) if name not in hidden]
    total = sum(value for _, value in shown) or 1
    for name, value in shown:
        yield charts.wedge(value, value / total, 1, charts.text(name))


def _computed_boxes(trace: Spec, along: str, name: str | None) -> Iterator[Series]:
    """Yield the boxes of a trace that holds quartiles, not samples."""
    keys = ("lowerfence", "q1", "median", "q3", "upperfence")
    columns = {key: charts_values.array(trace.get(key)) for key in keys}
    # Without fences the whiskers end at the box.
    for fence, quartile in (("lowerfence", "q1"), ("upperfence", "q3")):
        if columns[fence] is None:
            columns[fence] = columns[quartile]
    labels = charts_values.array(trace.get(along))
    for index, values in enumerate(zip(*(charts_values.floats(columns[key]).tolist() for key in keys), strict=True)):
        label = name if labels is None else charts_values.as_json(labels[index : index + 1])[0]
        yield charts.box(label, dict(zip(charts.BOX_STATISTICS, values, strict=True)), np.empty(0), name)


def _bins(values: Any, trace: Spec, along: str, *, dates: bool) -> Any:
    fixed = trace.get(f"{along}bins") or {}
    start, end, size = (fixed.get(key, "") for key in ("start", "end", "size"))
    if not dates and all(isinstance(each, (int, float)) for each in (start, end, size)):
        return charts_statistics.stepped(start, end, size)
    return charts_statistics.edges(values, trace.get(f"nbins{along}"), seconds=dates)


def _is_horizontal(trace: Spec) -> bool:
    said = trace.get("orientation")
    if said is not None:
        return bool(said == "h")
    if "q1" in trace:
        return "y" in trace and "x" not in trace
    sampled = trace.get("type") in ("box", "violin", "histogram")
    first, second = ("y", "x") if trace.get("type") == "histogram" else ("x", "y")
    return sampled and first in trace and second not in trace


def _name(trace: Spec) -> str | None:
    return _plain(trace.get("name"))


def _plain(value: Any) -> str | None:
    """Return a text without plotly's markup (a few HTML tags)."""
    said = charts.text(value)
    if said is None or ("<" not in said and "&" not in said):
        return said
    return charts.text(html.unescape(_TAG.sub("", re.sub(r"<br\s*/?>", " ", said))))


def _title(thing: Spec) -> str | None:
    title = thing.get("title")
    return _plain(title.get("text") if isinstance(title, dict) else title)


def _axis_key(name: str) -> str:
    """Return an axis's key in the layout: x2 is xaxis2."""
    return f"{name[0]}axis{name[1:]}"


def _subplot_title(trace: Spec, place: tuple[str, ...], layout: Spec) -> str | None:
    """Return the annotation above the middle of a subplot, which is how plotly titles one."""
    if place[0] == "domain":
        area = trace.get("domain") or {}
    else:
        area = {name[0]: (layout.get(_axis_key(name)) or {}).get("domain") for name in place}
    (left, right), (_, top) = (area.get(side) or (0, 1) for side in "xy")
    for note in layout.get("annotations") or ():
        if note.get("xref") == "paper" and note.get("yref") == "paper" and not note.get("showarrow", True):
            x, y = charts_values.as_float(note.get("x")), charts_values.as_float(note.get("y"))
            if abs(x - (left + right) / 2) < 0.01 and abs(y - top) < 0.01:
                return _plain(note.get("text"))
    title = trace.get("title")
    return _title(trace) if isinstance(title, dict) and trace.get("type") == "pie" else None
