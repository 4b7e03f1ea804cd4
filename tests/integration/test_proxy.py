# SPDX-License-Identifier: Apache-2.0
"""Servers in a sandbox, reached through the API: what arrives, what comes back, servers that do as they please."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from harness import Daemon, Sandbox
from harness.guest import GuestServer, read_all

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(box: Sandbox) -> Iterator[GuestServer]:
    """The server in the module's sandbox."""
    with GuestServer(box) as s:
        yield s


def content(size: int) -> bytes:
    """What /big sends."""
    block = bytes(range(256)) * 256
    return block * (size // len(block)) + block[: size % len(block)]


def refusal(response: requests.Response) -> str:
    """The words of a 502."""
    assert response.status_code == 502, (response.status_code, response.text)
    answer = response.json()
    assert answer["code"] == "upstream.failed"
    assert answer["error"].startswith("upstream: ")
    return str(answer["error"])


# ---- requests ----


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_methods(server: GuestServer, method: str) -> None:
    body = b"" if method in ("GET", "OPTIONS") else b"body of " + method.encode()
    seen = server.request(method, "/echo?a=%2F&b", data=body).json()
    assert seen["method"] == method
    assert seen["target"] == "/echo?a=%2F&b"
    assert seen["sha256"] == hashlib.sha256(body).hexdigest()


def test_head(server: GuestServer) -> None:
    response = server.request("HEAD", "/big?1000000")
    assert response.status_code == 200
    assert response.headers["Content-Length"] == "1000000"
    assert response.content == b""


def test_headers_of_a_request(server: GuestServer) -> None:
    sent = {
        "X-Own": "kept",
        "Cookie": "a=1",
        "Referer": "http://x/?access_token=secret",
        "Connection": "close, X-Hop",
        "X-Hop": "1",
        "TE": "trailers",
        "Proxy-Authorization": "Basic x",
        "X-Forwarded-Host": "forged",
        "Origin": server.api.url,
    }
    answer = server.request("POST", "/echo", data=b"x" * 10, headers=sent).json()
    values = {k.lower(): v for k, v in answer["headers"]}
    assert len(values) == len(answer["headers"])
    assert values["host"] == f"localhost:{server.port}"
    assert values["origin"] == f"http://localhost:{server.port}"
    assert values["x-own"] == "kept"
    assert values["cookie"] == "a=1"
    assert values["x-forwarded-host"] == server.api.url.removeprefix("http://")
    assert values["x-forwarded-proto"] == "http"
    assert values["x-forwarded-for"] == "127.0.0.1"
    assert values["x-forwarded-prefix"] == server.prefix
    assert values["content-length"] == "10"
    assert values["connection"] == "close"
    dropped = {"authorization", "referer", "x-hop", "te", "proxy-authorization", "transfer-encoding"}
    assert not dropped & set(values)


@pytest.mark.parametrize("tail", ["?" + "&".join(f"k{i}=%ff" for i in range(200)), "?x=/../a//%2e%2e/", "?%zz"])
def test_targets_arrive_as_they_are(server: GuestServer, tail: str) -> None:
    """What a server makes of it is its affair: nothing is decoded, joined or counted on the way."""
    with server.connect() as s:
        s.sendall(server.raw("GET", f"/echo{tail}", "Connection: close"))
        assert f'"/echo{tail}"'.encode() in read_all(s)


def test_the_address_without_a_slash(server: GuestServer) -> None:
    response = server.request("GET", "?a")
    assert response.status_code == 303
    assert response.headers["Location"] == f"{server.prefix}/?a"


# ---- bodies ----


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 3 * MIB + 1])
def test_sizes(server: GuestServer, size: int) -> None:
    data = os.urandom(size)
    seen = server.request("POST", "/echo", data=data).json()
    assert (seen["size"], seen["sha256"]) == (size, hashlib.sha256(data).hexdigest())
    assert server.request("GET", f"/big?{size}").content == content(size)


