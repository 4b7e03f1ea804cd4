# SPDX-License-Identifier: Apache-2.0
"""API keys."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable

import pytest

from harness import Api, Daemon

ROUTES = [
    ("GET", "/v1/sandboxes"),
    ("POST", "/v1/sandboxes"),
    ("GET", "/v1/sandboxes/x"),
    ("DELETE", "/v1/sandboxes/x"),
    ("POST", "/v1/sandboxes/x/exec"),
    ("GET", "/v1/sandboxes/x/fs"),
    ("PUT", "/v1/sandboxes/x/fs"),
    ("GET", "/v1/templates"),
    ("GET", "/v1/engines"),
    ("GET", "/v1/me"),
    ("GET", "/v1/volumes"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
    ("POST", "/v1/sandboxes/x/mcp"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_wants_a_key(api: Api, method: str, path: str) -> None:
    answer = Api(api.url, None).refused(method, path, 401, "auth.unauthorized")
    assert answer["error"].startswith("unauthorized")
    assert "Bearer" in answer["error"]


@pytest.mark.parametrize(
    "header",
    ["Bearer pds_00000000000000000000000000000000", "Bearer ", "Bearer", "Basic dXNlcjpwYXNz", "pds_x", "Bearer x y"],
)
def test_wrong_keys(api: Api, header: str) -> None:
    anonymous = Api(api.url, None)
    response = anonymous.request("GET", "/v1/sandboxes", headers={"Authorization": header})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.json()["code"] == "auth.unauthorized"
    if header.startswith("Basic"):
        assert ".netrc" in response.text, "what makes clients send this"


def test_part_of_a_key_is_no_key(api: Api) -> None:
    key = api.key or ""
    for wrong in (key[:-1], key + "0", key.upper(), key[4:]):
        Api(api.url, wrong).refused("GET", "/v1/sandboxes", 401, "auth.unauthorized")


def test_scheme_in_any_case_and_key_in_the_query(api: Api) -> None:
    anonymous = Api(api.url, None)
    anonymous.call("GET", "/v1/sandboxes", headers={"Authorization": f"bearer {api.key}"})
    anonymous.call("GET", "/v1/sandboxes", params={"access_token": api.key})


def test_the_keys_file(make_daemon: Callable[..., Daemon]) -> None:
    d = make_daemon().wait_ready()
    assert re.fullmatch(r"pds_[0-9a-f]{32}", d.key)
    config = d.data_dir / "config.json"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert json.loads(config.read_text())["api_url"] == d.url
    # The registry holds a hash only.
    for file in d.data_dir.glob("registry.db*"):
        assert d.key.encode() not in file.read_bytes()
    assert stat.S_IMODE(d.data_dir.stat().st_mode) == 0o700
    d.stop()
    d.check_clean()


def test_the_key_stays_over_a_restart(make_daemon: Callable[..., Daemon]) -> None:
    first = make_daemon().wait_ready()
    first.stop()
    second = make_daemon(first.data_dir).wait_ready()
    assert second.key == first.key
    assert second.api.list() == []
    second.stop()
    second.check_clean()


def test_a_key_of_a_lost_registry_is_replaced_plainly(make_daemon: Callable[..., Daemon]) -> None:
    """The file belongs to another service as far as this daemon can know: it is not overwritten in silence."""
    first = make_daemon().wait_ready()
    first.stop()
    for file in first.data_dir.glob("registry.db*"):
        file.unlink()
    second = make_daemon(first.data_dir)
    with second.expect_error("can't start"):
        assert second.wait() != 0
    assert "config.json" in second.tail()
