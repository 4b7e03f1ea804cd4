# SPDX-License-Identifier: Apache-2.0
"""The SDK beside api/openapi.yaml: each route has its method, and each model has the members of its schema."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any, Callable

import httpx
import pytest
import yaml

from pandastack import (
    Client,
    CodeContext,
    ExecResult,
    Execution,
    FileInfo,
    Lifecycle,
    Metrics,
    Network,
    PandastackError,
    Port,
    Process,
    ProcessInfo,
    Promotion,
    Sandbox,
    SandboxEvent,
    SandboxInfo,
    Snapshot,
    Template,
)

CONTRACT = yaml.safe_load((Path(__file__).resolve().parents[4] / "api" / "openapi.yaml").read_text())

# What the command line has and a program hardly needs, and second names.
NOT_OURS = {
    "GET /healthz",
    "GET /metrics",
    "GET /v1/engines",
    "GET /v1/me",
    "GET /v1/me/tokens",
    "GET /v1/repl/languages",
    "GET /v1/sandboxes/{id}/exec/ws",
    "GET /v1/sandboxes/{id}/ports/{port}/tunnel",
    "GET /v1/sandboxes/{id}/ssh",
    "GET /v1/snapshots/{sid}/export",
    "POST /v1/gc",
    "POST /v1/sandboxes/{id}/repl/sessions/{sid}/input",
    "POST /v1/sandboxes/{id}/start",
    "POST /v1/sandboxes/{id}/stop",
    "POST /v1/snapshots/import",
    # Clients of the Model Context Protocol have libraries of their own (docs/mcp.md).
    "POST /mcp",
    "DELETE /mcp",
    "POST /v1/mcp",
    "DELETE /v1/mcp",
    "POST /v1/sandboxes/{id}/mcp",
    "POST /v1/sandboxes/{id}/preview",
}

PROCESS = {
    "id": 7,
    "pid": 80,
    "cmd": "x",
    "status": "running",
    "stdin": True,
    "started_at": "t",
    "output_bytes": 0,
}

CALLS: list[Callable[[Sandbox], object]] = [
    lambda s: s.client.version(),
    lambda s: Sandbox.create(client=s.client),
    lambda s: Sandbox.get("sb", client=s.client),
    lambda s: Sandbox.list(client=s.client),
    lambda s: s.kill(),
    lambda s: s.exec("x"),
    lambda s: s.exec_stream("x"),
    lambda s: s.open_pty(print, cmd="x", cwd="/", user="u"),
    lambda s: s.run_code("x"),
    lambda s: s.create_code_context(),
    lambda s: s.list_code_contexts(),
    lambda s: CodeContext(s, "c").run_code("x"),
    lambda s: CodeContext(s, "c").interrupt(),
    lambda s: CodeContext(s, "c").restart(),
    lambda s: CodeContext(s, "c").close(),
    lambda s: s.filesystem.read("/x"),
    lambda s: s.filesystem.write("/x", b""),
    lambda s: s.filesystem.upload(io.BytesIO(), "/x"),
    lambda s: s.filesystem.download("/x", io.BytesIO()),
    lambda s: s.filesystem.list("/x"),
    lambda s: s.filesystem.stat("/x"),
    lambda s: s.filesystem.mkdir("/x"),
    lambda s: s.filesystem.move("/x", "/y"),
    lambda s: s.filesystem.remove("/x"),
    lambda s: s.snapshot(),
    lambda s: s.fork(),
    lambda s: s.fork_tree(),
    lambda s: s.promote(),
    lambda s: s.pause(),
    lambda s: s.resume(),
    lambda s: s.hibernate(),
    lambda s: s.wake(),
    lambda s: s.lifecycle(),
    lambda s: s.set_ttl(1),
    lambda s: s.events(),
    lambda s: list(s.follow_events(tail=1)),
    lambda s: s.logs(stream="stdout", tail=1),
    lambda s: list(s.follow_logs(stream="console")),
    lambda s: list(s.filesystem.watch("/x", recursive=True)),
    lambda s: s.ports(),
    lambda s: s.label_port(80, "web"),
    lambda s: s.unlabel_port(80),
    lambda s: s.preview_url(80, ttl_seconds=1, paths=["/a"]),
    lambda s: s.commands.run("x"),
    lambda s: s.commands.start("x", cwd="/", env={"A": "b"}, stdin=True, user="u", timeout=1),
    lambda s: s.commands.list(),
    lambda s: s.commands.get(7),
    lambda s: Process(s, PROCESS).refresh(),
    lambda s: Process(s, PROCESS).wait(1),
    lambda s: Process(s, PROCESS).stream(),
    lambda s: Process(s, PROCESS).write("x", eof=True),
    lambda s: Process(s, PROCESS).send_signal("INT"),
    lambda s: Process(s, PROCESS).kill(),
    lambda s: s.metrics(),
    lambda s: s.network(),
    lambda s: s.set_network({"egress": "none", "bytes_per_second": 0}),
    lambda s: s.client.snapshots.list(),
    lambda s: s.client.snapshots.get("x"),
    lambda s: s.client.snapshots.delete("x"),
    lambda s: s.client.templates.list(),
    lambda s: s.client.templates.get("x"),
    lambda s: s.client.templates.delete("x"),
]


def routes() -> dict[str, dict[str, Any]]:
    """What the contract says about each, by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, methods in CONTRACT["paths"].items()
        for method, operation in methods.items()
        if method not in ("parameters", "description", "summary")
    }


