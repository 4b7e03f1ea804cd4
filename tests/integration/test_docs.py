# SPDX-License-Identifier: Apache-2.0
"""Every block of code in README.md, docs/ and the recipes' pages is run, here or by the test that ELSEWHERE names.

Those of a shell are run here, on a checkout of their own and in the order of the page, with the daemon that the page
starts. A `console` block is a transcript: each command is typed on a terminal and shows what the page says; an `sh`
block is a script that must succeed.

Numbers, times and ids are others each time, so lines are compared without them; "…" in a page is anything. An id of
the page stands for the one that the same command printed here; one that no command printed gets a sandbox before its
first use, as does $ID.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from harness import Daemon
from harness.cli import Cli
from harness.daemon import REPO, binary, templates
from harness.docs import Block, blocks, pages
from harness.node import MAJOR, NEWER, Node, find_node
from recipes import story
from recipes.openai_server import scripted, told

SHELL = ("console", "sh")
# By language, and by page and language where a page has a test of its own: who runs, compares or parses a block.
ELSEWHERE = {
    "python": "sdk/python/tests/integration/test_docs.py",
    "ts": "sdk/typescript/test/daemon/docs.test.ts",
    "docs/charts.md python": "tests/integration/test_charts.py",
    "docs/charts.md json": "tests/integration/test_charts.py",
    "docs/mcp.md json": "tests/conformance/test_mcp_clients.py",
    "docs/reference-python.md python": "sdk/python/generate.py",
    "docs/reference-typescript.md ts": "sdk/typescript/scripts/generate.mjs",
}
# By the first words of a block: why it is not run.
NOT_RUN = {
    "pandastack sandbox ssh": "it is typed into: test_terminal.py",
    "pandastack port-forward": "it goes on until Ctrl-C: test_cli_ports.py",
    "pandastack template rm base": "it would take the template of all other tests: test_snapshot_templates.py",
    "pandastack gc": "it would free what other tests stand on: test_snapshot_templates.py",
    "pandastack engines": "it is about the machine: test_engine.py",
    "pandastack template build code-interpreter": "scripts/test does it before all tests",
    "pandastack template build r": "it takes many minutes, and nothing that the others do not",
    "make demo": "it installs packages and bakes, as root for all users; what it shows is test_the_demo below",
    "make recipes": "a step of scripts/test",
    "claude mcp add": "Claude Code is not to be had here; test_mcp_clients.py tries the same configuration as JSON",
    "templates/build-rootfs": "what a template build calls, by itself: it takes minutes",
    "machine   2 cores": "figures, by `make bench`",
    "outside: 2 cores": "figures, by `make bench-kernel`",
    "<data>/snapshots": "a picture of folders",
    "geo/": "a picture of a folder",
}
# The recipes that are typed here as their page says, and what must be shown then.
TYPED = {
    "data-analyst": [story.ANSWER],
    "mcp-server": ["tools: ", "[2] 42"],
    "stream-output": ["step 3", "exit code 0"],
    "vercel-ai-sdk": ["Traceback", story.ANSWER],
}
RECIPES = [page for page in pages("sh") if page.startswith("recipes/") and page != "recipes/README.md"]

SECONDS = 20
PROMPT = "$ "
# Of sandboxes that are there already: how they were made, and what runs in them.
OPTIONS = {"b82f": ["--persistent"]}
SERVER = (
    "(python3 -m http.server 8000 >/tmp/log 2>&1 &);"
    " until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>&-; do sleep 0.1; done"
)
RUNS = {"c9cc": SERVER}
# What these show becomes true after a moment, and may have more lines.
LOOKS = re.compile(r"[ /](list|ps|logs|ports|events)\b")
SERVE = re.compile(r"^(?:build/)?pandastack serve\b(.*?)(?: &)?$", re.MULTILINE)

UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# Of four hexadecimal digits, of which one is a letter.
PREFIX = re.compile(r"(?<![\w./-])(?=\d*[a-f])[0-9a-f]{4}(?![\w.-])")


def reason_not_to_run(block: Block) -> str | None:
    """A key of NOT_RUN."""
    return next((words for words in NOT_RUN if block.text.removeprefix(PROMPT).startswith(words)), None)


def scripts_of(page: str) -> list[Block]:
    """What of it is for a shell, and run."""
    return [block for block in blocks(page) if block.language in SHELL and not reason_not_to_run(block)]


def steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a transcript, with what they show."""
    command, shown = "", list[str]()
    for line in text.splitlines():
        if not line.startswith(PROMPT):
            shown.append(line)
            continue
        if command:
            yield command, shown
        command, shown = line[len(PROMPT) :], []
    yield command, shown


