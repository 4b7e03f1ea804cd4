# SPDX-License-Identifier: Apache-2.0
"""The parser of server-sent events, and what is gathered from them."""

from __future__ import annotations

import pytest

import pandastack._gather
import pandastack._sse
from pandastack import ExecInterrupted, SandboxFailed, SandboxTimeout, ServerError
from pandastack._gather import Gathered
from pandastack._sse import Decoder, Event

STREAM = (
    ": ping\n\n"
    'event: stdout\ndata: {"chunk":"é \\u2028 x"}\n\n'
    "\n\n: another\n"
    'data:{"a":1}\n\n'
    'event: exit\r\ndata: {"exit_code":\r\ndata: 0}\r\nid: 5\r\nretry\r\n\r\n'
    'event: never\ndata: {"not": "ended"}\n'
).encode()
EVENTS = [
    Event("stdout", {"chunk": "é \u2028 x"}),
    Event("message", {"a": 1}),
    Event("exit", {"exit_code": 0}),
]


def test_cut_anywhere() -> None:
    for at in range(len(STREAM) + 1):
        decoder = Decoder()
        assert decoder.feed(STREAM[:at]) + decoder.feed(STREAM[at:]) == EVENTS, at


def test_byte_by_byte() -> None:
    decoder = Decoder()
    assert [e for i in range(len(STREAM)) for e in decoder.feed(STREAM[i : i + 1])] == EVENTS


def test_a_line_separator_in_text_ends_no_line() -> None:
    text = "a\u2028b\x85c\x0bd"
    (event,) = Decoder().feed(f'data: {{"chunk":"{text[:4]}"}}\n\n'.encode())
    assert event.data == {"chunk": text[:4]}


@pytest.mark.parametrize("data", ["[1]", "text", "", '{"a":', "\ufffd"])
def test_data_that_is_no_object(data: str) -> None:
    with pytest.raises(ServerError, match="no JSON object"):
        Decoder().feed(f"event: x\ndata: {data}\n\n".encode())


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandastack._sse, "EVENT_BYTES_MAX", 100)
    decoder = Decoder()
    for _ in range(50):
        assert decoder.feed(b'data: {"a":1}\n\n')
    with pytest.raises(ServerError, match="too large"):
        for _ in range(50):
            decoder.feed(b"data: x\n")


def gather(*events: tuple[str, dict[str, object]]) -> Gathered:
    gathered = Gathered()
    for name, data in events:
        gathered.take(Event(name, data))
    return gathered


EXIT: tuple[str, dict[str, object]] = ("exit", {"exit_code": 0, "status": "ok", "seq": 9})


def out(chunk: str) -> tuple[str, dict[str, object]]:
    return "stdout", {"chunk": chunk}


def result(text: str, **more: object) -> tuple[str, dict[str, object]]:
    return "result", {"data": {"text/plain": text}, **more}


def test_all_in_order() -> None:
    got = gather(out("a"), ("stderr", {"chunk": "b"}), out("c"), result("1"), EXIT)
    assert got.failure() is None
    assert got.answer() == {
        "stdout": "ac",
        "stderr": "b",
        "results": [{"text/plain": "1"}],
        "truncated": False,
        "exit_code": 0,
        "status": "ok",
    }


def test_output_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandastack._gather, "OUTPUT_MAX", 5)
    got = gather(*[out("éé")] * 1000, ("stderr", {"chunk": "12345"}), EXIT).answer()
    assert got["stdout"] == "ééééé\n[cut: 4000 bytes in all]\n"
    assert got["stderr"] == "12345"
    assert got["truncated"] is True
    assert got["output_bytes"] == {"stdout": 4000, "stderr": 5}


def test_results_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandastack._gather, "RESULTS_MAX", 5)
    got = gather(result("123"), result("456"), result("7"), EXIT).answer()
    assert [r["text/plain"] for r in got["results"]] == ["123", "7"]
    assert got["truncated"] is True
    assert gather(("truncated", {}), EXIT).answer()["truncated"] is True


def test_updates_and_clears() -> None:
    got = gather(result("1", display_id="a"), result("2"), result("3", display_id="a", update=True), EXIT).answer()
    assert [r["text/plain"] for r in got["results"]] == ["3", "2"]
    got = gather(result("1"), out("x"), ("clear_output", {"wait": False}), result("2"), EXIT).answer()
    assert (got["stdout"], got["results"]) == ("", [{"text/plain": "2"}])
    got = gather(result("1"), ("clear_output", {"wait": True}), EXIT).answer()
    assert got["results"] == [{"text/plain": "1"}], "it waits for what comes next"
    got = gather(result("1"), ("clear_output", {"wait": True}), out("x"), EXIT).answer()
    assert (got["stdout"], got["results"]) == ("x", [])


def test_an_exception_in_the_cell_is_an_answer() -> None:
    got = gather(("error", {"error": "Traceback", "error_name": "E", "error_line": 3, "seq": 1}), EXIT)
    assert got.failure() is None
    assert got.answer()["error"] == "Traceback"
    assert got.answer()["error_line"] == 3


def test_failures_keep_what_there_was() -> None:
    so_far = out("so far")
    failed = gather(so_far, ("error", {"error": "gone", "code": "sandbox.failed"})).failure()
    assert isinstance(failed, SandboxFailed)
    assert (failed.stdout, failed.status) == ("so far", 503)
    timeout = gather(so_far, ("error", {"error": "timeout", "code": "timeout", "state_lost": True}), EXIT).failure()
    assert isinstance(timeout, SandboxTimeout)
    assert timeout.stdout == "so far"
    cut = gather(so_far).failure()
    assert isinstance(cut, ExecInterrupted)
    assert cut.stdout == "so far"
