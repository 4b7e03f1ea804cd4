# SPDX-License-Identifier: Apache-2.0
"""`--engine auto`: where there is KVM, where there is none, and where there is one that this user may not open."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Api, Daemon

# The command with a /dev of its own, whose kvm is a file with that mode and group, and without the right to open all.
SCRIPT = """
dev=$1 mode=$2 group=$3
shift 3
mount -t tmpfs -o mode=0755 tmpfs "$dev"
for node in null zero full random urandom; do : >"$dev/$node"; mount --bind "/dev/$node" "$dev/$node"; done
mkdir "$dev/shm"
[ "$mode" = none ] || { : >"$dev/kvm" && chgrp "$group" "$dev/kvm" && chmod "$mode" "$dev/kvm"; }
mount --rbind "$dev" /dev
exec setpriv --bounding-set=-dac_override,-dac_read_search "$@"
"""

Look = Callable[..., dict[str, Any]]


@pytest.fixture
def look(tmp_path: Path, make_daemon: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch) -> Iterator[Look]:
    """What the daemon says of its engine where /dev/kvm has that mode and group."""
    monkeypatch.delenv("PANDASTACK_TEST_ENGINE", raising=False)

    def start(mode: str, group: str = "0") -> dict[str, Any]:
        dev = tmp_path / "dev"
        dev.mkdir()
        unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
        d = make_daemon(wrapper=[*unshare, "sh", "-e", "-c", SCRIPT, "sh", str(dev), mode, group]).wait_ready()
        engine = d.api.call("GET", "/healthz")["engine"]
        chosen = d.wait_log("engine chosen")
        assert (chosen["engine"], chosen["accel"], chosen["why"]) == (engine["name"], engine["accel"], engine["why"])
        d.stop()
        d.check_clean()
        return dict(engine)

    yield start


def test_a_machine_without(look: Look) -> None:
    engine = look("none")
    assert (engine["name"], engine["accel"]) == ("qemu", "tcg")
    assert engine["why"] == "no hardware virtualisation (/dev/kvm: No such file or directory)"


def test_of_a_group(look: Look) -> None:
    """One line says which group to join."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another group")
    engine = look("060", "audio")
    assert engine["accel"] == "tcg"
    assert "sudo usermod -aG audio $USER" in engine["why"]


def test_of_root_alone(look: Look) -> None:
    engine = look("0")
    assert engine["accel"] == "tcg"
    assert "sudo chgrp kvm /dev/kvm && sudo chmod 660 /dev/kvm" in engine["why"]


def test_no_kvm_at_all(look: Look) -> None:
    """Something else that opens."""
    engine = look("600")
    assert engine["accel"] == "tcg"
    assert engine["why"].startswith("/dev/kvm opens but runs no guest: ")


def test_this_machine(api: Api) -> None:
    """KVM is taken where it is real; the proving ground has one that is."""
    engine = api.call("GET", "/healthz")["engine"]
    if "PANDASTACK_TEST_KVM" in os.environ:
        assert stat.S_ISCHR(Path("/dev/kvm").stat().st_mode)
        assert (engine["accel"], engine["why"]) == ("kvm", "/dev/kvm works")
    assert (engine["accel"] == "kvm") == (engine["why"] == "/dev/kvm works")
