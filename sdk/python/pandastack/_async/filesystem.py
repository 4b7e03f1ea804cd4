# SPDX-License-Identifier: Apache-2.0
"""Files in a sandbox. Paths are absolute; contents are bytes, whatever is in them."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from typing import IO, TYPE_CHECKING, Any

from .. import _files
from .._files import BYTES, Progress, Source
from .._http import path_of
from .._sse import Event
from ..errors import NotFoundError
from ..models import FileEvent, FileInfo, member
from . import _io
from .follower import AsyncFollower

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox


def change_of(event: Event) -> FileEvent:
    """What a folder's watch tells."""
    return FileEvent.from_json({**event.data, "type": event.name})


class AsyncFilesystem:
    """The files of a sandbox: `sandbox.filesystem`."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    def _path(self, *action: str) -> str:
        return path_of("sandboxes", self._sandbox.id, "fs", *action)

    async def _call(self, method: str, *action: str, **content: Any) -> Any:
        return await self._sandbox.client.call(method, self._path(*action), **content)

    async def read(self, path: str) -> bytes:
        """A file's bytes."""
        return (await self._sandbox.client.fetch("GET", self._path(), params={"path": path})).content

    async def read_text(self, path: str, encoding: str = "utf-8") -> str:
        """A file's text."""
        return (await self.read(path)).decode(encoding)

    async def write(self, path: str, content: bytes | str) -> None:
        """Make or replace a file, and the folders above it. Text is written as UTF-8."""
        data = content.encode() if isinstance(content, str) else content
        await self._call("PUT", params={"path": path}, content=data, headers=BYTES, safe=True)

    async def upload(self, source: Source, path: str, on_progress: Progress | None = None) -> None:
        """Write a file from a local one, which is a path or open in binary mode; of any size, for it is streamed.

        on_progress hears how many bytes have been sent, and of how many if that is known.
        """
        with _files.opened(source) as file:
            size = _files.size_of(file)
            headers = BYTES if size is None else {**BYTES, "Content-Length": str(size)}
            content = self._pieces_of(file, size, on_progress)
            await self._call("PUT", params={"path": path}, content=content, headers=headers)

    async def _pieces_of(
        self, file: IO[bytes], size: int | None, on_progress: Progress | None
    ) -> AsyncIterator[bytes]:
        sent = 0
        while piece := await _io.in_thread(file.read, _files.PIECE_BYTES):
            yield piece
            sent += len(piece)
            if on_progress:
                on_progress(sent, size)

    async def download(self, path: str, target: Source, on_progress: Progress | None = None) -> None:
        """Read a file into a local one, which is a path or open in binary mode; of any size, for it is streamed.

        on_progress hears how many bytes have come, and of how many if that is known.
        """
        size = (await self.stat(path)).size if on_progress else None
        received = 0
        async with self._sandbox.client.stream("GET", self._path(), params={"path": path}) as pieces:
            with _files.created(target) as file:
                async for piece in pieces:
                    await _io.in_thread(file.write, piece)
                    received += len(piece)
                    if on_progress:
                        on_progress(received, size)

    async def list(self, path: str = "/") -> builtins.list[FileInfo]:
        """What is in a folder."""
        answer = await self._call("GET", "dir", params={"path": path})
        entries = FileInfo.list_from_json(member(answer, "entries"))
        for entry in entries:
            entry.path = entry.path or f"{path.rstrip('/')}/{entry.name}"
        return entries

    listdir = list

    async def stat(self, path: str) -> FileInfo:
        """What is there. NotFoundError if nothing is."""
        info = FileInfo.from_json(await self._call("GET", "stat", params={"path": path}))
        info.path = info.path or path
        return info

    async def exists(self, path: str) -> bool:
        """Whether something is there."""
        try:
            await self.stat(path)
        except NotFoundError as e:
            if e.code == "file.not_found":
                return False
            raise
        return True

    async def mkdir(self, path: str) -> None:
        """Make a folder, and those above it; nothing happens to one that is there."""
        await self._call("POST", "mkdir", json={"path": path})

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it."""
        await self._call("DELETE", params={"path": path})

    async def move(self, source: str, target: str) -> None:
        """Move or rename."""
        await self._call("POST", "move", json={"from": source, "to": target})

    def watch(self, path: str, *, recursive: bool = False) -> AsyncFollower[FileEvent]:
        """What changes in a folder, until that is gone; with `recursive` also in the folders in it.

        Changes are told from the beginning of the `with` block on, or without one from the first next() on.
        """
        follow = self._sandbox.client.follow
        return follow(self._path("watch"), change_of, path=path, recursive=recursive or None)
