# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with the published clients."""

from __future__ import annotations

import pytest

from harness.node import Node


@pytest.fixture(scope="session")
def node() -> Node:
    """Node with the published client."""
    return Node()
