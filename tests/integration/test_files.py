# SPDX-License-Identifier: Apache-2.0
"""Files in and out (F1 to F7), in any size and under any name."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from harness import Api, ApiError, Daemon, Sandbox
from harness.daemon import sanitizers

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f0005000"
    "1ff56c7c2d50000000049454e44ae426082"
)
CSV = Path(__file__).parents[2] / "examples" / "seattle-weather" / "seattle-weather.csv"


def zip_bytes(member: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(member, "text " * 1000)
    return out.getvalue()


CONTENTS = {
    "every byte": bytes(range(256)) * 17,
    "empty": b"",
    "one byte": b"\0",
    "png": PNG,
    "zip": zip_bytes("a/b.txt"),
    "xlsx": zip_bytes("xl/workbook.xml"),  # F3
    "docx": zip_bytes("word/document.xml"),
    "crlf": b"a\r\nb\rc\n",
    "a window": os.urandom(256 * 1024),
    "odd": os.urandom(1_000_003),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_F1_F3_bytes_come_back(box: Sandbox, kind: str) -> None:
    data = CONTENTS[kind]
    assert box.write("/tmp/f1.bin", data) == {"path": "/tmp/f1.bin", "bytes": len(data)}
    assert box.read("/tmp/f1.bin") == data
    assert box.output("sha256sum < /tmp/f1.bin").split()[0] == hashlib.sha256(data).hexdigest()


def test_a_real_csv(box: Sandbox) -> None:
    data = CSV.read_bytes()
    box.write("/workspace/weather.csv", data)
    assert box.read("/workspace/weather.csv") == data
    s = box.session()
    rows = s.text("import pandas as pd; len(pd.read_csv('/workspace/weather.csv'))")
    assert int(rows) == data.count(b"\n") - 1
    s.delete()


def test_parents_are_made(box: Sandbox) -> None:
    box.write("/tmp/new/deep/er/file", "x")
    assert box.read("/tmp/new/deep/er/file") == b"x"


def test_an_upload_keeps_the_mode_and_replaces_at_once(box: Sandbox) -> None:
    box.output("printf '#!/bin/sh\necho old' > /tmp/script; chmod 750 /tmp/script; ln /tmp/script /tmp/script2")
    box.write("/tmp/script", "#!/bin/sh\necho new")
    assert box.output("/tmp/script") == "new\n"
    assert box.stat("/tmp/script")["mode"].endswith("750")
    assert box.output("cat /tmp/script2") == "#!/bin/sh\necho old"


NAMES = [
    "a b",
    "😀",
    "u\u202ff",
    "%20",
    "a+b",
    "it's",
    'say "hi"',
    "new\nline",
    "back\\slash",
    "?#&=",
    "\u00e9",
    "e\u0301",
    "-rf",
    "--help",
    "*",
]


@pytest.mark.parametrize("name", NAMES)
def test_F4_F5_names(box: Sandbox, name: str) -> None:
    folder = f"/tmp/names/{name}.d"
    path = f"{folder}/{name}"
    box.write(path, name)
    assert box.read(path) == name.encode()
    assert list(box.entries(folder)) == [name]
    assert box.stat(path)["name"] == name
    assert box.stat(path)["size"] == len(name.encode())
    box.move(path, f"{path} moved")
    assert list(box.entries(folder)) == [f"{name} moved"]
    box.mkdir(f"{folder}/sub {name}")
    box.remove(f"{path} moved")
    assert list(box.entries(folder)) == [f"sub {name}"]
    box.remove(folder)
    assert f"{name}.d" not in box.entries("/tmp/names")


def test_stat_and_list(box: Sandbox) -> None:
    box.output("mkdir /tmp/l; cd /tmp/l; mkdir d; printf abc > f; ln -s f link; ln -s /nowhere dangling; mkfifo p")
    entries = box.entries("/tmp/l")
    assert set(entries) == {"d", "f", "link", "dangling", "p"}
    assert entries["d"]["is_dir"] is True
    assert entries["f"]["is_dir"] is False
    assert entries["f"]["size"] == 3
    assert {n: e["type"] for n, e in entries.items()} == {
        "d": "directory",
        "f": "file",
        "link": "symlink",
        "dangling": "symlink",
        "p": "fifo",
    }
    now = int(box.output("date +%s"))
    assert abs(entries["f"]["mtime"] - now) < 60
    assert box.stat("/tmp/l/link")["size"] == 3
    assert box.stat("/tmp/l")["is_dir"] is True
    assert box.stat("/")["is_dir"] is True
    assert "etc" in {e["name"] for e in box.api.call("GET", f"{box.path}/fs/dir")["entries"]}


def test_list_of_many(box: Sandbox) -> None:
    box.output("rm -rf /tmp/many; mkdir /tmp/many; cd /tmp/many; seq 5000 | xargs touch")
    assert set(box.entries("/tmp/many")) == {str(i) for i in range(1, 5001)}
    assert box.entries("/tmp/many")["1"]["size"] == 0
    box.remove("/tmp/many")


def test_files_of_proc(box: Sandbox) -> None:
    """They say that they are empty, and are not."""
    assert b"Linux version" in box.read("/proc/version")


def test_F7_the_root_stays(box: Sandbox) -> None:
    for path in ("/", "/proc", "/sys", "//", "/tmp/..", "/dev"):
        with pytest.raises(ApiError) as e:
            box.remove(path)
        assert e.value.status in (400, 403, 409), path
    assert box.output("ls /bin/sh") == "/bin/sh\n"


def test_remove_does_not_follow_links(box: Sandbox) -> None:
    box.output("mkdir -p /tmp/kept /tmp/tree; echo x > /tmp/kept/file; ln -s /tmp/kept /tmp/tree/link")
    box.remove("/tmp/tree")
    assert box.read("/tmp/kept/file") == b"x\n"


PATHS = {
    "missing": ("/tmp/no/such/file", 404, "file.not_found"),
    "relative": ("tmp/file", 400, "request.invalid"),
    "empty": ("", 400, "request.invalid"),
    "a folder": ("/etc", 400, "request.invalid"),
    "below a file": ("/etc/passwd/x", 400, "request.invalid"),
    "a device": ("/dev/zero", 400, "request.invalid"),
    "too long": ("/" + "x" * 5000, 400, "request.invalid"),
    "too long a name": ("/tmp/" + "x" * 300, 400, "request.invalid"),
}


@pytest.mark.parametrize("what", PATHS)
def test_paths_that_can_not_be_read(box: Sandbox, what: str) -> None:
    path, status, code = PATHS[what]
    answer = box.api.refused("GET", f"{box.path}/fs", status, code, params={"path": path})
    assert len(answer["error"]) > 10


@pytest.mark.parametrize("target", ["/fs", "/fs/stat", "/fs/dir"])
def test_path_that_is_not_utf8(box: Sandbox, target: str) -> None:
    for raw in ("%ff%fe", "/tmp/%C3", "/tmp/%00x"):
        box.api.refused("GET", f"{box.path}{target}?path={raw}", 400, "request.invalid")


def test_path_that_is_absent(box: Sandbox) -> None:
    for method in ("GET", "PUT", "DELETE"):
        assert "path" in box.api.refused(method, f"{box.path}/fs", 400, "request.invalid")["error"]
    box.api.refused("GET", f"{box.path}/fs/stat", 400, "request.invalid")


def test_stat_and_list_of_nothing(box: Sandbox) -> None:
    box.api.refused("GET", f"{box.path}/fs/stat", 404, "file.not_found", params={"path": "/tmp/nothing"})
    box.api.refused("GET", f"{box.path}/fs/dir", 404, "file.not_found", params={"path": "/tmp/nothing"})
    box.api.refused("GET", f"{box.path}/fs/dir", 400, "request.invalid", params={"path": "/etc/passwd"})
    box.api.refused("DELETE", f"{box.path}/fs", 404, "file.not_found", params={"path": "/tmp/nothing"})
    move = {"from": "/tmp/nothing", "to": "/tmp/x"}
    box.api.refused("POST", f"{box.path}/fs/move", 404, "file.not_found", json=move)


@pytest.mark.parametrize("path", ["/etc", "/etc/", "/etc/passwd/x", "relative", "/proc/version/x"])
def test_paths_that_can_not_be_written(box: Sandbox, path: str) -> None:
    box.api.refused("PUT", f"{box.path}/fs", 400, "request.invalid", params={"path": path}, data=b"x" * 200_000)
    assert box.output("head -c4 /etc/passwd") == "root"


def test_guest_disk_full(sandbox: Callable[..., Sandbox]) -> None:
    s = sandbox()
    s.mount_tmpfs("/mnt/small", "1m")
    answer = s.api.refused(
        "PUT", f"{s.path}/fs", 507, "no_space", params={"path": "/mnt/small/big"}, data=b"x" * 3_000_000
    )
    assert "space" in answer["error"].lower()
    assert list(s.entries("/mnt/small")) == [], "no half of a file"


def test_an_upload_that_breaks_off_leaves_nothing(box: Sandbox, api: Api) -> None:
    box.write("/tmp/broken/old", "old")
    host, port = urlsplit(api.url).hostname, urlsplit(api.url).port
    assert host
    with socket.create_connection((host, port or 80)) as conn:
        conn.sendall(
            f"PUT {box.path}/fs?path=/tmp/broken/old HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
            "Content-Length: 1000000\r\n\r\n".encode()
            + b"n" * 300_000
        )
    # The next call on the link comes after the daemon has noticed, or the guest still holds the temporary file.
    box.output("while [ $(ls -A /tmp/broken | wc -l) != 1 ]; do :; done", timeout_seconds=20)
    assert box.read("/tmp/broken/old") == b"old"


# ---- size ----

MIB = 1 << 20


def pieces(total: int, block: bytes = os.urandom(MIB)) -> Iterator[bytes]:
    """Bytes of which no two blocks are equal."""
    for i in range(total // len(block)):
        yield i.to_bytes(8, "big") + block[8:]


def test_chunked_upload(box: Sandbox) -> None:
    size = 20 * MIB
    answer = box.api.call("PUT", f"{box.path}/fs", params={"path": "/tmp/chunked"}, data=pieces(size))
    assert answer["bytes"] == size
    want = hashlib.sha256(b"".join(pieces(size))).hexdigest()
    assert hashlib.sha256(box.read("/tmp/chunked")).hexdigest() == want


def test_expect_100_continue(box: Sandbox, api: Api) -> None:
    """As curl does it: the body goes out after the server's word, and not at all where it is refused."""
    host, port = urlsplit(api.url).hostname, urlsplit(api.url).port
    assert host

    def ask(path: str, key: str | None) -> tuple[bytes, socket.socket]:
        conn = socket.create_connection((host or "", port or 80), timeout=30)
        conn.sendall(
            f"PUT {box.path}/fs?path={quote(path)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
            "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n".encode()
        )
        return conn.recv(4096), conn

    head, conn = ask("/tmp/expected", api.key)
    with conn:
        assert head.startswith(b"HTTP/1.1 100 ")
        conn.sendall(b"hello")
        assert b"HTTP/1.1 200 " in conn.recv(4096)
    assert box.read("/tmp/expected") == b"hello"
    for path, key, status in (("/tmp/expected", "pds_wrong", b"401"), ("relative", api.key, b"400")):
        head, conn = ask(path, key)
        conn.close()
        assert head.startswith(b"HTTP/1.1 " + status), head


