# SPDX-License-Identifier: Apache-2.0
"""Who may reach a port: keys, links, host names, cookies; and what a port is called."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from harness import Api, Daemon, Sandbox
from harness.guest import GuestServer, read_all

COOKIE = "pandastack_preview"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def server(box: Sandbox) -> Iterator[GuestServer]:
    """The server in the module's sandbox."""
    with GuestServer(box) as s:
        yield s


@pytest.fixture
def nobody(api: Api) -> Api:
    """A client without a key."""
    return Api(api.url, None)


def seen(response: requests.Response) -> dict[str, Any]:
    """What the server saw of the request."""
    assert response.status_code == 200, response.text
    answer = response.json()
    answer["headers"] = {k.lower(): v for k, v in answer["headers"]}
    return dict(answer)


# ---- labels and what listens ----


def test_ports(api: Api, box: Sandbox, server: GuestServer) -> None:
    path = f"{box.path}/ports"
    detected = {"port": server.port, "listening": True, "source": "detected", "proxy_url": f"{server.prefix}/"}
    assert detected in api.call("GET", path)
    added = api.call("POST", path, want=201, json={"port": 1, "label": "web"})
    labelled = {"port": 1, "label": "web", "listening": False, "source": "user", "proxy_url": f"{box.path}/proxy/1/"}
    assert added == labelled
    api.call("POST", path, want=201, json={"port": server.port})
    ports = api.call("GET", path)
    assert ports[0] == labelled
    assert {**detected, "source": "user"} in ports
    assert [p["port"] for p in ports] == sorted({p["port"] for p in ports})
    metadata = box.info()["metadata"]
    assert (metadata["port.1"], metadata[f"port.{server.port}"]) == ("web", "")
    for port in (1, server.port):
        api.call("DELETE", f"{path}/{port}", want=204)
    assert api.call("GET", path) == [detected]
    assert not [k for k in box.info()["metadata"] if k.startswith("port.")]
    api.call("DELETE", f"{path}/1", want=204)


@pytest.mark.parametrize("body", [{}, {"port": 0}, {"port": 65536}, {"port": "80"}, {"port": 80, "label": 1}])
def test_what_is_no_port(api: Api, box: Sandbox, body: dict[str, Any]) -> None:
    api.refused("POST", f"{box.path}/ports", 400, "request.invalid", json=body)


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1"])
def test_what_is_no_port_in_a_path(api: Api, box: Sandbox, port: str) -> None:
    api.refused("DELETE", f"{box.path}/ports/{port}", 400, "request.invalid")
    api.refused("GET", f"{box.path}/proxy/{port}/", 400, "request.invalid")


def test_labels_have_a_limit(sandbox: Callable[..., Sandbox], api: Api) -> None:
    s = sandbox("base", metadata={f"k{i}": "v" for i in range(63)})
    api.call("POST", f"{s.path}/ports", want=201, json={"port": 1})
    api.refused("POST", f"{s.path}/ports", 429, "limit.reached", json={"port": 2})
    api.call("POST", f"{s.path}/ports", want=201, json={"port": 1, "label": "again"})


def test_labels_outlive_the_daemon(make_daemon: Callable[..., Daemon]) -> None:
    first = make_daemon(args=["--keep"]).wait_ready()
    s = first.api.create("base")
    first.api.call("POST", f"{s.path}/ports", want=201, json={"port": 80, "label": "web"})
    token = first.api.call("POST", f"{s.path}/preview-token", json={"port": 80})["token"]
    first.stop()
    second = make_daemon(first.data_dir).wait_ready()
    assert second.api.sandbox(s.id).info()["metadata"] == {"port.80": "web"}
    response = requests.get(f"{second.url}/v1/p/{token}/", timeout=60)
    assert response.status_code == 502, "the link is still good, and nothing listens"
    child = second.api.sandbox(s.id).fork()
    assert child.info()["metadata"]["port.80"] == "web"


