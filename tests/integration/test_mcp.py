# SPDX-License-Identifier: Apache-2.0
"""The Model Context Protocol: the official client over both transports, in both eras; and message by message."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import requests
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, EmbeddedResource, ImageContent, TextContent

from harness import Api, Daemon, Sandbox
from harness.daemon import binary, has_fault_points

MODERN = "2026-07-28"
SESSION_TOOLS = ["create_sandbox", "list_sandboxes", "fork_sandbox", "delete_sandbox"]
SANDBOX_TOOLS = [
    "run_code", "run_command", "install_packages", "read_file", "write_file", "list_dir", "snapshot",
]  # fmt: skip
PNG = b"\x89PNG\r\n\x1a\n"
Json = dict[str, Any]


# ---- the official client ----


def environment(daemon: Daemon, home: Path) -> dict[str, str]:
    """Where `pandastack mcp` finds the daemon, and nothing else."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDASTACK_", "XDG_"))}
    return {**env, "HOME": str(home), "PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": daemon.key, "NO_PROXY": "*"}


class Ways:
    """A client of a daemon, in one of the ways to be one."""

    def __init__(self, daemon: Daemon, home: Path, transport: str, era: str) -> None:
        self.daemon = daemon
        self.home = home
        self.transport = transport
        self.era = era
        self.has_session = transport == "stdio" or era == "legacy"

    @contextlib.asynccontextmanager
    async def client(self, path: str = "/mcp") -> AsyncIterator[Client]:
        if self.transport == "stdio":
            env = environment(self.daemon, self.home)
            async with Client(
                StdioServerParameters(command=str(binary()), args=["mcp"], env=env), mode=self.era
            ) as client:
                yield client
            return
        headers = {"Authorization": f"Bearer {self.daemon.key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=120, trust_env=False) as http,
            Client(streamable_http_client(self.daemon.url + path, http_client=http), mode=self.era) as client,
        ):
            yield client

    def run(self, body: Callable[[Client], Awaitable[None]], path: str = "/mcp") -> None:
        async def inner() -> None:
            async with self.client(path) as client:
                await body(client)

        asyncio.run(asyncio.wait_for(inner(), 200))


WAYS = [("http", "legacy"), ("http", "auto"), ("http", MODERN), ("stdio", "legacy"), ("stdio", "auto")]


@pytest.fixture(params=WAYS, ids=["-".join(w) for w in WAYS])
def way(request: pytest.FixtureRequest, daemon: Daemon, tmp_path: Path) -> Iterator[Ways]:
    before = daemon.api.ids()
    yield Ways(daemon, tmp_path, *request.param)
    assert daemon.api.ids() == before, "sandboxes are left"


def text(result: CallToolResult) -> str:
    """What a model reads."""
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


def structured(result: CallToolResult) -> Json:
    """What a program reads. The client has checked it against the tool's schema."""
    assert result.structured_content is not None
    return cast(Json, result.structured_content)


def test_official_client(way: Ways) -> None:
    async def body(client: Client) -> None:
        tools = (await client.list_tools()).tools
        assert [t.name for t in tools] == [*SANDBOX_TOOLS, *SESSION_TOOLS]
        if way.era != MODERN:  # which does not ask
            assert client.server_info is not None
            assert client.server_info.name == "pandastack"
        assert client.protocol_version == (MODERN if way.era != "legacy" else "2025-11-25")

        first = await client.call_tool("run_code", {"code": "x = 6 * 7\nprint('out')\nx"})
        where = {"sandbox_id": structured(first)["sandbox_id"]}
        assert (first.is_error, structured(first)["text"], structured(first)["stdout"]) == (False, "42", "out\n")
        assert text(first).startswith("out\n42\n"), text(first)
        assert where["sandbox_id"] in text(first), "the model is told that this is a new sandbox"
        again = {} if way.has_session else where
        second = await client.call_tool("run_code", {"code": "x + 1", **again})
        assert (text(second), structured(second)["sandbox_id"]) == ("43", where["sandbox_id"])

        failed = await client.call_tool("run_code", {"code": "1/0", **again})
        assert failed.is_error
        assert "ZeroDivisionError" in text(failed)

        drawn = await client.call_tool(
            "run_code", {"code": "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()", **again}
        )
        images = [c for c in drawn.content if isinstance(c, ImageContent)]
        assert [i.mime_type for i in images] == ["image/png"]
        assert base64.b64decode(images[0].data).startswith(PNG)

        table = await client.call_tool(
            "run_code", {"code": "import pandas as pd\npd.DataFrame({'a': [17]})", **again}
        )
        assert "17" in text(table)
        (page,) = [c.resource for c in table.content if isinstance(c, EmbeddedResource)]
        assert page.mime_type == "text/html"

        ran = await client.call_tool("run_command", {"command": "echo hi; exit 3", **again})
        assert (structured(ran)["stdout"], structured(ran)["exit_code"], ran.is_error) == ("hi\n", 3, False)
        if not way.has_session:
            await client.call_tool("delete_sandbox", where)

    way.run(body)


