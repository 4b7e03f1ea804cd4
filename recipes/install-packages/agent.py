# SPDX-License-Identifier: Apache-2.0
"""Packages on demand, once: install them, keep the machine as a snapshot, start from that as often as needed."""

import shlex
import sys
from pathlib import Path

from pandastack import Client, Execution, Sandbox

ABOUT = {"recipe": "install-packages"}
WHEELS = "/workspace/wheels"


def prepare(packages: list[str]) -> str:
    """The id of a snapshot that has them: names (with versions, for the same tomorrow) or wheels of your own."""
    sandbox = Sandbox.create(ttl_seconds=900, metadata=ABOUT)
    try:
        sandbox.filesystem.mkdir(WHEELS)
        wanted = [upload(sandbox, Path(p)) if p.endswith(".whl") else p for p in packages]
        offline = ["--no-index"] if all(p.startswith(WHEELS) for p in wanted) else []
        command = ["uv", "pip", "install", "--quiet", "--find-links", WHEELS, *offline, *wanted]  # or pip, slower
        sandbox.exec(shlex.join(command), check=True, timeout=600)  # CommandError says what went wrong
        return sandbox.snapshot()
    finally:
        sandbox.kill()


def upload(sandbox: Sandbox, wheel: Path) -> str:
    there = f"{WHEELS}/{wheel.name}"
    sandbox.filesystem.upload(wheel, there)
    return there


def run(snapshot: str, code: str) -> Execution:
    """Run code where the packages are, in a sandbox of its own."""
    sandbox = Sandbox.create(from_snapshot=snapshot, ttl_seconds=120, metadata=ABOUT)
    try:
        return sandbox.run_code(code)
    finally:
        sandbox.kill()


if __name__ == "__main__":
    *packages, code = sys.argv[1:]
    snapshot = prepare(packages)
    try:
        ex = run(snapshot, code)
        print(ex.error or ex.text or ex.stdout)
    finally:
        with Client() as client:
            client.snapshots.delete(snapshot)
