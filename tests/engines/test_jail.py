# SPDX-License-Identifier: Apache-2.0
"""What a program in a machine's jail sees and may: root's, an ordinary user's, and where no jail is to be had."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Daemon
from harness.daemon import binary, templates

NOBODY = 54321
FIRST_ID = 0x70000000

# Tries all that it should not be able to, and uses its card: a frame each way.
INSIDE = """
import ctypes, fcntl, json, os, resource, select, socket, struct, sys

def tried(function, *args):
    try:
        function(*args)
        return True
    except OSError:
        return False

def write(path):
    with open(path, "w") as f:
        f.write("x")

got = {
    "ids": [os.getuid(), os.getgid(), os.getgroups()],
    "root": sorted(os.listdir("/")),
    "devices": sorted(os.path.join(at, name)[5:] for at, _, names in os.walk("/dev") for name in names),
    "folder": sorted(os.listdir(".")),
    "writes": [p for p in ("file", "new", "run/new", "disk", "/new", "/usr/new", "/dev/new") if tried(write, p)],
    "host": tried(socket.create_connection, ("127.0.0.1", int(sys.argv[1])), 1),
    "sees": os.path.exists(sys.argv[2]),
    "mounts": ctypes.CDLL(None).mount(b"tmpfs", b"/usr", b"tmpfs", 0, None) == 0,
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "name": socket.gethostname(),
    "cards": [name for _, name in socket.if_nameindex()],
}
if "card" in got["cards"]:
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", b"card", 0x5002))  # TUNSETIFF; a TAP as Firecracker wants it
    ours = socket.socket(fileno=3)
    ours.setblocking(True)
    frame = bytes(range(12)) + b"\\x88\\xb5" + bytes(60000)
    os.write(tap, bytes(10) + frame)
    got["out"] = ours.recv(65536) == frame
    # The first ones are lost until the kernel has noticed that somebody has the TAP.
    while not select.select([tap], [], [], 0.1)[0]:
        ours.send(frame)
    got["in"] = os.read(tap, 70000)[10:] == frame
    another = os.open("/dev/net/tun", os.O_RDWR)
    got["other"] = tried(fcntl.ioctl, another, 0x400454CA, struct.pack("16sH22x", b"another", 0x5002))
print(json.dumps(got))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A machine's folder, below one that all may enter."""
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        folder = Path(top, "vm")
        folder.mkdir(mode=0o700)
        (folder / "run").mkdir(mode=0o700)
        (folder / "file").write_text("kept")
        (folder / "disk").write_text("disk")
        Path(top, "inside.py").write_text(INSIDE)
        shutil.copy(binary().parent / "pandastack-jail", top)
        yield folder


