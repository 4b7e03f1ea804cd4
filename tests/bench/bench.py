# SPDX-License-Identifier: Apache-2.0
"""Measure the whole product as a client sees it, and print a table beside the targets.

A benchmark, never a test: it fails only when something does not work, not when it is slow. Starts a daemon of its own
on a data folder of its own, and ends it. Uses the standard library only, so that a fresh machine can run it.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import network
from bench.network import Guest

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "code-interpreter"
MIB = 1 << 20
TRANSFER = 256 * MIB
IDLE_SANDBOXES = 20
PARTS = ["creation", "pools", "states", "warm", "transfer", "network", "packages", "idle"]
PACKAGE = "polars"  # some 50 MB in two wheels, and not in the template
KERNEL_SCRIPT = ROOT / "runtime" / "bench_kernel.py"
GUEST_RUNTIME = "/usr/lib/pandastack/runtime"
GUEST_PYTHON = "/opt/venv/bin/python"
SIXTEEN_MB = "import os; x = [os.urandom(1 << 20) for _ in range(16)]"
FIGURE = "plt.figure(); plt.plot(range(100), [x * x for x in range(100)]); plt.title('t'); plt.show()"


class BenchError(Exception):
    """What went wrong, for people."""


def templates_dir() -> Path:
    """Where the templates are: as said, or where `pandastack template build` puts them."""
    given = os.environ.get("PANDASTACK_TEMPLATES")
    if given:
        return Path(given)
    if os.geteuid() == 0:
        return Path("/var/lib/pandastack/templates")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share", "pandastack", "templates")


class Daemon:
    """`pandastack serve`, and calls to it on one connection that is kept."""

    def __init__(self, program: Path, data: str, templates: Path, *options: str, path: str | None = None) -> None:
        self.data = Path(data).resolve()
        self.process = subprocess.Popen(
            [
                program,
                "serve",
                "--listen=127.0.0.1:0",
                "--log-format=json",
                f"--data-dir={data}",
                f"--templates={templates}",
                *options,
            ],
            env={**os.environ, "PATH": path} if path else None,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.log: list[str] = []
        ready = self._wait_until_ready()
        self.host = str(ready["url"]).removeprefix("http://")
        key = json.loads(Path(str(ready["key"])).read_text())["api_key"]
        self.headers = {"Authorization": f"Bearer {key}"}
        self.connection = http.client.HTTPConnection(self.host, timeout=300)
        # Its log is read to the end, so that it never waits for us.
        threading.Thread(target=self.log.extend, args=[self.process.stderr], daemon=True).start()

    def _wait_until_ready(self) -> dict[str, Any]:
        assert self.process.stderr
        for line in self.process.stderr:
            self.log.append(line)
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("msg") == "ready":
                return dict(entry)
        raise BenchError("the daemon did not start:\n" + "".join(self.log[-20:]))

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON, or None."""
        data = None if body is None else json.dumps(body).encode()
        self.connection.request(method, path, data, self.headers)
        response = self.connection.getresponse()
        text = response.read()
        answer = json.loads(text) if text else None
        if response.status >= 300:
            raise BenchError(f"{method} {path}: {response.status} {answer}")
        return answer

    def create(self, **body: Any) -> str:
        """A new sandbox's path."""
        return f"/v1/sandboxes/{self.call('POST', '/v1/sandboxes', {'template': TEMPLATE, **body})['id']}"

    def session(self, sandbox: str) -> str:
        """A new session's path."""
        return f"{sandbox}/repl/sessions/{self.call('POST', f'{sandbox}/repl/sessions', {})['id']}"

    def run(self, session: str, code: str) -> dict[str, Any]:
        """A cell, which must not fail."""
        answer = self.call("POST", f"{session}/run", {"code": code})
        if answer.get("error"):
            raise BenchError(answer["error"])
        return dict(answer)

    def fork(self, sandbox: str) -> dict[str, Any]:
        """The answer to a fork; its child's path is in `child`."""
        answer = self.call("POST", f"{sandbox}/fork", {})
        return {**answer, "child": f"/v1/sandboxes/{answer['children'][0]}"}

    def wait_for_spares(self, pool: str, count: int) -> None:
        """Wait until the pool is full."""
        for _ in range(1000):
            self.connection.request("GET", "/metrics", headers=self.headers)
            text = self.connection.getresponse().read().decode()
            if f'pandastack_pool_spares{{pool="{pool}"}} {count}\n' in text:
                return
            time.sleep(0.05)
        raise BenchError(f"the pool {pool} does not fill:\n{text}")

    def vm_of(self, sandbox: str) -> int:
        """The process of a sandbox's machine."""
        path = self.data / "sandboxes" / sandbox.rsplit("/", 1)[-1] / "vm.json"
        return int(json.loads(path.read_text())["pid"])

    def vms(self) -> list[int]:
        """The processes of its machines: those that work in its data folder."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and str((entry / "cwd").readlink()).startswith(f"{self.data}/sandboxes/"):
                    found.append(int(entry.name))
        return found

    def stop(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60) != 0:
            raise BenchError("the daemon did not end well:\n" + "".join(self.log[-20:]))


@dataclass
class Row:
    """One line of the table."""

    what: str
    unit: str
    values: list[float] = field(default_factory=list)
    target: float | None = None
    at_least: bool = False  # the target is a lower bound

    def figures(self) -> tuple[float, float, float]:
        """Median, p95 and p99; for a rate the slow end is the low one."""
        ordered = sorted(self.values, reverse=self.at_least)

        def rank(q: float) -> float:
            return ordered[min(len(ordered) - 1, int(q * len(ordered)))]

        return statistics.median(ordered), rank(0.95), rank(0.99)

    def verdict(self) -> str:
        """Whether the median meets the target."""
        if self.target is None:
            return ""
        median = statistics.median(self.values)
        return "met" if (median >= self.target if self.at_least else median <= self.target) else "MISSED"


class Bench:
    """All that is measured, in order."""

    def __init__(self, program: Path, templates: Path, daemon: Daemon, scale: float, idle_seconds: int) -> None:
        self.program = program
        self.templates = templates
        self.daemon = daemon
        self.scale = scale
        self.idle_seconds = idle_seconds
        self.rows: list[Row] = []

    def times(self, n: int) -> range:
        """How often: fewer in a quick run."""
        return range(max(3, int(n * self.scale)))

    def row(self, what: str, unit: str, target: float | None = None, *, at_least: bool = False) -> Row:
        """A new line."""
        self.rows.append(Row(what, unit, [], target, at_least))
        return self.rows[-1]

    @staticmethod
    def milliseconds(call: Callable[[], object]) -> float:
        """How long it takes."""
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1000

    @contextlib.contextmanager
    def sandbox(self) -> Iterator[str]:
        """A sandbox for the block."""
        path = self.daemon.create()
        try:
            yield path
        finally:
            self.daemon.call("DELETE", path)

    def creation(self) -> None:
        """From nothing to the first cell."""
        d = self.daemon
        create = self.row("create to ready, process started at the request", "ms", 300)
        session = self.row("session create, the first in its sandbox", "ms")
        first = self.row("first cell after that, 1+1", "ms")
        delete = self.row("delete", "ms")
        for _ in self.times(30):
            path = ""

            def make() -> None:
                nonlocal path
                path = d.create()

            create.values.append(self.milliseconds(make))
            kernel = ""

            def open_session(sandbox: str = path) -> None:
                nonlocal kernel
                kernel = d.session(sandbox)

            session.values.append(self.milliseconds(open_session))
            first.values.append(self.milliseconds(lambda k=kernel: d.run(k, "1+1")))  # type: ignore[misc]
            delete.values.append(self.milliseconds(lambda p=path: d.call("DELETE", p)))  # type: ignore[misc]

    def warm(self) -> None:
        """Round trips in one warm sandbox."""
        d = self.daemon
        with self.sandbox() as sandbox:
            kernel = d.session(sandbox)
            d.run(kernel, "import matplotlib.pyplot as plt")
            cells = (
                ("1+1 in a warm kernel", "1+1", 300, 12.0, 20),
                ("a result of 1 MB", "'x' * 1_000_000", 40, 60.0, 3),
                ("a matplotlib figure (PNG)", FIGURE, 20, None, 3),
            )
            for what, code, n, target, warmup in cells:
                row = self.row(what, "ms", target)
                for _ in range(warmup):
                    d.run(kernel, code)
                row.values += [self.milliseconds(lambda c=code: d.run(kernel, c)) for _ in self.times(n)]  # type: ignore[misc]
            row = self.row("`true` by exec", "ms")
            command = {"cmd": "true"}
            for _ in range(5):
                d.call("POST", f"{sandbox}/exec", command)
            row.values += [
                self.milliseconds(lambda: d.call("POST", f"{sandbox}/exec", command)) for _ in self.times(100)
            ]

    def transfer(self) -> None:
        """Files up and down."""
        d = self.daemon
        up = self.row(f"upload of {TRANSFER // MIB} MiB", "MB/s", 25, at_least=True)
        down = self.row(f"download of {TRANSFER // MIB} MiB", "MB/s", 60, at_least=True)
        block = os.urandom(MIB)
        with self.sandbox() as sandbox:
            url = f"{sandbox}/fs?path=/workspace/big"
            for _ in self.times(4):
                start = time.perf_counter()
                headers = {**d.headers, "Content-Length": str(TRANSFER)}
                d.connection.request("PUT", url, (block for _ in range(TRANSFER // MIB)), headers)
                answer = d.connection.getresponse()
                if answer.status != 200 or json.loads(answer.read())["bytes"] != TRANSFER:
                    raise BenchError("the upload failed")
                up.values.append(TRANSFER / 1e6 / (time.perf_counter() - start))
                start = time.perf_counter()
                d.connection.request("GET", url, headers=d.headers)
                answer = d.connection.getresponse()
                got = 0
                while piece := answer.read(MIB):
                    got += len(piece)
                if got != TRANSFER:
                    raise BenchError("the download failed")
                down.values.append(TRANSFER / 1e6 / (time.perf_counter() - start))

    def network(self) -> None:
        """The way out, beside QEMU's own."""
        address = network.own_address()
        if address is None:
            print("  this machine has no address but its loopback's: left out", file=sys.stderr)
            return
        peer = network.Peer()
        try:
            with (
                self.other_daemon(f"--egress-allow={address}:{peer.port}") as d,
                network.qemu_with_user_network() as path,
                self.other_daemon("--prespawn=0", path=path) as q,
            ):

                def ours() -> Guest:
                    return Guest(d, d.create(), address, peer.port)

                def theirs() -> Guest:
                    guest = Guest(q, q.create(network={"egress": "none"}), "10.0.2.2", peer.port)
                    guest.sh(network.CARD_UP)
                    return guest

                self._helper(ours)
                self._beside(("through the helper", ours), ("QEMU's user network", theirs))
        finally:
            peer.close()

    def _helper(self, make: Callable[[], Guest]) -> None:
        """What it takes of the machine, after much has passed and when nothing does."""
        before = network.helpers()
        with contextlib.closing(make()) as guest:
            guest.seconds("send", network.TRANSFER_MIB)
            guest.seconds("receive", network.TRANSFER_MIB)
            (helper,) = network.helpers() - before
            self.row("helper's resident memory after 512 MiB", "MB", 6).values.append(network.resident_mb(helper))
            idle = self.row(f"CPU of the helper when idle, {self.idle_seconds} s", "% core", 0)
            start = cpu_seconds(helper)
            time.sleep(self.idle_seconds)
            idle.values.append(100 * (cpu_seconds(helper) - start) / self.idle_seconds)

    @staticmethod
    def _ratio(rows: list[Row]) -> float:
        return statistics.median(rows[0].values) / statistics.median(rows[1].values)

    def _beside(self, *ways: tuple[str, Callable[[], Guest]]) -> None:
        """In turns, in a new machine each time: under emulation the same code is faster in one than in another."""
        size = network.TRANSFER_MIB * MIB / 1e6
        for what in ("send", "receive"):
            rows = [self.row(f"{what} {network.TRANSFER_MIB} MiB, {how}", "MB/s", at_least=True) for how, _ in ways]
            for _ in self.times(5):
                for row, (_, make) in zip(rows, ways, strict=True):
                    with contextlib.closing(make()) as guest:
                        row.values.append(size / guest.seconds(what, network.TRANSFER_MIB)[0])
            share = self._ratio(rows)
            self.row(f"{what}: the helper's share of QEMU's", "%", 60, at_least=True).values.append(100 * share)
        rows = [self.row(f"connect, {how}", "ms") for how, _ in ways]
        for _ in self.times(15):
            for row, (_, make) in zip(rows, ways, strict=True):
                with contextlib.closing(make()) as guest:
                    guest.seconds("connect", network.CONNECTS)  # translated then
                    row.values += [1000 * t for t in guest.seconds("connect", network.CONNECTS)]
        share = self._ratio(rows)
        self.row("connect: the helper's time beside QEMU's", "x", 1.3).values.append(share)

    def packages(self) -> None:
        """The same download in one sandbox after another, in turns with the package cache and without."""
        with (
            tempfile.TemporaryDirectory(prefix="pandastack-bench-") as cache,
            self.other_daemon("--prespawn=0", f"--package-cache={cache}") as cached,
            self.other_daemon("--prespawn=0") as direct,
        ):
            filled = self._download(cached)
            print(f"  the first, which fills the cache: {filled:.1f} s", file=sys.stderr, flush=True)
            ways = [
                (d, how, self.row(f"pip download {PACKAGE}, {how}", "s"))
                for d, how in ((direct, "without a cache"), (cached, "through the cache"))
            ]
            for _ in self.times(10):
                for d, how, row in ways:
                    row.values.append(self._download(d))
                    print(f"  {how}: {row.values[-1]:.1f} s", file=sys.stderr, flush=True)

    @staticmethod
    def _download(d: Daemon) -> float:
        sandbox = d.create()
        command = {"cmd": f"pip download --no-cache-dir --dest /tmp {PACKAGE} 2>&1", "timeout_seconds": 110}
        start = time.perf_counter()
        answer = d.call("POST", f"{sandbox}/exec", command)
        seconds = time.perf_counter() - start
        if answer["exit_code"]:
            raise BenchError(f"pip failed (does this machine reach its package index?):\n{answer['stdout']}")
        d.call("DELETE", sandbox)
        return seconds

    def idle(self) -> None:
        """What sandboxes cost that do nothing."""
        d = self.daemon
        made = [d.create() for _ in range(IDLE_SANDBOXES)]
        try:
            vms = d.vms()
            if len(vms) != IDLE_SANDBOXES:
                raise BenchError(f"{len(vms)} machines run, not {IDLE_SANDBOXES}")
            time.sleep(self.idle_seconds / 10)  # what the restore has set going dies down
            busy = self.row(f"CPU of {IDLE_SANDBOXES} idle sandboxes together, {self.idle_seconds} s", "% core", 2)
            before = sum(map(cpu_seconds, vms))
            start = time.monotonic()
            time.sleep(self.idle_seconds)
            busy.values.append(100 * (sum(map(cpu_seconds, vms)) - before) / (time.monotonic() - start))
            self._memory(vms, "idle sandbox, as created", 45)
            self.row(f"daemon's resident memory with {IDLE_SANDBOXES} sandboxes", "MB", 20).values.append(
                memory(d.process.pid)["Rss"]
            )
            for path in made:
                d.run(d.session(path), "1+1")
            self._memory(vms, "sandbox with a session that ran 1+1")
        finally:
            for path in made:
                d.call("DELETE", path)

    def pools(self) -> None:
        """Creates that a spare machine was there for."""
        for pool, target in (("warm", 10.0), ("prespawn", 80.0)):
            row = self.row(f"create to ready, from the pool `{pool}`", "ms", target)
            with self.other_daemon(f"--prespawn={int(pool == 'prespawn')}", f"--warm={int(pool == 'warm')}") as d:
                for _ in self.times(20):
                    d.wait_for_spares(pool, 1)
                    start = time.perf_counter()
                    path = d.create()
                    row.values.append((time.perf_counter() - start) * 1000)
                    d.call("DELETE", path)
                d.wait_for_spares(pool, 1)
                (folder,) = (d.data / "pool").iterdir()
                spare = memory(int(json.loads((folder / "vm.json").read_text())["pid"]))
                written = self.row(f"memory per spare of the pool `{pool}`: written", "MB")
                written.values.append(spare["Private_Dirty"])

    @contextlib.contextmanager
    def other_daemon(self, *options: str, path: str | None = None) -> Iterator[Daemon]:
        """A daemon with these options, on a data folder of its own."""
        with tempfile.TemporaryDirectory(prefix="pandastack-bench-") as data:
            d = Daemon(self.program, data, self.templates, *options, path=path)
            try:
                yield d
            finally:
                d.stop()

    def states(self) -> None:
        """Machines as values: pause, snapshot, restore, fork, hibernate, of a session with 16 MB of its own."""
        with self.other_daemon("--prespawn=1") as d:
            parent = d.create()
            kernel = d.session(parent)
            d.run(kernel, SIXTEEN_MB)
            d.run(kernel, "1+1")
            self._pauses(d, parent)
            self._snapshots(d, parent)
            self._forks(d, parent, kernel)
            self._hibernation(d, parent)
        self._fork_trees()
        self._shared_memory()

    def _pauses(self, d: Daemon, parent: str) -> None:
        pause, resume = self.row("pause", "ms", 5), self.row("resume", "ms", 5)
        for _ in self.times(30):
            pause.values.append(self.milliseconds(lambda: d.call("POST", f"{parent}/pause")))
            resume.values.append(self.milliseconds(lambda: d.call("POST", f"{parent}/resume")))

    def _snapshots(self, d: Daemon, parent: str) -> None:
        take = self.row("snapshot, on the disk", "ms", 150)
        restore = self.row("restore until ready, process waiting", "ms", 90)
        for _ in self.times(15):
            start = time.perf_counter()
            snapshot = d.call("POST", f"{parent}/snapshots", {})["id"]
            take.values.append((time.perf_counter() - start) * 1000)
            for first in (True, False):
                d.wait_for_spares("prespawn", 1)
                start = time.perf_counter()
                made = d.call("POST", "/v1/sandboxes", {"from_snapshot": snapshot})
                if not first:  # which checks the whole snapshot
                    restore.values.append((time.perf_counter() - start) * 1000)
                d.call("DELETE", f"/v1/sandboxes/{made['id']}")
            d.call("DELETE", f"/v1/snapshots/{snapshot}")

    def _forks(self, d: Daemon, parent: str, kernel: str) -> None:
        cell = self.row("fork until the child has answered a cell", "ms", 250)
        pause = self.row("    of which the parent stands still", "ms", 50)
        work = self.row("    until the child is there", "ms")
        written = self.row("    pages copied", "MB")
        session = kernel.rsplit("/", 1)[1]
        for _ in self.times(20):
            d.wait_for_spares("prespawn", 1)
            start = time.perf_counter()
            answer = d.fork(parent)
            work.values.append((time.perf_counter() - start) * 1000)
            d.run(f"{answer['child']}/repl/sessions/{session}", "len(x)")
            cell.values.append((time.perf_counter() - start) * 1000)
            pause.values.append(answer["pause_ms"])
            written.values.append(answer["delta_bytes"] / 1e6)
            d.call("DELETE", answer["child"])

    def _fork_trees(self) -> None:
        """As it is by default: one process waits, and after the first tree as many as that had children."""
        first = self.row("fork-tree of 8, the first in a while", "ms", 600)
        later = self.row("fork-tree of 8, those after it", "ms", 600)
        for _ in self.times(5):
            with self.other_daemon() as d:
                parent = d.create()
                d.run(d.session(parent), SIXTEEN_MB)
                for row, spares in ((first, 1), (later, 8), (later, 8)):
                    d.wait_for_spares("prespawn", spares)
                    start = time.perf_counter()
                    children = d.call("POST", f"{parent}/fork-tree", {"count": 8})["children"]
                    row.values.append((time.perf_counter() - start) * 1000)
                    for child in children:
                        d.call("DELETE", f"/v1/sandboxes/{child['id']}")

    def _hibernation(self, d: Daemon, parent: str) -> None:
        sleep, wake = self.row("hibernate", "ms"), self.row("wake", "ms", 200)
        for _ in self.times(15):
            sleep.values.append(self.milliseconds(lambda: d.call("POST", f"{parent}/hibernate")))
            wake.values.append(self.milliseconds(lambda: d.call("POST", f"{parent}/wake")))

    def _shared_memory(self) -> None:
        """What forks of a session with a frame of 300 MB cost."""
        frame = "import numpy as np, pandas as pd; df = pd.DataFrame(np.random.rand(3_750_000, 10))"
        with self.other_daemon("--prespawn=0") as d:
            parent = d.create()
            d.run(d.session(parent), frame)
            tree = d.call("POST", f"{parent}/fork-tree", {"count": 10})["children"]
            vms = [d.vm_of(child["id"]) for child in tree]
            self._memory(vms, "child of a fork-tree of 10, 300 MB in a frame", private=40)
            for child in tree:
                d.call("DELETE", f"/v1/sandboxes/{child['id']}")
            forks = self.row("fork of the same", "ms")
            children = []
            for _ in range(10):
                start = time.perf_counter()
                children.append(d.fork(parent)["child"])
                forks.values.append((time.perf_counter() - start) * 1000)
            vms = [d.vm_of(child.rsplit("/", 1)[1]) for child in children]
            self._memory(vms, "child of 10 forks of the same, one by one", private=40)

    def _memory(self, vms: list[int], what: str, pss: float | None = None, private: float | None = None) -> None:
        """``pss`` and ``private`` are targets; what is private is what one more costs."""
        figures = [memory(pid) for pid in vms]
        self.row(f"memory per {what}: Pss", "MB", pss).values += [f["Pss"] for f in figures]
        own = [f["Private_Clean"] + f["Private_Dirty"] for f in figures]
        self.row("    of which private", "MB", private).values += own


