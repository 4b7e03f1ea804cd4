# SPDX-License-Identifier: Apache-2.0
"""A TCP server that runs in a sandbox: what a connection is for says its first line.

Standard library only, a thread per connection. It prints a line when it listens, and what the tests wait for.
"""

import os
import socket
import struct
import threading

BLOCK = 1 << 16
go = threading.Event()


def say(text: str) -> None:
    """Tell the test."""
    print(text, flush=True)


def count(sock: socket.socket) -> str:
    """All that comes, and how it ends."""
    n = 0
    try:
        while data := sock.recv(BLOCK):
            n += len(data)
    except ConnectionResetError:
        return f"{n} and a reset"
    return f"{n} and the end"


def serve(sock: socket.socket) -> None:
    """One connection."""
    line = b""
    while not line.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte:
            say("nothing was said")
            return
        line += byte
    word, _, argument = line.decode().strip().partition(" ")
    say(f"{word}: begins")
    if word == "echo":
        while data := sock.recv(BLOCK):
            sock.sendall(data)
        sock.sendall(b"bye")
    elif word == "count":
        sock.sendall(count(sock).encode())
    elif word == "talk":  # and end, but listen on
        left = int(argument)
        while left:
            n = min(left, BLOCK)
            sock.sendall(bytes(n))
            left -= n
        sock.shutdown(socket.SHUT_WR)
        say(f"talk: {count(sock)}")
    elif word == "deaf":
        go.wait()
        say(f"deaf: {count(sock)}")
    elif word == "go":
        go.set()
    elif word == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif word == "end":
        os._exit(0)
    sock.close()


def main() -> None:
    """Listen."""
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    say(f"listening on {server.getsockname()[1]}")
    while True:
        sock, _ = server.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


main()
