# SPDX-License-Identifier: Apache-2.0
"""All that is sent to Firecracker's API, as strace sees it: the requests that we know, in the form that it publishes.

Its OpenAPI files are not ours to keep. PANDASTACK_FIRECRACKER_API names a folder that has them as 1.15.yaml and
1.16.yaml: src/firecracker/swagger/firecracker.yaml of a release each.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft4Validator

from harness import Daemon
from harness.daemon import REPO, binary, templates, wait_for_exit

Json = dict[str, Any]
VERSIONS = ("1.15", "1.16")
STRACE = ["strace", "--seccomp-bpf", "-f", "-qq", "-e", "signal=none", "-e", "trace=sendto", "-s", "65536"]
DRIVE = {"drive_id": str, "path_on_host": str, "is_root_device": bool, "is_read_only": bool}

# Each request, the members of its body, and their types.
SENT: dict[str, dict[str, type] | None] = {
    "PUT /machine-config": {"vcpu_count": int, "mem_size_mib": int},
    "PUT /boot-source": {"kernel_image_path": str, "initrd_path": str, "boot_args": str},
    "PUT /drives/base": DRIVE,
    "PUT /drives/scratch": DRIVE,
    "PUT /vsock": {"guest_cid": int, "uds_path": str},
    "PUT /network-interfaces/eth0": {"iface_id": str, "guest_mac": str, "host_dev_name": str},
    "PUT /entropy": {},
    "PUT /actions": {"action_type": str},
    "PUT /snapshot/load": {"snapshot_path": str, "mem_backend": dict, "resume_vm": bool},
    "PATCH /vm": {"state": str},
    "PUT /snapshot/create": {"snapshot_type": str, "snapshot_path": str, "mem_file_path": str},
    "GET /": None,
}
STANDING_STILL = {"GET /", "PATCH /vm", "PUT /snapshot/create"}
LATER = {"PUT /snapshot/load"}
# Not where the host has no TAP.
CARD = {"PUT /network-interfaces/eth0"}


@dataclass(frozen=True)
class Request:
    """One of them."""

    method: str
    path: str
    body: Json | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def requests_in(trace: str) -> list[Request]:
    """Those that a trace holds."""
    found = []
    for literal in re.findall(r'sendto\(\d+, ("(?:[^"\\]|\\.)*")', trace):
        data: bytes = ast.literal_eval(f"b{literal}")
        head, _, body = data.partition(b"\r\n\r\n")
        if start := re.match(rb"(\w+) (\S+) HTTP/1\.1\r\nHost: localhost\r\n", head):
            assert int(re.search(rb"Content-Length: (\d+)", head)[1]) == len(body)  # type: ignore[index]
            found.append(Request(start[1].decode(), start[2].decode(), json.loads(body) if body else None))
    return found


def bake(tmp: Path, trace: Path) -> None:
    """A template, whose root file system is there."""
    root = tmp / "templates" / "platform" / "root"
    root.parent.mkdir(parents=True)
    source = templates() / "platform" / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", str(source), str(root)], check=True)
    command = [str(binary()), "template", "build", "./tests/engines/template", "--engine", "firecracker"]
    where = ["--templates", str(tmp / "templates")]
    subprocess.run([*STRACE, "-o", str(trace), *command, *where], cwd=REPO, check=True)


def use(tmp: Path, trace: Path) -> None:
    """The lives of some machines."""
    d = Daemon(tmp / "data", wrapper=[*STRACE, "-D", "-o", str(trace)])
    try:
        tracer = d.wait_ready().status_kib("TracerPid")
        s = d.api.create("platform")
        s.pause()
        s.resume()
        child = s.fork()
        child.hibernate()
        child.wake()
        child.delete()
        s.delete()
        d.stop()
        d.check_clean()
        assert wait_for_exit(tracer, 30)
    finally:
        d.dispose()


@pytest.fixture(scope="module", params=[bake, use])
def sent(
    program: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[set[str], list[Request]]:
    """What must be sent, and what is."""
    if os.environ.get("PANDASTACK_TEST_ENGINE") != "firecracker" or not shutil.which("firecracker"):
        pytest.skip("needs Firecracker, and KVM")
    if not shutil.which("strace"):
        pytest.skip("needs strace: sudo apt-get install strace")
    tmp = tmp_path_factory.mktemp("requests")
    trace = tmp / "trace"
    request.param(tmp, trace)
    want = SENT.keys() - LATER if request.param is bake else LATER | STANDING_STILL
    return want, requests_in(trace.read_text())


def test_they_are_those_that_we_know(sent: tuple[set[str], list[Request]]) -> None:
    want, found = sent
    assert {str(r) for r in found} in (want, want - CARD)
    for r in found:
        assert (r.body if r.body is None else {k: type(v) for k, v in r.body.items()}) == SENT[str(r)], r


def document(version: str) -> Json:
    """Firecracker's file, with objects that have no other members than those it names."""
    folder = os.environ.get("PANDASTACK_FIRECRACKER_API")
    if not folder:
        pytest.skip("PANDASTACK_FIRECRACKER_API names no folder with Firecracker's OpenAPI files")
    loaded: Json = yaml.safe_load((Path(folder) / f"{version}.yaml").read_text())
    for definition in loaded["definitions"].values():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    return loaded


def operation(published: Json, request: Request) -> Json | None:
    """What it says of a request, if it knows it."""
    for path, methods in published["paths"].items():
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)), request.path):
            found: Json | None = methods.get(request.method.lower())
            return found
    return None


@pytest.mark.parametrize("version", VERSIONS)
def test_they_are_what_is_published(version: str, sent: tuple[set[str], list[Request]]) -> None:
    published = document(version)
    assert str(published["info"]["version"]).startswith(f"{version}.")
    for request in sent[1]:
        described = operation(published, request)
        assert described, f"{request} is not in {version}"
        schemas = [p["schema"] for p in described.get("parameters", []) if p["in"] == "body"]
        assert len(schemas) == (request.body is not None), request
        for schema in schemas:
            whole = {**schema, "definitions": published["definitions"]}
            errors = [e.message for e in Draft4Validator(whole).iter_errors(request.body)]
            assert not errors, f"{request} with {request.body}: {errors}"
