# SPDX-License-Identifier: Apache-2.0
"""Machines that die, by their own doing or not: the sandbox says why, the others never notice."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from harness import ApiError, Daemon, Sandbox

Make = Callable[..., Sandbox]


def in_flight(s: Sandbox) -> tuple[threading.Thread, list[tuple[float, int, str]]]:
    """A buffered call that waits; when and how it ended."""
    ended: list[tuple[float, int, str]] = []

    def call() -> None:
        try:
            s.exec("sleep 300")
            ended.append((time.monotonic(), 200, ""))
        except ApiError as e:
            ended.append((time.monotonic(), e.status, e.response.json()["error"]))

    thread = threading.Thread(target=call)
    thread.start()
    return thread, ended


def test_panic(daemon: Daemon, sandbox: Make) -> None:
    s, other = sandbox(), sandbox()
    kernel = other.session()
    kernel.ok("x = 5")
    mark = daemon.mark()
    thread, ended = in_flight(s)
    s.output("until pgrep -x sleep; do :; done", timeout_seconds=30)
    began = time.monotonic()
    try:
        answer = s.exec("echo c > /proc/sysrq-trigger")
        raise AssertionError(f"the guest did not panic: {answer}")
    except ApiError as e:
        assert time.monotonic() - began < 2
        assert e.status == 503
        assert e.response.json()["code"] == "sandbox.failed"
    daemon.wait_log("sandbox failed", since=mark, sandbox=s.id)
    failed = time.monotonic()
    thread.join(10)
    assert ended, "the call in flight hangs"
    at, status, text = ended[0]
    assert at - failed < 1
    assert status == 503
    assert "panic" in text
    info = s.info()
    assert info["status"] == "failed"
    assert "sysrq" in info["failure"].lower()
    refused = s.api.refused("POST", f"{s.path}/exec", 503, "sandbox.failed", json={"cmd": "true"})
    assert "panic" in refused["error"]
    assert "create a new one" in refused["error"]
    assert s.id in [x["id"] for x in s.api.list(status="failed")]
    assert kernel.text("x") == "5"
    s.delete()
    s.api.refused("GET", s.path, 404, "sandbox.not_found")


def test_the_guests_memory_exhausted_for_good(sandbox: Make) -> None:
    """Not by a process, which can be killed: root leaves its control group and fills a tmpfs, which nobody frees."""
    s, other = sandbox(), sandbox()
    s.mount_tmpfs("/mnt/fill", "100%")
    escape = "echo $$ > /sys/fs/cgroup/cgroup.procs"
    fill = f"{escape}; exec dd if=/dev/zero of=/mnt/fill/all bs=1M"
    answer = s.api.request("POST", f"{s.path}/exec", json={"cmd": fill, "timeout_seconds": 100})
    assert answer.status_code == 503, answer.text
    info = s.info()
    assert info["status"] == "failed"
    assert "memory" in info["failure"].lower(), info["failure"]
    assert other.output("echo never noticed") == "never noticed\n"


def test_a_command_that_takes_all_memory(sandbox: Make) -> None:
    s = sandbox()
    got = s.exec("python3 -c 'x = []\nwhile True: x.append(bytearray(b\"x\") * 1000000)'", timeout_seconds=100)
    assert got["exit_code"] == 137
    assert s.output("echo alive") == "alive\n"
    assert s.info()["status"] == "running"
    # It met the bound of its group: the machine as a whole, and so the agent, never ran short.
    events = dict(line.split() for line in s.output("cat /sys/fs/cgroup/work/memory.events").splitlines())
    assert int(events["oom"]) > 0, events


THRASH = """
import os
group = "/sys/fs/cgroup/work/memory."
stat = dict(line.split() for line in open(group + "stat"))
free = int(open(group + "max").read()) - int(stat["anon"]) - int(stat["kernel"])
files = [os.open(name, os.O_RDONLY) for name in FILES]
held = b"x" * (free - (12 << 20))
print("full", flush=True)
while True:
    for fd in files:
        at = 0
        while data := os.pread(fd, 1 << 16, at):
            at += len(data)
"""


def test_memory_that_is_full_but_for_pages_of_files(sandbox: Make) -> None:
    """The kernel finds some to take back each time, and so never runs out: everything else stands still for ever."""
    s = sandbox()
    names = s.output("find /usr/lib /opt/venv/lib -name '*.so*' -type f -size +4M | head -40").split()
    s.write("/tmp/thrash.py", THRASH.replace("FILES", repr(names)))
    got = s.exec("python3 /tmp/thrash.py", timeout_seconds=60)
    assert got["stdout"] == "full\n"
    assert got["exit_code"] == 137
    assert s.output("echo alive") == "alive\n"
    limit = "cat /sys/fs/cgroup/work/memory.max"
    assert s.output(limit) == sandbox().output(limit)


def test_power_off_from_inside(sandbox: Make) -> None:
    s = sandbox()
    response = s.api.request("POST", f"{s.path}/exec", json={"cmd": "echo o > /proc/sysrq-trigger; sleep 20"})
    assert response.status_code == 503
    assert s.info()["status"] == "failed"
    assert s.info()["failure"]


def test_qemu_killed(daemon: Daemon, sandbox: Make) -> None:
    s = sandbox()
    kernel = s.session()
    mark = daemon.mark()
    os.kill(daemon.vm_of(s.id), signal.SIGKILL)
    record = daemon.wait_log("sandbox failed", since=mark, seconds=2, sandbox=s.id)
    assert "signal 9" in record["why"]
    s.api.refused("POST", f"{kernel.path}/run", 503, "sandbox.failed", json={"code": "1"})
    s.api.refused("GET", f"{s.path}/fs", 503, "sandbox.failed", params={"path": "/etc/passwd"})
    s.api.refused("PUT", f"{s.path}/fs", 503, "sandbox.failed", params={"path": "/x"}, data=b"x")


def test_a_failed_sandbox_expires_too(daemon: Daemon, sandbox: Make) -> None:
    mark = daemon.mark()
    s = sandbox(ttl_seconds=2)
    os.kill(daemon.vm_of(s.id), signal.SIGKILL)
    daemon.wait_log("sandbox deleted", since=mark, seconds=10, sandbox=s.id)
    s.api.refused("GET", s.path, 404, "sandbox.not_found")


def test_a_guest_that_is_frozen_can_be_deleted(daemon: Daemon, sandbox: Make) -> None:
    s = sandbox()
    os.kill(daemon.vm_of(s.id), signal.SIGSTOP)
    began = time.monotonic()
    s.delete()
    assert time.monotonic() - began < 5


def test_the_agent_can_not_be_killed(sandbox: Make) -> None:
    s = sandbox()
    s.exec("kill -9 1; kill -TERM 1; kill -INT 1; kill -STOP 1")
    assert s.output("echo alive") == "alive\n"
