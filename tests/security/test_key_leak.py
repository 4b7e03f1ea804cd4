# SPDX-License-Identifier: Apache-2.0
"""A key is shown to its owner once, in a file for the owner alone: never in a log, an answer, or a machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness import Api, Daemon

WRONG = "pds_0123456789abcdef0123456789abcdef"


def test_no_log_holds_a_key(make_daemon: Callable[..., Daemon]) -> None:
    d = make_daemon(args=["--log-level=debug"]).wait_ready()
    anonymous = Api(d.url, None)
    s = d.api.create(metadata={"k": "v"})
    for header in (f"Bearer {WRONG}", f"Basic {WRONG}", WRONG, f"Bearer {d.key}x"):
        anonymous.request("GET", "/v1/sandboxes", headers={"Authorization": header})
    for query in (WRONG, d.key):
        anonymous.request("GET", "/v1/sandboxes", params={"access_token": query})
        anonymous.request("GET", f"/v1/nonsense/{query}", params={"access_token": query})
    s.output("true")
    paths = ("/v1/sandboxes", s.path, "/v1/me", "/v1/me/tokens", "/metrics")
    answers = [d.api.request("GET", path).text for path in paths]
    s.delete()
    d.stop()
    d.check_clean()
    secrets = d.key.removeprefix("pds_"), WRONG.removeprefix("pds_")
    for text in (*d.lines, *answers):
        # The first eight digits are shown on purpose: they name a key in a list.
        assert all(secret not in text and secret[8:24] not in text for secret in secrets), text


def test_only_the_owners_file_holds_the_key(daemon: Daemon) -> None:
    s = daemon.api.create()
    try:
        key = daemon.key.encode()
        for path in daemon.data_dir.rglob("*"):
            if path.is_file() and path.name not in ("config.json", "scratch.ext4"):
                assert key not in path.read_bytes(), path
        for pid in (daemon.process.pid, daemon.vm_of(s.id)):
            for what in ("cmdline", "environ"):
                assert key not in Path(f"/proc/{pid}/{what}").read_bytes(), (pid, what)
        folders = "/etc /root /run /workspace /tmp"
        assert s.output(f"env | grep {daemon.key}; grep -rsl {daemon.key} {folders} || true") == ""
    finally:
        s.delete()


def test_what_the_host_environment_holds_stays_there(make_daemon: Callable[..., Daemon]) -> None:
    d = make_daemon(env={"SECRET_OF_THE_HOST": "s3cr3t-value"}).wait_ready()
    s = d.api.create()
    assert "s3cr3t-value" not in s.output("env")
    assert "s3cr3t-value" not in s.session().text("import os; dict(os.environ)")
    d.stop()
    d.check_clean()
