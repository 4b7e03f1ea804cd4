# SPDX-License-Identifier: Apache-2.0
"""The command line, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from harness.daemon import Daemon, binary

SECONDS = 120


class Cli:
    """`pandastack`, pointed at a daemon."""

    def __init__(self, daemon: Daemon, home: Path) -> None:
        self.program = binary()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDASTACK_", "XDG_"))}
        self.env.update(HOME=str(home), PANDASTACK_API=daemon.url, PANDASTACK_API_KEY=daemon.key, NO_PROXY="*")

    def popen(self, *args: str, **kwargs: Any) -> subprocess.Popen[str]:
        """Start it."""
        return subprocess.Popen(
            [str(self.program), *args],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )

    def run(self, *args: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [str(self.program), *args],
            env={**self.env, **env},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def ok(self, *args: str, stdin: str | None = None) -> str:
        """What it prints when it succeeds, as it must."""
        done = self.run(*args, stdin=stdin)
        assert done.returncode == 0, done
        assert "\x1b" not in done.stdout, "no colours where there is no terminal"
        return done.stdout

    def json(self, *args: str) -> Any:
        """The same, of --json."""
        return json.loads(self.ok(*args, "--json"))
