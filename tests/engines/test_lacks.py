# SPDX-License-Identifier: Apache-2.0
"""What an engine lacks is declared, and answered with 501 and that word; other hosts' templates are not taken."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness import Daemon
from harness.daemon import REPO, templates

MakeDaemon = Callable[..., Daemon]


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def test_no_network(program: Path, tmp_path: Path, make_daemon: MakeDaemon) -> None:
    """As where a host permits no network card (fake.c declares it)."""
    fake = program.with_name("pandastack-fake")
    faults = tmp_path / "faults"
    faults.mkdir()
    (faults / "lacks").write_text("network")
    env = {"PANDASTACK_ENGINE_FAULTS": str(faults)}
    own = tmp_path / "templates"
    shutil.copytree(templates() / "platform" / "root", own / "platform" / "root", copy_function=link_or_copy)
    engine = [f"--engine={name}"] if (name := os.environ.get("PANDASTACK_TEST_ENGINE")) else []
    bake = [str(fake), "template", "build", "./tests/engines/template", f"--templates={own}", *engine]
    subprocess.run(bake, cwd=REPO, env={**os.environ, **env}, check=True, stdin=subprocess.DEVNULL, timeout=300)

    d = make_daemon(program=fake, template_dir=own, env=env).wait_ready()
    assert "network" in d.api.call("GET", "/healthz")["engine"]["lacks"]
    asked = {"template": "platform", "network": {"egress": "internet"}}
    answer = d.api.refused("POST", "/v1/sandboxes", 501, "not_supported", json=asked)
    assert "network is not supported by the engine" in answer["error"]
    s = d.api.create("platform")
    assert s.created["network"] == {"egress": "none"}
    answer = d.api.refused("PATCH", f"{s.path}/network", 501, "not_supported", json={"egress": "internet"})
    assert "network is not supported by the engine" in answer["error"]
    assert s.output("echo on") == "on\n"
    snapshot = s.snapshot()
    again = d.api.restore(snapshot["id"])
    assert again.info()["network"] == {"egress": "none"}
    again.delete()
    s.delete()
    d.api.call("DELETE", f"/v1/snapshots/{snapshot['id']}", want=204)
    d.stop()
    d.check_clean()

    # Machines with a card where there are none, and the other way round.
    for template_dir, lacking, says in (
        (templates(), env, "with a network card, and this host permits machines none"),
        (own, {}, "baked where machines could have no network, and here they can"),
    ):
        d = make_daemon(program=fake, template_dir=template_dir, env=lacking).wait_ready()
        answer = d.api.refused("POST", "/v1/sandboxes", 503, "template.stale", json={"template": "platform"})
        assert says in answer["error"]
        d.stop()
        d.check_clean()
