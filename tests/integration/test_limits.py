# SPDX-License-Identifier: Apache-2.0
"""Limits of buffered answers, which the daemon's options set; sessions; a client that leaves a detached cell."""

from __future__ import annotations

from collections.abc import Callable

from harness import Api, Daemon, Sandbox, Session


def test_options_of_the_daemon(make_daemon: Callable[..., Daemon]) -> None:
    d = make_daemon(args=["--max-output=2KiB", "--max-results=4k"]).wait_ready()
    box = d.api.create("code-interpreter")
    kernel = box.session()
    got = kernel.ok("print('x' * 5000)")
    assert got["truncated"] is True
    assert got["output_bytes"]["stdout"] == 5001
    assert 2048 <= len(got["stdout"]) < 2048 + 100
    assert got["stdout"].endswith("[cut: 5001 bytes in all]\n")
    got = kernel.ok("from IPython.display import display\nfor n in (1000, 9000, 1000): display('r' * n)")
    assert [len(r["text/plain"]) for r in got["results"]] == [1002, 1002]
    assert got["truncated"] is True
    assert box.exec("head -c 5000 /dev/zero | tr '\\0' y")["truncated"] is True
    with kernel.stream("print('x' * 5000)") as events:
        assert sum(len(e.data["chunk"]) for e in events if e.name == "stdout") == 5001
    d.stop()


def test_nine_sessions(sandbox: Callable[..., Sandbox], api: Api) -> None:
    box = sandbox()
    for _ in range(8):
        box.session()
    refused = api.refused("POST", f"{box.path}/repl/sessions", 429, "limit.reached")
    assert "8" in refused["error"]


def test_a_detached_cell_goes_on(kernel: Session) -> None:
    with kernel.stream("print('in', flush=True)\nimport time; time.sleep(1); done = 1", detach=True) as events:
        assert next(events).name == "stdout"
    assert kernel.text("done", timeout_ms=20_000) == "1"


def test_a_detached_cell_keeps_its_time(kernel: Session) -> None:
    with kernel.stream("print('in', flush=True)\nwhile True: pass", detach=True, timeout_ms=1000) as events:
        assert next(events).name == "stdout"
    assert kernel.text("1", timeout_ms=20_000) == "1"
