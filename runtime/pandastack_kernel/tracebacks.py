# SPDX-License-Identifier: Apache-2.0
r"""From an exception to an ``error`` event: the full IPython traceback as text.

The user's own control characters (in messages and in source lines) arrive as escapes such as ``\x1b``. With
``ansi`` the only escape sequences are IPython's colours; without, there are none.
"""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import stack_data
from IPython.core import ultratb
from IPython.utils.PyColorize import theme_table
from pygments.formatters.terminal256 import Terminal256Formatter
from pygments.token import Token

from . import library_frames

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_ESC = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029]")

PLAIN_THEME = "nocolor"
ANSI_THEME = "neutral"
MAX_TEXT_CHARS = 1 << 20
"""Of each text in an event of an error: even if all of it must be escaped, the agent takes the event."""

_OWN = str(Path(__file__).parent) + os.sep
_USED_BY_COMMANDS = os.sep + "subprocess.py"


def escape(text: str, *, keep_esc: bool = False) -> str:
    """Return ``text`` with control characters but newline and tab, and lone surrogates, as backslash escapes."""
    text = (_CONTROL_BUT_ESC if keep_esc else _CONTROL).sub(_escape_one, text)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "backslashreplace").decode()
    return text


def _escape_one(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code == 0x0D:
        return "\\r"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def shorten(text: str) -> str:
    """Return ``text``, cut in the middle beyond MAX_TEXT_CHARS."""
    if len(text) <= MAX_TEXT_CHARS:
        return text
    half = MAX_TEXT_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def safe_str(value: object) -> str:
    """Return ``str(value)``, escaped; never raises an Exception."""
    try:
        return escape(str(value))
    except Exception as error:
        return f"<{type(value).__name__}: str() failed with {type(error).__name__}>"


class _Said:
    """Stands for an exception where only its words are asked for, escaped."""

    def __init__(self, value: object) -> None:
        self._text = safe_str(value)
        notes = getattr(value, "__notes__", None) or ()
        if isinstance(notes, (str, bytes)) or not hasattr(notes, "__iter__"):
            notes = (repr(notes),)
        self.__notes__ = [safe_str(note) for note in notes]

    def __str__(self) -> str:
        return self._text


class KernelTB(ultratb.AutoFormattedTB):
    """IPython's formatter; the exceptions' words pass through ``escape`` before colours are added."""

    def format_exception(self, etype: Any, evalue: Any) -> list[str]:
        """Return the lines that name the exception."""
        return super().format_exception(etype, _Said(evalue))

    def _some_str(self, value: Any) -> str:
        return safe_str(value)

    def get_records(self, etb: TracebackType, context: int, tb_offset: int) -> Any:
        """Return what is shown of each frame."""
        after = (context - 1) // 2
        options = stack_data.Options(
            before=context - 1 - after, after=after, pygments_formatter=self._pygments_formatter()
        )
        return library_frames.records(etb, options, context - 1)

    def _pygments_formatter(self) -> Any:
        """Return what colours source lines, as IPython sets it up; None without colours."""
        if not self.has_colors:
            return None
        theme = theme_table[self._theme_name]
        highlight = theme.extra_style.get(Token.TbHighlight, self.tb_highlight)
        style = stack_data.style_with_executing_node(theme.as_pygments_style(), highlight)
        return Terminal256Formatter(style=style)


def format_group(shell: Any, value: BaseException, tb: TracebackType | None) -> str:
    """Return the traceback of an exception group (IPython formats none) in the standard library's form."""
    # The first frames are the shell's own.
    while tb is not None and not _is_cell(shell, tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    record = traceback.TracebackException(type(value), value, tb or value.__traceback__, compact=True)
    _name_cells(shell, record, set())
    return "".join(record.format())


def _name_cells(shell: Any, record: traceback.TracebackException | None, seen: set[int]) -> None:
    """Name cells as IPython does ("Cell In[3]") instead of by the name under which they were compiled."""
    if record is None or id(record) in seen:
        return
    seen.add(id(record))
    for frame in record.stack:
        named = shell.compile.format_code_name(frame.filename)
        if named is not None:
            frame.line  # noqa: B018 - reads the source line while the name still finds it
            frame.filename = " ".join(named)
    _name_cells(shell, record.__cause__, seen)
    _name_cells(shell, record.__context__, seen)
    for inner in getattr(record, "exceptions", None) or ():
        _name_cells(shell, inner, seen)


def _is_cell(shell: Any, filename: str) -> bool:
    return shell.compile.format_code_name(filename) is not None


def without_runtime(shell: Any, value: BaseException, tb: TracebackType | None) -> TracebackType | None:
    """Return ``tb`` without what is ours rather than the user's.

    An interrupt that strikes outside of any cell's code has no traceback at all. One that strikes in a write or
    in ``!command``, or an error that the runtime raises itself, ends at the line of the caller.
    """
    last_user = None
    has_cell = False
    frame = tb
    while frame is not None:
        filename = frame.tb_frame.f_code.co_filename
        has_cell = has_cell or _is_cell(shell, filename)
        if not filename.startswith(_OWN) and not filename.endswith(_USED_BY_COMMANDS):
            last_user = frame
        frame = frame.tb_next
    if isinstance(value, KeyboardInterrupt) and not has_cell:
        return None
    after = last_user.tb_next if last_user is not None else None
    if last_user is not None and after is not None and after.tb_frame.f_code.co_filename.startswith(_OWN):
        last_user.tb_next = None
    return tb


def contains_group(value: BaseException | None) -> bool:
    """Tell whether an exception group is in the chain that would be shown."""
    seen = set()
    while value is not None and id(value) not in seen:
        if isinstance(value, BaseExceptionGroup):
            return True
        seen.add(id(value))
        value = value.__cause__ or (None if value.__suppress_context__ else value.__context__)
    return False


def line_in_cell(shell: Any, cell: str, value: BaseException) -> int | None:
    """Return the line of the running cell (from 1) that an exception came through, the innermost one.

    Args:
        shell: the kernel's shell.
        cell: the cell's name in tracebacks, such as ``In[3]``.
        value: the exception.
    """

    def is_this(filename: str | None) -> bool:
        named = shell.compile.format_code_name(filename) if filename else None
        return named is not None and named[1] == cell

    if isinstance(value, SyntaxError) and is_this(value.filename):
        return value.lineno
    line = None
    tb = value.__traceback__
    while tb is not None:
        if is_this(tb.tb_frame.f_code.co_filename):
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


def error_event(name: str, value: str, text: str, line: int | None, *, ansi: bool = False) -> dict[str, Any]:
    """Return the event of an error, its texts as ``shorten`` leaves them.

    Args:
        name: the exception's class.
        value: its words.
        text: the formatted traceback.
        line: in the running cell, from 1; None if the error is not of a line.
        ansi: ``text`` has colours.
    """
    event: dict[str, Any] = {
        "type": "error",
        "name": shorten(name),
        "value": shorten(value),
        "traceback": escape(shorten(text).rstrip("\n"), keep_esc=ansi),
    }
    if line is not None:
        event["line"] = line
    return event
