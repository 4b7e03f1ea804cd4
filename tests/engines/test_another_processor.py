# SPDX-License-Identifier: Apache-2.0
"""What was made with KVM on another processor: refused with what differs, before a machine starts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Daemon
from harness.daemon import templates
from harness.snapshot_file import forge

MakeDaemon = Callable[..., Daemon]
Json = dict[str, Any]
IMPORT = "/v1/snapshots/import"
KIND = {"vendor": "AbacusInside", "family": 1, "model": 2, "stepping": 3, "name": "Abacus 9000"}
KIND_SAID = "on Abacus 9000 (AbacusInside, family 1, model 2, stepping 3), and this is "
FEATURES_SAID = "and this one lacks features that it had there (CPUID kvm "


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """That of a template in a folder of its own."""
    version = (templates() / "platform" / "current").resolve()
    target = tmp_path / "templates" / "platform" / version.name
    target.parent.mkdir(parents=True)
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", str(version), str(target)], check=True)
    (target.parent / "current").symlink_to(version.name)
    return target / "manifest.json"


def other_kind(cpu: Json) -> Json:
    return {**cpu, **KIND}


def more_features(cpu: Json) -> Json:
    return {**cpu, "features": {**cpu["features"], "kvm": 0xFFFFFFFF}}


def snapshot_of(made: Json) -> Json:
    """The manifest of an exported one whose template is nowhere."""
    same = ("engine", "engine_version", "accel", "cpu_model", "cpus", "memory_bytes", "tsc_khz", "cpu", "version")
    files = {"devices": 4096, "scratch.ext4": made["disk_bytes"], "memory": made["memory_bytes"]}
    return {
        **{key: made[key] for key in same},
        "format": 2,
        "sandbox_id": "0a",
        "template": "nothing",
        "created_ms": 0,
        "pause_us": 0,
        "env": {},
        "network": {},
        "files": files,
    }


def test_refused(make_daemon: MakeDaemon, manifest: Path) -> None:
    d = make_daemon(template_dir=manifest.parents[2]).wait_ready()
    if d.api.call("GET", "/healthz")["engine"]["accel"] != "kvm":
        pytest.skip("in software a processor is the same everywhere")
    text = manifest.read_text()
    made = json.loads(text)
    s = d.api.create("platform")
    kernel = s.session()
    kernel.ok("x = 7")
    taken = s.snapshot()["id"]
    s.hibernate()

    for change, said in ((other_kind, KIND_SAID), (more_features, FEATURES_SAID)):
        manifest.write_text(json.dumps({**made, "cpu": change(made["cpu"])}))
        for path, body in (
            ("/v1/sandboxes", {"template": "platform"}),
            ("/v1/sandboxes", {"from_snapshot": taken}),
            (f"{s.path}/wake", None),
            (f"{s.path}/fork", {}),
            (f"{s.path}/exec", {"cmd": "true"}),
        ):
            error = d.api.refused("POST", path, 503, "template.stale", json=body)["error"]
            assert "template platform was baked on " in error
            assert said in error
            assert "`pandastack template build platform` here" in error
            assert ("what was captured goes on only where it was made" in error) == (body != {"template": "platform"})
        assert d.vms() == set()
        assert d.folders() == [s.id]

    manifest.write_text(text)
    for change, said in ((other_kind, KIND_SAID), (more_features, FEATURES_SAID)):
        file = forge(snapshot_of({**made, "cpu": change(made["cpu"])}))
        assert said in d.api.refused("POST", IMPORT, 409, "conflict", data=file)["error"]
    file = forge(snapshot_of(made))
    assert "build nothing" in d.api.refused("POST", IMPORT, 503, "template.stale", data=file)["error"]
    file = forge(snapshot_of({**made, "cpu": None}))
    assert "names no processor" in d.api.refused("POST", IMPORT, 400, "request.invalid", data=file)["error"]

    assert kernel.text("x") == "7"
    s.delete()
    d.api.call("DELETE", f"/v1/snapshots/{taken}", want=204)
    d.stop()
    d.check_clean()
