# SPDX-License-Identifier: Apache-2.0
"""The PyPI package `pandastack`, unmodified, in all that this server does (docs/clients.md)."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pandastack import (
    AuthError,
    BadRequestError,
    Client,
    CodeContext,
    CommandFailed,
    NotFoundError,
    Sandbox,
    SandboxTimeout,
    ServerError,
    set_default_client,
)

from harness import Daemon


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(daemon.home))  # no ~/.netrc, no config of the person who runs this
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("PANDASTACK_API", daemon.url)
        patch.setenv("PANDASTACK_API_KEY", daemon.key)
        client = Client()
        set_default_client(client)
        yield client
        set_default_client(None)


@pytest.fixture(scope="module")
def box(client: Client) -> Iterator[Any]:
    with Sandbox.create(ttl_seconds=900, metadata={"agent": "researcher", "session": "é"}) as sandbox:
        yield sandbox


@pytest.fixture
def ctx(box: Any) -> Iterator[Any]:
    with box.create_code_context() as ctx:
        yield ctx


def test_create_and_get(box: Any) -> None:
    assert box.template == "code-interpreter"
    assert box.status == "running"
    assert box.metadata == {"agent": "researcher", "session": "é"}
    assert box.cpu >= 1
    assert box.memory_mb >= 128
    assert box.boot_ms > 0
    assert box.boot_mode == "snapshot"
    assert box.persistent is False
    same = Sandbox.get(box.id)
    assert (same.id, same.metadata, same.created_at) == (box.id, box.metadata, box.created_at)


def test_list(box: Any) -> None:
    found = [s for s in Sandbox.list() if s.metadata.get("agent") == "researcher"]
    assert [s.id for s in found] == [box.id]


def test_kill(client: Client) -> None:
    sandbox = Sandbox.create()
    sandbox.kill()
    with pytest.raises(NotFoundError):
        Sandbox.get(sandbox.id)
    with pytest.raises(NotFoundError):
        sandbox.kill()
    assert sandbox.id not in [s.id for s in Sandbox.list()]


def test_the_block_kills_at_its_end(client: Client) -> None:
    with Sandbox.create() as sandbox:
        assert sandbox.exec("echo in").stdout == "in\n"
    with pytest.raises(NotFoundError):
        Sandbox.get(sandbox.id)


def test_exec(box: Any) -> None:
    got = box.exec("echo out; echo err >&2; exit 3")
    assert (got.stdout, got.stderr, got.exit_code) == ("out\n", "err\n", 3)
    assert got.duration_ms >= 0
    assert box.commands.run("echo via commands").stdout == "via commands\n"
    with pytest.raises(CommandFailed) as failed:
        box.exec("echo why >&2; exit 9", check=True)
    assert failed.value.exit_code == 9
    assert failed.value.stderr == "why\n"


def test_exec_timeout(box: Any) -> None:
    with pytest.raises(SandboxTimeout):
        box.exec("sleep 60", timeout_seconds=1)


def test_run_code_without_a_context(box: Any) -> None:
    assert box.run_code("print(6 * 7)").stdout == "42\n"
    assert box.run_code("echo $((6*7))", language="shell").stdout == "42\n"


def test_exec_stream(box: Any) -> None:
    out: list[str] = []
    err: list[str] = []
    code = box.exec_stream(
        "printf 'one\\n'; sleep 0.1; printf 'zwei é … \\342\\200\\250 ☕\\n'; echo err >&2; exit 4",
        on_stdout=out.append,
        on_stderr=err.append,
    )
    assert code == 4
    assert "".join(out) == "one\nzwei é … \u2028 ☕\n"
    assert "".join(err) == "err\n"


def test_exec_stream_is_live(box: Any) -> None:
    box.exec("mkfifo /tmp/py-next")
    seen: list[str] = []
    first = threading.Event()

    def on_stdout(chunk: str) -> None:
        seen.append(chunk)
        first.set()

    thread = threading.Thread(
        target=lambda: box.exec_stream("echo first; read x < /tmp/py-next; echo second", on_stdout=on_stdout)
    )
    thread.start()
    assert first.wait(30), "the first chunk comes before the command goes on"
    assert seen == ["first\n"]
    box.exec("echo > /tmp/py-next")
    thread.join(30)
    assert seen == ["first\n", "second\n"]


def test_exec_stream_timeout(box: Any) -> None:
    with pytest.raises(SandboxTimeout):
        box.exec_stream("sleep 60", timeout_seconds=1)


def test_logs(box: Any) -> None:
    box.exec("echo zwei é; echo err >&2")
    assert list(box.logs(stream="stdout"))[-1] == "zwei é"
    assert list(box.logs(stream="stderr"))[-1] == "err"
    assert set(box.logs()) >= {"zwei é", "err"}
    following = box.logs(stream="stdout", follow=True)
    assert "zwei é" in following
    box.exec("echo 'drei \u2028 …'")
    assert next(following) == "drei \u2028 …"
    following.close()


def test_context(ctx: Any) -> None:
    assert ctx.run_code("x = 41").text is None
    assert ctx.run_code("x + 1").text == "42"
    printed = ctx.run_code("print('hi')")
    assert (printed.text, printed.stdout, printed.logs) == (None, "hi\n", {"stdout": "hi\n", "stderr": ""})
    failed = ctx.run_code("1/0")
    assert "ZeroDivisionError" in failed.error
    assert failed.exit_code == 1
    assert ctx.run_code("x").text == "41"


def test_context_rich_results(ctx: Any) -> None:
    got = ctx.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
    assert got.error is None
    assert "<table" in got.results[0].html
    assert "a" in got.text
    chart = ctx.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert base64.b64decode(chart.png).startswith(b"\x89PNG")
    assert chart.results[0].chart == chart.png
    data = ctx.run_code("from IPython.display import JSON\nJSON({'a': [1]})")
    assert data.results[0].json == {"a": [1]}
    text = ctx.run_code("import matplotlib.pyplot as plt\nfig = plt.figure(); plt.plot([1]); plt.show()\n'value'")
    assert text.text == "'value'"
    assert text.png


def test_context_timeout(ctx: Any) -> None:
    ctx.run_code("x = 5")
    with pytest.raises(SandboxTimeout):
        ctx.run_code("while True: pass", timeout_seconds=1)
    assert ctx.run_code("x").text == "5"


def test_context_default_limit_comes_before_the_clients_own(ctx: Any) -> None:
    """Both are 30 s; the server's answer has to win."""
    began = time.monotonic()
    with pytest.raises(SandboxTimeout):
        ctx.run_code("import time; time.sleep(100)")
    assert time.monotonic() - began < 31
    assert ctx.run_code("1").text == "1"


