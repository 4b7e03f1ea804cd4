# SPDX-License-Identifier: Apache-2.0
"""The driver of a bash session: one shell for all cells, each sourced as a script.

Theory of operation. The shell is an ordinary non-interactive bash whose script is a pipe; ``bash_text`` has what is
written there. Its descriptors 1 and 2 are the agent's pipes and 0 is /dev/null, so what a cell prints never passes
through here. A cell becomes a file ``Cell[N]`` in a private directory, whose name bash then gives in its messages.
The directory is in memory, so that the session goes on where the disk is full; if that is full too, cells fail.
After the cell the shell writes a record to a second pipe.

The shell's death (``exit``, a signal, ``exec``) is this process's own: see ``driver.end_like``.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from . import bash_text, driver, frames, tracebacks

_EXIT_TIMEOUT_S = 5.0
_STOP_AGAIN_S = 0.1
_READ_BYTES = 64 << 10
_MAX_RECEIVED_BYTES = 32 << 20
_RANDOM_BITS = 30
_NOT_RUN = 126
"""The status of a cell that could not be run, as a shell has it."""
_SHOWN_COMMAND_CHARS = 200
_PARENTS = ("/run", "/tmp")
"""Where the directory of cells may be: in memory first."""

_MEANINGS = {
    126: "the command was found but cannot be executed",
    127: "a command was not found: is it installed, and in PATH?",
}


def serve(control: socket.socket) -> int:
    """Run cells in a bash until the agent closes the socket; return the exit status."""
    return _Driver(control).serve()


class _Driver:
    """One session."""

    def __init__(self, control: socket.socket) -> None:
        self._link = driver.Link(control)
        self._link.on_interrupt = self._on_interrupt
        self._link.on_child = self._on_child
        self._token = secrets.token_hex(8)
        bash = shutil.which("bash") or "/bin/bash"
        command_fds, status_fds = os.pipe(), os.pipe()
        self._commands, self._status = command_fds[1], status_fds[0]
        os.set_blocking(self._status, False)
        # The other ends stay open too: the shell opens both pipes anew, by these paths.
        self._status_path = _path_of(status_fds[1])
        files = {name: _memory_file(b"") for name in ("state", "ret", "boot", "restore", "report", "on_exit")}
        paths = bash_text.Paths(
            commands=_path_of(command_fds[0]),
            status=self._status_path,
            **{name: _path_of(fd) for name, fd in files.items()},
        )
        self._text = bash_text.Text(bash, paths, self._token)
        os.write(files["ret"], bash_text.RETURN.encode())
        for name in ("boot", "restore", "report", "on_exit"):
            os.write(files[name], getattr(self._text, name).encode())
        self._received = b""
        self._before = b""
        self._record = re.compile(
            rf"{self._token} (?:ready|done (?P<status>\d+) (?P<words>[^\0]*))\0".encode(), re.DOTALL
        )
        self._directory: str | None = None
        """Of the cells' files, from the first cell on."""
        self._count = 1
        self._last_status = 0
        self._running = False
        self._interrupted = False
        self._stop_at = 0.0
        self._closing = False
        self._shell = subprocess.Popen(
            [bash, "--norc", "--noprofile", "-O", "expand_aliases", paths.commands],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=driver.die_with_parent,
        )
        self._write(self._text.source(paths.boot))
        self._await_record()

    def serve(self) -> int:
        self._link.ready(self._shell.pid)
        while (frame := self._link.receive()) is not None:
            kind, payload = frame
            if kind == frames.RUN:
                self._run(payload)
            elif kind == frames.RESEED:
                self._write(f"{{ RANDOM={secrets.randbits(_RANDOM_BITS)}; }} 2>/dev/null\n")
                self._link.send(frames.RESEEDED, {})
        self._end()
        return 0

    def _run(self, payload: bytes) -> None:
        answer: dict[str, Any] = {"status": "ok", "execution_count": self._count}
        try:
            request = driver.parse_run(payload)
        except driver.BadRequestError as error:
            event: dict[str, Any] | None = tracebacks.error_event("ValueError", str(error), str(error), None)
        else:
            # An interrupt that was sent before the request is not for this cell.
            self._link.take_signals()
            self._interrupted = False
            self._running = True
            event = self._run_cell(request["code"], _usable(request["env"]))
            self._running = False
            self._count += 1
            answer["exit_code"] = self._last_status
        if event is not None:
            answer["status"] = "error"
            self._link.send(frames.EVENT, event)
        self._link.send(frames.DONE, answer)

    def _run_cell(self, code: str, env: dict[str, str]) -> dict[str, Any] | None:
        """Run a cell; return its error event, or None."""
        try:
            path = self._write_cell(code)
        except OSError as error:
            self._last_status = _NOT_RUN
            text = f"OSError: {error}\nThe cell was not run: no room for its file. Free some space in /run or /tmp"
            return tracebacks.error_event("OSError", str(error), text, None)
        saved = self._override_environment(env) if env else {}
        self._write(self._text.cell(str(path), self._last_status))
        record = self._await_record()
        self._link.take_signals()
        status, words = int(record["status"]), record["words"].decode(errors="backslashreplace")
        if env:
            self._run_file(bash_text.restore_variables(env, saved))
        with contextlib.suppress(OSError):  # a cell may have cleaned up
            path.unlink()
        if words.startswith("reload") and not status:
            # Only a signal ends a shell so.
            status = 128 + signal.SIGTERM
        self._last_status = status
        if self._interrupted and (words == "stopped" or status):
            self._last_status = 128 + signal.SIGINT
            return tracebacks.error_event(
                "KeyboardInterrupt", "", "KeyboardInterrupt: the cell was interrupted", None
            )
        if not status:
            return None
        return tracebacks.error_event("ExitStatus", str(status), _describe(status) + _ended_by(words), None)

    def _write_cell(self, code: str) -> Path:
        """Write a cell to a file: in the directory or, where that was removed or is full, in a new one.

        Raises:
            OSError: there is no room for it.
        """
        data = code.encode("utf-8", "backslashreplace")
        failures = []
        for parent in (None, *_PARENTS):
            try:
                if parent is not None:
                    self._directory = tempfile.mkdtemp(prefix="bash-", dir=parent)
                if self._directory is not None:
                    path = Path(self._directory, f"Cell[{self._count}]")
                    path.write_bytes(data)
                    return path
            except OSError as error:
                failures.append(error)
                self._leave_directory()
        raise failures[-1]

    def _leave_directory(self) -> None:
        """Have the next cell make a new directory. What cells themselves have put into this one stays."""
        if self._directory is not None:
            with contextlib.suppress(OSError):
                Path(self._directory, f"Cell[{self._count}]").unlink(missing_ok=True)
                Path(self._directory).rmdir()
            self._directory = None

    def _remove_directory(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    # The shell.

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "surrogateescape")
        while data:
            data = data[os.write(self._commands, data) :]

    def _await_record(self) -> re.Match[bytes]:
        """Wait for a record of the shell's, and drop what was written before it."""
        while (match := self._record.search(self._received)) is None:
            again_s = self._stop_at - time.monotonic() if self._interrupted else None
            if not self._link.wait(self._status, timeout_s=again_s):
                if self._interrupted and time.monotonic() >= self._stop_at:
                    self._stop()
                continue
            # What is no record is cut off at the front: nothing of ours is that long.
            self._received = (self._received + os.read(self._status, _READ_BYTES))[-_MAX_RECEIVED_BYTES:]
        self._before = self._received[: match.start()]
        self._received = self._received[match.end() :]
        return match

    def _run_file(self, script: str) -> None:
        """Have the shell source a script of ours; return when it has."""
        fd = _memory_file(script.encode("utf-8", "surrogateescape"))
        try:
            self._write(self._text.source(_path_of(fd)))
            self._await_record()
        finally:
            os.close(fd)

    def _override_environment(self, env: dict[str, str]) -> dict[str, str]:
        """Export variables; return, by name, the declarations of those that there were."""
        self._run_file(bash_text.save_variables(list(env), self._status_path))
        before = self._before.decode("utf-8", "surrogateescape").split("\0")[-len(env) - 1 : -1]
        self._run_file(bash_text.export_variables(env))
        return dict(zip(env, before, strict=True))

    def _on_interrupt(self) -> None:
        # Never twice at once: the trap must have run to its end before the signal comes again.
        if self._running and not self._interrupted:
            self._interrupted = True
            self._stop()

    def _stop(self) -> None:
        self._stop_at = time.monotonic() + _STOP_AGAIN_S
        try:
            self._shell.send_signal(signal.SIGURG)
        except ProcessLookupError:
            pass

    def _on_child(self) -> None:
        status = self._shell.poll()
        if status is not None and not self._closing:
            self._remove_directory()
            driver.end_like(status)

    def _end(self) -> None:
        """Let the shell exit, as at the end of a script: what the user has trapped runs."""
        self._closing = True
        self._write("\\builtin exit\n")
        deadline = time.monotonic() + _EXIT_TIMEOUT_S
        while self._shell.poll() is None and time.monotonic() < deadline:
            self._link.wait(timeout_s=deadline - time.monotonic())
        if self._shell.poll() is None:
            self._shell.kill()
        self._remove_directory()


