# SPDX-License-Identifier: Apache-2.0
"""About the server and its templates."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from harness import Api, Daemon
from harness.daemon import REPO, templates


@pytest.mark.parametrize("path", ["/healthz", "/version", "/metrics"])
def test_public_routes_need_no_key(api: Api, path: str) -> None:
    anonymous = Api(api.url, None)
    assert anonymous.request("GET", path).status_code == 200
    assert anonymous.request("HEAD", path).status_code == 200


def test_healthz(api: Api) -> None:
    got = api.call("GET", "/healthz")
    assert got["status"] == "ok"
    assert got["engine"]["name"] == "qemu"
    assert got["engine"]["available"] is True


def test_version(api: Api) -> None:
    got = api.call("GET", "/version")
    assert got["service"] == "pandastack"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", got["semver"])
    assert got["os"] == "linux"
    assert got["arch"] == platform.machine()


def test_engines(api: Api) -> None:
    engines = {e["name"]: e for e in api.call("GET", "/v1/engines")}
    qemu = engines["qemu"]
    assert qemu["selected"] is True
    assert qemu["available"] is True
    assert qemu["isolation"] == "microvm"
    assert qemu["accel"] in ("tcg", "kvm")
    assert re.match(r"\d+\.\d+", qemu["version"])
    if qemu["accel"] == "tcg":
        assert "/dev/kvm" in qemu["why"], "why it is not faster"


def value(text: str, name: str) -> float:
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")))


def metric(api: Api, name: str) -> float:
    return value(api.request("GET", "/metrics").text, name)


def test_metrics(api: Api) -> None:
    response = api.request("GET", "/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for line in response.text.splitlines():
        assert re.fullmatch(
            r'# (HELP|TYPE) pandastack_\w+ .+|pandastack_\w+(\{\w+="\w+"(,\w+="[\w.+]+")*\})? [0-9.e+-]+', line
        ), line
    created, deleted = (metric(api, f"pandastack_sandboxes_{what}_total") for what in ("created", "deleted"))
    running = metric(api, 'pandastack_sandboxes{state="running"}')
    s = api.create()
    assert metric(api, "pandastack_sandboxes_created_total") == created + 1
    assert metric(api, 'pandastack_sandboxes{state="running"}') == running + 1
    s.delete()
    assert metric(api, "pandastack_sandboxes_deleted_total") == deleted + 1
    assert metric(api, 'pandastack_sandboxes{state="running"}') == running


@dataclass
class Histogram:
    """One series of a family of histograms."""

    buckets: dict[float, int]
    sum: float
    count: int


def histogram(api: Api, name: str, label: str) -> Histogram:
    """The one that has this label, whose shape is checked."""
    text = api.request("GET", "/metrics").text
    assert text.count(f"# HELP {name} ") == 1
    assert text.count(f"# TYPE {name} histogram\n") == 1
    rows = re.findall(rf'^{name}_bucket\{{{re.escape(label)},le="([0-9.]+|\+Inf)"\}} (\d+)$', text, re.MULTILINE)
    found = Histogram(
        {float(bound): int(count) for bound, count in rows},
        value(text, f"{name}_sum{{{label}}}"),
        int(value(text, f"{name}_count{{{label}}}")),
    )
    bounds, counts = list(found.buckets), list(found.buckets.values())
    assert len(bounds) == len(rows) > 1
    assert bounds == sorted(bounds)
    assert counts == sorted(counts), "each bucket counts what the smaller ones do"
    assert bounds[-1] == float("inf")
    assert counts[-1] == found.count
    return found


def test_histograms(make_daemon: Callable[..., Daemon]) -> None:
    """Every start and every capture is in the one series that it belongs to."""
    d = make_daemon(args=["--prespawn=0", "--warm=1", "--log-level=debug"]).wait_ready()

    def boot(mode: str) -> Histogram:
        return histogram(d.api, "pandastack_sandbox_boot_seconds", f'boot_mode="{mode}"')

    def capture(what: str, operation: str) -> Histogram:
        return histogram(d.api, f"pandastack_capture_{what}", f'operation="{operation}"')

    modes, operations = ("snapshot", "fork", "warm", "wake"), ("snapshot", "fork", "hibernate")
    assert {boot(mode).count for mode in modes} == {0}
    assert {capture(what, op).count for what in ("pause_seconds", "bytes") for op in operations} == {0}

    d.wait_log("spare machine ready", pool="warm")
    s = d.api.create()
    snapshot = s.snapshot()
    restored = d.api.restore(snapshot["id"])
    forked = d.api.call("POST", f"{s.path}/fork", want=201, json={})
    s.hibernate()
    s.snapshot()
    s.wake()

    starts = {"warm": s.created, "snapshot": restored.created, "fork": forked["sandbox"], "wake": s.info()}
    for mode, info in starts.items():
        got = boot(mode)
        assert got.count == 1, mode
        assert got.sum * 1000 == pytest.approx(info["boot_ms"], abs=1)
        assert all(count == (got.sum <= bound) for bound, count in got.buckets.items())
    for operation in operations:
        pause, copied = capture("pause_seconds", operation), capture("bytes", operation)
        assert pause.count == copied.count == 1, "what is hibernated stands still for no snapshot"
        assert pause.sum > 0
        assert all(count == (copied.sum <= bound) for bound, count in copied.buckets.items())
    for operation, answer in (("snapshot", snapshot), ("fork", forked)):
        assert capture("pause_seconds", operation).sum * 1000 == pytest.approx(answer["pause_ms"])
        assert capture("bytes", operation).sum == answer["delta_bytes"]
    d.stop()
    d.check_clean()


def test_me(api: Api) -> None:
    assert api.call("GET", "/v1/me")["auth_method"] == "api_key"
    tokens = api.call("GET", "/v1/me/tokens")["items"]
    assert tokens[0]["prefix"] == (api.key or "")[:12]
    assert str(api.key) not in str(tokens)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/functions"),
        ("POST", "/v1/schedules"),
        ("GET", "/v1/databases/x/y"),
        ("GET", "/v1/apps"),
        ("GET", "/v1/volumes"),
        ("POST", "/v1/templates/build"),
    ],
)
def test_what_is_not_built_says_so(api: Api, method: str, path: str) -> None:
    api.refused(method, path, 501, "not_supported")


def built_routes() -> list[str]:
    """The rows of the daemon's table that have a handler."""
    source = (REPO / "src" / "http" / "route.c").read_text()
    for macro in ("SESSION", "PROCESS", "SB"):
        value = re.findall(rf"^#define {macro} (.+)$", source, re.MULTILINE)[0]
        source = re.sub(rf"\b{macro}\b", value, source)
    rows = re.findall(r'^\t\{"([A-Z]+)", "([^"]+)", h_', source.replace('" "', ""), re.MULTILINE)
    return [f"{method} {path}" for method, path in rows]


