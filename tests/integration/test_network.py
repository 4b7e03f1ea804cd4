# SPDX-License-Identifier: Apache-2.0
"""The network of a sandbox: what it reaches, what it does not, and what becomes of it.

The world outside is this machine: a server on its own address, which a daemon's --egress-allow opens. What needs
hosts of its own is in tests/egress.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness import Api, Daemon, Sandbox, Session
from harness.daemon import has_fault_points, wait_for_exit

BODY = os.urandom(8 << 20)

# What a try to connect came to, and within a second: a refusal that has to be waited for is none.
TRY = """
import socket, time
def reach(address, port, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    s.settimeout(20)
    start = time.monotonic()
    try:
        s.connect((address, port))
        if kind == socket.SOCK_DGRAM:
            s.send(b"?")
            s.recv(9)
        return "reached"
    except TimeoutError:
        return "no answer"
    except OSError as e:
        return "refused" if time.monotonic() - start < 1 else f"refused late: {e}"
    finally:
        s.close()
"""


class Server(ThreadingHTTPServer):
    """A web server on all addresses of this machine, as careless people have them."""

    daemon_threads = True

    def __init__(self) -> None:
        self.got: list[bytes] = []
        super().__init__(("0.0.0.0", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.got.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    s = Server()
    try:
        yield s
    finally:
        s.shutdown()
        s.server_close()


@pytest.fixture
def open_daemon(make_daemon: Callable[..., Daemon], server: Server, own_address: str) -> Daemon:
    """A daemon that lets its sandboxes reach the server."""
    return make_daemon(args=[f"--egress-allow={own_address}:{server.port}"]).wait_ready()


def events(sandbox: Sandbox, kind: str) -> list[Any]:
    return [e["payload"] for e in sandbox.events() if e["type"] == kind]


def said(session: Session, code: str) -> str:
    """What a cell printed."""
    return str(session.ok(code)["stdout"]).strip()


def set_network(sandbox: Sandbox, **change: Any) -> Any:
    return sandbox.api.call("PATCH", f"{sandbox.path}/network", json=change)


def tries(sandbox: Sandbox, *targets: tuple[str, int]) -> list[str]:
    """What comes of connecting to each, by a script in the guest."""
    calls = "".join(f"print(reach({address!r}, {port}))\n" for address, port in targets)
    return sandbox.output(f"python3 - <<'END'\n{TRY}{calls}END").split("\n")[: len(targets)]


def test_nothing_of_the_host_is_reached(sandbox: Callable[..., Sandbox], server: Server, own_address: str) -> None:
    """Neither gateway nor neighbours nor the host's own addresses: all are refused at once, and with a reason."""
    s = sandbox("base")
    targets = [
        ("10.0.2.2", server.port),
        ("10.0.2.3", server.port),
        ("10.0.2.77", server.port),
        (own_address, server.port),
        ("169.254.169.254", 80),
        ("192.168.0.1", 80),
        ("100.64.0.1", 80),
        ("fd70:616e:6461::2", server.port),
        ("fd00:ec2::254", 80),
        ("fe80::1", 80),
        (f"::ffff:{own_address}", server.port),
        (f"64:ff9b::{own_address}", server.port),
    ]
    assert tries(s, *targets) == ["refused"] * len(targets)
    why = {(d["address"], d["port"]): d["why"] for d in events(s, "egress.denied")}
    assert why[own_address, server.port] == "it is an address of this machine"
    assert why["10.0.2.2", server.port] == "it is in the sandbox's own network, which has no services"
    assert why["10.0.2.77", server.port] == "it is a private address"
    assert "metadata" in why["169.254.169.254", 80]
    assert server.got == []


def test_what_is_allowed_arrives(open_daemon: Daemon, server: Server, own_address: str) -> None:
    """Byte for byte, both ways, and it is counted."""
    s = open_daemon.api.create("base")
    url = f"http://{own_address}:{server.port}/"
    assert s.output(f"curl -sS {url} | sha256sum").split()[0] == hashlib.sha256(BODY).hexdigest()
    s.write("/tmp/body", BODY)
    s.output(f"curl -sS --data-binary @/tmp/body -H 'Expect:' {url}")
    assert server.got.pop() == BODY
    counters = open_daemon.api.call("GET", f"{s.path}/network")["counters"]
    assert counters["bytes_in"] > len(BODY)
    assert counters["bytes_out"] > len(BODY)
    assert counters["connections"] == 2
    assert tries(s, (own_address, server.port + 1 if server.port < 65535 else 1)) == ["refused"]


def test_none(sandbox: Callable[..., Sandbox]) -> None:
    """No helper, no route: who tries hears of it at once; what goes over the link works."""
    s = sandbox("base", network={"egress": "none"})
    assert s.created["network"] == {"egress": "none"}
    assert tries(s, ("203.0.113.1", 80), ("10.0.2.2", 80), ("2001:db8::1", 80)) == ["refused"] * 3
    assert s.output("getent hosts example.com || echo unknown").strip() == "unknown"
    assert s.output("cat /sys/class/net/eth0/operstate").strip() == "down"
    assert s.api.call("GET", f"{s.path}/network") == {"egress": "none", "bytes_per_second": 0, "counters": None}


def test_changed_while_it_runs(open_daemon: Daemon, server: Server, own_address: str) -> None:
    """To nothing, with what is connected cut; and back."""
    s = open_daemon.api.create("code-interpreter")
    k = s.session()
    k.ok(f"import socket, urllib.request\nurl = 'http://{own_address}:{server.port}/'")
    k.ok(f"c = socket.create_connection(({own_address!r}, {server.port}))\nc.settimeout(60)")
    assert set_network(s, egress={"deny": [own_address]})["egress"] == {"deny": [own_address]}
    assert (
        said(
            k,
            """
try: c.recv(1)
except ConnectionResetError: print("reset")
""",
        )
        == "reset"
    )
    assert (
        said(
            k,
            """
try: urllib.request.urlopen(url, timeout=60)
except OSError as e: print(e.reason.errno)
""",
        )
        == "111"
    )
    set_network(s, egress="none")
    assert tries(s, (own_address, server.port)) == ["refused"]
    set_network(s, egress="internet")
    assert said(k, "print(len(urllib.request.urlopen(url, timeout=60).read()))") == str(len(BODY))
    changed = [e["egress"] for e in events(s, "network.changed")]
    assert changed == [{"deny": [own_address]}, "none", "internet"]
    denied = events(s, "egress.denied")
    assert {"the policy has changed", f'the sandbox\'s policy denies "{own_address}"'} == {d["why"] for d in denied}


def connected(s: Sandbox, address: str, port: int) -> Session:
    """A kernel of which a thread waits for a peer that says nothing."""
    k = s.session()
    k.ok(f"""
import socket, threading, urllib.request
url = 'http://{address}:{port}/'
c = socket.create_connection(({address!r}, {port}))
ended = []
def wait():
    try: ended.append(c.recv(1))
    except OSError as e: ended.append(type(e).__name__)
t = threading.Thread(target=wait)
t.start()
""")
    return k


IS_CUT = "t.join(60); print(ended[0], len(urllib.request.urlopen(url, timeout=60).read()))"
CUT = f"ConnectionAbortedError {len(BODY)}"


def test_copies_have_no_connections(open_daemon: Daemon, server: Server, own_address: str) -> None:
    """In a fork, a restored and a woken machine a read that waits ends at once; the parent's goes on."""
    s = open_daemon.api.create("code-interpreter")
    k = connected(s, own_address, server.port)
    child = s.fork()
    assert said(child.same(k), IS_CUT) == CUT
    assert said(k, "print(t.is_alive())") == "True"
    snapshot = s.snapshot()["id"]
    assert said(open_daemon.api.restore(snapshot).same(k), IS_CUT) == CUT
    s.hibernate()
    assert said(k, IS_CUT) == CUT


def test_policies_are_inherited(sandbox: Callable[..., Sandbox]) -> None:
    """A copy can do no more than the original, unless somebody says so."""
    policy = {"egress": {"allow": ["example.com:443"], "deny": ["203.0.113.0/24"]}, "bytes_per_second": 100000}
    s = sandbox("base", network=policy)
    child = s.fork()
    snapshot = s.snapshot()["id"]
    restored = s.api.restore(snapshot)
    other = s.api.restore(snapshot, network={"egress": "none"})
    try:
        assert child.created["network"] == policy
        assert restored.created["network"] == policy
        assert other.created["network"] == {"egress": "none"}
        assert tries(restored, ("203.0.113.1", 443), ("93.184.216.34", 443)) == ["refused"] * 2
    finally:
        for c in (child, restored, other):
            c.discard()
        s.api.call("DELETE", f"/v1/snapshots/{snapshot}", want=204)


def test_another_daemon(make_daemon: Callable[..., Daemon], server: Server, own_address: str) -> None:
    """The helper goes on while no daemon runs, and learns the next one's rules."""
    first = make_daemon(args=[f"--egress-allow={own_address}:{server.port}"]).wait_ready()
    s = first.api.create("code-interpreter")
    k = connected(s, own_address, server.port)
    before = first.api.call("GET", f"{s.path}/network")["counters"]
    first.kill()
    second = make_daemon(first.data_dir).wait_ready()
    s = second.api.sandbox(s.id)
    k = s.same(k)
    after = second.api.call("GET", f"{s.path}/network")["counters"]
    assert after["bytes_out"] >= before["bytes_out"]
    assert after["connections"] == before["connections"]
    # This daemon allows nothing of its own: what was connected is cut.
    assert said(k, "t.join(60); print(ended[0])") == "ConnectionResetError"
    assert tries(s, (own_address, server.port)) == ["refused"]


def helpers_of(pid: int) -> list[int]:
    """The helpers of the machine with that process: they hold it open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if not (process / "comm").read_text().startswith("pandastack-egre"):
                continue
            if any(f"Pid:\t{pid}\n" in fd.read_text() for fd in (process / "fdinfo").iterdir()):
                found.append(int(process.name))
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: helpers hide their descriptors")
def test_a_helper_that_dies(open_daemon: Daemon, server: Server, own_address: str) -> None:
    """It begins with the first frame; it is replaced; it ends with its machine."""
    s = open_daemon.api.create("code-interpreter")
    k = s.session()
    url = f"http://{own_address}:{server.port}/"
    pid = s.metrics()["pid"]
    assert helpers_of(pid) == []
    assert tries(s, (own_address, server.port)) == ["reached"]
    (helper,) = helpers_of(pid)
    os.kill(helper, 9)
    fetch = f"""
import time, urllib.request
for _ in range(200):
    try:
        print(len(urllib.request.urlopen({url!r}, timeout=60).read()))
        break
    except OSError:
        time.sleep(0.05)
"""
    assert said(k, fetch) == str(len(BODY))
    (helper,) = helpers_of(pid)
    end = os.pidfd_open(helper)
    try:
        s.delete()
        assert select.select([end], [], [], 60)[0]
    finally:
        os.close(end)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: helpers hide their descriptors")
def test_a_helper_that_does_not_take_its_policy(open_daemon: Daemon, server: Server, own_address: str) -> None:
    """It is said, and another one has that policy."""
    s = open_daemon.api.create("code-interpreter")
    there = (own_address, server.port)
    assert tries(s, there) == ["reached"]
    (helper,) = helpers_of(s.metrics()["pid"])
    os.kill(helper, signal.SIGSTOP)
    s.api.refused("PATCH", f"{s.path}/network", 500, "engine.failed", json={"bytes_per_second": 1 << 30})
    assert s.api.call("GET", f"{s.path}/network")["bytes_per_second"] == 1 << 30
    os.kill(helper, signal.SIGCONT)
    assert wait_for_exit(helper, 30)
    until = (
        "import socket\nwhile True:\n  try:\n    socket.create_connection({!r}, 60); break\n  except OSError: pass"
    )
    s.session().ok(until.format(there))
    s.delete()


def test_of_one_that_is_being_created(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """Who changes it waits until it is there: the change lasts, and it has one helper."""
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    held = tmp_path / "held"
    os.mkfifo(held)
    first = make_daemon(env={"PANDASTACK_FAULT": f"boot.folder={held}"}).wait_ready()
    api = first.api
    with ThreadPoolExecutor(4) as pool:
        made = pool.submit(api.create)
        with held.open("wb"):
            held.unlink()
            (path,) = (f"/v1/sandboxes/{one}" for one in api.ids())
            changes = [
                pool.submit(api.call, "PATCH", f"{path}/network", json={"bytes_per_second": 4096}),
                pool.submit(api.call, "PATCH", f"{path}/lifecycle", json={"ttl_seconds": 777}),
                pool.submit(api.request, "POST", f"{path}/ports", json={"port": 8000, "label": "v"}),
            ]
        s = made.result()
        for change in changes:
            change.result()
    first.kill()
    second = make_daemon(first.data_dir).wait_ready()
    again = second.api.sandbox(s.id)
    assert second.api.call("GET", f"{s.path}/network")["bytes_per_second"] == 4096
    assert again.lifecycle()["ttl_seconds"] == 777
    assert again.info()["metadata"] == {"port.8000": "v"}
    again.delete()
    second.stop()
    second.check_clean()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("none", "`network` must be an object"),
        ({"egres": "none"}, "`network` has `egress` and `bytes_per_second`, and no `egres`"),
        ({"egress": "all"}, '`network.egress` must be "internet", "none" or an object'),
        ({"egress": None}, '`network.egress` must be "internet", "none" or an object'),
        ({"egress": {"alow": []}}, "and no `alow`"),
        ({"egress": {"allow": "example.com"}}, "`network.egress.allow` must be a list"),
        ({"egress": {"deny": [7]}}, "`network.egress.deny` must hold texts"),
        ({"egress": {"allow": ["x"] * 129}}, "at most 128 rules"),
        ({"egress": {"allow": [""]}}, "a rule has 1 to"),
        ({"egress": {"allow": ["10.0.0.0/8"]}}, "only the daemon's --egress-allow can open it"),
        ({"egress": {"allow": ["127.0.0.1"]}}, "sandboxes can never reach it"),
        ({"egress": {"allow": ["10.1.2.3/8"]}}, "write the network's first address"),
        ({"egress": {"allow": ["example.com:0"]}}, "ports are written as"),
        ({"egress": {"allow": ["2130706433"]}}, "is no address, network or host name"),
        ({"egress": {"allow": ["a b.example\nhost-allow *"]}}, "is no address, network or host name"),
        ({"bytes_per_second": 12}, "`network.bytes_per_second` must be a number from 1024 to"),
        ({"bytes_per_second": "1M"}, "`network.bytes_per_second` must be a number"),
    ],
)
def test_bad_policies(api: Api, box: Sandbox, network: Any, message: str) -> None:
    """Refused with what is wrong, at create and in a change; nothing is made or changed."""
    before = api.ids()
    body = {"template": "base", "network": network}
    assert message in api.refused("POST", "/v1/sandboxes", 400, "request.invalid", json=body)["error"]
    assert api.ids() == before
    if isinstance(network, dict):
        assert message in api.refused("PATCH", f"{box.path}/network", 400, "request.invalid", json=network)["error"]
        assert box.info()["network"] == {}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--egress-allow=127.0.0.0/8", "sandboxes can never reach it"),
        ("--egress-allow=10.0.0.1:99999", "ports are written as"),
        ("--egress-deny=*.*", "is no address, network or host name"),
    ],
)
def test_bad_rules_of_the_daemon(make_daemon: Callable[..., Daemon], option: str, message: str) -> None:
    """It does not start, and says why in one line."""
    d = make_daemon(args=[option])
    assert d.wait() == 2
    assert any(message in line for line in d.lines)
    d.strays.clear()


def test_install_a_package(sandbox: Callable[..., Sandbox]) -> None:
    """Where this machine reaches a package index, so do sandboxes."""
    s = sandbox()
    probe = s.exec("pip download --no-deps -q -d /tmp/probe six", timeout_seconds=300)
    if probe["exit_code"] and "No matching distribution" in probe["stderr"] + probe["stdout"]:
        pytest.skip("no package index is reached from here")
    assert probe["exit_code"] == 0, probe
    k = s.session()
    k.ok("!pip install -q --no-index --find-links /tmp/probe six")
    assert said(k, "import six; print(six.moves.range(1))") == "range(0, 1)"
