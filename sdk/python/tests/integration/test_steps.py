# SPDX-License-Identifier: Apache-2.0
"""The steps that both SDKs go through: what one prints, the other prints, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

STEPS = Path(__file__).resolve().parents[3] / "conformance"


def test_steps(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, STEPS / "steps.py"], env=environment, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (STEPS / "steps.txt").read_text()