@pytest.mark.parametrize("chunked", [False, True])
def test_64_mib_both_ways(server: GuestServer, daemon: Daemon, chunked: bool) -> None:
    data = os.urandom(64 * MIB)
    pieces = (data[i : i + MIB] for i in range(0, len(data), MIB))
    with daemon.stays_small():
        seen = server.request("POST", "/echo", data=pieces if chunked else data).json()
    assert (seen["size"], seen["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    headers = {k.lower() for k, _ in seen["headers"]}
    assert ("transfer-encoding" in headers, "content-length" in headers) == (chunked, not chunked)
    with daemon.stays_small():
        assert server.request("GET", f"/big?{64 * MIB}").content == content(64 * MIB)


def test_a_body_in_chunks(server: GuestServer) -> None:
    response = server.request("GET", "/chunked")
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert response.content == b"onetwo" + b"three" * 1000


def test_a_server_of_a_few_lines(server: GuestServer) -> None:
    response = server.request("GET", "/1.0")
    assert (response.status_code, response.content) == (200, b"old")
    assert response.headers["Content-Type"] == "text/plain"


def test_an_answer_before_the_body_was_read(server: GuestServer) -> None:
    response = server.request("POST", "/early", data=b"x" * 8 * MIB)
    assert (response.status_code, response.content) == (413, b"too large")
    assert server.request("GET", "/echo").status_code == 200


def test_server_sent_events_come_at_once(server: GuestServer) -> None:
    with server.request("GET", "/events", stream=True) as response:
        assert response.status_code == 200  # its head came alone
        assert response.headers["Content-Type"] == "text/event-stream"
        assert server.request("GET", "/go").status_code == 200
        assert next(response.iter_content(chunk_size=None)) == b"data: now\n\n"
    server.wait_for("/events: ConnectionResetError")


# ---- answers ----


@pytest.mark.parametrize(
    ("location", "wanted"),
    [
        ("/login", "{prefix}/login"),
        ("login", "login"),
        ("https://elsewhere/x", "https://elsewhere/x"),
        ("http://localhost:{port}/x?y", "{prefix}/x?y"),
        ("{prefix}/x", "{prefix}/x"),
    ],
)
def test_redirects(server: GuestServer, location: str, wanted: str) -> None:
    names = {"prefix": server.prefix, "port": server.port}
    response = server.request("GET", f"/redirect?{location.format(**names)}")
    assert response.status_code == 302
    assert response.headers["Location"] == wanted.format(**names)


def test_headers_of_an_answer(server: GuestServer) -> None:
    response = server.request("GET", "/cookies")
    cookies = response.raw.headers.getlist("Set-Cookie")
    assert cookies == [f"a=1; Path={server.prefix}/", f"b=2; Path={server.prefix}/sub; HttpOnly"]
    assert response.headers["X-Own"] == "kept"
    assert "Clear-Site-Data" not in response.headers
    assert "Cache-Control" not in response.headers
    assert response.headers["Content-Security-Policy"].startswith("sandbox ")
    assert len(response.raw.headers.getlist("X-Request-Id")) == 1
    assert "Pandastack-Version" not in response.headers


# ---- servers that do as they please ----


def test_nothing_listens(server: GuestServer) -> None:
    response = server.api.request("GET", f"{server.sandbox.path}/proxy/1/")
    assert "nothing listens" in refusal(response)


@pytest.mark.parametrize("path", ["/nothing", "/half-head"])
def test_no_answer(server: GuestServer, path: str) -> None:
    assert "without an answer" in refusal(server.request("GET", path))


@pytest.mark.parametrize(
    "path",
    ["/ssh", "/two-lengths", "/both", "/control", "/unasked", "/endless-headers", "/endless-line", "/endless-100"],
)
def test_no_http(server: GuestServer, daemon: Daemon, path: str) -> None:
    with daemon.stays_small():
        assert "is no HTTP answer" in refusal(server.request("GET", path))
        if path.startswith("/endless"):
            server.wait_for(f"{path}: ")
    assert server.request("GET", "/echo").status_code == 200


@pytest.mark.parametrize("path", ["/too-short", "/bad-chunk", "/cut-chunk", "/cut"])
def test_a_body_that_ends_too_early(server: GuestServer, path: str) -> None:
    """The client must be able to tell: the connection ends before the body's own end."""
    server.request("GET", "/go")
    with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.exceptions.ConnectionError)):
        _ = server.request("GET", path).content
    assert server.request("GET", "/echo").status_code == 200