def test_a_gibibyte_up_and_down(make_daemon: Callable[..., Daemon]) -> None:
    """The bytes are the same, and the daemon holds no more than 8 MiB of them."""
    # A sanitizer's own store of freed blocks would be counted as the daemon's.
    options = f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=0:thread_local_quarantine_size_kb=0"
    daemon = make_daemon(env={"ASAN_OPTIONS": options.lstrip(":")}).wait_ready()
    box = daemon.api.create()
    parts = urlsplit(daemon.api.url)
    headers = {"Authorization": f"Bearer {daemon.key}"}
    url = f"{box.path}/fs?path=/workspace/big"
    size = 1 << 30

    def up(n: int) -> str:
        conn = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        digest = hashlib.sha256()

        def body() -> Iterator[bytes]:
            for piece in pieces(n):
                digest.update(piece)
                yield piece

        conn.request("PUT", url, body(), {**headers, "Content-Length": str(n)})
        response = conn.getresponse()
        assert response.status == 200, response.read()
        response.read()
        conn.close()
        return digest.hexdigest()

    def down(n: int) -> str:
        conn = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        conn.request("GET", url, headers=headers)
        response = conn.getresponse()
        assert response.status == 200
        assert response.headers["Content-Length"] == str(n)
        digest = hashlib.sha256()
        while piece := response.read(MIB):
            digest.update(piece)
        conn.close()
        return digest.hexdigest()

    assert up(4 * MIB) == down(4 * MIB)
    Path(f"/proc/{daemon.process.pid}/clear_refs").write_text("5")  # the peak counts from now
    before = daemon.status_kib("VmRSS")
    assert up(size) == down(size)
    growth = daemon.status_kib("VmHWM") - before
    if "thread" not in sanitizers():  # whose shadow memory is several times what it watches
        assert growth <= 8 * 1024, f"{growth} KiB"
    box.delete()
    daemon.stop()
    daemon.check_clean()