def shape(line: str) -> str:
    """A line without what is different each time."""
    line = UUID.sub("ID", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
    line = re.sub(r"0x[0-9a-f]+", "ADDRESS", line)
    line = re.sub(r"\b(tcg|kvm)\b", "ACCELERATOR", line)
    line = re.sub(r"(?<=; there are: ).*", "TEMPLATES", line)
    line = re.sub(r"\d+(\.\d+)*", "N", line)
    line = re.sub(r"N ([kMG]?B)\b", "N BYTES", line)
    return re.sub(r"\s+", " ", re.sub(r"\bN(ms|s|m|h|d)\b", "N", line)).strip()


def is_same(wanted: str, shown: str) -> bool:
    pieces = map(re.escape, shape(wanted).split("…"))
    return re.fullmatch(".*".join(pieces), shape(shown)) is not None


def is_within(wanted: list[str], shown: list[str]) -> bool:
    """All lines in this order, perhaps with others between them."""
    rest = iter(shown)
    return all(any(is_same(line, other) for other in rest) for line in wanted)


def are_same(wanted: list[str], shown: list[str]) -> bool:
    return len(wanted) == len(shown) and is_within(wanted, shown)


def write_definition(folder: Path, definition: dict[str, Any]) -> Path:
    """The folder of a template of that name."""
    place = folder / str(definition["name"])
    place.mkdir()
    (place / "template.json").write_text(json.dumps(definition))
    return place


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user has after `git clone` and `make`, as far as the pages name it; what they install stays in it."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("examples", "recipes", "sdk"):
        shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("node_modules", "dist", ".*_cache"))
    (folder / "build").mkdir()
    (folder / "build" / "pandastack").symlink_to(binary())
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (folder / "venv" / "bin" / "node").symlink_to(Node("docs", (), NEWER).node)
    return folder


class Page:
    """Runs the commands of a page, with a daemon and ids of its own."""

    def __init__(self, checkout: Path, make_daemon: Callable[..., Daemon], folder: Path, env: dict[str, str]) -> None:
        self.checkout = checkout
        self.make_daemon = make_daemon
        self.folder = folder
        self.more = env
        self.templates = templates()
        self.ids: dict[str, str] = {}
        self.serve([])

    def serve(self, args: list[str]) -> None:
        """From now on it is about this daemon."""
        self.daemon = self.make_daemon(args=args, template_dir=self.templates).wait_ready()
        self.cli = Cli(self.daemon, self.daemon.home)
        config = self.daemon.home / ".config" / "pandastack"  # as with the data folder of a user
        config.mkdir(parents=True)
        shutil.copy(self.daemon.data_dir / "config.json", config)
        beside = [str(binary()), sys.executable, find_node(MAJOR) or ""]  # npm is beside node
        path = [f"{self.checkout}/venv/bin", *map(os.path.dirname, beside), os.environ["PATH"]]
        home = Path.home()
        self.env = {
            **self.cli.env,
            "PATH": ":".join(filter(None, path)),
            "TERM": "xterm",
            "NO_COLOR": "1",
            # What the person who runs the tests has set up for installs.
            "PIP_CACHE_DIR": f"{home}/.cache/pip",
            "npm_config_cache": f"{home}/.npm",
            "npm_config_userconfig": f"{home}/.npmrc",
            **self.more,
        }

    def end(self) -> None:
        """Nothing is left of it."""
        for sandbox in self.daemon.api.ids():
            self.daemon.api.sandbox(sandbox).discard()
        self.daemon.stop()
        self.daemon.check_clean()

    def bakes(self, definition: str) -> None:
        """It makes a template of this, on top of `base`, which is not for others."""
        write_definition(self.checkout, json.loads(definition))
        self.templates = self.folder / "templates"
        self.templates.mkdir()
        subprocess.run(["cp", "-a", "--reflink=auto", templates() / "base", self.templates], check=True)

    def made(self, name: str) -> str:
        """The sandbox that stands for this id of the page."""
        if name not in self.ids:
            self.ids[name] = self.cli.ok("sandbox", "create", "-t", "base", *OPTIONS.get(name, [])).strip()
            if name in RUNS:
                self.cli.ok("sandbox", "exec", self.ids[name], "--", RUNS[name])
        return self.ids[name]

    def translated(self, text: str) -> str:
        """With the daemon, the key and the ids that there are here."""
        if "$ID" in text:
            self.env["ID"] = self.made("ID")
        text = PREFIX.sub(lambda found: self.made(found[0])[:8], text)
        text = text.replace("http://127.0.0.1:8080", self.daemon.url).replace("pds_...", self.daemon.key)
        return re.sub(r"template build \S+", rf"\g<0> --templates {self.templates}", text)

    def script(self, text: str) -> str:
        """What a script prints, which must succeed. A daemon that it starts is one of the tests'."""
        for args in SERVE.findall(text):
            self.end()
            where = args.replace("/var/cache", str(self.folder))
            self.serve(shlex.split(where, comments=True))
        mine = self.translated(SERVE.sub("", text))
        done = subprocess.run(
            ["bash", "-e", "-c", mine],
            cwd=self.checkout,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{mine}\nends with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def shown(self, command: str) -> list[str]:
        """What a terminal shows of it."""
        fd, tty = pty.openpty()
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=self.checkout, env=self.env, stdin=tty, stdout=tty, stderr=tty
        )
        os.close(tty)
        text = b""
        while piece := self._read(fd):
            text += piece
        os.close(fd)
        process.wait(SECONDS)
        lines = text.decode().replace("\r\n", "\n")
        return re.sub(r"[^\n]*\r\x1b\[K", "", lines).splitlines()  # progress was shown, and taken away

    @staticmethod
    def _read(fd: int) -> bytes:
        try:
            return os.read(fd, 65536)
        except OSError:  # nobody has the other end any more
            return b""

    def transcript(self, command: str, wanted: list[str]) -> str | None:
        """What is wrong with what it shows."""
        mine = self.translated(command)
        deadline = time.monotonic() + SECONDS
        while True:
            shown = self.shown(mine)
            for theirs, ours in zip(wanted, shown, strict=False):
                if UUID.fullmatch(theirs) and UUID.fullmatch(ours):
                    self.ids[theirs[:4]] = ours
            text = "\n".join(shown)
            for prefix, real in self.ids.items():
                text = re.sub(rf"\b{real[:8]}\b(?!-)", prefix, text)
            looks = bool(LOOKS.search(command))
            if (is_within if looks else are_same)(wanted, text.splitlines()):
                return None
            if not looks or time.monotonic() >= deadline:
                return f"{command}\nshows\n{text}\nand not\n" + "\n".join(wanted)


