# SPDX-License-Identifier: Apache-2.0
"""What happened to a sandbox: told in order, live, and after a restart of the daemon."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable

import pytest

from harness import Api, Daemon, Sandbox
from harness.api import Event, Json

Make = Callable[..., Sandbox]
MakeDaemon = Callable[..., Daemon]
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def types(events: list[Json]) -> list[str]:
    return [e["type"] for e in events]


def check_form(sandbox_id: str, e: Json) -> None:
    """Under the names of the server and under those of the documentation."""
    assert set(e) == {"time", "ts", "sandbox_id", "type", "payload", "metadata"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", e["time"])
    assert e["ts"] == e["time"]
    assert e["sandbox_id"] == sandbox_id
    assert isinstance(e["payload"], dict)
    assert e["metadata"] == e["payload"]


def test_a_life(sandbox: Make) -> None:
    s = sandbox()
    s.pause()
    s.resume()
    s.hibernate()
    s.wake()
    snapshot = s.snapshot()
    s.api.call("DELETE", f"/v1/snapshots/{snapshot['id']}", want=204)
    events = s.events()
    assert types(events) == [
        "sandbox.running",
        "sandbox.paused",
        "sandbox.resumed",
        "sandbox.hibernated",
        "sandbox.woken",
        "snapshot.created",
    ]
    for e in events:
        check_form(s.id, e)
    assert sorted({e["time"] for e in events}) == [e["time"] for e in events], "each has a time of its own"
    assert events[0]["payload"] == {
        "template": "code-interpreter",
        "boot_ms": s.created["boot_ms"],
        "boot_mode": s.created["boot_mode"],
    }
    assert events[4]["payload"]["boot_ms"] > 0
    assert events[5]["payload"]["snapshot_id"] == snapshot["id"]
    assert s.events(tail=2) == events[-2:]
    assert s.events(tail=0) == []
    assert s.events(since=events[3]["ts"]) == events[4:]
    assert s.events(since=events[3]["ts"], tail=1) == events[-1:]
    assert s.events(since=events[-1]["ts"]) == []
    assert s.events(since="2001-01-01T00:00:00+01:00") == events
    assert s.status() == "running"


def test_nothing_happens_twice(sandbox: Make) -> None:
    """A call that changes nothing, or is refused, is no event."""
    s = sandbox()
    s.resume()
    s.pause()
    s.pause()
    s.api.refused("POST", f"{s.path}/wake", 409, "conflict")
    assert types(s.events()) == ["sandbox.running", "sandbox.paused"]


def test_forks(sandbox: Make) -> None:
    parent = sandbox()
    child = parent.fork()
    tree = parent.fork_tree(2)
    try:
        events = parent.events()
        assert types(events) == [
            "sandbox.running",
            "fork.staged",
            "fork.completed",
            "fork.staged",
            "fork_tree.completed",
        ]
        staged, completed, _, tree_completed = (e["payload"] for e in events[1:])
        assert staged["count"] == 1
        assert completed["fork_id"] == staged["fork_id"]
        assert completed["children"] == [child.id]
        tree_id = tree_completed["tree_id"]
        assert tree_completed["requested"] == 2
        assert tree_completed["children"] == [c.id for c in tree]
        of_child = child.events()
        assert types(of_child) == ["sandbox.running", "sandbox.forked"]
        assert of_child[0]["payload"]["parent"] == parent.id
        assert of_child[1]["payload"] == {"parent": parent.id, "fork_id": staged["fork_id"]}
        answer = tree[0].api.call("POST", f"{tree[0].path}/promote", json={"cleanup_siblings": True})
        promoted = tree[0].events()[-1]
        assert promoted["type"] == "fork_tree.promoted"
        assert promoted["payload"] == {"tree_id": tree_id, "deleted": [tree[1].id], "failures": {}}
        assert answer["deleted"] == [tree[1].id]
    finally:
        for s in [child, *tree]:
            s.discard()


def test_follow(sandbox: Make) -> None:
    """What was, then what comes, each as it comes; the end of the sandbox ends the stream."""
    s = sandbox()
    s.pause()
    with s.follow("events", follow=1, tail=1) as old, s.follow("events", follow="true", tail=0) as new:
        first = next(old)
        assert first.name == "event"
        check_form(s.id, first.data)
        assert first.data["type"] == "sandbox.paused"
        s.resume()
        assert next(old).data["type"] == next(new).data["type"] == "sandbox.resumed"
        s.hibernate()
        assert next(old).data["type"] == next(new).data["type"] == "sandbox.hibernated"
        assert s.status() == "hibernated", "to look on wakes nobody"
        s.delete()
        last = next(old).data
        assert last["type"] == "sandbox.deleted"
        check_form(s.id, last)
        assert next(new).data == last
        assert list(old) == list(new) == []
    s.api.refused("GET", f"{s.path}/events", 404, "sandbox.not_found")


def test_followers_of_many_changes(sandbox: Make) -> None:
    """Each sees all of them, once and in order."""
    s = sandbox("base")
    seen: list[list[Event]] = [[] for _ in range(4)]

    def read(out: list[Event]) -> None:
        with s.follow("events", follow=1) as events:
            out.extend(events)

    readers = [threading.Thread(target=read, args=(out,)) for out in seen]
    for r in readers:
        r.start()
    for _ in range(10):
        s.pause()
        s.resume()
    s.delete()
    for r in readers:
        r.join(60)
    want = ["sandbox.running", *["sandbox.paused", "sandbox.resumed"] * 10, "sandbox.deleted"]
    for out in seen:
        assert types([e.data for e in out]) == want


def test_a_follower_does_not_keep_it_alive(sandbox: Make) -> None:
    s = sandbox(ttl_seconds=2)
    with s.follow("events", follow=1) as events:
        assert [e.data["type"] for e in events] == ["sandbox.running", "sandbox.expired", "sandbox.deleted"]


def test_idle(sandbox: Make) -> None:
    s = sandbox(persistent=True, idle_seconds=1)
    with s.follow("events", follow=1) as events:
        assert [next(events).data["type"] for _ in range(3)] == [
            "sandbox.running",
            "sandbox.idle",
            "sandbox.hibernated",
        ]
    assert s.output("true") == ""
    assert types(s.events())[-1] == "sandbox.woken"


def test_a_machine_that_dies(sandbox: Make, daemon: Daemon) -> None:
    s = sandbox()
    with s.follow("events", follow=1, tail=0) as events:
        os.kill(daemon.vm_of(s.id), signal.SIGKILL)
        died = next(events).data
    assert died["type"] == "vm.died"
    assert died["payload"]["reason"] == s.info()["failure"]


def test_after_a_restart(make_daemon: MakeDaemon) -> None:
    """The history goes on where it was; a machine that died meanwhile is in it."""
    d = make_daemon().wait_ready()
    one, two = d.api.create(), d.api.create()
    one.pause()
    before = one.events()
    d.kill()
    os.kill(d.vm_of(two.id), signal.SIGKILL)
    d = make_daemon(d.data_dir).wait_ready()
    one, two = d.api.sandbox(one.id), d.api.sandbox(two.id)
    assert one.events() == before
    one.resume()
    assert one.events()[:-1] == before
    assert types(one.events()[-1:]) == ["sandbox.resumed"]
    assert types(two.events()) == ["sandbox.running", "vm.died"]
    assert d.stop() == 0
    d.check_clean()


@pytest.mark.parametrize(
    "query",
    ["tail=-1", "tail=257", "tail=x", "follow=yes", "since=yesterday", "since=1795965360", "tail="],
)
def test_bad_queries(box: Sandbox, query: str) -> None:
    answer = box.api.refused("GET", f"{box.path}/events?{query}", 400, "request.invalid")
    assert f"`{query.split('=')[0]}`" in answer["error"]


def test_no_such_sandbox(api: Api) -> None:
    api.refused("GET", f"/v1/sandboxes/{UNKNOWN}/events", 404, "sandbox.not_found")
    api.refused("GET", f"/v1/sandboxes/{UNKNOWN}/events?follow=1", 404, "sandbox.not_found")
