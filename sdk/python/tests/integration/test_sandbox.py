# SPDX-License-Identifier: Apache-2.0
"""Sandboxes at the real daemon: their life, commands, and copies of them."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator

import pytest

from pandastack import (
    BadRequestError,
    Client,
    CodeContext,
    CommandError,
    CommandFailed,
    ConflictError,
    NotFoundError,
    NotSupportedError,
    Sandbox,
    SandboxFailed,
    SandboxTimeout,
    __version__,
)


def ids(client: Client) -> set[str]:
    return {s.id for s in Sandbox.list(client=client)}


# ---- from nothing to one, and to its end ----


def test_facts(box: Sandbox, client: Client) -> None:
    assert (box.template, box.status, box.metadata) == ("code-interpreter", "running", {"made-by": "box"})
    assert box.memory_mb >= 128
    assert box.accel in ("kvm", "tcg")
    assert box.persistent is False
    assert box.expires_at
    same = Sandbox.get(box.id, client=client)
    assert (same.id, same.created_at, same.metadata) == (box.id, box.created_at, box.metadata)
    assert box.id in repr(box)


def test_list_by_metadata_and_state(box: Sandbox, client: Client) -> None:
    mark = uuid.uuid4().hex
    with Sandbox.create("base", client=client, metadata={"mark": mark, "with.dots & é": "=1 2"}) as other:
        assert [s.id for s in Sandbox.list(metadata={"mark": mark}, client=client)] == [other.id]
        found = Sandbox.list(metadata={"mark": mark, "with.dots & é": "=1 2"}, status="running", client=client)
        assert [s.id for s in found] == [other.id]
        assert Sandbox.list(metadata={"mark": mark}, status="paused", client=client) == []
        assert Sandbox.list(metadata={"mark": "x"}, client=client) == []
        assert {box.id, other.id} <= ids(client)


def test_the_block_kills_at_its_end(client: Client) -> None:
    with pytest.raises(ZeroDivisionError), Sandbox.create("base", client=client) as sandbox:
        raise ZeroDivisionError
    assert sandbox.kill() is False, "gone already, and no error"
    with pytest.raises(NotFoundError):
        sandbox.refresh()
    with Sandbox.create("base", client=client) as sandbox:
        assert sandbox.kill() is True


def test_a_persistent_one_outlives_the_block(client: Client) -> None:
    with Sandbox.create("base", persistent=True, idle_seconds=900, client=client) as sandbox:
        pass
    try:
        assert sandbox.refresh().persistent is True
        lifecycle = sandbox.lifecycle()
        assert (lifecycle.idle_seconds, lifecycle.persistent) == (900, True)
        assert sandbox.set_persistent(False).persistent is False
        assert sandbox.set_ttl(800).ttl_seconds == 800
    finally:
        sandbox.kill()


def test_pause_hibernate_and_connect(client: Client) -> None:
    with Sandbox.create(client=client) as sandbox:
        ctx = sandbox.create_code_context()
        ctx.run_code("x = 41")
        sandbox.pause()
        assert sandbox.refresh().status == "paused"
        with pytest.raises(ConflictError, match="paused"):
            sandbox.exec("true")
        assert Sandbox.connect(sandbox.id, client=client).status == "running"
        sandbox.hibernate()
        assert sandbox.refresh().status == "hibernated"
        same = Sandbox.connect(sandbox.id, client=client)
        assert same.status == sandbox.refresh().status == "running"
        sandbox.hibernate()
        assert ctx.run_code("x + 1").text == "42", "a request wakes it"
        sandbox.hibernate()
        sandbox.wake()
        sandbox.pause()
        sandbox.resume()
        assert sandbox.status == "running"


def test_refusals_say_why(client: Client) -> None:
    with pytest.raises(BadRequestError, match="code-interpreter") as e:
        Sandbox.create("no-such", client=client)
    assert (e.value.status, e.value.code) == (400, "template.unknown")
    assert e.value.request_id
    with pytest.raises(NotFoundError):
        Sandbox.get("nothing", client=client)
    with pytest.raises(NotFoundError):
        Sandbox.create(from_snapshot="nothing", client=client)
    with pytest.raises(BadRequestError):
        Sandbox.create(ttl_seconds=-1, client=client)
    both = f"the daemon is pandastack {__version__}, this SDK is pandastack {__version__}: is something between"
    with pytest.raises(NotSupportedError, match=both):
        client.call("GET", "/v1/of-a-newer-daemon")


def test_the_daemon(client: Client) -> None:
    assert client.version()["service"] == "pandastack"
    assert "code-interpreter" in [t.name for t in client.templates.list()]
    assert client.templates.get("code-interpreter").kernel == "python"
    with pytest.raises(NotFoundError):
        client.templates.get("no-such")
    with pytest.raises(NotFoundError):
        client.templates.delete("no-such", force=True)


def test_network(client: Client) -> None:
    with Sandbox.create("base", network={"egress": "none"}, client=client) as sandbox:
        assert sandbox.network().egress == "none"
        assert sandbox.network().counters == {}
        state = sandbox.set_network({"egress": {"allow": ["example.com:443"]}, "bytes_per_second": 100_000})
        assert state.egress == {"allow": ["example.com:443"]}
        assert state.bytes_per_second == sandbox.network().bytes_per_second == 100_000
        assert sandbox.exec("getent hosts other.invalid").exit_code != 0
        assert sandbox.network().counters["denied"] > 0
        with pytest.raises(BadRequestError, match="not a rule"):
            sandbox.set_network({"egress": {"allow": ["not a rule"]}})
    with Sandbox.create("base", client=client) as sandbox:
        assert sandbox.network().egress == "internet"


def test_events(client: Client) -> None:
    with Sandbox.create("base", client=client) as sandbox:
        (created,) = sandbox.events()
        assert (created.type, created.payload["template"]) == ("sandbox.running", "base")
        assert sandbox.events(since=created.time) == sandbox.events(tail=0) == []
        seen: list[str] = []
        for event in sandbox.follow_events():
            seen.append(event.type)
            if event.type == "sandbox.running":
                sandbox.pause()
            elif event.type == "sandbox.paused":
                sandbox.kill()
        assert seen == ["sandbox.running", "sandbox.paused", "sandbox.deleted"]


def test_metrics(box: Sandbox) -> None:
    metrics = box.metrics()
    assert metrics.status == "running"
    assert metrics.host_rss_bytes > 1_000_000
    assert metrics.guest["memory_total_bytes"] > metrics.guest["memory_available_bytes"] > 0


# ---- commands ----


def test_exec(box: Sandbox) -> None:
    got = box.exec("echo out; echo err >&2; exit 3")
    assert (got.stdout, got.stderr, got.exit_code, got.truncated, got.signal) == ("out\n", "err\n", 3, False, None)
    assert box.exec("kill -9 $$").signal == 9
    assert box.exec("echo $WORD $A; pwd; cat", cwd="/tmp", env={"A": "b"}, stdin="é\n").stdout == (
        "of the sandbox b\n/tmp\né\n"
    )
    assert box.exec("id -un", user="nobody").stdout == "nobody\n"
    assert box.exec("head -c 3000000 /dev/zero | tr '\\0' x").truncated is True


def test_exec_that_must_succeed(box: Sandbox) -> None:
    assert box.exec("true", check=True).exit_code == 0
    with pytest.raises(CommandError, match="why") as e:
        box.exec("echo so far; echo why >&2; exit 9", check=True)
    assert (e.value.exit_code, e.value.stdout, e.value.stderr) == (9, "so far\n", "why\n")
    assert CommandFailed is CommandError


@pytest.mark.parametrize("limit", [{"timeout": 0.5}, {"timeout_seconds": 0.5}])
def test_exec_timeout(box: Sandbox, limit: dict[str, float]) -> None:
    with pytest.raises(SandboxTimeout, match=r"timeout after 0\.5s: allow it more time") as e:
        box.exec("echo so far; sleep 60", **limit)  # type: ignore[arg-type]
    assert (e.value.stdout, e.value.code, e.value.status) == ("so far\n", "timeout", 504)
    with pytest.raises(SandboxTimeout) as e:
        box.exec_stream("echo so far; sleep 60", **limit)  # type: ignore[arg-type]
    assert (e.value.stdout, e.value.code, e.value.status) == ("so far\n", "timeout", 504)


def test_exec_stream(box: Sandbox) -> None:
    out: list[str] = []
    err: list[str] = []
    code = box.exec_stream(
        "printf 'one\\n'; printf 'zwei é … \\342\\200\\250 ☕\\n'; cat; echo $A >&2; exit 4",
        on_stdout=out.append,
        on_stderr=err.append,
        env={"A": "b"},
        stdin="in",
    )
    assert (code, "".join(out), "".join(err)) == (4, "one\nzwei é … \u2028 ☕\nin", "b\n")
    assert box.exec_stream("exit 0") == 0


def test_exec_stream_is_live_and_of_any_size(box: Sandbox) -> None:
    box.exec("mkfifo /tmp/next")
    seen: list[str] = []

    def on_stdout(chunk: str) -> None:
        seen.append(chunk)
        if len(seen) == 1:
            assert box.exec("echo > /tmp/next", timeout=20).exit_code == 0, "it waits for us"

    assert box.exec_stream("echo first; read x < /tmp/next; yes | head -c 5000000", on_stdout) == 0
    assert sum(map(len, seen)) == 6 + 5_000_000


def test_a_listener_that_raises_ends_the_command(box: Sandbox) -> None:
    def stop(chunk: str) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        box.exec_stream("echo x; exec bash -c 'exec -a listened sleep 300'", stop)
    box.exec("while pgrep -f '^[l]istened'; do :; done", timeout=30)


def test_a_sandbox_killed_in_mid_call(client: Client) -> None:
    with Sandbox.create(client=client) as parent:
        ctx = parent.create_code_context()
        cell = "import os, time; os.write(1, b'up\\n'); time.sleep(300)"
        for call in (
            lambda s, told: s.exec_stream("echo up; sleep 300", told),
            lambda s, told: CodeContext(s, ctx.id).run_code(cell, 400, on_stdout=told),
        ):
            victim = parent.fork()
            with pytest.raises(SandboxFailed, match="deleted") as e:
                call(victim, lambda chunk, victim=victim: victim.kill())
            assert e.value.stdout == "up\n"
        victim = parent.fork()
        waiting = threading.Thread(target=lambda: victim.exec("until [ -e /tmp/go ]; do :; done") and victim.kill())
        waiting.start()
        with pytest.raises(SandboxFailed):
            victim.exec_stream("touch /tmp/go; sleep 300")
        waiting.join()


# ---- a machine as a value ----


@pytest.fixture(scope="module")
def loaded(client: Client) -> Iterator[CodeContext]:
    """A kernel with something in it."""
    with Sandbox.create(client=client, metadata={"a": "1"}) as sandbox:
        ctx = sandbox.create_code_context()
        ctx.run_code("x = 41")
        yield ctx


def test_snapshot(loaded: CodeContext, client: Client) -> None:
    parent = loaded.sandbox
    snapshot = parent.snapshot()
    try:
        with Sandbox.create(from_snapshot=snapshot, client=client, metadata={"b": "2"}) as restored:
            assert restored.from_snapshot == snapshot
            assert restored.metadata == {"b": "2"}
            assert CodeContext(restored, loaded.id).run_code("x + 1").text == "42"
            assert [(c.id, c.language) for c in restored.list_code_contexts()] == [(loaded.id, "python")]
        assert [s.id for s in client.snapshots.list(parent.id)] == [snapshot]
        assert snapshot in [s.id for s in client.snapshots.list()]
        assert client.snapshots.get(snapshot).sandbox_id == parent.id
    finally:
        client.snapshots.delete(snapshot)
    with pytest.raises(NotFoundError):
        client.snapshots.get(snapshot)


def test_fork(loaded: CodeContext) -> None:
    parent = loaded.sandbox
    with parent.fork() as plain, parent.fork(metadata={"branch": "é"}) as child:
        assert plain.metadata == {"a": "1"}
        assert (child.parent, child.metadata) == (parent.id, {"a": "1", "branch": "é"})
        for sandbox in (plain, child):
            assert CodeContext(sandbox, loaded.id).run_code("x += 1; x").text == "42"
    assert loaded.run_code("x").text == "41"


def test_fork_tree_and_promote(loaded: CodeContext, client: Client) -> None:
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(c) for c in loaded.sandbox.fork_tree(3, metadata={"b": "2"})]
        assert [c.metadata["fork_index"] for c in children] == ["0", "1", "2"]
        got = children[1].promote(cleanup_siblings=True)
        assert got.winner == children[1].id
        assert set(got.deleted) == {children[0].id, children[2].id}
        assert got.failures == {}
        assert ids(client) & {c.id for c in children} == {children[1].id}
        with pytest.raises(BadRequestError):
            loaded.sandbox.fork_tree(17)
