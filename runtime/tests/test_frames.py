# SPDX-License-Identifier: Apache-2.0
"""The wire format and the MIME encoding, without a kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pandastack_kernel import bundles, frames, publish, tracebacks


def test_layout() -> None:
    assert frames.encode(b"o", b"abc") == b"\x03\x00\x00\x00oabc"
    assert frames.encode(b"d") == b"\x00\x00\x00\x00d"


def test_decoder_takes_any_split() -> None:
    wire = frames.encode(b"o", b"abc") + frames.encode(b"d") + frames.encode(b"m", b"{}")
    for step in (1, 2, 3, 7, len(wire)):
        decoder = frames.Decoder()
        got = []
        for start in range(0, len(wire), step):
            decoder.feed(wire[start : start + step])
            while (frame := decoder.next()) is not None:
                got.append(frame)
        assert got == [(b"o", b"abc"), (b"d", b""), (b"m", b"{}")]


def test_decoder_refuses_what_is_too_large_before_it_comes() -> None:
    decoder = frames.Decoder(max_bytes=10)
    decoder.feed(b"\x0b\x00\x00\x00o")
    with pytest.raises(frames.FrameError):
        decoder.next()


def test_decoder_takes_all_that_the_agent_sends() -> None:
    limits = (Path(__file__).parents[2] / "src/base/limits.h").read_text()
    code_mib, open_kib = (
        int(re.findall(rf"#define {name} \w+\((\d+)\)", limits)[0])
        for name in ("LIMIT_CODE_BYTES", "LIMIT_OPEN_BYTES")
    )
    request = {"code": "\x01" * (code_mib << 20), "env": {"A": "\x01" * ((open_kib << 10) - 100)}}
    frame = frames.encode_json(frames.RUN, request)
    decoder = frames.Decoder()
    decoder.feed(frame)
    assert decoder.next() == (frames.RUN, frame[frames.HEADER_BYTES :])
    decoder.feed((frames.MAX_REQUEST_BYTES + 1).to_bytes(4, "little") + frames.RUN)
    with pytest.raises(frames.FrameError):
        decoder.next()


def test_json_frames_survive_surrogates() -> None:
    frame = frames.encode_json(b"m", {"a": "x\ud800", "b": ["\udcff"], "c": 1})
    assert json.loads(frame[5:]) == {"a": "x\\ud800", "b": ["\\udcff"], "c": 1}


@pytest.mark.parametrize("unit", ["x", "é", "☕", "𝄞", "a☕"])
def test_text_is_cut_between_characters(unit: str) -> None:
    data = (unit * (3 * frames.TEXT_CHUNK_BYTES // len(unit.encode()) + 1)).encode()
    chunks = frames.text_chunks(data)
    assert b"".join(chunks) == data
    assert all(len(chunk) <= frames.TEXT_CHUNK_BYTES for chunk in chunks)
    for chunk in chunks:
        bytes(chunk).decode()


def test_invalid_text_passes_whole() -> None:
    data = b"\x80" * (2 * frames.TEXT_CHUNK_BYTES + 3)
    chunks = frames.text_chunks(data)
    assert b"".join(chunks) == data
    assert all(len(chunk) <= frames.TEXT_CHUNK_BYTES for chunk in chunks)


def test_mime_values_are_strings() -> None:
    encoded = bundles.encode(
        {
            "text/plain": "a",
            "image/png": b"\x89PNG",
            "image/jpeg": "AB\nCD\n",
            "image/svg+xml": b"<svg/>",
            "application/json": {"a": [1, float("nan"), float("inf")]},
            "application/vnd.vega.v5+json": '{"ready":1}',
            "application/geo+json": "no json",
            "text/markdown": ["a\n", "b"],
            "application/x-any": b"\xff",
            "text/html": None,
        }
    )
    assert encoded == {
        "text/plain": "a",
        "image/png": "iVBORw==",
        "image/jpeg": "ABCD",
        "image/svg+xml": "<svg/>",
        "application/json": '{"a":[1,null,null]}',
        "application/vnd.vega.v5+json": '{"ready":1}',
        "application/geo+json": '"no json"',
        "text/markdown": "a\nb",
        "application/x-any": "/w==",
    }


def test_a_result_too_large_names_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MAX_EVENT_BYTES", 10)
    event = publish.result_event({"text/plain": "small", "text/html": "x" * 20}, None, main=True)
    assert event["data"] == {"text/plain": "small"}
    assert event["metadata"] == {"omitted": {"text/html": 20}}


def test_escape() -> None:
    assert tracebacks.escape("é\x1b[31m\r\n\tok\x00\x9b\ud800") == "é\\x1b[31m\\r\n\tok\\x00\\x9b\\ud800"
    assert tracebacks.escape("\x1b[0m\x07", keep_esc=True) == "\x1b[0m\\x07"


def test_an_error_is_cut_to_what_the_agent_takes() -> None:
    for unit in ("x", "\x1b", "\x00", "\u2028", "\ud800", "𝄞", '"'):
        text = unit * (33 << 20)
        event = tracebacks.error_event(text, text, text, None, ansi=True)
        assert len(frames.encode_event(frames.EVENT, event)) < frames.EVENT_FRAME_BYTES
        for key in ("name", "value", "traceback"):
            assert f"\n[... {32 << 20} characters left out ...]\n" in event[key]
    assert tracebacks.error_event("E", "x" * 1000, "y", None)["value"] == "x" * 1000


def test_an_event_too_large_says_so_instead() -> None:
    event = {"type": "result", "data": {}, "metadata": {"note": "x" * frames.EVENT_FRAME_BYTES}}
    frame = frames.encode_event(frames.EVENT, event, [b"bytes of a value"])
    size = len(frames.encode_json(frames.EVENT, event)) - frames.HEADER_BYTES
    assert frame == frames.encode_json(frames.EVENT, {"type": "dropped", "bytes": size})
    event["metadata"] = {"note": "x" * (frames.EVENT_FRAME_BYTES - 1000)}
    frame = frames.encode_event(frames.EVENT, event, [b"bytes"])
    assert frame == frames.encode(frames.BODY, b"bytes") + frames.encode_json(frames.EVENT, event)
