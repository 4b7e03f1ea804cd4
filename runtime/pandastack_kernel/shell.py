# SPDX-License-Identifier: Apache-2.0
"""The IPython shell of a kernel: what differs from IPython's own, and nothing else.

Results, errors and ``clear_output`` become events; ``!command`` runs without a terminal; help is printed, not
paged; ``exit`` ends the cell, not the kernel; history lives in memory; figures are shown inline.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from IPython.core import interactiveshell
from IPython.core.autocall import ExitAutocall
from IPython.core.compilerop import CachingCompiler
from IPython.core.display_functions import display
from IPython.core.error import UsageError
from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.ultratb import SyntaxTB
from traitlets.config import Config

from . import commands, figures, imports, pictures, publish, rich, tracebacks
from .loop import CellLoop
from .rich import KernelFormatter


def _warn(message: Any, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
    """Warn, but not that exit() is no way to leave the shell: here it is none, and the error says so."""
    if not str(message).startswith("To exit: use"):
        warnings.warn(message, category, stacklevel=stacklevel + 1)


interactiveshell.warn = _warn


class Exit(ExitAutocall):
    """``exit`` and ``quit`` in a cell: raise SystemExit, which ends the cell and is reported."""

    rewrite = False

    def __call__(self, code: object = None) -> None:
        """End the cell with an exit code, as ``sys.exit`` does."""
        raise SystemExit() if code is None else SystemExit(code)

    def __repr__(self) -> str:
        return "Use exit() to end the cell; the kernel and its variables stay."


class KernelCompiler(CachingCompiler):
    """IPython's compiler, whose cells ``inspect`` finds without searching all modules.

    ``inspect.getmodule`` answers for a file it does not know by a walk over ``sys.modules``, several times for
    each traceback; with pandas and the like loaded that is most of a traceback's time.
    """

    def cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        """Remember a cell's source; return the name to compile it under."""
        name: str = super().cache(transformed_code, number, raw_code)
        inspect.modulesbyfile[name] = "__main__"
        return name


