# SPDX-License-Identifier: Apache-2.0
"""F6: the host resolves no path of a guest. Symlinks, "..", races: only ever the guest's own files."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import ApiError, Daemon, Sandbox


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the host, readable for the daemon, whose content is nowhere else."""
    path = tmp_path_factory.mktemp("host") / "secret"
    path.write_text(f"host-secret-{uuid.uuid4()}")
    return path


def reads(box: Sandbox, path: str) -> bytes:
    """What a read gives, or what the refusal says."""
    try:
        return box.read(path)
    except ApiError as e:
        assert e.status in (400, 403, 404)
        return e.response.content


def test_links_as_last_and_middle_component(box: Sandbox, secret: Path) -> None:
    text = secret.read_bytes()
    box.output(f"ln -sfn {secret} /tmp/last; ln -sfn {secret.parent} /tmp/middle; ln -sfn / /tmp/root")
    for path in ("/tmp/last", "/tmp/middle/secret", f"/tmp/root{secret}", str(secret), f"/../..{secret}"):
        assert text not in reads(box, path), path
    box.output("ln -sfn /etc/passwd /tmp/passwd")
    assert box.read("/tmp/passwd").decode() == box.output("cat /etc/passwd")


def test_writing_through_links_changes_nothing_here(box: Sandbox, secret: Path) -> None:
    before = secret.read_bytes()
    box.output(f"ln -sfn {secret} /tmp/w; ln -sfn {secret.parent} /tmp/wd")
    for path in ("/tmp/w", "/tmp/wd/secret", "/tmp/wd/new", str(secret), f"/../../..{secret}"):
        try:
            box.write(path, "overwritten")
        except ApiError as e:
            assert e.status in (400, 403, 404)
    for path in ("/tmp/w", "/tmp/wd"):
        box.api.request("DELETE", f"{box.path}/fs", params={"path": path})
    assert secret.read_bytes() == before
    assert [p.name for p in secret.parent.iterdir()] == ["secret"]


def test_a_raced_link(box: Sandbox, secret: Path) -> None:
    """The guest swaps a file and a link under the daemon's hands."""
    text = secret.read_bytes()
    swap = f"ln -sfn {secret} /tmp/race; ln -sfn /etc/hostname /tmp/race"
    with box.stream(f"echo up; while :; do {swap}; done") as events:
        next(events)
        for _ in range(50):
            assert text not in reads(box, "/tmp/race")


def test_the_guests_links_to_the_daemons_folder(box: Sandbox, daemon: Daemon) -> None:
    box.output(f"ln -sfn {daemon.data_dir} /tmp/data")
    assert daemon.key.encode() not in reads(box, "/tmp/data/config.json")
    with pytest.raises(ApiError):
        box.entries("/tmp/data")


def test_names_in_the_url(box: Sandbox, daemon: Daemon) -> None:
    for path in (
        "/v1/sandboxes/../../config.json",
        "/v1/sandboxes/%2e%2e%2f%2e%2e%2fconfig.json",
        f"/v1/sandboxes/{box.id}%2f..%2f..%2fconfig.json",
        "/v1/templates/..%2f..%2fconfig.json",
        "/v1/templates/%2e%2e",
    ):
        for method in ("GET", "DELETE"):
            response = box.api.request(method, path)
            assert response.status_code in (400, 404, 405), (method, path)
            assert daemon.key not in response.text
    assert (daemon.data_dir / "config.json").exists()


def test_a_delete_follows_no_link(daemon: Daemon, sandbox: Callable[..., Sandbox], secret: Path) -> None:
    """Not even one in the sandbox's own folder, where a QEMU that its guest has taken over could make one."""
    s = sandbox()
    (daemon.data_dir / "sandboxes" / s.id / "out").symlink_to(secret.parent)
    s.delete()
    assert secret.exists()
    assert s.id not in daemon.folders()
