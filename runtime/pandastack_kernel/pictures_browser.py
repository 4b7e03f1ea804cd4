# SPDX-License-Identifier: Apache-2.0
"""One browser that draws plotly figures: started once, told what to draw over a pipe, stopped in between.

Theory of operation. The browser is Chromium's headless shell on a page that holds plotly.js and Kaleido's own script
(``kaleido_scopes.js``), so that its pictures are Kaleido's. What Kaleido has in Python is not used: it loads
the page anew after each picture, which takes 9 s in software emulation where the picture takes one, and it
needs an event loop, threads and plotly in the process that keeps the browser. The devtools protocol over a pipe
(JSON, a NUL after each message) is all that is left then.

JavaScript is interpreted (``--jitless``): an emulator translates machine code that V8 writes again each time
V8 touches it, so that compiled code draws four times slower there; on real hardware there is no difference to
speak of for charts.

    new ──start──► running ◄─thaw── frozen         frozen: SIGSTOP for the process group, so no process of the
                      │  └──freeze──► │            browser can use the CPU, whatever timers it has
                      └────kill───────┴──► gone    also by itself, when it crashes or is killed

The browser's process group is its own, but the session is its parent's: should the parent die, the kernel sends
SIGHUP and SIGCONT to the stopped group, and the browser ends.

Every wait has a deadline on the monotonic clock: the wall clock jumps when a snapshot is restored.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

from . import pictures

_LOWEST_FD = 16
_READ_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 192 << 20
"""Largest message of the browser that is read: a picture's base64, escaped."""
_ABORT_S = 5.0
_LOAD_S = 60.0
_EVENT_KINDS = ("Page.loadEventFired", "Inspector.targetCrashed")