# ---- keys ----


def test_without_a_key(server: GuestServer, nobody: Api) -> None:
    nobody.refused("GET", f"{server.prefix}/echo", 401, "auth.unauthorized")
    assert server.by_host("GET", "/echo").status_code == 401
    assert server.by_host("GET", "/echo", {"Authorization": "Bearer pds_wrong"}).status_code == 401
    assert server.by_host("GET", "/echo?access_token=pds_wrong").status_code == 401
    assert server.by_host("GET", "/echo", {"Cookie": f"{COOKIE}={server.api.key}"}).status_code == 401


def test_by_host(server: GuestServer) -> None:
    answer = seen(server.by_host("GET", "/echo?a", {"Authorization": f"Bearer {server.api.key}"}))
    assert answer["target"] == "/echo?a"
    assert answer["headers"]["x-forwarded-host"] == server.host
    assert "x-forwarded-prefix" not in answer["headers"]
    assert "authorization" not in answer["headers"]
    response = server.by_host("GET", "/cookies", {"Authorization": f"Bearer {server.api.key}"})
    assert response.raw.headers.getlist("Set-Cookie") == ["a=1; Path=/", "b=2; Path=/sub; HttpOnly"]
    assert "Content-Security-Policy" not in response.headers
    assert response.headers["Clear-Site-Data"] == "*"
    # All paths of that host are the server's, the API's own among them.
    assert server.by_host("GET", "/v1/sandboxes", {"Authorization": f"Bearer {server.api.key}"}).status_code == 502


def test_a_key_in_the_query(server: GuestServer, nobody: Api) -> None:
    key = str(server.api.key)
    for query, target in [
        (f"?access_token={key}", "/echo"),
        (f"?a=1&access_token={key}", "/echo?a=1"),
        (f"?access_token={key}&b", "/echo?b"),
        (f"?access_token={key}&access_token={key}", "/echo"),
    ]:
        assert seen(server.by_host("GET", f"/echo{query}"))["target"] == target
        assert seen(nobody.request("GET", f"{server.prefix}/echo{query}"))["target"] == target


def test_what_is_the_servers_own_arrives(server: GuestServer) -> None:
    """A server may have keys of its own, in the same places."""
    token = server.link()
    url = f"/v1/p/{token}/echo?access_token=theirs"
    answer = seen(requests.get(server.api.url + url, headers={"Authorization": "Bearer theirs"}, timeout=60))
    assert answer["target"] == "/echo?access_token=theirs"
    assert answer["headers"]["authorization"] == "Bearer theirs"
    for ours in (server.api.key, token, "pds_of_another_daemon"):
        answer = seen(requests.get(server.api.url + url, headers={"Authorization": f"Bearer {ours}"}, timeout=60))
        assert "authorization" not in answer["headers"]


# ---- links ----


def test_a_link(api: Api, server: GuestServer, nobody: Api) -> None:
    answer = api.call("POST", f"{server.sandbox.path}/preview-token", json={"port": server.port, "ttl_seconds": 60})
    assert answer["url"] == f"{api.url}/v1/p/{answer['token']}/"
    assert (answer["sandbox_id"], answer["port"], answer["paths"]) == (server.sandbox.id, server.port, [])
    assert answer["expires_at"].endswith("Z")
    got = seen(nobody.request("POST", f"/v1/p/{answer['token']}/echo?a", data=b"x"))
    assert (got["target"], got["size"]) == ("/echo?a", 1)
    assert got["headers"]["x-forwarded-prefix"] == f"/v1/p/{answer['token']}"
    assert seen(nobody.request("GET", f"/v1/p/{server.link()}/echo"))["target"] == "/echo"
    assert api.call("POST", f"{server.sandbox.path}/preview", json={"port": 1})["port"] == 1


