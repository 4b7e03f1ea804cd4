# SPDX-License-Identifier: Apache-2.0
"""Reading a matplotlib axis: its label, scale and ticks, and what a position on it means.

To be read after the figure was drawn: the ticks' labels are then as on the picture, and nothing is laid out again.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matplotlib import dates as mdates

from . import charts

_DATE_CONVERTERS = frozenset(
    ("DateConverter", "ConciseDateConverter", "_SwitchableDateConverter", "DatetimeConverter")
)
_NAMING_FORMATTERS = frozenset(("FixedFormatter", "FuncFormatter"))
_DEFAULT_MATH = re.compile(r"\\mathdefault\{((?:[^{}]|\{[^{}]*\})*)\}")


class Axis:
    """One axis of matplotlib's, as it was drawn.

    Attributes:
        scale: linear, log, symlog, …; datetime; categorical.
    """

    def __init__(self, axis: Any, *, named: bool) -> None:
        """Read ``axis``; ``named`` says that labels set by hand name what stands at the ticks (bars, boxes)."""
        self._axis = axis
        self._drawn = _ticks(axis)
        self._names: dict[float, str] = {}
        converter = type(_converter(axis)).__name__
        self.scale = str(axis.get_scale())
        self.read = charts.numbers
        if converter == "StrCategoryConverter":
            mapping = getattr(axis.get_units(), "_mapping", {})
            self._use_names({float(at): str(name) for name, at in mapping.items()})
        elif converter == "PeriodConverter" and getattr(axis, "freq", None) is not None:
            self.scale, self.read = "datetime", self._read_periods
        elif converter in _DATE_CONVERTERS:
            self.scale, self.read = "datetime", self._read_dates
        elif named and self._is_labelled_by_hand():
            self._use_names({at: label for at, label in self._drawn if label})

    def describe(self, chart: charts.Chart, side: str) -> None:
        """Put the axis into ``chart``; ``side`` is x or y."""
        low, high = sorted(self._axis.get_view_interval())
        slack = (high - low) * 1e-9
        seen = [(at, label) for at, label in self._drawn if low - slack <= at <= high + slack]
        label = charts.text(self._axis.get_label_text())
        chart[f"{side}_label"] = label
        chart[f"{side}_unit"] = charts.unit(label)
        chart[f"{side}_scale"] = self.scale
        chart[f"{side}_ticks"] = self.read(np.array([at for at, _ in seen], float))
        chart[f"{side}_tick_labels"] = [label for _, label in seen]

    def name(self, position: float) -> Any:
        """Return what stands at a position, JSON already: the nearest category's name, a date or the number."""
        if not self._names:
            return self.read(np.array([position], float))[0]
        nearest = self._places[np.abs(self._places - position).argmin()]
        return self._names[nearest] if abs(nearest - position) <= self._reach else charts.number(position)

    def within_one_category(self, positions: Any) -> bool:
        """Tell whether positions, one at least, keep to one place on an axis of categories."""
        known = positions[np.isfinite(positions)] if self._names else ()
        return len(known) > 0 and bool(np.ptp(known) < 1)

    def _use_names(self, names: dict[float, str]) -> None:
        if names:
            self._names = names
            self._places = np.array(sorted(names))
            # Bars in groups stand beside their category's place, by less than half the way to the next.
            self._reach = float(np.diff(self._places).min()) / 2 + 1e-9 if len(names) > 1 else np.inf
            self.scale, self.read = "categorical", self._read_names

    def _is_labelled_by_hand(self) -> bool:
        fixed = type(self._axis.get_major_locator()).__name__ == "FixedLocator"
        return fixed and type(self._axis.get_major_formatter()).__name__ in _NAMING_FORMATTERS

    def _read_names(self, values: Any) -> list[Any]:
        """Return the names if every value is a category's place, else the numbers."""
        positions = charts.numbers(values)
        found = [self._names.get(position) for position in positions]
        return positions if None in found else found

    def _read_dates(self, values: Any) -> list[Any]:
        # As precise as a float of days is: microseconds near the epoch, milliseconds far from it.
        days = np.asarray(np.ma.filled(values, np.nan), float)
        grain_us = (
            1000 if np.abs(days, where=np.isfinite(days), out=np.zeros_like(days)).max(initial=0) > 25_000 else 1
        )
        known = np.isfinite(days)
        steps = np.where(known, days, 0) * (86_400_000_000 / grain_us)
        moments = np.datetime64(mdates.get_epoch(), "us") + (steps.round() * grain_us).astype("timedelta64[us]")
        moments[~known] = np.datetime64("NaT")
        return list(charts.dates(moments, utc=hasattr(self._axis.get_units(), "utcoffset")))

    def _read_periods(self, values: Any) -> list[Any]:
        # pandas draws regular time series by the numbers of their periods.
        import pandas as pd

        periods = pd.PeriodIndex.from_ordinals(np.asarray(values).round().astype("int64"), freq=self._axis.freq)
        return list(charts.dates(periods.to_timestamp().to_numpy()))


def _converter(axis: Any) -> Any:
    get = getattr(axis, "get_converter", None)
    return get() if get is not None else getattr(axis, "converter", None)


def _ticks(axis: Any) -> list[tuple[float, str]]:
    """Return (place, label) of each tick; none of an axis that is not drawn, whose ticks are not up to date."""
    if not (axis.get_visible() and axis.axes.axison):
        return []
    return [(float(tick.get_loc()), _label(tick)) for tick in axis.get_major_ticks()[: charts.MAX_TICKS]]


def _label(tick: Any) -> str:
    label = (charts.text(tick.label1.get_text()) or charts.text(tick.label2.get_text())) or ""
    if "\\mathdefault" not in label:
        return label
    # $\mathdefault{10^{3}}$, as matplotlib itself writes powers, is 10^3.
    return _DEFAULT_MATH.sub(r"\1", label).strip("$").replace("{", "").replace("}", "")
