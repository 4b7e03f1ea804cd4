# SPDX-License-Identifier: Apache-2.0
"""What matplotlib computes for a chart and then forgets: bins, quartiles and a pie's values, kept on the axes.

``Axes.hist``, ``bxp`` (which every box plot ends in) and ``pie`` are wrapped when matplotlib is imported; signature,
behaviour and result stay. pandas and seaborn call the same methods. What is kept are arrays and the artists that
belong to them, so that they go when the axes go, and ``recall`` passes over what was taken off the axes since.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_KEPT = "_pandastack_statistics"

Note = tuple[str, list[Any], dict[str, Any]]
"""Which method, the artists it drew, and what they stand for."""


def install(axes_module: ModuleType) -> None:
    """Wrap the methods; ``axes_module`` is ``matplotlib.axes``."""
    for name, look in _LOOKS.items():
        method = getattr(axes_module.Axes, name, None)
        if method is not None and not hasattr(method, _KEPT):
            setattr(axes_module.Axes, name, _remembering(name, method, look))


def recall(axes: Any, name: str) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield (artists, facts) of each call of a method whose artists are still on the axes."""
    for kind, artists, facts in vars(axes).get(_KEPT, ()):
        if kind == name and any(getattr(artist, "axes", None) is axes for artist in artists):
            yield artists, facts


def _remembering(name: str, method: Callable[..., Any], look: Callable[..., list[Note]]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def remembering(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = method(self, *args, **kwargs)
        try:
            arguments = signature.bind(self, *args, **kwargs).arguments
            vars(self).setdefault(_KEPT, []).extend(look(arguments, made))
        except Exception:
            pass
        return made

    setattr(remembering, _KEPT, True)
    return remembering


def _look_at_hist(arguments: dict[str, Any], made: Any) -> list[Note]:
    import numpy as np

    counts, edges, drawn = made
    rows = np.atleast_2d(np.asarray(counts, float))
    if arguments.get("stacked"):
        rows = np.diff(rows, axis=0, prepend=0)
    # One data set: a container of bars, or a list with one outline. Several: a list of these.
    several = [drawn] if len(rows) == 1 else list(drawn)
    sideways = arguments.get("orientation") == "horizontal"
    return [
        ("hist", list(artists), {"counts": row, "edges": np.asarray(edges), "horizontal": sideways})
        for row, artists in zip(rows, several, strict=True)
    ]


def _look_at_bxp(arguments: dict[str, Any], made: Any) -> list[Note]:
    statistics = list(arguments["bxpstats"])
    positions = arguments.get("positions")
    positions = list(range(1, len(statistics) + 1)) if positions is None else list(positions)
    sideways = arguments.get("orientation") == "horizontal" or arguments.get("vert") is False
    artists = [artist for drawn in made.values() for artist in drawn]
    boxes = list(made.get("boxes", ())) or [None] * len(statistics)
    facts = {"statistics": statistics, "positions": positions, "boxes": boxes, "horizontal": sideways}
    return [("bxp", artists, facts)]


def _look_at_pie(arguments: dict[str, Any], made: Any) -> list[Note]:
    import numpy as np

    wedges = list(made[0])
    values = np.asarray(arguments["x"], float).ravel()
    return [("pie", wedges, {"values": values})] if len(values) == len(wedges) else []


_LOOKS: dict[str, Callable[..., list[Note]]] = {"hist": _look_at_hist, "bxp": _look_at_bxp, "pie": _look_at_pie}
