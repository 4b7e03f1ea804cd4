# SPDX-License-Identifier: Apache-2.0
"""The bridge to Jupyter kernels: one foreign kernel, cells in, its messages out as our events.

Theory of operation. ``jupyter_process`` has the kernel and its sockets; this is the loop. A cell is an
``execute_request``. Its output comes as messages on iopub, the last of which says "idle"; the verdict comes on
another channel (``execute_reply``). The cell is over when both are here. Should the kernel never say that it is idle
(it may have lost that message, see ``jupyter_process``), the reply alone ends the cell after IDLE_TIMEOUT_S of
silence.

Text is passed on whatever cell it belongs to, also between cells: a thread of an earlier cell may go on talking.

The kernel's death is this process's own: see ``driver.end_like``.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import bundles, driver, frames, kernelspecs, tracebacks
from .publish import result_event
from .stdin import PROMPT_CHARS_MAX

if TYPE_CHECKING:
    from .jupyter_process import KernelProcess

IDLE_TIMEOUT_S = 5.0
_HELLO_AGAIN_S = 0.2
_EXIT_TIMEOUT_S = 5.0
_NOT_STARTED = 127
_OVERSTRUCK = re.compile(r".\x08")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def kernel_names() -> list[str]:
    """Return the names of the installed kernels."""
    return list(kernelspecs.installed())


def find_kernel(name: str) -> kernelspecs.KernelSpec | None:
    """Return the installed kernel that has this name, or else that is for the language of this name."""
    return kernelspecs.find(name)


def serve(control: socket.socket, spec: kernelspecs.KernelSpec) -> int:
    """Run cells in a Jupyter kernel until the agent closes the socket; return the exit status."""
    return _Driver(control, spec).serve()


@dataclass
class _Cell:
    """The cell that runs."""

    id: str
    ansi: bool
    allow_stdin: bool
    idle: bool = False
    reply: dict[str, Any] | None = None
    failed: bool = False
    """An error event was sent."""
    interrupted: bool = False
    asking: list[Any] = field(default_factory=list)
    """The kernel's requests for input that were passed on, not answered yet."""


