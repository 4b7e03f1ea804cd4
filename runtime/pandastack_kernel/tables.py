# SPDX-License-Identifier: Apache-2.0
"""The data of a pandas DataFrame or Series, beside its HTML: Table Schema's ``{"schema", "data"}`` as JSON.

The shape is that of ``DataFrame.to_json(orient="table")``, and is described in docs/charts.md; but no frame is
refused, and what is large is cut: ``rows`` counts the rows in all, ``truncated`` says that some are missing, or some
columns, or the end of a text. Whole columns are converted at once where numpy can.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import reprlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

MIME = "application/vnd.dataresource+json"

MAX_ROWS = 1_000
MAX_COLUMNS = 100
MAX_CHARS = 1 << 20
"""Of the rows' JSON; rows beyond are left out."""
MAX_CELL_CHARS = 4_096
_MAX_CATEGORIES = 100
"""Most categories that are listed in a field's schema."""

Column = tuple[dict[str, Any], list[Any]]
"""What the schema says of a column beyond its name, and its cells as JSON."""


def bundle(frame: Any) -> dict[str, str]:
    """Return ``{MIME: JSON text}`` of a DataFrame or a Series; empty if that fails. Nothing is written or warned."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return {MIME: _table(frame)}
    except Exception:
        return {}


def _table(frame: Any) -> str:
    if frame.ndim == 1:
        name = "values" if frame.name is None else frame.name
        columns = [(name, frame.iloc[:MAX_ROWS])]
        wide = 1
    else:
        part = frame.iloc[:MAX_ROWS, :MAX_COLUMNS]
        columns = [(name, part.iloc[:, at]) for at, name in enumerate(part.columns)]
        wide = frame.shape[1]
    index = frame.index[:MAX_ROWS]
    levels = _levels(index)
    names = _unique([_name(name) for name, _ in (*levels, *columns)])
    cutter = _Cutter()
    made = [cutter.column(values) for _, values in (*levels, *columns)]
    fields = [{"name": name, **facts} for name, (facts, _) in zip(names, made, strict=True)]
    schema: dict[str, Any] = {"fields": fields}
    if index.is_unique:
        schema["primaryKey"] = names[: len(levels)]
    rows = _rows(names, [cells for _, cells in made])
    table = {"schema": schema, "rows": len(frame)}
    if len(rows) < len(frame) or wide > MAX_COLUMNS or cutter.cut:
        table["truncated"] = True
    return f'{_json(table)[:-1]},"data":[{",".join(rows)}]}}'


def _rows(names: list[str], columns: list[list[Any]]) -> list[str]:
    """Return the rows as JSON texts, as many as MAX_CHARS allows."""
    rows: list[str] = []
    left = MAX_CHARS
    for cells in zip(*columns, strict=True):
        row = _json(dict(zip(names, cells, strict=True)))
        left -= len(row) + 1
        if left < 0:
            break
        rows.append(row)
    return rows


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _levels(index: Any) -> list[tuple[Any, Any]]:
    """Return the index's columns, (name, values) each; unnamed ones are called as pandas calls them."""
    if index.nlevels == 1:
        return [("index" if index.name is None else index.name, index)]
    names = [f"level_{at}" if name is None else name for at, name in enumerate(index.names)]
    return [(name, index.get_level_values(at)) for at, name in enumerate(names)]


def _name(name: Any) -> str:
    if isinstance(name, tuple):
        return "_".join(filter(None, map(_name, name)))
    return name[:MAX_CELL_CHARS] if type(name) is str else _text(_plain(name))[:MAX_CELL_CHARS]


def _unique(names: list[str]) -> list[str]:
    """Return the names, a repeated one as ``a.1``: a row is an object."""
    taken: set[str] = set()
    unique = []
    for name in names:
        tries = (f"{name}.{count}" for count in itertools.count(1))
        new = name if name not in taken else next(each for each in tries if each not in taken)
        taken.add(new)
        unique.append(new)
    return unique


# Columns.


class _Cutter:
    """Converts columns; ``cut`` tells afterwards whether a text lost its end."""

    def __init__(self) -> None:
        self.cut = False

    def column(self, values: Any) -> Column:
        """Return the column of a Series or an Index."""
        kind = values.dtype
        convert = _CONVERTERS.get(kind.kind) if isinstance(kind, np.dtype) else None
        if convert is not None:
            raw = values.to_numpy()
            large = kind == np.uint64 and len(raw) and int(raw.max()) > _MAX_INTEGER
            return self._objects(raw.tolist()) if large else convert(raw)
        tz = getattr(kind, "tz", None)
        if tz is not None:
            naive = values.to_series().dt if not hasattr(values, "dt") else values.dt
            facts, cells = _moments(naive.tz_convert("UTC").dt.tz_localize(None).to_numpy())
            return {**facts, "tz": str(tz)}, [None if cell is None else f"{cell}Z" for cell in cells]
        if hasattr(kind, "categories"):
            return self._categorical(kind, values)
        if type(kind).__name__ in ("Int8Dtype", "Int16Dtype", "Int32Dtype", "Int64Dtype"):
            return {"type": "integer"}, values.to_numpy(dtype=object, na_value=None).tolist()
        return self._objects(np.asarray(values, dtype=object).tolist())

    def _categorical(self, kind: Any, values: Any) -> Column:
        facts, cells = self._objects(np.asarray(values, dtype=object).tolist())
        _, names = self._objects(kind.categories[:_MAX_CATEGORIES].astype(object).tolist())
        if len(kind.categories) <= _MAX_CATEGORIES:
            facts = {**facts, "constraints": {"enum": names}}
        return {**facts, "ordered": bool(kind.ordered)}, cells

    def _objects(self, values: list[Any]) -> Column:
        cells = [
            value if type(value) is str and len(value) <= MAX_CELL_CHARS else self._cell(value) for value in values
        ]
        return {"type": _type_of(cells)}, cells

    def _cell(self, value: Any) -> Any:
        cell = _plain(value)
        if isinstance(cell, str) and len(cell) > MAX_CELL_CHARS:
            self.cut = True
            return cell[:MAX_CELL_CHARS]
        return cell


