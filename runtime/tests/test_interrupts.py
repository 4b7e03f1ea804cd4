# SPDX-License-Identifier: Apache-2.0
"""SIGINT: cases T1, T3, T4, the edges of a cell, and writes that block."""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import random
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import KernelClient

from pandastack_kernel import frames
from pandastack_kernel.interrupts import Interrupts


def interrupted(kernel: KernelClient, code: str, after_s: float = 0.2, within_s: float = 2.0) -> object:
    """Run a cell that says "go", interrupt it, and return its answer."""
    timer: list[threading.Timer] = []

    def on_frame(kind: bytes, data: object) -> None:
        if kind == frames.STDOUT and not timer:
            timer.append(threading.Timer(after_s, kernel.interrupt))
            timer[0].start()

    kernel.request("x = 1\nprint('go')\n" + code)
    started = time.monotonic()
    answer = kernel.collect(on_frame=on_frame)
    assert time.monotonic() - started < after_s + within_s
    assert answer.status == "error"
    assert answer.error["name"] == "KeyboardInterrupt"
    assert kernel.ok("x").text == "1", "the state is kept"
    return answer


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import threading; threading.Event().wait()",
        "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "!sleep 60",
        "!trap '' INT; sleep 60",
        "import asyncio; await asyncio.sleep(60)",
        "import asyncio\nasync def f():\n    await asyncio.sleep(60)\nawait f()",
        "import asyncio; asyncio.run(asyncio.sleep(60))",
        "import asyncio\nasync def f():\n    while True: pass\nawait f()",
        "while True: print('spam')",
        "import sys\nwhile True: sys.stdout.write('x' * 100_000)",
        "while True: display(1)",
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nwhile True: pass",
        "class R:\n    def __repr__(self):\n        while True: pass\nR()",
        "import socket; a, b = socket.socketpair(); a.recv(1)",
    ],
)
def test_t1_state_survives(kernel: KernelClient, code: str) -> None:
    interrupted(kernel, code)


def test_where_an_await_was_interrupted(kernel: KernelClient) -> None:
    answer = interrupted(kernel, "import asyncio\nasync def f():\n    await asyncio.sleep(60)\nawait f()")
    error = answer.error  # type: ignore[attr-defined]
    assert error["line"] == 5 or error["line"] == 6
    assert "await asyncio.sleep(60)" in error["traceback"]
    assert kernel.ok("await asyncio.sleep(0); 2").text == "2"


def test_t4_children_of_a_command_die_too(kernel: KernelClient) -> None:
    interrupted(kernel, "!bash -c 'echo $$ > pid1; sleep 61 & echo $! > pid2; wait'")
    for name in ("pid1", "pid2"):
        pid = int(kernel.ok(f"open('{name}').read().strip()").text.strip("'"))
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                        break
            except FileNotFoundError:
                break
            time.sleep(0.01)
        else:
            raise AssertionError(f"{name} lives on")


def test_t4_swallowed_interrupts_come_again(kernel: KernelClient) -> None:
    kernel.request(
        "n = 0\nimport time\nprint('go')\nwhile n < 3:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt:\n        n += 1"
    )
    stop = threading.Event()

    def again() -> None:
        while not stop.wait(0.2):
            kernel.interrupt()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        answer = kernel.collect(20)
    finally:
        stop.set()
        thread.join()
    assert answer.done is not None
    assert kernel.ok("n").text == "3"


def test_outside_a_cell_nothing_happens(kernel: KernelClient) -> None:
    for _ in range(5):
        kernel.interrupt()
        time.sleep(0.01)
    assert kernel.ok("1").text == "1"
    kernel.ok("import asyncio; await asyncio.sleep(0)")
    kernel.interrupt()
    time.sleep(0.05)
    assert kernel.ok("2").text == "2"


def test_at_the_edges_of_cells(kernel: KernelClient) -> None:
    """Interrupts at random moments around short cells: each answered once, none leaks, the kernel lives."""
    kernel.ok("import time; state = 0")
    generator = random.Random(5)
    hit = 0
    for i in range(150):
        kernel.request(f"state = {i}\nprint('x')\n{i}")
        time.sleep(generator.random() * 0.0015)
        kernel.interrupt()
        if i % 3 == 0:
            kernel.interrupt()
        answer = kernel.collect()
        assert answer.done is not None
        names = [error["name"] for error in answer.errors]
        assert names in ([], ["KeyboardInterrupt"]), answer
        assert answer.status == ("error" if names else "ok")
        hit += len(names)
        after = kernel.run("state")
        assert after.status == "ok", after
    assert hit > 0


