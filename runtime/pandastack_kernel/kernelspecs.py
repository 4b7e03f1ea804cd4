# SPDX-License-Identifier: Apache-2.0
"""Which Jupyter kernels are installed: a scan of Jupyter's directories, without importing Jupyter.

The zygote asks at each session in a language that it does not know itself, so this costs a few directory listings and
the first KiB of a few files, and it never raises: what cannot be read is no kernel.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAX_SPEC_BYTES = 1 << 20


def directories() -> list[Path]:
    """Return the directories that hold one directory for each kernel, the preferred ones first; as Jupyter has it."""
    home = Path(os.environ.get("HOME") or "/root")
    data_home = os.environ.get("XDG_DATA_HOME") or home / ".local/share"
    user = os.environ.get("JUPYTER_DATA_DIR") or Path(data_home, "jupyter")
    chosen = [path for path in os.environ.get("JUPYTER_PATH", "").split(os.pathsep) if path]
    shared = (Path(sys.prefix, "share/jupyter"), Path("/usr/local/share/jupyter"), Path("/usr/share/jupyter"))
    return [Path(path) / "kernels" for path in (*chosen, user, *shared)]


@dataclass(frozen=True)
class KernelSpec:
    """One installed kernel; Jupyter's documentation calls it a kernelspec."""

    name: str
    directory: Path
    argv: list[str]
    language: str
    env: dict[str, str]
    interrupt_by_message: bool

    def command(self, connection_file: str) -> list[str]:
        """Return the command that starts it; "python" is the interpreter that we run in, as Jupyter has it."""
        values = {"{connection_file}": connection_file, "{resource_dir}": str(self.directory), "{prefix}": sys.prefix}
        words = [re.sub(r"\{\w+\}", lambda match: values.get(match[0], match[0]), word) for word in self.argv]
        if words[0] in ("python", "python3", f"python3.{sys.version_info.minor}"):
            words[0] = sys.executable
        return words


def installed() -> dict[str, KernelSpec]:
    """Return the installed kernels by name. Empty without jupyter_client: nothing could run them."""
    found: dict[str, KernelSpec] = {}
    for directory in directories() if _runnable() else ():
        try:
            paths = sorted(directory.iterdir())
        except OSError:
            continue
        for path in paths:
            spec = _read(path.name.lower(), path)
            if spec is not None:
                found.setdefault(spec.name, spec)
    return found


def find(name: str) -> KernelSpec | None:
    """Return the kernel of that name, or else the first (by name) for the language of that name, in any case."""
    kernels = installed()
    wanted = name.casefold()
    for_language = sorted(kernel for kernel, spec in kernels.items() if spec.language.casefold() == wanted)
    return kernels.get(wanted) or (kernels[for_language[0]] if for_language else None)


def _runnable() -> bool:
    try:
        return importlib.util.find_spec("jupyter_client") is not None
    except (ImportError, ValueError):
        return False


def _read(name: str, directory: Path) -> KernelSpec | None:
    try:
        with (directory / "kernel.json").open("rb") as file:
            value: Any = json.loads(file.read(_MAX_SPEC_BYTES))
        argv = value["argv"]
        if not argv or not isinstance(argv, list):
            return None
        env = value.get("env") or {}
        return KernelSpec(
            name=name,
            directory=directory,
            argv=[str(word) for word in argv],
            language=str(value.get("language", "")),
            env={str(key): str(item) for key, item in env.items()},
            interrupt_by_message=value.get("interrupt_mode") == "message",
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
