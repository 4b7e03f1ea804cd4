# SPDX-License-Identifier: Apache-2.0
"""The public guide's Python code, character for character, each sample in a program of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness import Daemon

GUIDE = Path(__file__).resolve().parents[4] / "tests" / "conformance" / "guide"

# What the guide's `bash -lc 'pip install torch && python train.py'` stands for, without the download.
TRAINING = ("pip install torch && python train.py", "for i in 1 2 3; do echo step $i; sleep 0.1; done; exit 3")

PATTERN = """
import base64

assert run_python("6 * 7") == "42"
assert run_python("x = 20\\nprint('hello')") == "hello\\n"
assert run_python("x + 1") == "21", "the state survives"
assert "NameError: name 'pd' is not defined" in run_python("pd.DataFrame({'a': [1]})")
table = ctx.run_code("import pandas as pd\\npd.DataFrame({'a': [1, 2]})")
assert "<table" in table.results[0].html
chart = ctx.run_code("import matplotlib.pyplot as plt\\nplt.plot([1, 3, 2]); plt.title('t'); plt.show()")
assert base64.b64decode(chart.png).startswith(b"\\x89PNG")
"""
LOAD = """
ctx.run_code("import pandas as pd; data = pd.DataFrame({'a': [1, 2]})")
"""
RESTORED = """
from pandastack import CodeContext

for other in (resumed, child):
    assert CodeContext(other, ctx.id).run_code("int(data.a.sum())").text == "3"
    other.kill()
"""
# The sandbox may have no network; what is said then is the cell's error, not an exception here.
ONE_OFF = """
assert ex.error is None or "URLError" in ex.error, ex.error
"""
PACKAGES = """
assert ex.error is None or "ModuleNotFoundError" in ex.error, ex.error
"""


def block(name: str) -> str:
    return (GUIDE / name).read_text()


def run(code: str, environment: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        PATTERN,
        LOAD + block("snapshot.py") + RESTORED,
        block("oneoff.py") + ONE_OFF,
        block("packages.py") + PACKAGES,
    ],
    ids=["pattern", "snapshot", "oneoff", "packages"],
)
def test_guide(code: str, environment: dict[str, str], daemon: Daemon) -> None:
    before = daemon.api.ids()
    run(block("pattern.py") + code + block("cleanup.py"), environment)
    assert daemon.api.ids() == before, "kill() ended it"
    for snapshot in daemon.api.snapshots():
        daemon.api.call("DELETE", f"/v1/snapshots/{snapshot}", want=204)


def test_guide_stream(environment: dict[str, str]) -> None:
    stream = block("stream.py").replace(*TRAINING)
    assert stream != block("stream.py")
    assert run(block("pattern.py") + stream + block("cleanup.py"), environment) == (
        "step 1\nstep 2\nstep 3\nexited 3\n"
    )
