# SPDX-License-Identifier: Apache-2.0
"""The chart of a matplotlib figure, read from what is drawn on its axes; so also of pandas' and seaborn's plots.

``bundle`` is called after the figure was drawn and draws nothing. What is read: lines, scattered points, bars,
histograms, boxes, wedges, images and meshes. The rest (areas, contours, arrows, text) has no element, and axes that
are not rectangular are *unknown*. Bins, quartiles and a pie's values come from ``charts_hooks``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from matplotlib import collections, colors, container, image, lines, patches

from . import charts, charts_hooks
from .charts import Chart, Panel, Series
from .charts_axis import Axis


def bundle(figure: Any) -> dict[str, Chart]:
    """Return ``{charts.MIME: chart}`` of a figure that was just drawn; empty if it has no axes."""
    return charts.guarded(lambda: _chart(figure))


def _chart(figure: Any) -> Chart | None:
    seen = [axes for axes in figure.axes if axes.get_visible() and getattr(axes, "_colorbar", None) is None]
    panels = [_panel(axes) for axes in seen]
    # Axes switched off fill the rest of a grid.
    shown = [panel for axes, panel in zip(seen, panels, strict=True) if panel.series or axes.axison]
    return charts.assemble(_figure_title(figure), shown or panels)


def _figure_title(figure: Any) -> str | None:
    get = getattr(figure, "get_suptitle", None)
    return charts.text(get()) if get is not None else None


def _panel(axes: Any) -> Panel:
    titles = (charts.text(axes.get_title(loc=where)) for where in ("center", "left", "right"))
    panel = Panel(charts.blank(next(filter(None, titles), None)))
    try:
        place = axes.get_subplotspec()
        if place is not None:
            place = place.get_topmost_subplotspec()
            panel.chart.update(row=place.rowspan.start, column=place.colspan.start)
        _Reader(axes, panel).fill()
    except Exception:
        panel.series.clear()
    return panel


class _Reader:
    """Fills one panel from one pair of axes."""

    def __init__(self, axes: Any, panel: Panel) -> None:
        self.axes = axes
        self.panel = panel
        self.taken: set[int] = set()
        """Ids of the artists that belong to a histogram, a box, an error bar."""

    def fill(self) -> None:
        axes = self.axes
        flat = axes.name == "rectilinear"
        bars = [bars for bars in axes.containers if isinstance(bars, container.BarContainer) and len(bars)]
        boxes = list(charts_hooks.recall(axes, "bxp")) if flat else []
        meshes = [mesh for mesh in axes.collections if isinstance(mesh, collections.QuadMesh)]
        recalled = [*boxes, *charts_hooks.recall(axes, "hist")]
        sideways = any(facts["horizontal"] for _, facts in recalled) or any(map(_is_horizontal, bars))
        upright = (bars or boxes) and not sideways
        self.x = Axis(axes.xaxis, named=bool(upright or meshes or axes.images))
        self.y = Axis(axes.yaxis, named=bool(sideways or meshes or axes.images))
        self.x.describe(self.panel.chart, "x")
        self.y.describe(self.panel.chart, "y")
        if not flat:
            return
        self.panel.series += [*self.pies(), *self.boxes(boxes), *self.histograms(), *self.bars(bars)]
        self.panel.series += [*self.lines(), *self.points(), *self.images(), *self.meshes(meshes)]
        self.panel.series[:] = _with_labels(axes, self.panel.series)
        kinds = {series.kind for series in self.panel.series}
        if kinds & {"bar", "box", "histogram"}:
            self.panel.chart["orientation"] = "horizontal" if sideways else "vertical"
        if kinds == {"pie"}:
            self.panel.chart.update(x_scale=None, y_scale=None)
        if "bar" in kinds:
            self.panel.chart["stacked"] = _are_stacked(bars)

    def pies(self) -> Iterator[Series]:
        known: dict[int, Any] = {}
        for wedges, facts in charts_hooks.recall(self.axes, "pie"):
            known.update(zip(map(id, wedges), facts["values"], strict=True))
        for artist in self.axes.patches:
            if isinstance(artist, patches.Wedge):
                share = (artist.theta2 - artist.theta1) / 360
                series = charts.wedge(known.get(id(artist), share), share, artist.r, _own_label(artist))
                yield _drawn(series, artist)

    def boxes(self, recalled: list[tuple[list[Any], dict[str, Any]]]) -> Iterator[Series]:
        for artists, facts in recalled:
            self.taken.update(map(id, artists))
            along = self.y if facts["horizontal"] else self.x
            for stats, at, drawn in zip(facts["statistics"], facts["positions"], facts["boxes"], strict=True):
                values = (stats[key] for key in ("whislo", "q1", "med", "q3", "whishi"))
                five = dict(zip(charts.BOX_STATISTICS, values, strict=True))
                outliers = np.asarray(stats.get("fliers", ()), float)
                series = charts.box(along.name(float(at)), five, outliers)
                yield _drawn(series, drawn if isinstance(drawn, patches.Patch) else None)

    def histograms(self) -> Iterator[Series]:
        labels = {id(each[0]): _own_label(each) for each in self.axes.containers if _is_bars(each)}
        for artists, facts in charts_hooks.recall(self.axes, "hist"):
            self.taken.update(map(id, artists))
            along = self.y if facts["horizontal"] else self.x
            label = labels.get(id(artists[0])) or _own_label(artists[0])
            yield _drawn(charts.histogram(facts["counts"], facts["edges"], along.read, label), artists[0])
        for artist in self.axes.patches:
            if isinstance(artist, patches.StepPatch):
                counts, edges, _ = artist.get_data()
                along = self.y if artist.orientation == "horizontal" else self.x
                yield _drawn(charts.histogram(counts, edges, along.read, _own_label(artist)), artist)

    def bars(self, drawn: list[Any]) -> Iterator[Series]:
        for each in drawn:
            self._take_errors(getattr(each, "errorbar", None))
            if id(each[0]) in self.taken:
                continue
            flat = [bar.get_bbox().get_points() for bar in each]
            ends = np.array(flat, float)
            side = 1 if _is_horizontal(each) else 0
            along, across = (self.y, self.x) if side else (self.x, self.y)
            low, high = ends[:, 0, side], ends[:, 1, side]
            base = ends[:, 0, 1 - side]
            length = ends[:, 1, 1 - side] - base
            if along.scale not in ("categorical", "datetime") and _touch(low, high) and not base.any():
                edges: Any = np.append(low, high[-1])
                yield _drawn(charts.histogram(length, edges, along.read, _own_label(each)), each[0])
                continue
            labels = [along.name(at) for at in ((low + high) / 2).tolist()]
            if across.scale == "datetime":
                # From one date to another: bars of a timetable.
                length = length + base
            yield _drawn(
                charts.bars(labels, length, base if base.any() else None, across.read, _own_label(each)), each[0]
            )

    def lines(self) -> Iterator[Series]:
        for each in self.axes.containers:
            if isinstance(each, container.ErrorbarContainer):
                self._take_errors(each)
            elif isinstance(each, container.StemContainer):
                self.taken.add(id(each.baseline))
        names = {id(each[0]): _own_label(each) for each in self.axes.containers if _has_own_line(each)}
        violins = any(type(each).__name__.endswith("PolyCollection") for each in self.axes.collections)
        for line in self.axes.lines:
            if id(line) in self.taken or isinstance(line, lines.AxLine) or not line.get_visible():
                continue
            points = self._in_data(line)
            label = _own_label(line) or names.get(id(line))
            # An error bar beside seaborn's bars and points; what is drawn into its violins.
            inside = label is None and len(points) > (0 if violins else 1) and self._within_one_category(points)
            if len(points) and not inside:
                stroke = line.get_linestyle() not in ("None", "none", " ", "")
                kind = "line" if stroke else "scatter"
                yield _drawn(charts.xy(kind, points[:, 0], points[:, 1], self.x.read, self.y.read, label), line)

    def points(self) -> Iterator[Series]:
        for artist in self.axes.collections:
            if isinstance(artist, collections.PathCollection) and artist.get_visible():
                at = np.ma.filled(np.ma.asarray(artist.get_offsets(), float), np.nan)
                if len(at):
                    series = charts.xy("scatter", at[:, 0], at[:, 1], self.x.read, self.y.read, _own_label(artist))
                    yield _drawn(series, artist)

    def images(self) -> Iterator[Series]:
        for artist in self.axes.images:
            cells = artist.get_array()
            if not isinstance(artist, image.AxesImage) or cells is None or cells.ndim != 2:
                continue
            left, right, bottom, top = artist.get_extent()
            first, last = (top, bottom) if artist.origin == "upper" else (bottom, top)
            rows, columns = cells.shape
            yield self._heatmap(artist, _centres(left, right, columns), _centres(first, last, rows), cells)

    def meshes(self, meshes: list[Any]) -> Iterator[Series]:
        for artist in meshes:
            corners = artist.get_coordinates()
            across, down = corners[0, :, 0], corners[:, 0, 1]
            cells = artist.get_array()
            if cells is None or not ((corners[..., 0] == across).all() and (corners[..., 1] == down[:, None]).all()):
                continue
            smooth = cells.size == len(across) * len(down)
            x, y = (across, down) if smooth else ((across[1:] + across[:-1]) / 2, (down[1:] + down[:-1]) / 2)
            yield self._heatmap(artist, x, y, cells.reshape(len(y), len(x)))

    def _heatmap(self, artist: Any, x: Any, y: Any, cells: Any) -> Series:
        bar = getattr(artist, "colorbar", None)
        said = [bar.ax.get_ylabel(), bar.ax.get_xlabel()] if bar is not None else []
        label = next(filter(None, map(charts.text, said)), None) or _own_label(artist)
        return charts.heatmap(self.x.read(x), self.y.read(y), cells, label)

    def _take_errors(self, errors: Any) -> None:
        if errors is not None:
            _, caps, _ = errors.lines
            self.taken.update(map(id, caps))

    def _within_one_category(self, points: Any) -> bool:
        return self.x.within_one_category(points[:, 0]) or self.y.within_one_category(points[:, 1])

    def _in_data(self, line: Any) -> Any:
        """Return a line's points, shape (n, 2), in the axes' data; ``axhline`` and the like lie in the axes' own."""
        points = line.get_xydata()
        transform = line.get_transform()
        if transform is self.axes.transData:
            return points
        in_data = transform.contains_branch_seperately(self.axes.transData)
        if all(in_data):
            return points
        moved = self.axes.transData.inverted().transform(transform.transform(points))
        return np.where(in_data, points, moved)


