# SPDX-License-Identifier: Apache-2.0
"""`pandastack ports` and `pandastack port-forward`."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from harness import Api, Daemon, Sandbox
from harness.cli import Cli
from harness.guest import GuestServer, TcpServer, read_all

MIB = 1 << 20
SECONDS = 60


@pytest.fixture
def cli(daemon: Daemon, tmp_path: Path) -> Cli:
    return Cli(daemon, tmp_path)


@pytest.fixture(scope="module")
def server(box: Sandbox) -> Iterator[TcpServer]:
    """The server in the module's sandbox."""
    with TcpServer(box) as s:
        yield s


@contextlib.contextmanager
def forwarding(cli: Cli, sandbox: Sandbox, *ports: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The program, and its ports, while the block lasts."""
    p = cli.popen("port-forward", sandbox.id[:8], *ports)
    assert p.stdout
    try:
        found = []
        for port in ports:
            line = p.stdout.readline()
            remote = port.rpartition(":")[2]
            assert line.startswith("Forwarding 127.0.0.1:"), (line, p.stderr and p.stderr.read())
            local, _, target = line.removeprefix("Forwarding 127.0.0.1:").strip().partition(" -> ")
            assert target == f"{sandbox.id[:8]}:{remote}"
            found.append(int(local))
        yield p, found
    finally:
        p.send_signal(signal.SIGINT)
        p.wait(SECONDS)
        p.stdout.close()


def connect(port: int, line: str) -> socket.socket:
    """To the server, through the forwarder."""
    s = socket.create_connection(("127.0.0.1", port), SECONDS)
    s.sendall(f"{line}\n".encode())
    return s


def read(sock: socket.socket, size: int) -> bytes:
    """So many bytes."""
    with sock.makefile("rb") as f:
        return f.read(size)


def test_ports(cli: Cli, api: Api, box: Sandbox, server: TcpServer) -> None:
    api.call("POST", f"{box.path}/ports", want=201, json={"port": 5432, "label": "db"})
    rows = [line.split("\t") for line in cli.ok("ports", box.id[:8]).splitlines()]
    assert [str(server.port), "-", "yes", f"{box.path}/proxy/{server.port}/"] in rows
    assert ["5432", "db", "no", f"{box.path}/proxy/5432/"] in rows
    assert {p["port"] for p in cli.json("ports", box.id)} >= {server.port, 5432}
    api.call("DELETE", f"{box.path}/ports/5432", want=204)


def test_http(cli: Cli, box: Sandbox) -> None:
    with GuestServer(box) as s, forwarding(cli, box, f"0:{s.port}") as (_, [port]):
        response = requests.post(f"http://127.0.0.1:{port}/echo", data=b"x" * MIB, timeout=SECONDS)
        assert response.status_code == 200
        for _ in range(5):  # of this server's connections each is for one request
            assert len(requests.get(f"http://127.0.0.1:{port}/big?100000", timeout=SECONDS).content) == 100_000


def test_bytes_and_their_ends(cli: Cli, box: Sandbox, server: TcpServer) -> None:
    data = bytes(range(256)) * (4 * MIB // 256)
    with forwarding(cli, box, f"0:{server.port}") as (_, [port]):
        with connect(port, f"talk {len(data)}") as s:
            assert len(read_all(s)) == len(data)
            s.sendall(b"x" * 1000)
            s.shutdown(socket.SHUT_WR)
            server.wait_for("talk: 1000 and the end")
        with connect(port, "count") as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == f"{len(data)} and the end".encode()
        with connect(port, "echo") as s:
            s.sendall(data[:100_000])
            s.shutdown(socket.SHUT_WR)
            assert read_all(s) == data[:100_000] + b"bye"


def test_ends_that_are_none(cli: Cli, box: Sandbox, server: TcpServer) -> None:
    """A reset is one at the other end, either way."""
    with forwarding(cli, box, f"0:{server.port}") as (_, [port]):
        with connect(port, "reset") as s, pytest.raises(ConnectionResetError):
            assert s.recv(1)
        with connect(port, "talk 0") as s:
            assert s.recv(1) == b""
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        server.wait_for("and a reset")


def test_many_at_once(cli: Cli, box: Sandbox, server: TcpServer) -> None:
    with forwarding(cli, box, f"0:{server.port}", f"0:{server.port}") as (_, ports):
        assert len(set(ports)) == 2
        sockets = [connect(ports[i % 2], "echo") for i in range(40)]
        for i, s in enumerate(sockets):
            s.sendall(b"%2d" % i)
        for i, s in enumerate(sockets):
            assert read(s, 2) == b"%2d" % i
            s.close()


def test_a_slow_reader_stops_nobody(cli: Cli, box: Sandbox, server: TcpServer) -> None:
    with forwarding(cli, box, f"0:{server.port}") as (_, [port]), connect(port, f"talk {64 * MIB}") as slow:
        assert slow.recv(1)
        with connect(port, "echo") as s:
            s.sendall(b"x" * MIB)
            assert len(read(s, MIB)) == MIB


def test_the_same_number(cli: Cli, box: Sandbox, server: TcpServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        done = cli.run("port-forward", box.id, str(number))
        assert done.returncode == 5
        assert f"port {number} of this machine is in use; choose another one, as in" in done.stderr
        done = cli.run("port-forward", box.id, "0:1", f"{number}:80")
        assert done.returncode == 5
        assert done.stdout == "", "nothing is said before all is well"
    with forwarding(cli, box, f"{number}:{server.port}") as (_, [port]):
        assert port == number
    with forwarding(cli, box, str(number)) as (_, [port]):
        assert port == number


def test_nothing_listens(cli: Cli, box: Sandbox) -> None:
    """The connection is reset, with a word; a server that comes later is reached."""
    with forwarding(cli, box, "0:4999") as (p, [port]):
        with connect(port, "x") as s:
            assert read_all(s) == b""
        assert p.stderr
        assert p.stderr.readline() == f"pandastack: {box.id[:8]}:4999: upstream: port 4999: nothing listens there\n"
        http = box.start("python3 -m http.server 4999")
        box.output("until python3 -c 'import socket; socket.create_connection((\"localhost\", 4999))'; do :; done")
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=SECONDS).status_code == 200
        http.signal("SIGKILL")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_end(cli: Cli, box: Sandbox, server: TcpServer, how: signal.Signals) -> None:
    with forwarding(cli, box, f"0:{server.port}") as (p, [port]), connect(port, "echo") as s:
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        p.send_signal(how)
        assert p.wait(SECONDS) == 130
        assert read_all(s) == b""
        assert p.stderr
        assert p.stderr.read() == ""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), SECONDS)


def test_the_daemon_stops(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    with TcpServer(s) as own, forwarding(Cli(d, tmp_path), s, f"0:{own.port}") as (p, [port]):
        with connect(port, "echo") as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
            assert d.stop() == 0
            assert read_all(sock) == b""
        assert p.stderr
        assert p.stderr.readline() == f"pandastack: {s.id[:8]}:{own.port}: the daemon stops\n"
        with connect(port, "x") as sock:
            assert read_all(sock) == b""
        assert "is it running? Start it with: pandastack serve" in p.stderr.readline()


@pytest.mark.parametrize("port", ["x", "0", "65536", "1:65536", "1:0", ":1", "1:", "1:2:3", "-1", "1 "])
def test_what_is_no_port(cli: Cli, box: Sandbox, port: str) -> None:
    done = cli.run("port-forward", "--", box.id, port)
    assert done.returncode == 2
    assert "give REMOTE or LOCAL:REMOTE, numbers up to 65535" in done.stderr


def test_wrong_usage(cli: Cli, box: Sandbox) -> None:
    assert cli.run("port-forward", box.id).returncode == 2
    assert cli.run("port-forward", "ffff", "80").returncode == 3
    assert cli.run("ports", "ffff").returncode == 3
    assert cli.run("port-forward", box.id, "0:80", PANDASTACK_API_KEY="pds_x").returncode == 4
