# SPDX-License-Identifier: Apache-2.0
"""The sandbox goes on only when somebody has answered its last line: so each was shown before the next was made."""

from collections.abc import Callable, Iterator

import pytest
from pandastack import Sandbox

import agent

COMMAND = "for i in 1 2 3; do echo step $i; until [ -e /tmp/step-$i ]; do :; done; done; printf end; exit 3"
CELL = """
import os
for i in (4, 5):
    print("step", i)
    while not os.path.exists(f"/tmp/step-{i}"):
        pass
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.create(ttl_seconds=600) as box:
        yield box


def answering(sandbox: Sandbox, seen: list[str]) -> Callable[[str], None]:
    def show(line: str) -> None:
        seen.append(line)
        if line.startswith("step"):
            sandbox.filesystem.write(f"/tmp/step-{line[-1]}", "")

    return show


def test_a_command(sandbox: Sandbox) -> None:
    seen: list[str] = []
    assert agent.stream(sandbox, COMMAND, answering(sandbox, seen)) == 3
    assert seen == ["step 1", "step 2", "step 3", "end"]


def test_a_cell(sandbox: Sandbox) -> None:
    seen: list[str] = []
    ex = agent.stream_cell(sandbox, CELL + "6 * 7", answering(sandbox, seen))
    assert (seen, ex.text, ex.error) == (["step 4", "step 5"], "42", None)


def enough(line: str) -> None:
    raise KeyboardInterrupt


def test_who_has_seen_enough_ends_it(sandbox: Sandbox) -> None:
    with pytest.raises(KeyboardInterrupt):
        agent.stream(sandbox, "echo a line; exec sleep 1000", enough)
    assert sandbox.exec("pgrep -x sleep").stdout == ""


def test_a_listener_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(KeyboardInterrupt):
        agent.run("echo a line; exec sleep 1000", enough)
