# SPDX-License-Identifier: Apache-2.0
"""The daemon as a process: start, log, end, and what it must not leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.api import Api

REPO = Path(__file__).resolve().parents[2]
START_SECONDS = 60
END_SECONDS = 60

LogRecord = dict[str, Any]


def binary() -> Path:
    """The program under test."""
    return Path(os.environ.get("PANDASTACK_BIN") or REPO / "build" / "pandastack").resolve()


def templates() -> Path:
    """The baked templates, which outlive the tests."""
    given = os.environ.get("PANDASTACK_TEMPLATES")
    if given:
        return Path(given).resolve()
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = os.environ.get("PANDASTACK_TEST_CACHE") or f"{cache}/pandastack"
    return (Path(root) / "templates").resolve()


def has_fault_points() -> bool:
    """Whether the program under test was built with -Dfaults=true."""
    return b"PANDASTACK_FAULT" in binary().read_bytes()


def in_view(pid: int, path: Path) -> Path:
    """A path in the mount namespace of a process."""
    return Path(f"/proc/{pid}/root{path}")


def fill(disk: Path) -> Path:
    """Take all that is free; the file that does."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as f:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    f.write(b"\1" * size)
            except OSError:
                continue
    return filler


def sanitizers() -> set[str]:
    """The sanitizers that are compiled into the program under test: "address", "thread"."""
    text = binary().read_bytes()
    return {name for name, symbol in (("address", b"__asan_init"), ("thread", b"__tsan_init")) if symbol in text}


