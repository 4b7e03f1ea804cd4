# SPDX-License-Identifier: Apache-2.0
"""What prints while its machine is stopped, captured or copied: nothing is lost, nothing comes twice, and it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from harness import Api, Sandbox
from harness.api import Event, Json

# Each prints 1, 2, … and an end when it is told to.
COMMAND = "i=0; until [ -e /tmp/enough ]; do i=$((i+1)); echo $i; done; echo end"
CELL = """
import os
i = 0
while not os.path.exists("/tmp/enough"):
    i += 1
    print(i)
print("end")
"""
SECONDS = 60


class Printing:
    """One of them, read by a thread of its own."""

    def __init__(self, stream: AbstractContextManager[Iterator[Event]]) -> None:
        self.lines: list[str] = []
        self.error: Json = {}
        self._rest = ""
        self._over = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: AbstractContextManager[Iterator[Event]]) -> None:
        try:
            with stream as events:
                for event in events:
                    self._take(event)
        finally:
            with self._news:
                self._over = True
                self._news.notify_all()

    def _take(self, event: Event) -> None:
        assert event.name != "stderr", event
        with self._news:
            if event.name == "error":
                self.error = event.data
            *lines, self._rest = (self._rest + event.data.get("chunk", "")).split("\n")
            self.lines += lines
            self._news.notify_all()

    def wait_for_more(self) -> None:
        """Until it has printed something else, or is over."""
        with self._news:
            n = len(self.lines)
            assert self._news.wait_for(lambda: len(self.lines) > n or self._over, SECONDS)

    def wait(self) -> list[str]:
        """Until it is over: what it has printed."""
        self._thread.join(SECONDS)
        assert self._over
        return self.lines


def pause(s: Sandbox) -> None:
    s.pause()
    s.resume()


def snapshot(s: Sandbox) -> None:
    s.api.call("DELETE", f"/v1/snapshots/{s.snapshot()['id']}", want=204)


def fork(s: Sandbox) -> None:
    child = s.fork()
    try:
        assert child.output("echo on") == "on\n"
    finally:
        child.discard()


@pytest.mark.parametrize("stop", [pause, snapshot, fork])
def test_nothing_is_lost(api: Api, stop: Callable[[Sandbox], None]) -> None:
    may_end = "streams" in api.call("GET", "/healthz")["engine"]["lacks"]
    s = api.create("platform")
    kernel = s.session()
    try:
        calls = [Printing(s.stream(COMMAND)), Printing(kernel.stream(CELL, timeout_ms=2000 * SECONDS))]
        for call in calls:
            call.wait_for_more()
        for _ in range(2):
            stop(s)
            for call in calls:
                call.wait_for_more()
        s.write("/tmp/enough", "")
        for call in calls:
            lines = call.wait()
            if may_end:
                assert "stood still" in call.error["error"], call.error
            else:
                assert not call.error
                assert lines.pop() == "end"
            assert lines == [str(i + 1) for i in range(len(lines))]
        assert s.output("echo on") == "on\n"
        assert kernel.text("1 + 1" if may_end else "i > 0") == ("2" if may_end else "True")
    finally:
        s.discard()