def test_context_close(box: Any) -> None:
    ctx = box.create_code_context()
    ctx.close()
    with pytest.raises(NotFoundError):
        ctx.run_code("1")
    ctx.close()
    with pytest.raises(BadRequestError):
        box.create_code_context(language="cobol")


def test_filesystem(box: Any, tmp_path: Path) -> None:
    fs = box.filesystem
    data = bytes(range(256)) * 1000
    assert fs.write("/workspace/dir/é b.bin", data)["bytes"] == len(data)
    assert fs.read("/workspace/dir/é b.bin") == data
    fs.write("/workspace/dir/text", "größe")
    assert fs.read("/workspace/dir/text").decode() == "größe"
    fs.write("/workspace/dir/empty", b"")
    assert fs.read("/workspace/dir/empty") == b""
    listed = {f.name: f for f in fs.listdir("/workspace/dir")}
    assert set(listed) == {"é b.bin", "text", "empty"}
    assert listed["é b.bin"].size == len(data)
    assert listed["é b.bin"].path == "/workspace/dir/é b.bin"
    assert listed["text"].is_dir is False
    assert abs(listed["text"].mtime - time.time()) < 60
    assert fs.stat("/workspace/dir").is_dir is True
    assert fs.exists("/workspace/dir/text") is True
    assert fs.exists("/workspace/dir/nothing") is False
    with pytest.raises(NotFoundError):
        fs.read("/workspace/dir/nothing")
    (tmp_path / "up").write_bytes(data)
    fs.upload(tmp_path / "up", "/workspace/up")
    fs.download("/workspace/up", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == data


def test_snapshot(client: Client, box: Any, ctx: Any) -> None:
    """The default template that is sent along is ignored; variables are there."""
    ctx.run_code("x = 41")
    snap_id = box.snapshot()
    assert client.snapshots.get(snap_id)["sandbox_id"] == box.id
    assert snap_id in [s["id"] for s in client.snapshots.list()]
    assert [s["id"] for s in client.snapshots.list(sandbox_id=box.id)] == [snap_id]
    with Sandbox.create(from_snapshot=snap_id) as resumed, CodeContext(resumed, ctx.id) as same:
        assert resumed.from_snapshot == snap_id
        assert resumed.boot_mode == "snapshot"
        assert same.run_code("x + 1").text == "42"
    client.snapshots.delete(snap_id)
    with pytest.raises(NotFoundError):
        client.snapshots.get(snap_id)
    with pytest.raises(NotFoundError):
        Sandbox.create(from_snapshot=snap_id)


def test_fork(box: Any, ctx: Any) -> None:
    ctx.run_code("x = 41")
    with box.fork(metadata={"branch": "a"}) as child:
        assert child.id != box.id
        assert child.metadata.items() >= {**box.metadata, "branch": "a"}.items()
        assert child.boot_mode == "fork"
        assert (child.cpu, child.memory_mb) == (box.cpu, box.memory_mb)
        assert CodeContext(child, ctx.id).run_code("x + 1").text == "42"
    assert ctx.run_code("x").text == "41"


def test_fork_tree_and_promote(box: Any) -> None:
    children = box.fork_tree(3, metadata={"branch": "b"})
    try:
        assert [c.metadata["fork_index"] for c in children] == ["0", "1", "2"]
        assert {c.metadata["fork_parent_id"] for c in children} == {box.id}
        winner = children[1]
        assert winner.promote()["deleted"] == []
        got = winner.promote(cleanup_siblings=True)
        assert got["winner"] == winner.id
        assert set(got["deleted"]) == {children[0].id, children[2].id}
        assert winner.exec("echo alive").stdout == "alive\n"
        with pytest.raises(NotFoundError):
            Sandbox.get(children[0].id)
        with pytest.raises(BadRequestError):
            box.promote()
        with pytest.raises(BadRequestError):
            box.fork_tree(17)
    finally:
        for child in children:
            with contextlib.suppress(NotFoundError):
                child.kill()


def test_explore(box: Any) -> None:
    got = box.explore(
        ["echo PASS > /root/out; echo PASS", "echo FAIL", "exit 3"],
        score_fn=lambda sandbox, outcome: float("PASS" in outcome.stdout_tail),
    )
    with got.winner as winner:
        assert got.winner_outcome.label.startswith("echo PASS")
        assert got.errors == []
        assert len(got.reaped) == 2
        assert got.winner_outcome.files_changed == ["/root/out"]
        assert winner.exec("cat /root/out").stdout == "PASS\n"
    assert box.exec("ls /root/out").exit_code != 0


def test_lifecycle(box: Any, ctx: Any) -> None:
    ctx.run_code("x = 41")
    box.pause()
    assert Sandbox.get(box.id).status == "paused"
    box.resume()
    box.hibernate()
    assert Sandbox.get(box.id).status == "hibernated"
    box.wake()
    assert Sandbox.get(box.id).status == "running"
    box.hibernate()
    assert ctx.run_code("x").text == "41", "a request wakes it"
    assert box.set_ttl(800)["ttl_seconds"] == 800
    assert box.set_persistent(True)["persistent"] is True
    assert Sandbox.get(box.id).persistent is True
    assert box.set_persistent(False)["persistent"] is False
    assert box.lifecycle()["ttl_seconds"] == 800


def test_persistent(client: Client) -> None:
    """The block does not kill it at its end."""
    with Sandbox.create(persistent=True) as sandbox:
        pass
    with Sandbox.get(sandbox.id) as same:
        assert same.persistent is True
    sandbox.kill()


def test_templates(client: Client) -> None:
    assert "code-interpreter" in [t.name for t in client.templates.list()]
    assert client.templates.get("code-interpreter").name == "code-interpreter"
    with pytest.raises(NotFoundError):
        client.templates.get("no-such")


def test_errors(daemon: Daemon, client: Client) -> None:
    wrong = Client(api_url=daemon.url, api_key="pds_wrong")
    with pytest.raises(AuthError):
        wrong.sandboxes.list()
    with pytest.raises(BadRequestError, match="code-interpreter"):
        Sandbox.create(template="no-such")
    with pytest.raises(BadRequestError):
        Sandbox.create(ttl_seconds=-5)
    with pytest.raises(NotFoundError):
        Sandbox.get("nothing")
    with pytest.raises(ServerError, match="not supported"):
        client.volumes.list()


def test_url_with_a_version(daemon: Daemon) -> None:
    assert Client(api_url=f"{daemon.url}/v1", api_key=daemon.key).sandboxes.list() is not None
