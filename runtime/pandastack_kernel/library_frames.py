# SPDX-License-Identifier: Apache-2.0
"""What a traceback shows of each frame, without parsing the files of libraries.

IPython parses the whole file of a frame to choose the lines around the one that failed. For a file of pandas that
takes half a second, on a software CPU five, and 50 MB; and it is what a mistyped column name costs. So frames of
installed libraries get the five lines around theirs as they stand; those of cells and of the user's own modules
are IPython's.
"""

from __future__ import annotations

import linecache
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any

import stack_data
from IPython.core.tbtools import FrameInfo
from stack_data.utils import collapse_repeated

_BEFORE = 2
_AFTER = 2

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def is_library(filename: str) -> bool:
    """Tell whether a file is of an installed library rather than the user's."""
    return filename.startswith(_LIBRARIES) or "/site-packages/" in filename or "/dist-packages/" in filename


def records(tb: TracebackType, options: stack_data.Options, context: int) -> list[FrameInfo]:
    """Return what IPython's formatters make their text of, one for each frame or run of similar ones.

    Args:
        tb: the traceback; IPython's own frames are left out.
        options: how frames are shown that are not of libraries.
        context: lines shown of a frame without a source.
    """

    def show(entry: TracebackType) -> FrameInfo:
        frame, code = entry.tb_frame, entry.tb_frame.f_code
        lines = linecache.getlines(code.co_filename, frame.f_globals)
        if not lines:
            return FrameInfo("Raw frame", code.co_filename, entry.tb_lineno, frame, code, context=context)
        if is_library(code.co_filename):
            source = _Excerpt(lines, entry.tb_lineno)
            return FrameInfo(None, code.co_filename, entry.tb_lineno, frame, code, sd=source)
        return FrameInfo._from_stack_data_FrameInfo(stack_data.FrameInfo(entry, options))

    def skip(entries: list[TracebackType], keys: list[tuple[CodeType, int]]) -> FrameInfo:
        left_out = stack_data.RepeatedFrames(entries, keys)
        return FrameInfo._from_stack_data_FrameInfo(left_out)

    def key(entry: TracebackType) -> tuple[CodeType, int]:
        return entry.tb_frame.f_code, entry.tb_lineno

    return list(collapse_repeated(list(_entries(tb)), mapper=show, collapser=skip, key=key))


def _entries(tb: TracebackType | None) -> Iterator[TracebackType]:
    while tb is not None:
        if str(tb.tb_frame.f_globals.get("__name__")).partition(".")[0] != "IPython":
            yield tb
        tb = tb.tb_next


@dataclass
class _Line:
    """One line, with what IPython asks of ``stack_data.Line``."""

    lineno: int
    text: str
    is_current: bool

    def render(self, *, pygmented: bool = False) -> str:
        return self.text


class _Excerpt:
    """The lines around one of a file, with what IPython asks of ``stack_data.FrameInfo``."""

    executing = None
    variables_in_executing_piece: tuple[Any, ...] = ()

    def __init__(self, lines: list[str], lineno: int) -> None:
        first = max(lineno - _BEFORE, 1)
        shown = lines[first - 1 : lineno + _AFTER]
        indent = min((len(text) - len(text.lstrip()) for text in shown if text.strip()), default=0)
        self.lines = [_Line(number, text[indent:], number == lineno) for number, text in enumerate(shown, first)]