@pytest.fixture
def page(checkout: Path, make_daemon: Callable[..., Daemon], tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """A page that is read from its beginning, with these variables."""
    made: list[Page] = []

    def make(env: dict[str, str] | None = None) -> Page:
        made.append(Page(checkout, make_daemon, tmp_path, env or {}))
        return made[-1]

    yield make
    for each in made:
        each.end()
        shutil.rmtree(each.folder / "templates", ignore_errors=True)  # gigabytes, which pytest would keep


def test_every_block_is_run() -> None:
    """A block of a language that nobody runs fails, and so does a reason that is no longer needed."""
    nobody: list[str] = []
    reasons = set(NOT_RUN)
    for name in pages():
        before = ""
        for block in blocks(name):
            reason = reason_not_to_run(block)
            reasons.discard(reason or "")
            here = block.language in SHELL or (block.language == "json" and name in JSON)
            there = f"{name} {block.language}" in ELSEWHERE or block.language in ELSEWHERE
            output = block.language == "text" and before in ("python", "ts")
            if not (reason or here or there or output):
                nobody.append(f"{block}: a block of {block.language or 'no language'}")
            before = block.language
    assert not nobody, "nobody runs these; give them a language, a test, or a reason in NOT_RUN"
    assert not reasons, "there is no such block"


def test_who_runs_the_others() -> None:
    for what, runner in ELSEWHERE.items():
        text = (REPO / runner).read_text()
        name = what.split()[0] if " " in what else "docs"
        assert name.split("/")[-1] in text, f"{runner} knows nothing of {name}"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [page for page in pages(*SHELL) if page not in RECIPES and scripts_of(page)])
def test_page(name: str, page: Callable[..., Page]) -> None:
    found = scripts_of(name)
    runs = page()
    if "template build" in found[-1].text:
        runs.bakes(next(block.text for block in blocks(name) if block.language == "json"))
    problems: list[str | None] = []
    for block in found:
        if block.language == "sh":
            runs.script(block.text)
        else:
            problems += [runs.transcript(command, wanted) for command, wanted in steps(block.text)]
    assert not any(problems), "\n\n".join(filter(None, problems))


