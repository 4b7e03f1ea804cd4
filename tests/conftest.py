# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that drive the real daemon: integration, security, conformance.

One daemon serves the whole run, and each module shares one sandbox (`box`) where isolation does not matter. A test
that breaks things makes its own: `sandbox()`, `make_daemon()`.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Api, Daemon, Sandbox, Session
from harness.daemon import binary, in_view, templates

# A shell's background job ignores SIGINT, and what it starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def program() -> Path:
    """The program and the template must be there: without them nothing is tested, which is a failure."""
    if not binary().is_file():
        pytest.exit(f"{binary()} is missing: build it, or say where it is with PANDASTACK_BIN", 2)
    if not (templates() / "code-interpreter" / "current").exists():
        pytest.exit(
            f"no code-interpreter template in {templates()}: "
            f"pandastack template build code-interpreter --templates {templates()}",
            2,
        )
    return binary()


@pytest.fixture(scope="session")
def daemon(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The daemon that most tests use. At the end it must have ended well and left nothing."""
    d = Daemon(tmp_path_factory.mktemp("daemon") / "data", args=["--log-level=debug"])
    try:
        yield d.wait_ready()
        for left in d.api.list():
            d.api.sandbox(left["id"]).discard()
        d.stop()
        d.check_clean()
    finally:
        d.dispose()


@pytest.fixture
def make_daemon(program: Path, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """A factory of daemons for one test, which ends them and looks at their logs; the test awaits readiness."""
    made: list[Daemon] = []
    numbers = itertools.count()

    def make(data_dir: Path | None = None, **kwargs: Any) -> Daemon:
        d = Daemon(data_dir or tmp_path / f"data{next(numbers)}", **kwargs)
        made.append(d)
        return d

    try:
        yield make
    finally:
        for d in made:
            d.dispose()
    for d in made:
        assert not d.strays, "the daemon wrote what is no log record:\n" + "\n".join(d.strays)


@pytest.fixture(scope="session")
def own_address() -> str:
    """An address of this machine that is not its loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("203.0.113.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but its loopback's")
        return str(s.getsockname()[0])


@pytest.fixture
def small_disk(tmp_path: Path, make_daemon: Callable[..., Daemon]) -> tuple[Daemon, Path]:
    """A daemon whose data folder is a disk of 96 MiB that nobody else sees."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    probe = subprocess.run([*unshare, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"no mount namespace to be had here: {probe.stderr.strip()}")
    data = tmp_path / "small"
    data.mkdir()
    script = 'mount -t tmpfs -o size=96m tmpfs "$0" && exec "$@"'
    d = make_daemon(data, wrapper=[*unshare, "sh", "-c", script, str(data)], view=in_view).wait_ready()
    return d, d.path(data)


@pytest.fixture(scope="session")
def api(daemon: Daemon) -> Api:
    """The API of the shared daemon."""
    return daemon.api


@pytest.fixture(scope="module")
def box(api: Api) -> Iterator[Sandbox]:
    """A sandbox for the whole module: leave it as you found it."""
    sandbox = api.create(metadata={"made-by": "box"})
    try:
        yield sandbox
    finally:
        sandbox.discard()


@pytest.fixture
def sandbox(api: Api) -> Iterator[Callable[..., Sandbox]]:
    """A factory of sandboxes that end with the test."""
    made: list[Sandbox] = []

    def make(template: str = "code-interpreter", **body: Any) -> Sandbox:
        made.append(api.create(template, **body))
        return made[-1]

    try:
        yield make
    finally:
        for s in made:
            s.discard()


@pytest.fixture
def session(box: Sandbox) -> Iterator[Callable[..., Session]]:
    """A factory of kernels in the module's sandbox that end with the test."""
    made: list[Session] = []

    def make(**body: Any) -> Session:
        made.append(box.session(**body))
        return made[-1]

    try:
        yield make
    finally:
        for s in made:
            s.discard()


@pytest.fixture
def kernel(session: Callable[..., Session]) -> Session:
    """One kernel in the module's sandbox."""
    return session()