class _Driver:
    """One session."""

    def __init__(self, control: socket.socket, spec: kernelspecs.KernelSpec) -> None:
        self._link = driver.Link(control)
        self._cell: _Cell | None = None
        self._count = 1
        self._died: int | None = None
        self._kernel = _start(spec)
        self._link.on_interrupt = self._on_interrupt
        self._link.on_child = self._on_child
        self._link.while_blocked = self._kernel.collect

    def serve(self) -> int:
        self._greet()
        self._link.ready(self._kernel.pid)
        while not self._link.closed:
            self._take_messages()
            frame = self._link.next()
            if frame is not None:
                self._on_frame(*frame)
            else:
                self._wait(None)
        self._end()
        return 0

    def _take_messages(self) -> None:
        while (message := self._kernel.receive()) is not None:
            self._on_message(*message)

    def _wait(self, timeout_s: float | None) -> None:
        """Wait until there is something to do. A kernel that has ended takes us along, after its last words."""
        self._link.wait(*self._kernel.collect(), read_control=True, timeout_s=timeout_s)
        if self._died is not None:
            self._take_messages()
            self._kernel.clean()
            driver.end_like(self._died)

    def _greet(self) -> None:
        """Wait until the kernel answers, and until what it publishes arrives here."""
        waiting = {"shell", "iopub"}
        asked_at = 0.0
        while waiting:
            if time.monotonic() - asked_at >= _HELLO_AGAIN_S:
                asked_at = time.monotonic()
                self._kernel.send("shell", "kernel_info_request", {})
            while (message := self._kernel.receive()) is not None:
                waiting.discard(message[0])
            if waiting:
                self._wait(_HELLO_AGAIN_S)

    def _on_frame(self, kind: bytes, payload: bytes) -> None:
        if kind == frames.RUN and self._cell is None:
            self._run(payload)
        elif kind == frames.INPUT and self._cell is not None and self._cell.asking:
            self._answer_input(self._cell.asking.pop(0), payload)
        elif kind == frames.RESEED:
            # Nothing makes a foreign kernel do that.
            self._link.send(frames.RESEEDED, {})

    def _run(self, payload: bytes) -> None:
        try:
            request = driver.parse_run(payload)
            if request["env"]:
                raise driver.BadRequestError(
                    "a Jupyter kernel takes no environment for one cell: "
                    "give it to the session, or set it in the code"
                )
        except driver.BadRequestError as error:
            self._link.send(
                frames.EVENT, tracebacks.error_event("ValueError", str(error), f"ValueError: {error}", None)
            )
            self._link.send(frames.DONE, {"status": "error", "execution_count": self._count})
            return
        content = {
            "code": request["code"],
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": request["allow_stdin"],
            "stop_on_error": True,
        }
        # An interrupt that was sent before the request is not for this cell; one that comes from now on is.
        self._link.take_signals()
        cell = self._cell = _Cell("", request["ansi"], request["allow_stdin"])
        cell.id = self._kernel.send("shell", "execute_request", content)
        while True:
            self._take_messages()
            while (frame := self._link.next()) is not None:
                self._on_frame(*frame)
            if self._link.closed:
                return
            if cell.idle and cell.reply is not None:
                break
            patience_s = IDLE_TIMEOUT_S if cell.reply is not None else None
            waited_since = time.monotonic()
            self._wait(patience_s)
            if patience_s is not None and time.monotonic() - waited_since >= patience_s:
                cell.idle = True
        self._cell = None
        self._finish(cell, cell.reply)

    def _finish(self, cell: _Cell, reply: dict[str, Any]) -> None:
        """Answer a cell with what the kernel says of it."""
        for payload in reply.get("payload") or ():
            # Help, which a terminal would page.
            if isinstance(payload, dict) and payload.get("source") == "page":
                text = _OVERSTRUCK.sub("", str((payload.get("data") or {}).get("text/plain", "")))
                self._link.send_text(frames.STDOUT, (text if cell.ansi else _plain(text)).rstrip("\n") + "\n")
        ok = reply.get("status") == "ok"
        if not ok and not cell.failed:
            self._send_error(cell, reply)
        count = reply.get("execution_count")
        self._count = count if isinstance(count, int) else self._count
        self._link.send(
            frames.DONE, {"status": "ok" if ok and not cell.failed else "error", "execution_count": self._count}
        )
        self._count += 1

    # Messages.

    def _on_message(self, channel: str, message: dict[str, Any]) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        cell = self._cell
        ours = cell is not None and (message.get("parent_header") or {}).get("msg_id") == cell.id
        if not isinstance(content, dict):
            return
        if kind == "stream":
            stream = frames.STDERR if content.get("name") == "stderr" else frames.STDOUT
            self._link.send_text(stream, str(content.get("text", "")))
        elif cell is None:
            return
        elif kind in ("display_data", "update_display_data", "execute_result"):
            self._send_result(kind, content)
        elif kind == "clear_output":
            self._link.send(frames.EVENT, {"type": "clear_output", "wait": bool(content.get("wait"))})
        elif not ours:
            return
        elif channel == "iopub" and kind == "error":
            self._send_error(cell, content)
        elif kind == "status" and content.get("execution_state") == "idle":
            cell.idle = True
        elif channel == "shell" and kind == "execute_reply":
            cell.reply = content
        elif kind == "input_request":
            self._ask(cell, message)

    def _send_result(self, kind: str, content: dict[str, Any]) -> None:
        data, metadata = content.get("data"), content.get("metadata")
        if not isinstance(data, dict) or not data:
            return
        display_id = (content.get("transient") or {}).get("display_id")
        event = result_event(
            data,
            metadata if isinstance(metadata, dict) else None,
            main=kind == "execute_result",
            display_id=None if display_id is None else str(display_id),
            update=kind == "update_display_data",
        )
        self._link.send(frames.EVENT, event, body=bundles.detach(event))

    def _send_error(self, cell: _Cell, content: dict[str, Any]) -> None:
        """Send an error as the kernel says it; one that it has no words for was an interrupt, or a refusal."""
        cell.failed = True
        name = str(content.get("ename") or ("KeyboardInterrupt" if cell.interrupted else "Aborted"))
        value = _plain(str(content.get("evalue") or ""))
        lines = content.get("traceback")
        text = "\n".join(map(str, lines)) if isinstance(lines, list) and lines else f"{name}: {value}".rstrip(": ")
        text = text if cell.ansi else _plain(text)
        self._link.send(frames.EVENT, tracebacks.error_event(_plain(name), value, text, None, ansi=cell.ansi))

    def _ask(self, cell: _Cell, message: dict[str, Any]) -> None:
        content = message["content"]
        if not cell.allow_stdin:
            # It was told; a kernel that asks all the same must not wait for ever.
            self._kernel.send("stdin", "input_reply", {"value": ""}, parent=message)
            return
        cell.asking.append(message)
        prompt, password = str(content.get("prompt", ""))[:PROMPT_CHARS_MAX], bool(content.get("password"))
        self._link.send(frames.ASK, {"type": "input_request", "prompt": prompt, "password": password})

    def _answer_input(self, message: Any, payload: bytes) -> None:
        try:
            value = str(json.loads(payload)["value"])
        except (ValueError, KeyError, TypeError):
            value = ""
        self._kernel.send("stdin", "input_reply", {"value": value}, parent=message)

    # Signals, and the end.

    def _on_interrupt(self) -> None:
        if self._cell is not None:
            self._cell.interrupted = True
            self._kernel.interrupt()

    def _on_child(self) -> None:
        # Only noted: a frame may be half sent.
        self._died = self._kernel.poll()

    def _end(self) -> None:
        def wait(timeout_s: float) -> None:
            deadline = time.monotonic() + timeout_s
            while self._kernel.poll() is None and time.monotonic() < deadline:
                self._link.wait(timeout_s=deadline - time.monotonic())

        self._kernel.close(_EXIT_TIMEOUT_S, wait)


def _start(spec: kernelspecs.KernelSpec) -> KernelProcess:
    from .jupyter_process import KernelProcess

    try:
        return KernelProcess(spec)
    except OSError as error:
        os.write(2, f"the Jupyter kernel {spec.name} does not start: {error}\n".encode())
        os._exit(_NOT_STARTED)


def _plain(text: str) -> str:
    return _ANSI.sub("", text)
