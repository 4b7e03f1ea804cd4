# SPDX-License-Identifier: Apache-2.0
"""The egress helper as a process, among hosts of its own in network namespaces. No virtual machine is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from egress.helper import Guest, Helper, Start, adopt_orphans, config, program
from egress.net import why_not
from egress.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All hosts, for the whole run."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    if not program().is_file():
        pytest.exit(f"{program()} is missing: build it, or say where it is with PANDASTACK_EGRESS", 2)
    adopt_orphans()
    w = World(tmp_path_factory.mktemp("world"))
    yield w
    w.close()


@pytest.fixture
def helper(world: World, tmp_path: Path) -> Iterator[Any]:
    """A factory of helpers whose card is the test's; they end with it."""
    made: list[Helper] = []

    def make(text: str | None = None, *, user: int = 0, wait: bool = True, **policy: Any) -> Helper:
        folder = tmp_path / f"helper{len(made)}"
        folder.mkdir()
        made.append(Helper(world.machine, folder, config(**policy) if text is None else text, user=user, wait=wait))
        return made[-1]

    yield make
    for h in made:
        h.dispose()


@pytest.fixture
def start(helper: Any) -> Iterator[Start]:
    """A factory of guests with a helper each. At the end the card is unplugged, and the helper must have ended well."""
    made: list[Guest] = []

    def make(text: str | None = None, **policy: Any) -> tuple[Guest, Helper]:
        h = helper(text, **policy)
        made.append(Guest(h))
        return made[-1], h

    yield make
    for guest in made:
        guest.close()
    for guest in made:
        assert guest.helper.end() == 0, guest.helper.said()
