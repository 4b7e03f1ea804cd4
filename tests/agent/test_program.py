# SPDX-License-Identifier: Apache-2.0
"""The agent's program, as a file."""

from __future__ import annotations

import os
from pathlib import Path


def test_it_is_the_same_in_every_folder() -> None:
    """Templates are baked anew when its bytes differ: they name no folder of its build."""
    program = Path(os.environ["PANDASTACK_AGENT"]).resolve()
    assert str(program.parent.parent).encode() not in program.read_bytes()