def jail(place: Path, *args: str, wrapper: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    argv = [*(wrapper or []), str(place.parent / "pandastack-jail"), *args]
    return subprocess.run(argv, cwd=place, capture_output=True, text=True, timeout=60)


def look(place: Path, *args: str, wrapper: list[str] | None = None) -> dict[str, Any]:
    """What the program says that it has found."""
    script = place.parent / "inside.py"
    with socket.create_server(("127.0.0.1", 0)) as host:
        words = ["--read", str(script), "--write", "disk", "--write", "run", *args, "/usr/bin/python3", str(script)]
        done = jail(place, *words, str(host.getsockname()[1]), "/etc/passwd", wrapper=wrapper)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def needs(*paths: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can try both")
    for path in paths:
        if not Path(path).exists():
            pytest.skip(f"this machine has no {path}")


def check(got: dict[str, Any], *, card: bool) -> None:
    assert got["folder"] == ["disk", "file", "run"]
    assert got["writes"] == ["run/new", "disk"]
    assert {"etc", "proc", "root", "home", "sys", "var"}.isdisjoint(got["root"])
    assert got["devices"] == ["kvm", *(["net/tun"] if card else []), "null", "urandom"]
    assert not got["host"] and not got["sees"] and not got["mounts"]
    assert got["core"] == [0, 0]
    if card:
        assert got["cards"] == ["lo", "card"]
        assert (got["out"], got["in"], got["other"]) == (True, True, False)
    else:
        assert got["cards"] == ["lo"]


@pytest.mark.parametrize("card", [True, False], ids=["card", "no-card"])
def test_of_root(place: Path, card: bool) -> None:
    """It has ids that nobody else has, and the files that are its own."""
    needs("/dev/kvm", "/dev/net/tun")
    other = place.parent / "memory"
    other.write_text("shared")
    other.chmod(0o600)
    got = look(place, "--own-ids", "--read", str(other), *(["--card"] if card else []))
    check(got, card=card)
    uid, gid, groups = got["ids"]
    assert uid > FIRST_ID and (gid, groups) == (FIRST_ID, [])
    assert (place / "disk").stat().st_uid == (place / "run").stat().st_uid == uid
    assert (place / "file").stat().st_uid == place.stat().st_uid == 0
    # What it may read, others still may not.
    assert (other.stat().st_gid, other.stat().st_mode & 0o777) == (FIRST_ID, 0o640)
    assert place.stat().st_mode & 0o777 == 0o750


def test_of_root_that_stays_root(place: Path) -> None:
    """For a bake: without the powers."""
    needs("/dev/kvm", "/dev/net/tun")
    got = look(place, "--card")
    check(got, card=True)
    assert got["ids"][:2] == [0, 0]


# An ordinary user, whom the machine's devices are open to.
USER = """
user=$1
shift
mount -t tmpfs -o mode=0755 tmpfs /mnt
mkdir /mnt/net
for node in null urandom kvm net/tun; do
    mknod -m 666 "/mnt/$node" c $(stat -c '0x%t 0x%T' "/dev/$node")
done
mount --move /mnt /dev
exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
"""
AS_USER = ["unshare", "--mount", "sh", "-e", "-c", USER, "sh", str(NOBODY)]

# Who has a cgroup, too, as from a unit of the user's.
DELEGATE = """
unit=/sys/fs/cgroup/users-unit
mkdir -p "$unit"
chown "$1" "$unit" "$unit/cgroup.procs" "$unit/cgroup.subtree_control"
echo 0 >"$unit/cgroup.procs"
shift
exec "$@"
"""


@pytest.fixture
def users_place(place: Path) -> Path:
    needs("/dev/kvm", "/dev/net/tun")
    for path in (place, *place.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    return place


def test_of_an_ordinary_user(users_place: Path) -> None:
    """All of that but ids of its own, in a user namespace."""
    probe = subprocess.run([*AS_USER, "unshare", "--user", "true"], capture_output=True)
    if probe.returncode:
        pytest.skip("this host allows no user namespaces")
    got = look(users_place, "--own-ids", "--card", wrapper=AS_USER)
    check(got, card=True)
    assert got["ids"][:2] == [NOBODY, NOBODY]
    assert jail(users_place, "--card", "--check", wrapper=AS_USER).returncode == 0


def test_where_a_card_is_not_permitted(users_place: Path) -> None:
    """It is said, and the program does not run."""
    user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/net && exec "$@"', "sh", *user]
    done = jail(users_place, "--card", "--check", wrapper=hidden)
    assert (done.returncode, done.stdout) == (1, "can't open /dev/net/tun: No such file or directory")
    done = jail(users_place, "--card", "/bin/true", wrapper=hidden)
    assert done.returncode == 126
    assert "can't open /dev/net/tun" in done.stderr


def test_where_there_are_no_namespaces(users_place: Path) -> None:
    """No card, and it is said; without one the program runs in no jail."""
    # A user namespace in which there may be no other, and no powers.
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
    same = [f"--map-user={NOBODY}", f"--map-group={NOBODY}", "--keep-caps"]
    none = ["unshare", "--user", *same, "sh", "-c", script, "sh"]
    user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    done = jail(users_place, "--card", "--check", wrapper=[*user, *none])
    assert (done.returncode, "no namespaces" in done.stdout) == (1, True), done
    done = jail(
        users_place, "/bin/cat", "/etc/hostname", "/proc/self/status", "/proc/self/limits", wrapper=[*user, *none]
    )
    assert done.returncode == 0
    assert done.stdout.startswith(Path("/etc/hostname").read_text())
    assert "NoNewPrivs:\t1" in done.stdout
    assert "Max core file size        0 " in done.stdout


def test_of_root_without_the_power(place: Path) -> None:
    """As in a container: not outside of a jail as root."""
    needs()
    done = jail(place, "/bin/true", wrapper=["setpriv", "--bounding-set=-sys_admin"])
    assert done.returncode == 126
    assert "allows no namespaces" in done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "no program is named"),
        (["--nonsense"], "started by an engine"),
        (["--read", "/nowhere", "true"], "can't find /nowhere: No such file"),
        (["--write", "disk", "/nowhere/program"], "can't find /nowhere/program"),
        (["--read", "file"] * 20 + ["true"], "too many paths"),
        (["--join", "/nowhere", "true"], "can't join the cgroup /nowhere: No such file"),
    ],
)
def test_nonsense(place: Path, args: list[str], says: str) -> None:
    done = jail(place, *args)
    assert done.returncode == 126
    assert says in done.stderr