def _describe(status: int) -> str:
    text = f"exit status {status}"
    if status in _MEANINGS:
        return f"{text} ({_MEANINGS[status]})"
    if status <= 128:
        return text
    try:
        name = signal.Signals(status - 128).name
    except ValueError:
        return text
    why = "; most often because memory ran out" if name == "SIGKILL" else ""
    return f"{text} (killed by signal {status - 128}, {name}{why})"


def _ended_by(words: str) -> str:
    """Say why a cell ended early, as far as bash tells (after ``set -e`` it does not say where).

    Args:
        words: of a record, see ``bash_text``.
    """
    kind, _, rest = words.partition(" ")
    if kind != "reload":
        return ""
    options, _, command = rest.partition(" ")
    if not command.startswith("\\builtin . "):
        shown = command if len(command) <= _SHOWN_COMMAND_CHARS else command[:_SHOWN_COMMAND_CHARS] + " ..."
        return f"\nThe cell ended here: {shown}"
    if "e" in options:
        return "\nset -e is on: the cell ended at the first command that failed"
    return "\nAn error that ends a script has ended the cell"


def _usable(env: dict[str, str]) -> dict[str, str]:
    """Return the variables that a shell can have; the agent checks what clients send."""
    return {name: value for name, value in env.items() if bash_text.NAME.match(name) and "\0" not in value}


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("pandastack", os.MFD_CLOEXEC)
    os.write(fd, content)
    return fd


def _path_of(fd: int) -> str:
    """Return the name under which other processes can open a descriptor of ours."""
    return f"/proc/{os.getpid()}/fd/{fd}"
