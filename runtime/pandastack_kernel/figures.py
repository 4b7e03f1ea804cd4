# SPDX-License-Identifier: Apache-2.0
"""Showing matplotlib figures: each once, at ``plt.show()`` or at the end of the cell, and then closed.

matplotlib's backend is ``mpl_backend`` beside this file. ``show_all`` runs after every cell and costs a dictionary
look-up as long as there is no open figure. A figure that the cell displayed itself (last expression or
``display``) is not shown again at its end.
"""

from __future__ import annotations

import io
import sys
from types import ModuleType
from typing import Any

from IPython.core.display_functions import display
from traitlets import Bool, Dict, List, Unicode, observe
from traitlets.config.configurable import SingletonConfigurable

from . import charts_hooks, imports

BACKEND = "module://pandastack_kernel.mpl_backend"

# In the order of preference; those that are installed complete every font that a chart asks for, so that no
# script is drawn as boxes.
FALLBACK_FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "WenQuanYi Zen Hei",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Noto Emoji",
    "Symbola",
    "Noto Sans Symbols",
    "Noto Sans Symbols2",
    "Unifont Upper",
    "Unifont",
)

_FORMATS = {
    "png": ("png", "image/png"),
    "retina": ("png", "image/png"),
    "png2x": ("png", "image/png"),
    "jpeg": ("jpeg", "image/jpeg"),
    "jpg": ("jpeg", "image/jpeg"),
    "svg": ("svg", "image/svg+xml"),
    "pdf": ("pdf", "application/pdf"),
}

_WINDOW_BACKENDS = ("inline", "macosx", "notebook", "widget", "module://matplotlib_inline.backend_inline")

_displayed: set[int] = set()
"""Ids of the open figures that the running cell has already displayed itself."""


class InlineBackend(SingletonConfigurable):
    """What notebooks set by ``%config InlineBackend...``; the names are matplotlib-inline's."""

    figure_formats = List(Unicode(), ["png"], help="Formats of a shown figure.").tag(config=True)
    figure_format = Unicode("png", help="The one format of a shown figure.").tag(config=True)
    close_figures = Bool(True, help="Close all figures at the end of the cell.").tag(config=True)
    print_figure_kwargs = Dict({"bbox_inches": "tight"}, help="Arguments of savefig.").tag(config=True)
    rc = Dict({}, help="Accepted and ignored.").tag(config=True)

    @observe("figure_format")  # type: ignore[untyped-decorator]
    def _one_format(self, change: Any) -> None:
        self.figure_formats = [change["new"]]


def bundle(figure: Any, *, explicit: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a figure's (data, metadata): its pictures and its chart, or text alone if there is nothing on it.

    No text beside the pictures: clients take the first text of a cell for its value.

    Args:
        figure: a ``matplotlib.figure.Figure``.
        explicit: the user's own display, which takes the place of the one at the cell's end.
    """
    if explicit:
        _displayed.add(id(figure))
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    if _is_empty(figure):
        return {"text/plain": repr(figure)}, metadata
    options = InlineBackend.instance()
    for name in options.figure_formats:
        form, mime = _FORMATS.get(name, _FORMATS["png"])
        dpi = figure.dpi * 2 if name in ("retina", "png2x") else figure.dpi
        out = io.BytesIO()
        arguments = {
            "facecolor": figure.get_facecolor(),
            "edgecolor": figure.get_edgecolor(),
            "dpi": dpi,
            **options.print_figure_kwargs,
        }
        figure.canvas.print_figure(out, format=form, **arguments)
        data[mime] = out.getvalue()
        if dpi != figure.dpi:
            width, height = _png_size(out.getvalue())
            metadata[mime] = {"width": width // 2, "height": height // 2}
    # After the pictures: what drawing works out, the ticks above all, is there to be read.
    return {**data, **_chart(figure)}, metadata


def _chart(figure: Any) -> dict[str, Any]:
    try:
        from . import charts_matplotlib
    except Exception:
        return {}
    return charts_matplotlib.bundle(figure)


def show_all() -> None:
    """Show every open figure that was not yet shown, in the order of their numbers, and close all."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None or not helpers.Gcf.figs:
        _displayed.clear()
        return
    try:
        # Drawing takes a while: what came before is sent first.
        sys.stdout.flush()
        for manager in helpers.Gcf.get_all_fig_managers():
            figure = manager.canvas.figure
            if id(figure) not in _displayed and not _is_empty(figure):
                show(figure)
    finally:
        _displayed.clear()
        if InlineBackend.instance().close_figures:
            helpers.Gcf.destroy_all()


def show(figure: Any) -> None:
    """Show one figure now; it will not be shown again at the end of the cell."""
    data, metadata = bundle(figure, explicit=True)
    display(data, metadata=metadata, raw=True)


def _is_empty(figure: Any) -> bool:
    return not (figure.axes or figure.lines or figure.texts or getattr(figure, "subfigs", None))


def _png_size(png: bytes) -> tuple[int, int]:
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def install(shell: Any) -> None:
    """Make ``shell`` show figures after each cell, and matplotlib, once imported, use our backend."""
    shell.configurables.append(InlineBackend.instance(parent=shell))

    def end_of_cell() -> None:
        try:
            show_all()
        except (Exception, KeyboardInterrupt):
            shell.showtraceback()

    shell.events.register("post_execute", end_of_cell)
    imports.on_import("matplotlib", _use_backend)
    imports.on_import("matplotlib.axes", charts_hooks.install)
    imports.on_import("matplotlib.font_manager", _complete_fonts)


def _use_backend(matplotlib: Any) -> None:
    matplotlib.rcParams["backend"] = BACKEND
    use_otherwise = matplotlib.use

    def use(backend: str, *args: Any, **kwargs: Any) -> None:
        """Select a backend. Agg and those with windows mean ours here; those that write files stay themselves."""
        name = str(backend).lower()
        use_otherwise(BACKEND if name.endswith("agg") or name in _WINDOW_BACKENDS else backend, *args, **kwargs)

    matplotlib.use = use


def _complete_fonts(font_manager: ModuleType) -> None:
    """Append FALLBACK_FONTS to whatever fonts a text asks for; matplotlib then falls back per character.

    matplotlib asks anew for every text that it lays out, twice per figure, so the answers are kept.
    """
    manager_class = font_manager.FontManager
    find = manager_class._find_fonts_by_props
    answers: dict[Any, list[Any]] = {}
    answers_for: list[int] = []

    def fallback(manager: Any) -> list[Any]:
        installed = {entry.name for entry in manager.ttflist}
        return [
            manager.findfont(font_manager.FontProperties(family=name), fallback_to_default=False)
            for name in FALLBACK_FONTS
            if name in installed
        ]

    def find_with_fallback(self: Any, prop: Any, fontext: str = "ttf", *args: Any, **kwargs: Any) -> list[Any]:
        if fontext != "ttf" or args or kwargs:
            return list(find(self, prop, fontext, *args, **kwargs))
        if answers_for != [len(self.ttflist)]:
            answers_for[:] = [len(self.ttflist)]
            answers.clear()
        prop = font_manager.FontProperties._from_any(prop)
        # The generic families mean what the settings say at the moment.
        generic = [family for family in prop.get_family() if family in font_manager.font_family_aliases]
        key = (hash(prop), *(tuple(self._expand_aliases(family)) for family in generic))
        if key not in answers:
            found = list(find(self, prop))
            answers[key] = found + [path for path in fallback(self) if path not in found]
        return list(answers[key])

    manager_class._find_fonts_by_props = find_with_fallback
