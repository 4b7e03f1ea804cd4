# SPDX-License-Identifier: Apache-2.0
"""A wheel of our own, so that no index is needed."""

import zipfile
from pathlib import Path

import pytest
from pandastack import Client, CommandError

import agent

INFO = "greeting-1.0.dist-info"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    files = {
        "greeting.py": "def greet(name):\n    return f'hello, {name}'\n",
        f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{INFO}/RECORD"] = "".join(f"{name},,\n" for name in files)
    path = tmp_path / "greeting-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
    return path


def test_installed_once_and_used_often(wheel: Path) -> None:
    snapshot = agent.prepare([str(wheel)])
    for name in ("panda", "world"):
        ex = agent.run(snapshot, f"import greeting\ngreeting.greet({name!r})")
        assert (ex.error, ex.text) == (None, f"'hello, {name}'")
    with Client() as client:
        client.snapshots.delete(snapshot)


def test_what_pip_cannot_do_is_said_and_nothing_stays(tmp_path: Path) -> None:
    broken = tmp_path / "broken-1.0-py3-none-any.whl"
    broken.write_bytes(b"no wheel")
    with pytest.raises(CommandError, match="broken"):
        agent.prepare([str(broken)])
    with Client() as client:
        assert client.snapshots.list() == []
