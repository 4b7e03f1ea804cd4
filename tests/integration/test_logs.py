# SPDX-License-Identifier: Apache-2.0
"""Logs: what commands have written, what the console has said; at once and as it goes on."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from harness import Api, Daemon, Sandbox
from harness.api import Event

Make = Callable[..., Sandbox]
MakeDaemon = Callable[..., Daemon]
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def lines(events: Iterator[Event], n: int) -> list[str]:
    got = list(itertools.islice(events, n))
    assert {e.name for e in got} <= {"line"}
    return [e.data["line"] for e in got]


def test_of_all_commands(sandbox: Make) -> None:
    s = sandbox("base")
    assert s.logs() == ""
    s.output("echo one; echo two >&2")
    s.start("echo three; printf rest").wait()
    with s.stream("echo four") as events:
        list(events)
    assert sorted(s.logs().splitlines()) == ["one", "restfour", "three", "two"]
    assert s.logs(stream="both") == s.logs()
    assert s.logs(stream="stdout") == "one\nthree\nrestfour\n"
    assert s.logs(stream="stderr") == "two\n"
    assert s.logs(stream="stdout", tail=2) == "three\nrestfour\n"
    assert s.logs(tail=0) == ""
    assert s.logs(follow="false", stream="stderr") == "two\n", "as the published Python client asks"


def test_follow(sandbox: Make) -> None:
    """What there is, then what comes, a line at a time."""
    s = sandbox("base")
    s.output("echo one; echo two; echo other >&2")
    with (
        s.follow("logs", follow="true", stream="stdout") as every,
        s.follow("logs", follow=1, tail=1, stream="stdout") as last,
        s.follow("logs", follow=1, tail=0, stream="both") as new,
    ):
        assert lines(every, 2) == ["one\n", "two\n"]
        assert lines(last, 1) == ["two\n"]
        s.output(r"printf 'th\342'; sleep 0.1; printf '\230\225ree\nfour\n'")
        for events in (every, last, new):
            assert lines(events, 2) == ["th\u2615ree\n", "four\n"]
        s.output("echo err >&2; echo out")
        assert lines(every, 1) == ["out\n"]
        assert sorted(lines(new, 2)) == ["err\n", "out\n"]


def test_it_is_bounded(sandbox: Make) -> None:
    s = sandbox("base")
    s.output("i=0; while [ $i -lt 60000 ]; do echo line $i; i=$((i+1)); done", timeout_seconds=120)
    text = s.logs()
    assert 200_000 < len(text) < 270_000
    assert text.endswith("\nline 59999\n")
    shown = text.splitlines()[1:]
    assert shown == [f"line {i}" for i in range(60000 - len(shown), 60000)]
    assert s.logs(tail=3) == "line 59997\nline 59998\nline 59999\n"


def test_a_line_that_is_too_long(sandbox: Make) -> None:
    s = sandbox("base")
    with s.follow("logs", follow=1, tail=0) as events:
        s.output("head -c 50000 /dev/zero | tr '\\0' x; echo")
        got = lines(events, 4)
        assert "".join(got) == "x" * 50000 + "\n"
        assert max(map(len, got)) == 16384
    assert s.logs() == "x" * 50000 + "\n"
    with s.follow("logs", follow=1) as events:
        assert lines(events, 4) == got


def test_text_that_is_none(sandbox: Make) -> None:
    s = sandbox("base")
    s.output(r"printf 'a\000b\377c\033[1m\n'")
    assert s.logs() == "a\0b\ufffdc\033[1m\n"


def test_they_live_in_the_guest(make_daemon: MakeDaemon) -> None:
    """So a restart of the daemon, a sleep and a copy have them, and to read them wakes."""
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    s.output("echo before")
    d.kill()
    d = make_daemon(d.data_dir).wait_ready()
    s = d.api.sandbox(s.id)
    child = s.fork()
    child.output("echo child")
    s.hibernate()
    assert s.logs() == "before\n"
    assert s.status() == "running"
    assert child.logs() == "before\nchild\n"
    assert d.stop() == 0
    d.check_clean()


# ---- the console ----


def say(s: Sandbox, text: str) -> None:
    s.output(f"printf '%s\\n' '{text}' > /dev/console")


def test_the_console(sandbox: Make) -> None:
    s = sandbox("base")
    with s.follow("logs", follow=1, stream="console", tail=0) as events:
        say(s, "hello")
        assert "hello" in next(events).data["line"]
        say(s, "again")
        assert "again" in next(events).data["line"]
        text = s.logs(stream="console")
        assert "hello" in text
        assert "again" in s.logs(stream="console", tail=1)
        assert "hello" not in s.logs(stream="console", tail=1)
        assert s.logs(stream="console", tail=0) == ""
        assert "hello" not in s.logs(), "it is no command's output"
        s.hibernate()
        assert s.logs(stream="console") == text
        assert s.status() == "hibernated", "to look on wakes nobody"
        s.delete()
        assert list(events) == []


def test_the_console_of_one_that_failed(sandbox: Make, daemon: Daemon) -> None:
    """Its last words."""
    s = sandbox("base")
    say(s, "last words")
    with s.follow("events", follow=1, tail=0) as events:
        os.kill(daemon.vm_of(s.id), signal.SIGKILL)
        assert next(events).data["type"] == "vm.died"
    assert "last words" in s.logs(stream="console")
    s.api.refused("GET", f"{s.path}/logs", 503, "sandbox.failed")


def test_a_panic_is_on_the_console(sandbox: Make) -> None:
    s = sandbox("base")
    with s.follow("logs", follow=1, stream="console", tail=0) as events:
        s.api.request("POST", f"{s.path}/exec", json={"cmd": "echo c > /proc/sysrq-trigger"})
        assert any("Kernel panic" in e.data["line"] for e in events)


def test_a_chatty_console_is_bounded(sandbox: Make) -> None:
    s = sandbox("base")
    s.output("i=0; while [ $i -lt 3000 ]; do echo console $i; i=$((i+1)); done > /dev/console", timeout_seconds=120)
    with s.follow("logs", follow=1, stream="console") as events:
        assert any("console 2999" in e.data["line"] for e in events)
    text = s.logs(stream="console")
    assert 15_000 < len(text) <= 16384


@pytest.mark.parametrize("query", ["stream=out", "tail=-1", "tail=x", "follow=2", "stream="])
def test_bad_queries(box: Sandbox, query: str) -> None:
    answer = box.api.refused("GET", f"{box.path}/logs?{query}", 400, "request.invalid")
    assert f"`{query.split('=')[0]}`" in answer["error"]


@pytest.mark.parametrize("query", ["", "?follow=1", "?stream=console", "?stream=console&follow=1"])
def test_no_such_sandbox(api: Api, query: str) -> None:
    api.refused("GET", f"/v1/sandboxes/{UNKNOWN}/logs{query}", 404, "sandbox.not_found")
