# SPDX-License-Identifier: Apache-2.0
"""The ``chart`` object beside a figure: its schema, its limits and what both extractors need.

A chart is a dict that is JSON already; docs/charts.md shows one of each type::

    {"type", "title", "x_label", "y_label", "x_unit", "y_unit", "x_scale", "y_scale",
     "x_ticks", "x_tick_labels", "y_ticks", "y_tick_labels", "elements": [...],
     "orientation"?, "stacked"?, "row"?, "column"?, "truncated"?, "points"?}

Every element has a ``type`` of its own (KINDS); the chart's is the first of KINDS that occurs. A *superchart* has
charts as its elements. What is not known is None.

An extractor makes a ``Panel`` for each pair of axes, with a ``Series`` for each thing drawn there. Only then is it
known how many points there are, and ``assemble`` lets every series build as many as MAX_POINTS allows.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MIME = "application/vnd.pandastack.chart+json"

MAX_POINTS = 10_000
"""Most points (bars, wedges, bins, cells of a heat map, outliers) of one figure; more are thinned evenly."""

MAX_PANELS = 100
"""Most axes of one figure."""

MAX_TICKS = 1_000
"""Most ticks of one axis."""

MAX_TEXT_CHARS = 1_000

KINDS = ("pie", "heatmap", "box", "histogram", "bar", "scatter", "line")
"""What an element can be. The first that occurs names the chart: bars with a line over them are a bar chart."""

Chart = dict[str, Any]
Element = dict[str, Any]
Read = Callable[[Any], list[Any]]
"""Returns an array's values as JSON: numbers, ISO dates or names of categories, by the axis they belong to."""


@dataclass
class Series:
    """One thing drawn: a line, the bars of one colour, a heat map.

    Attributes:
        kind: one of KINDS.
        size: how many points it has.
        make: returns its elements with at most so many points, under a label.
        label: what the legend calls it.
        artist: what matplotlib drew it with.
    """

    kind: str
    size: int
    make: Callable[[int, str | None], list[Element]]
    label: str | None = None
    artist: Any = None


@dataclass
class Panel:
    """One pair of axes: the chart without its elements, and what is drawn there."""

    chart: Chart
    series: list[Series] = field(default_factory=list)


def blank(title: str | None = None) -> Chart:
    """Return a chart of which nothing but the title is known."""
    chart: Chart = {"type": "unknown", "title": title}
    chart.update(dict.fromkeys(("x_label", "y_label", "x_unit", "y_unit", "x_scale", "y_scale")))
    chart.update({name: [] for name in ("x_ticks", "x_tick_labels", "y_ticks", "y_tick_labels", "elements")})
    return chart


def assemble(title: str | None, panels: Sequence[Panel]) -> Chart | None:
    """Return the figure's chart: the panel's if there is one, else a superchart; None if there is no panel.

    Args:
        title: the figure's own title; a single panel takes it if it has none.
        panels: in the order of drawing; those beyond MAX_PANELS are left out.
    """
    if not panels:
        return None
    shown = panels[:MAX_PANELS]
    sizes = [series.size for panel in shown for series in panel.series]
    room = iter(shares(sizes, MAX_POINTS))
    drawn = [_build(panel, room) for panel in shown]
    if len(panels) == 1:
        chart = drawn[0]
        chart["title"] = chart["title"] or title
        chart.pop("row", None)
        chart.pop("column", None)
        return chart
    whole = blank(title)
    whole.update(type="superchart", elements=drawn)
    if len(panels) > MAX_PANELS or sum(sizes) > MAX_POINTS:
        whole.update(truncated=True, points=sum(series.size for panel in panels for series in panel.series))
    return whole


