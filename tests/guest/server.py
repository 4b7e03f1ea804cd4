# SPDX-License-Identifier: Apache-2.0
"""A server that runs in a sandbox: well-behaved HTTP, WebSocket echo, and all that a server should not do, by path.

Standard library only, a thread per connection. It prints a line when it listens, and what the tests wait for.
"""

import base64
import hashlib
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator

BLOCK = 1 << 16
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
barrier = threading.Barrier(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
go = threading.Event()


def say(text: str) -> None:
    """Tell the test."""
    print(text, flush=True)


class Request:
    """A request's head, and its body as it comes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.file = sock.makefile("rb")
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            line = self.file.readline()
            if not line:
                raise EOFError
            self.head += line
        first, *lines = self.head.decode("latin-1").split("\r\n")[:-2]
        self.method, self.target, _ = first.split(" ")
        self.path = self.target.split("?")[0]
        self.headers = [tuple(line.split(": ", 1)) if ": " in line else (line, "") for line in lines]

    def get(self, name: str) -> str:
        """A header's value."""
        return next((v for k, v in self.headers if k.lower() == name), "")

    def blocks(self) -> Iterator[bytes]:
        """The body."""
        if self.get("transfer-encoding") == "chunked":
            while size := int(self.file.readline(), 16):
                yield self.file.read(size)
                self.file.readline()
            self.file.readline()
            return
        left = int(self.get("content-length") or 0)
        while left:
            block = self.file.read(min(left, BLOCK))
            if not block:
                raise EOFError
            left -= len(block)
            yield block

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self.sock.sendall(data)

    def answer(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        """A whole answer."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if self.method == "HEAD" else body))


Handler = Callable[[Request], None]

# ---- well-behaved ----


def echo(r: Request) -> None:
    """What arrived here."""
    digest, size = hashlib.sha256(), 0
    for block in r.blocks():
        digest.update(block)
        size += len(block)
    seen = {"method": r.method, "target": r.target, "headers": r.headers, "size": size, "sha256": digest.hexdigest()}
    r.answer(json.dumps(seen).encode(), "Content-Type: application/json")


def upload(r: Request) -> None:
    """Tells of each piece."""
    for _ in r.blocks():
        say("upload: a piece")


def big(r: Request) -> None:
    """So many bytes, of known content: /big?1000."""
    size = int(r.target.split("?")[1])
    block = bytes(range(256)) * 256
    r.send(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
    for _ in range(size // len(block)):
        r.send(block)
    r.send(block[: size % len(block)])


def chunked(r: Request) -> None:
    """A body in chunks."""
    r.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for text in (b"one", b"two", b"three" * 1000):
        r.send(b"%x\r\n%s\r\n" % (len(text), text))
    r.send(b"0\r\n\r\n")


def events(r: Request) -> None:
    """Server-sent events: the head at once, one event when it is told to go, then no end."""
    r.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    go.wait()
    r.send(b"data: now\n\n")
    r.file.read()


def let_go(r: Request) -> None:
    """Tell it."""
    go.set()
    r.answer(b"")


def together(r: Request) -> None:
    """Answered when as many requests are here at once as the barrier wants."""
    barrier.wait(60)
    r.answer(r.target.encode())


def plain_10(r: Request) -> None:
    """An answer that ends with the connection, of a server of a few lines."""
    r.send(b"HTTP/1.0 200 OK\nContent-Type: text/plain\n\nold")


def redirected(r: Request) -> None:
    """To where the query says."""
    r.answer(b"", f"Location: {r.target.split('?', 1)[1]}", status="302 Found")


def cookies(r: Request) -> None:
    """Cookies, and headers for a whole origin."""
    r.answer(
        b"",
        "Set-Cookie: a=1; Path=/; Domain=localhost",
        "Set-Cookie: b=2; Path=/sub; HttpOnly",
        "Clear-Site-Data: *",
        "X-Own: kept",
    )


# ---- not ----


def early(r: Request) -> None:
    """Answers before it has read the body, and never does."""
    r.answer(b"too large", status="413 Content Too Large")
    r.sock.shutdown(socket.SHUT_WR)
    go.wait(60)


def deaf(r: Request) -> None:
    """Reads nothing and says nothing."""
    say("deaf: has a request")
    r.sock.recv(1)


def raw(text: bytes) -> Handler:
    """Says just that and closes."""
    return lambda r: r.send(text)


def endless(beginning: bytes, again: bytes) -> Handler:
    """Repeats itself until nobody listens."""

    def run(r: Request) -> None:
        r.send(beginning)
        while True:
            r.send(again)

    return run


def cut(r: Request) -> None:
    """Resets in mid-body."""
    r.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    go.wait()
    r.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    r.file.close()


# ---- WebSocket ----


def frame(opcode: int, payload: bytes) -> bytes:
    """A frame of a server."""
    size = len(payload)
    if size < 126:
        length = bytes([size])
    elif size < 1 << 16:
        length = b"\x7e" + struct.pack("!H", size)
    else:
        length = b"\x7f" + struct.pack("!Q", size)
    return bytes([0x80 | opcode]) + length + payload


def websocket(r: Request) -> None:
    """Echoes messages; greets at once, in the same packet as the handshake."""
    accept = base64.b64encode(hashlib.sha1(r.get("sec-websocket-key").encode() + MAGIC).digest()).decode()
    r.send(
        f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\nX-Target: {r.target}\r\n\r\n".encode()
        + frame(1, b"hello")
    )
    while head := r.file.read(2):
        size = head[1] & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", r.file.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", r.file.read(8))
        mask = r.file.read(4)
        data = r.file.read(size)
        key = (mask * (size // 4 + 1))[:size]
        plain = (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
        r.send(frame(head[0] & 0xF, plain))
        if head[0] & 0xF == 8:
            return
    say("websocket: the client is gone")


def end(r: Request) -> None:
    """The end of all."""
    r.answer(b"")
    os._exit(0)


OK = b"HTTP/1.1 200 OK\r\n"
PATHS: dict[str, Handler] = {
    "/echo": echo,
    "/upload": upload,
    "/big": big,
    "/chunked": chunked,
    "/events": events,
    "/go": let_go,
    "/together": together,
    "/1.0": plain_10,
    "/redirect": redirected,
    "/cookies": cookies,
    "/early": early,
    "/deaf": deaf,
    "/cut": cut,
    "/ws": websocket,
    "/end": end,
    "/nothing": raw(b""),
    "/ssh": raw(b"SSH-2.0-OpenSSH_9.2p1\r\n"),
    "/half-head": raw(OK + b"Content-Le"),
    "/two-lengths": raw(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nno!"),
    "/both": raw(OK + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "/control": raw(OK + b"X: a\x01b\r\nContent-Length: 2\r\n\r\nno"),
    "/unasked": raw(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
    "/endless-headers": endless(OK, b"X-Header: 0123456789\r\n"),
    "/endless-line": endless(OK + b"X: ", b"0123456789" * 100),
    "/endless-100": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "/endless-body": endless(OK + b"\r\n", b"x" * BLOCK),
    "/too-short": raw(OK + b"Content-Length: 100\r\n\r\nhalf"),
    "/too-long": raw(OK + b"Content-Length: 4\r\n\r\nwhole and more"),
    "/bad-chunk": raw(OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz\r\n"),
    "/cut-chunk": raw(OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
}


def serve(sock: socket.socket) -> None:
    """One connection, one request."""
    path = "(no request)"
    with sock:
        try:
            r = Request(sock)
            path = r.path
            PATHS[path](r)
        except (EOFError, OSError) as e:
            say(f"{path}: {type(e).__name__}")


def main() -> None:
    """Listen for ever."""
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=256)
    say(f"listening on {listener.getsockname()[1]}")
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


main()
