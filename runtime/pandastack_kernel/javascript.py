# SPDX-License-Identifier: Apache-2.0
"""The parent of a JavaScript session's Node.js, which is the kernel; this only passes on interrupts and the end.

Theory of operation. Node.js looks at signals between callbacks, and where it can be made to do so in the midst of a
loop (``breakOnSigint``), a signal too many kills it. So SIGINT comes here, and goes on as a byte in a pipe that a
thread of the kernel reads. What becomes of Node.js becomes of this process: see ``driver.end_like``.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import NoReturn

from . import driver

_KERNEL = Path(__file__).with_suffix(".mjs")
_AWAITED = {signal.SIGINT, signal.SIGCHLD}


def serve(control: socket.socket) -> NoReturn:
    """Run cells in a Node.js until the agent closes the socket, and end as it does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    for number in _AWAITED:
        signal.signal(number, signal.SIG_DFL)
    interrupts, interrupt = os.pipe()
    os.set_blocking(interrupt, False)
    fds = (control.fileno(), interrupts)
    node = subprocess.Popen(["node", str(_KERNEL), *map(str, fds)], pass_fds=fds, preexec_fn=_in_child)
    # The agent is to see its end.
    control.close()
    os.close(interrupts)
    while (status := node.poll()) is None:
        if signal.sigwait(_AWAITED) == signal.SIGINT:
            _write(interrupt)
    driver.end_like(status)


def _write(interrupt: int) -> None:
    try:
        os.write(interrupt, b"i")
    except (BlockingIOError, BrokenPipeError):
        # There are enough of them already, or nobody is left.
        pass


def _in_child() -> None:
    driver.die_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
