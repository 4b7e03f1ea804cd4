# SPDX-License-Identifier: Apache-2.0
"""``sys.stdout`` and ``sys.stderr`` of a kernel: text files whose writes become frames.

They look like the interpreter's own streams to libraries: a real ``fileno`` (1 or 2, for subprocesses and
faulthandler), a binary ``buffer``, UTF-8, not a terminal. Nothing is buffered here, so ``flush`` has
little to do; characters that UTF-8 cannot carry become backslash escapes instead of errors.
"""

from __future__ import annotations

import io
import sys
from typing import Any

from . import frames
from .channel import Channel


class KernelStream(io.TextIOBase):
    """One of the two standard streams. Thread-safe: one ``write`` is never mixed with another."""

    def __init__(self, channel: Channel, kind: bytes) -> None:
        super().__init__()
        self._channel = channel
        self._kind = kind
        self._stdout = kind == frames.STDOUT
        self._binary = _KernelBuffer(channel, kind, self)
        self.name = "<stdout>" if self._stdout else "<stderr>"
        self.mode = "w"

    def write(self, text: str, /) -> int:
        """Send ``text``; return its length in characters."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = text.encode("utf-8", "backslashreplace")
        self._channel.text(self._kind, data)
        return len(text)

    def flush(self) -> None:
        """Send what is collected."""
        self._channel.flush()

    def fileno(self) -> int:
        """Return 1 or 2: the pipe that takes what C code and subprocesses write."""
        return 1 if self._stdout else 2

    def isatty(self) -> bool:
        """Return False."""
        return False

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Flush only: a kernel's streams outlive a library that closes them."""
        self._channel.flush()

    def reconfigure(self, **options: Any) -> None:
        """Accept what ``TextIOWrapper.reconfigure`` accepts; nothing changes."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return "utf-8"."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """Return "backslashreplace"."""
        return "backslashreplace"

    @property
    def buffer(self) -> _KernelBuffer:
        """Return the binary stream below; both share one order."""
        return self._binary

    @property
    def line_buffering(self) -> bool:
        """Return True: nothing stays behind."""
        return True

    @property
    def write_through(self) -> bool:
        """Return True."""
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return _standard_stream, ("stdout" if self._stdout else "stderr",)

    def __repr__(self) -> str:
        return f"<KernelStream name={self.name!r} encoding='utf-8'>"


class _KernelBuffer(io.BufferedIOBase):
    """The binary side of a KernelStream (``sys.stdout.buffer``)."""

    def __init__(self, channel: Channel, kind: bytes, text: KernelStream) -> None:
        super().__init__()
        self._channel = channel
        self._kind = kind
        self._text = text
        self.name = text.fileno()
        self.mode = "wb"

    def write(self, data: Any, /) -> int:
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        raw = bytes(data)
        self._channel.text(self._kind, raw)
        return len(raw)

    def flush(self) -> None:
        self._channel.flush()

    def fileno(self) -> int:
        return self._text.fileno()

    def isatty(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self._channel.flush()

    @property
    def raw(self) -> _KernelBuffer:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _standard_buffer, ("stdout" if self.fileno() == 1 else "stderr",)


def _standard_stream(name: str) -> Any:
    return getattr(sys, name)


def _standard_buffer(name: str) -> Any:
    return getattr(sys, name).buffer
