# SPDX-License-Identifier: Apache-2.0
"""What a daemon keeps on its disk: snapshots and templates."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from .._http import path_of
from ..models import Snapshot, Template

if TYPE_CHECKING:
    from .client import AsyncClient


class AsyncSnapshots:
    """Snapshots: `client.snapshots`. They are made by `sandbox.snapshot()`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self, sandbox_id: str | None = None) -> builtins.list[Snapshot]:
        """All, oldest first; or those of one sandbox, which may be gone."""
        params = {"sandbox_id": sandbox_id} if sandbox_id else {}
        return Snapshot.list_from_json(await self._client.call("GET", path_of("snapshots"), params=params))

    async def get(self, snapshot_id: str) -> Snapshot:
        """One of them."""
        return Snapshot.from_json(await self._client.call("GET", path_of("snapshots", snapshot_id)))

    async def delete(self, snapshot_id: str) -> None:
        """Remove one. Sandboxes that were made from it go on."""
        await self._client.call("DELETE", path_of("snapshots", snapshot_id))


class AsyncTemplates:
    """Templates: `client.templates`. They are built by `pandastack template build`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> builtins.list[Template]:
        """All."""
        return Template.list_from_json(await self._client.call("GET", path_of("templates")))

    async def get(self, name: str) -> Template:
        """One of them."""
        return Template.from_json(await self._client.call("GET", path_of("templates", name)))

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Remove one. While something stands on it that takes `force`, which leaves that what it needs."""
        params = {"force": "true"} if force else {}
        await self._client.call("DELETE", path_of("templates", name), params=params)
