# SPDX-License-Identifier: Apache-2.0
"""Running ``!command``: straight on descriptors 1 and 2, no terminal, nothing on standard input."""

from __future__ import annotations

import os
import signal
import subprocess

INTERRUPT_GRACE_S = 0.5


def run(command: str) -> int:
    """Run a shell command line and wait for the shell (not for what it left in the background).

    Returns:
        The exit status, or minus the signal's number.

    Raises:
        KeyboardInterrupt: it was interrupted. The command's process group gets SIGINT and, if it is still
            there after INTERRUPT_GRACE_S, SIGKILL.
    """
    process = subprocess.Popen(
        command,
        shell=True,
        executable=_shell(),
        stdin=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        _stop(process)
        raise


def _shell() -> str:
    chosen = os.environ.get("SHELL", "")
    for path in (chosen, "/bin/bash"):
        if path and os.access(path, os.X_OK):
            return path
    return "/bin/sh"


def _stop(process: subprocess.Popen[bytes]) -> None:
    # The SIGKILL comes also where the shell obeyed: what it started may not have.
    for number, grace_s in ((signal.SIGINT, INTERRUPT_GRACE_S), (signal.SIGKILL, INTERRUPT_GRACE_S)):
        try:
            os.killpg(process.pid, number)
            process.wait(grace_s)
        except (ProcessLookupError, PermissionError):
            return
        except subprocess.TimeoutExpired:
            continue
