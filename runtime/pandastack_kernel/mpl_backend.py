# SPDX-License-Identifier: Apache-2.0
"""The matplotlib backend of a kernel: Agg drawing, and ``show`` that emits results.

matplotlib imports this by name (``figures.BACKEND``); nothing else may, as it imports matplotlib.
"""

from __future__ import annotations

from typing import Any

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from . import figures


class FigureManager(FigureManagerBase):
    """Manages a figure that has no window: ``fig.show()`` emits it as a result."""

    def show(self) -> None:
        """Show this figure now and close it."""
        figures.show(self.canvas.figure)
        if figures.InlineBackend.instance().close_figures:
            Gcf.destroy(self)

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        """Show what is open; ``block`` has no meaning here."""
        figures.show_all()


class FigureCanvas(FigureCanvasAgg):
    """An Agg canvas whose figures are managed by FigureManager."""

    manager_class = FigureManager


def show(*args: Any, **kwargs: Any) -> None:
    """``plt.show()``: show what is open, whatever the arguments."""
    figures.show_all()
