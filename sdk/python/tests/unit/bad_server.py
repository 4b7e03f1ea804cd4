# SPDX-License-Identifier: Apache-2.0
"""Servers that misbehave."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Callable, Union

Script = Union[bytes, Callable[[socket.socket], object]]


class Server:
    """Answers each connection with the next script: bytes to send, which may be nothing, before it is closed.

    A script may also be a function that gets the socket. `requests` has what was asked.
    """

    def __init__(self, *scripts: Script) -> None:
        self.requests: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, args=(scripts,))
        self._thread.start()

    def _serve(self, scripts: tuple[Script, ...]) -> None:
        for script in scripts:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.requests.append(read_request(connection))
                if callable(script):
                    script(connection)
                else:
                    connection.sendall(script)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

    def close(self) -> None:
        """Refuse from now on."""
        with contextlib.suppress(OSError):  # it may have been closed before
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(30)


def read_request(connection: socket.socket) -> bytes:
    """The head of a request and its body, if that has a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    lengths = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while lengths and len(body) < lengths[0]:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(body: bytes | str, status: str = "200 OK", *headers: str) -> bytes:
    """A whole HTTP answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


# The head of an answer that comes in pieces, and its end.
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)
END = b"0\r\n\r\n"


def event(name: str, **data: object) -> bytes:
    """A piece of such an answer: an event."""
    text = f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(text), text)


def events(*said: bytes) -> bytes:
    """A whole answer of events."""
    return CHUNKED + b"".join(said) + END
