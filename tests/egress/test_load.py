# SPDX-License-Identifier: Apache-2.0
"""A guest that does too much of something: the helper keeps to its memory, hears its daemon, and serves what comes after."""

from __future__ import annotations

import random
import select
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from egress.frames import ACK, PSH, SYN, TCP, Wire, arp, echo, ethernet, tcp, udp
from egress.helper import FRAME_MAX, GATEWAY, NAMESERVERS, Helper, config, is_sanitized
from egress.hosts import addresses, question
from egress.test_frames import handshake
from egress.test_reach import linger_reset
from egress.world import ECHO, OTHER, PRIVATE, WEB, World

MEMORY_MAX = 128 << 20
CONNECTION_MAX = 20 << 10  # of one that carried nothing yet


def flood(wire: Wire, frames: Iterable[bytes]) -> None:
    """Send them all, and throw away what comes back meanwhile and for it."""
    for n, frame in enumerate(frames):
        wire.send(frame)
        if n % 16 == 0:
            drain(wire)
    wire.helper.control.stats()
    drain(wire)


def drain(wire: Wire) -> None:
    """Take what is there now."""
    while select.select([wire.card], [], [], 0)[0]:
        wire.card.recv(FRAME_MAX)


def await_segment(wire: Wire, frame: bytes) -> int:
    """Send a frame of TCP; the flags of the next that comes back from there."""
    wire.send(frame)
    port = frame[34:36]
    while (answer := wire.receive()).protocol != TCP or answer.body[2:4] != port:
        pass
    return answer.flags


def works(wire: Wire, port: int = 60000) -> bool:
    """Whether a new connection is made, and a refused one refused."""
    made = await_segment(wire, tcp(OTHER, ECHO, source_port=port)) & (SYN | ACK) == SYN | ACK
    return made and bool(await_segment(wire, tcp(PRIVATE, ECHO, source_port=port)) & 4)


def memory(helper: Helper) -> int:
    """Return its resident bytes. A sanitizer's do not count."""
    return 0 if is_sanitized() else int(helper.status()["VmRSS"].split()[0]) << 10


def test_segments_that_begin_a_connection(helper: Callable[..., Helper], world: World) -> None:
    """More than there are descriptors, and none is gone on with. Connections that the guest gives up make room."""
    h = helper()
    wire = Wire(h)
    with world.internet.listen(WEB) as listener:
        port = listener.getsockname()[1]
        flood(wire, (tcp(WEB, port, source_port=1024 + n) for n in range(3000)))
        assert (n := h.control.stats()["connections"]) > 1000
        assert memory(h) < n * CONNECTION_MAX, "its buffers take what was written to them"
        other = h.connect()
        assert other.stats()["connections"] > 1000, "a daemon is heard all the same"
        h.control = other
        flood(wire, (tcp(WEB, port, 4, sequence=1001, source_port=1024 + n) for n in range(3000)))
    assert works(wire)


def test_segments_to_what_is_forbidden(helper: Callable[..., Helper]) -> None:
    h = helper()
    wire = Wire(h)
    flood(wire, (tcp(PRIVATE, ECHO, source_port=1024 + n % 60000) for n in range(20000)))
    # It may answer its daemon before it takes the last of them.
    while (denied := h.control.stats()["denied"]) < 20000:
        drain(wire)
    assert denied == 20000
    assert memory(h) < MEMORY_MAX
    assert works(wire)


@pytest.mark.parametrize("host", [WEB, PRIVATE])
def test_datagrams_from_many_ports(helper: Callable[..., Helper], host: str) -> None:
    """Each keeps a descriptor for minutes, and connections have theirs all the same."""
    h = helper()
    wire = Wire(h)
    flood(wire, (udp(host, 9, source_port=1024 + n) for n in range(5000)))
    assert memory(h) < MEMORY_MAX
    assert works(wire)
    assert h.connect().stats()["denied"] >= (0 if host == WEB else 1000)


def test_datagrams_from_one_port(helper: Callable[..., Helper]) -> None:
    h = helper()
    wire = Wire(h)
    flood(wire, (udp(WEB, 1 + n % 60000, bytes(1000)) for n in range(20000)))
    assert memory(h) < MEMORY_MAX
    assert works(wire)


def test_questions(helper: Callable[..., Helper]) -> None:
    """Answers that are remembered take the place of older ones."""
    h = helper(allow=["*.test"])
    wire = Wire(h)
    flood(wire, (udp(NAMESERVERS[0], 53, question(f"n{n}.test"), source_port=1024 + n % 500) for n in range(10000)))
    assert memory(h) < MEMORY_MAX
    # The resolver may be behind yet, and lose a question: a client asks again.
    again = udp(NAMESERVERS[0], 53, question("web.test"), source_port=50000)
    port = again[34:36]
    wire.send(again)
    while not select.select([wire.card], [], [], 1)[0] or (answer := wire.receive()).body[2:4] != port:
        wire.send(again)
    assert addresses(answer.data) == [WEB]


