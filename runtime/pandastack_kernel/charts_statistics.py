# SPDX-License-Identifier: Apache-2.0
"""What plotly's browser part computes from a figure's data: quartiles, bins, sums.

A plotly figure holds samples, not boxes or bins. Quartiles follow plotly's default method; bins that the figure does
not fix are of a round width, as plotly's are, but need not be the same ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_MAX_BINS = 1_000
_DAY_S = 86_400


def five_numbers(samples: Any) -> tuple[dict[str, float], Any]:
    """Return a box's five numbers and its outliers.

    Args:
        samples: array of floats; those that are not finite do not count, one at least is.

    Returns:
        charts.BOX_STATISTICS, where ``min`` and ``max`` are the farthest samples within 1.5 of the quartiles'
        distance, and the array of the samples beyond.
    """
    samples = np.sort(samples[np.isfinite(samples)])
    low, middle, high = (float(value) for value in np.quantile(samples, (0.25, 0.5, 0.75), method="hazen"))
    reach = 1.5 * (high - low)
    within = (samples >= low - reach) & (samples <= high + reach)
    inner = samples[within]
    five = {
        "min": min(float(inner[0]), low),
        "first_quartile": low,
        "median": middle,
        "third_quartile": high,
        "max": max(float(inner[-1]), high),
    }
    return five, samples[~within]


def edges(values: Any, wanted: int | None, *, seconds: bool = False) -> Any:
    """Return the edges of bins of a round width (1, 2 or 5 times a power of ten) that hold all of ``values``.

    Args:
        values: array of finite floats, not empty.
        wanted: most bins; None for as many as the spread of the values asks for.
        seconds: the values are times; a round width is a part of a day or a number of days.
    """
    low, high = float(values.min()), float(values.max())
    if high <= low:
        return np.array([low - 0.5, low + 0.5])
    count = wanted or len(np.histogram_bin_edges(values[:: max(1, len(values) // 10_000)], "auto")) - 1
    rough = (high - low) / max(1, min(count, _MAX_BINS))
    step = _round_time(rough) if seconds else _round(rough)
    first = math.floor(low / step)
    last = math.floor(high / step) + 1
    return np.arange(first, last + 1) * step


def _round(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


def _round_time(rough: float) -> float:
    if rough < 1:
        return _round(rough)
    parts = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, _DAY_S)
    return next((float(part) for part in parts if part >= rough), _DAY_S * _round(rough / _DAY_S))


def stepped(start: float, end: float, size: float) -> Any:
    """Return the edges of bins that a figure fixes."""
    count = min(max(1, math.ceil((end - start) / size - 1e-9)), _MAX_BINS)
    return start + np.arange(count + 1) * size


def aggregate(where: Any, count: int, weights: Any, function: str) -> Any:
    """Return an array of ``count`` values, one for each group.

    Args:
        where: array of ints, the group of each sample.
        count: how many groups there are.
        weights: array of what is aggregated, None to count.
        function: plotly's histfunc: count, sum, avg, min or max.
    """
    if weights is None or function == "count":
        return np.bincount(where, minlength=count)
    if function in ("min", "max"):
        made = np.full(count, np.nan)
        (np.fmin if function == "min" else np.fmax).at(made, where, weights)
        return made
    sums = np.bincount(where, weights, minlength=count)
    return sums / np.bincount(where, minlength=count) if function == "avg" else sums


def normalise(values: Any, widths: Any, how: str) -> Any:
    """Return a histogram's values as plotly's histnorm asks; ``widths`` are the bins' widths."""
    if how in ("percent", "probability"):
        return values / values.sum() * (100 if how == "percent" else 1)
    if how == "density":
        return values / widths
    return values / values.sum() / widths if how == "probability density" else values