def documented_routes() -> list[str]:
    """Those of the contract."""
    text = (REPO / "api" / "openapi.yaml").read_text()
    routes: list[str] = []
    path = ""
    for line in text[text.index("\npaths:\n") : text.index("\ncomponents:\n")].splitlines():
        if found := re.fullmatch(r"  (/.*):", line):
            path = found[1]
        elif found := re.fullmatch(r"    (get|post|put|patch|delete):", line):
            routes.append(f"{found[1].upper()} {path}")
    return routes


def test_the_contract_has_the_routes_that_are_built() -> None:
    built = built_routes()
    assert len(built) > 40
    assert sorted(documented_routes()) == sorted(built)


def test_unknown_paths_and_methods(api: Api) -> None:
    api.refused("GET", "/v1/nonsense", 404, "not_found")
    api.refused("GET", "/", 404, "not_found")
    api.refused("PATCH", "/v1/sandboxes", 405, "request.method")
    response = api.request("PATCH", "/v1/sandboxes")
    assert {m.strip() for m in response.headers["Allow"].split(",")} >= {"GET", "POST"}


def test_request_id(api: Api) -> None:
    ids = {api.request("GET", "/healthz").headers["X-Request-Id"] for _ in range(3)}
    assert len(ids) == 3
    assert api.request("GET", "/healthz", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == "mine-1"
    for bad in ("x" * 65, "a b", "<script>", '"'):
        assert api.request("GET", "/healthz", headers={"X-Request-Id": bad}).headers["X-Request-Id"] != bad


def test_every_answer_of_its_own_has_the_version(api: Api) -> None:
    version = api.request("GET", "/version").json()["semver"]
    for path in ("/healthz", "/metrics", "/v1/me", "/v1/nonsense", "/v1/sandboxes/x", "/v1/apps"):
        assert api.request("GET", path).headers["Pandastack-Version"] == version
    assert requests.get(f"{api.url}/v1/me", timeout=30).headers["Pandastack-Version"] == version, "without a key"


def test_keep_alive(api: Api) -> None:
    with requests.Session() as http:
        http.trust_env = False
        for _ in range(3):
            http.get(f"{api.url}/healthz", timeout=30).raise_for_status()
        adapter = http.get_adapter(api.url)
        pools = adapter.poolmanager.pools  # type: ignore[attr-defined]
        assert [pools[key].num_connections for key in list(pools.keys())] == [1]


# ---- templates ----


def test_list_and_get(api: Api) -> None:
    listed = {t["name"]: t for t in api.call("GET", "/v1/templates")}
    assert "code-interpreter" in listed
    got = api.call("GET", "/v1/templates/code-interpreter")
    assert got == listed["code-interpreter"]
    assert got["engine"] == "qemu"
    assert got["kernel"] == "python"
    assert got["size_bytes"] > 0
    assert got["cpu"] >= 1
    assert got["memory_mb"] >= 128
    assert got["version"]
    assert got["built_at"].endswith("Z")


def test_get_of_nothing(api: Api) -> None:
    for name in ("nothing", "..%2fbase", "A", "%2fetc", "é"):
        api.refused("GET", f"/v1/templates/{name}", 404, "template.not_found")
    api.refused("DELETE", "/v1/templates/nothing", 404, "template.not_found")


def linked_templates(root: Path, name: str = "code-interpreter") -> Path:
    """A folder of templates that holds the real one's files, and may be changed."""
    real = (templates() / name / "current").resolve()
    version = root / name / real.name
    version.mkdir(parents=True)
    for file in real.iterdir():
        if file.name == "manifest.json":
            shutil.copy(file, version / file.name)
        else:
            (version / file.name).symlink_to(file)
    (root / name / "current").symlink_to(real.name)
    return root


def test_delete(tmp_path: Path, make_daemon: Callable[..., Daemon]) -> None:
    """Not while a sandbox stands on it, unless by force: the sandbox goes on."""
    root = linked_templates(tmp_path / "templates")
    d = make_daemon(template_dir=root).wait_ready()
    s = d.api.create()
    answer = d.api.refused("DELETE", "/v1/templates/code-interpreter", 409, "conflict")
    assert s.id in answer["error"]
    kept = d.api.call("DELETE", "/v1/templates/code-interpreter", params={"force": "true"})["kept_bytes"]
    assert kept > 0
    assert not (root / "code-interpreter" / "current").exists()
    assert d.api.call("GET", "/v1/templates") == []
    answer = d.api.refused("POST", "/v1/sandboxes", 400, "template.unknown", json={"template": "code-interpreter"})
    assert "pandastack template build" in answer["error"]
    assert s.output("echo still here") == "still here\n"
    s.delete()
    d.api.call("POST", "/v1/gc")
    assert not (root / "code-interpreter").exists()
    d.stop()
    d.check_clean()


def test_a_template_of_another_format(tmp_path: Path, make_daemon: Callable[..., Daemon]) -> None:
    root = linked_templates(tmp_path / "templates")
    manifest = root / "code-interpreter" / "current" / "manifest.json"
    text = manifest.read_text()
    d = make_daemon(template_dir=root).wait_ready()

    def refused() -> str:
        answer = d.api.refused("POST", "/v1/sandboxes", 503, "template.stale", json={"template": "code-interpreter"})
        assert "pandastack template build code-interpreter" in answer["error"]
        return str(answer["error"])

    manifest.write_text(re.sub(r'"format":\s*\d+', '"format": 999', text))
    assert "another version" in refused()
    manifest.write_text(re.sub(r'"engine_version":\s*"[^"]*"', '"engine_version": "6.0.0"', text))
    assert "6.0.0" in refused()
    manifest.write_text(text[: len(text) // 2])
    refused()
    manifest.write_text(re.sub(r'"memory_bytes":\s*\d+', '"memory_bytes": -1', text))
    assert "damaged" in refused()
    manifest.write_text(text)
    d.api.create().delete()
    assert d.folders() == []
    d.stop()
    d.check_clean()


def test_a_template_whose_files_are_damaged(tmp_path: Path, make_daemon: Callable[..., Daemon]) -> None:
    """A create fails with a reason, and leaves nothing."""
    root = linked_templates(tmp_path / "templates")
    devices = root / "code-interpreter" / "current" / "devices"
    real = devices.resolve().read_bytes()
    devices.unlink()
    devices.write_bytes(real[: len(real) // 2])
    d = make_daemon(template_dir=root).wait_ready()
    answer = d.api.refused("POST", "/v1/sandboxes", 500, "engine.failed", json={"template": "code-interpreter"})
    assert "did not start" in answer["error"]
    assert d.folders() == []
    assert not d.vms()
    assert d.api.list() == []
    devices.unlink()
    d.api.refused("POST", "/v1/sandboxes", 500, "internal", json={"template": "code-interpreter"})
    assert d.folders() == []
    d.stop()
    d.check_clean()
