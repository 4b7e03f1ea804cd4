# SPDX-License-Identifier: Apache-2.0
"""The WebSockets of a sandbox with the PyPI package `websockets`, unmodified."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedOK, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from harness import Sandbox
from harness.guest import TcpServer


def open_socket(box: Sandbox, what: str, **more: Any) -> ClientConnection:
    """With the key."""
    url = box.api.url.replace("http:", "ws:") + f"{box.path}/{what}"
    more.setdefault("additional_headers", {"Authorization": f"Bearer {box.api.key}"})
    ws: ClientConnection = connect(url, proxy=None, **more)
    return ws


def test_commands(box: Sandbox) -> None:
    with open_socket(box, "exec/ws") as ws:
        assert ws.ping().wait(60)
        ws.send(json.dumps({"id": 1, "cmd": "echo on"}))
        assert json.loads(ws.recv()) == {"id": 1, "stream": "stdout", "data": "on\n"}
        assert json.loads(ws.recv())["exit"] == 0
        ws.send(['{"id":2,', '"cmd":', '"exit 3"}'])
        assert json.loads(ws.recv())["exit"] == 3
        assert not ws.protocol.extensions
    assert ws.close_code == 1000


def test_a_terminal(box: Sandbox) -> None:
    protocols = ["pds-pty", f"bearer.{box.api.key}"]
    with open_socket(box, "exec/pty?cmd=cat+-u", subprotocols=protocols, additional_headers={}) as ws:
        assert ws.subprotocol == "pds-pty"
        ws.send(b"typed\n")
        shown = b""
        while b"typed\r\ntyped\r\n" not in shown:
            message = ws.recv()
            assert isinstance(message, bytes)
            shown += message
        ws.send(b"\x04")
        assert json.loads(ws.recv())["exit"] == 0
        with pytest.raises(ConnectionClosedOK):
            ws.recv()


def test_a_tunnel(box: Sandbox) -> None:
    data = bytes(range(256)) * 4096
    with TcpServer(box) as server, open_socket(box, f"ports/{server.port}/tunnel", max_size=None) as ws:
        ws.send([b"echo\n", data[:1000], data[1000:]])
        got = b""
        while len(got) < len(data):
            message = ws.recv()
            assert isinstance(message, bytes)
            got += message
        assert got == data
    with pytest.raises(InvalidStatus) as e:
        open_socket(box, "ports/1/tunnel")
    assert e.value.response.status_code == 502
