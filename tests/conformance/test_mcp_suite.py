# SPDX-License-Identifier: Apache-2.0
"""The public conformance suite of MCP, unmodified, against the daemon with the tools that it wants (docs/mcp.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Daemon
from harness.daemon import binary
from harness.node import NEWER, Node

SUITE = "@modelcontextprotocol/conformance"
MCP = Path(__file__).parent / "mcp"
# Tools of the suite's names that the suite takes an error of, too.
RESULTS = ("tools-call-simple-text",)


@pytest.mark.parametrize(
    ("version", "revision"),
    [("0.1.16", "2025-11-25"), ("0.2.0-alpha.12", "2025-11-25"), ("0.2.0-alpha.12", "2026-07-28")],
)
def test_suite(version: str, revision: str, make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    node = Node(f"mcp-conformance-{version}", [f"{SUITE}@{version}"], NEWER)
    which = ["--suite", "all", "--spec-version", revision] if version == "0.1.16" else ["--requirements", revision]
    program = binary().with_name("pandastack-mcp-fixture")
    assert program.is_file(), f"{program} is missing: build it"
    daemon = make_daemon(program=program).wait_ready()
    expected = ["--expected-failures", str(MCP / f"expected-{revision}.yml")]
    args = [node.module(f"{SUITE}/dist/index.js"), "server", "--url", f"{daemon.url}/mcp", *which, *expected]
    print(node.run([*args, "--output-dir", str(tmp_path / "results")], os.environ))
    for scenario in RESULTS:
        (checks,) = (tmp_path / "results").glob(f"server-{scenario}-*/checks.json")
        details = next(c["details"] for c in json.loads(checks.read_text()) if c["id"] == scenario)
        assert not details["result"].get("isError"), details
    daemon.stop()
    daemon.check_clean()