def _is_bars(each: Any) -> bool:
    return isinstance(each, container.BarContainer) and len(each) > 0


def _is_horizontal(bars: Any) -> bool:
    return getattr(bars, "orientation", None) == "horizontal"


def _has_own_line(each: Any) -> bool:
    return isinstance(each, (container.ErrorbarContainer, container.StemContainer)) and each[0] is not None


def _touch(low: Any, high: Any) -> bool:
    """Tell whether bars follow each other without a gap, as seaborn draws a histogram."""
    if len(low) < 2:
        return False
    slack = 1e-6 * (high[-1] - low[0])
    return bool(slack > 0 and np.allclose(low[1:], high[:-1], rtol=0, atol=slack))


def _are_stacked(bars: list[Any]) -> bool:
    if len(bars) < 2:
        return False
    side = "x" if _is_horizontal(bars[0]) else "y"
    return any(getattr(bar, f"get_{side}")() for each in bars[1:] for bar in each)


def _centres(first: float, last: float, count: int) -> Any:
    return first + (np.arange(count) + 0.5) * ((last - first) / count)


def _drawn(series: Series, artist: Any) -> Series:
    series.artist = artist
    return series


def _own_label(artist: Any) -> str | None:
    """Return an artist's label; those that begin with _ are matplotlib's own."""
    label = charts.text(artist.get_label())
    return None if label is None or label.startswith("_") else label


