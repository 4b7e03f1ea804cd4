# SPDX-License-Identifier: Apache-2.0
"""What a cell gave, as programs and notebooks see it."""

from __future__ import annotations

import base64
import json

import pytest

from pandastack import ExecResult, Execution, Picture, Result, ServerError
from pandastack.execution import CHART, TABLE

CELL = {
    "status": "ok",
    "exit": 0,
    "exit_code": 0,
    "stdout": "out\n",
    "stderr": "err\n",
    "results": [
        {"image/png": "UE5H", "text/plain": "first", CHART: '{"type": "line"}'},
        {"text/html": "<b>h</b>", "text/plain": "last", TABLE: '{"rows": 2}'},
        {"application/json": '{"a": [1]}', "text/latex": "$x$", "text/markdown": "*m*"},
        {"image/svg+xml": "<svg/>", "image/jpeg": "SlBH"},
    ],
    "truncated": False,
    "kernel_restarted": False,
    "state_lost": True,
    "signal": None,
    "files_changed": ["/workspace/a"],
    "of a newer daemon": 1,
}


def test_accessors() -> None:
    ex = Execution.from_json(CELL)
    first, second, third, fourth = ex.results
    assert (ex.text, ex.png, ex.error) == ("last", "UE5H", None)
    assert (first.png, first.text, first.html, first.chart, first.table) == (
        "UE5H",
        "first",
        None,
        {"type": "line"},
        None,
    )
    assert (second.html, second.table, second.json) == ("<b>h</b>", {"rows": 2}, None)
    assert (third.json, third.latex, third.markdown, third.text) == ({"a": [1]}, "$x$", "*m*", None)
    assert (fourth.svg, fourth.jpeg) == ("<svg/>", "SlBH")
    assert (ex.state_lost, ex.files_changed, ex.signal) == (True, ["/workspace/a"], None)


def test_to_dict_is_json_and_goes_back() -> None:
    ex = Execution.from_json(CELL)
    assert json.loads(json.dumps(ex.to_dict()))["results"] == CELL["results"]
    assert Execution.from_json(ex.to_dict()) == ex


def test_code_that_ran_in_a_process() -> None:
    ok = {"stdout": "x", "stderr": "warning", "exit_code": 0, "truncated": False, "timed_out": False}
    assert (Execution.from_json(ok).status, Execution.from_json(ok).error) == ("ok", None)
    failed = Execution.from_json({**ok, "exit_code": 3})
    assert (failed.status, failed.error, failed.exit_code) == ("error", "warning", 3)
    assert Execution.from_json({**ok, "exit_code": 3, "stderr": ""}).error == "exit status 3"


@pytest.mark.parametrize("answer", [None, [], "x", {}, {"status": "ok"}])
def test_what_is_no_answer(answer: object) -> None:
    with pytest.raises(ServerError, match="update the daemon"):
        Execution.from_json(answer)
    with pytest.raises(ServerError, match="update the daemon"):
        ExecResult.from_json(answer)
    with pytest.raises(ServerError, match="update the daemon"):
        ExecResult.list_from_json([answer])


PNG = base64.b64encode(b"\x89PNG of mine").decode()


def for_model(*, limit: int = 20_000, images: int = 4, **members: object) -> tuple[str, list[Picture]]:
    return Execution.from_json({"status": "ok", "exit_code": 0, **members}).for_model(limit, images)


def test_a_model_sees_words_and_pictures() -> None:
    chart = {"image/png": PNG[:4] + "\n" + PNG[4:], "text/plain": "<Figure>"}
    table = {"text/html": "<b>", "text/plain": "3"}
    text, (picture,) = for_model(stdout="out\n", results=[chart, table], error="Traceback", truncated=True)
    assert text == "out\n3\nTraceback\n[output was cut]"
    assert (picture.data, picture.mime_type, picture.base64) == (b"\x89PNG of mine", "image/png", PNG)
    assert picture.url == f"data:image/png;base64,{PNG}"


def test_a_model_is_told_what_it_does_not_see() -> None:
    assert for_model() == ("[no output]", [])
    assert for_model(state_lost=True) == ("[no output]\n[the kernel began anew: its variables are gone]", [])
    assert for_model(stdout="a" * 50 + "b" * 50, limit=20)[0] == f"{'a' * 10}\n[80 characters left out]\n{'b' * 10}"
    text, pictures = for_model(results=[{"image/jpeg": PNG}] * 3, images=1)
    assert (text, len(pictures)) == ("[a picture was drawn]\n[2 more pictures]", 1)
    assert for_model(stdout="abc", limit=0)[0] == "\n[3 characters left out]\n"


@pytest.mark.parametrize("data", ["", "=", "not base64!", "é", "UE5", '"><script>'])
def test_what_is_no_picture(data: str) -> None:
    assert for_model(results=[{"image/png": data, "text/plain": "words"}]) == ("words", [])


def test_a_notebook_shows_all_of_it() -> None:
    bundle = Execution.from_json({**CELL, "error": "Trace<back>"})._repr_mimebundle_()
    page = bundle["text/html"]
    assert "<pre>out\n</pre>" in page
    assert "data:image/png;base64,UE5H" in page
    assert "<pre>Trace&lt;back&gt;</pre>" in page
    assert bundle["text/plain"] == "out\nfirst\nlast\nerr\nTrace<back>"
    assert Execution(status="ok", exit_code=0)._repr_mimebundle_() == {"text/html": "", "text/plain": ""}


@pytest.mark.parametrize(
    "data",
    [
        {"text/html": '<script>alert(1)</script>"><script>'},
        {"image/svg+xml": '<svg onload="alert(1)"/>'},
        {"image/png": '"><script>alert(1)</script>'},
        {"text/markdown": "<script>alert(1)</script>"},
        {"text/plain": "<script>"},
    ],
)
def test_nothing_of_the_guests_runs_in_the_notebook(data: dict[str, str]) -> None:
    """It is shown in a frame without scripts, or escaped."""
    ex = Execution(status="ok", exit_code=0, stdout="<script>", results=[Result(data)])
    page = ex._repr_mimebundle_()["text/html"]
    assert "<script" not in page
    assert "<svg" not in page
    assert "sandbox srcdoc=" in page or "<iframe" not in page
