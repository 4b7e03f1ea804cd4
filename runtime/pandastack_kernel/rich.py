# SPDX-License-Identifier: Apache-2.0
"""What an object looks like as a MIME bundle, where we know better than the object itself.

``BUNDLERS`` names classes by module and name, so no library is imported for it: a class is matched by its
own name or that of a base class. A bundler returns (data, metadata), or None to leave the object to
IPython. Everything else is IPython's: ``_repr_*_`` methods and registered formatters. ``ADDITIONS`` names classes in
the same way, of which IPython's bundle is given further types; those it has already stay as they are.
"""

from __future__ import annotations

import json
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from IPython.core.formatters import DisplayFormatter

from . import figures, pictures

Bundle = tuple[dict[str, Any], dict[str, Any]]
Bundler = Callable[[Any], Bundle | None]

PLOTLY_MIME = "application/vnd.plotly.v1+json"
PLOTLY_NOTEBOOK_RENDERERS = frozenset(
    ("notebook", "notebook_connected", "jupyterlab", "vscode", "nteract", "colab", "kaggle", "browser", "iframe")
)
"""Values of ``fig.show(renderer=...)`` that mean: where I can see it."""


def _matplotlib_figure(figure: Any) -> Bundle | None:
    return figures.bundle(figure, explicit=True)


def _plotly_figure(figure: Any) -> Bundle | None:
    """Return the figure as plotly's JSON and a picture; never its HTML, which carries all of plotly.js."""
    text = figure.to_json()
    spec = json.loads(text)
    data = {PLOTLY_MIME: text, "text/plain": plotly_summary(spec), **plotly_chart(spec)}
    metadata: dict[str, Any] = {}
    pictures.add_png(data, metadata, text, spec)
    return data, metadata


def plotly_chart(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the chart of a plotly figure's parsed JSON by its MIME type; empty if it has none."""
    try:
        from . import charts_plotly
    except Exception:
        return {}
    return charts_plotly.bundle(spec)


def plotly_summary(spec: dict[str, Any]) -> str:
    """Return one line about a plotly figure's dict: its title and the types of its traces."""
    title = spec.get("layout", {}).get("title")
    if isinstance(title, dict):
        title = title.get("text")
    kinds = [str(trace.get("type", "scatter")) for trace in spec.get("data", ()) if isinstance(trace, dict)]
    return f"Figure({', '.join(kinds) or 'empty'}{f', title={title!r}' if title else ''})"


def _table(frame: Any) -> dict[str, Any]:
    try:
        from . import tables
    except Exception:
        return {}
    return tables.bundle(frame)


BUNDLERS: dict[tuple[str, str], Bundler] = {
    ("matplotlib.figure", "Figure"): _matplotlib_figure,
    ("plotly.basedatatypes", "BaseFigure"): _plotly_figure,
}

ADDITIONS: dict[tuple[str, str], Callable[[Any], dict[str, Any]]] = {
    ("pandas", "DataFrame"): _table,
    ("pandas", "Series"): _table,
    # Before pandas 3.
    ("pandas.core.frame", "DataFrame"): _table,
    ("pandas.core.series", "Series"): _table,
}

# Types whose instances can have no _repr_*_ method, so that only text/plain is left to ask for.
_PLAIN_TYPES = frozenset(
    (
        *(int, float, complex, bool, str, bytes, bytearray, type(None), type(Ellipsis), range, slice),
        *(list, tuple, dict, set, frozenset, types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
    )
)

Known = tuple[Bundler | None, Callable[[Any], dict[str, Any]] | None]

_found: weakref.WeakKeyDictionary[type, Known] = weakref.WeakKeyDictionary()


def known_of(cls: type) -> Known:
    """Return the bundler and the addition of a class, looked up once per class."""
    try:
        return _found[cls]
    except KeyError:
        pass
    names = [(base.__module__, base.__qualname__) for base in cls.__mro__]
    bundler = next((BUNDLERS[name] for name in names if name in BUNDLERS), None)
    addition = next((ADDITIONS[name] for name in names if name in ADDITIONS), None)
    _found[cls] = bundler, addition
    return bundler, addition


class KernelFormatter(DisplayFormatter):
    """IPython's formatter with BUNDLERS before it and a short way for plain Python values."""

    def format(
        self, obj: Any, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (data, metadata) of ``obj``; both empty if it displayed itself."""
        cls = type(obj)
        if cls in _PLAIN_TYPES and not include and not exclude and not self._customised(cls):
            text = self.formatters["text/plain"](obj)
            return ({} if text is None else {"text/plain": text}), {}
        bundler, addition = known_of(cls)
        if bundler is not None:
            made = bundler(obj)
            if made is not None:
                data, metadata = made
                keep = [m for m in data if (not include or m in include) and not (exclude and m in exclude)]
                return {m: data[m] for m in keep}, metadata
        data, metadata = super().format(obj, include=include, exclude=exclude)
        if addition is not None and data and not include:
            more = addition(obj)
            data = {**data, **{m: more[m] for m in more if m not in data and not (exclude and m in exclude)}}
        return data, metadata

    def _customised(self, cls: type) -> bool:
        """Tell whether the user registered a formatter beyond text/plain that may want a plain type."""
        name = (cls.__module__, cls.__name__)
        for mime, formatter in self.formatters.items():
            if mime != "text/plain" and (
                formatter.singleton_printers
                or any(issubclass(cls, key) for key in formatter.type_printers)
                or name in formatter.deferred_printers
            ):
                return True
        return False
