# SPDX-License-Identifier: Apache-2.0
"""Daemons of other versions, and what is none: sdk/conformance/other-servers.json, which both SDKs go through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest
from bad_server import Server, answer

from pandastack import Client, PandastackError, Sandbox, __version__

TABLE = Path(__file__).resolve().parents[3] / "conformance" / "other-servers.json"
CASES: list[dict[str, Any]] = json.loads(TABLE.read_text().replace("OWN", __version__).replace("LONG", "x" * 10000))


def call(client: Client, how: str) -> None:
    if how == "list":
        Sandbox.list(client=client)
    elif how == "get":
        Sandbox.get("sb", client=client)
    else:
        next(Sandbox(client, {"id": "sb", "template": "t", "status": "running"}).follow_logs())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_what_is_said(serve: Callable[..., Server], case: dict[str, Any]) -> None:
    if "body" in case:
        kind, body = "application/json", json.dumps(case["body"])
    else:
        kind, body = ("text/event-stream", case["events"]) if "events" in case else ("text/html", case["text"])
    headers = {"Content-Type": kind, "Pandastack-Version": case.get("version"), "Server": case.get("server")}
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    server = serve(answer(body, f"{case['status']} Words", *lines))
    with Client(server.url, "pds_k") as client, pytest.raises(PandastackError) as e:
        call(client, case["call"])
    message = str(e.value)
    assert type(e.value).__name__ == case["error"], message
    for words in case.get("says", []):
        assert words in message
    assert message == case.get("is", message)
    assert "hides" not in case or case["hides"] not in message
    assert len(message) < 1000
