# SPDX-License-Identifier: Apache-2.0
"""The languages that a session can be opened in, and how a forked process becomes a kernel for one.

Python is the zygote's own: a fork of it is a warm kernel. For the others the fork becomes a driver (``bash``, a
bridge to a Jupyter kernel) or the parent of another program (Node.js). All of them speak the protocol of README.md.

A driver starts its child before it says ``k``, so that an interrupt, which kills what a cell has started, spares it.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass

from . import bash, javascript, jupyter

PYTHON = "python"
_JUPYTER_PREFIX = "jupyter:"


class UnsupportedError(ValueError):
    """There is no kernel of that name here; the words say which there are."""


@dataclass(frozen=True)
class Language:
    """One way to run cells."""

    name: str
    serve: Callable[[socket.socket], int] | None = None
    """Serves the control socket until the agent closes it; returns the exit status. None: the zygote's own Python."""


def available() -> list[str]:
    """Return the names that ``find`` knows: ours first, then the Jupyter kernels installed now, sorted."""
    return [*_ours(), *sorted(set(jupyter.kernel_names()) - _ours().keys())]


def find(name: str) -> Language:
    """Return the language of that name: one of ours, or else a Jupyter kernel by its name or language.

    ``jupyter:NAME`` is the Jupyter kernel even where the name is one of ours too.

    Raises:
        UnsupportedError: there is none.
    """
    ours = _ours()
    if name in ours:
        return ours[name]
    kernel = jupyter.find_kernel(name.removeprefix(_JUPYTER_PREFIX))
    if kernel is None:
        raise UnsupportedError(f"no kernel for {name!r} is installed; there are: {', '.join(available())}")
    return Language(name, lambda control: jupyter.serve(control, kernel))


def _ours() -> dict[str, Language]:
    found = [Language(PYTHON)]
    if shutil.which("node"):
        found.append(Language("javascript", javascript.serve))
    if shutil.which("bash"):
        found.append(Language("bash", bash.serve))
    return {language.name: language for language in found}