class KernelHistory(HistoryManager):
    """History in memory only: no database, no thread, nothing that grows but the inputs."""

    def store_inputs(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        """Store a cell's source as ``In[line_num]``."""
        super().store_inputs(line_num, source, source_raw)
        self.db_input_cache.clear()


class KernelShell(InteractiveShell):
    """The one shell of a kernel. Made in the zygote, used in the kernels forked from it."""

    def __init__(self, **kwargs: Any) -> None:
        self.ansi = False
        """Tracebacks in colour, for the running cell."""
        self.error_count = 0
        """Errors emitted by the running cell."""
        self.cell_loop = CellLoop()
        self._depth = 0
        self._emit: publish.Emit | None = None
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = tracebacks.PLAIN_THEME
        config.InteractiveShell.enable_tip = False
        super().__init__(config=config, **kwargs)
        self.loop_runner = self.cell_loop.run
        self.set_hook("show_in_pager", _print_page, 0)
        self.register_magics(KernelMagics)
        figures.install(self)
        imports.on_import("pandas", _set_pandas_options)
        imports.on_import("plotly.io", _set_plotly_renderer)
        imports.on_import("kaleido", pictures.hook_kaleido)

    def set_emit(self, emit: publish.Emit) -> None:
        """Send events to ``emit`` from now on."""
        self._emit = emit
        self.displayhook.emit = emit
        self.display_pub.emit = emit

    # Construction: our parts in place of IPython's.

    compiler_class = KernelCompiler
    displayhook_class = publish.KernelDisplayHook
    display_pub_class = publish.KernelDisplayPublisher

    def _exiter_default(self) -> Exit:
        return Exit(self)

    def init_history(self) -> None:
        """Make the history, in memory."""
        self.history_manager = KernelHistory(shell=self, parent=self)
        self.configurables.append(self.history_manager)

    def init_display_formatter(self) -> None:
        """Make the formatter."""
        self.display_formatter = KernelFormatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_traceback_handlers(self, custom_exceptions: Any) -> None:
        """Make the traceback formatters."""
        super().init_traceback_handlers(custom_exceptions)
        self.InteractiveTB = tracebacks.KernelTB(mode=self.xmode, theme_name=tracebacks.PLAIN_THEME, tb_offset=1)

    def init_virtualenv(self) -> None:
        """Leave ``sys.path`` as the interpreter set it."""

    def enable_gui(self, gui: Any = None) -> None:
        """Do nothing: there is no window system."""

    def enable_matplotlib(self, gui: str | None = None) -> tuple[str, str]:
        """``%matplotlib anything``: figures are inline already."""
        importlib.import_module("matplotlib")
        return "inline", figures.BACKEND

    # Running.

    def run_cell(self, *args: Any, **kwargs: Any) -> Any:
        """Run a cell; see IPython. Magics and user code may call this from within a cell."""
        self._depth += 1
        try:
            return super().run_cell(*args, **kwargs)
        finally:
            self._depth -= 1

    def in_last_statement(self) -> bool:
        """Tell, while a result is shown, whether it is that of the last statement of the kernel's own cell."""
        return self._depth == 1 and self.ast_node_interactivity != "all"

    def should_run_async(self, raw_cell: str, **kwargs: Any) -> bool:
        """Tell whether the cell needs the loop; a cell without these words is not compiled to find out."""
        transformed = kwargs.get("transformed_cell") or raw_cell
        if "await" not in transformed and "async" not in transformed:
            return False
        return super().should_run_async(raw_cell, **kwargs)

    def reset(self, new_session: bool = True, aggressive: bool = False) -> None:
        """Clear the namespace (``%reset``), but keep what makes ``__main__`` a module."""
        super().reset(new_session, aggressive)
        for name in ("__doc__", "__loader__", "__package__", "__spec__"):
            self.user_ns.setdefault(name, None)

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        """Do not keep a second copy of all output."""
        yield

    def system(self, cmd: str) -> None:
        """Run ``!cmd``; its exit status (negative: signal) is in ``_exit_code``."""
        command = self.var_expand(cmd, depth=1)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self.user_ns["_exit_code"] = commands.run(command)
        finally:
            # What it installed (!pip) must be found by the next import.
            importlib.invalidate_caches()

    system_piped = system
    system_raw = system

    def ask_exit(self) -> None:
        """End the cell."""
        raise SystemExit

    # Errors.

    def showtraceback(
        self,
        exc_tuple: Any = None,
        filename: str | None = None,
        tb_offset: int | None = None,
        exception_only: bool = False,
        running_compiled_code: bool = False,
    ) -> None:
        """Emit an exception (the one being handled, by default) as an error event."""
        try:
            etype, value, tb = self._get_exc_info(exc_tuple)
        except ValueError:
            print("No traceback available to show.", file=sys.stderr)
            return
        if self.cell_loop.cancelling and etype.__name__ == "CancelledError":
            etype, value = KeyboardInterrupt, KeyboardInterrupt().with_traceback(tb)
        tb = tracebacks.without_runtime(self, value, tb)
        try:
            text = self.format_error(etype, value, tb, tb_offset, exception_only, running_compiled_code)
        except (Exception, KeyboardInterrupt):
            text = _last_resort(etype, value, tb)
        self._emit_error(etype, value, text)

    def showsyntaxerror(self, filename: str | None = None, running_compiled_code: bool = False) -> None:
        """Emit the syntax error being handled as an error event."""
        self.showtraceback(filename=filename, running_compiled_code=running_compiled_code)

    def format_error(
        self,
        etype: type[BaseException],
        value: BaseException,
        tb: Any,
        tb_offset: int | None = None,
        exception_only: bool = False,
        running_compiled_code: bool = False,
    ) -> str:
        """Return the traceback of an exception as text, in colours if the running cell asked for them."""
        _place_in_main(tb)
        theme = tracebacks.ANSI_THEME if self.ansi else tracebacks.PLAIN_THEME
        self.InteractiveTB.set_theme_name(theme)
        if issubclass(etype, SyntaxError):
            frames = traceback.extract_tb(tb) if running_compiled_code else []
            return self._syntax_text(theme, etype, value, frames)
        if etype is UsageError:
            return f"UsageError: {tracebacks.safe_str(value)}"
        if exception_only:
            lines = self.InteractiveTB.get_exception_only(etype, value)
            return "An exception has occurred, use %tb to see the full traceback.\n\n" + "".join(lines)
        if tracebacks.contains_group(value):
            return tracebacks.format_group(self, value, tb)
        if hasattr(value, "_render_traceback_"):
            lines = value._render_traceback_()
        else:
            lines = self.InteractiveTB.structured_traceback(etype, value, tb, tb_offset=tb_offset)
        return self.InteractiveTB.stb2text(lines)

    def _syntax_text(self, theme: str, etype: type[BaseException], value: BaseException, frames: Any) -> str:
        formatter = SyntaxTB(theme_name=theme)
        return formatter.stb2text(formatter.structured_traceback(etype, value, frames))

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        """Emit a traceback that IPython or an extension has formatted."""
        self._emit_error(etype, evalue, self.InteractiveTB.stb2text(stb))

    def _emit_error(self, etype: type[BaseException], value: BaseException, text: str) -> None:
        self.error_count += 1
        if self._emit is None:
            return
        # The count was advanced when the cell began.
        cell = f"In[{self.execution_count - 1}]"
        try:
            line = tracebacks.line_in_cell(self, cell, value)
        except Exception:
            line = None
        words = value.msg if isinstance(value, SyntaxError) else value
        self._emit(tracebacks.error_event(etype.__name__, tracebacks.safe_str(words), text, line, ansi=self.ansi))

    def _format_exception_for_storage(self, exception: BaseException, *args: Any, **kwargs: Any) -> Any:
        """Keep the exception's name and words; formatting its traceback once was enough."""
        return {"ename": type(exception).__name__, "evalue": tracebacks.safe_str(exception), "traceback": []}


@magics_class
class KernelMagics(Magics):
    """Magics of which IPython's version assumes a terminal."""

    @line_magic  # type: ignore[untyped-decorator]
    def tb(self, line: str) -> None:
        """Print the last traceback; an optional argument is the mode (Plain, Context, Verbose, Minimal)."""
        shell = self.shell
        mode = line.strip()
        kept = shell.InteractiveTB.mode
        try:
            etype, value, tb = shell._get_exc_info()
            if mode:
                shell.InteractiveTB.set_mode(mode.capitalize())
            print(shell.format_error(etype, value, tb, running_compiled_code=True))
        except ValueError:
            print("No traceback available to show.", file=sys.stderr)
        finally:
            shell.InteractiveTB.set_mode(kept)


def _place_in_main(tb: Any) -> None:
    """Tell ``inspect`` that code without a file is of ``__main__`` (see KernelCompiler)."""
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if name.startswith("<"):
            inspect.modulesbyfile.setdefault(name, "__main__")
            inspect.modulesbyfile.setdefault(os.path.abspath(name), "__main__")
        tb = tb.tb_next


def _print_page(shell: Any, data: Any, start: int = 0, screen_lines: int = 0) -> None:
    """Print what IPython would page."""
    text = data.get("text/plain", "") if isinstance(data, dict) else str(data)
    print("\n".join(text.split("\n")[start:]))


def _last_resort(etype: type[BaseException], value: BaseException, tb: Any) -> str:
    """Return what can still be said of an exception that cannot be formatted properly."""
    try:
        return "".join(traceback.format_exception(etype, value, tb, limit=-20))
    except Exception:
        return f"{etype.__name__}: {tracebacks.safe_str(value)}"


def _set_pandas_options(pandas: Any) -> None:
    # pandas takes a shell without a notebook's front end for a terminal, and fits tables to its width.
    pandas.set_option("display.max_columns", 20)


def _set_plotly_renderer(plotly_io: Any) -> None:
    # Figures as JSON and a picture; the default would send all of plotly.js or start a browser.
    plotly_io.renderers.default = "plotly_mimetype"
    show_otherwise = plotly_io.show

    def show(fig: Any, renderer: str | None = None, validate: bool = True, **kwargs: Any) -> None:
        """Show a figure as a result. Renderers that make a picture or a page of their own stay plotly's."""
        if renderer is None or "mimetype" in renderer or renderer in rich.PLOTLY_NOTEBOOK_RENDERERS:
            text = plotly_io.to_json(fig, validate=validate)
            spec = json.loads(text)
            if kwargs.get("config"):
                spec["config"] = kwargs["config"]
            plain = {"text/plain": rich.plotly_summary(spec)}
            data = {rich.PLOTLY_MIME: spec, **plain, **rich.plotly_chart(spec)}
            metadata: dict[str, Any] = {}
            pictures.add_png(data, metadata, text, spec)
            display(data, metadata=metadata, raw=True)
        else:
            show_otherwise(fig, renderer=renderer, validate=validate, **kwargs)

    plotly_io.show = show