@pytest.fixture(params=[False, True], ids=["", "delegated"])
def users_daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon of that user's, with a template of its own, in a folder that it can reach."""
    if os.environ.get("PANDASTACK_TEST_ENGINE") != "firecracker":
        pytest.skip("needs Firecracker, and KVM")
    needs("/dev/kvm", "/dev/net/tun")
    if subprocess.run([*AS_USER, "unshare", "--user", "test", "-x", templates()], capture_output=True).returncode:
        pytest.skip("this host allows no user namespaces, or its templates lie where only root can go")
    with tempfile.TemporaryDirectory(dir=templates().parent) as top:
        platform, copy = templates() / "platform", Path(top, "templates", "platform")
        copy.mkdir(parents=True)
        Path(top, "data-home").mkdir()
        both = [str(platform / "current"), str((platform / "current").resolve())]
        subprocess.run(["cp", "-a", "--sparse=always", *both, str(copy)], check=True)
        subprocess.run(["chown", "-hR", f"{NOBODY}:{NOBODY}", top], check=True)
        delegate = ["sh", "-e", "-c", DELEGATE, "sh", str(NOBODY)] if request.param else []
        if delegate and not Path("/sys/fs/cgroup/cgroup.controllers").exists():
            pytest.skip("cgroup v2")
        d = Daemon(Path(top, "data"), template_dir=copy.parent, wrapper=[*delegate, *AS_USER])
        try:
            yield d.wait_ready()
        finally:
            d.dispose()


def test_an_ordinary_users_daemon(users_daemon: Daemon) -> None:
    """Has machines with a network, in jails, and all that is done to machines can be done to these."""
    api = users_daemon.api
    engine = api.call("GET", "/healthz")["engine"]
    assert engine["lacks"] == ["streams"]
    s = api.create("platform")
    s.write("/tmp/f", "kept")
    status = Path(f"/proc/{users_daemon.vm_of(s.id)}/status").read_text()
    assert f"Uid:\t{NOBODY}\t" in status
    assert "CapEff:\t0000000000000000" in status
    assert not Path(f"/proc/{users_daemon.vm_of(s.id)}/root/etc").exists()
    has_cgroup = "pandastack-" in Path(f"/proc/{users_daemon.vm_of(s.id)}/cgroup").read_text()
    assert has_cgroup != ("no cgroups for its machines: /sys/fs/cgroup" in engine["why"])
    assert has_cgroup == (users_daemon.command[0] == "sh")
    refused = "python3 -c 'import socket; socket.create_connection((\"10.0.2.77\", 9))' 2>&1 | tail -n 1"
    assert "refused" in s.output(refused).lower()
    child = s.fork()
    restored = api.restore(s.snapshot()["id"])
    s.hibernate()
    s.wake()
    for who in (s, child, restored):
        assert who.read("/tmp/f") == b"kept"
        assert "refused" in who.output(refused).lower()
        who.delete()
    users_daemon.stop()
    users_daemon.check_clean()
