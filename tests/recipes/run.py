# SPDX-License-Identifier: Apache-2.0
"""Run the recipes: each with its real framework, a scripted model and a daemon of its own. See recipes/README.md.

A recipe is a folder with README.md, an agent and a test. The file that says what it wants tells its language; a
language is a module here that can do what python.py can. Packages are installed once for all checkouts, in a folder
that is named after its hash. Two recipes are under way at a time: a download and a test go well together.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from harness import Daemon
from harness.daemon import REPO, binary
from recipes import python, typescript

RECIPES = REPO / "recipes"
LANGUAGES: list[ModuleType] = [python, typescript]
AT_ONCE = 2
LIMIT_SECONDS = 600
INSTALL_TRIES = 2


@dataclass
class Outcome:
    """A line of the table."""

    recipe: str
    framework: str
    version: str
    install_seconds: float = 0
    seconds: float = 0
    problem: str = ""

    def __str__(self) -> str:
        result = "FAILED" if self.problem else "passed"
        times = f"{self.install_seconds:9.1f} {self.seconds:9.1f}"
        return f"{self.recipe:<20} {self.framework:<20} {self.version:<10} {times}  {result}"


HEADER = f"{'recipe':<20} {'framework':<20} {'version':<10} {'install s':>9} {'test s':>9}  result"


class RecipeError(Exception):
    """A recipe did not do what it should, in words for people."""


def language_of(recipe: Path) -> ModuleType:
    """The language that a recipe is in."""
    for language in LANGUAGES:
        if (recipe / language.WANTED).is_file():
            return language
    raise SystemExit(f"{recipe} has no {' or '.join(language.WANTED for language in LANGUAGES)}")


def installed(recipe: Path, cache: Path) -> Path:
    """Where its packages are; they are installed now if need be."""
    language = language_of(recipe)
    if not (recipe / language.LOCK).is_file():
        raise RecipeError(f"it has no {language.LOCK}: scripts/recipes --lock {recipe.name} makes it")
    key = (recipe / language.LOCK).read_bytes() + sys.version.encode()
    name = language.framework(recipe)[0].replace("/", "-")
    place = cache / f"{name}-{hashlib.sha256(key).hexdigest()[:16]}"
    complete = place / ".complete"
    cache.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in reversed(range(INSTALL_TRIES)):
            if complete.exists():
                break
            try:
                language.install(recipe, place)
                complete.touch()
            except subprocess.CalledProcessError as e:
                if not left:
                    raise RecipeError(f"its packages could not be installed (exit status {e.returncode})") from e
    return place


def test(recipe: Path, place: Path, folder: Path) -> None:
    """Run its tests in an empty folder. It must have used a sandbox, and have left none."""
    language = language_of(recipe)
    daemon = Daemon(folder / "data")
    try:
        daemon.wait_ready()
        env = {
            "PATH": f"{binary().parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": str(daemon.home),
            "TMPDIR": str(folder),
            "PANDASTACK_API": daemon.url,
            "PANDASTACK_API_KEY": daemon.key,
            **language.environment(recipe, place),
        }
        command = language.command(recipe, place, folder)
        try:
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired as e:
            raise RecipeError(f"not done after {LIMIT_SECONDS} s\n{e.stdout!r}") from e
        if done.returncode:
            raise RecipeError(f"{done.stdout}\n{done.stderr}")
        left = daemon.api.list()
        if left:
            raise RecipeError(f"it left sandboxes: {left}")
        daemon.stop()
        if not any(record.get("msg") == "sandbox created" for record in daemon.records):
            raise RecipeError("it did not use a sandbox")
        daemon.check_clean()
    finally:
        daemon.dispose()


def run(recipe: Path, cache: Path) -> Outcome:
    """Install and test one."""
    outcome = Outcome(recipe.name, *language_of(recipe).framework(recipe))
    try:
        start = time.monotonic()
        place = installed(recipe, cache)
        outcome.install_seconds = time.monotonic() - start
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="pandastack-recipe-") as folder:
            test(recipe, place, Path(folder))
        outcome.seconds = time.monotonic() - start
    except (RecipeError, AssertionError, OSError, subprocess.SubprocessError) as e:
        outcome.problem = str(e) or repr(e)
    return outcome


def main() -> None:
    """Print the table; exit status 1 when a recipe failed."""
    names = sorted(p.parent.name for p in RECIPES.glob("*/README.md"))
    parser = argparse.ArgumentParser(prog="scripts/recipes", description="Run the recipes and print a table.")
    parser.add_argument("recipe", nargs="*", help="only these")
    parser.add_argument("--lock", action="store_true", help="write down anew which packages these take, and end")
    args = parser.parse_args()
    unknown = set(args.recipe) - set(names)
    if unknown:
        parser.error(f"no recipe {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen = [RECIPES / name for name in args.recipe or names]
    cache = Path(os.environ["PANDASTACK_RECIPE_CACHE"])
    os.environ["UV_CACHE_DIR"] = str(cache / "uv")
    if args.lock:
        for recipe in chosen:
            language_of(recipe).lock(recipe)
        return
    print(HEADER, flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = []
        for outcome in pool.map(lambda recipe: run(recipe, cache), chosen):
            print(outcome, flush=True)
            outcomes.append(outcome)
    failed = [o for o in outcomes if o.problem]
    for outcome in failed:
        print(f"\n---- {outcome.recipe} ----\n{outcome.problem}")
    print(f"\n{len(outcomes) - len(failed)} passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
