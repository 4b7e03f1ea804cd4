# SPDX-License-Identifier: Apache-2.0
"""``input()`` and ``getpass()``: answered by the client where it said that it can, else an error at once.

A question goes out as an ``i`` frame; the answer comes as the next ``I`` frame on the socket, which nobody
else reads while a cell runs. An answer that comes too late, after its cell was interrupted, is dropped by the
kernel's request loop.
"""

from __future__ import annotations

import json
import select
import socket
import threading

from IPython.core.error import StdinNotImplementedError

from . import frames
from .channel import Channel
from .interrupts import Interrupts

PROMPT_CHARS_MAX = 4096
"""What a client sees of a question."""


class Stdin:
    """Asks the client of the running cell. ``allowed`` is set for each cell."""

    def __init__(self, channel: Channel, interrupts: Interrupts) -> None:
        self.allowed = False
        self._channel = channel
        self._interrupts = interrupts
        self._sock: socket.socket | None = None
        self._decoder = frames.Decoder()

    def connect(self, sock: socket.socket, decoder: frames.Decoder) -> None:
        """Take answers from ``sock``, whose bytes go through ``decoder``."""
        self._sock = sock
        self._decoder = decoder

    def input(self, prompt: object = "", /) -> str:
        """Ask for a line of text; in place of ``builtins.input``."""
        return self._ask(str(prompt), password=False)

    def getpass(self, prompt: str = "Password: ", stream: object = None) -> str:
        """Ask for a secret; in place of ``getpass.getpass``."""
        return self._ask(str(prompt), password=True)

    def _ask(self, prompt: str, *, password: bool) -> str:
        if not self.allowed or self._channel.forked:
            raise StdinNotImplementedError(
                "input() is not answered here: pass the value in as a variable, or run the cell with "
                "`allow_stdin` and answer its `input_request`"
            )
        if threading.current_thread() is not threading.main_thread():
            raise StdinNotImplementedError("input() is only answered in the cell's own thread")
        question = {"type": "input_request", "prompt": prompt[:PROMPT_CHARS_MAX], "password": password}
        self._channel.event(frames.ASK, question)
        return self._answer()

    def _answer(self) -> str:
        self._interrupts.hold()
        try:
            while True:
                received = self._decoder.next()
                if received is None:
                    self._fill()
                elif received[0] == frames.INPUT:
                    return str(json.loads(received[1])["value"])
        finally:
            self._interrupts.release()

    def _fill(self) -> None:
        """Read what comes next. Only the wait for it can be interrupted, so that no byte is lost."""
        sock = self._sock
        assert sock is not None
        self._interrupts.wait(sock.fileno(), select.POLLIN)
        data = sock.recv(64 << 10)
        if not data:
            raise EOFError("nobody is left to answer input()")
        self._decoder.feed(data)