def compare_kernels(daemon: Daemon, program: Path, quick: bool) -> int:
    """Run runtime/bench_kernel.py in a sandbox and then on this machine, which prints both. Returns its exit status.

    Outside, its Python is that of `make check`, with the packages of the template.
    """
    python = ROOT / "build" / "venv" / "bin" / "python"
    if not python.exists():
        raise BenchError(f"{python} is not there; `make check` makes it")
    if subprocess.run([python, "-c", "import ipykernel, jupyter_client"]).returncode:
        raise BenchError(f"ipykernel is missing: {python} -m pip install ipykernel")
    key = daemon.headers["Authorization"].removeprefix("Bearer ")
    env = {**os.environ, "PANDASTACK_API": f"http://{daemon.host}", "PANDASTACK_API_KEY": key}
    options = ["--quick"] if quick else []
    path = daemon.create()
    sandbox = path.rsplit("/", 1)[1]
    inside = daemon.data / "kernel.json"

    def call(*command: str | Path) -> None:
        subprocess.run([program, "sandbox", *command], env=env, check=True)

    try:
        call("cp", KERNEL_SCRIPT, f"{sandbox}:/tmp/bench_kernel.py")
        command = [GUEST_PYTHON, "/tmp/bench_kernel.py", "--where", "inside", "--json", "/tmp/kernel.json", *options]
        call("exec", sandbox, "--timeout", "1h", "--env", f"PYTHONPATH={GUEST_RUNTIME}", "--", *command)
        call("cp", f"{sandbox}:/tmp/kernel.json", inside)
    finally:
        daemon.connection.close()  # it was idle for minutes: the next call opens a new one
        daemon.call("DELETE", path)
    return subprocess.run([python, KERNEL_SCRIPT, "--where", "outside", "--other", inside, *options]).returncode


