# SPDX-License-Identifier: Apache-2.0
"""The code in the docs runs, and prints what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Daemon

REPO = Path(__file__).resolve().parents[4]
# What is no Python, and is done before: the daemon's fixture starts it, the package was installed to run this.
SHELL = {"build/pandastack serve\n", "pip install ./sdk/python\n"}
GUIDE = sorted(str(page.relative_to(REPO)) for page in (REPO / "docs/guide").glob("*.md"))


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of each block of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (REPO / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/sdk-python.md", "sdk/python/README.md", "README.md", *GUIDE])
def test_docs(page: str, environment: dict[str, str], daemon: Daemon, tmp_path: Path) -> None:
    """A page is one program, which says where each block of it ends."""
    program = ""
    wanted: list[str | None] = []
    last = ""
    for language, text in blocks(page):
        if language == "python":
            program += f"{text}print('\\0', end='', flush=True)\n"
            wanted.append(None)
        elif language == "text" and last == "python":
            wanted[-1] = text
        else:
            assert language or text in SHELL or page in ("README.md", *GUIDE)
        last = language
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    for shown, want in zip(done.stdout.split("\0"), wanted):
        assert want is None or shown == want
    assert daemon.api.list() == []
