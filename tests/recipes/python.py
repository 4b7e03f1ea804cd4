# SPDX-License-Identifier: Apache-2.0
"""Recipes in Python: a virtual environment of the packages in requirements.lock, and pytest in it.

The SDK is not installed but imported from the source tree, so that an environment depends on its lock alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.daemon import REPO

WANTED = "requirements.txt"
LOCK = "requirements.lock"
PLUGINS = ("no:cacheprovider", "recipes.offline", "recipes.cleanup", "recipes.typed")
_TEST_TOOLS = REPO / "tests" / "recipes" / WANTED
_SDK = REPO / "sdk" / "python"
_UV = Path(sys.executable).with_name("uv")


def framework(recipe: Path) -> tuple[str, str]:
    """Name and version of what the recipe is about: its first requirement, or the SDK where there is none."""
    found = re.search(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", (recipe / WANTED).read_text(), re.MULTILINE)
    return (found[1], found[2]) if found else ("pandastack", _sdk_version())


def _sdk_version() -> str:
    text = (_SDK / "pandastack" / "_version.py").read_text()
    return text.split('"')[-2]


def lock(recipe: Path) -> None:
    """Write down all packages that the requirements bring along."""
    what = ["pip", "compile", "--quiet", "--universal", "--no-annotate", "--no-header", "--upgrade"]
    python = f"--python-version={sys.version_info.major}.{sys.version_info.minor}"
    wanted = [recipe / WANTED, _TEST_TOOLS]
    subprocess.run([_UV, *what, python, *wanted, "--output-file", recipe / LOCK], check=True)


def install(recipe: Path, place: Path) -> None:
    """Make the environment."""
    subprocess.run([_UV, "venv", "--quiet", "--clear", "--python", sys.executable, place], check=True)
    subprocess.run([_UV, "pip", "sync", "--quiet", "--python", place / "bin" / "python", recipe / LOCK], check=True)


def command(recipe: Path, place: Path, folder: Path) -> list[str]:
    """How its tests are run in that folder."""
    plugins = [option for name in PLUGINS for option in ("-p", name)]
    options = ["-q", *plugins, "--import-mode=importlib", "--rootdir"]
    return [str(place / "bin" / "python"), "-m", "pytest", *options, str(recipe), str(recipe)]


def environment(recipe: Path, place: Path) -> dict[str, str]:
    """What its tests need to be told."""
    return {"PYTHONPATH": ":".join(str(p) for p in (recipe, _SDK, REPO / "tests"))}
