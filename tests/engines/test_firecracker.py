# SPDX-License-Identifier: Apache-2.0
"""Firecracker missing, of another version, and one that is not well. What it does well is in test_contract.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Daemon

MakeDaemon = Callable[..., Daemon]

# Says that it is the real one and listens; then does to the first request what it is told.
STUB = """#!/usr/bin/python3
import os, socket, sys
if "--version" in sys.argv:
    os.execv("{real}", ["firecracker", "--version"])
server = socket.socket(socket.AF_UNIX)
server.bind("run/api.sock")
server.listen()
print("Listening on API socket", file=sys.stderr, flush=True)
connection, _ = server.accept()
connection.recv(65536)
connection.sendall({answer!r})
sys.exit("no luck today")
"""
REFUSAL = b'HTTP/1.1 400 \r\nContent-Length: 40\r\n\r\n{"fault_message": "no luck\\u0007 today"}'


# Does all that it is asked for; its guest answers the second of three connections, and the third.
DEAF = """#!/usr/bin/python3
import os, select, socket, sys
if "--version" in sys.argv:
    os.execv("{real}", ["firecracker", "--version"])
servers = [socket.socket(socket.AF_UNIX) for _ in range(2)]
for server, path in zip(servers, ("run/api.sock", "run/link.sock")):
    server.bind(path)
    server.listen()
print("Listening on API socket", file=sys.stderr, flush=True)
links = []
while len(links) < 3:
    server = select.select(servers, [], [])[0][0]
    connection, _ = server.accept()
    connection.recv(65536)
    if server is servers[0]:
        connection.sendall(b"HTTP/1.1 204 \\r\\n\\r\\n")
    else:
        links.append(connection)
        if len(links) > 1:
            connection.sendall(b"OK 1\\n")
sys.exit("no luck today")
"""


def stub(tmp_path: Path, text: str) -> dict[str, str]:
    program = tmp_path / "bin" / "firecracker"
    program.parent.mkdir()
    program.write_text(text)
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def start_failure(make_daemon: MakeDaemon, env: dict[str, str], *args: str) -> str:
    d = make_daemon(args=["--engine=firecracker", *args], env=env)
    with d.expect_error("can't start"):
        assert d.wait() not in (0, -6, -11)
    return str(next(r["error"] for r in d.records if r["level"] == "error"))


def test_missing(tmp_path: Path, make_daemon: MakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PANDASTACK_TEST_ENGINE", raising=False)
    why = start_failure(make_daemon, {"PATH": str(tmp_path)})
    assert "Firecracker is missing" in why
    assert "docs/engines.md" in why


def test_by_its_file(tmp_path: Path, make_daemon: MakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not be on the PATH, and its name may be one of this folder."""
    monkeypatch.delenv("PANDASTACK_TEST_ENGINE", raising=False)
    stub(tmp_path, "#!/bin/sh\necho 'Firecracker v1.14.4'\n")
    monkeypatch.chdir(tmp_path)
    assert "Firecracker 1.14.4 is not supported" in start_failure(make_daemon, {}, "--firecracker=bin/firecracker")
    why = start_failure(make_daemon, {}, "--firecracker=bin/nothing")
    assert why == "can't find Firecracker at bin/nothing: No such file or directory"


@pytest.mark.parametrize("version", ["1.9.0", "1.14.4", "2.0.0", "x"])
def test_of_another_version(
    tmp_path: Path, make_daemon: MakeDaemon, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.delenv("PANDASTACK_TEST_ENGINE", raising=False)
    why = start_failure(make_daemon, stub(tmp_path, f"#!/bin/sh\necho 'Firecracker v{version}'\n"))
    assert "1.15 and 1.16" in why
    assert version in why or version == "x"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "Firecracker ended: no luck today"),
        (b"HTTP/1.1 204 \r\nContent-Le", "Firecracker ended: no luck today"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "did not answer PUT /snapshot/load"),
        (REFUSAL, "refused PUT /snapshot/load: no luck"),
    ],
    ids=["dies", "dies-in-mid-answer", "is-another", "refuses"],
)
def test_not_well(tmp_path: Path, make_daemon: MakeDaemon, answer: bytes, says: str) -> None:
    """The create says what went wrong, and nothing is left of it."""
    real = shutil.which("firecracker")
    if not real or os.environ.get("PANDASTACK_TEST_ENGINE") != "firecracker":
        pytest.skip("needs Firecracker, and KVM")
    d = make_daemon(env=stub(tmp_path, STUB.format(real=real, answer=answer))).wait_ready()
    got = d.api.refused("POST", "/v1/sandboxes", 500, "engine.failed", json={"template": "platform"})
    assert says in got["error"]
    assert "\a" not in got["error"]
    assert d.api.list() == []
    assert d.folders() == []
    d.stop()
    d.check_clean()


def test_a_connection_that_is_lost(tmp_path: Path, make_daemon: MakeDaemon) -> None:
    """It is made once more."""
    real = shutil.which("firecracker")
    if not real or os.environ.get("PANDASTACK_TEST_ENGINE") != "firecracker":
        pytest.skip("needs Firecracker, and KVM")
    d = make_daemon(env=stub(tmp_path, DEAF.format(real=real))).wait_ready()
    got = d.api.refused("POST", "/v1/sandboxes", 500, "engine.failed", json={"template": "platform"})
    assert "Firecracker ended: no luck today" in got["error"]
    d.stop()
    d.check_clean()


def test_no_tap(make_daemon: MakeDaemon) -> None:
    """Machines have no network, the daemon says why, and a template with a card is not for this host."""
    if os.environ.get("PANDASTACK_TEST_ENGINE") != "firecracker" or os.geteuid() != 0:
        pytest.skip("needs Firecracker, KVM, and root, who can hide a device")
    d = make_daemon(wrapper=["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/net && exec "$@"', "sh"])
    engine = d.wait_ready().api.call("GET", "/healthz")["engine"]
    assert engine["lacks"] == ["streams", "network"]
    assert "no network for its machines: can't open /dev/net/tun" in d.wait_log("engine chosen")["why"]
    got = d.api.refused("POST", "/v1/sandboxes", 503, "template.stale", json={"template": "platform"})
    assert "baked with a network card, and this host permits machines none: run `pandastack" in got["error"]
    assert d.api.list() == []
    d.stop()
    d.check_clean()
