# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of the pages that users read: README.md, docs/, the SDKs' and the recipes' README.md."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from harness.daemon import REPO

PAGES = ("README.md", "docs/**/*.md", "sdk/*/README.md", "recipes/README.md", "recipes/*/README.md")
FENCE = "```"


@dataclass(frozen=True)
class Block:
    """One of them, without its indentation."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    """Those of a page. Markdown's other kind, by indentation, is not for us: it has no language."""
    found: list[Block] = []
    lines: list[str] = []
    opened, language = 0, ""
    before = ""
    for number, line in enumerate((REPO / page).read_text().splitlines(keepends=True), 1):
        if line.lstrip().startswith(FENCE):
            if opened:
                found.append(Block(page, opened, language, textwrap.dedent("".join(lines))))
            opened = 0 if opened else number
            language, lines = line.strip()[len(FENCE) :], []
        elif opened:
            lines.append(line)
        else:
            assert before.strip() or not re.match(r" {4}\S", line), f"{page}:{number}: put it between fences"
        before = line
    assert not opened, f"{page}:{opened}: this fence is open to the end"
    return found


def pages(*languages: str) -> list[str]:
    """All pages, or those with a block in one of these languages."""
    names = sorted(str(path.relative_to(REPO)) for pattern in PAGES for path in REPO.glob(pattern))
    return [name for name in names if not languages or any(b.language in languages for b in blocks(name))]
