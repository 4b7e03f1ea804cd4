# SPDX-License-Identifier: Apache-2.0
"""Run a recipe as its page says it, with a server in place of OpenAI's: python -m recipes.command_line COMMAND."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from recipes import story
from recipes.openai_server import scripted, told


def main(command: list[str]) -> None:
    """It must say the answer, once, and write the chart, once."""
    with scripted(*told()) as server:
        env = {**os.environ, **server.environment}
        done = subprocess.run([*command, story.QUESTION], env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.count(story.ANSWER) == 1, done.stdout
    story.check(*server.shown())
    (chart,) = Path().glob("chart-*.png")
    story.check_png(chart.read_bytes())


if __name__ == "__main__":
    main(sys.argv[1:])
