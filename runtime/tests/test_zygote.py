# SPDX-License-Identifier: Apache-2.0
"""The zygote: fork requests good and bad, randomness (S1), what kernels inherit, many kernels."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
import types

import pytest
from conftest import KernelClient, Zygote, recv_frame

from pandastack_kernel import frames, reseed

RANDOM = (
    "import random, uuid, secrets, sys\n"
    "r = [random.random(), str(uuid.uuid4()), secrets.token_hex(8)]\n"
    "if 'numpy' in sys.modules:\n    import numpy; r += [numpy.random.rand(), numpy.random.randint(10**9), "
    "numpy.random.default_rng().random()]\n"
    "r"
)


def failure(zygote: Zygote) -> dict[str, str]:
    frame = recv_frame(zygote.sock)
    assert frame is not None
    assert frame[0] == frames.ZYGOTE_FAILED
    value: dict[str, str] = json.loads(frame[1])
    return value


def test_ready(zygote: Zygote) -> None:
    assert set(zygote.ready) == {"python", "ipython", "languages", "pid"}
    assert zygote.ready["pid"] == zygote.process.pid
    assert len(os.listdir(f"/proc/{zygote.process.pid}/task")) == 1


def test_s1_no_two_kernels_draw_the_same(zygote: Zygote) -> None:
    drawn = []
    for _ in range(3):
        kernel = zygote.kernel()
        drawn.append(kernel.ok(RANDOM).text)
        kernel.close()
    values = [item for text in drawn for item in eval(text, {"np": __import__("numpy")})]
    assert len(set(values)) == len(values)


def test_reseed_on_request(kernel: KernelClient) -> None:
    kernel.ok("import random, numpy; random.seed(1); numpy.random.seed(1); own = random.Random(1)")
    expected = kernel.ok("a = random.Random(1).random(); a").text
    kernel.control.setblocking(True)
    kernel.control.sendall(frames.encode(frames.RESEED))
    frame = recv_frame(kernel.control)
    assert frame is not None
    assert frame[0] == frames.RESEEDED
    assert kernel.ok("random.random() != a, numpy.random.rand() != 0.417022004702574").text == "(True, True)"
    assert kernel.ok("own.random()").text == expected


def test_reseed_of_openssl(monkeypatch: pytest.MonkeyPatch) -> None:
    """It draws from a state of the process: a copy of the machine has to add something of its own."""
    given: list[tuple[bytes, float]] = []
    fake = types.SimpleNamespace(RAND_add=lambda data, entropy: given.append((data, entropy)))
    monkeypatch.setitem(sys.modules, "_ssl", fake)
    state = random.getstate()
    reseed.reseed()
    reseed.reseed()
    random.setstate(state)
    assert [(len(data), entropy) for data, entropy in given] == [(48, 48.0)] * 2
    assert given[0] != given[1]


def test_kernel_is_its_own_session_and_our_child(kernel: KernelClient) -> None:
    assert kernel.ok("import os; os.getsid(0) == os.getpid()").text == "True"
    assert kernel.ok("os.readlink('/proc/self/fd/0')").text == "'/dev/null'"
    os.kill(kernel.pid, signal.SIGKILL)
    assert os.WTERMSIG(kernel.wait_exit()) == signal.SIGKILL


def test_descriptors_of_a_kernel(kernel: KernelClient) -> None:
    open_fds = eval(kernel.ok("import os; sorted(map(int, os.listdir('/proc/self/fd')))").text)
    # 0, 1, 2, the control socket, and the directory being listed.
    assert len(open_fds) == 5, open_fds
    answer = kernel.ok("!ls /proc/self/fd | wc -l")
    assert answer.pipe_out.strip() == b"4"


def test_warm_up_leaves_nothing_behind(kernel: KernelClient) -> None:
    assert kernel.ok("len(In), Out, [n for n in dir() if not n.startswith('_')]").text == (
        "(2, {}, ['In', 'Out', 'exit', 'get_ipython', 'open', 'quit'])"
    )
    assert kernel.run("%tb").stderr == "No traceback available to show.\n"
    assert kernel.ok("import matplotlib.pyplot as plt; plt.get_fignums()").text == "[]"
    assert kernel.ok("import gc; gc.isenabled(), gc.get_freeze_count() > 1000").text == "(True, True)"


def test_warm_modules_are_loaded(kernel: KernelClient) -> None:
    pytest.importorskip("plotly")
    assert (
        kernel.ok(
            "import sys; {'numpy', 'pandas', 'matplotlib.pyplot', 'plotly.express', 'asyncio'} <= set(sys.modules)"
        ).text
        == "True"
    )


def test_a_first_cell_imports_nothing(zygote: Zygote) -> None:
    cells = ("print('a')", "1+1", "1/0", "(", "len?", "!true")
    for cell in cells:
        kernel = zygote.kernel()
        try:
            kernel.ok("import sys; known = set(sys.modules)")
            kernel.run(cell)
            assert kernel.ok("sorted(set(sys.modules) - known)").text == "[]", cell
        finally:
            kernel.close()


def test_missing_directory(zygote: Zygote) -> None:
    _, fds = zygote.start(cwd="/no/such/place")
    answer = failure(zygote)
    assert answer["id"] == "s1"
    assert "/no/such/place" in answer["error"]
    for fd in fds:
        os.close(fd)
    zygote.kernel().close()


def descriptors(zygote: Zygote) -> int:
    """How many it has open, once it has closed those of its last fork: it answers one request after the other."""
    zygote.send_fork({"id": "x", "cwd": "/", "env": {}}, [])
    assert "three descriptors" in failure(zygote)["error"]
    return len(os.listdir(f"/proc/{zygote.process.pid}/fd"))


def test_bad_requests(zygote: Zygote) -> None:
    before = descriptors(zygote)
    read, write = os.pipe()
    good = {"id": "x", "cwd": "/", "env": {}}
    for body, fds in (
        (b"{", [write] * 3),
        (b"[]", [write] * 3),
        ({"id": "x"}, [write] * 3),
        ({**good, "env": {"A": 1}}, [write] * 3),
        ({**good, "env": {"A=B": "1", "": "2"}}, [write] * 3),
        ({**good, "cwd": "/\0"}, [write] * 3),
        (good, [write] * 2),
        (good, []),
        (b"\xff\xfe", [write] * 3),
    ):
        zygote.send_fork(body, fds)
        assert failure(zygote)["error"], body
    zygote.sock.sendall(frames.encode(b"?", b"unknown"))
    os.kill(zygote.process.pid, signal.SIGINT)
    os.close(read)
    os.close(write)
    zygote.kernel().close()
    assert descriptors(zygote) == before, "descriptors leaked"


def test_many_forks_and_a_dying_kernel(zygote: Zygote) -> None:
    kernels = [zygote.kernel() for _ in range(8)]
    for number, kernel in enumerate(kernels):
        kernel.ok(f"x = {number}")
    os.kill(kernels[0].pid, signal.SIGSEGV)
    for number, kernel in enumerate(kernels[1:], 1):
        assert kernel.ok("x").text == str(number)
    for kernel in kernels:
        kernel.close()


def test_end_of_file_ends_a_kernel(zygote: Zygote) -> None:
    kernel = zygote.kernel(cwd="/tmp")
    kernel.ok(
        "import atexit, tempfile, os\nd = tempfile.mkdtemp()\natexit.register(lambda: open(d + '/exit', 'w').write('x'))\n"
        "f = open(d + '/open', 'w'); f.write('kept')"
    )
    directory = kernel.ok("d").text.strip("'")
    kernel.control.shutdown(socket.SHUT_RDWR)
    assert os.waitstatus_to_exitcode(kernel.wait_exit()) == 0
    with open(directory + "/open") as kept:
        assert kept.read() == "kept"
    assert os.path.exists(directory + "/exit")
    kernel.close()


def test_end_of_file_ends_a_kernel_with_a_stuck_thread(zygote: Zygote) -> None:
    kernel = zygote.kernel()
    kernel.ok("import threading, time; threading.Thread(target=time.sleep, args=(100,)).start()")
    kernel.control.shutdown(socket.SHUT_RDWR)
    started = time.monotonic()
    assert os.WTERMSIG(kernel.wait_exit()) == signal.SIGALRM
    assert time.monotonic() - started < 10
    kernel.close()


def test_lost_agent_ends_a_running_cell(zygote: Zygote) -> None:
    kernel = zygote.kernel()
    kernel.request("while True: print('x' * 1000)")
    time.sleep(0.1)
    kernel.control.close()
    kernel.wait_exit()
    kernel.close()