def wait_for_exit(pid: int, seconds: float) -> bool:
    """Wait until a process, ours or not, has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], seconds)[0])
    finally:
        os.close(pidfd)


class Daemon:
    """A daemon of our own, with a data folder, a home and a log of its own.

    The log is read as JSON; a line that is none is a sanitizer's report or a library's complaint, and fails the test
    in `check_clean()`, as do records of level "error" that nobody announced with `expect_error()`.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        program: Path | None = None,
        template_dir: Path | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
        wrapper: Sequence[str] = (),
        view: Callable[[int, Path], Path] | None = None,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.template_dir = template_dir or templates()
        self.home = self.data_dir.parent / f"{self.data_dir.name}-home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []
        self.strays: list[str] = []
        self.records: list[LogRecord] = []
        self.url = ""
        self.key = ""
        self.exit_status: int | None = None
        self._view = view
        self._expected: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self.command = [
            *wrapper,
            str(program or binary()),
            "serve",
            "--listen=127.0.0.1:0",
            f"--data-dir={self.data_dir}",
            f"--templates={self.template_dir}",
            "--log-format=json",
            *([f"--engine={engine}"] if (engine := os.environ.get("PANDASTACK_TEST_ENGINE")) else []),
            *args,
        ]
        self.process = subprocess.Popen(
            self.command,
            env=self._environment(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._read_log, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    def _environment(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Ours, less what would lead to the data of the person who runs the tests."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDASTACK_", "XDG_"))}
        env["HOME"] = str(self.home)
        for name, value in changes.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        return env

    # ---- the log ----

    def _read_log(self, stream: IO[str]) -> None:
        for text in stream:
            line = text.rstrip("\n")
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            with self._news:
                self.lines.append(line)
                if isinstance(record, dict):
                    self.records.append(record)
                else:
                    self.strays.append(line)
                self._news.notify_all()
        stream.close()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def mark(self) -> int:
        """The place in the log up to now, for `wait_log(since=…)`."""
        with self._news:
            return len(self.records)

    def wait_log(self, msg: str, *, since: int = 0, seconds: float = 30, **fields: object) -> LogRecord:
        """The first record with this message and these fields, waiting for it to be written."""
        deadline = time.monotonic() + seconds
        at = since
        with self._news:
            while True:
                for record in self.records[at:]:
                    if record.get("msg") == msg and all(record.get(k) == v for k, v in fields.items()):
                        return record
                at = len(self.records)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    why = "the daemon ended" if self._ended else f"not within {seconds} s"
                    raise AssertionError(f"no log record {msg!r} {fields} ({why}):\n" + self.tail())
                self._news.wait(left)

    def tail(self, n: int = 40) -> str:
        """The end of the log, for messages."""
        return "\n".join(self.lines[-n:])

    @contextlib.contextmanager
    def expect_error(self, msg: str) -> Iterator[None]:
        """Allow records of level "error" with this message while the block runs."""
        self._expected.append(msg)
        yield

    # ---- the beginning ----

    def path(self, inside: Path) -> Path:
        """A path of the data folder as we see it (the daemon may have a mount namespace of its own)."""
        return self._view(self.process.pid, inside) if self._view else inside

    def wait_ready(self) -> Daemon:
        """Wait until it serves; find its address and key."""
        ready = self.wait_log("ready", seconds=START_SECONDS)
        self.url = str(ready["url"])
        config = json.loads(self.path(Path(str(ready["key"]))).read_text())
        assert config["api_url"] == self.url
        self.key = config["api_key"]
        return self

    @property
    def api(self) -> Api:
        """A new client of it, with its key."""
        return Api(self.url, self.key)

    # ---- what belongs to it ----

    def vms(self, folder: str = "sandboxes") -> set[int]:
        """Its virtual machines: processes whose working folder lies in this one of the data folder, gone or not."""
        prefix = f"{self.data_dir}/{folder}/"
        found = set()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                cwd = str((entry / "cwd").readlink())
            except OSError:
                continue
            if cwd.startswith(prefix):
                found.add(int(entry.name))
        return found

    def vm_of(self, sandbox_id: str) -> int:
        """The process of one sandbox's machine."""
        text = self.path(self.data_dir / "sandboxes" / sandbox_id / "vm.json").read_text()
        return int(json.loads(text)["pid"])

    def folders(self) -> list[str]:
        """The folders of sandboxes."""
        return sorted(p.name for p in self.path(self.data_dir / "sandboxes").iterdir())

    def status_kib(self, field: str) -> int:
        """A figure of /proc/PID/status, in KiB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
        raise AssertionError(f"no {field}")

    @contextlib.contextmanager
    def stays_small(self) -> Iterator[None]:
        """The daemon keeps nothing of what passes through it in the block; sanitizers keep what was freed."""
        before = self.status_kib("VmRSS")
        yield
        growth = self.status_kib("VmRSS") - before
        assert sanitizers() or growth < 8 << 10, f"{growth} KiB"

    def memory_kib(self, sandbox_id: str, field: str = "Pss") -> int:
        """What the machine of a sandbox holds: a field of its /proc/PID/smaps_rollup, in KiB."""
        for line in Path(f"/proc/{self.vm_of(sandbox_id)}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
        raise AssertionError(f"no {field}")

    # ---- the end ----

    def wait(self, seconds: float = END_SECONDS) -> int:
        """Wait until it has ended and its log is complete."""
        self.exit_status = self.process.wait(seconds)
        self._reader.join(seconds)
        return self.exit_status

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.wait()

    def stop(self) -> int:
        """SIGTERM, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def check_log(self) -> None:
        """Nothing but log records in the log, and no error that was not expected."""
        assert not self.strays, "the daemon wrote what is no log record:\n" + "\n".join(self.strays)
        errors = [r for r in self.records if r.get("level") == "error" and r.get("msg") not in self._expected]
        assert not errors, f"the daemon logged errors: {errors}"

    def check_clean(self) -> None:
        """It ended well and left nothing."""
        assert self.exit_status == 0, f"exit status {self.exit_status}:\n{self.tail()}"
        assert not self.vms(), f"machines still run: {self.vms()}"
        if self._view is None:
            for name in ("sandboxes", "forks", "pool"):
                folder = self.path(self.data_dir / name)
                assert not folder.exists() or not list(folder.iterdir()), f"left in {name}"
        self.check_log()

    def dispose(self) -> None:
        """End it and its machines whatever has happened; for the end of a test that may have failed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in self.vms() | self.vms("pool"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_for_exit(pid, 10)
