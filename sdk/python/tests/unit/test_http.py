# SPDX-License-Identifier: Apache-2.0
"""Servers that answer badly, in half, late or not at all: what is raised, what is said, what is tried again."""

from __future__ import annotations

import asyncio
import socket
from typing import Callable

import pytest
from bad_server import CHUNKED, END, Server, answer, event

import pandastack._http
from pandastack import (
    APIConnectionError,
    AsyncClient,
    AsyncSandbox,
    AuthError,
    BadRequestError,
    Client,
    CodeContext,
    ConflictError,
    ExecInterrupted,
    LimitError,
    NotFoundError,
    NotSupportedError,
    PandastackError,
    Sandbox,
    SandboxFailed,
    SandboxTimeout,
    ServerError,
)

Serve = Callable[..., Server]
JSON = "Content-Type: application/json"
SANDBOX = {"id": "sb", "template": "base", "status": "running"}
CREATED = answer('{"id": "sb", "template": "base", "status": "running"}', "201 Created", JSON)
OK_EXEC = answer('{"stdout": "hi", "stderr": "", "exit_code": 0}', "200 OK", JSON)


def raised(server: Server, call: Callable[[Sandbox], object], timeout: float = 30) -> PandastackError:
    with Client(server.url, "pds_k", timeout=timeout) as client, pytest.raises(PandastackError) as e:
        call(Sandbox(client, SANDBOX))
    return e.value


def exec_true(sandbox: Sandbox) -> object:
    return sandbox.exec("true")


@pytest.mark.parametrize(
    ("status", "code", "cls"),
    [
        ("400 Bad Request", "request.invalid", BadRequestError),
        ("404 Not Found", "sandbox.not_found", NotFoundError),
        ("409 Conflict", "conflict", ConflictError),
        ("413 Payload Too Large", "request.too_large", BadRequestError),
        ("429 Too Many Requests", "limit.reached", LimitError),
        ("500 Internal Server Error", "internal", ServerError),
        ("501 Not Implemented", "not_supported", NotSupportedError),
        ("503 Service Unavailable", "sandbox.failed", SandboxFailed),
        ("504 Gateway Timeout", "timeout", SandboxTimeout),
    ],
)
def test_every_member_of_an_error(serve: Serve, status: str, code: str, cls: type[PandastackError]) -> None:
    body = f'{{"error": "words", "code": "{code}", "request_id": "r1", "details": {{"stdout": "so far"}}}}'
    error = raised(serve(answer(body, status, JSON)), exec_true)
    assert type(error) is cls
    assert (error.status, error.code, error.request_id, error.stdout) == (int(status[:3]), code, "r1", "so far")
    assert str(error).startswith("words")