def test_garbage(helper: Callable[..., Helper]) -> None:
    """Bytes of nothing, and true frames with some of them changed."""
    h = helper()
    wire = Wire(h)
    rng = random.Random(1)
    models = [
        tcp(WEB, ECHO),
        udp(WEB, 9),
        echo(WEB),
        arp(),
        tcp("fd70:616e:6461::2", 9),
        udp("2606:2800:220:1::34", 9),
    ]

    def frames() -> Iterable[bytes]:
        for _ in range(10000):
            yield rng.randbytes(rng.randrange(200))
            yield ethernet(rng.choice([0x0800, 0x0806, 0x86DD]), rng.randbytes(rng.randrange(200)))
            changed = bytearray(rng.choice(models))
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(12, len(changed))] = rng.randrange(256)
            yield bytes(changed)

    flood(wire, frames())
    assert h.control.stats()["dropped"] > 20000
    assert memory(h) < MEMORY_MAX
    assert works(wire)


def test_a_stream_with_holes(helper: Callable[..., Helper]) -> None:
    """Each segment out of order is kept; as many as the window has room for. The helper gives up before the machine does."""
    h = helper()
    wire = Wire(h)
    ours, theirs = handshake(wire, WEB, ECHO)
    highest = 0
    try:
        for n in range(1, 32000):
            wire.send(tcp(WEB, ECHO, PSH | ACK, sequence=ours + 2 * n, ack=theirs, data=b"x"))
            if n % 64 == 0:
                drain(wire)
                highest = max(highest, memory(h))
    except (ConnectionError, FileNotFoundError):
        assert h.await_end() != 0
    else:
        assert works(wire)
    assert highest < MEMORY_MAX


@pytest.fixture
def small_buffers(world: World) -> Iterator[None]:
    """The machine's sockets send little and take much."""
    names = ("tcp_wmem", "tcp_rmem")
    saved = world.machine.call(lambda: {name: Path("/proc/sys/net/ipv4", name).read_text() for name in names})
    world.machine.write("ipv4/tcp_wmem", "4096 16384 65536")
    world.machine.write("ipv4/tcp_rmem", "4096 1048576 4194304")
    yield
    for name, value in saved.items():
        world.machine.write(f"ipv4/{name}", value)


def test_a_reset_into_full_buffers(helper: Callable[..., Helper], world: World, small_buffers: None) -> None:
    """Neither side takes anything more when the host ends it: libslirp, told to read what it has no room for, would abort."""
    h = helper(rate=1024)
    wire = Wire(h)
    with world.internet.listen(WEB) as listener:
        port = listener.getsockname()[1]
        ours, theirs = handshake(wire, WEB, port, window=0)
        far, _ = listener.accept()
        # This uses up the rate for a minute: nothing is read from the host, whose bytes then come all at once.
        wire.send(tcp(WEB, port, PSH | ACK, sequence=ours, ack=theirs, window=0, data=bytes(60000)))
        ours += 60000
        far.send(bytes(400000))
        h.control.set(config())
        while True:
            wire.send(tcp(WEB, port, PSH | ACK, sequence=ours, ack=theirs, window=0, data=bytes(20000)))
            ours += 20000
            answer = wire.receive()
            while answer.protocol != TCP or struct.unpack_from("!I", answer.body, 8)[0] != ours:
                answer = wire.receive()
            if struct.unpack_from("!H", answer.body, 14)[0] < 20000:
                break
        linger_reset(far)
    h.control.stats()
    drain(wire)
    assert works(wire)


def test_a_guest_that_does_not_listen(helper: Callable[..., Helper], world: World) -> None:
    """Frames for it wait, up to a bound, and then it goes on from where it was."""
    h = helper()
    wire = Wire(h)
    for n in range(20000):
        wire.send(echo(GATEWAY, n.to_bytes(4, "big") + bytes(1000)))
    assert memory(h) < MEMORY_MAX
    while wire.receive().body[8:12] != (0).to_bytes(4, "big"):
        pass
    drain(wire)
    h.control.stats()
    drain(wire)
    assert works(wire)


def test_the_end_in_the_middle_of_it(helper: Callable[..., Helper], world: World) -> None:
    """The engine ends while much is under way: so does the helper."""
    h = helper()
    wire = Wire(h)
    with world.internet.listen(WEB) as listener:
        flood(wire, (tcp(WEB, listener.getsockname()[1], source_port=1024 + n) for n in range(500)))
        assert h.end() == 0, h.said()
