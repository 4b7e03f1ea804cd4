# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the agent: starts the real zygote, forks real kernels, runs cells over real sockets."""

from __future__ import annotations

import array
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

RUNTIME = Path(__file__).resolve().parent.parent
if str(RUNTIME) not in sys.path:
    sys.path.insert(0, str(RUNTIME))

from pandastack_kernel import frames  # noqa: E402

_PR_SET_CHILD_SUBREAPER = 36
WAIT_S = 60.0

# A shell's background job ignores SIGINT, and what it starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def recv_frame(sock: socket.socket, timeout_s: float = WAIT_S) -> tuple[bytes, bytes] | None:
    """Read one frame; None at the end of file."""
    sock.settimeout(timeout_s)

    def exactly(size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            part = sock.recv(size - len(data))
            if not part:
                return None
            data += part
        return bytes(data)

    header = exactly(frames.HEADER_BYTES)
    if header is None:
        return None
    kind, size = frames.decode_header(header)
    payload = exactly(size)
    return None if payload is None else (kind, payload)


@dataclass
class Answer:
    """What a cell did, in order."""

    frames: list[tuple[bytes, Any]] = field(default_factory=list)
    pipe_out: bytes = b""
    pipe_err: bytes = b""
    done: dict[str, Any] | None = None
    times: list[float] = field(default_factory=list)

    @property
    def stdout(self) -> str:
        return b"".join(data for kind, data in self.frames if kind == frames.STDOUT).decode()

    @property
    def stderr(self) -> str:
        return b"".join(data for kind, data in self.frames if kind == frames.STDERR).decode()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [data for kind, data in self.frames if kind == frames.EVENT]

    @property
    def results(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == "result"]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == "error"]

    @property
    def error(self) -> dict[str, Any]:
        assert len(self.errors) == 1, self
        return self.errors[0]

    @property
    def main(self) -> dict[str, str]:
        """The MIME bundle of the last expression."""
        found = [event for event in self.results if event["is_main_result"]]
        assert len(found) == 1, self
        data: dict[str, str] = found[0]["data"]
        return data

    @property
    def text(self) -> str:
        return self.main["text/plain"]

    @property
    def pngs(self) -> int:
        return sum("image/png" in event["data"] for event in self.results)

    @property
    def status(self) -> str:
        assert self.done is not None, self
        return str(self.done["status"])


