# SPDX-License-Identifier: Apache-2.0
"""Sandboxes: create, list, filter, get, delete, time to live."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from harness import Api, Daemon, Sandbox
from harness.daemon import wait_for_exit

Make = Callable[..., Sandbox]

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def when(text: str) -> float:
    assert RFC3339.fullmatch(text), text
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_create_answers_a_whole_sandbox(sandbox: Make) -> None:
    before = time.time()
    got = sandbox(metadata={"agent": "researcher", "é": "☕"}, ttl_seconds=600).created
    assert str(uuid.UUID(got["id"])) == got["id"]
    assert got["template"] == "code-interpreter"
    assert got["status"] == "running"
    assert got["metadata"] == {"agent": "researcher", "é": "☕"}
    assert got["engine"] == "qemu"
    assert got["accel"] in ("tcg", "kvm")
    assert got["isolation"] == "microvm"
    assert got["cpu"] >= 1
    assert got["memory_mb"] >= 128
    assert got["boot_mode"] == "snapshot"
    assert got["boot_ms"] > 0
    assert got["persistent"] is False
    assert got["ttl_seconds"] == 600
    assert before - 1 <= when(got["created_at"]) <= time.time() + 1
    assert abs(when(got["expires_at"]) - time.time() - 600) < 5
    assert "failure" not in got


def test_get_gives_what_create_gave(sandbox: Make) -> None:
    s = sandbox(metadata={"k": "v"})
    got = s.info()
    moving = ("expires_at",)
    assert {k: v for k, v in got.items() if k not in moving} == {
        k: v for k, v in s.created.items() if k not in moving
    }


def test_create_without_ttl_lives_for_an_hour(box: Sandbox) -> None:
    assert box.created["ttl_seconds"] == 3600


def test_alias_of_the_typescript_client(sandbox: Make) -> None:
    assert sandbox("ubuntu-24.04").output("echo hi") == "hi\n"


def test_list_and_filters(api: Api, sandbox: Make) -> None:
    mark = str(uuid.uuid4())
    a = sandbox(metadata={"mark": mark, "n": "1"})
    b = sandbox(metadata={"mark": mark, "n": "2", "odd key&=": "ü"})

    def ids(**query: str) -> list[str]:
        return [s["id"] for s in api.list(**query)]

    assert {a.id, b.id} <= set(ids())
    assert ids(**{"metadata.mark": mark}) == [a.id, b.id]
    assert ids(**{"metadata.mark": mark, "metadata.n": "2"}) == [b.id]
    assert ids(**{"metadata.odd key&=": "ü", "metadata.mark": mark}) == [b.id]
    assert ids(**{"metadata.mark": mark, "metadata.n": "3"}) == []
    assert ids(**{"metadata.mark": mark, "status": "running"}) == [a.id, b.id]
    assert ids(**{"metadata.mark": mark, "status": "failed"}) == []
    api.refused("GET", "/v1/sandboxes?status=nonsense", 400, "request.invalid")
    a.delete()
    assert ids(**{"metadata.mark": mark}) == [b.id]


def test_delete_leaves_nothing(api: Api, daemon: Daemon, sandbox: Make) -> None:
    s = sandbox()
    vm, folder = daemon.vm_of(s.id), daemon.data_dir / "sandboxes" / s.id
    assert folder.is_dir()
    s.delete()
    assert not folder.exists()
    assert not Path(f"/proc/{vm}").exists()
    api.refused("GET", s.path, 404, "sandbox.not_found")
    api.refused("DELETE", s.path, 404, "sandbox.not_found")
    api.refused("POST", f"{s.path}/exec", 404, "sandbox.not_found", json={"cmd": "true"})


def test_delete_ends_a_call_in_flight(sandbox: Make) -> None:
    s = sandbox()
    with s.stream("echo up; sleep 300") as events:
        assert next(events).data["chunk"] == "up\n"
        began = time.monotonic()
        s.delete()
        rest = list(events)
    assert time.monotonic() - began < 5
    assert rest[-1].name == "error", rest
    assert "deleted" in rest[-1].data["error"]


def test_ttl_ends_a_sandbox_and_its_files(api: Api, daemon: Daemon, sandbox: Make) -> None:
    mark = daemon.mark()
    s = sandbox(ttl_seconds=2)
    made = time.monotonic()
    vm, folder = daemon.vm_of(s.id), daemon.data_dir / "sandboxes" / s.id
    assert api.list() != []
    daemon.wait_log("sandbox deleted", since=mark, seconds=30, sandbox=s.id)
    lived = time.monotonic() - made
    assert 1.5 <= lived <= 3.0, lived
    assert not folder.exists()
    assert wait_for_exit(vm, 0)
    assert s.id not in [x["id"] for x in api.list()]
    api.refused("GET", s.path, 404, "sandbox.not_found")


def test_use_puts_the_expiry_off(daemon: Daemon, sandbox: Make) -> None:
    mark = daemon.mark()
    s = sandbox(ttl_seconds=2)
    made = time.monotonic()
    assert s.exec("sleep 1.5")["exit_code"] == 0
    assert s.exec("sleep 1.5")["exit_code"] == 0
    daemon.wait_log("sandbox deleted", since=mark, seconds=30, sandbox=s.id)
    assert 4.5 <= time.monotonic() - made <= 7


def test_a_call_in_flight_is_use(daemon: Daemon, sandbox: Make) -> None:
    """A command that runs for longer than the time to live is not idleness."""
    s = sandbox(ttl_seconds=1)
    assert s.exec("sleep 3; echo done")["stdout"] == "done\n"


def test_idempotency_key(api: Api, daemon: Daemon) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"template": "code-interpreter", "metadata": {"k": headers["Idempotency-Key"]}}

    def create() -> str:
        return str(api.call("POST", "/v1/sandboxes", want=201, json=body, headers=headers)["id"])

    with ThreadPoolExecutor(4) as pool:
        at_once = {f.result() for f in [pool.submit(create) for _ in range(4)]}
    assert len(at_once) == 1
    first = at_once.pop()
    assert create() == first
    assert len(api.list(**{"metadata.k": headers["Idempotency-Key"]})) == 1
    same = api.sandbox(first)
    for stop, go_on in ((same.pause, same.resume), (same.hibernate, same.wake)):
        stop()
        assert create() == first  # whatever has become of it meanwhile
        go_on()
    api.call("DELETE", f"/v1/sandboxes/{first}", want=204)
    second = create()
    assert second != first
    api.call("DELETE", f"/v1/sandboxes/{second}", want=204)


def test_env_of_a_sandbox(sandbox: Make) -> None:
    s = sandbox(env={"COLOUR": "blau ☕ 'x'", "EMPTY": ""})
    assert s.output('printf \'%s|%s\' "$COLOUR" "${EMPTY-unset}"') == "blau ☕ 'x'|"


@pytest.mark.slow
def test_twenty_at_once(api: Api, daemon: Daemon) -> None:
    """Twenty sandboxes on this machine: all are created at once, all answer, none is another."""
    before = daemon.vms()

    def one(i: int) -> tuple[Sandbox, str]:
        s = api.create(metadata={"i": str(i)})
        return s, s.session().text("import os; (6 * 7, os.uname().nodename)")

    with ThreadPoolExecutor(20) as pool:
        made = [f.result() for f in [pool.submit(one, i) for i in range(20)]]
    try:
        assert len(daemon.vms() - before) == 20
        assert len({text for _, text in made}) == 20
        assert all(text.startswith("(42, ") for _, text in made)
        with ThreadPoolExecutor(20) as pool:
            outputs = [f.result() for f in [pool.submit(s.output, "hostname") for s, _ in made]]
        assert len(set(outputs)) == 20
    finally:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(Sandbox.discard, [s for s, _ in made]))
    assert daemon.vms() == before
