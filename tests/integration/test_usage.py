# SPDX-License-Identifier: Apache-2.0
"""What a sandbox takes of the host, and how its guest is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from harness import Api, Daemon, Sandbox

Make = Callable[..., Sandbox]
UNKNOWN = "00000000-0000-4000-8000-000000000000"
HOST = {
    "pid",
    "uptime_seconds",
    "host_cpu_percent",
    "host_cpu_seconds",
    "host_rss_bytes",
    "host_vsz_bytes",
    "threads",
}


def test_of_a_running_one(box: Sandbox, daemon: Daemon) -> None:
    before = box.metrics()
    assert set(before) == HOST | {"status", "guest"}
    assert before["status"] == "running"
    assert before["pid"] == daemon.vm_of(box.id)
    assert 0 <= before["uptime_seconds"] < 3600
    assert 0 < before["host_rss_bytes"] < before["host_vsz_bytes"]
    assert before["threads"] >= 2
    memory = box.created["memory_mb"] << 20
    guest = before["guest"]
    assert 0 < guest["memory_available_bytes"] < guest["memory_total_bytes"] <= memory
    assert guest["uptime_ms"] > 0
    box.output("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", timeout_seconds=60)
    after = box.metrics()
    assert after["host_cpu_seconds"] >= before["host_cpu_seconds"] + 0.05
    assert after["guest"]["uptime_ms"] > guest["uptime_ms"]
    rate = 100 * after["host_cpu_seconds"] / (after["uptime_seconds"] + 1)
    assert rate <= after["host_cpu_percent"] <= 100 * after["threads"]


def test_memory_of_the_guest(box: Sandbox) -> None:
    """What a process takes is not available any more."""
    session = box.session()
    before = box.metrics()["guest"]["memory_available_bytes"]
    session.ok("b = bytearray(b'x') * (64 << 20)")
    assert box.metrics()["guest"]["memory_available_bytes"] < before - (48 << 20)
    session.delete()


def test_of_one_that_stands_still(sandbox: Make, daemon: Daemon) -> None:
    """The guest isn't asked, and nothing is woken."""
    s = sandbox()
    s.pause()
    paused = s.metrics()
    assert set(paused) == HOST | {"status"}
    assert paused["status"] == "paused"
    assert paused["pid"] == daemon.vm_of(s.id)
    s.resume()
    s.hibernate()
    assert s.metrics() == {"status": "hibernated", **dict.fromkeys(HOST, 0)}
    assert s.status() == "hibernated"


def test_of_one_that_failed(sandbox: Make, daemon: Daemon) -> None:
    s = sandbox("base")
    with s.follow("events", follow=1, tail=0) as events:
        os.kill(daemon.vm_of(s.id), signal.SIGKILL)
        assert next(events).data["type"] == "vm.died"
    assert s.metrics() == {"status": "failed", **dict.fromkeys(HOST, 0)}


def test_of_none(api: Api) -> None:
    api.refused("GET", f"/v1/sandboxes/{UNKNOWN}/metrics", 404, "sandbox.not_found")
