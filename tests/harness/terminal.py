# SPDX-License-Identifier: Apache-2.0
"""Programs that want a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from types import TracebackType

SECONDS = 60


class Terminal:
    """A terminal on which the program runs."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.fd, tty = pty.openpty()
        self.resize(31, 97)
        self.before = termios.tcgetattr(tty)

        def take() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            argv,
            env=env,
            stdin=tty,
            stdout=tty,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=take,
        )
        self.tty = tty
        self.shown = b""

    def __enter__(self) -> Terminal:
        """It lasts as long as a block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        """The program ends."""
        self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        os.close(self.fd)
        os.close(self.tty)

    def resize(self, rows: int, cols: int) -> None:
        """Its window has another size."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text: str) -> None:
        """Keys."""
        os.write(self.fd, text.encode())

    def until(self, text: str) -> str:
        """What it shows, up to that."""
        deadline = time.monotonic() + SECONDS
        while text.encode() not in self.shown:
            assert select.select([self.fd], [], [], deadline - time.monotonic())[0], self.shown
            self.shown += os.read(self.fd, 65536)
        shown, _, self.shown = self.shown.partition(text.encode())
        return shown.decode() + text

    def rest(self) -> str:
        """What it has shown besides, when the program has ended."""
        while select.select([self.fd], [], [], 0)[0]:
            self.shown += os.read(self.fd, 65536)
        return self.shown.decode()

    def wait(self) -> tuple[int, str]:
        """Its exit status, and what it said on stderr; the terminal must be as it was."""
        assert self.process.stderr
        err = self.process.stderr.read().decode()
        status = self.process.wait(SECONDS)
        assert termios.tcgetattr(self.tty) == self.before
        return status, err
