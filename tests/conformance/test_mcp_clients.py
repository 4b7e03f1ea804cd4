# SPDX-License-Identifier: Apache-2.0
"""The official MCP clients from npm, unmodified: TypeScript's of both eras, and the inspector's command line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Daemon
from harness.daemon import binary
from harness.node import NEWER, Node

PACKAGES = ("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/sdk@1.32.2")
INSPECTOR = "@modelcontextprotocol/inspector"
PROGRAM = Path(__file__).parent / "mcp" / "client.mjs"
NEW, OLD = "@modelcontextprotocol/client", "@modelcontextprotocol/sdk"
MODERN = "2026-07-28"
TOOLS = 11


@pytest.fixture(scope="session")
def clients() -> Node:
    return Node("mcp-clients", PACKAGES)


@pytest.fixture(scope="session")
def inspector() -> Node:
    return Node("mcp-inspector", [f"{INSPECTOR}@2.12.0"], NEWER)


@pytest.fixture
def env(daemon: Daemon) -> Iterator[dict[str, str]]:
    """Where `pandastack mcp` and the programs find the daemon, and nothing else. No sandbox may be left."""
    before = daemon.api.ids()
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("PANDASTACK_", "XDG_"))}
    where = {"PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": daemon.key, "HOME": str(daemon.home)}
    yield {**ours, **where, "NO_PROXY": "*", "MCP_INSPECTOR_SECRET_STORE": "memory"}
    assert daemon.api.ids() == before, "sandboxes are left"


@pytest.mark.parametrize(
    ("client", "era", "transport"),
    [
        (NEW, MODERN, "http"),
        (NEW, MODERN, "stdio"),
        (NEW, "auto", "http"),
        (NEW, "auto", "stdio"),
        (NEW, "legacy", "http"),
        (OLD, "legacy", "http"),
        (OLD, "legacy", "stdio"),
    ],
)
def test_typescript(env: dict[str, str], clients: Node, client: str, era: str, transport: str) -> None:
    said = {"CLIENT": client, "ERA": era, "TRANSPORT": transport, "PROGRAM": str(binary())}
    spoken = clients.run_module(PROGRAM.read_text(), {**env, **said})
    assert spoken.split() == ["2025-11-25" if era == "legacy" else MODERN]


Inspect = Callable[..., Any]


@pytest.fixture(params=["http", "stdio"])
def inspect(request: pytest.FixtureRequest, daemon: Daemon, env: dict[str, str], inspector: Node) -> Inspect:
    """A method, called by `mcp-inspector --cli`; what it prints."""
    if request.param == "http":
        server = [f"{daemon.url}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {daemon.key}"]
    else:
        given = [f"{name}={env[name]}" for name in ("PANDASTACK_API", "PANDASTACK_API_KEY")]
        server = [*(word for pair in given for word in ("-e", pair)), str(binary()), "mcp"]
    program = inspector.module(f"{INSPECTOR}/clients/launcher/build/index.js")
    return lambda *args: json.loads(inspector.run([program, "--cli", *server, "--method", *args], env))


DOCS = Path(__file__).parents[2] / "docs" / "mcp.md"
CONFIGURATIONS = re.findall(r"```json\n(.*?)```", DOCS.read_text().split("## Tools")[0], re.DOTALL)


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_configurations_of_the_docs(
    text: str, daemon: Daemon, env: dict[str, str], inspector: Node, tmp_path: Path
) -> None:
    """The inspector reads them as other clients do, less each one's way to keep the key out of the file."""
    text = re.sub(r"\$\{[^}]*\}", daemon.key, text.replace("http://127.0.0.1:8080", daemon.url))
    given = json.loads(text)
    servers = given.get("mcpServers") or given["servers"]
    if "command" in servers["pandastack"]:
        servers["pandastack"]["env"] = {"PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": daemon.key}
    else:
        servers["pandastack"].setdefault("type", "http")  # Cursor sees it by the URL
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    args = ["--cli", "--config", str(file), "--server", "pandastack", "--method", "tools/list"]
    path = f"{binary().parent}:{env['PATH']}"
    listed = inspector.run(
        [inspector.module(f"{INSPECTOR}/clients/launcher/build/index.js"), *args], {**env, "PATH": path}
    )
    assert len(json.loads(listed)["tools"]) == TOOLS


def test_the_inspector_lists_tools(inspect: Inspect) -> None:
    assert len(inspect("tools/list")["tools"]) == TOOLS


def test_the_inspector_calls_tools(inspect: Inspect, daemon: Daemon) -> None:
    before = daemon.api.ids()
    result = inspect("tools/call", "--tool-name", "run_code", "--tool-arg", "code=print(6 * 7)", "timeout_seconds=30")
    assert not result.get("isError"), result
    assert result["structuredContent"]["stdout"] == "42\n"
    for left in daemon.api.ids() - before:
        daemon.api.sandbox(left).discard()