def test_progress_while_a_cell_prints(way: Ways) -> None:
    seen: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async def body(client: Client) -> None:
        code = "import time\nfor i in range(4):\n    print('step', i); time.sleep(0.4)"
        result = await client.call_tool("run_code", {"code": code}, progress_callback=on_progress)
        assert structured(result)["stdout"] == "step 0\nstep 1\nstep 2\nstep 3\n"
        if not way.has_session:
            await client.call_tool("delete_sandbox", {"sandbox_id": structured(result)["sandbox_id"]})

    way.run(body)
    assert len(seen) >= 2
    assert [p for p, _ in seen] == sorted({p for p, _ in seen}), "it must rise"
    assert {m for _, m in seen} <= {"step 0", "step 1", "step 2", "step 3"}


def test_cancelling_interrupts_the_cell(way: Ways) -> None:
    async def body(client: Client) -> None:
        first = await client.call_tool("run_code", {"code": "x = 5"})
        where = {"sandbox_id": structured(first)["sandbox_id"]}
        printed = asyncio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            printed.set()

        endless = {"code": "import time\nprint('go')\nwhile True: time.sleep(0.1)", "timeout_seconds": 3000, **where}
        call = asyncio.create_task(client.call_tool("run_code", endless, progress_callback=on_progress))
        await printed.wait()
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        # The kernel runs one cell after the other: this one ends because that one did. The variables are still there.
        after = await client.call_tool("run_code", {"code": "x", "timeout_seconds": 60, **where})
        assert text(after) == "5"
        if not way.has_session:
            await client.call_tool("delete_sandbox", where)

    way.run(body)


# ---- message by message ----


