# SPDX-License-Identifier: Apache-2.0
"""The values in a plotly figure's JSON: lists and encoded arrays as numpy arrays, and these as JSON again."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np

from . import charts

Spec = dict[str, Any]

_MAX_ENCODED_CHARS = 64 << 20
"""Of one array in base64; a longer one is taken for none."""

_DTYPES = frozenset(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"))
_DATE = re.compile(r"-?\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?(Z|[+-]\d\d:?\d\d)?$")


def array(value: Any) -> Any:
    """Return a list or an encoded array as an array, of objects unless it is all numbers; None for anything else."""
    if isinstance(value, dict):
        encoded, dtype = value.get("bdata"), value.get("dtype")
        if not isinstance(encoded, str) or dtype not in _DTYPES or len(encoded) > _MAX_ENCODED_CHARS:
            return None
        flat = np.frombuffer(base64.b64decode(encoded), np.dtype(f"<{dtype}"))
        shape = value.get("shape")
        return flat.reshape([int(part) for part in str(shape).split(",")]) if shape else flat
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return np.array([value])
    if not isinstance(value, (list, tuple)):
        return None
    if all(type(each) in (int, float) for each in value):
        return np.array(value)
    made: Any = np.empty(len(value), object)
    made[:] = value
    return made


def with_default(trace: Spec, side: str, other: str) -> Any:
    """Return a trace's coordinates; without any they are counted, as many as the other side has."""
    values = array(trace.get(side))
    if values is not None:
        return values
    across = array(trace.get(other))
    first, step = trace.get(f"{side}0", 0), trace.get(f"d{side}", 1)
    if not isinstance(first, (int, float)):
        first = 0
    return first + np.arange(0 if across is None else len(across)) * step


def as_json(values: Any) -> list[Any]:
    """Return an array as JSON; numbers and dates as they are, anything else as text."""
    if values.dtype != object:
        return charts.numbers(values)
    return [_value(each) for each in values.tolist()]


def _value(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return charts.number(value)
    if isinstance(value, (list, tuple)):
        return " / ".join(str(charts.text(part)) for part in value)
    return charts.text(value)


def floats(values: Any) -> Any:
    """Return an array as floats; what is no number is NaN."""
    if values.dtype != object:
        return values.astype(float)
    flat = [as_float(each) for each in values.ravel().tolist()]
    return np.array(flat, float).reshape(values.shape)


def as_float(value: Any) -> float:
    """Return a value as a float; NaN if it is no number."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def moments(values: Any) -> Any:
    """Return an array of ISO dates as floats of seconds since 1970; NaN for what is none."""
    return np.array([_moment(each) for each in values.tolist()], float)


def _moment(value: Any) -> float:
    try:
        return float(np.datetime64(str(value).removesuffix("Z"), "us").astype("int64")) / 1e6
    except ValueError:
        return float("nan")


def read_moments(seconds: Any) -> list[Any]:
    """Return an array of seconds since 1970 as ISO dates."""
    return charts.dates((seconds * 1e6).round().astype("int64").astype("datetime64[us]"))


def factor(values: Any) -> tuple[list[Any], Any]:
    """Return the different values in the order of appearance, JSON already, and the index of each one's."""
    seen: dict[Any, int] = {}
    which = np.array([seen.setdefault(each, len(seen)) for each in as_json(values)], int)
    return list(seen), which


def scale(values: Any) -> str:
    """Return the scale that plotly chooses for values: linear, datetime or categorical, by what most of them are."""
    if values.dtype != object:
        return "linear"
    texts = [each for each in values[:1000].tolist() if isinstance(each, str) and each]
    numbers = sum(np.isfinite(as_float(each)) for each in texts)
    if not texts or numbers > len(texts) / 2:
        return (
            "linear" if not any(isinstance(each, (list, tuple)) for each in values[:10].tolist()) else "categorical"
        )
    return "datetime" if sum(bool(_DATE.match(each)) for each in texts) > len(texts) / 2 else "categorical"


def centres(trace: Spec, side: str, size: int) -> list[Any]:
    """Return the places of a heat map's rows or columns; of n + 1 edges, the middles."""
    given = array(trace.get(side))
    if given is not None and len(given) == size + 1 and given.dtype != object:
        given = (given[1:] + given[:-1]) / 2
    if given is None or len(given) < size:
        start, step = trace.get(f"{side}0", 0), trace.get(f"d{side}", 1)
        given = (start if isinstance(start, (int, float)) else 0) + np.arange(size) * step
    return as_json(given[:size])
