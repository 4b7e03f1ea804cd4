# SPDX-License-Identifier: Apache-2.0
"""Many commands over one WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import Api, Daemon, Sandbox
from harness.websocket import RefusedError, WebSocket

Json = dict[str, Any]
MIB = 1 << 20


@pytest.fixture
def ws(box: Sandbox) -> Iterator[WebSocket]:
    """A socket to the module's sandbox."""
    with box.socket("exec/ws") as s:
        yield s


def until_over(ws: WebSocket, ids: set[Any]) -> dict[Any, tuple[str, str, Json]]:
    """What each has written, and its last message."""
    out: dict[tuple[Any, str], str] = {}
    last: dict[Any, Json] = {}
    while set(last) != ids:
        m = ws.json()
        assert m["id"] in ids - set(last), m
        if "stream" in m:
            assert set(m) == {"id", "stream", "data"}
            key = (m["id"], m["stream"])
            out[key] = out.get(key, "") + m["data"]
        else:
            last[m["id"]] = m
    return {i: (out.get((i, "stdout"), ""), out.get((i, "stderr"), ""), last[i]) for i in ids}


def run(ws: WebSocket, cmd: str, **body: Any) -> tuple[str, str, Json]:
    """One command to its end."""
    ws.send({"id": "run", "cmd": cmd, **body})
    return until_over(ws, {"run"})["run"]


def test_one(ws: WebSocket) -> None:
    out, err, last = run(ws, "echo out; echo err >&2; exit 3")
    assert (out, err) == ("out\n", "err\n")
    assert last.pop("duration_ms") >= 0
    assert last == {"id": "run", "exit": 3}


def test_what_a_request_may_hold(ws: WebSocket) -> None:
    out, _, last = run(ws, 'cat; pwd; echo "$X"; id -un', stdin="in\n", cwd="/tmp", env={"X": "y"}, user="nobody")
    assert out == "in\n/tmp\ny\nnobody\n"
    assert last["exit"] == 0
    assert run(ws, "kill -9 $$")[2].items() >= {"exit": 137, "signal": 9}.items()


def test_many_at_once(ws: WebSocket) -> None:
    """They run beside each other: each waits for the last one."""
    n = 32
    for i in range(n):
        cmd = f"touch /tmp/ws-{i}; until [ -e /tmp/ws-{n - 1} ]; do sleep 0.05; done; echo {i}; exit {i}"
        ws.send({"id": i, "cmd": cmd})
    for i, (out, err, last) in until_over(ws, set(range(n))).items():
        assert (out, err, last["exit"]) == (f"{i}\n", "", i)
    run(ws, "rm /tmp/ws-*")


def test_too_many(ws: WebSocket) -> None:
    for i in range(32):
        ws.send({"id": i, "cmd": "sleep 1000"})
    ws.send({"id": "more", "cmd": "true"})
    m = ws.json()
    assert m["id"] == "more"
    assert m["code"] == "limit.reached"
    for i in range(32):
        ws.send({"id": i, "cancel": True})
    assert {e[2]["exit"] for e in until_over(ws, set(range(32))).values()} == {137}
    assert run(ws, "echo free")[0] == "free\n"


def test_cancel(ws: WebSocket) -> None:
    ws.send({"id": "a", "cmd": "echo begun; sleep 1000"})
    assert ws.json() == {"id": "a", "stream": "stdout", "data": "begun\n"}
    ws.send({"id": "b", "cmd": "sleep 1000"})
    ws.send({"id": "a", "cancel": True})
    assert ws.json().items() >= {"id": "a", "exit": 137, "signal": 9}.items()
    ws.send({"id": "a", "cancel": True})
    assert ws.json().items() >= {"id": "a", "code": "process.not_found"}.items()
    ws.send({"id": "b", "cancel": True})
    assert ws.json()["id"] == "b"


