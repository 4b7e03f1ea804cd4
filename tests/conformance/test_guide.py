# SPDX-License-Identifier: Apache-2.0
"""The public guide's code, as it is printed there, with the published clients in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import Daemon
from harness.node import Node

GUIDE = Path(__file__).parent / "guide"

# What the guide's `bash -lc 'pip install torch && python train.py'` stands for, without the download.
TRAIN = "for i in 1 2 3; do echo step $i; sleep 0.1; done; echo warning >&2; exit 3"

PYTHON_TAIL = """
import base64

assert run_python("6 * 7") == "42"
assert run_python("x = 20\\nprint('hello')") == "hello\\n"
assert run_python("x + 1") == "21", "the state survives"
error = run_python("pd.DataFrame({'a': [1]})")
assert "NameError: name 'pd' is not defined" in error, error
assert "Traceback" in error
table = ctx.run_code("import pandas as pd\\npd.DataFrame({'a': [1, 2]})")
assert not table.error, table.error
assert "<table" in table.results[0].html
chart = ctx.run_code("import matplotlib.pyplot as plt\\nplt.plot([1, 3, 2])\\nplt.title('t')\\nplt.show()")
assert base64.b64decode(chart.png).startswith(b"\\x89PNG")
assert chart.results[0].chart == chart.png
"""

TS_TAIL = """
function check(ok: boolean, what: unknown): void {
  if (!ok) throw new Error(String(what));
}
check((await runPython("6 * 7")) === "42", "6 * 7");
check((await runPython("x = 20\\nprint('hello')")) === "hello\\n", "stdout");
check((await runPython("x + 1")) === "21", "the state survives");
const error = await runPython("pd.DataFrame({'a': [1]})");
check(error.includes("NameError: name 'pd' is not defined"), error);
const table = await ctx.runCode("import pandas as pd\\npd.DataFrame({'a': [1, 2]})");
check(table.results[0].html?.includes("<table") === true, JSON.stringify(table));
const chart = await ctx.runCode("import matplotlib.pyplot as plt\\nplt.plot([1, 3, 2])\\nplt.show()");
check(Buffer.from(chart.png ?? "", "base64").subarray(1, 4).toString() === "PNG", "png");
"""


def environment(daemon: Daemon) -> dict[str, str]:
    """What the guide says to set, and no more of ours than a program needs."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDASTACK_", "XDG_"))}
    env.update(PANDASTACK_API=daemon.url, PANDASTACK_API_KEY=daemon.key, HOME=str(daemon.home), NO_PROXY="127.0.0.1")
    return env


def block(name: str) -> str:
    return (GUIDE / name).read_text()


@pytest.fixture
def run_python(daemon: Daemon) -> Callable[[str], str]:
    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(daemon), capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def run_ts(daemon: Daemon, node: Node, tmp_path: Path) -> Callable[[str], str]:
    return lambda code: node.run_typescript(code, environment(daemon))


def test_python(daemon: Daemon, run_python: Callable[[str], str]) -> None:
    before = daemon.api.ids()
    run_python(block("pattern.py") + PYTHON_TAIL + block("cleanup.py"))
    assert daemon.api.ids() == before, "kill() ended it"


def test_typescript(daemon: Daemon, run_ts: Callable[[str], str]) -> None:
    before = daemon.api.ids()
    run_ts(block("pattern.ts") + TS_TAIL + block("cleanup.ts"))
    assert daemon.api.ids() == before, "kill() ended it"


def test_python_snapshot(daemon: Daemon, run_python: Callable[[str], str]) -> None:
    """Between turns: what was loaded is loaded in both, without a line of setup."""
    before = daemon.api.ids()
    tail = """
from pandastack import CodeContext

for other in (resumed, child):
    assert CodeContext(other, ctx.id).run_code("int(data.a.sum())").text == "3"
    other.kill()
"""
    load = "ctx.run_code(\"import pandas as pd; data = pd.DataFrame({'a': [1, 2]})\")\n"
    run_python(block("pattern.py") + load + block("snapshot.py") + tail + block("cleanup.py"))
    assert daemon.api.ids() == before


def test_typescript_snapshot(daemon: Daemon, run_ts: Callable[[str], str]) -> None:
    before = daemon.api.ids()
    tail = """
for (const other of [resumed, child]) {
  const got = await new CodeContext(new Client(), other.id, ctx.id).runCode("int(data.a.sum())");
  if (got.text !== "3") throw new Error(JSON.stringify(got));
  await other.kill();
}
"""
    load = "await ctx.runCode(\"import pandas as pd; data = pd.DataFrame({'a': [1, 2]})\");\n"
    pattern = 'import { Client, CodeContext } from "@pandastack/sdk";\n' + block("pattern.ts")
    run_ts(pattern + load + block("snapshot.ts") + tail + block("cleanup.ts"))
    assert daemon.api.ids() == before


def with_training(code: str) -> str:
    changed = code.replace("pip install torch && python train.py", TRAIN)
    assert changed != code
    return changed


def test_python_stream(run_python: Callable[[str], str]) -> None:
    out = run_python(block("pattern.py") + with_training(block("stream.py")) + block("cleanup.py"))
    assert out == "step 1\nstep 2\nstep 3\nexited 3\n"


def test_typescript_stream(run_ts: Callable[[str], str]) -> None:
    out = run_ts(block("pattern.ts") + with_training(block("stream.ts")) + block("cleanup.ts"))
    assert out == "step 1\nstep 2\nstep 3\nexited 3\n"
