# SPDX-License-Identifier: Apache-2.0
"""The transcripts of docs/cli.md: each command is run on a terminal, and shows what the page says.

Numbers, times and ids are others each time, so lines are compared without them. An id of the page stands for the one
that the same command printed here; one that no command printed gets a sandbox before its first use.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import Daemon
from harness.cli import Cli
from harness.daemon import REPO

SECONDS = 20
PROMPT = "$ "
# By the first words of a block: why it is not run.
NOT_RUN = {
    "pandastack sandbox ssh": "it is typed into: test_terminal.py",
    "pandastack port-forward": "it goes on until Ctrl-C: test_cli_ports.py",
    "pandastack template rm base": "it would take the template of all other tests: test_snapshot_templates.py",
    "pandastack gc": "it would free what other tests stand on: test_snapshot_templates.py",
    "pandastack engines": "it is about the machine: test_engine.py",
}
# Of sandboxes that are there already: how they were made, and what runs in them.
OPTIONS = {"b82f": ["--persistent"]}
SERVER = (
    "(python3 -m http.server 8000 >/tmp/log 2>&1 &);"
    " until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>&-; do sleep 0.1; done"
)
RUNS = {"c9cc": SERVER}
# What these show becomes true after a moment, and may have more lines.
LOOKS = re.compile(r" (list|ps|logs|ports|events)\b")

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# Of four hexadecimal digits, of which one is a letter.
PREFIX = re.compile(r"(?<![\w./-])(?=\d*[a-f])[0-9a-f]{4}(?![\w.-])")


def blocks() -> Iterator[list[tuple[str, list[str]]]]:
    """Commands with what they show."""
    for text in re.findall(r"^```console\n(.*?)^```$", (REPO / "docs/cli.md").read_text(), re.MULTILINE | re.DOTALL):
        steps: list[tuple[str, list[str]]] = []
        for line in text.splitlines():
            if line.startswith(PROMPT):
                steps.append((line[len(PROMPT) :], []))
            else:
                steps[-1][1].append(line)
        yield steps


def shape(line: str) -> str:
    """A line without what is different each time."""
    line = UUID.sub("ID", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
    line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
    line = re.sub(r"\b(tcg|kvm)\b", "ACCELERATOR", line)
    line = re.sub(r"(?<=; there are: ).*", "TEMPLATES", line)
    line = re.sub(r"\d+(\.\d+)*", "N", line)
    line = re.sub(r"N ([kMG]?B)\b", "N BYTES", line)
    return re.sub(r"\s+", " ", re.sub(r"\bN(ms|s|m|h|d)\b", "N", line)).strip()


def is_within(wanted: list[str], shown: list[str]) -> bool:
    """All lines in this order, perhaps with others between them."""
    rest = iter(shown)
    return all(line in rest for line in wanted)


class Page:
    """Runs the commands of the page, with ids of its own."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli = cli
        self.folder = folder
        self.ids: dict[str, str] = {}

    def translated(self, command: str) -> str:
        """With the ids that there are here."""
        for prefix in PREFIX.findall(command):
            if prefix not in self.ids:
                self.ids[prefix] = self.cli.ok("sandbox", "create", "-t", "base", *OPTIONS.get(prefix, [])).strip()
                if prefix in RUNS:
                    self.cli.ok("sandbox", "exec", self.ids[prefix], "--", RUNS[prefix])
        return PREFIX.sub(lambda found: self.ids[found[0]][:8], command)

    def shown(self, command: str) -> list[str]:
        """What a terminal shows of it."""
        fd, tty = pty.openpty()
        env = {
            **self.cli.env,
            "PATH": f"{self.cli.program.parent}:{os.environ['PATH']}",
            "TERM": "xterm",
            "NO_COLOR": "1",
        }
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=self.folder, env=env, stdin=tty, stdout=tty, stderr=tty
        )
        os.close(tty)
        text = b""
        while piece := self._read(fd):
            text += piece
        os.close(fd)
        process.wait(SECONDS)
        lines = text.decode().replace("\r\n", "\n")
        return re.sub(r"[^\n]*\r\x1b\[K", "", lines).splitlines()  # progress was shown, and taken away

    @staticmethod
    def _read(fd: int) -> bytes:
        try:
            return os.read(fd, 65536)
        except OSError:  # nobody has the other end any more
            return b""

    def run(self, command: str, wanted: list[str]) -> str | None:
        """What is wrong with what it shows."""
        mine = self.translated(command)
        deadline = time.monotonic() + SECONDS
        while True:
            shown = self.shown(mine)
            for theirs, ours in zip(wanted, shown, strict=False):
                if UUID.fullmatch(theirs) and UUID.fullmatch(ours):
                    self.ids[theirs[:4]] = ours
            text = "\n".join(shown)
            for prefix, real in self.ids.items():
                text = re.sub(rf"\b{real[:8]}\b(?!-)", prefix, text)
            got, want = [shape(line) for line in text.splitlines()], [shape(line) for line in wanted]
            looks = bool(LOOKS.search(command))
            if got == want or (looks and is_within(want, got)):
                return None
            if not looks or time.monotonic() >= deadline:
                return f"{command}\nshows\n{text}\nand not\n" + "\n".join(wanted)


def test_transcripts(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon = make_daemon().wait_ready()
    (tmp_path / "examples").symlink_to(REPO / "examples")
    page = Page(Cli(daemon, tmp_path), tmp_path)
    left = set(NOT_RUN)
    problems: list[str | None] = []
    for steps in blocks():
        reason = next((words for words in NOT_RUN if steps[0][0].startswith(words)), None)
        left.discard(reason or "")
        if not reason:
            problems += [page.run(command, wanted) for command, wanted in steps]
    assert not left, "these are not on the page"
    assert not any(problems), "\n\n".join(filter(None, problems))
    for sandbox in daemon.api.ids():
        daemon.api.sandbox(sandbox).discard()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("AGE  3m  849.5 MB", "AGE 12s  1.2 GB", True),
        ("7a1c506c-11b0-4499-b50c-f8f62db95bc8 base", "1a1c506c-11b0-4499-b50c-f8f62db95bc9 base", True),
        ("running", "paused", False),
        ("N=3", "N=x", False),
    ],
)
def test_shape(one: str, other: str, same: bool) -> None:
    assert (shape(one) == shape(other)) is same
