# SPDX-License-Identifier: Apache-2.0
"""`--engine auto`: with KVM, without, with one that this user may not open, and with one that somebody else holds."""

from __future__ import annotations

import os
import stat
import sys
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

# The command where KVM_CREATE_VM fails as it does when another hypervisor holds the processor.
BUSY = """
import ctypes, errno, os, struct, sys
load, equal, end = 0x20, 0x15, 0x06
ioctl, create_vm, refuse, allow = 16, 0xAE01, 0x50000 | errno.EBUSY, 0x7FFF0000
code = [(load, 0, 0, 0), (equal, 0, 3, ioctl), (load, 0, 0, 24), (equal, 0, 1, create_vm)]
code += [(end, 0, 0, refuse), (end, 0, 0, allow)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(text))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
"""

Look = Callable[..., dict[str, Any]]


@pytest.fixture
def look(tmp_path: Path, make_daemon: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch) -> Iterator[Look]:
    """What the daemon says of its engine where /dev/kvm has that mode and group."""
    monkeypatch.delenv("PANDASTACK_TEST_ENGINE", raising=False)

    def start(mode: str, group: str = "0", *command: str) -> dict[str, Any]:
        dev = tmp_path / "dev"
        dev.mkdir()
        unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
        wrapper = [*unshare, "sh", "-e", "-c", SCRIPT, "sh", str(dev), mode, group, *command]
        d = make_daemon(wrapper=wrapper).wait_ready()
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


def test_busy(look: Look) -> None:
    engine = look("600", "0", sys.executable, "-c", BUSY)
    assert engine["accel"] == "tcg"
    assert engine["why"] == "/dev/kvm is busy: another hypervisor (VirtualBox, VMware) holds the processor"


def test_this_machine(api: Api) -> None:
    """KVM is taken where it is real; the proving ground has one that is."""
    engine = api.call("GET", "/healthz")["engine"]
    if "PANDASTACK_TEST_KVM" in os.environ:
        assert stat.S_ISCHR(Path("/dev/kvm").stat().st_mode)
        assert (engine["accel"], engine["why"]) == ("kvm", "/dev/kvm works")
    assert (engine["accel"] == "kvm") == (engine["why"] == "/dev/kvm works")