def test_a_token_in_the_place_of_a_key(server: GuestServer, nobody: Api) -> None:
    token = server.link()
    assert seen(server.by_host("GET", "/echo", {"Authorization": f"Bearer {token}"}))
    assert seen(server.by_host("GET", f"/echo?access_token={token}"))["target"] == "/echo"
    other = f"{server.sandbox.path}/proxy/1/"
    nobody.refused("GET", other, 401, "auth.unauthorized", headers={"Authorization": f"Bearer {token}"})
    nobody.refused("GET", server.sandbox.path, 401, "auth.unauthorized", headers={"Authorization": f"Bearer {token}"})
    nobody.refused("GET", f"/v1/sandboxes?access_token={token}", 401, "auth.unauthorized")


def test_what_is_no_link(server: GuestServer, nobody: Api) -> None:
    token = server.link()
    for wrong in ("x", "a.b", token[:-1], "A" + token, token + "A", token.split(".")[0]):
        nobody.refused("GET", f"/v1/p/{wrong}/echo", 401, "auth.unauthorized")


@pytest.mark.parametrize("of_a_link", [True, False])
@pytest.mark.parametrize("tail", ["", "?a", "/echo"])
def test_paths_that_are_written_in_another_way(server: GuestServer, of_a_link: bool, tail: str) -> None:
    """None leads to the server without what keeps its pages from being the API's."""
    *parts, last = (f"/v1/p/{server.link()}" if of_a_link else server.prefix).split("/")
    for i, part in enumerate(parts[1:], 1):
        path = "/".join([*parts[:i], f"%{ord(part[0]):02x}{part[1:]}", *parts[i + 1 :], last])
        key = f"Authorization: Bearer {server.api.key}"
        lines = [f"GET {path}{tail} HTTP/1.1", "Host: x", key, "Connection: close"]
        with server.connect() as s:
            s.sendall("\r\n".join([*lines, "", ""]).encode())
            answer = read_all(s)
        ours = b'"code":"not_found"' in answer or b"HTTP/1.1 303 " in answer
        assert ours or b"\r\nContent-Security-Policy: sandbox " in answer, (path, answer)


def test_a_link_that_has_expired(server: GuestServer, nobody: Api) -> None:
    token = server.link(ttl_seconds=1)
    deadline = time.monotonic() + 30
    while (response := nobody.request("GET", f"/v1/p/{token}/echo")).status_code == 200:
        assert time.monotonic() < deadline
    assert response.status_code == 401
    assert "expired" in response.json()["error"]


def test_a_link_for_some_paths(server: GuestServer, nobody: Api) -> None:
    token = server.link(paths=["echo", "/big/"])
    for path in ("/echo", "/echo?x", "/%65cho"):
        assert nobody.request("GET", f"/v1/p/{token}{path}").status_code in (200, 502)
    for path in ("", "/", "/chunked", "/echoes", "/echo/../chunked", "/big", "/echo%2F..%2Fchunked", "//echo"):
        with requests.Session() as s:
            request = requests.Request("GET", f"{nobody.url}/v1/p/{token}/").prepare()
            request.url = f"{nobody.url}/v1/p/{token}{path}"
            assert s.send(request, timeout=60, allow_redirects=False).status_code == 403, path
    assert server.by_host("GET", "/chunked", {"Authorization": f"Bearer {token}"}).status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"port": 80, "ttl_seconds": -1},
        {"port": 80, "ttl_seconds": 7 * 86400 + 1},
        {"port": 80, "paths": "x"},
        {"port": 80, "paths": [""]},
        {"port": 80, "paths": [1]},
        {"port": 80, "paths": ["x" * 257]},
        {"port": 80, "paths": ["x"] * 17},
        {"port": 80, "paths": ["a\x00b"]},
    ],
)
def test_links_that_are_refused(api: Api, box: Sandbox, body: dict[str, Any]) -> None:
    api.refused("POST", f"{box.path}/preview-token", 400, "request.invalid", json=body)