class KernelClient:
    """The agent's side of one kernel."""

    def __init__(self, control: socket.socket, out_fd: int, err_fd: int) -> None:
        self.control = control
        self.out_fd = out_fd
        self.err_fd = err_fd
        self.pid = 0
        self._decoder = frames.Decoder(max_bytes=1 << 31)
        self._body = bytearray()

    def wait_ready(self) -> None:
        frame = recv_frame(self.control)
        assert frame is not None
        assert frame[0] == frames.KERNEL_READY
        self.pid = json.loads(frame[1])["pid"]

    def request(self, code: str, **options: Any) -> None:
        self.control.setblocking(True)
        body = {"code": code, "ansi": False, **options}
        self.control.sendall(frames.encode_json(frames.RUN, body))

    def collect(
        self,
        timeout_s: float = WAIT_S,
        on_frame: Callable[[bytes, Any], None] | None = None,
    ) -> Answer:
        """Read frames and pipes until the cell is done (or the kernel closes its socket)."""
        answer = Answer()
        deadline = time.monotonic() + timeout_s
        self.control.setblocking(False)
        self._decode(answer, on_frame)  # what came behind the end of the cell before
        with selectors.DefaultSelector() as selector:
            for source in (self.control, self.out_fd, self.err_fd):
                selector.register(source, selectors.EVENT_READ)
            while answer.done is None:
                left = deadline - time.monotonic()
                ready = selector.select(max(left, 0))
                if not ready and left <= 0:
                    raise TimeoutError(f"no answer in {timeout_s} s: {answer}")
                for key, _ in ready:
                    if key.fileobj is self.control:
                        try:
                            data = self.control.recv(1 << 20)
                        except BlockingIOError:
                            continue
                        except ConnectionResetError:
                            data = b""
                        if not data:
                            self._drain_pipes(answer)
                            return answer
                        self._decoder.feed(data)
                        self._decode(answer, on_frame)
                    else:
                        self._read_pipe(key.fd, answer, selector)
        self._drain_pipes(answer)
        return answer

    def _decode(self, answer: Answer, on_frame: Callable[[bytes, Any], None] | None) -> None:
        while answer.done is None and (frame := self._decoder.next()) is not None:
            kind, payload = frame
            if kind == frames.BODY:
                self._body += payload
                continue
            value: Any = json.loads(payload) if kind in (frames.EVENT, frames.ASK, frames.DONE) else payload
            if kind == frames.EVENT:
                for mime, size in value.pop("body", {}).items():
                    value["data"][mime] = bytes(self._body[:size]).decode()
                    del self._body[:size]
                assert not self._body
            answer.frames.append((kind, value))
            answer.times.append(time.monotonic())
            if on_frame is not None:
                on_frame(kind, value)
            if kind == frames.DONE:
                answer.done = value

    def _read_pipe(self, fd: int, answer: Answer, selector: selectors.BaseSelector | None = None) -> bool:
        data = os.read(fd, 1 << 16)
        if not data and selector is not None:
            selector.unregister(fd)
        if fd == self.out_fd:
            answer.pipe_out += data
        else:
            answer.pipe_err += data
        return bool(data)

    def _drain_pipes(self, answer: Answer) -> None:
        for fd in (self.out_fd, self.err_fd):
            os.set_blocking(fd, False)
            try:
                while self._read_pipe(fd, answer):
                    pass
            except BlockingIOError:
                pass
            os.set_blocking(fd, True)

    def run(self, code: str, timeout_s: float = WAIT_S, **options: Any) -> Answer:
        self.request(code, **options)
        return self.collect(timeout_s)

    def ok(self, code: str, **options: Any) -> Answer:
        """Run a cell that must succeed."""
        answer = self.run(code, **options)
        assert answer.status == "ok", answer
        assert not answer.errors, answer
        return answer

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def wait_exit(self) -> int:
        """Wait for the kernel's end; return its wait status."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # The intermediate process of the fork has not ended yet: the kernel is not ours so far.
                pid = 0
            if pid:
                self.pid = 0
                return status
            time.sleep(0.002)
        raise TimeoutError("the kernel does not end")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            self.wait_exit()
        self.control.close()
        os.close(self.out_fd)
        os.close(self.err_fd)


class Zygote:
    """The agent's side of the zygote."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        env = {**os.environ, "PYTHONPATH": str(RUNTIME), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pandastack_kernel.zygote", "--fd", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=env,
            cwd="/",
        )
        theirs.close()
        frame = recv_frame(self.sock, 120)
        assert frame is not None, "the zygote died while it warmed up"
        assert frame[0] == frames.ZYGOTE_READY
        self.ready = json.loads(frame[1])

    def send_fork(self, body: Any, fds: list[int]) -> None:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        frame = frames.encode(frames.ZYGOTE_FORK, payload)
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.sock.sendmsg([frame], control)
        self.sock.sendall(frame[sent:])

    def kernel(self, cwd: str = "/", env: dict[str, str] | None = None, language: str = "python") -> KernelClient:
        client, theirs = self.start(cwd, env, language)
        for fd in theirs:
            os.close(fd)
        client.wait_ready()
        return client

    def start(
        self, cwd: str = "/", env: dict[str, str] | None = None, language: str = "python"
    ) -> tuple[KernelClient, tuple[int, int, int]]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        environment = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8"} if env is None else env
        fds = (theirs.detach(), out_write, err_write)
        self.send_fork({"id": "s1", "language": language, "cwd": cwd, "env": environment}, list(fds))
        return KernelClient(ours, out_read, err_read), fds

    def close(self) -> None:
        self.sock.close()
        self.process.wait(WAIT_S)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    started = Zygote()
    yield started
    started.close()


@pytest.fixture
def kernel(zygote: Zygote, tmp_path: Path) -> Iterator[KernelClient]:
    client = zygote.kernel(cwd=str(tmp_path))
    yield client
    client.close()


@pytest.fixture(scope="module")
def shared(zygote: Zygote) -> Iterator[KernelClient]:
    """One kernel for a module's tests that leave nothing behind."""
    client = zygote.kernel(cwd="/tmp")
    yield client
    client.close()
