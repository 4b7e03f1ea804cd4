# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with the real daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from harness import Daemon

from pandastack import Client, Sandbox


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The real one. At the end it must have ended well, and the tests must have left nothing in it."""
    d = Daemon(tmp_path_factory.mktemp("daemon") / "data")
    try:
        yield d.wait_ready()
        assert d.api.list() == []
        d.stop()
        d.check_clean()
    finally:
        d.dispose()


@pytest.fixture(scope="session")
def environment(daemon: Daemon) -> dict[str, str]:
    """For programs: what the guide says to set, and nothing of the person who runs the tests."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDASTACK_", "XDG_"))}
    return {**env, "PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": daemon.key, "HOME": str(daemon.home)}


@pytest.fixture(scope="session")
def client(daemon: Daemon) -> Iterator[Client]:
    """A client of the real daemon."""
    with Client(daemon.url, daemon.key) as client:
        yield client


@pytest.fixture(scope="module")
def box(client: Client) -> Iterator[Sandbox]:
    """A sandbox for the whole module: leave it as you found it."""
    with Sandbox.create(client=client, metadata={"made-by": "box"}, env={"WORD": "of the sandbox"}) as sandbox:
        yield sandbox
