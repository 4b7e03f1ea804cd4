# SPDX-License-Identifier: Apache-2.0
"""Package indexes of our own on a loopback port: a Python project, an npm package, an apt archive. They count."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PYTHON_TYPE = "application/vnd.pypi.simple.v1+json"
NPM_TYPE = "application/json"
METADATA = "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n"


def make_wheel(noise: bytes) -> bytes:
    """A wheel of the project "sample", with a module and some bytes that do not compress."""
    files = {
        "sample.py": b"VALUE = 42\n",
        "sample.bin": noise,
        "sample-1.0.dist-info/METADATA": METADATA.encode(),
        "sample-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files["sample-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in files.items():
            z.writestr(name, data)
    return out.getvalue()


def make_tarball() -> bytes:
    """Return the package "@test/sample" of npm."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in (
            ("package/package.json", '{"name": "@test/sample", "version": "1.0.0", "main": "index.js"}'),
            ("package/index.js", "module.exports = 42\n"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


class Index:
    """The server. `files` is what it has, by path; `asked` the paths that it was asked for, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.news = threading.Condition()
        self.headers: list[dict[str, str]] = []
        self.damaged: set[str] = set()  # one byte is another
        self.cut: set[str] = set()  # the connection ends in the middle
        self.gate = threading.Event()  # files wait for it
        self.gate.set()
        self.moved: dict[str, str] = {}  # redirects
        self.endless: set[str] = set()  # the body of an error does not end
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                index.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.files: dict[str, tuple[str, bytes]] = {}
        self._add_python()
        self._add_npm()
        self._add_apt()

    def close(self) -> None:
        """It is reached no more."""
        self.server.shutdown()
        self.server.server_close()

    # ---- what it has ----

    def _add_python(self) -> None:
        self.wheel = make_wheel(os.urandom(1 << 20))
        self.wheel_path = "/packages/sample-1.0-py3-none-any.whl"
        digest = hashlib.sha256(self.wheel).hexdigest()
        page = {
            "meta": {"api-version": "1.1"},
            "name": "sample",
            "versions": ["1.0"],
            "files": [
                {
                    "filename": "sample-1.0-py3-none-any.whl",
                    "url": "../../packages/sample-1.0-py3-none-any.whl#fragment",
                    "hashes": {"sha256": digest},
                    "requires-python": ">=3.8",
                    "yanked": False,
                    "size": len(self.wheel),
                    "core-metadata": {"sha256": hashlib.sha256(METADATA.encode()).hexdigest()},
                }
            ],
        }
        self.python_target = f"/pypi/files/sample/{digest}/sample-1.0-py3-none-any.whl"
        self.files["/simple/sample/"] = (PYTHON_TYPE, json.dumps(page).encode())
        self.files["/simple/html/"] = ("text/html", b"<a href=x.whl>x.whl</a>")
        self.files[self.wheel_path] = ("application/zip", self.wheel)
        self.files[self.wheel_path + ".metadata"] = ("text/plain", METADATA.encode())

    def _add_npm(self) -> None:
        tarball = make_tarball()
        self.tarball_path = "/npm/@test/sample/-/sample-1.0.0.tgz"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
        version = {
            "name": "@test/sample",
            "version": "1.0.0",
            "dist": {"tarball": self.url + self.tarball_path, "integrity": integrity},
        }
        metadata = {"name": "@test/sample", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        self.files["/npm/@test/sample"] = (NPM_TYPE, json.dumps(metadata).encode())
        self.files[self.tarball_path] = ("application/gzip", tarball)

    def _add_apt(self) -> None:
        packages = b"Package: sample\n" * 100
        self.by_hash = f"/debian/dists/x/main/binary-amd64/by-hash/SHA256/{hashlib.sha256(packages).hexdigest()}"
        self.files[self.by_hash] = ("text/plain", packages)
        self.files["/debian/pool/sample_1.0_all.deb"] = ("application/x-debian", os.urandom(1000))
        self.files["/debian/dists/x/InRelease"] = ("text/plain", b"Suite: x\n")

    def environment(self, folder: Path) -> dict[str, str | None]:
        """What makes a host use it; `folder` is for apt's files."""
        sources = folder / "sources.list"
        sources.write_text(f"deb [trusted=yes] {self.url}/debian x main\n")
        config = folder / "apt.conf"
        config.write_text(f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "/dev/null";\n')
        return {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"http://me:secret@127.0.0.1:{self.port}/simple",
            "npm_config_registry": f"{self.url}/npm/",
            "APT_CONFIG": str(config),
            "no_proxy": "127.0.0.1",
        }

    # ---- how it answers ----

    def count(self, path: str) -> int:
        """How often that was asked for."""
        return self.asked.count(path)

    def wait_for(self, path: str) -> None:
        """Until it has been asked for."""
        with self.news:
            assert self.news.wait_for(lambda: path in self.asked, 60), self.asked

    @contextmanager
    def held(self) -> Iterator[None]:
        """All but pages waits while the block runs."""
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """One request."""
        path = handler.path.replace("%40", "@").replace("%2F", "/")
        with self.news:
            self.headers.append(dict(handler.headers))
            self.asked.append(path)
            self.news.notify_all()
        kind, data = self.files.get(path, ("", b""))
        since = handler.headers.get("If-Modified-Since")
        status = 304 if since and kind else 200 if kind else 404
        if not path.startswith("/simple/"):
            self.gate.wait(60)
        if path in self.damaged:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if path in self.endless:
            self._go_on(handler)
            return
        if path in self.moved:
            handler.send_response(302)
            handler.send_header("Location", self.moved[path])
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(status)
        if kind:
            handler.send_header("Content-Type", kind)
            handler.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        handler.send_header("Content-Length", "0" if status == 304 else str(len(data)))
        handler.end_headers()
        if path in self.cut:
            handler.wfile.write(data[: len(data) // 2])
            handler.close_connection = True
        elif status == 200:
            handler.wfile.write(data)

    @staticmethod
    def _go_on(handler: BaseHTTPRequestHandler) -> None:
        """An error with a body that ends when the client does."""
        handler.send_response(500)
        handler.end_headers()
        handler.close_connection = True
        with suppress(OSError):
            while True:
                handler.wfile.write(bytes(1 << 16))
