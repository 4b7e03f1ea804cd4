# SPDX-License-Identifier: Apache-2.0
"""How results leave a cell: IPython's display hook (last expression) and display publisher (``display``)."""

from __future__ import annotations

import builtins
from typing import Any, Protocol

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from . import bundles


class Emit(Protocol):
    """Sends an event; ``last`` says that the running cell will say nothing more but that it is done."""

    def __call__(self, event: dict[str, Any], *, last: bool = False) -> None:
        """Send ``event``."""


_MAX_KEPT_REPR = 4096


def result_event(
    data: dict[str, Any],
    metadata: dict[str, Any] | None,
    *,
    main: bool,
    display_id: str | None = None,
    update: bool = False,
) -> dict[str, Any]:
    """Return the event of one result.

    Args:
        data: MIME bundle as libraries make it (bytes, JSON values, text).
        metadata: by MIME type, as in Jupyter.
        main: the value of the cell's last expression.
        display_id: name under which a later event may replace this one.
        update: this one replaces it.
    """
    encoded = bundles.encode(data)
    extra = dict(metadata or {})
    bundles.limit(encoded, extra)
    event: dict[str, Any] = {"type": "result", "data": encoded, "metadata": extra, "is_main_result": main}
    if display_id is not None:
        event["display_id"] = display_id
    if update:
        event["update"] = True
    return event


class KernelDisplayHook(DisplayHook):
    """Emits the value of a cell's last expression and keeps ``_``, ``Out`` and the like."""

    emit: Emit | None = None
    # The last three results.
    _: Any
    __: Any
    ___: Any

    def quiet(self) -> bool:
        """Tell whether the cell ends in a semicolon."""
        running = self.exec_result
        if running is None:
            return False
        info = running.info
        cell = getattr(info, "transformed_cell", None) or info.raw_cell
        return ";" in cell and bool(self.semicolon_at_end_of_expression(cell))

    def __call__(self, result: Any = None) -> None:
        """Show ``result`` unless it is None."""
        self.check_for_underscore()
        if result is None or self.quiet():
            return
        data, metadata = self.shell.display_formatter.format(result)
        self.update_user_ns(result)
        self.fill_exec_result(result)
        if not data:
            return
        text = data.get("text/plain")
        if isinstance(text, str) and len(text) <= _MAX_KEPT_REPR:
            self.shell.history_manager.output_hist_reprs[self.prompt_count] = text
        if self.emit is not None:
            self.emit(result_event(data, metadata, main=True), last=self.shell.in_last_statement())

    def update_user_ns(self, result: Any) -> None:
        """Store ``result`` as ``_``, ``_N`` and ``Out[N]``; the same as IPython's, without its detours."""
        namespace = self.shell.user_ns
        out = namespace.get("_oh")
        if out is None or result is out or not self.do_full_cache:
            return
        if len(out) >= self.cache_size:
            self.cull_cache()
        old = (self._, self.__, self.___)
        names = ("_", "__", "___")
        self._, self.__, self.___ = result, old[0], old[1]
        # A name that the user has taken, or gettext's _, is left alone.
        untouched = all(
            name not in namespace or namespace[name] is value for name, value in zip(names, old, strict=True)
        )
        if untouched and "_" not in builtins.__dict__:
            namespace["_"], namespace["__"], namespace["___"] = result, old[0], old[1]
            hidden = self.shell.user_ns_hidden
            hidden["_"], hidden["__"], hidden["___"] = result, old[0], old[1]
        count = self.prompt_count
        name = f"_{count}"
        namespace[name] = result
        self.shell.user_ns_hidden[name] = result
        out[count] = result

    def cull_cache(self) -> None:
        """Forget the oldest fifth of ``Out`` (IPython's limit of 1000), without its warning in the user's output."""
        out = self.shell.user_ns.get("_oh", {})
        for count in sorted(out)[: max(int(len(out) * self.cull_fraction), 2)]:
            self.shell.user_ns.pop(f"_{count}", None)
            self.shell.user_ns_hidden.pop(f"_{count}", None)
            del out[count]


class KernelDisplayPublisher(DisplayPublisher):
    """Emits what ``display``, ``update_display`` and ``clear_output`` ask for."""

    emit: Emit | None = None

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        source: Any = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **kwargs: Any,
    ) -> None:
        """Emit a result; ``transient["display_id"]`` names it, ``update`` replaces the one so named."""
        if self.emit is None:
            return
        display_id = (transient or {}).get("display_id")
        self.emit(
            result_event(
                data,
                metadata,
                main=False,
                display_id=None if display_id is None else str(display_id),
                update=update,
            )
        )

    def clear_output(self, wait: bool = False) -> None:
        """Emit that what the cell has shown so far is void; with ``wait``, once the next output comes."""
        if self.emit is not None:
            self.emit({"type": "clear_output", "wait": bool(wait)})
