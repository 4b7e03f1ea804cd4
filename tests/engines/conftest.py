# SPDX-License-Identifier: Apache-2.0
"""The engines' tests: a small template of their own, and a table of how long each step took."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.daemon import binary, templates

Step = Callable[[str], contextlib.AbstractContextManager[None]]

taken: dict[str, float] = {}


@pytest.fixture(scope="session")
def program() -> Path:
    """The program and the template must be there: without them nothing is tested, which is a failure."""
    if not binary().is_file():
        pytest.exit(f"{binary()} is missing: build it, or say where it is with PANDASTACK_BIN", 2)
    if not (templates() / "platform" / "current").exists():
        pytest.exit(
            f"no platform template in {templates()}: "
            f"pandastack template build ./tests/engines/template --templates {templates()}",
            2,
        )
    return binary()


@pytest.fixture(scope="session")
def step() -> Step:
    """Notes how long a `with` block took, under that name."""

    @contextlib.contextmanager
    def measure(name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        taken.setdefault(name, time.monotonic() - start)

    return measure


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of the steps."""
    for name, seconds in taken.items():
        terminalreporter.write_line(f"{name:34} {seconds * 1000:8.0f} ms")
