# SPDX-License-Identifier: Apache-2.0
"""A server in a sandbox (tests/guest/server.py), and requests to it through the API."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import requests

from harness.api import Api, Sandbox
from harness.websocket import WebSocket

SOURCES = Path(__file__).parent.parent / "guest"
SECONDS = 60


class GuestServer:
    """Runs until its block ends."""

    source = SOURCES / "server.py"

    def __init__(self, sandbox: Sandbox, *, together: int = 1) -> None:
        """`together`: how many requests to /together wait for each other."""
        self.sandbox = sandbox
        self.api: Api = sandbox.api
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._over = False
        sandbox.write(f"/tmp/{self.source.name}", self.source.read_bytes())
        self._stream = sandbox.stream(f"exec python3 /tmp/{self.source.name} 0 {together} 2>&1")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        """It listens."""
        self._events = self._stream.__enter__()
        self._reader.start()
        self.port = int(self.wait_for("listening on").split()[-1])
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None) -> None:
        """It ends."""
        self.end()
        self._reader.join(SECONDS)
        self._stream.__exit__(kind, e, at)

    def end(self) -> None:
        """Ask it to."""
        with contextlib.suppress(requests.RequestException):
            self.request("GET", "/end")

    def _read(self) -> None:
        text = ""
        with contextlib.suppress(requests.RequestException):  # the daemon may end meanwhile
            for event in self._events:
                text += event.data.get("chunk", "")
                *lines, text = text.split("\n")
                with self._news:
                    self.lines += lines
                    self._news.notify_all()
        with self._news:
            self._over = True
            self._news.notify_all()

    def wait_for(self, text: str, n: int = 1) -> str:
        """The n-th line that it prints with this text."""
        with self._news:
            found = self._news.wait_for(lambda: self._over or len([x for x in self.lines if text in x]) >= n, SECONDS)
            lines = [x for x in self.lines if text in x]
            assert found and len(lines) >= n, f"no {text!r} in {self.lines[-20:]}"
            return lines[n - 1]

    @property
    def prefix(self) -> str:
        """Where it is below the API."""
        return f"{self.sandbox.path}/proxy/{self.port}"

    @property
    def host(self) -> str:
        """Its host name, with the API's port."""
        return f"{self.port}-{self.sandbox.id}.localhost:{urlsplit(self.api.url).port}"

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        """A request by path, with the key."""
        return self.api.request(method, self.prefix + path, **kwargs)

    def by_host(
        self, method: str, path: str, headers: dict[str, str] | None = None, **kwargs: Any
    ) -> requests.Response:
        """A request by host name, without a key of its own."""
        return requests.request(
            method,
            self.api.url + path,
            headers={"Host": self.host, **(headers or {})},
            timeout=SECONDS,
            allow_redirects=False,
            **kwargs,
        )

    def link(self, **body: Any) -> str:
        """The token of a new link to it."""
        path = f"{self.sandbox.path}/preview-token"
        return str(self.api.call("POST", path, json={"port": self.port, **body})["token"])

    def websocket(self, target: str = "/ws", **headers: str) -> WebSocket:
        """By path, with the key."""
        key = {"Authorization": f"Bearer {self.api.key}"}
        return WebSocket(self.api.url, self.prefix + target, {**key, **headers})

    # ---- bytes on a socket ----

    def connect(self) -> socket.socket:
        """A connection to the API."""
        at = urlsplit(self.api.url)
        return socket.create_connection((at.hostname, at.port), SECONDS)

    def raw(self, method: str, path: str, *lines: str) -> bytes:
        """The head of a request by path, with the key."""
        head = [
            f"{method} {self.prefix}{path} HTTP/1.1",
            f"Host: {urlsplit(self.api.url).netloc}",
            f"Authorization: Bearer {self.api.key}",
            *lines,
        ]
        return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n"


class TcpServer(GuestServer):
    """The one that speaks no HTTP (tests/guest/tcp.py), reached by tunnels."""

    source = SOURCES / "tcp.py"

    def end(self) -> None:
        """Ask it to."""
        with contextlib.suppress(OSError, EOFError, AssertionError), self.tunnel("end") as ws:
            ws.receive()

    def tunnel(self, line: str | None = None) -> WebSocket:
        """A connection to it, whose first line may be said already."""
        ws = self.sandbox.socket(f"ports/{self.port}/tunnel")
        if line is not None:
            ws.send(f"{line}\n".encode())
        return ws


def read_all(sock: socket.socket) -> bytes:
    """Everything up to the other end's end, or its reset."""
    got = bytearray()
    try:
        while piece := sock.recv(1 << 16):
            got += piece
    except ConnectionResetError:
        pass
    return bytes(got)