def test_timeout(ws: WebSocket) -> None:
    out, _, last = run(ws, "echo before; sleep 1000", timeout_seconds=0.5)
    assert out == "before\n"
    assert last == {"id": "run", "error": "command timeout after 0.5s", "code": "timeout"}


def test_text_that_is_none(ws: WebSocket) -> None:
    assert run(ws, r"printf 'a\377b\303'; printf '\000\001' >&2")[:2] == ("a�b�", "\0\1")


def test_much_output(ws: WebSocket) -> None:
    out, err, _ = run(ws, f"head -c {8 * MIB} /dev/zero | tr '\\0' '\\001'; head -c {MIB} /dev/zero >&2")
    assert out == "\1" * (8 * MIB)
    assert err == "\0" * MIB


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("x", {"code": "request.invalid"}),
        ("[]", {"code": "request.invalid"}),
        ('{"id":1,"id":1}', {"code": "request.invalid"}),
        ("", {"code": "request.invalid"}),
        ({"cmd": "true"}, {"error": "`id` must be a text of up to 128 bytes or a number", "code": "request.invalid"}),
        ({"id": "x" * 129, "cmd": "true"}, {"code": "request.invalid"}),
        ({"id": "", "cmd": "true"}, {"code": "request.invalid"}),
        ({"id": None, "cmd": "true"}, {"code": "request.invalid"}),
        ({"id": [], "cmd": "true"}, {"code": "request.invalid"}),
        ({"id": 1}, {"id": 1, "code": "request.invalid"}),
        ({"id": 1, "cmd": ""}, {"id": 1, "code": "request.invalid"}),
        ({"id": 1, "cmd": 1}, {"id": 1, "code": "request.invalid"}),
        ({"id": 1, "cmd": "x" * 200_000}, {"id": 1, "code": "request.too_large"}),
        ({"id": 1, "cmd": "true", "cwd": "/no/such"}, {"id": 1, "code": "request.invalid"}),
        ({"id": 1, "cmd": "true", "user": "nosuch"}, {"id": 1, "code": "request.invalid"}),
        ({"id": 1, "cmd": "true", "background": True}, {"id": 1, "code": "request.invalid"}),
        ({"id": 1, "cancel": "yes"}, {"id": 1, "code": "request.invalid"}),
        ({"id": 1, "cancel": True}, {"id": 1, "code": "process.not_found"}),
    ],
)
def test_what_is_wrong_with_a_message(ws: WebSocket, message: str | Json, answer: Json) -> None:
    """It is said, and the socket goes on."""
    ws.send(message)
    got = ws.json()
    assert got.items() >= answer.items()
    assert isinstance(got["error"], str)
    assert set(got) - {"id"} == {"error", "code"}
    assert ("id" in got) == ("id" in answer)
    assert run(ws, "echo on")[0] == "on\n"


def test_an_id_twice(ws: WebSocket) -> None:
    ws.send({"id": "a", "cmd": "sleep 1000"})
    ws.send({"id": "a", "cmd": "true"})
    assert ws.json()["code"] == "conflict"
    ws.send({"id": "a", "cancel": True})
    assert ws.json()["exit"] == 137
    ws.send({"id": "a", "cmd": "true"})
    assert ws.json()["exit"] == 0


def test_binary_is_refused(ws: WebSocket) -> None:
    ws.send(b"{}")
    assert ws.receive() is None
    assert (ws.closed, ws.reason) == (1003, "only text messages are taken here")


def test_a_client_that_goes_away_cancels(box: Sandbox) -> None:
    for closes in (True, False):
        ws = box.socket("exec/ws")
        ws.send({"id": 1, "cmd": "echo $$; exec sleep 1000"})
        pid = ws.json()["data"].strip()
        if closes:
            ws.close()
        ws.drop()
        box.output(f"while [ -e /proc/{pid} ]; do sleep 0.05; done", timeout_seconds=30)