def cpu_seconds(pid: int) -> float:
    """The processor time of a process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> dict[str, float]:
    """The figures of /proc/PID/smaps_rollup, in MB. Pss: what is private, and its share of what is shared."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {k: int(v) * 1024 / 1e6 for k, v in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)}


def describe(daemon: Daemon) -> list[str]:
    """The machine, and what runs on it."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    total = re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text())
    engine = daemon.call("GET", "/healthz")["engine"]
    template = daemon.call("GET", f"/v1/templates/{TEMPLATE}")
    return [
        f"machine   {os.cpu_count()} cores, {cpu[1] if cpu else platform.machine()},"
        f" {int(total[1]) / 1e6 if total else 0:.0f} GB; load {os.getloadavg()[0]:.2f}",
        f"kernel    {platform.system()} {platform.release()}",
        f"engine    {engine['name']} {engine['version']}, {engine['accel']}",
        f"template  {template['name']} {template['version'][:12]}, {template['cpu']} CPU, {template['memory_mb']} MB",
        f"server    pandastack {daemon.call('GET', '/version')['semver']}",
    ]


def number(value: float) -> str:
    """With as many digits as mean something."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(rows: list[Row]) -> str:
    """Aligned columns."""
    head = ("what", "n", "median", "p95", "p99", "unit", "target", "")
    lines = [head]
    for row in rows:
        median, p95, p99 = row.figures()
        spread = (number(p95), number(p99)) if len(row.values) > 1 else ("", "")
        bound = "" if row.target is None else f"{'≥' if row.at_least else '≤'} {row.target:g}"
        lines.append((row.what, str(len(row.values)), number(median), *spread, row.unit, bound, row.verdict()))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = []
    for line in lines:
        cells = [c.rjust(w) if 1 <= i <= 4 else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        text.append("  ".join(cells).rstrip())
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure pandastack, and print a table beside the targets.")
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds, and 10 s of idleness for 60")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all values there too")
    parser.add_argument("--only", metavar="PART", choices=PARTS, help="one part")
    parser.add_argument(
        "--kernel", action="store_true", help="instead: this kernel beside ipykernel, in a VM and outside"
    )
    return parser.parse_args()


