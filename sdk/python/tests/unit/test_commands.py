# SPDX-License-Identifier: Apache-2.0
"""Commands in the background."""

from __future__ import annotations

import json
from typing import Any, Callable

import pytest
from bad_server import Server, answer, event, events

from pandastack import Client, ExecInterrupted, Process, Sandbox, SandboxFailed

Serve = Callable[..., Server]
SANDBOX = {"id": "sb", "template": "base", "status": "running"}
INFO = {"id": 7, "pid": 82, "cmd": "c", "status": "running", "stdin": True, "started_at": "t", "output_bytes": 0}
OVER = {**INFO, "status": "exited", "exit_code": 143, "signal": 15}


def process_of(server: Server) -> Process:
    return Process(Sandbox(Client(server.url, "k"), SANDBOX), INFO)


def info(**more: object) -> bytes:
    return answer(json.dumps({**INFO, **more}))


def asked(server: Server) -> list[str]:
    return [request.split(b" HTTP")[0].decode() for request in server.requests]


def test_a_start(serve: Serve) -> None:
    server = serve(answer(json.dumps(INFO), "201 Created"))
    process = Sandbox(Client(server.url, "k"), SANDBOX).commands.start("c", stdin=True, timeout=2)
    assert asked(server) == ["POST /v1/sandboxes/sb/exec"]
    assert json.loads(server.requests[0].split(b"\r\n\r\n")[1]) == {
        "cmd": "c",
        "background": True,
        "stdin": True,
        "timeout_seconds": 2,
    }
    assert (process.id, process.cmd, process.status, process.exit_code) == (7, "c", "running", None)


WAIT = "POST /v1/sandboxes/sb/processes/7/wait?timeout_seconds="


def test_a_wait_goes_on_until_the_end_over_several_requests(serve: Serve) -> None:
    server = serve(info(), b"", info(), answer(json.dumps(OVER)))
    process = process_of(server)
    assert process.wait() == 143
    assert (process.status, process.signal) == ("exited", 15)
    assert asked(server) == [f"{WAIT}60"] * 4, "the one that broke is asked again"


@pytest.mark.parametrize(("seconds", "parts"), [(0, ["0"]), (0.2, ["1"]), (60, ["60"]), (61, ["60", "1"])])
def test_a_wait_that_is_over(serve: Serve, seconds: float, parts: list[str]) -> None:
    server = serve(*[info()] * len(parts))
    assert process_of(server).wait(seconds) is None
    assert asked(server) == [WAIT + part for part in parts]


def test_its_output_and_what_is_lost_of_it_in_order(serve: Serve) -> None:
    told: list[Any] = []
    said = [
        event("truncated", bytes=512),
        event("stdout", chunk="a"),
        event("truncated", bytes=3),
        event("stderr", chunk="b"),
        event("exit", exit_code=3, timed_out=False),
    ]
    server = serve(events(*said), events(*said))
    process = process_of(server)
    assert process.stream(told.append, lambda chunk: told.append(chunk.upper()), told.append) == 3
    assert told == [512, "a", 3, "B"]
    assert process.stream() == 3
    assert asked(server) == ["GET /v1/sandboxes/sb/processes/7/stream"] * 2


def test_a_stream_that_breaks_is_no_end(serve: Serve) -> None:
    with pytest.raises(ExecInterrupted, match="not known") as e:
        process_of(serve(events(event("stdout", chunk="half")))).stream()
    assert e.value.stdout == "half"
    with pytest.raises(SandboxFailed, match="panicked"):
        process_of(serve(events(event("error", error="it panicked", code="sandbox.failed")))).stream()


def test_stdin_is_bytes(serve: Serve) -> None:
    server = serve(answer('{"bytes": 2}'), answer('{"bytes": 2}'), b"")
    process = process_of(server)
    process.write("é")
    process.write(b"\0\xff", eof=True)
    path = "POST /v1/sandboxes/sb/processes/7/stdin"
    assert asked(server) == [path, f"{path}?eof=true"]
    assert [r.split(b"\r\n\r\n", 1)[1] for r in server.requests] == ["é".encode(), b"\0\xff"]