_FLAGS = (
    *("--headless", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run", "--no-default-browser-check"),
    # Two processes instead of six: the browser, with drawing and network in it, and the page's.
    *("--no-zygote", "--in-process-gpu", "--enable-features=NetworkServiceInProcess2"),
    *("--disable-gpu", "--enable-unsafe-swiftshader", "--disable-gpu-watchdog"),
    # The code of functions that lie unused must stay: the snapshot is taken for its sake.
    "--js-flags=--jitless,--no-flush-bytecode",
    *("--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-hang-monitor"),
    *("--disable-backgrounding-occluded-windows", "--disable-lazy-loading", "--disable-ipc-flooding-protection"),
    *("--disable-breakpad", "--disable-crash-reporter", "--disable-component-update", "--disable-sync"),
    *("--disable-background-networking", "--disable-default-apps", "--disable-extensions", "--mute-audio"),
    *("--password-store=basic", "--disk-cache-size=1"),
    # As Kaleido has it: plotly.js is a file, and images in a figure may come from anywhere.
    *("--allow-file-access-from-files", "--disable-web-security"),
)

_PAGE = """<!DOCTYPE html>
<html>
<head>
<style id="head-style"></style>
<title>pictures</title>
<script src="{plotly}" charset="utf-8"></script>
<script src="{scopes}"></script>
</head>
<body style="margin: 0; padding: 0;"><img id="kaleido-image" /></body>
</html>
"""

_DRAW = """function (figure, spec, plain, topojson) {
    spec.data = JSON.parse(figure);
    if (plain && Array.isArray(spec.data.data)) {
        for (const trace of spec.data.data) {
            if (trace.type === 'scattergl') trace.type = 'scatter';
            if (trace.type === 'scatterpolargl') trace.type = 'scatterpolar';
            if (/3d$|map(box)?$|^(surface|cone|streamtube|volume|isosurface|splom|parcoords)$/.test(trace.type)
                && trace.type !== 'heatmap' && trace.type !== 'treemap') {
                throw new Error(`${trace.type} takes too long on this machine; to_image() still draws it`);
            }
        }
    }
    return kaleido_scopes.plotly(spec, topojson).then(JSON.stringify);
}"""

# What Kaleido asks for.
_PDF = {
    **{f"margin{side}": 0.1 for side in ("Top", "Bottom", "Left", "Right")},
    "printBackground": True,
    "preferCSSPageSize": True,
    "pageRanges": "1",
}
_TEXT_FORMATS = ("svg", "json")


class BrowserError(Exception):
    """The browser does not work any more, or not in time; it has to be replaced."""


class FigureError(Exception):
    """The figure cannot be drawn; the browser is fine."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The number that Kaleido's script gives the failure, if it is its own."""


class GaveUpError(Exception):
    """The one who wanted the picture has hung up, or the time for it is over."""


class Browser:
    """A browser process with its page. Not thread-safe."""

    def __init__(self, program: str, plotly: Path, scopes: Path, folder: Path) -> None:
        """Only remember what to start.

        Args:
            program: the browser.
            plotly: plotly.js.
            scopes: Kaleido's script.
            folder: for the page and for all that the browser writes; private, exists.
        """
        self._program = program
        self._folder = folder
        self._page = folder / "index.html"
        self._page.write_text(_PAGE.format(plotly=plotly.as_uri(), scopes=scopes.as_uri()))
        self._pid = 0
        self._to_fd = -1
        self._from_fd = -1
        self._buffer = bytearray()
        self._messages: list[dict[str, Any]] = []
        self._last_id = 0
        self._session: str | None = None
        self._window = ""

    @property
    def pid(self) -> int:
        """The browser's process and process group; 0 without one."""
        return self._pid

    def alive(self) -> bool:
        """Tell whether the browser runs (or is frozen); one that has ended is cleared away."""
        if self._pid and os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            return True
        if self._pid:
            # Reaped: the number may belong to somebody else from here on, but not the group while it has members.
            self._signal(signal.SIGKILL)
            self._forget()
        return False

    def start(self, deadline: float) -> None:
        """Start the browser and load the page.

        Raises:
            BrowserError: it does not start, or not before ``deadline``; nothing is left of it.
        """
        try:
            self._spawn()
            targets = self._call("Target.getTargets", {}, deadline)["targetInfos"]
            pages = [target["targetId"] for target in targets if target["type"] == "page"]
            if not pages:
                pages = [self._call("Target.createTarget", {"url": "about:blank"}, deadline)["targetId"]]
            attached = self._call("Target.attachToTarget", {"targetId": pages[0], "flatten": True}, deadline)
            self._session = attached["sessionId"]
            self._call("Page.enable", {}, deadline)
            self._call("Network.enable", {"maxTotalBufferSize": 1, "maxResourceBufferSize": 1}, deadline)
            self._call("Network.setExtraHTTPHeaders", {"headers": pictures.HEADERS}, deadline)
            self._load(deadline)
            self._share_oom_score()
        except (BrowserError, FigureError, OSError, KeyError) as error:
            self.kill()
            raise BrowserError(f"the browser does not start: {error}") from error

    def draw(
        self,
        figure: str,
        options: dict[str, Any],
        topojson: str | None,
        *,
        plain: bool,
        deadline: float,
        client_fd: int,
    ) -> bytes:
        """Draw a figure.

        Args:
            figure: plotly's JSON.
            options: ``format``, ``width``, ``height``, ``scale`` as Kaleido's script takes them.
            topojson: where outlines for maps are.
            plain: do without WebGL: on an emulated processor a line of 5,000 points takes 112 s with it, 7 s
                without. Points and lines look the same then; what there is in WebGL only is refused.
            deadline: by the monotonic clock.
            client_fd: the socket of the one who wants it; when it hangs up, drawing is broken off.

        Raises:
            FigureError: the figure is no good.
            GaveUpError: out of time, or nobody wants it any more; the browser still draws, see ``recover``.
            BrowserError: the browser does not work any more; it is gone.
        """
        arguments = [{"value": value} for value in (figure, options, plain, *([topojson] if topojson else ()))]
        call = {
            "functionDeclaration": _DRAW,
            "objectId": self._window,
            "arguments": arguments,
            "awaitPromise": True,
        }
        try:
            answer = _value(self._call("Runtime.callFunctionOn", call, deadline, client_fd))
            made = json.loads(answer)
            if made["code"] != 0:
                raise FigureError(str(made["message"]), int(made["code"]))
            if made["format"] == "pdf":
                return base64.b64decode(self._call("Page.printToPDF", _PDF, deadline, client_fd)["data"])
            text: str = made["result"]
            return text.encode() if made["format"] in _TEXT_FORMATS else base64.b64decode(text)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.kill()
            raise BrowserError(f"the browser's answer makes no sense: {error}") from error
        except BrowserError:
            self.kill()
            raise

    def recover(self, patience_s: float) -> bool:
        """Let the page finish a figure that nobody waits for, which is quicker than what follows otherwise.

        If it does not in ``patience_s``, break it off and load the page anew: half a figure leaves more behind than
        can be seen.

        Returns:
            Whether that went well; if not, the browser is gone.
        """
        try:
            self._wait_for(self._last_id, time.monotonic() + patience_s, -1)
            return True
        except FigureError:
            return True
        except (BrowserError, OSError, ValueError):
            # Still busy; or it has ended, and does not take the next command either.
            pass
        deadline = time.monotonic() + _ABORT_S
        try:
            self._call("Runtime.terminateExecution", {}, deadline)
            self._call("Runtime.evaluate", {"expression": "1"}, deadline)
            self._load(time.monotonic() + _LOAD_S)
        except (BrowserError, FigureError, OSError, KeyError, ValueError):
            # Busy where nothing can be broken off, or on the way down.
            self.kill()
        return self._pid != 0

    def freeze(self) -> None:
        """Stop all processes of the browser; return when its first one has stopped."""
        if not self.alive():
            return
        self._signal(signal.SIGSTOP)
        # WNOWAIT: should it end instead, alive() has to see that.
        os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let a frozen browser go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the browser, whatever its state."""
        if self._pid:
            self._signal(signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._forget()

    def _forget(self) -> None:
        os.close(self._to_fd)
        os.close(self._from_fd)
        self._pid, self._to_fd, self._from_fd = 0, -1, -1
        self._buffer.clear()
        self._messages.clear()
        self._session = None

    def _signal(self, number: int) -> None:
        if self._pid:
            try:
                os.killpg(self._pid, number)
            except ProcessLookupError:
                pass

    def _spawn(self) -> None:
        read_fd, self._to_fd = os.pipe()
        self._from_fd, write_fd = os.pipe()
        theirs = [os.open(os.devnull, os.O_RDWR), read_fd, write_fd]
        # Out of the way of the numbers that the browser expects them under.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD) for fd in theirs]
        null, to_browser, from_browser = high
        places = ((null, 0), (null, 1), (null, 2), (to_browser, 3), (from_browser, 4))
        folder = str(self._folder)
        try:
            self._pid = os.posix_spawn(
                self._program,
                [self._program, *_FLAGS, f"--user-data-dir={self._folder / 'profile'}"],
                {**os.environ, "HOME": folder, "TMPDIR": folder},
                file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in places],
                setpgroup=0,
                setsigdef=[signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE],
            )
        finally:
            for fd in (*theirs, *high):
                os.close(fd)
            if not self._pid:
                self._forget()
        os.set_blocking(self._to_fd, False)
        os.set_blocking(self._from_fd, False)

    def _load(self, deadline: float) -> None:
        self._messages.clear()
        self._call("Page.navigate", {"url": self._page.as_uri()}, deadline)
        while not any(message.get("method") == "Page.loadEventFired" for message in self._messages):
            self._pump(b"", deadline, -1)
        self._messages.clear()
        check = {"expression": "typeof Plotly + typeof kaleido_scopes"}
        if _value(self._call("Runtime.evaluate", check, deadline)) != "objectobject":
            raise BrowserError("plotly.js or Kaleido's script could not be loaded")
        self._window = self._call("Runtime.evaluate", {"expression": "globalThis"}, deadline)["result"]["objectId"]

    def _share_oom_score(self) -> None:
        """Undo what the browser does to its page's process: that it be killed before all others."""
        own = Path("/proc/self/oom_score_adj").read_text()
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.getpgid(int(entry.name)) == self._pid:
                    (entry / "oom_score_adj").write_text(own)
            except OSError:
                # Ended meanwhile, or not ours to lower.
                continue

    def _call(self, method: str, params: dict[str, Any], deadline: float, client_fd: int = -1) -> dict[str, Any]:
        """Send a command and return its result.

        Raises:
            FigureError: JavaScript threw an exception.
            GaveUpError: ``client_fd`` was given, and hung up or is out of time.
            BrowserError: no answer, or a refusal.
        """
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._pump(json.dumps(message, separators=(",", ":")).encode() + b"\0", deadline, client_fd)
        return self._wait_for(self._last_id, deadline, client_fd)

    def _wait_for(self, number: int, deadline: float, client_fd: int) -> dict[str, Any]:
        while True:
            for answer in self._messages:
                if answer.get("id") == number:
                    self._messages.clear()
                    return _result(answer)
            self._pump(b"", deadline, client_fd)

    def _pump(self, data: bytes, deadline: float, client_fd: int) -> None:
        """Write ``data`` while reading what comes; without ``data`` wait until something has come."""
        rest = memoryview(data)
        poll = select.poll()
        poll.register(self._from_fd, select.POLLIN)
        if rest:
            poll.register(self._to_fd, select.POLLOUT)
        if client_fd >= 0:
            poll.register(client_fd, select.POLLRDHUP)
        while True:
            left = deadline - time.monotonic()
            ready = dict(poll.poll(max(left * 1000, 0)))
            # A command that has been sent in part cannot be taken back.
            torn = 0 < len(rest) < len(data)
            if client_fd in ready:
                if not torn:
                    raise GaveUpError("nobody waits for the picture")
                poll.unregister(client_fd)
            if left <= 0:
                if client_fd >= 0 and not torn:
                    raise GaveUpError("the figure takes too long")
                raise BrowserError("the browser does not answer in time")
            if self._from_fd in ready and self._read() and not rest:
                return
            if self._to_fd in ready:
                try:
                    rest = rest[os.write(self._to_fd, rest) :]
                except BrokenPipeError:
                    raise BrowserError("the browser has ended") from None
                if not rest:
                    return

    def _read(self) -> bool:
        """Take in what the browser has sent; tell whether a message is complete."""
        data = os.read(self._from_fd, _READ_BYTES)
        if not data:
            raise BrowserError("the browser has ended")
        start = len(self._buffer)
        self._buffer += data
        if len(self._buffer) > MAX_MESSAGE_BYTES:
            raise BrowserError("the browser sends too much")
        found = False
        while (end := self._buffer.find(0, start)) >= 0:
            message: dict[str, Any] = json.loads(self._buffer[:end])
            del self._buffer[: end + 1]
            start = 0
            found = True
            if message.get("method") == "Inspector.targetCrashed":
                raise BrowserError("the browser's page has crashed")
            if "id" in message or message.get("method") in _EVENT_KINDS:
                self._messages.append(message)
        return found


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise BrowserError(str(answer["error"].get("message", answer["error"])))
    result: dict[str, Any] = answer["result"]
    details = result.get("exceptionDetails")
    if details:
        thrown = details.get("exception", {}).get("description") or details.get("text", "")
        raise FigureError(str(thrown).split("\n", 1)[0])
    return result


def _value(result: dict[str, Any]) -> Any:
    return result["result"].get("value")