def main() -> int:
    """Build what is missing, measure, print. Returns the exit status."""
    arguments = parse_arguments()
    program = Path(os.environ.get("PANDASTACK_BIN") or ROOT / "build" / "pandastack")
    if not program.exists():
        raise BenchError(f"{program} is not there; build it with: make")
    templates = templates_dir()
    if not (templates / TEMPLATE / "current").exists():
        subprocess.run([program, "template", "build", TEMPLATE, "--templates", templates], check=True)
    parts = [arguments.only] if arguments.only else PARTS
    with tempfile.TemporaryDirectory(prefix="pandastack-bench-") as data:
        daemon = Daemon(program, data, templates, "--prespawn=0")  # `creation` is about the long way
        try:
            print("\n".join(describe(daemon)), flush=True)
            if arguments.kernel:
                return compare_kernels(daemon, program, arguments.quick)
            bench = Bench(program, templates, daemon, 0.2 if arguments.quick else 1, 10 if arguments.quick else 60)
            for part in parts:
                print(f"… {part}", file=sys.stderr, flush=True)
                daemon.connection.close()  # the daemon has, where a part took minutes; the next request opens it
                getattr(bench, part)()
        finally:
            daemon.stop()
    print(f"\n{table(bench.rows)}\n")
    print("MB are 10^6 bytes. Pss: a process's private memory and its share of what several processes map.")
    if arguments.json:
        rows = [{"what": r.what, "unit": r.unit, "target": r.target, "values": r.values} for r in bench.rows]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BenchError, OSError) as failure:
        sys.exit(f"bench: {failure}")
    except subprocess.CalledProcessError as failure:
        words = " ".join(map(str, failure.cmd[:3]))
        sys.exit(f"bench: `{words}` failed (exit status {failure.returncode})")
    except KeyboardInterrupt:
        sys.exit(130)
