# SPDX-License-Identifier: Apache-2.0
"""The version of a template that captures and sandboxes stand on stays, whatever becomes of the template."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import Daemon
from harness.daemon import REPO, binary, has_fault_points, templates

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
    """It has no name any more; the snapshot has what it needs, and it is said what room that takes."""
    d = make_daemon(template_dir=base_only).wait_ready()
    version = (base_only / "base" / "current").readlink()
    s = d.api.create("base")
    s.write("/workspace/f", "data")
    taken = s.snapshot()["id"]
    s.hibernate()
    kept = d.api.call("DELETE", "/v1/templates/base", want=200, params={"force": "true"})["kept_bytes"]
    assert (base_only / "base" / version / "memory").stat().st_blocks * 512 < kept
    d.api.refused("POST", "/v1/sandboxes", 400, "template.unknown", json={"template": "base"})
    copy = d.api.restore(taken)
    assert copy.read("/workspace/f") == b"data"
    copy.delete()
    assert s.read("/workspace/f") == b"data"
    s.delete()
    d.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)
    freed = d.api.call("POST", "/v1/gc")["freed_bytes"]
    assert kept - freed < 1 << 16  # which folders take
    assert not (base_only / "base").exists()
    d.stop()
    d.check_clean()


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build `base` there, by the program that has built the tests' templates: so the root file system stays."""
    program = str(REPO / "build" / "pandastack")
    command = [program, "template", "build", "base", f"--templates={folder}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def test_a_version_that_is_held_is_taken_again(make_daemon: MakeDaemon, base_only: Path) -> None:
    """It is as good as what would be made of the same sources."""
    d = make_daemon(template_dir=base_only).wait_ready()
    s = d.api.create("base")
    s.write("/workspace/f", "data")
    version = (base_only / "base" / "current").resolve()
    command = [str(binary()), "template", "rm", "base"]
    env = {**os.environ, "PANDASTACK_API": d.url, "PANDASTACK_API_KEY": d.key}
    refused = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert refused.returncode == 5
    assert s.id in refused.stderr
    forced = subprocess.run([*command, "--force"], capture_output=True, text=True, check=True, env=env)
    assert "MB are kept" in forced.stdout
    again = build(base_only)
    assert again.returncode == 0, again.stderr
    assert (base_only / "base" / "current").resolve() == version
    other = d.api.create("base")
    copy = s.fork()
    assert copy.read("/workspace/f") == b"data"
    for each in (s, other, copy):
        each.delete()
    d.stop()
    d.check_clean()


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def test_what_is_built_of_the_same_is_another_version(make_daemon: MakeDaemon, base_only: Path) -> None:
    """No boot is like another: what stands on the memory of the one must never run on that of the other."""
    d = make_daemon(template_dir=base_only).wait_ready()
    s = d.api.create("base")
    taken = s.snapshot()["id"]
    s.delete()
    d.stop()
    base = base_only / "base"
    old = (base / "current").resolve()
    for folder in (old, base / "refs"):
        shutil.rmtree(folder)
    (base / "current").unlink()
    shutil.copytree(templates() / "base" / "root", base / "root", copy_function=link_or_copy)
    made = build(base_only)
    assert made.returncode == 0, made.stderr
    d = make_daemon(d.data_dir, template_dir=base_only).wait_ready()
    answer = d.api.refused("POST", "/v1/sandboxes", 503, "template.stale", json={"from_snapshot": taken})
    assert old.name in answer["error"]
    assert d.api.create("base").output("echo new") == "new\n"
    d.stop()
    d.check_clean()


def test_a_create_during_which_the_template_is_built_anew(
    make_daemon: MakeDaemon, base_only: Path, tmp_path: Path
) -> None:
    """The version that it has found is removed before it holds it: it takes the new one."""
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    held = tmp_path / "held"
    os.mkfifo(held)
    d = make_daemon(
        template_dir=base_only, args=["--prespawn=0"], env={"PANDASTACK_FAULT": f"boot.folder={held}"}
    ).wait_ready()
    with ThreadPoolExecutor(1) as pool:
        create = pool.submit(d.api.create, "base")
        with held.open("wb"):
            held.unlink()
            old = rebuilt(base_only)
            d.api.call("POST", "/v1/gc")
            assert not (base_only / "base" / old).exists()
        s = create.result()
    assert (base_only / "base" / "refs" / (base_only / "base" / "current").readlink() / s.id).is_symlink()
    assert s.output("echo new") == "new\n"
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
