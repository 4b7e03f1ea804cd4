# SPDX-License-Identifier: Apache-2.0
"""Flushing what C code has buffered on its own standard output and error."""

from __future__ import annotations

import ctypes
import sys

_libc_fflush = ctypes.CDLL(None).fflush
_libc_fflush.argtypes = [ctypes.c_void_p]
_libc_fflush.restype = ctypes.c_int


def flush() -> None:
    """Write out every C ``FILE`` and Python's original descriptor streams; errors are nobody's to handle."""
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass
    _libc_fflush(None)
