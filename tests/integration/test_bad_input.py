# SPDX-License-Identifier: Apache-2.0
"""Requests that make no sense: each gets its status and a message that says what to do, and costs nothing else."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from harness import Api, Daemon, Sandbox
from harness.daemon import sanitizers

MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_else(api: Api, box: Sandbox) -> Iterator[None]:
    """The sandboxes are the same afterwards, and answer."""
    before = api.ids()
    yield
    assert api.ids() == before
    assert box.output("echo fine") == "fine\n"


def test_unknown_template_names_those_that_exist(api: Api) -> None:
    answer = api.refused("POST", "/v1/sandboxes", 400, "template.unknown", json={"template": "no-such"})
    assert "no-such" in answer["error"]
    assert "code-interpreter" in answer["error"]


@pytest.mark.parametrize("name", ["../../etc", "/etc", "A B", "x" * 200, ".", "..", "a/b", "\x00", "é"])
def test_a_template_that_is_no_name(api: Api, name: str) -> None:
    response = api.request("POST", "/v1/sandboxes", json={"template": name})
    assert response.status_code == 400
    assert response.json()["code"] in ("template.unknown", "request.invalid")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"not json",
        b'{"template": "code-interpreter",}',
        b'{"template": "code-interpreter"} x',
        b'{"template": "a", "template": "b"}',
        b'{"template": "\xff\xfe"}',
        b'["template"]',
        b'"text"',
        b"null",
        b"\x00",
        b'{"a":' * 5000,
    ],
)
def test_malformed_json(api: Api, body: bytes) -> None:
    answer = api.refused("POST", "/v1/sandboxes", 400, "request.invalid", data=body)
    assert "JSON" in answer["error"]


def test_a_body_of_too_many_values(make_daemon: Callable[..., Daemon]) -> None:
    """Refused before they are many times the text."""
    d = make_daemon().wait_ready()
    for value in (b"{}", b"[]", b"0", b'""', b'{"a":0}'):
        body = b'{"a":[' + b",".join([value] * (16 * MIB // (len(value) + 1))) + b"]}"
        d.api.refused("POST", "/v1/sandboxes", 413, "request.too_large", data=body)
        error = d.api.request("POST", "/mcp", data=body).json()["error"]
        assert "too many values: at most 131072" in error["message"]
    assert sanitizers() or d.status_kib("VmHWM") < 128 << 10


CREATES: list[tuple[dict[str, Any], str]] = [
    ({}, "template"),
    ({"template": None}, "template"),
    ({"template": ""}, "template"),
    ({"template": 7}, "template"),
    ({"template": "code-interpreter", "ttl_seconds": "60"}, "ttl_seconds"),
    ({"template": "code-interpreter", "ttl_seconds": -1}, "ttl_seconds"),
    ({"template": "code-interpreter", "ttl_seconds": 1.5}, "ttl_seconds"),
    ({"template": "code-interpreter", "ttl_seconds": 1e300}, "ttl_seconds"),
    ({"template": "code-interpreter", "ttl_seconds": 10**12}, "ttl_seconds"),
    ({"template": "code-interpreter", "metadata": []}, "metadata"),
    ({"template": "code-interpreter", "metadata": {"a": 1}}, "metadata"),
    ({"template": "code-interpreter", "metadata": {"a": None}}, "metadata"),
    ({"template": "code-interpreter", "metadata": {str(i): "x" for i in range(65)}}, "metadata"),
    ({"template": "code-interpreter", "env": {"A=B": "x"}}, "env"),
    ({"template": "code-interpreter", "env": {"": "x"}}, "env"),
    ({"template": "code-interpreter", "env": {"A": "x\x00y"}}, "env"),
]


@pytest.mark.parametrize(("body", "word"), CREATES)
def test_wrong_types_in_create(api: Api, body: dict[str, Any], word: str) -> None:
    assert word in api.refused("POST", "/v1/sandboxes", 400, "request.invalid", json=body)["error"]


def test_what_create_can_not_do_yet(api: Api) -> None:
    body = {"template": "code-interpreter", "volumes": [{"name": "v"}]}
    api.refused("POST", "/v1/sandboxes", 501, "not_supported", json=body)


def test_what_clients_send_without_meaning_it(api: Api) -> None:
    """The published clients send some of these with every create; keys that nobody knows are ignored."""
    s = api.create(persistent=False, metadata={}, volumes=[], cpu=2, memory_mb=512, disk_gb=4, nobody_knows=1)
    assert s.output("echo ok") == "ok\n"
    s.delete()


def test_metadata_over_its_size(api: Api) -> None:
    body = {"template": "code-interpreter", "metadata": {"a": "x" * 5000}}
    assert "metadata" in api.refused("POST", "/v1/sandboxes", 413, "request.too_large", json=body)["error"]


EXECS: list[tuple[dict[str, Any], str]] = [
    ({}, "cmd"),
    ({"cmd": ""}, "cmd"),
    ({"cmd": 1}, "cmd"),
    ({"cmd": ["true"]}, "cmd"),
    ({"cmd": "a\x00b"}, "cmd"),
    ({"cmd": "true", "timeout_seconds": 0}, "timeout_seconds"),
    ({"cmd": "true", "timeout_seconds": -1}, "timeout_seconds"),
    ({"cmd": "true", "timeout_seconds": "1"}, "timeout_seconds"),
    ({"cmd": "true", "timeout_seconds": 1e18}, "timeout_seconds"),
    ({"cmd": "true", "cwd": 1}, "cwd"),
    ({"cmd": "true", "env": ["A=b"]}, "env"),
    ({"cmd": "true", "stdin": {}}, "stdin"),
]


@pytest.mark.parametrize("route", ["exec", "exec/stream"])
@pytest.mark.parametrize(("body", "word"), EXECS)
def test_wrong_types_in_exec(box: Sandbox, route: str, body: dict[str, Any], word: str) -> None:
    assert word in box.api.refused("POST", f"{box.path}/{route}", 400, "request.invalid", json=body)["error"]


def test_a_command_over_its_size(box: Sandbox) -> None:
    answer = box.api.refused("POST", f"{box.path}/exec", 413, "request.too_large", json={"cmd": "#" * 130_000})
    assert "cmd" in answer["error"]


RUNS: list[dict[str, Any]] = [{}, {"code": 1}, {"code": "1", "timeout_ms": 0}, {"code": "1", "timeout_ms": "x"}]


@pytest.mark.parametrize("body", RUNS)
def test_wrong_types_in_run(box: Sandbox, body: dict[str, Any]) -> None:
    session = box.session()
    box.api.refused("POST", f"{session.path}/run", 400, "request.invalid", json=body)
    box.api.refused("POST", f"{box.path}/repl", 400, "request.invalid", json=body)
    session.delete()


def test_a_body_over_the_limit(api: Api, box: Sandbox) -> None:
    body = json.dumps({"cmd": "true", "x": "y" * (18 * MIB)}).encode()
    answer = api.refused("POST", f"{box.path}/exec", 413, "request.too_large", data=body)
    assert "bytes" in answer["error"]


def test_a_chunked_body_over_the_limit(api: Api, box: Sandbox) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * MIB

    api.refused("POST", f"{box.path}/exec", 413, "request.too_large", data=body())


def test_unknown_ids(api: Api) -> None:
    for bad in ("nothing", "%2e%2e", "a%2fb", "00000000-0000-0000-0000-000000000000", "%00", "%ff"):
        response = api.request("GET", f"/v1/sandboxes/{bad}")
        assert response.status_code in (400, 404)
        assert response.json()["error"]


def test_a_sandbox_that_is_gone(api: Api) -> None:
    s = api.create()
    s.delete()
    for method, path, kwargs in (
        ("GET", "", {}),
        ("POST", "/exec", {"json": {"cmd": "true"}}),
        ("POST", "/exec/stream", {"json": {"cmd": "true"}}),
        ("POST", "/repl", {"json": {"code": "1"}}),
        ("POST", "/repl/sessions", {}),
        ("GET", "/repl/sessions", {}),
        ("GET", "/fs", {"params": {"path": "/etc/passwd"}}),
        ("PUT", "/fs", {"params": {"path": "/x"}, "data": b"x" * 200_000}),
        ("GET", "/fs/dir", {"params": {"path": "/"}}),
        ("GET", "/fs/stat", {"params": {"path": "/"}}),
    ):
        answer = api.refused(method, s.path + path, 404, "sandbox.not_found", **kwargs)
        assert "not found" in answer["error"]


def raw(api: Api, data: bytes) -> bytes:
    """The first bytes of the answer to bytes that need be no HTTP."""
    parts = urlsplit(api.url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=30) as conn:
        conn.sendall(data)
        return conn.recv(4096)


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    ],
)
def test_bytes_that_are_no_request(api: Api, daemon: Daemon, data: bytes) -> None:
    parts = urlsplit(api.url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=30) as conn:
        try:
            conn.sendall(data)
            conn.shutdown(socket.SHUT_WR)
            answer = conn.recv(4096)
        except OSError:
            answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 5")), answer
    assert api.call("GET", "/healthz")["status"] == "ok"


def test_idempotency_key_over_its_size(api: Api) -> None:
    api.refused(
        "POST",
        "/v1/sandboxes",
        400,
        "request.invalid",
        json={"template": "code-interpreter"},
        headers={"Idempotency-Key": "x" * 300},
    )


def test_many_connections_that_say_nothing(api: Api, box: Sandbox, sandbox: Callable[..., Sandbox]) -> None:
    parts = urlsplit(api.url)
    idle = [socket.create_connection((parts.hostname or "", parts.port or 80)) for _ in range(100)]
    try:
        assert box.output("echo served") == "served\n"
    finally:
        for conn in idle:
            conn.close()