def check_definition(text: str, tmp_path: Path) -> None:
    """All of it is as a build wants it, for what it stands on is looked at last."""
    folder = write_definition(tmp_path, {**json.loads(text), "from": "no-such-base"})
    command = [str(binary()), "template", "build", str(folder), "--templates", f"{tmp_path}/baked"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert "no-such-base" in done.stderr


def check_configuration(text: str, tmp_path: Path) -> None:
    """It is the file that the recipe reads."""
    assert json.loads(text) == json.loads((REPO / "recipes" / "mcp-server" / "mcp.json").read_text())


# What looks at the JSON of these pages.
JSON = {
    "docs/packages.md": check_definition,
    "docs/templates.md": check_definition,
    "recipes/mcp-server/README.md": check_configuration,
}


@pytest.mark.parametrize("name", JSON)
def test_json(name: str, tmp_path: Path) -> None:
    (block,) = (block for block in blocks(name) if block.language == "json")
    JSON[name](block.text, tmp_path)


# ---- the recipes ----

# What a recipe's page says to type, by the file with what it wants.
LINES = {
    "requirements.txt": r"""pip install( ./sdk/python)?( -r recipes/NAME/requirements.txt)?
build/pandastack serve &
(export OPENAI_API_KEY=sk-...
)?((PATH=[$]PWD/build:[$]PATH )?python recipes/NAME/agent.py .+
)+""",
    "package.json": r"""npm ci --prefix sdk/typescript
cd recipes/NAME && npm install --no-save ../../sdk/typescript && cd ../..
build/pandastack serve &
export OPENAI_API_KEY=sk-...
node recipes/NAME/agent.ts .+
""",
}


@pytest.mark.parametrize("page", RECIPES)
def test_recipe_names_what_its_test_runs(page: str) -> None:
    """Those that are not typed here have a framework that takes long to install: scripts/recipes does that."""
    folder = (REPO / page).parent
    (block,) = scripts_of(page)
    python = (folder / "requirements.txt").exists()
    lines = LINES["requirements.txt" if python else "package.json"].replace("NAME", folder.name)
    assert re.fullmatch(lines, block.text)
    for path in re.findall(r"(?<!/)\b(?:recipes|sdk|examples)/[\w./-]+", block.text):
        assert (REPO / path).exists(), path
    agent = folder / ("agent.py" if python else "agent.ts")
    assert len(agent.read_text().splitlines()) < 80, "it is read as a whole"
    test = (folder / ("test_agent.py" if python else "agent.test.ts")).read_text()
    assert re.search(r"^(import|from) agent\b" if python else r'from "./agent.ts"', test, re.MULTILINE)
    if python:
        wants = re.search(r"^[^#]", (folder / "requirements.txt").read_text(), re.MULTILINE)
        assert bool(wants) == (" -r " in block.text)


@pytest.mark.parametrize("page", RECIPES)
def test_recipe_is_of_the_versions_that_it_names(page: str) -> None:
    """What a user installs is what the table names and the test has. npm compares package.json and its lock."""
    folder = (REPO / page).parent
    table = (REPO / "docs" / "recipes.md").read_text().splitlines()
    row = next(line for line in table if f"(../recipes/{folder.name})" in line)
    if (folder / "package.json").exists():
        wanted = list(json.loads((folder / "package.json").read_text())["dependencies"].items())
    else:
        wanted = re.findall(r"^([\w-]+)(?:\[\w+\])?==(\S+)$", (folder / "requirements.txt").read_text(), re.MULTILINE)
        lock = (folder / "requirements.lock").read_text().splitlines()
        assert {f"{name}=={version}" for name, version in wanted} <= set(lock)
    assert all(version in row for _, version in wanted[:1]), row


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TYPED)
def test_recipe_as_it_is_typed(name: str, page: Callable[..., Page]) -> None:
    """Installed and run, with a scripted model in place of OpenAI's."""
    with scripted(*told()) as server:
        runs = page(server.environment)
        (block,) = scripts_of(f"recipes/{name}/README.md")
        shown = runs.script(block.text)
    for words in TYPED[name]:
        assert shown.count(words) == 1, shown
    assert runs.daemon.api.list() == []


# ---- the demonstration ----


def test_the_demo(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make demo` does when all is built and baked."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_loader("demo", SourceFileLoader("demo", str(REPO / "scripts" / "demo")))
    assert spec
    assert spec.loader
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    monkeypatch.setattr(demo, "PROGRAM", binary())
    with demo.running_daemon(templates()) as shown:
        story.check_png(demo.analyse(shown))


# ---- how lines are compared ----


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("AGE  3m  849.5 MB", "AGE 12s  1.2 GB", True),
        ("7a1c506c-11b0-4499-b50c-f8f62db95bc8 base", "1a1c506c-11b0-4499-b50c-f8f62db95bc9 base", True),
        ("running", "paused", False),
        ("N=3", "N=x", False),
        ('{"token":"eyJz…","port":8000}', '{"token":"eyJzhx.kec_a","port":7}', True),
        ('{"token":"…"}', '{"tokens":"x"}', False),
    ],
)
def test_is_same(one: str, other: str, same: bool) -> None:
    assert is_same(one, other) is same
