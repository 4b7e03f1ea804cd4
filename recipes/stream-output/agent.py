# SPDX-License-Identifier: Apache-2.0
"""Show output while it is made, line by line: of a command, and of a cell in a kernel."""

import sys
from collections.abc import Callable

from pandastack import Execution, Sandbox


class Lines:
    """Makes lines of chunks: one may hold several, or part of one."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self.show = show
        self.rest = ""

    def __call__(self, chunk: str) -> None:
        *lines, self.rest = (self.rest + chunk).split("\n")
        for line in lines:
            self.show(line)

    def end(self) -> None:
        if self.rest:
            self.show(self.rest)
            self.rest = ""


def stream(sandbox: Sandbox, command: str, show: Callable[[str], None]) -> int:
    """Run a command; its exit code."""
    lines = Lines(show)
    try:
        return sandbox.exec_stream(command, on_stdout=lines, on_stderr=lines)
    finally:
        lines.end()


def stream_cell(sandbox: Sandbox, code: str, show: Callable[[str], None]) -> Execution:
    """Run a cell; what it gave."""
    lines = Lines(show)
    with sandbox.create_code_context() as ctx:
        try:
            return ctx.run_code(code, on_stdout=lines, on_stderr=lines, timeout=3600)
        finally:
            lines.end()


def run(command: str, show: Callable[[str], None]) -> int:
    """Run a command in a sandbox of its own; its exit code."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "stream-output"})
    try:
        return stream(sandbox, command, show)
    finally:
        sandbox.kill()


if __name__ == "__main__":
    print("exit code", run(" ".join(sys.argv[1:]), print))
