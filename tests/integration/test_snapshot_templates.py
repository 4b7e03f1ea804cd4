# SPDX-License-Identifier: Apache-2.0
"""The version of a template that captures and sandboxes stand on stays, whatever becomes of the template."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Daemon
from harness.daemon import REPO, templates

MakeDaemon = Callable[..., Daemon]


@pytest.fixture
def base_only(tmp_path: Path) -> Path:
    """A templates' folder of our own with `base` alone."""
    folder = tmp_path / "templates"
    version = (templates() / "base" / "current").resolve()
    target = folder / "base" / version.name
    target.parent.mkdir(parents=True)
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", str(version), str(target)], check=True)
    (target.parent / "current").symlink_to(version.name)
    return folder


def rebuilt(folder: Path) -> str:
    """What a build of a new version does: another folder, and the name points there."""
    base = folder / "base"
    old = (base / "current").resolve()
    new = base / ("f" * len(old.name))
    shutil.copytree(old, new, copy_function=os.link)
    manifest = (new / "manifest.json").read_text()
    (new / "manifest.json").unlink()
    (new / "manifest.json").write_text(manifest.replace(old.name, new.name))
    (base / "next").symlink_to(new.name)
    (base / "next").replace(base / "current")
    return old.name


def test_a_template_that_a_snapshot_stands_on(make_daemon: MakeDaemon, base_only: Path) -> None:
    d = make_daemon(template_dir=base_only).wait_ready()
    s = d.api.create("base")
    s.write("/workspace/f", "data")
    taken = s.snapshot()["id"]
    s.delete()
    answer = d.api.refused("DELETE", "/v1/templates/base", 409, "conflict")
    assert "1 snapshot " in answer["error"]
    assert taken in answer["error"]
    copy = d.api.restore(taken)
    assert copy.read("/workspace/f") == b"data"
    answer = d.api.refused("DELETE", "/v1/templates/base", 409, "conflict")
    assert "2 snapshots " in answer["error"]
    assert taken in answer["error"]
    assert copy.id in answer["error"]
    copy.delete()
    d.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)
    d.api.call("DELETE", "/v1/templates/base", want=204)
    d.api.refused("POST", "/v1/sandboxes", 400, "template.unknown", json={"template": "base"})
    d.stop()
    d.check_clean()


def test_a_template_removed_by_force(make_daemon: MakeDaemon, base_only: Path) -> None:
    """It has no name any more; the snapshot has what it needs."""
    d = make_daemon(template_dir=base_only).wait_ready()
    s = d.api.create("base")
    s.write("/workspace/f", "data")
    taken = s.snapshot()["id"]
    s.hibernate()
    d.api.call("DELETE", "/v1/templates/base", want=204, params={"force": "true"})
    d.api.refused("POST", "/v1/sandboxes", 400, "template.unknown", json={"template": "base"})
    copy = d.api.restore(taken)
    assert copy.read("/workspace/f") == b"data"
    copy.delete()
    assert s.read("/workspace/f") == b"data"
    s.delete()
    d.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)
    d.api.call("POST", "/v1/gc")
    assert not (base_only / "base").exists()
    d.stop()
    d.check_clean()


def build(templates: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build `base` there, by the program that has built the tests' templates: so there is nothing to do."""
    program = str(REPO / "build" / "pandastack")
    command = [program, "template", "build", "base", f"--templates={templates}", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def test_a_version_that_is_held_is_never_replaced(make_daemon: MakeDaemon, base_only: Path) -> None:
    """What is made of the same sources is another memory: states are differences from the one that is there."""
    d = make_daemon(template_dir=base_only).wait_ready()
    s = d.api.create("base")
    s.write("/workspace/f", "data")
    memory = (base_only / "base" / "current" / "memory").stat().st_ino
    refused = build(base_only, "--force")
    assert refused.returncode != 0
    assert s.id in refused.stderr
    d.api.call("DELETE", "/v1/templates/base", want=204, params={"force": "true"})
    again = build(base_only)
    assert again.returncode == 0, again.stderr
    assert (base_only / "base" / "current" / "memory").stat().st_ino == memory
    other = d.api.create("base")
    copy = s.fork()
    assert copy.read("/workspace/f") == b"data"
    for each in (s, other, copy):
        each.delete()
    d.stop()
    d.check_clean()


def test_a_template_that_is_built_anew(make_daemon: MakeDaemon, base_only: Path) -> None:
    """Who has the old version goes on with it, a create takes the new one; gc keeps the one, and later removes it."""
    d = make_daemon(template_dir=base_only).wait_ready()
    s = d.api.create("base")
    s.write("/workspace/f", "data")
    old = rebuilt(base_only)
    d.api.call("POST", "/v1/gc")
    taken = s.snapshot()
    assert taken["template_version"] == old
    s.delete()
    d.api.call("POST", "/v1/gc")
    copy = d.api.restore(taken["id"])
    assert copy.read("/workspace/f") == b"data"
    again = copy.snapshot()
    assert again["template_version"] == old
    copy.delete()
    new = d.api.create("base")
    other = new.snapshot()
    assert other["template_version"] != old
    new.delete()
    for each in (taken, again, other):
        assert (base_only / "base" / old).exists() is (each is not other)
        d.api.call("DELETE", f"/v1/snapshots/{each['id']}", want=204)
        d.api.call("POST", "/v1/gc")
    d.stop()
    d.check_clean()
