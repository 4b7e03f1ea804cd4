# SPDX-License-Identifier: Apache-2.0
"""Forks "kernels" that run code with exec() and a few words to send what a real runtime never would.

In a cell `frame(type, payload)` sends any frame and `raw(data)` any bytes, `ask()` asks for input, `next_cell()` waits for
the cell after one that was ended with a frame of its own, and what is assigned to `exit_code` is the cell's. FAKE_START in the kernel's environment
makes the start go wrong: `die`, `wrong_pid`, `agent_pid`, `garbage`, `silent`. `seeds` is how often the kernel was
told to seed its generators; the first time, FAKE_SEEDED in its environment names a FIFO that it opens. FAKE_WORDS is
what it says while it starts. `group` is the folder of its control group, which a test may have put a plain one in place of.
"""

from __future__ import annotations

import argparse
import array
import json
import os
import signal
import socket
import struct
import sys
import threading
from typing import Any


def send(sock: socket.socket, kind: str, payload: bytes) -> None:
    sock.sendall(struct.pack("<I", len(payload)) + kind.encode() + payload)


def send_json(sock: socket.socket, kind: str, value: Any) -> None:
    send(sock, kind, json.dumps(value).encode())


def exactly(sock: socket.socket, n: int, fds: list[int] | None = None) -> bytes:
    data = b""
    while len(data) < n:
        part, control, _, _ = sock.recvmsg(n - len(data), 64)
        for _, _, raw in control:
            if fds is not None:
                received = array.array("i")
                received.frombytes(raw[: len(raw) - len(raw) % 4])
                fds += received
        if not part:
            os._exit(0)
        data += part
    return data


def receive(sock: socket.socket, fds: list[int] | None = None) -> tuple[str, Any]:
    header = exactly(sock, 5, fds)
    return chr(header[4]), json.loads(exactly(sock, struct.unpack("<I", header[:4])[0], fds))


class Out:
    def __init__(self, sock: socket.socket, kind: str) -> None:
        self.sock = sock
        self.kind = kind

    def write(self, text: str) -> None:
        send(self.sock, self.kind, text.encode())

    def flush(self) -> None:
        pass


def ask(sock: socket.socket) -> str:
    """Ask for input and wait for the answer."""
    send_json(sock, "i", {"type": "input_request", "prompt": "?", "password": False})
    kind, answer = receive(sock)
    assert kind == "I"
    value: str = answer["value"]
    return value


def kernel(request: dict[str, Any], fds: list[int]) -> None:
    sock = socket.socket(fileno=fds[0])
    os.dup2(fds[1], 1)
    os.dup2(fds[2], 2)
    os.close(fds[1])
    os.close(fds[2])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    group = request.get("cgroup")
    if group:
        open(f"{group}/cgroup.procs", "ab").close()
    start = os.environ.get("FAKE_START")
    if "FAKE_WORDS" in os.environ:
        send(sock, "o", os.environ["FAKE_WORDS"].encode())
        os.write(2, os.environ["FAKE_WORDS"].encode())
    if start == "die":
        os._exit(1)
    elif start == "wrong_pid":
        send_json(sock, "k", {"pid": 1})
    elif start == "agent_pid":
        send_json(sock, "k", {"pid": os.getppid()})
    elif start == "garbage":
        sock.sendall(b"\xff" * 1000)
    elif start == "silent":
        signal.pause()
    else:
        send_json(sock, "k", {"pid": os.getpid()})
    space: dict[str, Any] = {
        "frame": lambda kind, payload=b"": send(sock, kind, payload),
        "raw": sock.sendall,
        "event": lambda value: send_json(sock, "m", value),
        "ask": lambda: ask(sock),
        "next_cell": lambda: receive(sock),
        "threading": threading,
        "os": os,
        "group": group,
        "seeds": 0,
    }
    sys.stdout, sys.stderr = Out(sock, "o"), Out(sock, "e")  # type: ignore[assignment]
    count = 0
    while True:
        try:
            kind, cell = receive(sock)
            if kind == "S":
                space["seeds"] += 1
                if "FAKE_SEEDED" in os.environ and space["seeds"] == 1:
                    open(os.environ["FAKE_SEEDED"], "wb").close()
                continue
            count += 1
            status = "ok"
            saved = dict(os.environ)
            os.environ.update(cell.get("env") or {})
            try:
                space.update(ansi=cell["ansi"], allow_stdin=cell["allow_stdin"], exit_code=None)
                exec(cell["code"], space)
            except SystemExit:
                raise
            except BaseException as error:
                status = "error"
                send_json(sock, "m", {"type": "error", "name": type(error).__name__})
            os.environ.clear()
            os.environ.update(saved)
            send_json(sock, "d", {"status": status, "execution_count": count, "exit_code": space["exit_code"]})
        except KeyboardInterrupt:
            pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    sock = socket.socket(fileno=parser.parse_args().fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.environ.get("FAKE_ZYGOTE") == "die":
        os._exit(3)
    send_json(sock, "r", {"python": "3", "ipython": "9", "pid": os.getpid()})
    while True:
        fds: list[int] = []
        _, request = receive(sock, fds)
        if request["language"] != "python":
            send_json(sock, "x", {"id": request["id"], "error": "python is all there is", "unsupported": True})
            for fd in fds:
                os.close(fd)
            continue
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            for fd in fds:
                os.close(fd)
            continue
        if os.fork():
            os._exit(0)
        sock.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        kernel(request, fds)


main()
