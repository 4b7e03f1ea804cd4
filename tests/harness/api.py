# SPDX-License-Identifier: Apache-2.0
"""The HTTP API in the words of the tests: thin, strict, and without the help that a real client gives."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

import requests
from requests.adapters import HTTPAdapter

from harness.websocket import WebSocket

Json = dict[str, Any]
SECONDS = 120


class ApiError(AssertionError):
    """An answer other than the one that was wanted."""

    def __init__(self, response: requests.Response) -> None:
        super().__init__(f"{response.request.method} {response.url}: {response.status_code} {response.text[:2000]}")
        self.response = response
        self.status = response.status_code


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    name: str
    data: Json


def events_of(response: requests.Response) -> Iterator[Event]:
    """The events of a stream, each as soon as it is whole. Strict about the form: ASCII, LF, one blank line."""
    buffer = b""
    for piece in response.iter_content(chunk_size=None):
        assert piece.isascii(), f"published clients read Latin-1: {piece!r}"
        assert b"\r" not in piece
        buffer += piece
        while b"\n\n" in buffer:
            block, buffer = buffer.split(b"\n\n", 1)
            if block.startswith(b":"):
                continue
            first, second = block.decode().split("\n")
            assert first.startswith("event: "), block
            assert second.startswith("data: "), block
            yield Event(first[7:], json.loads(second[6:]))
    assert buffer == b"", f"the stream ends in mid-event: {buffer!r}"


def joined(events: Iterable[Event]) -> list[tuple[str, str]]:
    """What a stream showed, in order: pieces of one output that follow each other are one; the text of results."""
    shown: list[tuple[str, str]] = []
    for e in events:
        if e.name in ("stdout", "stderr"):
            if shown and shown[-1][0] == e.name:
                shown[-1] = (e.name, shown[-1][1] + e.data["chunk"])
            else:
                shown.append((e.name, e.data["chunk"]))
        elif e.name == "result":
            shown.append((e.name, e.data["data"]["text/plain"]))
    return shown


class Api:
    """A client of one daemon. May be shared by threads."""

    # Hears each answer; may raise.
    on_answer: Callable[[requests.Response], None] = staticmethod(lambda response: None)

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url
        self.key = key
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.mount("http://", HTTPAdapter(pool_connections=4, pool_maxsize=64))
        if key is not None:
            self.http.headers["Authorization"] = f"Bearer {key}"

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        """Any request; `path` from the root."""
        kwargs.setdefault("timeout", SECONDS)
        kwargs.setdefault("allow_redirects", False)
        response = self.http.request(method, self.url + path, **kwargs)
        self.on_answer(response)
        return response

    def call(self, method: str, path: str, *, want: int = 200, **kwargs: Any) -> Any:
        """A request that must be answered with this status; its JSON, or None where there is no body."""
        response = self.request(method, path, **kwargs)
        if response.status_code != want:
            raise ApiError(response)
        if not response.content:
            return None
        assert response.headers["Content-Type"] == "application/json"
        return response.json()

    def refused(self, method: str, path: str, status: int, code: str, **kwargs: Any) -> Json:
        """A request that must fail in this way; the answer, whose shape is checked."""
        response = self.request(method, path, **kwargs)
        if response.status_code != status:
            raise ApiError(response)
        answer = cast(Json, response.json())
        assert isinstance(answer["error"], str)
        assert answer["error"]
        assert answer["code"] == code, answer
        assert answer["request_id"] == response.headers["X-Request-Id"]
        return answer

    def create(self, template: str = "code-interpreter", **body: Any) -> Sandbox:
        """A new sandbox."""
        return Sandbox(self, self.call("POST", "/v1/sandboxes", want=201, json={"template": template, **body}))

    def restore(self, snapshot_id: str, **body: Any) -> Sandbox:
        """A new sandbox from a snapshot."""
        return Sandbox(
            self, self.call("POST", "/v1/sandboxes", want=201, json={"from_snapshot": snapshot_id, **body})
        )

    def snapshots(self, **query: str) -> dict[str, Json]:
        """All snapshots that fit, by id."""
        return {s["id"]: s for s in self.call("GET", "/v1/snapshots", params=query)}

    def sandbox(self, sandbox_id: str) -> Sandbox:
        """One that exists."""
        return Sandbox(self, self.call("GET", f"/v1/sandboxes/{sandbox_id}"))

    def list(self, **query: str) -> list[Json]:
        """All sandboxes that fit. Does not put off their expiry, as a GET of one would."""
        return cast("list[Json]", self.call("GET", "/v1/sandboxes", params=query))

    def ids(self) -> set[str]:
        """Those of all sandboxes. Of the rest of a list `expires_at` may differ by a millisecond each time."""
        return {str(s["id"]) for s in self.list()}


class Sandbox:
    """One sandbox."""

    def __init__(self, api: Api, created: Json) -> None:
        self.api = api
        self.created = created
        self.id = str(created["id"])
        self.path = f"/v1/sandboxes/{self.id}"

    def info(self) -> Json:
        """What the API says about it now."""
        return cast(Json, self.api.call("GET", self.path))

    def delete(self) -> None:
        """End it."""
        self.api.call("DELETE", self.path, want=204)

    def discard(self) -> None:
        """End it if it is still there and the daemon is."""
        with contextlib.suppress(requests.RequestException):
            self.api.request("DELETE", self.path)

    # ---- as a value ----

    def snapshot(self) -> Json:
        """Take a snapshot."""
        return cast(Json, self.api.call("POST", f"{self.path}/snapshots", want=201))

    def fork(self, **body: Any) -> Sandbox:
        """One child."""
        return Sandbox(self.api, self.api.call("POST", f"{self.path}/fork", want=201, json=body)["sandbox"])

    def fork_tree(self, count: int, **body: Any) -> list[Sandbox]:
        """Children, in order."""
        answer = self.api.call("POST", f"{self.path}/fork-tree", want=201, json={"count": count, **body})
        return [Sandbox(self.api, child) for child in answer["children"]]

    def pause(self) -> None:
        """Stop its processors."""
        self.api.call("POST", f"{self.path}/pause", want=204)

    def resume(self) -> None:
        """Let them go on."""
        self.api.call("POST", f"{self.path}/resume", want=204)

    def hibernate(self) -> None:
        """Put it to the disk."""
        assert self.api.call("POST", f"{self.path}/hibernate") == {"status": "hibernated"}

    def wake(self) -> None:
        """Bring it back."""
        assert self.api.call("POST", f"{self.path}/wake") == {"status": "running"}

    def status(self) -> str:
        """Its state. Does not put off its expiry, and wakes nobody."""
        return str(next(s["status"] for s in self.api.list() if s["id"] == self.id))

    def lifecycle(self, **change: Any) -> Json:
        """What ends or stops it by itself, changed first where something is given."""
        if change:
            return cast(Json, self.api.call("PATCH", f"{self.path}/lifecycle", json=change))
        return cast(Json, self.api.call("GET", f"{self.path}/lifecycle"))

    def events(self, **query: Any) -> list[Json]:
        """What happened to it."""
        answer = self.api.call("GET", f"{self.path}/events", params=query)
        return cast("list[Json]", answer["events"])

    def metrics(self) -> Json:
        """What it takes of the host, and how its guest is."""
        return cast(Json, self.api.call("GET", f"{self.path}/metrics"))

    def logs(self, **query: Any) -> str:
        """What its commands, or its console, have said."""
        response = self.api.request("GET", f"{self.path}/logs", params=query)
        if response.status_code != 200:
            raise ApiError(response)
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        return response.content.decode()

    @contextlib.contextmanager
    def follow(self, what: str, **query: Any) -> Iterator[Iterator[Event]]:
        """One of its streams ("events", "logs", "fs/watch") as it goes on; leaving the block closes it."""
        response = self.api.request("GET", f"{self.path}/{what}", params=query, stream=True)
        with response:
            if response.status_code != 200:
                raise ApiError(response)
            assert response.headers["Content-Type"].startswith("text/event-stream")
            yield events_of(response)

    def socket(self, what: str, headers: Mapping[str, str] | None = None, /, **query: Any) -> WebSocket:
        """One of its WebSockets, with the key."""
        target = f"{self.path}/{what}" + ("?" + urlencode(query) if query else "")
        return WebSocket(self.api.url, target, {"Authorization": f"Bearer {self.api.key}", **(headers or {})})

    # ---- commands ----

    def exec(self, cmd: str, **body: Any) -> Json:
        """A command's answer, whatever its exit code."""
        return cast(Json, self.api.call("POST", f"{self.path}/exec", json={"cmd": cmd, **body}))

    def output(self, cmd: str, **body: Any) -> str:
        """The stdout of a command that must succeed."""
        answer = self.exec(cmd, **body)
        assert answer["exit_code"] == 0, answer
        return str(answer["stdout"])

    @contextlib.contextmanager
    def stream(self, cmd: str, **body: Any) -> Iterator[Iterator[Event]]:
        """The events of a command, as they come; leaving the block closes the connection."""
        response = self.api.request("POST", f"{self.path}/exec/stream", json={"cmd": cmd, **body}, stream=True)
        with response:
            if response.status_code != 200:
                raise ApiError(response)
            assert response.headers["Content-Type"].startswith("text/event-stream")
            yield events_of(response)

    def start(self, cmd: str, **body: Any) -> Process:
        """A command in the background."""
        body = {"cmd": cmd, "background": True, **body}
        return Process(self, self.api.call("POST", f"{self.path}/exec", want=201, json=body))

    def processes(self) -> dict[int, Json]:
        """Its commands in the background, by id."""
        return {p["id"]: p for p in self.api.call("GET", f"{self.path}/processes")}

    def mount_tmpfs(self, path: str, size: str) -> None:
        """A small file system of its own at `path`."""
        self.output(f"mkdir -p {path}")
        call = f"ctypes.CDLL(None).mount(b'tmpfs', b'{path}', b'tmpfs', 0, b'size={size}')"
        self.output(f'python3 -c "import ctypes, sys; sys.exit({call})"')

    # ---- files ----

    def read(self, path: str) -> bytes:
        """A file's bytes."""
        response = self.api.request("GET", f"{self.path}/fs", params={"path": path})
        if response.status_code != 200:
            raise ApiError(response)
        assert response.headers["Content-Type"] == "application/octet-stream"
        return response.content

    def write(self, path: str, data: bytes | str) -> Json:
        """Make or replace a file."""
        raw = data.encode() if isinstance(data, str) else data
        return cast(Json, self.api.call("PUT", f"{self.path}/fs", params={"path": path}, data=raw))

    def remove(self, path: str) -> None:
        """Remove a file or a tree."""
        self.api.call("DELETE", f"{self.path}/fs", want=204, params={"path": path})

    def stat(self, path: str) -> Json:
        """A file's facts."""
        return cast(Json, self.api.call("GET", f"{self.path}/fs/stat", params={"path": path}))

    def entries(self, path: str) -> dict[str, Json]:
        """What a folder holds, by name."""
        answer = self.api.call("GET", f"{self.path}/fs/dir", params={"path": path})
        assert answer["path"] == path
        return {e["name"]: e for e in answer["entries"]}

    def mkdir(self, path: str) -> None:
        """Make a folder and its parents."""
        self.api.call("POST", f"{self.path}/fs/mkdir", json={"path": path})

    def move(self, source: str, target: str) -> None:
        """Rename."""
        self.api.call("POST", f"{self.path}/fs/move", json={"from": source, "to": target})

    # ---- code ----

    def repl(self, code: str, **body: Any) -> Json:
        """Code without a session."""
        return cast(Json, self.api.call("POST", f"{self.path}/repl", json={"code": code, **body}))

    def session(self, **body: Any) -> Session:
        """A new kernel."""
        return Session(self, self.api.call("POST", f"{self.path}/repl/sessions", want=201, json=body))

    def same(self, session: Session) -> Session:
        """A kernel of a sandbox that this one is a copy of."""
        return Session(self, session.created)

    def sessions(self) -> dict[str, Json]:
        """Its kernels, by id."""
        return {s["id"]: s for s in self.api.call("GET", f"{self.path}/repl/sessions")}


