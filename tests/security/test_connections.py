# SPDX-License-Identifier: Apache-2.0
"""Connections of strangers: however many, and whatever they say or don't, they keep nobody else away."""

from __future__ import annotations

import contextlib
import resource
import socket
from urllib.parse import urlsplit

import pytest

from harness import Api, Daemon, Sandbox

CONNECTIONS_MAX = 512  # LIMIT_CONNECTIONS
STRANGERS = {
    "silent": b"",
    "in the middle of a head": b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX: ",
    "without a key": b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\n\r\n",
    "in the middle of a body": b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    "where all may ask": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "with a link that is none": b"GET /v1/p/a.b/ HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("what", STRANGERS)
def test_strangers_keep_nobody_away(daemon: Daemon, box: Sandbox, what: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    at = urlsplit(daemon.url)
    box.exec("rm -f /tmp/end && mkfifo /tmp/end")
    with contextlib.ExitStack() as stack, box.stream("echo begun; read x </tmp/end; echo ended") as events:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
        assert any(e.data.get("chunk") == "begun\n" for e in events)
        for _ in range(CONNECTIONS_MAX + 100):
            s = stack.enter_context(socket.create_connection((at.hostname, at.port), 10))
            with contextlib.suppress(OSError):
                s.sendall(STRANGERS[what])
        assert Api(daemon.url, daemon.key).request("GET", "/v1/sandboxes", timeout=10).status_code == 200
        box.exec("echo >/tmp/end")
        assert any(e.data.get("chunk") == "ended\n" for e in events), "who has a key is not cut off"
