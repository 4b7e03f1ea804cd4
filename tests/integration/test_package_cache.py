# SPDX-License-Identifier: Apache-2.0
"""--package-cache: the second sandbox's install downloads nothing, and nothing wrong is kept (docs/packages.md)."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Daemon, Sandbox
from harness.daemon import fill, in_view
from harness.index import Index

MakeDaemon = Callable[..., Daemon]
MIRROR = "http://10.0.2.3"
PIP = "pip install --no-cache-dir --force-reinstall sample 2>&1"
CURL = "curl -sS -o /tmp/out -w '%{http_code} %{redirect_url}'"


@pytest.fixture
def index() -> Iterator[Index]:
    i = Index()
    try:
        yield i
    finally:
        i.gate.set()
        i.close()


@pytest.fixture
def serve(index: Index, make_daemon: MakeDaemon, tmp_path: Path) -> Callable[..., Daemon]:
    """Daemons with a cache whose host uses the index."""
    folder = tmp_path / "apt"
    folder.mkdir()

    def start(data_dir: Path | None = None, *, cache: Path | None = tmp_path / "cache", **kwargs: Any) -> Daemon:
        args = [*kwargs.pop("args", []), *([f"--package-cache={cache}"] if cache else [])]
        return make_daemon(data_dir, args=args, env=index.environment(folder), **kwargs).wait_ready()

    return start


def get(box: Sandbox, target: str, options: str = "") -> str:
    """The status of a request to the mirror, and where it redirects to."""
    return box.output(f"{CURL} {options} '{target if target.startswith('http') else MIRROR + target}'").strip()


def test_python(index: Index, serve: Callable[..., Daemon], tmp_path: Path) -> None:
    d = serve()
    first, second = d.api.create(), d.api.create()
    assert "Successfully installed sample-1.0" in first.output(PIP)
    assert first.output("python3 -c 'import sample; print(sample.VALUE)'") == "42\n"
    assert index.count(index.wheel_path) == 1
    # pip reads the metadata first, and takes the file by the URL that it is told.
    assert index.count(index.wheel_path + ".metadata") == 1
    # The host's own credentials are used, and stay there.
    assert index.headers[0]["Authorization"].startswith("Basic ")
    assert "secret" not in first.output(f"curl -s {MIRROR}/pypi/simple/sample/; cat /etc/xdg/pip/pip.conf")
    asked = len(index.asked)
    assert "Successfully installed" in second.output(PIP)
    assert "sample" in second.output("uv pip install --no-cache --reinstall sample 2>&1")
    folder = second.output("python3 -c 'import sysconfig as s; print(s.get_path(\"purelib\"))'").strip()
    assert second.output(f"wc -c <{folder}/sample.bin") == f"{1 << 20}\n"
    assert len(index.asked) == asked
    # Once it is old, the page is asked for again; where there is no index any more, it is better than none.
    index.close()
    for file in (tmp_path / "cache").iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        os.utime(file, (1, 1))
    assert "Successfully installed" in second.output(PIP)
    assert d.wait_log("the package cache can't give something")["url"] == f"{index.url}/simple/sample/"


def test_at_the_same_time(index: Index, serve: Callable[..., Daemon]) -> None:
    d = serve()
    boxes = [d.api.create() for _ in range(2)]
    outputs: list[str] = []
    threads = [threading.Thread(target=lambda b=b: outputs.append(b.output(PIP))) for b in boxes]
    with index.held():
        for t in threads:
            t.start()
        index.wait_for(index.wheel_path + ".metadata")
        for box in boxes:  # 10.0.2.3:80, connected
            box.output("until grep -q '0302000A:0050 01' /proc/net/tcp; do :; done")
    for t in threads:
        t.join()
    assert [o for o in outputs if "Successfully installed" in o] == outputs
    assert len(outputs) == 2
    assert index.count(index.wheel_path) == 1


@pytest.mark.parametrize("how", ["damaged", "cut"])
def test_what_is_not_right_is_not_kept(index: Index, serve: Callable[..., Daemon], how: str) -> None:
    d = serve()
    box = d.api.create()
    paths = {index.wheel_path, index.wheel_path + ".metadata", index.tarball_path, index.by_hash}
    getattr(index, how).update(paths)
    # It is sent to the source, which this sandbox can't reach: nobody gets a byte of it.
    assert get(box, index.python_target) == f"307 {index.url}{index.wheel_path}"
    assert get(box, index.python_target + ".metadata") == f"307 {index.url}{index.wheel_path}.metadata"
    assert get(box, index.tarball_path) == f"307 {index.url}{index.tarball_path}"
    assert get(box, index.url + index.by_hash, f"-x {MIRROR}:80").startswith("502")
    assert box.exec(PIP)["exit_code"] != 0
    getattr(index, how).clear()
    assert "Successfully installed" in box.output(PIP)
    for target in (index.python_target, index.tarball_path):
        assert get(box, target).startswith("200")


def test_npm(index: Index, serve: Callable[..., Daemon]) -> None:
    d = serve()
    first, second = d.api.create(), d.api.create()
    install = "mkdir -p /tmp/p && cd /tmp/p && npm install @test/sample 2>&1 && node -p 'require(\"@test/sample\")'"
    assert first.output(install).endswith("42\n")
    assert index.count(index.tarball_path) == 1
    asked = len(index.asked)
    assert second.output(install).endswith("42\n")
    assert len(index.asked) == asked
    # The lock file names the registry, not us, and such a one is installed from here.
    lock = json.loads(second.read("/tmp/p/package-lock.json"))
    assert lock["packages"]["node_modules/@test/sample"]["resolved"] == index.url + index.tarball_path
    second.output("cd /tmp/p && rm -rf node_modules ~/.npm && npm ci 2>&1")
    assert len(index.asked) == asked
    # What an install needs not is the registry's own matter.
    assert get(second, "/-/v1/search?text=x") == f"307 {index.url}/npm/-/v1/search?text=x"
    assert get(second, "/-/npm/v1/security/audits", "-d x").startswith(f"307 {index.url}/npm/-/npm/v1/")


def test_apt(index: Index, serve: Callable[..., Daemon]) -> None:
    d = serve()
    first, second = d.api.create(), d.api.create()
    deb, release = "/debian/pool/sample_1.0_all.deb", "/debian/dists/x/InRelease"
    assert "Proxy::127.0.0.1" in first.output("apt-config dump")
    for box in (first, second):
        for path in (deb, index.by_hash, release):
            assert get(box, index.url + path, f"-x {MIRROR}:80").startswith("200")
            assert box.read("/tmp/out") == index.files[path][1]
    assert index.count(deb) == index.count(index.by_hash) == 1
    # One that was wrong when it was kept is replaced when it is asked for anew.
    kind, right = index.files[deb]
    index.files[deb] = (kind, b"another")
    for options, want in (("", right), ("-H 'Cache-Control: no-cache'", b"another"), ("", b"another")):
        assert get(second, index.url + deb, f"-x {MIRROR}:80 {options}").startswith("200")
        assert second.read("/tmp/out") == want
    # Indexes are passed on each time, and validated.
    assert index.count(release) == 2
    since = "-z 'Mon, 01 Jan 2024 00:00:00 GMT'"
    assert get(first, index.url + release, f"-x {MIRROR}:80 {since}").startswith("304")
    assert get(first, f"{index.url}/debian/none.deb", f"-x {MIRROR}:80").startswith("404")


def test_it_is_no_proxy(index: Index, serve: Callable[..., Daemon]) -> None:
    d = serve()
    box = d.api.create()
    asked = len(index.asked)
    for url in (
        f"{index.url}/simple/sample/",
        f"{index.url}/debian/../simple/sample/",
        f"{index.url}/debian/%2e%2e/simple/sample/",
        f"{index.url}/debian/x.deb?y",
        f"http://127.0.0.1:{index.port}@192.0.2.1/debian/x.deb",
        "http://example.com/debian/x.deb",
        "http://169.254.169.254/debian/",
        d.url + "/healthz",
    ):
        assert get(box, url, f"-x {MIRROR}:80 --path-as-is").startswith("403"), url
    for target in (
        "/pypi/simple/",
        "/pypi/simple/../../etc/passwd",
        "/pypi/simple/Sample/",
        "/pypi/simple/%2e%2e/",
        f"/pypi/files/sample/{'0' * 64}/..%2fx",
        "/pypi/files/sample/x/sample.whl",
        "//example.com/",
        "/%00",
    ):
        assert get(box, target, "--path-as-is").startswith("404"), target
    assert get(box, f"{index.url}/debian/x.deb", f"-x {MIRROR}:80 -d x").startswith("405")
    assert box.exec(f"curl -sS -x {MIRROR}:80 https://example.com/")["stderr"].endswith("405\n")
    assert len(index.asked) == asked
    # Others want connections, too.
    connect = "import socket; s = [socket.socket() for _ in range(70)]; "
    connect += "print([c.connect_ex(('10.0.2.3', 80)) for c in s].count(0))"
    assert 32 <= int(box.output(f'python3 -c "{connect}"')) <= 64
    # The index must have it, under that hash.
    assert get(box, f"/pypi/files/sample/{'0' * 64}/sample-1.0-py3-none-any.whl").startswith("404")
    # One that speaks no JSON is left to pip.
    assert get(box, "/pypi/simple/html/") == f"307 {index.url}/simple/html/"
    assert get(box, "/pypi/simple/none/").startswith("404")


def test_sandboxes_with_rules_go_to_the_source(index: Index, serve: Callable[..., Daemon]) -> None:
    d = serve()
    box = d.api.create(network={"egress": {"deny": ["x.example"]}})
    settings = "cat /etc/xdg/pip/pip.conf /etc/xdg/uv/uv.toml /etc/apt/apt.conf.d/10pandastack"
    settings += " /usr/local/lib/node_modules/npm/npmrc"
    page = f"{MIRROR}/pypi/simple/sample/"

    def set_egress(egress: object) -> None:
        d.api.call("PATCH", f"{box.path}/network", json={"egress": egress})

    assert box.output(settings) == ""
    assert box.exec(f"curl -sS {page}")["exit_code"] == 7
    assert box.events(type="egress.denied")[-1]["payload"]["why"] == "it is a private address"
    set_egress("internet")
    assert box.output(settings).count(MIRROR) == 4
    assert get(box, page).startswith("200")
    # A connection that stands ends with the permission.
    with box.stream("bash -c 'exec 3<>/dev/tcp/10.0.2.3/80; echo open; cat <&3'") as events:
        assert next(events).data["chunk"] == "open\n"
        set_egress({"allow": ["example.com"]})
        assert list(events)[-1].data["exit_code"] == 1
    assert box.output(settings) == ""
    assert box.exec(f"curl -sS {page}")["exit_code"] == 7
    set_egress("none")
    assert box.output(settings) == ""


def test_another_daemon(index: Index, serve: Callable[..., Daemon]) -> None:
    d = serve(args=["--keep"])
    box = d.api.create()
    kernel = box.session()
    snapshot = box.snapshot()
    kernel.ok("import subprocess")
    assert d.stop() == 0
    # Its port is another, and its guests are led there.
    d = serve(d.data_dir, args=["--keep"])
    box = d.api.sandbox(box.id)
    install = f"subprocess.run({PIP!r}, shell=True, capture_output=True, text=True).stdout"
    assert "Successfully installed" in box.same(kernel).text(install, timeout_ms=200_000)
    assert d.stop() == 0
    # A daemon without a cache: the kernel of then asks the source, which it can't reach here.
    d = serve(d.data_dir, cache=None)
    box = d.api.sandbox(box.id)
    for b in (box, d.api.restore(snapshot["id"])):
        assert b.output("cat /etc/xdg/pip/pip.conf") == ""
        assert b.exec(f"curl -sS {MIRROR}")["exit_code"] == 7


def test_a_slow_reader_takes_room(index: Index, serve: Callable[..., Daemon]) -> None:
    d = serve(args=["--package-cache-size=100MiB"])
    box = d.api.create()
    # The cache does not keep these, so each is on the disk for its reader alone.
    for n in "12":
        index.files[f"/debian/dists/x/{n}"] = ("text/plain", bytes(30 << 20))
    curl = f"curl -sS -f -o /dev/null -x {MIRROR}:80"
    slow = f"{curl} --limit-rate 1 -D /tmp/head {index.url}/debian/dists/x/1"
    slow = box.output(f"{slow} >/dev/null 2>&1 & echo $!").strip()
    box.output("until grep -q '200 OK' /tmp/head; do :; done")
    assert "502" in box.exec(f"{curl} {index.url}/debian/dists/x/2")["stderr"]
    box.output(f"kill {slow}; until {curl} {index.url}/debian/dists/x/2 2>/dev/null; do :; done")


def test_credentials_stay_on_the_host(index: Index, serve: Callable[..., Daemon]) -> None:
    """Also where the index sends its clients elsewhere on its own host, by a path alone."""
    box = serve().api.create()
    index.moved["/simple/old-name/"] = "/simple/sample/"
    assert get(box, "/pypi/simple/old-name/") == f"307 {index.url}/simple/sample/"
    assert index.headers[-1]["Authorization"].startswith("Basic ")


def test_an_error_without_end(index: Index, serve: Callable[..., Daemon]) -> None:
    box = serve().api.create()
    index.endless |= {"/simple/endless/", "/npm/endless"}
    assert get(box, "/pypi/simple/endless/") == f"307 {index.url}/simple/endless/"
    assert get(box, "/endless") == f"307 {index.url}/npm/endless"


def test_who_hangs_up_holds_nothing(index: Index, serve: Callable[..., Daemon]) -> None:
    """A download that nobody waits for ends, and so do those who wait for one."""
    d = serve()
    box = d.api.create()
    port = mirror_port(d)

    def connections() -> int:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(row[1].endswith(f":{port:04X}") and row[3] in ("01", "08") for row in rows)

    with index.held():
        ask = f"curl -s -o /dev/null {MIRROR}{index.python_target}"
        pids = box.output(f"for i in 1 2 3; do {ask} & echo $!; done 2>/dev/null").split()
        index.wait_for(index.wheel_path)
        while connections() < 3:
            pass
        box.output(f"kill -9 {' '.join(pids)}")
        while connections():
            pass
    assert index.count(index.wheel_path) == 1
    assert get(box, index.python_target).startswith("200")


def mirror_port(d: Daemon) -> int:
    """The listening port of the daemon that is not the API's."""
    fds = Path(f"/proc/{d.process.pid}/fd").iterdir()
    inodes = {target[8:-1] for target in map(os.readlink, fds) if target.startswith("socket:[")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes}
    (port,) = ports - {int(d.url.rsplit(":", 1)[1])}
    return port