def test_a_wrong_key_says_which_and_where_the_right_one_is(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(answer('{"error": "unauthorized", "code": "auth.unauthorized"}', "401 Unauthorized", JSON))
    monkeypatch.setenv("PANDASTACK_API_KEY", "pds_secret")
    with Client(server.url) as client, pytest.raises(AuthError) as e:
        client.templates.list()
    for words in (server.url, "PANDASTACK_API_KEY", "pandastack serve", "config.json"):
        assert words in str(e.value)
    assert "pds_secret" not in str(e.value)


def test_another_version_says_so(serve: Serve) -> None:
    for status, code in (("404 Not Found", "not_found"), ("405 Method Not Allowed", "request.method")):
        error = raised(serve(answer(f'{{"error": "x", "code": "{code}"}}', status, JSON)), exec_true)
        assert isinstance(error, NotSupportedError)
        assert "update the daemon and restart it" in str(error)


@pytest.mark.parametrize("body", ["{}", "[]", '{"stdout": "x"}', "1", "null", ""])
def test_an_answer_of_another_shape(serve: Serve, body: str) -> None:
    error = raised(serve(answer(body, "200 OK", JSON)), exec_true)
    assert isinstance(error, ServerError)
    assert "update the daemon and restart it" in str(error)


@pytest.mark.parametrize("method", ["fork", "fork_tree", "list_code_contexts", "create_code_context", "lifecycle"])
@pytest.mark.parametrize("body", ["{}", "[1]", "1"])
def test_an_answer_of_another_shape_to_anything(serve: Serve, method: str, body: str) -> None:
    error = raised(serve(answer(body, "200 OK", JSON)), lambda sandbox: getattr(sandbox, method)())
    assert isinstance(error, ServerError)


@pytest.mark.parametrize(
    "script",
    [
        answer("<html>welcome</html>"),
        answer("<html>bad gateway</html>", "502 Bad Gateway"),
        answer("", "302 Found", "Location: http://elsewhere/"),
        answer("[]", "500 Internal Server Error", JSON),
    ],
)
def test_what_is_no_daemon(serve: Serve, script: bytes) -> None:
    server = serve(script)
    error = raised(server, exec_true)
    assert "PANDASTACK_API" in str(error)
    assert server.url in str(error)


def test_nobody_there(serve: Serve) -> None:
    server = serve()
    server.close()
    error = raised(server, exec_true)
    assert isinstance(error, APIConnectionError)
    assert server.url in str(error)
    assert "pandastack serve" in str(error)


def test_half_an_answer(serve: Serve) -> None:
    half = answer('{"stdout": "hi", "stderr": "", "exit_code": 0}', "200 OK", JSON)[:-10]
    for script in (half, half[:20], b""):
        server = serve(script)
        error = raised(server, exec_true)
        assert isinstance(error, APIConnectionError)
        assert "may have taken effect" in str(error)
        assert len(server.requests) == 1, "a command may have run: it is not tried again"


def test_what_answers_no_http(serve: Serve) -> None:
    assert isinstance(raised(serve(b"SSH-2.0-OpenSSH_9.2\r\n"), exec_true), APIConnectionError)


def test_too_slow(serve: Serve) -> None:
    """The server waits for the client to give up."""
    error = raised(serve(lambda connection: connection.recv(1)), lambda s: s.pause(), timeout=0.2)
    assert isinstance(error, APIConnectionError)
    assert "silent for too long" in str(error)
    assert "timeout=" in str(error)


def test_a_command_may_take_its_limit(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own limit ends no command; the command's does, with a margin for the daemon to say so."""
    monkeypatch.setattr("pandastack._sync.sandbox.GRACE_SECONDS", 0.3)
    late: list[float] = []

    def answer_late(connection: socket.socket) -> None:
        connection.settimeout(0.2)
        with pytest.raises(socket.timeout):
            connection.recv(1)
        connection.settimeout(None)
        late.append(1)
        connection.sendall(OK_EXEC)

    server = serve(answer_late, lambda connection: connection.recv(1))
    with Client(server.url, "k", timeout=0.1) as client:
        sandbox = Sandbox(client, SANDBOX)
        assert sandbox.exec("sleep", timeout=0.1).stdout == "hi"
        assert late
        with pytest.raises(APIConnectionError, match="silent"):
            sandbox.exec("sleep", timeout=0.1)


# ---- streams ----


def test_a_stream(serve: Serve) -> None:
    script = CHUNKED + event("stdout", chunk="a") + event("exit", exit_code=3) + END
    seen: list[str] = []
    with Client(serve(script).url, "k") as client:
        assert Sandbox(client, SANDBOX).exec_stream("x", on_stdout=seen.append) == 3
    assert seen == ["a"]


@pytest.mark.parametrize("tail", [END, b"", b"5\r\nev", event("stdout", chunk="{")[:-4]])
def test_a_stream_without_an_exit_is_no_success(serve: Serve, tail: bytes) -> None:
    error = raised(serve(CHUNKED + event("stdout", chunk="so far") + tail), lambda s: s.exec_stream("x"))
    assert isinstance(error, ExecInterrupted)
    assert error.stdout == "so far"
    assert "not known" in str(error)


def test_a_stream_that_breaks_after_its_exit_is_one(serve: Serve) -> None:
    with Client(serve(CHUNKED + event("exit", exit_code=0)).url, "k") as client:
        assert Sandbox(client, SANDBOX).exec_stream("x") == 0


def test_a_silent_stream(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pandastack._http, "STREAM_SILENCE_SECONDS", 0.2)

    def begin_and_hang(connection: socket.socket) -> None:
        connection.sendall(CHUNKED + event("stdout", chunk="so far"))
        connection.recv(1)

    error = raised(serve(begin_and_hang), lambda s: CodeContext(s, "c").run_code("x"))
    assert isinstance(error, ExecInterrupted)
    assert error.stdout == "so far"
    assert "silent" in str(error.__cause__)


def test_a_listener_that_raises_ends_the_stream(serve: Serve) -> None:
    def begin_and_hang(connection: socket.socket) -> None:
        connection.sendall(CHUNKED + event("stdout", chunk="x"))
        assert connection.recv(1) == b"", "the client closed"

    def listener(chunk: str) -> None:
        raise APIConnectionError("of the listener's own")

    with Client(serve(begin_and_hang).url, "k") as client:
        with pytest.raises(APIConnectionError, match="of the listener's own") as e:
            Sandbox(client, SANDBOX).exec_stream("x", listener)
        assert not isinstance(e.value, ExecInterrupted)


def test_an_error_in_place_of_a_stream(serve: Serve) -> None:
    body = '{"error": "the sandbox failed: panic", "code": "sandbox.failed"}'
    error = raised(serve(answer(body, "503 Service Unavailable", JSON)), lambda s: s.exec_stream("x"))
    assert isinstance(error, SandboxFailed)
    assert "panic" in str(error)


# ---- tried again ----


def test_a_read_is_tried_again(serve: Serve) -> None:
    server = serve(b"", answer("[]", "200 OK", JSON)[:-1], answer("[]", "200 OK", JSON))
    with Client(server.url, "k") as client:
        assert client.templates.list() == []
    assert len(server.requests) == 3


def test_not_for_ever(serve: Serve) -> None:
    server = serve(b"", b"", b"")
    assert isinstance(raised(server, lambda s: s.refresh()), APIConnectionError)
    assert len(server.requests) == 3


def test_a_refused_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while a daemon restarts. Nothing was sent, so anything may be."""
    servers: list[Server] = []
    place = socket.create_server(("127.0.0.1", 0))
    port = place.getsockname()[1]
    place.close()

    def begin(seconds: float) -> None:
        if not servers:
            monkeypatch.setattr(socket, "create_server", lambda _: real(("127.0.0.1", port)))
            servers.append(Server(OK_EXEC))

    real = socket.create_server
    monkeypatch.setattr("pandastack._sync._io.sleep", begin)
    with Client(f"http://127.0.0.1:{port}", "k") as client:
        assert Sandbox(client, SANDBOX).exec("true").stdout == "hi"
    servers[0].close()


def keys_of(server: Server) -> list[bytes]:
    return [line for r in server.requests for line in r.split(b"\r\n") if line.lower().startswith(b"idempotency")]


def test_create_is_tried_again_with_the_same_key(serve: Serve) -> None:
    server = serve(b"", CREATED, CREATED)
    with Client(server.url, "k") as client:
        assert Sandbox.create(client=client).id == "sb"
        assert Sandbox.create(client=client).id == "sb"
    first, second, third = keys_of(server)
    assert first == second != third


def test_kill_is_tried_again_and_may_find_it_gone(serve: Serve) -> None:
    server = serve(b"", answer('{"error": "no such sandbox", "code": "sandbox.not_found"}', "404 Not Found", JSON))
    with Client(server.url, "k") as client:
        assert Sandbox(client, SANDBOX).kill() is False


@pytest.mark.parametrize(
    "call", [lambda s: s.fork(), lambda s: s.snapshot(), lambda s: s.run_code("x"), lambda s: s.exec_stream("x")]
)
def test_what_is_not_tried_again(serve: Serve, call: Callable[[Sandbox], object]) -> None:
    server = serve(b"", b"")
    assert isinstance(raised(server, call), APIConnectionError)
    assert len(server.requests) == 1


# ---- what is sent ----


def test_what_create_sends(serve: Serve) -> None:
    server = serve(*[CREATED] * 3)
    with Client(server.url, "pds_k") as client:
        Sandbox.create(client=client)
        Sandbox.create(from_snapshot="s", client=client)
        Sandbox.create("base", ttl_seconds=60, persistent=True, metadata={"a": "é"}, env={}, client=client)
    bodies = [r.split(b"\r\n\r\n", 1)[1].decode() for r in server.requests]
    assert bodies[0] == '{"template":"code-interpreter"}'
    assert bodies[1] == '{"from_snapshot":"s"}'
    assert bodies[2] == '{"template":"base","ttl_seconds":60,"persistent":true,"metadata":{"a":"é"},"env":{}}'
    assert all(b"authorization: bearer pds_k\r\n" in r.lower() for r in server.requests)


def test_names_stay_in_their_place_in_the_path(serve: Serve) -> None:
    server = serve(CREATED)
    with Client(server.url, "k") as client:
        Sandbox.get("a/b?c#d e%2f", client=client)
    assert server.requests[0].startswith(b"GET /v1/sandboxes/a%2Fb%3Fc%23d%20e%252f HTTP")


# ---- asyncio ----


def test_asyncio(serve: Serve) -> None:
    """The source of all of the above; here what only asyncio has."""
    hung = serve(lambda connection: connection.recv(1))
    stream = CHUNKED + event("stdout", chunk="a") + event("exit", exit_code=0) + END
    server = serve(stream, b"", CREATED)
    seen: list[str] = []

    async def listener(chunk: str) -> None:
        await asyncio.sleep(0)
        seen.append(chunk)

    async def main() -> None:
        async with AsyncClient(server.url, "k") as client, AsyncClient(hung.url, "k") as waiting:
            assert await AsyncSandbox(client, SANDBOX).exec_stream("x", listener) == 0
            assert (await AsyncSandbox.create(client=client)).id == "sb"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(AsyncSandbox(waiting, SANDBOX).exec("x"), 0.2)

    asyncio.run(main())
    assert seen == ["a"]
