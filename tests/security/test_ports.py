# SPDX-License-Identifier: Apache-2.0
"""A server in a sandbox learns no key, and gets no hold on the API's origin in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from harness import Sandbox
from harness.guest import GuestServer
from harness.websocket import WebSocket

COOKIE = "pandastack_preview"


@pytest.fixture(scope="module")
def server(box: Sandbox) -> Iterator[GuestServer]:
    """The server in the module's sandbox."""
    with GuestServer(box) as s:
        yield s


def test_the_server_never_sees_what_was_shown(server: GuestServer) -> None:
    key, token = str(server.api.key), server.link()
    secrets = (key, key.removeprefix("pds_"), token, token.split(".")[1])
    everywhere = {
        "Cookie": f"{COOKIE}={token}; a={COOKIE}; {COOKIE}={token}",
        "Referer": f"{server.api.url}{server.prefix}/?access_token={key}",
    }
    for method in ("GET", "POST"):
        for shown in (key, token):
            bearer = {**everywhere, "Authorization": f"Bearer {shown}"}
            for response in (
                server.by_host(method, "/echo", bearer),
                server.by_host(method, f"/echo?a=1&access_token={shown}&access_token={shown}", everywhere),
                server.by_host(method, f"/echo?access_token={shown}", bearer),
                requests.request(method, f"{server.api.url}{server.prefix}/echo", headers=bearer, timeout=60),
                requests.request(method, f"{server.api.url}/v1/p/{token}/echo", headers=bearer, timeout=60),
                requests.request(method, f"{server.api.url}/v1/p/{token}/echo?access_token={shown}", timeout=60),
            ):
                assert response.status_code == 200
                # By link, the prefix tells the server where it is; the token in it is for this server alone.
                seen = response.text.replace(f"/v1/p/{token}", "")
                assert not any(secret in seen for secret in secrets), seen


def test_a_browser_never_shows_the_server_an_address_with_a_key(server: GuestServer) -> None:
    key = str(server.api.key)
    before = len(server.lines)
    for response in (
        server.by_host("GET", f"/echo?access_token={key}", {"Accept": "text/html"}),
        server.request("GET", f"/echo?access_token={key}", headers={"Accept": "text/html", "Authorization": ""}),
    ):
        assert response.status_code == 303
        assert key not in str(response.headers)
        assert response.content == b""
    assert len(server.lines) == before


@pytest.mark.parametrize("path", ["/echo", "/big?10", "/chunked", "/cookies", "/redirect?/x", "/1.0"])
def test_pages_by_path_have_an_origin_of_their_own(server: GuestServer, path: str) -> None:
    token = server.link()
    for response in (
        server.request("GET", path),
        requests.get(f"{server.api.url}/v1/p/{token}{path}", timeout=60, allow_redirects=False),
    ):
        policy = response.headers["Content-Security-Policy"]
        assert policy.split("; ")[-1].split(" ")[0] == "sandbox"
        assert "allow-same-origin" not in policy
        assert "Clear-Site-Data" not in response.headers
        for cookie in response.raw.headers.getlist("Set-Cookie"):
            assert "Domain" not in cookie
            assert "Path=/v1/" in cookie


def test_a_link_is_for_its_port_alone(server: GuestServer) -> None:
    token = server.link()
    http = requests.Session()
    http.headers["Authorization"] = f"Bearer {token}"
    for method, path in [
        ("GET", server.sandbox.path),
        ("POST", f"{server.sandbox.path}/exec"),
        ("GET", f"{server.sandbox.path}/proxy/{server.port % 65535 + 1}/"),
        ("GET", "/v1/sandboxes/00000000-0000-0000-0000-000000000000/proxy/80/"),
        ("GET", f"{server.sandbox.path}/ports"),
        ("POST", f"{server.sandbox.path}/preview-token"),
        ("GET", "/v1/me"),
    ]:
        for url in (f"{server.api.url}{path}", f"{server.api.url}{path}?access_token={token}"):
            assert http.request(method, url, timeout=60).status_code == 401, url


def test_a_websocket_learns_no_key(server: GuestServer) -> None:
    with WebSocket(server.api.url, f"/ws?access_token={server.api.key}", {"Host": server.host}) as ws:
        assert ws.headers["x-target"] == "/ws"
