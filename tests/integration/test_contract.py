# SPDX-License-Identifier: Apache-2.0
"""Every operation of api/openapi.yaml is answered as it says; harness.contract looks at each answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from harness import Api, Sandbox
from harness.contract import Contract, contract

# Upgraded connections have no answer to look at: test_exec_ws.py, test_terminal.py, test_tunnel.py.
UPGRADES = {
    "GET /v1/sandboxes/{id}/exec/ws",
    "GET /v1/sandboxes/{id}/exec/pty",
    "GET /v1/sandboxes/{id}/ssh",
    "GET /v1/sandboxes/{id}/ports/{port}/tunnel",
}
# It would take the template of all other tests: test_snapshot_templates.py.
NOT_HERE = {"DELETE /v1/templates/{name}"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
OCTETS = {"Content-Type": "application/octet-stream"}


class Caller:
    """Calls operations that must be answered well, and notes which."""

    def __init__(self, api: Api, **ids: str) -> None:
        self.api = api
        self.ids = ids
        self.called: set[str] = set()

    def __call__(self, operation: str, **kwargs: Any) -> Any:
        """The JSON of the answer, if it is that."""
        method, path = operation.split()
        response = self.api.request(method, path.format(**self.ids), **kwargs)
        assert response.status_code < 300, f"{operation}: {response.status_code} {response.text}"
        self.called.add(operation)
        is_json = response.headers.get("Content-Type") == "application/json"
        return response.json() if is_json else None

    def begin(self, operation: str, **kwargs: Any) -> None:
        """A stream, which goes on as long as it is listened to."""
        method, path = operation.split()
        with self.api.request(method, path.format(**self.ids), stream=True, **kwargs) as response:
            assert response.status_code == 200, response.text
            assert response.headers["Content-Type"].startswith("text/event-stream")
        self.called.add(operation)


def call_the_daemon(call: Caller) -> None:
    for path in ("/healthz", "/version", "/metrics", "/v1/engines", "/v1/me", "/v1/me/tokens", "/v1/repl/languages"):
        call(f"GET {path}")
    call("GET /v1/templates")
    call("GET /v1/templates/{name}")
    for path in ("/mcp", "/v1/mcp"):
        call(f"POST {path}", json=PING)
        call(f"DELETE {path}", headers={"Mcp-Session-Id": "none"})
    call("POST /v1/gc")


def call_commands(call: Caller) -> None:
    at = "/v1/sandboxes/{id}"
    call(f"POST {at}/exec", json={"cmd": "true"})
    call.begin(f"POST {at}/exec/stream", json={"cmd": "true"})
    started = call(f"POST {at}/exec", json={"cmd": "cat", "background": True, "stdin": True})
    call.ids["pid"] = str(started["id"])
    call(f"GET {at}/processes")
    call(f"GET {at}/processes/{{pid}}")
    call(f"POST {at}/processes/{{pid}}/stdin", data=b"in\n", headers=OCTETS)
    call.begin(f"GET {at}/processes/{{pid}}/stream")
    call(f"POST {at}/processes/{{pid}}/signal", json={"signal": "KILL"})
    call(f"POST {at}/processes/{{pid}}/wait")
    for what in ("events", "logs", "metrics"):
        call(f"GET {at}/{what}")


def call_kernels(call: Caller) -> None:
    at = "/v1/sandboxes/{id}/repl"
    call(f"POST {at}", json={"code": "1 + 1"})
    call.ids["sid"] = call(f"POST {at}/sessions", json={})["id"]
    call(f"GET {at}/sessions")
    session = f"{at}/sessions/{{sid}}"
    call(f"POST {session}/run", json={"code": "import pandas as pd; print(1); pd.DataFrame({'a': [1]})"})
    call(f"POST {session}/run", json={"code": "1 / 0"})
    call(f"POST {session}/interrupt")
    body = {"code": "input()", "stream": True, "allow_stdin": True}
    with call.api.request("POST", f"{session}/run".format(**call.ids), json=body, stream=True) as response:
        assert any(b"input_request" in line for line in response.iter_lines(1))
        call(f"POST {session}/input", json={"value": "x"})
    call(f"POST {session}/restart")
    call(f"DELETE {session}")


def call_files(call: Caller) -> None:
    at = "/v1/sandboxes/{id}/fs"
    call(f"PUT {at}", params={"path": "/tmp/contract/a"}, data=b"a", headers=OCTETS)
    call(f"GET {at}", params={"path": "/tmp/contract/a"})
    call(f"POST {at}/mkdir", json={"path": "/tmp/contract/b"})
    call(f"POST {at}/move", json={"from": "/tmp/contract/a", "to": "/tmp/contract/b/a"})
    call(f"GET {at}/dir", params={"path": "/tmp/contract"})
    call(f"GET {at}/stat", params={"path": "/tmp/contract"})
    call.begin(f"GET {at}/watch", params={"path": "/tmp/contract"})
    call(f"DELETE {at}", params={"path": "/tmp/contract"})


def call_network(call: Caller) -> None:
    at = "/v1/sandboxes/{id}"
    call(f"POST {at}/ports", json={"port": 8000, "label": "web"})
    call(f"GET {at}/ports")
    call(f"POST {at}/preview-token", json={"port": 8000})
    call(f"POST {at}/preview", json={"port": 8000})
    call.ids["port"] = "8000"
    call(f"DELETE {at}/ports/{{port}}")
    call(f"GET {at}/network")
    call(f"PATCH {at}/network", json={"egress": "none"})
    call(f"POST {at}/mcp", json=PING)


def call_machines(call: Caller, folder: Path) -> None:
    at, parent = "/v1/sandboxes/{id}", call.ids["id"]
    call(f"GET {at}/lifecycle")
    call(f"PATCH {at}/lifecycle", json={"ttl_seconds": 600})
    call(f"POST {at}/pause")
    call(f"POST {at}/resume")
    call.ids["sid"] = call(f"POST {at}/snapshots")["id"]
    call("GET /v1/snapshots")
    call("GET /v1/snapshots/{sid}")
    with call.api.request("GET", "/v1/snapshots/{sid}/export".format(**call.ids), stream=True) as response:
        assert response.status_code == 200, response.text
        (folder / "snapshot").write_bytes(response.content)
    call.called.add("GET /v1/snapshots/{sid}/export")
    call("DELETE /v1/snapshots/{sid}")
    with open(folder / "snapshot", "rb") as snapshot:
        call.ids["sid"] = call("POST /v1/snapshots/import", data=snapshot, headers=OCTETS)["id"]
    call("DELETE /v1/snapshots/{sid}")
    children = [call(f"POST {at}/fork", json={})["children"][0]]
    tree = call(f"POST {at}/fork-tree", json={"count": 1})
    children.append(tree["children"][0]["id"])
    call.ids["id"] = children[1]
    call(f"POST {at}/promote", json={})
    for word in ("hibernate", "wake", "stop", "start"):
        call(f"POST {at}/{word}")
    for child in children:
        call.ids["id"] = child
        call(f"DELETE {at}")
    call.ids["id"] = parent


def test_every_operation(api: Api, sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    call = Caller(api, name="code-interpreter")
    call_the_daemon(call)
    call.ids["id"] = sandbox().id
    call.called.add("POST /v1/sandboxes")
    call("GET /v1/sandboxes")
    call("GET /v1/sandboxes/{id}")
    call_commands(call)
    call_kernels(call)
    call_files(call)
    call_network(call)
    call_machines(call, tmp_path)
    documented = {f"{o.method} {o.path}" for o in contract.operations}
    assert documented - call.called == UPGRADES | NOT_HERE


def answer(status: int, body: str, kind: str = "application/json", url: str = "/v1/sandboxes") -> requests.Response:
    response = requests.Response()
    response.status_code = status
    response.url = "http://127.0.0.1" + url
    response.headers["Content-Type"] = kind
    response._content = body.encode()
    response.request = requests.Request("GET", response.url).prepare()
    return response


@pytest.mark.parametrize(
    "wrong",
    [
        answer(200, '{"id": "not a list"}'),
        answer(200, '[{"status": "running"}]'),
        answer(200, "[]", "text/plain"),
        answer(201, "[]"),
        answer(404, '{"message": "no error"}'),
        answer(200, "[]", url="/v1/nowhere"),
    ],
)
def test_a_wrong_answer_is_seen(wrong: requests.Response) -> None:
    with pytest.raises(AssertionError):
        Contract().check(wrong)
