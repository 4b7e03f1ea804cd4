# SPDX-License-Identifier: Apache-2.0
"""MicroVM sandboxes with kernels that remember: the client of the pandastack daemon.

    from pandastack import Sandbox

    with Sandbox.create() as sandbox:
        ctx = sandbox.create_code_context()
        ctx.run_code("x = 41")
        print(ctx.run_code("x + 1").text)

`AsyncSandbox` and its kin are the same for asyncio.
"""

from ._async.client import AsyncClient
from ._async.code import AsyncCodeContext
from ._async.commands import AsyncCommands, AsyncProcess
from ._async.explore import Exploration as AsyncExploration
from ._async.filesystem import AsyncFilesystem
from ._async.follower import AsyncFollower
from ._async.pty import AsyncPty
from ._async.sandbox import AsyncSandbox
from ._sync.client import Client
from ._sync.code import CodeContext
from ._sync.commands import Commands, Process
from ._sync.explore import Exploration, Outcome
from ._sync.filesystem import Filesystem
from ._sync.follower import Follower
from ._sync.pty import Pty
from ._sync.sandbox import Sandbox
from ._version import __version__
from .errors import (
    APIConnectionError,
    AuthError,
    BadRequestError,
    CommandError,
    ConfigError,
    ConflictError,
    ExecInterrupted,
    ExploreError,
    LimitError,
    NotFoundError,
    NotSupportedError,
    PandastackError,
    SandboxFailed,
    SandboxTimeout,
    ServerError,
)
from .execution import Execution, Picture, Result
from .models import (
    EgressRules,
    ExecResult,
    FileEvent,
    FileInfo,
    Lifecycle,
    Metrics,
    Network,
    NetworkPolicy,
    Port,
    ProcessInfo,
    Promotion,
    SandboxEvent,
    SandboxInfo,
    Snapshot,
    Template,
)

# The name that the published client has for it.
CommandFailed = CommandError

__all__ = [
    "APIConnectionError",
    "AsyncClient",
    "AsyncCodeContext",
    "AsyncCommands",
    "AsyncExploration",
    "AsyncFilesystem",
    "AsyncFollower",
    "AsyncProcess",
    "AsyncPty",
    "AsyncSandbox",
    "AuthError",
    "BadRequestError",
    "Client",
    "CodeContext",
    "CommandError",
    "CommandFailed",
    "Commands",
    "ConfigError",
    "ConflictError",
    "EgressRules",
    "ExecInterrupted",
    "ExecResult",
    "Execution",
    "Exploration",
    "ExploreError",
    "FileEvent",
    "FileInfo",
    "Filesystem",
    "Follower",
    "Lifecycle",
    "LimitError",
    "Metrics",
    "Network",
    "NetworkPolicy",
    "NotFoundError",
    "NotSupportedError",
    "Outcome",
    "PandastackError",
    "Picture",
    "Port",
    "Process",
    "ProcessInfo",
    "Promotion",
    "Pty",
    "Result",
    "Sandbox",
    "SandboxEvent",
    "SandboxFailed",
    "SandboxInfo",
    "SandboxTimeout",
    "ServerError",
    "Snapshot",
    "Template",
    "__version__",
]
