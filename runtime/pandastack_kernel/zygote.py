# SPDX-License-Identifier: Apache-2.0
"""The warm process that every kernel is forked from.

Usage: ``python -P -m pandastack_kernel.zygote --fd N``, N being one end of a Unix stream socketpair.

It warms up, says ``r``, and then serves ``f`` requests, each with three descriptors (control socket, stdout,
stderr) attached to its first byte. It has one thread, ignores SIGINT, shares no socket with kernels and so
cannot be harmed by them. End of file on its socket ends it.
"""

from __future__ import annotations

import argparse
import array
import faulthandler
import gc
import json
import os
import signal
import socket
import sys
from typing import Any

import IPython

from . import frames, languages, spawn, warm
from .kernel import Kernel

_MAX_FDS = 8
_EXIT_TIMEOUT_S = 5


class _Incoming:
    """Reads frames and the descriptors that come with them."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._fds: list[int] = []

    def next(self) -> tuple[bytes, bytes, list[int]] | None:
        """Return (type, payload, descriptors now owned by the caller), or None at the end of file."""
        header = self._exactly(frames.HEADER_BYTES)
        if header is None:
            return None
        kind, size = frames.decode_header(header)
        if size > frames.MAX_REQUEST_BYTES:
            raise frames.FrameError(f"a request of {size} bytes")
        payload = self._exactly(size)
        if payload is None:
            return None
        fds, self._fds = self._fds, []
        return kind, payload, fds

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            part, control, _, _ = self._sock.recvmsg(
                min(size - len(data), 1 << 16), socket.CMSG_SPACE(_MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC
            )
            for level, kind, raw in control:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds = array.array("i")
                    fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
                    self._fds += fds
            if not part:
                return None
            data += part
        return bytes(data)


def parse_request(payload: bytes, fds: list[int]) -> spawn.Request:
    """Return the fork request in a frame's payload.

    Raises:
        ValueError: it is not one, or not with exactly three descriptors; UnsupportedError for the language.
    """
    value: Any = json.loads(payload)
    if not isinstance(value, dict):
        raise ValueError("the request is no object")
    env = value.get("env")
    if not isinstance(env, dict) or not all(isinstance(item, str) for item in env.values()):
        raise ValueError("env must be an object of strings")
    request_id, cwd = _text(value, "id"), _text(value, "cwd")
    language = languages.find(_text(value, "language", languages.PYTHON))
    cgroup = _text(value, "cgroup") if "cgroup" in value else None
    if len(fds) != 3:
        raise ValueError(f"three descriptors are needed, {len(fds)} came")
    return spawn.Request(request_id, language, cwd, env, cgroup, *fds)


def _text(value: dict[str, Any], key: str, default: str | None = None) -> str:
    text = value.get(key, default)
    if not isinstance(text, str):
        raise ValueError(f"{key} must be a string")
    return text


def serve(sock: socket.socket) -> tuple[socket.socket, languages.Language] | None:
    """Fork kernels on request.

    Returns:
        In the zygote None, when the agent has closed the socket; in a kernel its control socket and language.
    """
    incoming = _Incoming(sock)
    while True:
        received = incoming.next()
        if received is None:
            return None
        kind, payload, fds = received
        try:
            if kind == frames.ZYGOTE_FORK:
                request = parse_request(payload, fds)
                control = spawn.fork_kernel(request, sock)
                if control is not None:
                    return control, request.language
        except languages.UnsupportedError as error:
            sock.sendall(spawn.failed(_id_of(payload), str(error), unsupported=True))
        except (ValueError, OSError) as error:
            sock.sendall(spawn.failed(_id_of(payload), f"cannot fork a kernel: {error}"))
        for fd in fds:
            os.close(fd)


def _id_of(payload: bytes) -> str:
    try:
        return str(json.loads(payload)["id"])
    except (ValueError, KeyError, TypeError):
        return ""


def main() -> int:
    """Run the zygote; in a forked kernel, run that. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="pandastack_kernel.zygote", description="Serve forks of a warm Python kernel."
    )
    parser.add_argument("--fd", type=int, required=True, help="one end of a Unix stream socketpair")
    fd = parser.parse_args().fd
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _fill_standard_descriptors()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
    os.set_inheritable(fd, False)
    kernel = warm.warm()
    faulthandler.enable(file=2)
    gc.collect()
    gc.disable()
    gc.freeze()
    _fork_once()
    ready = {
        "python": _version(sys.version_info),
        "ipython": IPython.__version__,
        "languages": languages.available(),
        "pid": os.getpid(),
    }
    sock.sendall(frames.encode_json(frames.ZYGOTE_READY, ready))
    forked = serve(sock)
    if forked is None:
        os._exit(0)
    control, language = forked
    if language.serve is not None:
        return language.serve(control)
    kernel.start(control)
    kernel.serve()
    return _end(kernel)


def _fork_once() -> None:
    """Let libraries end their threads (OpenBLAS does before a fork), and touch what a fork touches."""
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def _fill_standard_descriptors() -> None:
    """See to it that descriptors 0 to 2 are open, so that none that is received gets such a number."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.dup(fd)
    os.close(fd)


def _version(info: Any) -> str:
    return f"{info.major}.{info.minor}.{info.micro}"


def _end(kernel: Kernel) -> int:
    """End a kernel whose agent closed its socket: files are flushed, exit handlers run, but not for ever."""
    kernel.channel.disconnect()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_EXIT_TIMEOUT_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
