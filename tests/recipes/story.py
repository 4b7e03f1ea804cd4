# SPDX-License-Identifier: Apache-2.0
"""What the scripted model says in every recipe's test, and what it must have seen.

Its first cell fails after it has set a variable. The second one corrects the call and needs that variable, so the
kernel must be the same; the third draws. story.json has it, for recipes in any language.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

_STORY = json.loads(Path(__file__).with_name("story.json").read_text())
QUESTION: str = _STORY["question"]
CELLS: list[str] = _STORY["cells"]
ANSWER: str = _STORY["answer"]


def check(texts: Sequence[str], pictures: Sequence[bytes]) -> None:
    """Look at what reached the model: a text for each cell, in order, and the pictures."""
    failed, value, drawn = texts
    assert "Traceback" in failed
    assert f"\n{_STORY['error']}" in failed, "as it was printed, line by line"
    assert _STORY["value"] in value
    assert "iVBOR" not in drawn, "a picture is no text"
    (picture,) = pictures
    check_png(picture)


def check_png(data: bytes) -> None:
    """It is a picture that can be looked at."""
    signature, width, height = struct.unpack_from(">8s8xII", data)
    assert signature == b"\x89PNG\r\n\x1a\n"
    assert min(width, height) > 100, (width, height)
    assert data.endswith(b"IEND\xaeB`\x82"), "it is whole"
