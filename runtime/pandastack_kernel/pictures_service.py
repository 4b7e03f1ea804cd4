# SPDX-License-Identifier: Apache-2.0
"""The process that keeps a browser ready to draw plotly figures, one after another, for all kernels.

Usage: ``python -P -m pandastack_kernel.pictures_service --folder DIR --browser PATH --plotly JS --scopes JS --fd N``

Theory of operation. The zygote starts it at bake time, so that it lies in the memory snapshot with its browser up
and frozen; it is nobody's kernel and survives interrupts. A client connects, sends one request and gets one
answer (frames; see ``pictures``). The browser runs only between request and answer, and is frozen *before*
the answer goes out: who has a picture knows that nothing runs. Only when time is over or the client has hung up,
the answer comes first; then the browser may finish the figure, or the page is loaded anew, or the browser started
anew. A browser that has died is replaced when the next request comes, and for it.

Descriptor N is one end of a stream socketpair: ``r`` goes out on it when the first picture has been drawn. When
the other end closes (the zygote is gone), the service ends, and the browser with it. It also ends when
the browser does not start several times in a row: to have no service is the quicker answer.

Trusted are the clients, as far as one sandbox is one user's: whoever can connect may draw. What they send is
bounded in size and time all the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import frames, pictures
from .pictures_browser import Browser, BrowserError, FigureError, GaveUpError

# Only a bake waits for it.
_START_S = 240.0
_REQUEST_S = 20.0
_MAX_TIME_S = 300.0
_MAX_PIXELS = 50_000_000
_MAX_STARTS = 3
# A small picture takes 0.04 s on a processor, 0.7 s in software emulation.
_SLOW_S = 0.25
# How much longer, in such pictures, a figure may take that nobody waits for any more. A new page takes about 15.
_PATIENCE = 20
_PATIENCE_MIN_S = 2.0
_PATIENCE_MAX_S = 30.0
_BACKLOG = 32

_FIRST_FIGURE = json.dumps(
    {
        "data": [{"type": "scatter", "mode": "lines", "x": [1, 2], "y": [1, 2], "name": "a"}],
        "layout": {"title": {"text": "é"}, "showlegend": True},
    }
)


@dataclass
class Request:
    """What a client wants to have drawn."""

    figure: str
    options: dict[str, Any]
    topojson: str | None
    shown: bool
    """The figure is displayed; nobody has asked for the picture."""
    deadline: float


def parse_request(payload: bytes) -> Request:
    """Return the request in a frame's payload: a line of JSON, then the figure's JSON.

    Raises:
        ValueError: it is none, or asks for too much.
    """
    line, _, figure = payload.partition(b"\n")
    header = json.loads(line)
    if not isinstance(header, dict):
        raise ValueError("the request's first line is no object")
    kind, topojson = header.get("format"), header.get("topojson")
    width, height, scale, time_s = (_number(header, key) for key in ("width", "height", "scale", "time_s"))
    if kind not in pictures.FORMATS:
        raise ValueError(f"no picture format: {kind!r}")
    if not (topojson is None or isinstance(topojson, str)):
        raise ValueError("topojson must be a string")
    if width * height * scale * scale > _MAX_PIXELS:
        raise ValueError(f"a picture may have {_MAX_PIXELS} pixels at most")
    return Request(
        figure.decode(),
        {"format": kind, "width": width, "height": height, "scale": scale},
        topojson,
        header.get("shown") is True,
        time.monotonic() + min(time_s, _MAX_TIME_S),
    )


def _number(header: dict[str, Any], key: str) -> float:
    value = header.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{key} must be a number above 0")
    return value


class Service:
    """The socket and the browser behind it."""

    def __init__(self, listener: socket.socket, lifeline: socket.socket, browser: Browser) -> None:
        """All three are borrowed."""
        self._listener = listener
        self._lifeline = lifeline
        self._browser = browser
        self._failed_starts = 0
        self._slow = False
        self._patience_s = _PATIENCE_MIN_S

    def warm(self) -> None:
        """Start the browser, draw, find out how fast that is, and tell the zygote."""
        first = Request(_FIRST_FIGURE, _options(), None, False, time.monotonic() + 2 * _START_S)
        try:
            self._start()
            self._draw(first, -1)
            began = time.monotonic()
            self._draw(first, -1)
            took_s = time.monotonic() - began
            self._slow = took_s > _SLOW_S
            self._patience_s = min(max(_PATIENCE * took_s, _PATIENCE_MIN_S), _PATIENCE_MAX_S)
            word = pictures.READY
        except (BrowserError, FigureError):
            word = pictures.FAILURE
        finally:
            self._browser.freeze()
        self._lifeline.send(word)

    def serve(self) -> None:
        """Answer requests until the zygote ends."""
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._lifeline, select.POLLIN)
        while self._failed_starts < _MAX_STARTS:
            ready = dict(poll.poll())
            if self._lifeline.fileno() in ready:
                return
            with self._listener.accept()[0] as client:
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        try:
            request = parse_request(_receive(client))
        except (ValueError, OSError) as error:
            _send(client, _failure(str(error)))
            return
        if _hung_up(client):
            # It has waited behind others for longer than it wanted to.
            return
        try:
            answer = frames.encode(pictures.PICTURE, self._picture(request, client))
        except FigureError as error:
            answer = _failure(str(error), error.code)
        except BrowserError as error:
            answer = _failure(str(error))
        except GaveUpError as error:
            _send(client, _failure(str(error)))
            self._recover()
            return
        finally:
            self._browser.freeze()
        _send(client, answer)

    def _picture(self, request: Request, client: socket.socket) -> bytes:
        if self._browser.alive():
            self._browser.thaw()
            try:
                return self._draw(request, client.fileno())
            except BrowserError:
                # As a rule it was killed while it lay frozen; the figure that crashes it does so again.
                pass
        self._start()
        return b"" if _hung_up(client) else self._draw(request, client.fileno())

    def _start(self) -> None:
        self._failed_starts += 1
        self._browser.start(time.monotonic() + _START_S)
        self._failed_starts = 0

    def _recover(self) -> None:
        """Bring the browser back from a figure that was broken off."""
        if not self._browser.recover(self._patience_s):
            with contextlib.suppress(BrowserError):
                self._start()

    def _draw(self, request: Request, client_fd: int) -> bytes:
        return self._browser.draw(
            request.figure,
            request.options,
            request.topojson,
            plain=request.shown and self._slow,
            deadline=request.deadline,
            client_fd=client_fd,
        )


def _options() -> dict[str, Any]:
    return {"format": "png", "width": pictures.WIDTH, "height": pictures.HEIGHT, "scale": 1}


def _send(client: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        client.settimeout(_REQUEST_S)
        client.sendall(answer)


def _hung_up(client: socket.socket) -> bool:
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


def _failure(message: str, code: int | None = None) -> bytes:
    return frames.encode_json(pictures.FAILURE, {"message": message, "code": code})


def _receive(client: socket.socket) -> bytes:
    """Return a request's payload.

    Raises:
        ValueError: it is no request, or too large.
        OSError: it does not come.
    """
    kind, payload = pictures.receive(client, time.monotonic() + _REQUEST_S, pictures.MAX_FIGURE_BYTES + 4096)
    if kind != pictures.DRAW:
        raise ValueError(f"no request: {kind!r}")
    return payload


def main() -> int:
    """Run the service. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="pandastack_kernel.pictures_service", description="Draw plotly figures in a browser that is always up."
    )
    parser.add_argument("--folder", type=Path, required=True, help="private, empty; removed in the end")
    parser.add_argument("--browser", required=True, help="Chromium or its headless shell")
    parser.add_argument("--plotly", type=Path, required=True, help="plotly.js")
    parser.add_argument("--scopes", type=Path, required=True, help="Kaleido's kaleido_scopes.js")
    parser.add_argument("--fd", type=int, required=True, help="one end of a Unix stream socketpair")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(options.fd, False)
    with (
        socket.socket(fileno=options.fd) as lifeline,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        listener.bind(pictures.socket_in(options.folder))
        listener.listen(_BACKLOG)
        browser = Browser(options.browser, options.plotly, options.scopes, options.folder)
        service = Service(listener, lifeline, browser)
        try:
            service.warm()
            service.serve()
        except BrokenPipeError:
            # The zygote ended while the browser came up.
            return 1
        finally:
            browser.kill()
            shutil.rmtree(options.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