def _with_labels(axes: Any, drawn: list[Series]) -> list[Series]:
    """Return the series, those without a label called what the legend calls their colour, or by their order in it."""
    legend = axes.get_legend()
    if legend is None or all(series.label for series in drawn):
        return drawn
    texts = [charts.text(entry.get_text()) for entry in legend.get_texts()]
    handles: Any = getattr(legend, "legend_handles", None) or getattr(legend, "legendHandles", ())
    by_colour: dict[str, str | None] = {}
    for handle, said in zip(handles, texts, strict=False):
        colour = _colour(handle)
        # A colour that stands for two things names neither.
        by_colour[colour] = None if colour in by_colour else said
    drawn = [part for series in drawn for part in _by_colour(series, by_colour)]
    nameless = [series for series in drawn if not series.label]
    if len(nameless) == len(texts) == len(drawn):
        for series, said in zip(nameless, texts, strict=True):
            series.label = said
    return drawn


def _by_colour(series: Series, names: dict[str, str | None]) -> Iterator[Series]:
    """Yield a series with the name of its colour; scattered points of several named colours as so many series."""
    if series.label or series.artist is None:
        yield series
        return
    if series.kind == "scatter" and isinstance(series.artist, collections.PathCollection):
        yield from _split(series, names)
        return
    series.label = names.get(_colour(series.artist))
    yield series


def _split(series: Series, names: dict[str, str | None]) -> Iterator[Series]:
    faces = series.artist.get_facecolors()
    kinds, which = np.unique(faces, axis=0, return_inverse=True)
    labels = [names.get(colors.to_hex(colour)) for colour in kinds] if len(kinds) <= len(names) else [None]
    if not all(labels) or (len(kinds) > 1 and len(faces) != series.size):
        yield series
    elif len(kinds) == 1:
        series.label = labels[0]
        yield series
    else:
        for index, label in enumerate(labels):
            at = np.flatnonzero(which.ravel() == index)
            part = Series("scatter", len(at), _part_of(series, at), label)
            yield part


def _part_of(series: Series, at: Any) -> Callable[[int, str | None], list[charts.Element]]:
    def make(keep: int, label: str | None) -> list[charts.Element]:
        (element,) = series.make(series.size, label)
        chosen = at[charts.spread(len(at), keep)].tolist()
        element["points"] = [element["points"][i] for i in chosen]
        return [element]

    return make


def _colour(artist: Any) -> str:
    """Return an artist's colour as ``#rrggbb``; empty if it has none or several."""
    for get in ("get_markerfacecolor", "get_facecolor", "get_color"):
        value = getattr(artist, get, None)
        if value is None or (get == "get_markerfacecolor" and artist.get_linestyle() not in ("None", "none")):
            continue
        found = np.atleast_2d(colors.to_rgba_array(value()))
        return colors.to_hex(found[0]) if len(found) == 1 else ""
    return ""