def route_of(request: httpx.Request) -> str:
    """The row of the contract that a request belongs to: the one with the fewest variables."""
    found = [
        route
        for route in routes()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), f"{request.method} {request.url.path}")
    ]
    return min(found, key=lambda route: route.count("{"))


@pytest.fixture(scope="module")
def asked() -> list[httpx.Request]:
    """All that the calls send; the answer is an empty one, which most do not like."""
    requests: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        request.read()
        requests.append(request)
        return httpx.Response(200, json={}, headers={"Content-Type": request.headers["Accept"]})

    with Client("http://daemon", "k") as client:
        client._http.close()
        client._http = httpx.Client(transport=httpx.MockTransport(note), base_url="http://daemon")
        for call in CALLS:
            try:
                call(Sandbox(client, {"id": "sb", "template": "t", "status": "running"}))
            except PandastackError as e:
                assert e.status is None, e
        client._http.close()
    return requests


def test_every_route_has_its_method(asked: list[httpx.Request]) -> None:
    assert {route_of(request) for request in asked} == set(routes()) - NOT_OURS
    assert set(routes()) >= NOT_OURS


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with all its members."""
    if "$ref" in schema:
        found = CONTRACT
        for part in schema["$ref"][2:].split("/"):
            found = found[part]
        return resolve(found)
    members: dict[str, Any] = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        members.update(resolve(part)["properties"])
    return {**schema, "properties": members}


def test_questions_are_in_the_contract(asked: list[httpx.Request]) -> None:
    for request in asked:
        route = route_of(request)
        path = CONTRACT["paths"][route.split()[1]]
        parameters = [*path.get("parameters", []), *routes()[route].get("parameters", [])]
        known = {p["name"] for p in map(resolve, parameters) if p["in"] == "query"}
        assert set(request.url.params) <= known, request


def test_bodies_have_only_what_the_contract_knows(asked: list[httpx.Request]) -> None:
    checked = 0
    for request in asked:
        if request.headers.get("Content-Type") == "application/json":
            body = resolve(routes()[route_of(request)]["requestBody"])
            schema = resolve(body["content"]["application/json"]["schema"])
            assert set(json.loads(request.content)) <= set(schema["properties"]), request
            assert set(schema.get("required", [])) <= set(json.loads(request.content)), request
            checked += 1
    assert checked > 10


@pytest.mark.parametrize(
    ("model", "schema", "left_out"),
    [
        (SandboxInfo, "Sandbox", {"guest_ip", "host_tap", "mac", "vsock_cid", "network"}),
        (ExecResult, "ExecResult", {"timed_out"}),
        (Execution, "CellResult", {"exit"}),
        (FileInfo, "FileInfo", {"target"}),
        (ProcessInfo, "Process", set()),
        (Port, "Port", set()),
        (Lifecycle, "Lifecycle", set()),
        (Network, "NetworkState", set()),
        (SandboxEvent, "Event", {"ts", "metadata"}),
        (Metrics, "Metrics", set()),
        (Snapshot, "Snapshot", {"snapshot_id", "mem_path", "state_path"}),
        (Template, "Template", {"is_global"}),
    ],
)
def test_models_have_the_members_of_their_schemas(model: type[Any], schema: str, left_out: set[str]) -> None:
    """Less those that are there for other clients, or never there."""
    members = resolve(CONTRACT["components"]["schemas"][schema])
    assert {f.name for f in dataclasses.fields(model)} == set(members["properties"]) - left_out
    needed = {f.name for f in dataclasses.fields(model) if f.default is f.default_factory is dataclasses.MISSING}
    assert needed <= set(members.get("required", needed))


def test_promotion() -> None:
    operation = routes()["POST /v1/sandboxes/{id}/promote"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert {f.name for f in dataclasses.fields(Promotion)} == set(schema["properties"])