def _build(panel: Panel, room: Any) -> Chart:
    chart, kept, points = panel.chart, 0, 0
    for series in panel.series:
        keep = next(room)
        points += series.size
        kept += keep
        if keep:
            chart["elements"] += series.make(keep, series.label)
    found = {series.kind for series in panel.series}
    chart["type"] = next((kind for kind in KINDS if kind in found), "unknown")
    if kept < points:
        chart.update(truncated=True, points=points)
    return chart


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """Return how many points each series may keep: small ones all, large ones an equal part of what is left."""
    kept = [0] * len(sizes)
    left = len(sizes)
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        kept[index] = min(sizes[index], room // left)
        room -= kept[index]
        left -= 1
    return kept


def spread(size: int, keep: int) -> Any:
    """Return an index for ``keep`` of ``size`` items: evenly, with the first and the last."""
    return slice(None) if keep >= size else np.linspace(0, size - 1, keep).round().astype(int)


def xy(kind: str, x: Any, y: Any, read_x: Read, read_y: Read, label: str | None = None) -> Series:
    """Return the series of a line or of scattered points; ``x`` and ``y`` are arrays of one length."""

    def make(keep: int, label: str | None) -> list[Element]:
        at = spread(len(x), keep)
        pairs = zip(read_x(x[at]), read_y(y[at]), strict=True)
        return [{"type": kind, "label": label, "points": [[a, b] for a, b in pairs]}]

    return Series(kind, len(x), make, label)


def bars(labels: Sequence[Any], values: Any, bases: Any, read: Read, group: str | None = None) -> Series:
    """Return the series of bars of one colour.

    Args:
        labels: the bars' categories, JSON already.
        values: array of the bars' lengths, negative ones downwards.
        bases: array of where they begin; None if at 0.
        read: how a value becomes JSON.
        group: what the legend calls them.
    """

    def make(keep: int, group: str | None) -> list[Element]:
        at = range(len(labels))[: len(labels)] if keep >= len(labels) else spread(len(labels), keep).tolist()
        ends, starts = read(values), read(bases) if bases is not None else None
        made: list[Element] = []
        for i in at:
            element = {"type": "bar", "label": whole(labels[i]), "group": group, "value": ends[i]}
            if starts is not None and starts[i]:
                element["base"] = starts[i]
            made.append(element)
        return made

    return Series("bar", len(labels), make, group)


def histogram(counts: Any, edges: Any, read: Read, label: str | None = None) -> Series:
    """Return the series of a histogram: n counts and n + 1 edges. One with too many bins keeps its first."""

    def make(keep: int, label: str | None) -> list[Element]:
        return [
            {"type": "histogram", "label": label, "edges": read(edges[: keep + 1]), "counts": numbers(counts[:keep])}
        ]

    return Series("histogram", len(counts), make, label)


def box(label: Any, statistics: dict[str, Any], outliers: Any, group: str | None = None) -> Series:
    """Return the series of one box: ``statistics`` are its five numbers, min and max being the whiskers' ends."""

    def make(keep: int, group: str | None) -> list[Element]:
        beyond = numbers(outliers[spread(len(outliers), keep - 1)]) if keep > 1 else []
        five = {name: number(value) for name, value in statistics.items()}
        return [{"type": "box", "label": whole(label), "group": group, **five, "outliers": beyond}]

    return Series("box", 1 + len(outliers), make, group)


BOX_STATISTICS = ("min", "first_quartile", "median", "third_quartile", "max")


def heatmap(x: Sequence[Any], y: Sequence[Any], values: Any, label: str | None = None) -> Series:
    """Return the series of a heat map.

    Args:
        x: the columns' centres or names, JSON already.
        y: the rows'.
        values: array of shape (len(y), len(x)); row 0 belongs to ``y[0]``, wherever that is drawn.
        label: what the colours mean.
    """
    rows, columns = values.shape

    def make(keep: int, label: str | None) -> list[Element]:
        part = math.sqrt(min(1.0, keep / (rows * columns)))
        high = max(1, int(rows * part))
        wide = max(1, min(columns, keep // high))
        high = min(rows, high, keep)
        across = range(columns) if wide == columns else spread(columns, wide)
        down = range(rows) if high == rows else spread(rows, high)
        cells = values[np.ix_(list(down), list(across))]
        return [
            {
                "type": "heatmap",
                "label": label,
                "x": [x[i] for i in across],
                "y": [y[i] for i in down],
                "values": [numbers(row) for row in cells],
            }
        ]

    return Series("heatmap", rows * columns, make, label)


def wedge(value: Any, share: float, radius: float, label: str | None) -> Series:
    """Return the series of a pie's wedge; ``share`` is its part of the circle, from 0 to 1."""

    def make(keep: int, label: str | None) -> list[Element]:
        angle = number(share * 360)
        return [{"type": "pie", "label": label, "value": number(value), "angle": angle, "radius": number(radius)}]

    return Series("pie", 1, make, label)


def number(value: Any) -> Any:
    """Return one number as JSON; None for NaN and infinity."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def numbers(values: Any) -> list[Any]:
    """Return an array of numbers (also a masked one) as JSON; None for NaN, infinity and what is masked."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(float), np.nan) if np.ma.is_masked(values) else values.data
    if values.dtype.kind != "f":
        return list(values.tolist())
    good = np.isfinite(values)
    if good.all():
        return list(values.tolist())
    plain = values.astype(object)
    plain[~good] = None
    return list(plain.tolist())


def dates(moments: Any, *, utc: bool = False) -> list[str | None]:
    """Return an array of datetime64 as ISO 8601: days if all are midnights, else as fine as needed."""
    moments = moments.astype("datetime64[us]")
    missing = np.isnat(moments)
    units = ("s", "us") if utc else ("D", "s", "us")
    unit: Any = next(
        unit for unit in units if unit == "us" or (missing | (moments == moments.astype(f"M8[{unit}]"))).all()
    )
    texts = np.datetime_as_string(moments, unit=unit, timezone="UTC" if utc else "naive").tolist()
    return [None if gone else said for said, gone in zip(texts, missing.tolist(), strict=True)]


def whole(value: Any) -> Any:
    """Return a float that is an integer as one: a bar at 2021.0 is called 2021."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53 else value


def text(value: Any) -> str | None:
    """Return ``str(value)``, cut to MAX_TEXT_CHARS; None if there is nothing to read. Never raises an Exception."""
    if value is None:
        return None
    try:
        return str(value).strip()[:MAX_TEXT_CHARS] or None
    except Exception:
        return f"<{type(value).__name__}>"


_UNIT = re.compile(r"\s[(\[]\s*([^()\[\]]{1,40}?)\s*[)\]]$|\s/\s(\S{1,20})$")


def unit(label: str | None) -> str | None:
    """Return the unit that a label ends in: ``Speed (km/h)``, ``Speed [km/h]`` or ``Speed / km/h``."""
    found = _UNIT.search(label or "")
    return (found[1] or found[2]) if found else None


def guarded(extract: Callable[[], Chart | None]) -> dict[str, Chart]:
    """Return ``{MIME: extract()}``, or nothing if it fails: the picture goes out in any case, and no warning does."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            chart = extract()
    except Exception:
        return {}
    return {} if chart is None else {MIME: chart}
