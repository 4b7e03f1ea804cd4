# SPDX-License-Identifier: Apache-2.0
"""Local files that are sent and received in pieces."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import IO, Callable, Optional, Union

PIECE_BYTES = 1 << 20
BYTES = {"Content-Type": "application/octet-stream"}

Source = Union[str, "os.PathLike[str]", IO[bytes]]
Progress = Callable[[int, Optional[int]], object]


@contextlib.contextmanager
def opened(source: Source) -> Generator[IO[bytes]]:
    """A file to be read. One that was open already stays open."""
    if isinstance(source, (str, os.PathLike)):
        with Path(source).open("rb") as file:
            yield file
    else:
        yield source


def size_of(file: IO[bytes]) -> int | None:
    """How much there is to read, where that is known."""
    try:
        at = file.tell()
        size = file.seek(0, os.SEEK_END) - at
        file.seek(at)
    except OSError:
        return None
    return size


@contextlib.contextmanager
def created(target: Source) -> Generator[IO[bytes]]:
    """A file to be written. One that is given by its path gets its name when it is whole."""
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = Path(target)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