def test_a_reader_that_is_slow(box: Sandbox, ws: WebSocket, daemon: Daemon) -> None:
    """Its commands wait; another socket's do not."""
    with daemon.stays_small(), box.socket("exec/ws") as other:
        ws.send({"id": "flood", "cmd": "yes"})
        assert ws.json()["id"] == "flood"
        for _ in range(3):
            assert run(other, "echo on")[0] == "on\n"
        ws.send({"id": "flood", "cancel": True})
        m = ws.json()
        while "stream" in m:
            m = ws.json()
        assert m["exit"] == 137


def test_hibernation(sandbox: Callable[..., Sandbox]) -> None:
    """It ends what runs, and the next command wakes the sandbox."""
    s = sandbox("base")
    with s.socket("exec/ws") as ws:
        ws.send({"id": 1, "cmd": "echo; sleep 1000"})
        ws.json()
        s.hibernate()
        m = ws.json()
        assert m["id"] == 1
        assert m["code"] in ("sandbox.failed", "conflict")
        assert s.status() == "hibernated"
        assert run(ws, "echo on")[0] == "on\n"
        s.delete()
        ws.send({"id": 2, "cmd": "true"})
        assert ws.json()["id"] == 2


def test_keys(api: Api, box: Sandbox) -> None:
    """By header, by query, and as a browser can: by subprotocol, which is not told back."""
    target = f"{box.path}/exec/ws"
    for query, headers in [
        ("", {"Authorization": f"Bearer {api.key}"}),
        (f"?access_token={api.key}", {}),
        ("", {"Sec-WebSocket-Protocol": f"pds-pty, bearer.{api.key}"}),
        ("", {"Sec-WebSocket-Protocol": f"bearer.{api.key},pds-pty"}),
        ("", {"Sec-WebSocket-Protocol": f"bearer.{api.key}"}),
    ]:
        with WebSocket(api.url, target + query, headers) as ws:
            assert run(ws, "echo on")[0] == "on\n"
            offered = "pds-pty" in headers.get("Sec-WebSocket-Protocol", "")
            assert ws.headers.get("sec-websocket-protocol") == ("pds-pty" if offered else None)
    for query, headers in [
        ("", {}),
        ("?access_token=pds_x", {}),
        ("", {"Authorization": "Bearer pds_x", "Sec-WebSocket-Protocol": f"bearer.{api.key}"}),
        ("", {"Sec-WebSocket-Protocol": "pds-pty, bearer.pds_x"}),
        ("", {"Sec-WebSocket-Protocol": f"pds-pty, {api.key}"}),
        ("", {"Sec-WebSocket-Protocol": f"bearer.{api.key}", "Upgrade": "h2c"}),
    ]:
        with pytest.raises(RefusedError) as e:
            WebSocket(api.url, target + query, headers)
        assert e.value.status == 401


@pytest.mark.parametrize(
    ("headers", "status", "word"),
    [
        ({"Sec-WebSocket-Version": "8"}, 400, b"must be 13"),
        ({"Sec-WebSocket-Version": ""}, 400, b"must be 13"),
        ({"Sec-WebSocket-Key": "x"}, 400, b"16 bytes in base64"),
        ({"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA"}, 400, b"16 bytes in base64"),
        ({"Upgrade": "h2c"}, 400, b"this path is a WebSocket"),
        ({"Connection": "close"}, 400, b"this path is a WebSocket"),
        ({"Origin": "http://evil.example"}, 403, b"Origin must be localhost"),
        ({"Origin": "null"}, 403, b"Origin must be localhost"),
        ({"Host": "evil.example"}, 403, b"Host must be localhost"),
    ],
)
def test_handshakes_that_are_refused(box: Sandbox, headers: dict[str, str], status: int, word: bytes) -> None:
    with pytest.raises(RefusedError) as e:
        box.socket("exec/ws", headers)
    assert e.value.status == status
    assert word in e.value.body


def test_a_page_of_this_machine_may(box: Sandbox) -> None:
    with box.socket("exec/ws", {"Origin": "http://localhost:3000"}) as ws:
        assert run(ws, "echo on")[0] == "on\n"