def test_a_blocked_write_is_interrupted_at_a_frame_boundary(kernel: KernelClient) -> None:
    """Nobody reads: the write blocks; the interrupt ends it; then every frame is whole."""
    kernel.control.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    kernel.request("for i in range(10**9):\n    print(i, 'é' * 50_000)")
    time.sleep(0.5)
    kernel.interrupt()
    time.sleep(0.3)
    answer = kernel.collect()
    assert answer.error["name"] == "KeyboardInterrupt"
    assert "pandastack_kernel" not in answer.error["traceback"]
    b"".join(data for kind, data in answer.frames if kind == frames.STDOUT).decode()
    assert kernel.ok("1").text == "1"


def test_k4_c_code_blocked_on_a_full_pipe_is_interrupted(kernel: KernelClient) -> None:
    kernel.request("import ctypes; ctypes.PyDLL(None).printf(b'1' * 1_000_000);")
    time.sleep(0.4)
    kernel.interrupt()
    time.sleep(0.2)
    answer = kernel.collect(10)
    assert answer.error["name"] == "KeyboardInterrupt"
    assert kernel.ok("1").text == "1"


def test_slow_readers_hold_the_cell_back(kernel: KernelClient) -> None:
    kernel.request("n = 0\nfor i in range(2000):\n    n = i; print('x' * 10_000)")
    time.sleep(0.5)
    with open(f"/proc/{kernel.pid}/status") as status:
        rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    assert rss < 400_000
    answer = kernel.collect()
    assert len(answer.stdout) == 2000 * 10_001


def test_gate() -> None:
    gate = Interrupts()
    kept = signal.getsignal(signal.SIGINT)
    try:
        gate.install()
        os.kill(os.getpid(), signal.SIGINT)
        gate.arm()
        gate.hold()
        os.kill(os.getpid(), signal.SIGINT)
        assert gate.pending
        with pytest.raises(KeyboardInterrupt):
            gate.release()
        # One burst is one interrupt.
        os.kill(os.getpid(), signal.SIGINT)
        gate.disarm()
        gate.arm()
        assert not gate.pending
        gate.hold()
        os.kill(os.getpid(), signal.SIGINT)
        gate.disarm()
        gate.release()
    finally:
        signal.signal(signal.SIGINT, kept)


# --- the gate by itself ------------------------------------------------------------------------------------------


@pytest.fixture
def gate() -> Iterator[Interrupts]:
    """Armed, and held as in a critical section."""
    before = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts()
    interrupts.install()
    interrupts.arm()
    interrupts.hold()
    yield interrupts
    signal.signal(signal.SIGINT, before)


class PollAfterSignal:
    """A poll() before which a signal comes, when no Python code runs any more that could handle it."""

    def __init__(self) -> None:
        self._poller = POLL()
        self.register = self._poller.register

    def poll(self) -> list[tuple[int, int]]:
        """Both calls are C's, one right behind the other."""
        strike = functools.partial(ctypes.CDLL(None)["raise"], signal.SIGINT)
        calls: list[Callable[[], Any]] = [strike, self._poller.poll]
        ready: list[tuple[int, int]] = list(map(operator.call, calls))[1]
        return ready


POLL = select.poll


def test_a_signal_right_before_a_wait_ends_it(gate: Interrupts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "poll", PollAfterSignal)
    ours, _theirs = socket.socketpair()
    with pytest.raises(KeyboardInterrupt):
        gate.wait(ours.fileno(), select.POLLIN)
    assert not gate.waiting


def test_other_signals_do_not_end_a_wait_and_reach_who_waits_for_them(gate: Interrupts) -> None:
    """As those of an event loop do, which has a pipe of its own."""
    got: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: got.append(theirs.send(b"x")))
    ours, theirs = socket.socketpair()
    woken, wakes = os.pipe2(os.O_NONBLOCK)
    others = signal.set_wakeup_fd(wakes)
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        gate.wait(ours.fileno(), select.POLLIN)
        assert signal.set_wakeup_fd(-1) == wakes
    finally:
        signal.set_wakeup_fd(others)
        signal.signal(signal.SIGUSR1, before)
    assert (got, os.read(woken, 9)) == ([1], bytes([signal.SIGUSR1]))
