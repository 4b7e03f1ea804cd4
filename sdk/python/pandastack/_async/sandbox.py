# SPDX-License-Identifier: Apache-2.0
"""A sandbox: a computer of its own for code that nobody has read."""

from __future__ import annotations

import builtins
import uuid
from collections.abc import Awaitable, Sequence
from typing import Any, Callable, Literal, TypeVar

from .._http import GRACE_SECONDS, path_of, without_none
from .._sse import Event
from ..errors import CommandError, NotFoundError
from ..execution import Execution
from ..models import (
    ExecResult,
    Lifecycle,
    Metrics,
    Network,
    NetworkPolicy,
    Port,
    Promotion,
    SandboxEvent,
    SandboxInfo,
    Snapshot,
    items,
    member,
)
from .client import AsyncClient, default_client
from .code import AsyncCodeContext, milliseconds
from .commands import AsyncCommands
from .explore import Exploration, explore
from .filesystem import AsyncFilesystem
from .follower import AsyncFollower
from .pty import AsyncPty

C = TypeVar("C")
R = TypeVar("R")

# Both outputs of its commands by default, or one of them; or the console of its machine.
LogStream = Literal["both", "stdout", "stderr", "console"]

# The daemon's limit of a command, where none is asked for.
EXEC_SECONDS = 600


def event_of(event: Event) -> SandboxEvent:
    """What followed events tell."""
    return SandboxEvent.from_json(event.data)


def line_of(event: Event) -> str:
    """What a followed log tells, also where a slow reader has missed lines."""
    return str(event.data.get("line", "")).removesuffix("\n")


