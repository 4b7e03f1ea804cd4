# SPDX-License-Identifier: Apache-2.0
"""What the daemon answers, as typed values: facts as they were when it answered."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, TypedDict, TypeVar, cast

from .errors import json_object, not_understood

M = TypeVar("M", bound="Model")


def member(answer: Any, name: str) -> Any:
    """A member that an answer must have."""
    try:
        return answer[name]
    except (KeyError, TypeError) as e:
        raise not_understood(f"it has no `{name}`") from e


def items(answer: Any) -> list[object]:
    """What is in an answer that must be an array."""
    if not isinstance(answer, list):
        raise not_understood("it is no JSON array")
    return cast("list[object]", answer)


@dataclass
class Model:
    """A JSON object of the API. What a newer daemon adds to it is left out."""

    @classmethod
    def from_json(cls: type[M], data: Any) -> M:
        """Of an object that the daemon sent."""
        members = json_object(data)
        if members is None:
            raise not_understood(f"no JSON object for {cls.__name__}")
        given = {f.name: members[f.name] for f in fields(cls) if members.get(f.name) is not None}
        for f in fields(cls):
            if f.name not in given and f.default is MISSING and f.default_factory is MISSING:
                raise not_understood(f"it has no `{f.name}`")
        return cls(**given)

    @classmethod
    def list_from_json(cls: type[M], data: Any) -> list[M]:
        """Of an array of such objects."""
        return [cls.from_json(item) for item in items(data)]


@dataclass
class SandboxInfo(Model):
    """A sandbox, as the API describes it."""

    id: str
    template: str
    status: str
    failure: str | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    cpu: int = 0
    memory_mb: int = 0
    engine: str = ""
    accel: str = ""
    isolation: str = ""
    boot_ms: int = 0
    boot_mode: str = ""
    persistent: bool = False
    ttl_seconds: int = 0
    idle_seconds: int = 0
    parent: str | None = None
    from_snapshot: str | None = None
    created_at: str = ""
    expires_at: str | None = None


@dataclass
class ExecResult(Model):
    """A command that ended, well or not: `exit_code` says which."""

    stdout: str
    stderr: str
    exit_code: int
    signal: int | None = None
    duration_ms: int = 0
    truncated: bool = False
    output_bytes: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class ProcessInfo(Model):
    """A command in the background, as the API describes it: `exit_code` is there once it has ended."""

    id: int
    pid: int
    cmd: str
    status: str
    stdin: bool
    started_at: str
    output_bytes: int
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    duration_ms: int = 0


@dataclass
class FileInfo(Model):
    """A file or a folder in a sandbox."""

    name: str
    is_dir: bool
    size: int
    mode: str
    mtime: int
    path: str = ""
    type: str = ""


@dataclass
class FileEvent(Model):
    """A change in a folder that is watched.

    Attributes:
        type: create, write, remove, rename, chmod; or overflow: changes were lost, or (with a path) what is in that
            folder is not watched, for there are too many.
        path: From the folder on; empty: the folder itself.
        is_dir: Whether it is, or was, a folder.
        to: The new name.
    """

    type: str
    path: str
    is_dir: bool
    to: str | None = None


@dataclass
class Port(Model):
    """A port that something in a sandbox listens on (source "detected"), or that has a label ("user").

    `proxy_url` is where it is reached with the key, a path of the API.
    """

    port: int
    listening: bool
    source: str
    proxy_url: str
    label: str | None = None


@dataclass
class Lifecycle(Model):
    """What ends or stops a sandbox by itself."""

    ttl_seconds: int
    persistent: bool
    idle_seconds: int
    status: str


class EgressRules(TypedDict, total=False):
    """Addresses, networks and names, perhaps with ports (docs/network.md)."""

    allow: list[str]
    deny: list[str]


class NetworkPolicy(TypedDict, total=False):
    """What a sandbox may reach."""

    egress: Literal["internet", "none"] | EgressRules
    bytes_per_second: int


@dataclass
class Network(Model):
    """The policy of a sandbox, and what went through since its machine was started."""

    egress: Literal["internet", "none"] | EgressRules
    bytes_per_second: int = 0
    counters: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class SandboxEvent(Model):
    """Something that happened to a sandbox (docs/observe.md)."""

    time: str
    sandbox_id: str
    type: str
    payload: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Metrics(Model):
    """What a sandbox takes of the host, which is what its machine's process takes (docs/observe.md)."""

    status: str
    pid: int
    uptime_seconds: int
    threads: int
    host_cpu_seconds: float
    host_cpu_percent: float
    host_rss_bytes: int
    host_vsz_bytes: int
    guest: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class Promotion(Model):
    """Who is left of a fork-tree."""

    winner: str
    tree_id: str
    deleted: list[str] = field(default_factory=list[str])
    failures: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Snapshot(Model):
    """A machine on the disk."""

    id: str
    sandbox_id: str
    template: str
    created_at: str
    template_version: str = ""
    engine: str = ""
    size_bytes: int = 0
    delta_bytes: int = 0
    memory_mb: int = 0
    pause_ms: float = 0


@dataclass
class Template(Model):
    """What sandboxes are made from."""

    name: str
    version: str
    engine: str
    cpu: int
    memory_mb: int
    description: str = ""
    accel: str = ""
    kernel: str | None = None
    languages: list[str] = field(default_factory=list[str])
    size_bytes: int = 0
    disk_bytes: int = 0
    built_at: str = ""