class Raw:
    """Messages to an endpoint, one request each."""

    def __init__(self, api: Api, path: str = "/mcp", session: str | None = None) -> None:
        self.api = api
        self.path = path
        self.headers = {"Accept": "application/json, text/event-stream"}
        if session:
            self.headers["Mcp-Session-Id"] = session

    def post(self, body: Any, **headers: str) -> requests.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.api.request("POST", self.path, data=data, headers={**self.headers, **headers})

    def legacy(self, method: str, params: Json | None = None, **headers: str) -> Json:
        """The answer to a request."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
        response = self.post(body, **headers)
        assert response.status_code == 200, response.text
        return answer_of(response)

    def modern(self, method: str, params: Json | None = None, **headers: str) -> requests.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}}
        said = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if params and "name" in params:
            said["Mcp-Name"] = params["name"]
        return self.post(body, **{**said, **headers})

    def tool(self, tool: str, **arguments: Any) -> Json:
        """The result of a tool."""
        return cast(Json, self.legacy("tools/call", {"name": tool, "arguments": arguments})["result"])

    def ok(self, tool: str, **arguments: Any) -> Json:
        """What a tool that must succeed gives a program."""
        result = self.tool(tool, **arguments)
        assert not result["isError"], result
        return cast(Json, result["structuredContent"])

    def fails(self, tool: str, **arguments: Any) -> str:
        """What a tool that must fail says."""
        result = self.tool(tool, **arguments)
        assert result["isError"], result
        return str(result["content"][0]["text"])


def answer_of(response: requests.Response) -> Json:
    """The message in an answer, the last one of a stream."""
    if response.headers["Content-Type"].startswith("text/event-stream"):
        assert response.headers["X-Accel-Buffering"] == "no"
        events = [e for e in response.text.split("\n\n") if e.startswith("event: message\ndata: ")]
        return cast(Json, json.loads(events[-1].split("data: ", 1)[1]))
    assert response.headers["Content-Type"] == "application/json"
    return cast(Json, response.json())


@pytest.fixture
def raw(api: Api, request: pytest.FixtureRequest) -> Iterator[Raw]:
    """A session, which is over after the test."""
    name = request.node.name[:100]
    yield Raw(api, session=name)
    assert api.request("DELETE", "/mcp", headers={"Mcp-Session-Id": name}).status_code == 204


def test_a_session_from_its_beginning_to_its_end(api: Api) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    response = Raw(api).post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    session = response.headers["Mcp-Session-Id"]
    assert response.json()["result"]["protocolVersion"] == "2025-06-18"
    raw = Raw(api, session=session)
    done = raw.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (done.status_code, done.content) == (202, b"")
    assert raw.legacy("ping")["result"] == {}
    before = api.ids()
    sandbox = raw.ok("run_code", code="x = 1")["sandbox_id"]
    assert api.ids() - before == {sandbox}, "made by the first call"
    assert raw.ok("run_code", code="x")["sandbox_id"] == sandbox
    for _ in range(2):
        assert api.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}).status_code == 204
        assert api.ids() == before
    late = {
        "jsonrpc": "2.0",
        "id": 9,
        "method": "tools/call",
        "params": {"name": "run_command", "arguments": {"command": "true"}},
    }
    for body in (late, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}):
        response = raw.post(body)
        assert (response.status_code, response.json()["code"]) == (404, "session.not_found")
        assert "initialize" in response.json()["error"]
    assert api.ids() == before, "a call behind the end makes nothing"


def test_a_session_ends_while_its_first_calls_make_its_sandbox(api: Api) -> None:
    before = api.ids()
    for i in range(8):
        raw = Raw(api, session=f"short-{i}")
        with ThreadPoolExecutor(5) as pool:
            calls = [pool.submit(raw.tool, "run_command", command="true") for _ in range(2 * (i % 2) + 1)]
            end = pool.submit(api.request, "DELETE", "/mcp", headers=raw.headers)
            assert end.result().status_code == 204
            assert api.ids() == before
            for call in calls:
                assert call.exception() is None or "session.not_found" in str(call.exception())
        assert api.ids() == before


def test_calls_of_a_new_session_at_once_share_its_sandbox(raw: Raw) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(raw.ok("run_command", command="true")["sandbox_id"]))
        for _ in range(3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 3
    assert len(set(found)) == 1


def test_a_session_goes_on_with_a_new_sandbox_and_says_so(raw: Raw, daemon: Daemon) -> None:
    first = raw.ok("run_code", code="x = 1")["sandbox_id"]
    assert len(raw.tool("run_code", code="1")["content"]) == 1
    daemon.api.sandbox(first).discard()
    result = raw.tool("run_code", code="'x' in globals()")
    second = result["structuredContent"]["sandbox_id"]
    assert (result["structuredContent"]["text"], second != first) == ("False", True)
    assert second in result["content"][-1]["text"], "the model must know that its variables are gone"
    with daemon.api.sandbox(second).follow("events", follow=1) as events:
        os.kill(daemon.vm_of(second), signal.SIGKILL)
        assert any(e.data["type"] == "vm.died" for e in events)
    assert raw.ok("run_command", command="true")["sandbox_id"] not in (first, second)


def test_a_sandbox_that_is_deleted_before_its_first_call_goes_on(
    make_daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    held = tmp_path / "held"
    d = make_daemon(env={"PANDASTACK_FAULT": f"mcp.sandbox={held}"}).wait_ready()
    with ThreadPoolExecutor(1) as pool:
        for session in (None, "s"):
            for tool, arguments in [
                ("run_command", {"command": "true"}),
                ("read_file", {"path": "/etc/hostname"}),
                ("list_dir", {}),
                ("snapshot", {}),
            ]:
                os.mkfifo(held)
                call = pool.submit(Raw(d.api, session=session).fails, tool, **arguments)
                with held.open("wb"):
                    held.unlink()
                    (made,) = d.api.ids()
                    d.api.sandbox(made).discard()
                assert "sandbox" in call.result()
    d.stop()
    d.check_clean()


def test_without_a_session_each_call_has_a_sandbox_of_its_own(api: Api) -> None:
    raw = Raw(api)
    before = api.ids()
    assert "absolute" in raw.fails("read_file", path="data.csv")
    assert api.ids() == before
    ids = {raw.ok("run_command", command="true")["sandbox_id"] for _ in range(2)}
    assert api.ids() - before == ids
    assert len(ids) == 2
    for i in ids:
        assert raw.ok("delete_sandbox", sandbox_id=i) == {"sandbox_id": i}
    assert api.ids() == before
    assert "sandbox not found" in raw.fails("run_command", command="true", sandbox_id=ids.pop())


def test_the_endpoint_of_one_sandbox(box: Sandbox) -> None:
    raw = Raw(box.api, f"{box.path}/mcp")
    tools = raw.legacy("tools/list")["result"]["tools"]
    assert [t["name"] for t in tools] == SANDBOX_TOOLS
    assert all("sandbox_id" not in t["inputSchema"]["properties"] for t in tools)
    before = box.api.ids()
    assert raw.ok("run_code", code="y = 3")["sandbox_id"] == box.id
    assert raw.ok("run_code", code="y", sandbox_id="another")["text"] == "3"
    assert box.api.ids() == before
    assert raw.legacy("tools/call", {"name": "delete_sandbox", "arguments": {}})["error"]["code"] == -32602
    assert box.sessions() == {}, "the kernels of the tools are not in the API's lists"
    missing = Raw(box.api, "/v1/sandboxes/00000000-0000-0000-0000-000000000000/mcp")
    assert "sandbox not found" in missing.fails("run_command", command="true")
    other = raw.legacy("resources/read", {"uri": "sandbox://another/etc/hostname"})
    assert other["error"]["code"] == -32602


def test_other_languages(raw: Raw) -> None:
    assert raw.ok("run_code", code="const a = 20; a + 1", language="js")["text"] == "21"
    assert raw.ok("run_code", code="a", language="javascript")["text"] == "20"
    assert raw.ok("run_code", code="echo $((6 * 7))", language="bash")["stdout"] == "42\n"
    assert "klingon" in raw.fails("run_code", code="1", language="klingon")


def test_time_limits(raw: Raw) -> None:
    raw.ok("run_code", code="x = 1")
    said = raw.fails("run_code", code="print('begun', flush=True)\nwhile True: pass", timeout_seconds=1)
    assert "begun" in said
    assert "time limit" in said
    assert raw.ok("run_code", code="x")["text"] == "1"
    said = raw.fails("run_command", command="echo begun; sleep 100", timeout_seconds=1)
    assert "begun" in said
    assert "time limit" in said


def test_commands_take_no_more_than_the_tool_says(raw: Raw) -> None:
    assert raw.ok("run_command", command="exit 3", background=True, cmd="exit 4")["exit_code"] == 3


def test_a_model_does_not_choose_the_network(raw: Raw) -> None:
    made = raw.ok("create_sandbox", network={"egress": "none"}, persistent=True, metadata={"a": "b"})
    found = raw.api.sandbox(made["sandbox_id"]).info()
    raw.ok("delete_sandbox", sandbox_id=made["sandbox_id"])
    assert (found["metadata"], found["persistent"]) == ({"a": "b"}, False)
    assert found["network"] != {"egress": "none"}


def test_nul_bytes_hide_nothing(raw: Raw) -> None:
    result = raw.tool("run_command", command=r"printf 'a\0b\n'; exit 3")
    assert "a\0b\n" in result["content"][0]["text"]
    assert "exit code 3" in result["content"][0]["text"]


def test_files(raw: Raw) -> None:
    every = bytes(range(256))
    assert raw.ok("write_file", path="/workspace/d/é t.txt", content="grüße\n")["bytes"] == 8
    assert raw.ok("read_file", path="/workspace/d/é t.txt")["text"] == "grüße\n"
    raw.ok("write_file", path="/workspace/d/b", content=base64.b64encode(every).decode(), encoding="base64")
    raw.ok("write_file", path="/workspace/d/empty", content="")
    entries = raw.ok("list_dir", path="/workspace/d")["entries"]
    assert {e["name"]: e["size"] for e in entries} == {"é t.txt": 8, "b": 256, "empty": 0}
    result = raw.tool("read_file", path="/workspace/d/b")
    resource = result["content"][0]["resource"]
    assert base64.b64decode(resource["blob"]) == every
    assert "text" not in result["structuredContent"]
    assert raw.ok("read_file", path="/workspace/d/empty")["text"] == ""
    raw.ok("run_code", code="from PIL import Image\nImage.new('RGB', (2, 2)).save('/workspace/d/i.png')")
    (image,) = raw.tool("read_file", path="/workspace/d/i.png")["content"]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")

    read = raw.legacy("resources/read", {"uri": resource["uri"]})["result"]["contents"]
    assert read == [resource]
    (template,) = raw.legacy("resources/templates/list")["result"]["resourceTemplates"]
    assert template["uriTemplate"] == "sandbox://{sandbox_id}{+path}"

    assert "no such file" in raw.fails("read_file", path="/nonsense").lower()
    assert "absolute" in raw.fails("read_file", path="relative")
    assert "path" in raw.fails("read_file")
    assert "list" in raw.fails("read_file", path="/workspace")
    assert "Base64" in raw.fails("write_file", path="/workspace/x", content="?", encoding="base64")
    raw.ok("run_command", command="truncate -s 9M /workspace/big")
    assert "8 MiB" in raw.fails("read_file", path="/workspace/big")


def test_a_folder_that_is_no_list_for_a_model(raw: Raw) -> None:
    names = "seq -f %0200g 6000 | xargs touch"
    raw.ok("run_command", command=f"mkdir -p /tmp/many/few && cd /tmp/many && touch few/one && {names}")
    assert "longer than 1 MiB: list a subfolder" in raw.fails("list_dir", path="/tmp/many")
    assert [e["name"] for e in raw.ok("list_dir", path="/tmp/many/few")["entries"]] == ["one"]


def test_install_packages(raw: Raw, tmp_path: Path) -> None:
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("tiny.py", "SIZE = 'tiny'\n")
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    path = f"/tmp/{wheel.name}"
    raw.ok("write_file", path=path, content=base64.b64encode(wheel.read_bytes()).decode(), encoding="base64")
    assert raw.ok("install_packages", packages=[path])["exit_code"] == 0
    assert raw.ok("run_code", code="import tiny\ntiny.SIZE")["text"] == "'tiny'"
    for wrong in ("--target=/x", "-r/etc/passwd", "a'b", "a\nb", "", 5, "$(reboot)", "`x`"):
        assert "packages[0]" in raw.fails("install_packages", packages=[wrong]), wrong
    assert "packages" in raw.fails("install_packages", packages=[])
    assert "packages" in raw.fails("install_packages", packages=["x"] * 65)


def test_install_packages_from_the_index(raw: Raw) -> None:
    installed = raw.ok("install_packages", packages=["humanize==4.9.0"], timeout_seconds=250)
    if installed["exit_code"] and "No matching distribution" in installed["stdout"] + installed["stderr"]:
        pytest.skip("the package index is unreachable from here")
    assert installed["exit_code"] == 0, installed
    assert raw.ok("run_code", code="import humanize\nhumanize.intcomma(12345)")["text"] == "'12,345'"


def test_copies_keep_the_kernel(raw: Raw) -> None:
    raw.ok("run_code", code="z = 11")
    copies = raw.ok("fork_sandbox", count=2)["children"]
    snapshot = raw.ok("snapshot")["snapshot_id"]
    copies.append(raw.ok("create_sandbox", from_snapshot=snapshot)["sandbox_id"])
    for n, copy in enumerate(copies):
        assert raw.ok("run_code", code=f"z += {n}; z", sandbox_id=copy)["text"] == str(11 + n)
    assert raw.ok("run_code", code="z")["text"] == "11", "each has its own"
    listed = {s["id"] for s in raw.ok("list_sandboxes")["sandboxes"]}
    assert set(copies) <= listed
    for copy in copies:
        raw.ok("delete_sandbox", sandbox_id=copy)
    raw.api.call("DELETE", f"/v1/snapshots/{snapshot}", want=204)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("run_code", {}, "code"),
        ("run_code", {"code": 5}, "code"),
        ("run_code", {"code": "1", "timeout_seconds": -1}, "timeout_seconds"),
        ("run_command", {}, "command"),
        ("run_command", {"command": "x", "env": {"a": 1}}, "env"),
        ("write_file", {"path": "/x"}, "content"),
        ("write_file", {"path": "/x", "content": "", "encoding": "latin-1"}, "encoding"),
        ("delete_sandbox", {}, "sandbox_id"),
        ("read_file", {"path": "/x", "sandbox_id": 5}, "sandbox_id"),
        ("create_sandbox", {"template": "nonsense"}, "nonsense"),
    ],
)
def test_a_wrong_argument_is_told_to_the_model(api: Api, tool: str, arguments: Json, said: str) -> None:
    before = api.ids()
    assert said in Raw(api).fails(tool, **arguments)
    assert api.ids() == before, "and makes no sandbox"


def test_a_client_without_streams_gets_one_object(raw: Raw) -> None:
    body = {"name": "run_code", "arguments": {"code": "1"}}
    response = raw.post(
        {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": body}, Accept="application/json"
    )
    assert response.headers["Content-Type"] == "application/json"
    assert response.json()["id"] == "x"


def test_a_message_cancels_a_call_of_its_session(raw: Raw) -> None:
    sandbox = raw.ok("run_code", code="x = 8")["sandbox_id"]
    endless = {"code": "print('go', flush=True)\nwhile True: pass", "timeout_seconds": 900}
    call = {"name": "run_code", "arguments": endless}
    body = {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {**call, "_meta": {"progressToken": 1}}}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}
    with raw.api.request("POST", "/mcp", json=body, headers=raw.headers, stream=True) as response:
        lines = response.iter_lines()
        assert b"event" in next(lines), "it runs"
        other = Raw(raw.api, session="another")
        assert other.post(cancel).status_code == 202
        assert other.ok("run_command", command="true", sandbox_id=sandbox)["exit_code"] == 0
        assert raw.post(cancel).status_code == 202
        with contextlib.suppress(requests.RequestException):
            assert not any(b'"result"' in line for line in lines)
    assert raw.ok("run_code", code="x", timeout_seconds=60)["text"] == "8"


# ---- what is refused ----


def error_code(response: requests.Response) -> int:
    return cast(int, response.json()["error"]["code"])


def test_modern_requests_that_are_malformed(api: Api) -> None:
    raw = Raw(api)
    good = raw.modern("tools/list")
    assert good.status_code == 200
    assert good.json()["result"]["resultType"] == "complete"
    assert good.json()["result"]["cacheScope"] == "public"
    for headers, code in [
        ({"Mcp-Method": "tools/call"}, -32020),
        ({"MCP-Protocol-Version": "2025-06-18"}, -32020),
    ]:
        response = raw.modern("tools/list", None, **headers)
        assert (response.status_code, error_code(response)) == (400, code)
    bare = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    response = raw.post(bare, **{"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"})
    assert (response.status_code, error_code(response)) == (400, -32602)
    response = raw.post(bare, **{"MCP-Protocol-Version": "1900-01-01"})
    assert (response.status_code, error_code(response)) == (400, -32022)
    assert response.json()["error"]["data"]["supported"][0] == MODERN
    for method in ("initialize", "ping", "nonsense"):
        response = raw.modern(method)
        assert (response.status_code, error_code(response)) == (404, -32601)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 5000, b'{"jsonrpc":"2.0","id":1,"id":2}', b"5"])
def test_what_is_no_json(api: Api, body: bytes) -> None:
    response = Raw(api).post(body)
    assert (response.status_code, error_code(response), response.json()["id"]) == (400, -32700, None)


def test_what_is_no_request(api: Api) -> None:
    raw = Raw(api)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for wrong in ([ping], [], {}, {**ping, "id": None}, {**ping, "id": {}}, {**ping, "params": 5}):
        response = raw.post(wrong)
        assert (response.status_code, error_code(response)) == (400, -32600)
    assert raw.legacy("nonsense")["error"]["code"] == -32601
    assert raw.legacy("tools/call", {"name": "nonsense"})["error"]["code"] == -32602
    assert raw.legacy("tools/call", {"name": "run_code", "arguments": 5})["error"]["code"] == -32602
    for uri in (None, "file:///etc/passwd", "sandbox://", "sandbox:///x"):
        assert raw.legacy("resources/read", {"uri": uri})["error"]["code"] == -32602
    assert raw.post(b" " * (18 << 20)).status_code == 413


def test_a_resource_that_is_not_there(api: Api) -> None:
    uri = "sandbox://nobody/x"
    legacy = Raw(api).legacy("resources/read", {"uri": uri})["error"]
    modern = Raw(api).modern("resources/read", {"uri": uri}, **{"Mcp-Name": uri}).json()["error"]
    assert (legacy["code"], modern["code"]) == (-32002, -32602), "each as its version says"
    assert legacy["data"] == modern["data"] == {"uri": uri}


def test_blanks_around_a_header_do_not_count(api: Api) -> None:
    assert Raw(api).modern("tools/list", None, **{"Mcp-Method": "tools/list \t"}).status_code == 200


def test_other_methods_of_http(api: Api) -> None:
    for method in ("GET", "PUT"):
        response = api.request(method, "/mcp")
        assert (response.status_code, response.headers["Allow"]) == (405, "POST, DELETE")
    api.refused("DELETE", "/mcp", 405, "request.method")
    for session in ("x" * 129, "", "a b", "\xe9"):
        api.refused("POST", "/mcp", 400, "request.invalid", json={
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {},
        }, headers={"Mcp-Session-Id": session})  # fmt: skip


@pytest.mark.parametrize("path", ["/mcp", "/v1/mcp", "/v1/sandboxes/x/mcp"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example:8080"},
        {"Host": "evil.example"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
    ],
    ids=lambda h: "-".join(h),
)
def test_pages_of_other_machines_are_refused(api: Api, path: str, headers: dict[str, str]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    api.refused("POST", path, 403, "auth.forbidden", json=body, headers=headers)
    if path != "/v1/sandboxes/x/mcp":
        api.refused("DELETE", path, 403, "auth.forbidden", headers={**headers, "Mcp-Session-Id": "x"})


def test_pages_of_this_machine_are_not(api: Api) -> None:
    for headers in ({"Origin": "http://localhost:6274"}, {"Host": "localhost"}, {"Origin": "http://[::1]"}):
        assert Raw(api).legacy("ping", None, **headers)["result"] == {}


# ---- on stdio ----


class Stdio:
    """`pandastack mcp`, line by line."""

    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [str(binary()), "mcp"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, method: str, message_id: int | str | None = None, **params: Any) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method, "params": params}
        if message_id is not None:
            message["id"] = message_id
        self.write(json.dumps(message))

    def read(self) -> Json:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return cast(Json, json.loads(line))

    def ask(self, method: str, **params: Any) -> Json:
        self.send(method, 1, **params)
        answer = self.read()
        assert answer["id"] == 1
        return answer

    def end(self) -> int:
        """Its exit status, after the end of stdin."""
        out, err = self.process.communicate(timeout=60)
        assert (out, err) == ("", "")
        return self.process.returncode


@pytest.fixture
def stdio(daemon: Daemon, tmp_path: Path) -> Iterator[Callable[..., Stdio]]:
    made: list[Stdio] = []

    def make(**env: str) -> Stdio:
        made.append(Stdio({**environment(daemon, tmp_path), **env}))
        return made[-1]

    yield make
    for s in made:
        s.process.kill()
        s.process.communicate()


def test_stdio_answers_each_line(stdio: Callable[..., Stdio], api: Api) -> None:
    s = stdio()
    s.write("")
    s.write("nonsense")
    assert s.read()["error"]["code"] == -32700
    assert s.ask("ping")["result"] == {}
    assert s.ask("nonsense")["error"]["code"] == -32601
    s.write('{"jsonrpc": "1.0", "id": 4}')
    assert s.read()["error"]["code"] == -32600
    # A modern client need not say anything twice here; a name may hold what a header may not.
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    assert s.ask("server/discover", _meta=meta)["result"]["supportedVersions"][0] == MODERN
    assert s.ask("tools/call", name="ä\nX-Evil: 1", _meta=meta)["error"]["code"] == -32602
    s.send("notifications/initialized")
    assert s.end() == 0


def test_stdio_carries_calls_side_by_side(stdio: Callable[..., Stdio], api: Api) -> None:
    s = stdio()
    before = api.ids()
    s.ask("tools/call", name="run_code", arguments={"code": "x = 1"})
    (sandbox,) = api.ids() - before
    s.send("tools/call", "slow", name="run_code", arguments={"code": "input_never_comes = 1\nwhile True: pass"})
    s.send("tools/call", "fast", name="run_command", arguments={"command": "echo fast"})
    answer = s.read()
    assert (answer["id"], answer["result"]["structuredContent"]["stdout"]) == ("fast", "fast\n")
    s.send("notifications/cancelled", requestId="slow")
    s.send("notifications/cancelled", requestId="nobody")
    answer = s.ask("tools/call", name="run_code", arguments={"code": "x"})
    assert answer["result"]["structuredContent"]["text"] == "1"
    assert api.ids() - before == {sandbox}
    s.send("tools/call", "endless", name="run_code", arguments={"code": "while True: pass"})
    assert s.end() == 0, "what is under way ends with stdin"
    assert api.ids() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stdio_ends_its_session_on_a_signal(stdio: Callable[..., Stdio], api: Api, number: signal.Signals) -> None:
    s = stdio()
    before = api.ids()
    s.ask("tools/call", name="run_command", arguments={"command": "true"})
    assert len(api.ids() - before) == 1
    s.process.send_signal(number)
    assert s.process.wait(60) == 130
    assert api.ids() == before


def test_stdio_says_what_to_do_without_a_daemon(stdio: Callable[..., Stdio]) -> None:
    s = stdio(PANDASTACK_API="http://127.0.0.1:1")
    assert "pandastack serve" in s.ask("ping")["error"]["message"]
    s = stdio(PANDASTACK_API_KEY="pds_wrong")
    assert "PANDASTACK_API_KEY" in s.ask("ping")["error"]["message"]


def test_a_session_outlives_its_daemon(make_daemon: Callable[..., Daemon]) -> None:
    first = make_daemon(args=["--keep"]).wait_ready()
    sandbox = Raw(first.api, session="s").ok("run_code", code="x = 4")["sandbox_id"]
    first.stop()
    second = make_daemon(first.data_dir).wait_ready()
    raw = Raw(second.api, session="s")
    after = raw.ok("run_code", code="x")
    assert (after["sandbox_id"], after["text"]) == (sandbox, "4")
    assert second.api.request("DELETE", "/mcp", headers={"Mcp-Session-Id": "s"}).status_code == 204
    assert second.api.ids() == set()
    second.stop()


def test_an_unknown_sandbox_is_no_failure_of_the_protocol(api: Api) -> None:
    assert "sandbox not found" in Raw(api, "/v1/sandboxes/x/mcp").fails("list_dir")
