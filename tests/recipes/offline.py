# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: a recipe talks to the daemon and to nobody else. Who tries is refused, and its test fails."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest

_tried: list[str] = []


def _refuse(host: object) -> None:
    name = host.decode() if isinstance(host, bytes) else str(host)
    try:
        at_home = ipaddress.ip_address(name).is_loopback
    except ValueError:
        at_home = name in ("localhost", "None")
    if not at_home:
        _tried.append(name)
        raise ConnectionRefusedError(f"a recipe's test talks to nobody but the daemon, not to {name}")


class _Socket(socket.socket):
    def connect(self, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse(address[0])
        super().connect(address)


_getaddrinfo = socket.getaddrinfo


def _lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
    _refuse(host)
    return _getaddrinfo(host, *args, **kwargs)


socket.socket = _Socket  # type: ignore[misc]
socket.getaddrinfo = _lookup


@pytest.fixture(autouse=True)
def offline() -> Iterator[None]:
    """Nobody was called, not even by a framework that counts its users."""
    _tried.clear()
    yield
    assert not _tried, f"it called {_tried}"
