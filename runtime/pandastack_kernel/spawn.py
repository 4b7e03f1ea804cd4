# SPDX-License-Identifier: Apache-2.0
"""Forking a kernel out of the zygote.

Theory of operation. The zygote forks an intermediate process, which takes on the kernel's directory,
descriptors and environment, forks the kernel and exits; so the kernel becomes a child of PID 1, the agent,
which reaps it and learns how it ended. What can fail, fails in the intermediate process while the zygote waits
for it, and is answered from there: two writers never meet on the zygote's socket.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass

from . import frames, languages, reseed


@dataclass
class Request:
    """What a kernel is to be started with. The descriptors are borrowed from the zygote."""

    id: str
    language: languages.Language
    cwd: str
    env: dict[str, str]
    cgroup: str | None
    """Directory of the control group to enter before anything is started; None: stay where the zygote is."""
    control_fd: int
    stdout_fd: int
    stderr_fd: int


def fork_kernel(request: Request, zygote: socket.socket) -> socket.socket | None:
    """Fork a kernel.

    Returns:
        In the zygote None, once the kernel has been forked or the failure answered. In the kernel its control
        socket.

    Raises:
        OSError: the first fork failed; nothing was answered.
    """
    pid = os.fork()
    if pid:
        _reap(pid)
        return None
    try:
        _prepare(request)
        if os.fork():
            os._exit(0)
    except (OSError, ValueError, TypeError) as error:
        try:
            zygote.sendall(failed(request.id, _words(error, request)))
        finally:
            os._exit(1)
    except BaseException:
        os._exit(1)
    zygote.close()
    return _become_kernel(request)


def failed(request_id: str, error: str, *, unsupported: bool = False) -> bytes:
    """Return the frame that answers a fork request that failed; ``unsupported``: no such language here."""
    answer = {"id": request_id, "error": error, "unsupported": unsupported}
    return frames.encode_json(frames.ZYGOTE_FAILED, answer)


def _reap(pid: int) -> None:
    while True:
        try:
            os.waitpid(pid, 0)
            return
        except InterruptedError:
            continue
        except ChildProcessError:
            return


def _words(error: Exception, request: Request) -> str:
    if isinstance(error, OSError) and error.filename == request.cwd:
        return f"cannot enter the working directory {request.cwd!r}: {error.strerror}"
    return f"cannot start the kernel: {error}"


def _prepare(request: Request) -> None:
    if request.cgroup is not None:
        _write(f"{request.cgroup}/cgroup.procs", "0")
    _write("/proc/self/oom_score_adj", "0")  # the zygote's is lower
    os.chdir(request.cwd)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(request.stdout_fd, 1)
    os.dup2(request.stderr_fd, 2)
    os.close(null)
    os.close(request.stdout_fd)
    os.close(request.stderr_fd)
    os.environ.clear()
    os.environ.update(request.env)


def _write(path: str, text: str) -> None:
    """Write to a file of the kernel's. Where we may not, as in tests, nothing depends on it."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, text.encode())
    except OSError:
        pass
    finally:
        os.close(fd)


def _become_kernel(request: Request) -> socket.socket:
    os.setsid()
    # SIGINT stays ignored until the kernel's own handler is in place.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    reseed.reseed()
    time.tzset()
    _follow_environment(request)
    gc.enable()
    os.set_inheritable(request.control_fd, False)
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, request.control_fd)


def _follow_environment(request: Request) -> None:
    """Bring up to date what Python has read from the environment and the directory in the zygote."""
    sys.argv = [""]
    extra = [path for path in request.env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["", *extra, *(path for path in sys.path if path not in ("", *extra))]
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None  # type: ignore[attr-defined]
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.ORIGINAL_DIR = request.cwd  # type: ignore[attr-defined]
