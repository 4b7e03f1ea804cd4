# SPDX-License-Identifier: Apache-2.0
"""The Python in the docs runs, and prints what they say; tests/integration/test_docs.py sees to the rest of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness import Daemon
from harness.docs import blocks, pages

# Signatures, and what is run in a sandbox.
OTHERS = {"docs/reference-python.md", "docs/charts.md"}


@pytest.mark.parametrize("page", [page for page in pages("python") if page not in OTHERS])
def test_docs(page: str, environment: dict[str, str], daemon: Daemon, tmp_path: Path) -> None:
    """A page is one program, which says where each block of it ends."""
    program = ""
    wanted: list[str | None] = []
    last = ""
    for block in blocks(page):
        if block.language == "python":
            program += f"{block.text}print('\\0', end='', flush=True)\n"
            wanted.append(None)
        elif block.language == "text" and last == "python":
            wanted[-1] = block.text
        last = block.language
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    for shown, want in zip(done.stdout.split("\0"), wanted):
        assert want is None or shown == want
    assert daemon.api.list() == []