def test_a_link_ends_with_its_sandbox(sandbox: Callable[..., Sandbox], api: Api, nobody: Api) -> None:
    s = sandbox("base")
    token = api.call("POST", f"{s.path}/preview-token", json={"port": 80})["token"]
    nobody.refused("GET", f"/v1/p/{token}/", 502, "upstream.failed")
    s.delete()
    nobody.refused("GET", f"/v1/p/{token}/", 404, "sandbox.not_found")
    api.refused("POST", f"{s.path}/preview-token", 404, "sandbox.not_found", json={"port": 80})


def test_links_are_not_logged(daemon: Daemon, server: GuestServer, nobody: Api) -> None:
    token = server.link()
    assert nobody.request("GET", f"/v1/p/{token}/echo").status_code == 200
    nobody.request("GET", f"/v1/p/{token}x/echo")
    daemon.wait_log("request", route="/v1/p/{token}", sandbox=server.sandbox.id)
    assert not any(token in line for line in daemon.lines)


# ---- browsers ----


def test_a_browser_by_host(server: GuestServer) -> None:
    """It is sent to an address without the key, with a cookie for this port alone; the server's page sees neither."""
    response = server.by_host("GET", f"/echo?a&access_token={server.api.key}", BROWSER)
    assert response.status_code == 303
    assert response.headers["Location"] == f"http://{server.host}/echo?a"
    assert response.headers["Cache-Control"] == "no-store"
    name, _, rest = response.headers["Set-Cookie"].partition("=")
    token, *attributes = rest.split("; ")
    assert name == COOKIE
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Lax"]
    assert str(server.api.key) not in str(response.headers)
    cookie = {"Cookie": f"x=1; {COOKIE}={token}; y=2"}
    answer = seen(server.by_host("GET", "/echo?a", {**BROWSER, **cookie}))
    assert answer["target"] == "/echo?a"
    assert answer["headers"]["cookie"] == "x=1; y=2"
    assert seen(server.by_host("POST", "/echo", {**cookie, "Origin": f"http://{server.host}"}))
    assert (
        seen(server.by_host("POST", "/echo", {**cookie, "Authorization": "Basic eDp5"}))["headers"]["authorization"]
        == "Basic eDp5"
    )


def test_a_browser_with_a_link_by_host(server: GuestServer) -> None:
    token = server.link(ttl_seconds=60)
    response = server.by_host("GET", f"/echo?access_token={token}", {**BROWSER, "X-Forwarded-Proto": "https"})
    assert response.headers["Location"] == f"https://{server.host}/echo"
    assert response.headers["Set-Cookie"] == f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax; Secure"


def test_a_browser_by_path(server: GuestServer, nobody: Api) -> None:
    response = nobody.request("GET", f"{server.prefix}/echo?access_token={server.api.key}&a", headers=BROWSER)
    assert response.status_code == 303
    location = response.headers["Location"]
    assert location.startswith("/v1/p/")
    assert location.endswith("/echo?a")
    assert "Set-Cookie" not in response.headers
    assert seen(nobody.request("GET", location))["target"] == "/echo?a"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "http://localhost:8080",
        "http://{port}-00000000-0000-0000-0000-000000000000.localhost:{api}",
        "http://{port}-{id}.evil.example",
    ],
)
def test_pages_of_others_do_not_have_the_cookie(server: GuestServer, origin: str) -> None:
    names = {"port": server.port, "id": server.sandbox.id, "api": server.api.url.rsplit(":", 1)[1]}
    headers = {"Cookie": f"{COOKIE}={server.link()}", "Origin": origin.format(**names)}
    assert server.by_host("POST", "/echo", headers).status_code == 401


def test_pages_of_the_same_sandbox_have_it(server: GuestServer) -> None:
    other_port = server.host.replace(str(server.port), "1234", 1)
    headers = {"Cookie": f"{COOKIE}={server.link()}", "Origin": f"http://{other_port}"}
    assert seen(server.by_host("POST", "/echo", headers))["headers"]["origin"] == f"http://{other_port}"
