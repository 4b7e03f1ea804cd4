# SPDX-License-Identifier: Apache-2.0
"""The daemon's end: one at a time, each may come and go, and nothing that is said there ends a helper but "end"."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
from collections.abc import Callable

import pytest

from egress.frames import Wire, tcp
from egress.helper import NAMESERVERS, Helper, Start, config, program
from egress.net import attempt
from egress.test_frames import handshake
from egress.test_policy import REFUSED
from egress.world import ECHO, OTHER, PRIVATE, WEB, World


def test_another_daemon(start: Start) -> None:
    """It takes the place of the first, which is told by the end of its connection. The guest notices nothing."""
    guest, helper = start()
    with guest.connect(WEB, ECHO) as s:
        second = helper.connect()
        second.set(config(deny=[OTHER]))
        with pytest.raises((EOFError, ConnectionError)):
            helper.control.stats()
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        assert attempt(lambda: guest.connect(OTHER, ECHO)) == REFUSED
        assert [d["address"] for d in second.take_denials()] == [OTHER]
        second.close()
        third = helper.connect()
        assert third.stats()["denied"] == 1
        third.close()


def test_the_package_cache(start: Start) -> None:
    """One port of this machine's loopback, behind the first resolver's address, for as long as its daemon is connected."""
    cache, with_cache = NAMESERVERS[0], config() + f"mirror {ECHO}\n"
    guest, helper = start()
    forbids: list[Callable[[], None]] = [lambda: helper.control.set(config()), helper.control.close]
    for forbid in forbids:
        assert attempt(lambda: guest.connect(cache, 80)) == REFUSED
        helper.control.set(with_cache)
        with guest.connect(cache, 80) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
            assert attempt(lambda: guest.connect(cache, ECHO)) == REFUSED
            assert attempt(lambda: guest.connect(cache, 81)) == REFUSED
            forbid()
            with pytest.raises(ConnectionResetError):
                s.recv(1)
    # The next daemon has another port.
    control = helper.connect()
    assert attempt(lambda: guest.connect(cache, 80)) == REFUSED
    control.set(with_cache)
    assert attempt(lambda: guest.connect(cache, 80)) == "none"
    # A share of its connections, and no more.
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(guest.connect(cache, 80))
        assert attempt(lambda: guest.connect(cache, 80)) == REFUSED
    control.close()


def test_no_daemon(start: Start) -> None:
    """What is refused meanwhile is counted, and told to the next one."""
    guest, helper = start()
    helper.control.close()
    for _ in range(5):
        assert attempt(lambda: guest.connect(PRIVATE, ECHO)) == REFUSED
    assert attempt(lambda: guest.connect(WEB, ECHO)) == "none"
    control = helper.connect()
    assert control.stats()["denied"] == 5
    assert attempt(lambda: guest.connect(PRIVATE, ECHO)) == REFUSED
    assert [d["more"] for d in control.take_denials()] == [5]
    control.close()


def test_a_daemon_that_does_not_read(helper: Callable[..., Helper]) -> None:
    h = helper()
    wire = Wire(h)
    for n in range(2000):
        assert wire.ask(tcp(PRIVATE, ECHO, source_port=1024 + n)).is_reset
        h.control.socket.send(b"stats")
        if n == 500:
            break
    h.control.close()
    assert h.connect().stats()["denied"] == 501


@pytest.mark.parametrize(
    "packet",
    [b"x", b"config", b"CONFIG\ninternet yes\n", b"end ", b"stats\n", b"\0", b"\xff" * 1000, bytes(1000), b"{}",
     b"config\ninternet maybe\n", b"config\nallow 10.0.0.1/8\n", b"config\nallow\n", b"config\nfoo bar\n",
     b"config\ninternet yes\nrate 99999999999999999999\n", b"config\ninternet yes\nresolver x\n",
     b"config\n" + b"deny evil.example\n" * 129, b"config\ninternet yes\n" + b"deny a.example\n" * 12000],
)  # fmt: skip
def test_what_is_no_request(start: Start, packet: bytes) -> None:
    """It is answered with an error, and the policy stays."""
    guest, helper = start(deny=[OTHER])
    helper.control.socket.setsockopt(1, 7, 1 << 20)
    answer = helper.control.ask(packet)
    assert list(answer) == ["error"]
    assert answer["error"]
    assert attempt(lambda: guest.connect(OTHER, ECHO)) == REFUSED
    assert attempt(lambda: guest.connect(WEB, ECHO)) == "none"


def test_garbage(helper: Callable[..., Helper]) -> None:
    h = helper()
    rng = random.Random(1)
    for _ in range(500):
        assert list(h.control.ask(rng.randbytes(rng.randrange(1, 2000)))) == ["error"]
    assert h.control.stats()["denied"] == 0


def test_a_new_rate(start: Start) -> None:
    """It is another from one packet to the next, and no rate is no limit."""
    guest, helper = start(rate=1024)
    helper.control.set(config(rate=1 << 40))
    with guest.connect(WEB, ECHO) as s:
        s.sendall(bytes(1 << 20))
        left = 1 << 20
        while left:
            left -= len(s.recv(left))
    helper.control.set(config())


def test_end(helper: Callable[..., Helper]) -> None:
    h = helper()
    h.control.socket.send(b"end")
    assert h.await_end() == 0


def test_the_engine_ends(helper: Callable[..., Helper]) -> None:
    h = helper()
    assert h.end() == 0


def test_the_engine_is_killed(helper: Callable[..., Helper]) -> None:
    h = helper()
    h.engine.send_signal(signal.SIGKILL)
    assert h.await_end() == 0


def test_the_card_goes(helper: Callable[..., Helper], world: World) -> None:
    """Its other end is closed, and then there is something for it."""
    h = helper()
    wire = Wire(h)
    with world.internet.listen(WEB) as listener:
        handshake(wire, WEB, listener.getsockname()[1])
        far, _ = listener.accept()
        h.card.close()
        far.send(b"x")
        assert h.await_end() == 0
        far.close()


def test_a_first_policy_that_is_none(helper: Callable[..., Helper]) -> None:
    h = helper("config\ninternet perhaps\n", wait=False)
    assert json.loads(h.control.socket.recv(4096)) == {"error": '"internet perhaps" is nothing that can be set'}
    assert h.await_end() == 1


def test_a_daemon_that_goes_before_it_has_said_anything(helper: Callable[..., Helper]) -> None:
    h = helper("", wait=False)
    h.control.close()
    assert h.await_end() == 0


def test_it_is_not_for_people() -> None:
    for argv in ([], ["--help"]):
        done = subprocess.run([program(), *argv], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
        assert (done.returncode, done.stderr) == (2, f"{program()} is started by pandastack serve\n")
