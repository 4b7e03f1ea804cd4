# SPDX-License-Identifier: Apache-2.0
"""The hosts of the test's internet: they serve in threads, and remember what they were asked."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import random
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from egress.net import Namespace

CHUNK = 1 << 16


def pattern(size: int, seed: int = 1) -> bytes:
    """Bytes that repeat nowhere near."""
    return random.Random(seed).randbytes(size)


def read_all(s: socket.socket) -> bytes:
    """Whatever comes until the other side closes its direction."""
    parts = []
    while part := s.recv(CHUNK):
        parts.append(part)
    return b"".join(parts)


def read_exactly(s: socket.socket, size: int) -> bytes:
    """That many bytes, or fewer at the end."""
    data = bytearray()
    while len(data) < size and (part := s.recv(size - len(data))):
        data += part
    return bytes(data)


def read_head(s: socket.socket) -> bytes:
    """The head of an HTTP message, with its empty line; b"" at the end."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        if not byte:
            return b""
        data += byte
    return data


class Server:
    """A thread for the listener and one for each connection. What they serve is a function of the connection."""

    def __init__(self, listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        self.listener = listener
        self.port: int = listener.getsockname()[1]
        self.serve = serve
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        # A client may go at any time.
        with contextlib.suppress(OSError), connection:
            self.serve(connection)

    def close(self) -> None:
        """No more connections."""
        # The accept() under way ends only so.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def serve_echo(s: socket.socket) -> None:
    """Send everything back, and close when the client has closed its direction."""
    while part := s.recv(CHUNK):
        s.sendall(part)
    s.shutdown(socket.SHUT_WR)


def serve_digest(s: socket.socket) -> None:
    """Take everything, then say its SHA-256."""
    digest = hashlib.sha256()
    while part := s.recv(CHUNK):
        digest.update(part)
    s.sendall(digest.hexdigest().encode())


def serve_source(size: int) -> Callable[[socket.socket], None]:
    """Send that many bytes of pattern(), close this direction, and return what came to the sender of them."""

    def serve(s: socket.socket) -> None:
        s.sendall(pattern(size))
        s.shutdown(socket.SHUT_WR)
        read_all(s)

    return serve


class Web:
    """HTTP/1.1 with keep-alive: says which host and path were asked for, and at which address."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []

    def serve(self, s: socket.socket) -> None:
        """Answer the requests of one connection. "/redirect/URL" leads there."""
        while head := read_head(s):
            self.heads.append(head)
            lines = head.decode("latin-1").split("\r\n")
            path = lines[0].split(" ")[1] if " " in lines[0] else ""
            fields = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
            read_exactly(s, int(fields.get("content-length", "0")))
            body = f"{fields.get('host', '')} {path} {s.getsockname()[0]}".encode()
            if path.startswith("/redirect/"):
                status = f"302 Found\r\nLocation: {path.removeprefix('/redirect/')}"
            else:
                status = "200 OK"
            s.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


class Tls:
    """TLS that says which server name the client asked for."""

    def __init__(self, folder: Path) -> None:
        self.names: list[str | None] = []
        self.certificate = folder / "tls.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=DNS:*.test,DNS:*.cdn.test",
             "-keyout", str(self.certificate), "-out", str(folder / "cert.pem")],
            check=True,
            capture_output=True,
        )  # fmt: skip
        with self.certificate.open("a") as f:
            f.write((folder / "cert.pem").read_text())

    def serve(self, s: socket.socket) -> None:
        """Shake hands, and say the name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        shown: list[str | None] = []

        def on_name(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
            shown.append(name)

        context.sni_callback = on_name
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(s, server_side=True) as t:
            self.names += shown
            for name in shown:
                t.sendall(repr(name).encode())
                t.unwrap()


class Dns:
    """A resolver with a table, for UDP and TCP. Unknown names are said not to exist."""

    def __init__(self, table: dict[str, list[str]]) -> None:
        self.table = table
        self.questions: list[str] = []
        self.clients: list[tuple[str, int]] = []

    def answer(self, message: bytes) -> bytes:
        """Build the answer to a question; a name that begins with "cname." is an alias of the rest."""
        name, at = "", 12
        while size := message[at]:
            name += message[at + 1 : at + 1 + size].decode("latin-1") + "."
            at += 1 + size
        name = name.rstrip(".")
        self.questions.append(name)
        (kind,) = struct.unpack_from("!H", message, at + 1)
        question = message[12 : at + 5]
        records = b""
        count = 0
        owner = b"\xc0\x0c"
        target = name.lower()
        if target.startswith("cname."):
            target = target.removeprefix("cname.")
            # The alias ends in a pointer to the question's name behind its first label.
            records += owner + struct.pack("!HHIH", 5, 1, 60, 2) + struct.pack("!H", 0xC000 | 12 + 6)
            owner = struct.pack("!H", 0xC000 | 12 + 6)
            count += 1
        for text in self.table.get(target, []):
            address = ipaddress.ip_address(text)
            if kind == (1 if address.version == 4 else 28):
                records += owner + struct.pack("!HHIH", kind, 1, 60, len(address.packed)) + address.packed
                count += 1
        code = 0 if target in self.table else 3
        return message[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, count, 0, 0) + question + records

    def serve_udp(self, s: socket.socket) -> None:
        """Answer datagrams until the socket is closed."""
        while True:
            try:
                message, client = s.recvfrom(4096)
            except OSError:
                return
            self.clients.append(client)
            with contextlib.suppress(OSError):
                s.sendto(self.answer(message), client)

    def serve_tcp(self, s: socket.socket) -> None:
        """Answer the questions of one connection."""
        while head := read_exactly(s, 2):
            answer = self.answer(read_exactly(s, struct.unpack("!H", head)[0]))
            s.sendall(struct.pack("!H", len(answer)) + answer)


def question(name: str, kind: int = 1, number: int = 0x1234) -> bytes:
    """Build a question for a name."""
    labels = b"".join(bytes([len(label)]) + label.encode("latin-1") for label in name.split("."))
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def addresses(answer: bytes) -> list[str]:
    """List the addresses in an answer of Dns."""
    (count,) = struct.unpack_from("!H", answer, 6)
    at = answer.index(b"\0", 12) + 5
    found = []
    for _ in range(count):
        kind, _, _, size = struct.unpack_from("!HHIH", answer, at + 2)
        data = answer[at + 12 : at + 12 + size]
        if kind in (1, 28):
            found.append(str(ipaddress.ip_address(data)))
        at += 12 + size
    return found


class UdpEcho:
    """Sends datagrams back. One that reads "from HOST" is answered from that address of the same network."""

    def __init__(self, namespace: Namespace, host: str, port: int) -> None:
        self.namespace = namespace
        self.socket = namespace.listen(host, port, socket.SOCK_DGRAM)
        self.port: int = self.socket.getsockname()[1]
        self.seen: list[tuple[bytes, tuple[str, int]]] = []
        self.arrived = threading.Condition()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                data, client = self.socket.recvfrom(1 << 16)
            except OSError:
                return
            if client is None:
                return  # it was shut down
            with self.arrived:
                self.seen.append((data, client))
                self.arrived.notify_all()
            if data.startswith(b"from "):
                _, host, port = data.decode().split(" ")
                with self.namespace.listen(host, int(port), socket.SOCK_DGRAM) as other:
                    other.sendto(b"a stranger's", client)
            self.socket.sendto(data, client)

    def close(self) -> None:
        """No more answers."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