class Session:
    """A kernel that remembers."""

    def __init__(self, sandbox: Sandbox, created: Json) -> None:
        self.sandbox = sandbox
        self.api = sandbox.api
        self.created = created
        self.id = str(created["id"])
        self.path = f"{sandbox.path}/repl/sessions/{self.id}"

    def run(self, code: str, **body: Any) -> Json:
        """A cell's answer, also when it raised an exception."""
        return cast(Json, self.api.call("POST", f"{self.path}/run", json={"code": code, **body}))

    def ok(self, code: str, **body: Any) -> Json:
        """A cell's answer; it must not have raised."""
        answer = self.run(code, **body)
        assert answer["status"] == "ok", answer
        assert answer["exit"] == answer["exit_code"] == 0
        assert "error" not in answer
        return answer

    def text(self, code: str, **body: Any) -> str:
        """The text of a cell's last value."""
        results = self.ok(code, **body)["results"]
        return str(next(r["text/plain"] for r in results if "text/plain" in r))

    def timeout(self, code: str, seconds: float) -> Json:
        """The details of a cell that must be ended by its time limit."""
        answer = self.api.refused(
            "POST", f"{self.path}/run", 504, "timeout", json={"code": code, "timeout_ms": int(seconds * 1000)}
        )
        assert "timeout" in answer["error"]
        return cast(Json, answer["details"])

    @contextlib.contextmanager
    def stream(self, code: str, **body: Any) -> Iterator[Iterator[Event]]:
        """The events of a cell, as they come; leaving the block closes the connection."""
        response = self.api.request(
            "POST", f"{self.path}/run", json={"code": code, "stream": True, **body}, stream=True
        )
        with response:
            if response.status_code != 200:
                raise ApiError(response)
            yield events_of(response)

    def interrupt(self) -> Json:
        """Interrupt what it runs."""
        return cast(Json, self.api.call("POST", f"{self.path}/interrupt"))

    def restart(self) -> Json:
        """Begin anew with a fresh kernel."""
        return cast(Json, self.api.call("POST", f"{self.path}/restart"))

    def delete(self) -> None:
        """End it."""
        self.api.call("DELETE", self.path, want=204)

    def discard(self) -> None:
        """End it if it and its sandbox are still there."""
        with contextlib.suppress(requests.RequestException):
            self.api.request("DELETE", self.path)


