# SPDX-License-Identifier: Apache-2.0
"""QEMU missing, too old, or a disk that is full."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Daemon, Sandbox
from harness.daemon import fill

MakeDaemon = Callable[..., Daemon]


def start_failure(d: Daemon) -> str:
    """The one line that says why it did not start."""
    with d.expect_error("can't start"):
        assert d.wait() not in (0, -6, -11)
    errors = [r for r in d.records if r["level"] == "error"]
    assert len(errors) == 1, d.tail()
    return str(errors[0]["error"])


def test_qemu_missing(tmp_path: Path, make_daemon: MakeDaemon) -> None:
    (tmp_path / "bin").mkdir()
    why = start_failure(make_daemon(env={"PATH": str(tmp_path / "bin")}))
    assert "apt-get install qemu-system-x86" in why


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)", ("5.2.0", "too old", "qemu-system-x86")),
        ("something else", ("qemu-system-x86",)),
        ("", ("qemu-system-x86",)),
    ],
)
def test_qemu_too_old(tmp_path: Path, make_daemon: MakeDaemon, says: str, words: tuple[str, ...]) -> None:
    stub = tmp_path / "bin" / "qemu-system-x86_64"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\necho '{says}'\n")
    stub.chmod(0o755)
    why = start_failure(make_daemon(env={"PATH": f"{stub.parent}:{os.environ['PATH']}"}))
    for word in words:
        assert word in why


def test_qemu_that_dies_at_once(tmp_path: Path, make_daemon: MakeDaemon) -> None:
    """It is there and of the right version, and then says no: the create tells its words."""
    real = shutil.which("qemu-system-x86_64")
    stub = tmp_path / "bin" / "qemu-system-x86_64"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\necho "no luck today" >&2\nexit 1\n')
    stub.chmod(0o755)
    d = make_daemon(env={"PATH": f"{stub.parent}:{os.environ['PATH']}"}).wait_ready()
    answer = d.api.refused("POST", "/v1/sandboxes", 500, "engine.failed", json={"template": "code-interpreter"})
    assert "no luck today" in answer["error"]
    assert d.api.list() == []
    assert d.folders() == []
    d.stop()
    d.check_clean()


def test_unknown_engine(make_daemon: MakeDaemon) -> None:
    assert "warp" in start_failure(make_daemon(args=["--engine=warp"]))


def test_two_daemons_of_one_folder(make_daemon: MakeDaemon) -> None:
    first = make_daemon().wait_ready()
    s = first.api.create()
    why = start_failure(make_daemon(first.data_dir))
    assert "another pandastack" in why
    assert s.output("echo still served") == "still served\n"
    first.stop()
    first.check_clean()


def test_two_daemons_side_by_side(make_daemon: MakeDaemon) -> None:
    a, b = make_daemon().wait_ready(), make_daemon().wait_ready()
    s = a.api.create()
    assert b.api.list() == []
    b.api.refused("GET", s.path, 404, "sandbox.not_found")
    b.stop()
    b.check_clean()
    assert s.output("echo ok") == "ok\n"
    a.stop()
    a.check_clean()


def test_an_address_that_is_taken(make_daemon: MakeDaemon) -> None:
    first = make_daemon().wait_ready()
    why = start_failure(make_daemon(args=[f"--listen={first.url.removeprefix('http://')}"]))
    assert first.url.removeprefix("http://") in why
    first.stop()
    first.check_clean()


# ---- a full disk ----


def test_disk_full_during_create(small_disk: tuple[Daemon, Path]) -> None:
    d, disk = small_disk
    other = d.api.create()
    filler = fill(disk)
    answer = d.api.refused("POST", "/v1/sandboxes", 507, "no_space", json={"template": "code-interpreter"})
    # With a spare machine it is the registry's row that there is no room for.
    assert re.search("no space|disk is full", answer["error"].lower())
    assert d.folders() == [other.id]
    assert len(d.vms()) == 1
    assert other.output("echo still here") == "still here\n"
    filler.unlink()
    d.api.create().delete()
    other.delete()
    d.stop()
    d.check_clean()


def test_disk_full_under_a_running_guest(small_disk: tuple[Daemon, Path]) -> None:
    """Its write fails as on any full disk; it neither hangs nor dies, and goes on when there is room."""
    d, disk = small_disk
    s = d.api.create()
    kernel = s.session()
    kernel.ok("x = 3")
    filler = fill(disk)
    got = s.exec("dd if=/dev/zero of=/workspace/big bs=1M count=64 conv=fsync", timeout_seconds=60)
    assert got["exit_code"] != 0, got
    assert kernel.text("x") == "3"
    assert s.info()["status"] == "running"
    filler.unlink()
    s.delete()
    d.stop()
    d.check_clean()


def test_security_modules_without_rules_are_off(box: Sandbox) -> None:
    """Each system call of the guest would pass through them."""
    assert "selinuxfs" not in box.output("cat /proc/filesystems")
