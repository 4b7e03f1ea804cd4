# SPDX-License-Identifier: Apache-2.0
"""One kernel: the shell, its channel, and the loop that runs cells.

Theory of operation. A Kernel is made in the zygote and warmed there without a socket; ``start`` connects
the copy that a fork made to its agent. ``serve`` then reads one request at a time. A cell may do anything but
end this loop: whatever it raises, however it is interrupted, ``run`` answers with exactly one ``d`` frame. The
two exceptions are the process's death, which the agent sees, and a process that the cell itself forked and
that comes back here: that one leaves at once.
"""

from __future__ import annotations

import builtins
import getpass
import json
import os
import socket
import sys
from typing import Any, NoReturn

from . import bundles, cstdio, frames, reseed
from .channel import Channel
from .interrupts import Interrupts
from .shell import KernelShell
from .stdin import Stdin
from .streams import KernelStream

_RECEIVE_BYTES = 64 << 10


class Kernel:
    """An IPython shell that takes cells from a socket and sends back what they do."""

    def __init__(self) -> None:
        self.interrupts = Interrupts()
        self.channel = Channel(self.interrupts)
        self.stdout = KernelStream(self.channel, frames.STDOUT)
        self.stderr = KernelStream(self.channel, frames.STDERR)
        self.stdin = Stdin(self.channel, self.interrupts)
        self.shell: KernelShell = KernelShell.instance()
        self.shell.set_emit(self._emit)
        self._sock: socket.socket | None = None
        self._decoder = frames.Decoder()

    def start(self, sock: socket.socket) -> None:
        """Become a live kernel on ``sock`` (owned from here on) and say so to the agent."""
        self._sock = sock
        self.interrupts.install()
        self.channel.connect(sock)
        sys.stdout = self.stdout
        sys.stderr = self.stderr
        self.stdin.connect(sock, self._decoder)
        builtins.input = self.stdin.input
        getpass.getpass = self.stdin.getpass
        self.channel.event(frames.KERNEL_READY, {"pid": os.getpid()})

    def serve(self) -> None:
        """Answer requests until the agent closes the socket."""
        while True:
            try:
                request = self._receive()
                if request is None:
                    return
                self._dispatch(*request)
            except KeyboardInterrupt:
                # Only if interrupts come faster than a cell can be left; that cell has been answered.
                self.interrupts.disarm()

    def run(
        self, code: str, *, ansi: bool = False, allow_stdin: bool = False, env: dict[str, str] | None = None
    ) -> None:
        """Run one cell and answer it.

        Args:
            code: the cell, untouched.
            ansi: tracebacks in colour.
            allow_stdin: the client answers ``input()``.
            env: environment variables for this cell only.
        """
        shell = self.shell
        interrupts = self.interrupts
        shell.ansi = ansi
        self.stdin.allowed = allow_stdin
        shell.error_count = 0
        count = shell.execution_count
        saved = _override_environment(env) if env else None
        result = None
        try:
            try:
                interrupts.arm()
                result = shell.run_cell(code, store_history=True)
            finally:
                interrupts.disarm()
        except BaseException as error:
            interrupts.disarm()
            self._report(error)
        if saved is not None:
            _restore_environment(saved)
        if self.channel.forked:
            self._leave_child(result)
        failed = shell.error_count > 0 or result is None or not result.success
        if failed and not shell.error_count:
            self._report(getattr(result, "error_in_exec", None) or getattr(result, "error_before_exec", None))
        if shell.execution_count == count and code and not code.isspace():
            shell.execution_count = count + 1
        answer = {"status": "error" if failed else "ok", "execution_count": count}
        exit_code = _exit_code(result)
        if failed and exit_code:
            answer["exit_code"] = exit_code
        self.channel.event(frames.DONE, answer)

    def _dispatch(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.RUN:
            try:
                request = json.loads(payload)
                code, env = request["code"], request.get("env")
                if not isinstance(code, str) or not (env is None or isinstance(env, dict)):
                    raise TypeError("code must be a string and env an object")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self._report(ValueError(f"bad request: {error}"))
                answer = {"status": "error", "execution_count": self.shell.execution_count}
                self.channel.event(frames.DONE, answer)
                return
            ansi, allow_stdin = bool(request.get("ansi")), bool(request.get("allow_stdin"))
            self.run(code, ansi=ansi, allow_stdin=allow_stdin, env=env)
        elif kind == frames.RESEED:
            reseed.reseed()
            self.channel.event(frames.RESEEDED, {})
        # Others are of a newer agent, or an answer to input() that nobody waits for.

    def _receive(self) -> tuple[bytes, bytes] | None:
        sock = self._sock
        assert sock is not None
        while True:
            request = self._decoder.next()
            if request is not None:
                return request
            self.shell.cell_loop.wait_readable(sock)
            try:
                data = sock.recv(_RECEIVE_BYTES)
            except ConnectionError:
                return None
            if not data:
                return None
            self._decoder.feed(data)

    def _emit(self, event: dict[str, Any], *, last: bool = False) -> None:
        body = () if self.channel.forked else bundles.detach(event)
        self.channel.event(frames.EVENT, event, body=body, last=last)

    def _report(self, error: BaseException | None) -> None:
        """Emit an error that IPython has not shown: of its own machinery, or an interrupt at the cell's edge."""
        if error is None:
            error = RuntimeError("the cell failed without an exception")
        self.shell.showtraceback((type(error), error, error.__traceback__))

    def _leave_child(self, result: Any) -> NoReturn:
        """End a process that the cell forked, as a script would at its end."""
        ended_well = result is not None and result.success
        is_exit = isinstance(getattr(result, "error_in_exec", None), SystemExit)
        cstdio.flush()
        os._exit(_exit_code(result) if is_exit or ended_well else 1)


def _exit_code(result: Any) -> int:
    """Return the exit code of a cell that ``sys.exit`` has ended, as a shell would see it; 0 if it was not."""
    error = getattr(result, "error_in_exec", None)
    if not isinstance(error, SystemExit):
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    return int(error.code is not None)


def _override_environment(env: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    """Set variables; return each name's (value set, value before or None) for _restore_environment."""
    saved = {}
    for name, value in env.items():
        try:
            before = os.environ.get(name)
            os.environ[name] = value
            saved[name] = (value, before)
        except (ValueError, TypeError):
            # No name or no value for a variable ("=", NUL); the agent checks what clients send.
            continue
    return saved


def _restore_environment(saved: dict[str, tuple[str, str | None]]) -> None:
    """Undo _override_environment, but for variables that the cell itself has changed."""
    for name, (value, before) in saved.items():
        if os.environ.get(name) != value:
            continue
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