def _booleans(values: Any) -> Column:
    return {"type": "boolean"}, values.tolist()


def _integers(values: Any) -> Column:
    return {"type": "integer"}, values.tolist()


def _numbers(values: Any) -> Column:
    finite = np.isfinite(values)
    if not finite.all():
        values = values.astype(object)
        values[~finite] = None
    return {"type": "number"}, values.tolist()


def _moments(values: Any) -> Column:
    """Convert datetime64 to ISO 8601, to the second or as fine as needed."""
    missing = np.isnat(values)
    unit: Any = next(unit for unit in ("s", "ms", "us", "ns") if unit == "ns" or _is_whole(values, missing, unit))
    texts = np.datetime_as_string(values, unit=unit).tolist()
    return {"type": "datetime"}, [None if gone else text for text, gone in zip(texts, missing.tolist(), strict=True)]


def _is_whole(values: Any, missing: Any, unit: str) -> bool:
    return bool((missing | (values == values.astype(f"datetime64[{unit}]"))).all())


def _durations(values: Any) -> Column:
    missing = np.isnat(values).tolist()
    scale = _NANOSECONDS[np.datetime_data(values.dtype)[0]]
    counts = zip(values.astype("int64").tolist(), missing, strict=True)
    return {"type": "duration"}, [None if gone else _duration(count * scale) for count, gone in counts]


def _duration(nanoseconds: int) -> str:
    """Return an ISO 8601 duration, with its sign in front."""
    sign = "-" if nanoseconds < 0 else ""
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}P{days}DT{hours}H{minutes}M{seconds}{fraction}S"


_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}

_CONVERTERS: dict[str, Callable[[Any], Column]] = {
    "b": _booleans,
    "i": _integers,
    "u": _integers,
    "f": _numbers,
    "M": _moments,
    "m": _durations,
}


def _type_of(cells: list[Any]) -> str:
    """Return Table Schema's type of cells that are JSON already; None fits any."""
    kinds = set(map(type, cells)) - {type(None)}
    if kinds <= {str}:
        return "string"
    if kinds == {bool}:
        return "boolean"
    if kinds <= {int, float}:
        return "number" if float in kinds else "integer"
    return "any"


# Cells of columns of objects.


class _Brief(reprlib.Repr):
    """``repr`` of built-in containers with at most so many items, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 6
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 100
        self.maxstring = self.maxlong = self.maxother = MAX_CELL_CHARS

    def repr_dict(self, x: Any, level: int) -> str:
        """Return a dict's text."""
        if level <= 0:
            return "{...}"
        pairs = itertools.islice(x.items(), self.maxdict)
        pieces = [f"{self.repr1(key, level - 1)}: {self.repr1(value, level - 1)}" for key, value in pairs]
        return "{" + ", ".join(pieces + ["..."] * (len(x) > self.maxdict)) + "}"


_brief = _Brief()
_CONTAINERS = (list, tuple, dict, set, frozenset)
_MAX_INTEGER = (1 << 63) - 1
"""Larger ones are text: many a reader of JSON has no more bits."""


def _plain(value: Any) -> Any:
    """Return one object as JSON: None for what is missing or not finite, text for what JSON has not."""
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, np.generic):
        value = value.item() if value.dtype.kind in "biufSU" else value
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, int):
        return int(value) if abs(value) <= _MAX_INTEGER else _text(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if _is_missing(value):
        return None
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return str(value.isoformat())
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[: MAX_CELL_CHARS + 1]).decode("utf-8", "backslashreplace")
    if isinstance(value, _CONTAINERS):
        return _brief.repr(value)
    return _text(value)


def _is_missing(value: Any) -> bool:
    """Tell whether a value is pd.NA, pd.NaT or numpy's NaT, none of which equals itself."""
    return type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))
    )


def _text(value: Any) -> str:
    """Return ``str(value)``, or what can still be said of an object that has none."""
    try:
        return str.__str__(str(value))
    except Exception as error:
        return f"<{type(value).__name__}: str() failed with {type(error).__name__}>"
