# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with the published clients."""

from __future__ import annotations

import pytest

from harness.node import Node

# The version that docs/clients.md was read from, and a compiler for the guide's code.
PUBLISHED = ("@pandastack/sdk@0.9.0", "typescript@5.9", "@types/node@24")


@pytest.fixture(scope="session")
def node() -> Node:
    """Node with the published client."""
    return Node("published", PUBLISHED)