class Process:
    """A command in the background."""

    def __init__(self, sandbox: Sandbox, created: Json) -> None:
        self.sandbox = sandbox
        self.api = sandbox.api
        self.created = created
        self.id = int(created["id"])
        self.path = f"{sandbox.path}/processes/{self.id}"

    def info(self) -> Json:
        """What the API says about it now."""
        return cast(Json, self.api.call("GET", self.path))

    def wait(self, **query: Any) -> Json:
        """The same once it has ended, or after a while."""
        return cast(Json, self.api.call("POST", f"{self.path}/wait", params=query))

    def signal(self, sig: int | str) -> None:
        """Send it one."""
        self.api.call("POST", f"{self.path}/signal", want=204, json={"signal": sig})

    def write(self, data: bytes, **query: Any) -> int:
        """To its stdin; the bytes that it took."""
        return int(self.api.call("POST", f"{self.path}/stdin", params=query, data=data)["bytes"])

    @contextlib.contextmanager
    def stream(self) -> Iterator[Iterator[Event]]:
        """What it writes, from the beginning; leaving the block closes the connection."""
        response = self.api.request("GET", f"{self.path}/stream", stream=True)
        with response:
            if response.status_code != 200:
                raise ApiError(response)
            assert response.headers["Content-Type"].startswith("text/event-stream")
            yield events_of(response)

    def output(self) -> str:
        """All of its stdout, to its end."""
        with self.stream() as events:
            return "".join(e.data["chunk"] for e in events if e.name == "stdout")
