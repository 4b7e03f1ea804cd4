# SPDX-License-Identifier: Apache-2.0
"""Deep Agents: a sandbox as the backend of an agent's files and commands. Needs deepagents."""

from __future__ import annotations

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from .. import BadRequestError, NotFoundError, Sandbox, SandboxTimeout

DEFAULT_SECONDS = 300


class SandboxBackend(BaseSandbox):
    """`create_deep_agent(backend=SandboxBackend(sandbox))`: its tools work in the sandbox, and only there."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    @property
    def id(self) -> str:
        """The sandbox's."""
        return self._sandbox.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a command; what a time limit ended says so, for the model to read."""
        limit = timeout or DEFAULT_SECONDS
        try:
            done = self._sandbox.exec(command, timeout=limit)
        except SandboxTimeout as e:
            return ExecuteResponse(f"{e.stdout}{e.stderr}\n[{e}]", exit_code=124)
        return ExecuteResponse(done.stdout + done.stderr, done.exit_code, done.truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, each as it goes."""
        return [self._upload(path, content) for path, content in files]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        try:
            self._sandbox.filesystem.write(path, content)
        except BadRequestError as e:
            return FileUploadResponse(path, error=str(e))
        return FileUploadResponse(path)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files, each as it goes."""
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path, content=self._sandbox.filesystem.read(path))
        except NotFoundError:
            return FileDownloadResponse(path, error="file_not_found")
        except BadRequestError as e:
            return FileDownloadResponse(path, error=str(e))
