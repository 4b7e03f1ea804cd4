# SPDX-License-Identifier: Apache-2.0
"""The agent as an ordinary process on this machine, on one end of a socket pair."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from link_client import Link  # noqa: E402

HERE = Path(__file__).parent
UNIFIED = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")


def find_cgroup() -> str | None:
    """A cgroup2 directory that we may use, made for this agent; None where there is none."""
    for root in UNIFIED:
        if not os.path.exists(f"{root}/cgroup.procs"):
            continue
        try:
            return tempfile.mkdtemp(prefix="pandastack-test-", dir=root)
        except OSError:
            continue
    return None


class Agent:
    """A running agent and the link to it."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        (root / "etc").mkdir(parents=True, exist_ok=True)
        self.cgroup = find_cgroup()
        ours, theirs = socket.socketpair()
        argv = [os.environ["PANDASTACK_AGENT"], "--fd", str(theirs.fileno()), "--root", str(root), *options]
        if self.cgroup:
            argv += ["--cgroup", self.cgroup]
        self.process = subprocess.Popen(argv, pass_fds=[theirs.fileno()])
        theirs.close()
        self.sock = ours
        self.link = Link(ours)

    def close(self) -> int:
        """Ends the agent; its exit code is 0 only when the sanitizers found nothing."""
        self.sock.close()
        code = self.process.wait(30)
        if self.cgroup:
            for path in sorted(Path(self.cgroup).rglob("*"), reverse=True):
                if path.is_dir():
                    remove_group(path)
            remove_group(Path(self.cgroup))
        return code


def remove_group(path: Path) -> None:
    """A group is busy for a moment after its processes were killed."""
    import time

    for _ in range(100):
        try:
            path.rmdir()
            return
        except OSError:
            time.sleep(0.02)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    a = Agent(tmp_path / "root")
    yield a
    assert a.close() == 0


@pytest.fixture
def link(agent: Agent) -> Link:
    return agent.link


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In its guest the agent is root; what needs that is left out for an ordinary user."""
    if os.geteuid() == 0:
        return
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and (item.path.name == "test_session.py" or item.name == "test_resume"):
            item.add_marker(pytest.mark.skip(reason="the agent needs root for this, as it has in its guest"))