def test_a_body_longer_than_announced(server: GuestServer) -> None:
    response = server.request("GET", "/too-long")
    assert response.content == b"whol"


# ---- clients ----


def test_a_client_that_goes_away(server: GuestServer) -> None:
    with server.connect() as s:
        s.sendall(server.raw("GET", "/deaf"))
        server.wait_for("deaf: has a request")
    server.wait_for("/deaf: ConnectionResetError")


def test_a_client_that_goes_away_in_mid_body(server: GuestServer) -> None:
    with server.connect() as s:
        s.sendall(server.raw("POST", "/upload", "Content-Length: 1000000") + b"x" * 65536)
        server.wait_for("upload: a piece")
    server.wait_for("/upload: ConnectionResetError")


def test_a_slow_reader_stops_nobody_else(server: GuestServer, daemon: Daemon) -> None:
    with server.connect() as slow, server.connect() as other, daemon.stays_small():
        for s in (slow, other):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(server.raw("GET", "/endless-body"))
            assert s.recv(10, socket.MSG_WAITALL) == b"HTTP/1.1 2"
        for _ in range(20):
            assert server.request("GET", "/big?100000").content == content(100000)
        assert server.sandbox.output("echo fine") == "fine\n"
    server.wait_for("/endless-body: ", 2)


def test_100_at_once(box: Sandbox) -> None:
    n = 100
    with GuestServer(box, together=n) as server, ThreadPoolExecutor(n) as pool:
        answers = list(
            pool.map(
                lambda i: (
                    requests.get(
                        f"{server.api.url}{server.prefix}/together?{i}",
                        headers={"Authorization": f"Bearer {server.api.key}"},
                        timeout=120,
                    ).text
                ),
                range(n),
            )
        )
        assert answers == [f"/together?{i}" for i in range(n)]
        assert box.output("echo fine") == "fine\n"


# ---- what could be read in two ways ----


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 4", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 4"],
        ["Content-Length: 4", "Content-Length: 4"],
        ["Content-Length: 4", "content-length: 5"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding : chunked"],
        ["Transfer-Encoding\t: chunked"],
        ["Content-Length : 4"],
        ["X: a\rTransfer-Encoding: chunked"],
        ["X\x00: b"],
        ["X: a\x0bb"],
        ["Content-Length: +4"],
        ["Content-Length: 0x4"],
    ],
)
def test_requests_that_could_hide_others(server: GuestServer, lines: list[str]) -> None:
    """A refusal, and the end of the connection: what follows is never taken for a second request, here or there."""
    echoes = server.raw("GET", "/echo?hidden", "Connection: close")
    with server.connect() as s:
        s.sendall(server.raw("POST", "/echo?first", *lines) + b"0\r\n\r\n" + echoes)
        answers = read_all(s)
    assert b"HTTP/1.1 200 " not in answers
    assert b"hidden" not in answers
    assert not any("hidden" in line for line in server.lines)
    assert answers.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")), answers


def test_every_length_is_said_anew(server: GuestServer) -> None:
    """Requests on one connection, with bodies of every kind: each arrives as itself."""
    with server.connect() as s:
        s.sendall(
            server.raw("POST", "/echo?1", "Transfer-Encoding: chunked")
            + b"4;x=y\r\nGET \r\n2\r\n/ \r\n0\r\nTrailer: x\r\n\r\n"
            + server.raw("POST", "/echo?2", "Content-Length: 6")
            + b"GET / "
            + server.raw("GET", "/echo?3", "Connection: close")
        )
        answers = read_all(s)
    digest = hashlib.sha256(b"GET / ").hexdigest().encode()
    assert answers.count(b"HTTP/1.1 200 ") == 3
    assert answers.count(digest) == 2
    assert [answers.count(b"/echo?%d" % i) for i in (1, 2, 3)] == [1, 1, 1]


def test_many_threads_on_one_server(server: GuestServer) -> None:
    data = [os.urandom(100_000) for _ in range(16)]
    seen: dict[int, str] = {}

    def post(i: int) -> None:
        seen[i] = server.request("POST", "/echo", data=data[i]).json()["sha256"]

    threads = [threading.Thread(target=post, args=(i,)) for i in range(len(data))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == {i: hashlib.sha256(d).hexdigest() for i, d in enumerate(data)}