def test_other_users_of_the_host_are_not_served(index: Index, serve: Callable[..., Daemon]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    d = serve()
    request = (
        f"exec 3<>/dev/tcp/127.0.0.1/{mirror_port(d)}; "
        "printf 'GET /pypi/simple/sample/ HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    )
    for user, served in ((None, True), (12345, False)):
        done = subprocess.run(["bash", "-c", request], user=user, capture_output=True, text=True, timeout=60)
        assert ("sample" in done.stdout) == served, done


def test_a_full_disk(index: Index, serve: Callable[..., Daemon], tmp_path: Path) -> None:
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    cache = tmp_path / "small"
    cache.mkdir()
    if subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("no mount namespace to be had here")
    script = 'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"'
    d = serve(cache=cache, wrapper=[*unshare, "sh", "-c", script, str(cache)], view=in_view)
    box = d.api.create()
    filler = fill(d.path(cache))
    assert get(box, "/pypi/simple/sample/") == f"307 {index.url}/simple/sample/"
    assert get(box, index.tarball_path) == f"307 {index.url}{index.tarball_path}"
    filler.unlink()
    assert "Successfully installed" in box.output(PIP)
    fill(d.path(cache))
    assert "Successfully installed" in box.output(PIP)


def test_a_folder_that_does_not_do(make_daemon: MakeDaemon) -> None:
    d = make_daemon(args=["--package-cache=/proc/cache"])
    with d.expect_error("can't start"):
        assert d.wait() != 0
    assert "/proc/cache" in str(d.records[-1]["error"])