class AsyncSandbox(SandboxInfo):
    """A sandbox. Its attributes are what was true when the daemon last told; `refresh()` asks again.

    As a context manager it is killed at the end of the block, unless it is persistent.

    Attributes:
        client: The daemon that it lives at.
        filesystem: Its files.
        commands: What runs in it in the background.
    """

    def __init__(self, client: AsyncClient, data: Any) -> None:
        self.client = client
        self._update(data)
        self.filesystem = AsyncFilesystem(self)
        self.commands = AsyncCommands(self)
        self._contexts: dict[str, AsyncCodeContext] = {}

    def _update(self, data: Any) -> None:
        self.__dict__.update(vars(SandboxInfo.from_json(data)))

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if not self.persistent:
            await self.kill()

    async def _call(self, method: str, *action: str, **options: Any) -> Any:
        return await self.client.call(method, path_of("sandboxes", self.id, *action), **options)

    # ---- from nothing to one, and to its end ----

    @classmethod
    async def create(
        cls,
        template: str = "code-interpreter",
        *,
        from_snapshot: str | None = None,
        ttl_seconds: int | None = None,
        persistent: bool = False,
        idle_seconds: int | None = None,
        network: NetworkPolicy | None = None,
        metadata: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        client: AsyncClient | None = None,
    ) -> AsyncSandbox:
        """A new sandbox, ready for use.

        Args:
            template: What it is made from.
            from_snapshot: Id of a snapshot to go on from, instead.
            ttl_seconds: It ends after so long without a request; an hour by default.
            persistent: It is hibernated when it is idle instead, and never ends by itself.
            idle_seconds: When a persistent one is idle.
            network: What it may reach; the template's policy by default, which is all that is public.
            metadata: To find it by, see list().
            env: Environment of all that runs in it.
            client: The daemon.
        """
        client = client or default_client()
        body = without_none(
            template=None if from_snapshot else template,
            from_snapshot=from_snapshot,
            ttl_seconds=ttl_seconds,
            persistent=persistent or None,
            idle_seconds=idle_seconds,
            network=network,
            metadata=metadata,
            env=env,
        )
        # With a key a second try gives the first one's sandbox.
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return cls(client, await client.call("POST", path_of("sandboxes"), json=body, headers=headers, safe=True))

    @classmethod
    async def get(cls, sandbox_id: str, *, client: AsyncClient | None = None) -> AsyncSandbox:
        """One that is there, in whatever state."""
        client = client or default_client()
        return cls(client, await client.call("GET", path_of("sandboxes", sandbox_id)))

    @classmethod
    async def connect(cls, sandbox_id: str, *, client: AsyncClient | None = None) -> AsyncSandbox:
        """One that is there, and runs: it is resumed or woken if need be."""
        sandbox = await cls.get(sandbox_id, client=client)
        if sandbox.status == "paused":
            await sandbox.resume()
        elif sandbox.status != "running":
            await sandbox.wake()
        return sandbox

    @classmethod
    async def list(
        cls,
        *,
        metadata: dict[str, str] | None = None,
        status: str | None = None,
        client: AsyncClient | None = None,
    ) -> builtins.list[AsyncSandbox]:
        """Those that are there, oldest first; only those with all of this metadata, and in this state."""
        client = client or default_client()
        params = {f"metadata.{key}": value for key, value in (metadata or {}).items()}
        if status:
            params["status"] = status
        return [cls(client, item) for item in items(await client.call("GET", path_of("sandboxes"), params=params))]

    async def refresh(self) -> AsyncSandbox:
        """Ask what is true now."""
        self._update(await self._call("GET"))
        return self

    async def kill(self) -> bool:
        """End it, and remove all that belongs to it; False if it was gone already."""
        try:
            await self._call("DELETE", safe=True)
        except NotFoundError:
            return False
        return True

    async def network(self) -> Network:
        """What it may reach, and what went through."""
        return Network.from_json(await self._call("GET", "network"))

    async def set_network(self, policy: NetworkPolicy) -> Network:
        """Change it; what is left out stays. Connections that are not allowed any more are reset."""
        return Network.from_json(await self._call("PATCH", "network", json=policy))

    async def events(self, *, tail: int | None = None, since: str | None = None) -> builtins.list[SandboxEvent]:
        """What happened to it, oldest first: the last 50, or `tail`; only what came after the time of another event.

        To look at them, as at metrics(), is no use of it: it expires when it would have.
        """
        params = without_none(tail=tail, since=since)
        return SandboxEvent.list_from_json(member(await self._call("GET", "events", params=params), "events"))

    def follow_events(self, *, tail: int | None = None, since: str | None = None) -> AsyncFollower[SandboxEvent]:
        """As events(), and then each as it happens, until it is killed."""
        path = path_of("sandboxes", self.id, "events")
        return self.client.follow(path, event_of, tail=tail, since=since, follow=True)

    async def logs(self, *, stream: LogStream | None = None, tail: int | None = None) -> builtins.list[str]:
        """The lines that its commands have written, or the last `tail` of them; the last 256 KiB are kept."""
        params = without_none(stream=stream, tail=tail)
        answer = await self.client.fetch("GET", path_of("sandboxes", self.id, "logs"), params=params)
        lines = answer.content.decode(errors="replace").split("\n")
        return lines if lines[-1] else lines[:-1]  # the last line may be without its end

    def follow_logs(self, *, stream: LogStream | None = None, tail: int | None = None) -> AsyncFollower[str]:
        """As logs(), and then each line when it is whole, until it is killed; one of over 16 KiB comes in parts."""
        path = path_of("sandboxes", self.id, "logs")
        return self.client.follow(path, line_of, stream=stream, tail=tail, follow=True)

    async def metrics(self) -> Metrics:
        """What it takes of the host, and how its guest is."""
        return Metrics.from_json(await self._call("GET", "metrics"))

    # ---- servers in it ----

    async def ports(self) -> builtins.list[Port]:
        """What listens in it, and what has a label: reached by preview_url(), or with the key by `proxy_url`."""
        return Port.list_from_json(await self._call("GET", "ports"))

    async def label_port(self, port: int, label: str) -> Port:
        """Name one; the name is kept in the metadata."""
        return Port.from_json(await self._call("POST", "ports", json={"port": port, "label": label}))

    async def unlabel_port(self, port: int) -> None:
        """Take its name away."""
        await self._call("DELETE", "ports", str(port))

    async def preview_url(
        self, port: int, *, ttl_seconds: int | None = None, paths: Sequence[str] | None = None
    ) -> str:
        """A link to a server in it that works without a key.

        Args:
            port: What the server listens on.
            ttl_seconds: How long it works; an hour by default, a week at most.
            paths: Only these, and what is below them; all by default.
        """
        body = without_none(port=port, ttl_seconds=ttl_seconds, paths=paths)
        return str(member(await self._call("POST", "preview-token", json=body), "url"))

    # ---- commands ----

    async def exec(
        self,
        cmd: str,
        timeout: float | None = None,
        check: bool = False,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: str | None = None,
        user: str | None = None,
        timeout_seconds: float | None = None,
    ) -> ExecResult:
        """Run a command (`sh -c`) to its end.

        Args:
            cmd: The command.
            timeout: Its limit in seconds, 600 by default: then it is killed with all that it started.
            check: Raise CommandError when its exit code is not 0.
            cwd: Its folder.
            env: Variables of its environment.
            stdin: Its input.
            user: Who it runs as.
            timeout_seconds: The same as timeout.

        Raises:
            SandboxTimeout: It took longer.
            CommandError: See check.
            SandboxFailed: The machine died.
        """
        limit = timeout if timeout is not None else timeout_seconds
        body = without_none(cmd=cmd, timeout_seconds=limit, cwd=cwd, env=env, stdin=stdin, user=user)
        wait = (EXEC_SECONDS if limit is None else limit) + GRACE_SECONDS
        result = ExecResult.from_json(await self._call("POST", "exec", json=body, timeout=wait))
        if check and result.exit_code != 0:
            said = result.stderr.strip() or result.stdout.strip()
            raise CommandError(
                f"exit code {result.exit_code}: {cmd}\n{said[-2000:]}".rstrip(),
                exit_code=result.exit_code,
                details=vars(result),
            )
        return result

    async def exec_stream(
        self,
        cmd: str,
        on_stdout: Callable[[str], Any] | None = None,
        on_stderr: Callable[[str], Any] | None = None,
        timeout: float | None = None,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: str | None = None,
        user: str | None = None,
        timeout_seconds: float | None = None,
    ) -> int:
        """As exec(), and hear what is written as it comes, which may be several lines or part of one; its exit code.

        A listener that raises ends the command.
        """
        limit = timeout if timeout is not None else timeout_seconds
        body = without_none(cmd=cmd, timeout_seconds=limit, cwd=cwd, env=env, stdin=stdin, user=user)
        path = path_of("sandboxes", self.id, "exec", "stream")
        answer = await self.client.run(path, body, on_stdout, on_stderr)
        return ExecResult.from_json(answer).exit_code

    async def open_pty(
        self,
        on_data: Callable[[bytes], Any],
        *,
        cmd: str | None = None,
        rows: int = 24,
        cols: int = 80,
        cwd: str | None = None,
        user: str | None = None,
    ) -> AsyncPty:
        """Open a terminal, with a login shell or a command (`sh -c`) in it, which ends with the terminal.

        Args:
            on_data: Hears what the terminal shows, as it comes; without asyncio in a thread of its own.
            cmd: The command.
            rows: Its size.
            cols: Its size.
            cwd: Folder of what runs in it.
            user: Who that runs as.
        """
        params = without_none(cmd=cmd, rows=rows, cols=cols, cwd=cwd, user=user)
        path = path_of("sandboxes", self.id, "exec", "pty")
        return AsyncPty(await self.client.open_socket(path, params), on_data)

    # ---- code ----

    async def create_code_context(
        self, language: str = "python", cwd: str | None = None, env: dict[str, str] | None = None
    ) -> AsyncCodeContext:
        """A new kernel, whose cells see each other's variables; 8 in a sandbox.

        Args:
            language: python, javascript, bash, or a Jupyter kernel that is installed (docs/languages.md).
            cwd: Its folder.
            env: Variables of its environment.
        """
        body = without_none(language=language, cwd=cwd, env=env)
        return self._context(await self._call("POST", "repl", "sessions", json=body))

    async def list_code_contexts(self) -> builtins.list[AsyncCodeContext]:
        """Its kernels; in a fork or a restored sandbox also those that came along."""
        return [self._context(session) for session in items(await self._call("GET", "repl", "sessions"))]

    def _context(self, session: Any) -> AsyncCodeContext:
        return AsyncCodeContext(self, str(member(session, "id")), str(member(session, "language")))

    async def run_code(
        self,
        code: str,
        language: str = "python",
        timeout: float | None = None,
        *,
        keep_state: bool = False,
        env: dict[str, str] | None = None,
    ) -> Execution:
        """Run code once, in a kernel or a process of its own.

        With keep_state it runs in the sandbox's own context of that language, made at the first use: what it
        defines, the next call sees. For all else see AsyncCodeContext.run_code().
        """
        if keep_state:
            if language not in self._contexts:
                self._contexts[language] = await self.create_code_context(language)
            return await self._contexts[language].run_code(code, timeout, env=env)
        limit = milliseconds(timeout)
        body = without_none(code=code, language=language, timeout_ms=limit, env=env)
        wait = limit / 1000 + GRACE_SECONDS
        return Execution.from_json(await self._call("POST", "repl", json=body, timeout=wait))

    # ---- a machine as a value ----

    async def snapshot(self) -> str:
        """Keep it as it is now, memory and disk; the snapshot's id. `create(from_snapshot=…)` goes on from it."""
        return Snapshot.from_json(await self._call("POST", "snapshots")).id

    async def fork(self, metadata: dict[str, str] | None = None) -> AsyncSandbox:
        """A copy of it as it is now. Metadata is laid over its own."""
        answer = await self._call("POST", "fork", json=without_none(metadata=metadata))
        return type(self)(self.client, member(answer, "sandbox"))

    async def fork_tree(
        self, count: int = 2, metadata: dict[str, str] | None = None
    ) -> builtins.list[AsyncSandbox]:
        """Several copies of one moment; all of them, or none and an error."""
        answer = await self._call("POST", "fork-tree", json=without_none(count=count, metadata=metadata))
        return [type(self)(self.client, child) for child in items(member(answer, "children"))]

    async def promote(self, *, cleanup_siblings: bool = False, tree_id: str | None = None) -> Promotion:
        """Name it the winner of its fork-tree, and end the others."""
        body = without_none(cleanup_siblings=cleanup_siblings, tree_id=tree_id)
        return Promotion.from_json(await self._call("POST", "promote", json=body))

    async def explore(
        self,
        candidates: Sequence[C],
        attempt: Callable[[AsyncSandbox, C], Awaitable[R]],
        *,
        score: Callable[[R], float],
    ) -> Exploration[C, R]:
        """Try several ways to go on from here at once, each in a copy of its own, and keep the best.

        Whatever happens, also when this is interrupted, no other copy stays. The sandbox itself is as it was.

        Args:
            candidates: What to try; 16 at most.
            attempt: Tries one in its sandbox. An exception loses, and ends nobody else.
            score: Of what attempt() returned; the highest wins.

        Raises:
            ExploreError: All attempts raised.
        """
        return await explore(self, candidates, attempt, score)

    async def pause(self) -> None:
        """Stop its processors; its memory stays."""
        await self._call("POST", "pause")
        self.status = "paused"

    async def resume(self) -> None:
        """Let a paused one go on."""
        await self._call("POST", "resume")
        self.status = "running"

    async def hibernate(self) -> None:
        """Write it to the disk and free its memory. The next request wakes it."""
        await self._call("POST", "hibernate")
        self.status = "hibernated"

    async def wake(self) -> None:
        """Bring a hibernated one back."""
        await self._call("POST", "wake")
        self.status = "running"

    async def lifecycle(self) -> Lifecycle:
        """What ends or stops it by itself."""
        return Lifecycle.from_json(await self._call("GET", "lifecycle"))

    async def set_ttl(self, seconds: int) -> Lifecycle:
        """It ends after so long without a request."""
        return Lifecycle.from_json(await self._call("PATCH", "lifecycle", json={"ttl_seconds": seconds}))

    async def set_persistent(self, persistent: bool) -> Lifecycle:
        """It is hibernated when it is idle, instead of ended; or no more."""
        answer = Lifecycle.from_json(await self._call("PATCH", "lifecycle", json={"persistent": persistent}))
        self.persistent = answer.persistent
        return answer
