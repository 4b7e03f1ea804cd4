# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests without a daemon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable

import pytest
from bad_server import Script, Server


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """A factory of such servers."""
    made: list[Server] = []

    def make(*scripts: Script) -> Server:
        made.append(Server(*scripts))
        return made[-1]

    try:
        yield make
    finally:
        for server in made:
            server.close()
