# SPDX-License-Identifier: Apache-2.0
"""`pandastack template build`: what it refuses, and what an interrupted or failed build leaves: nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.daemon import binary, templates

DEFINITION: dict[str, Any] = {"name": "mine", "description": "d", "from": None, "suite": "bookworm", "packages": []}


def build(folder: Path, definition: str, *wrapper: str) -> subprocess.Popen[str]:
    command = [*wrapper, str(binary()), "template", "build", definition, "--templates", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def refusal(folder: Path, definition: str) -> str:
    process = build(folder, definition)
    err = process.communicate(timeout=120)[1]
    assert process.returncode not in (0, None), err
    return err


def assert_nothing_half_made(folder: Path, name: str) -> None:
    assert {p.name for p in (folder / name).iterdir()} <= {".lock", "build.log"}


def test_unknown_definition(tmp_path: Path) -> None:
    assert "base, code-interpreter" in refusal(tmp_path, "nonsense")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"memory_mb": "512"}, "memory_mb"),
        ({"memory_mb": 1}, "memory_mb"),
        ({"colour": "red"}, 'unknown key "colour"'),
        ({"name": "../up"}, "name"),
        ({"kernel": "cobol"}, "kernel"),
        ({"from": "no-such-base"}, "no-such-base"),
    ],
)
def test_bad_definition(tmp_path: Path, change: dict[str, Any], word: str) -> None:
    folder = tmp_path / "definition"
    folder.mkdir()
    (folder / "template.json").write_text(json.dumps(DEFINITION | change))
    assert word in refusal(tmp_path / "out", str(folder))


def test_broken_json_names_the_line(tmp_path: Path) -> None:
    folder = tmp_path / "definition"
    folder.mkdir()
    (folder / "template.json").write_text('{\n"name": "mine",\n}')
    assert "template.json, line 3" in refusal(tmp_path / "out", str(folder))


def test_interrupt_leaves_nothing(tmp_path: Path) -> None:
    process = build(tmp_path, "base")
    assert process.stderr is not None
    assert "Building template base" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert_nothing_half_made(tmp_path, "base")


def test_full_disk(tmp_path: Path) -> None:
    """Looked at inside the mount namespace, which ends with the build."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    probe = subprocess.run([*unshare, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True, text=True)
    if probe.returncode != 0 or os.geteuid() != 0:
        pytest.skip(f"a small disk needs root: {probe.stderr.strip()}")
    script = 'mount -t tmpfs -o size=64m tmpfs "$0"; "$@"; status=$?; ls -A "$0/base"; exit $status'
    process = build(tmp_path, "base", *unshare, "sh", "-c", script, str(tmp_path))
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1
    assert "no space left" in err
    assert set(out.split()) <= {".lock", "build.log"}


def test_up_to_date_is_left_alone() -> None:
    current = templates() / "code-interpreter" / "current"
    version = current.readlink()
    manifest = templates() / "code-interpreter" / version / "manifest.json"
    before = manifest.stat().st_mtime_ns
    # Only the build that baked it is sure to be the same.
    program = Path(__file__).resolve().parents[2] / "build" / "pandastack"
    if not program.exists():
        pytest.skip("no plain build")
    command = [str(program), "template", "build", "code-interpreter", "--templates", str(templates())]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "is ready" in result.stdout
    assert manifest.stat().st_mtime_ns == before
    assert current.readlink() == version
