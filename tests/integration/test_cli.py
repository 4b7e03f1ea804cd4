# SPDX-License-Identifier: Apache-2.0
"""The command line against the daemon."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness import Daemon, Sandbox
from harness.cli import Cli
from harness.daemon import REPO
from harness.terminal import Terminal

SECONDS = 120


# Clears the screen, and more, where it comes to a terminal as it is.
CONTROLS = ("\x1b[2J", "\x7f", "\x9b31m", "\u202e")


class HostileDaemon(BaseHTTPRequestHandler):
    """Every text that it says wants to control the terminal."""

    def answer(self) -> None:
        text = "a" + "".join(CONTROLS)
        keys = ["id", "name", "semver", "status", "template", "created_at", "bytes", "freed_bytes", "kept_bytes"]
        thing: dict[str, Any] = dict.fromkeys(keys, text)
        thing |= {"metadata": {text: text}, "egress": {"allow": [text]}, "children": [text], "error": text}
        thing["events"] = [{"time": text, "type": text, "payload": {text: [text]}}]
        thing["removed"] = [{"kind": text, "name": text, "bytes": text}]
        lists = self.command == "GET" and re.fullmatch("/v1/(sandboxes|snapshots|templates)", self.path.split("?")[0])
        body = json.dumps([thing] if lists else thing, ensure_ascii=False).encode()
        self.send_response(400 if self.path.endswith("/exec") else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = do_PATCH = answer  # noqa: N815 - http.server names them

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    """The address of one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), HostileDaemon) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def cli(daemon: Daemon, tmp_path: Path) -> Cli:
    return Cli(daemon, tmp_path)


def test_run_code(cli: Cli, daemon: Daemon) -> None:
    before = daemon.api.ids()
    done = cli.run("run", "-c", "import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
    assert (done.returncode, done.stdout.split(), done.stderr.strip()) == (0, ["out", "42"], "err")
    assert daemon.api.ids() == before, "the sandbox is gone"


def test_run_file_and_stdin(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(sum(range(10)))\n")
    assert cli.ok("run", str(script)).strip() == "45"
    assert cli.ok("run", stdin="print(1 + 1)").strip() == "2"
    assert cli.ok("run", "-", stdin="print(1 + 2)").strip() == "3"


def test_run_exit_status_is_the_codes(cli: Cli) -> None:
    assert cli.run("run", "-c", "import sys; sys.exit(3)").returncode == 3
    done = cli.run("run", "-c", "print('before')\n1/0")
    assert done.returncode == 1
    assert done.stdout == "before\n"
    assert "ZeroDivisionError: division by zero" in done.stderr


def test_run_other_languages(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "script.mjs"
    script.write_text("import { EOL } from 'node:os'\nconsole.log(EOL.length)\nprocess.exit(4)\n")
    done = cli.run("run", str(script))
    assert (done.returncode, done.stdout) == (4, "1\n")
    done = cli.run("run", "--language", "bash", "-c", "echo $((6 * 7)); exit 3")
    assert (done.returncode, done.stdout) == (3, "42\n")
    done = cli.run("run", "-l", "cobol", "-c", "x")
    assert done.returncode == 2
    assert "python, javascript, bash" in done.stderr


def test_run_saves_charts(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "charts"
    cli.ok("run", "--out", str(out), "-c", "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()")
    charts = list(out.glob("*.png"))
    assert len(charts) == 1
    assert charts[0].read_bytes().startswith(b"\x89PNG")


def test_run_json(cli: Cli) -> None:
    got = cli.json("run", "-c", "6 * 7")
    assert got["results"] == [{"text/plain": "42"}]
    assert got["exit_code"] == 0


def test_run_that_times_out(cli: Cli, daemon: Daemon) -> None:
    before = daemon.api.ids()
    done = cli.run("run", "--timeout", "1s", "-c", "print('up', flush=True)\nwhile True: pass")
    assert done.returncode != 0
    assert done.stdout == "up\n"
    assert "timeout" in done.stderr
    assert daemon.api.ids() == before


def test_run_interrupted_from_the_keyboard(cli: Cli, daemon: Daemon) -> None:
    before = daemon.api.ids()
    with cli.popen("run", "-c", "print('up', flush=True)\nwhile True: pass") as p:
        assert p.stdout
        assert p.stdout.readline() == "up\n"
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=SECONDS)
    assert p.returncode == 130
    assert "KeyboardInterrupt" in err
    assert daemon.api.ids() == before


def test_run_that_is_terminated_leaves_no_sandbox(cli: Cli, daemon: Daemon) -> None:
    before = daemon.api.ids()
    with cli.popen("run", "-c", "print('up', flush=True)\nwhile True: pass") as p:
        assert p.stdout
        assert p.stdout.readline() == "up\n"
        p.terminate()
        p.communicate(timeout=SECONDS)
    assert daemon.api.ids() == before


def test_sandbox_life(cli: Cli) -> None:
    sandbox_id = cli.ok("sandbox", "create", "--ttl", "10m", "-m", "task=cli", "-m", "x=y z").strip()
    try:
        assert cli.json("sandbox", "get", sandbox_id)["metadata"] == {"task": "cli", "x": "y z"}
        assert cli.json("sandbox", "get", sandbox_id)["ttl_seconds"] == 600
        assert sandbox_id in cli.ok("sandbox", "list", "-m", "task=cli")
        assert [s["id"] for s in cli.json("sandbox", "list", "-m", "task=cli")] == [sandbox_id]
        assert cli.json("sandbox", "list", "-m", "task=other") == []
        assert "running" in cli.ok("sandbox", "get", sandbox_id[:8])
    finally:
        done = cli.run("sandbox", "rm", sandbox_id[:13])
    assert done.returncode == 0, done
    gone = cli.run("sandbox", "get", sandbox_id)
    assert gone.returncode == 3
    assert gone.stdout == ""
    assert gone.stderr.startswith("pandastack")


def test_sandbox_exec(cli: Cli, box: Sandbox) -> None:
    done = cli.run("sandbox", "exec", box.id, "--", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert cli.ok("sandbox", "exec", box.id, "--", "printf", "%s|", "a b", "$HOME", "it's") == "a b|$HOME|it's|"
    assert cli.ok("sandbox", "exec", box.id, "--cwd", "/usr", "--env", "A=é", "--", "echo $PWD $A") == "/usr é\n"
    assert cli.run("sandbox", "exec", box.id, "--", "kill -9 $$").returncode == 137
    assert cli.run("sandbox", "exec", box.id, "--", "no-such-command").returncode == 127
    got = cli.run("sandbox", "exec", box.id, "--json", "--", "echo x; exit 4")
    assert got.returncode == 4
    assert json.loads(got.stdout)["stdout"] == "x\n"
    late = cli.run("sandbox", "exec", box.id, "--timeout", "1s", "--", "sleep 300")
    assert late.returncode == 6
    assert "timeout" in late.stderr


def test_what_goes_on_in_a_sandbox(cli: Cli, sandbox: Callable[..., Sandbox]) -> None:
    s = sandbox("base")
    number = cli.ok("sandbox", "exec", s.id, "--detach", "--", "echo up; sleep 1000").strip()
    assert json.loads(cli.ok("sandbox", "exec", s.id, "-d", "--json", "--", "true"))["id"] == int(number) + 1
    assert cli.run("sandbox", "exec", s.id, "-d", "--cwd", "/no/such", "--", "true").returncode == 2
    row = next(r.split("\t") for r in cli.ok("sandbox", "ps", s.id).splitlines() if r.startswith(f"{number}\t"))
    assert row[2:4] == ["running", "-"]
    assert row[-1] == "echo up; sleep 1000"
    assert cli.json("sandbox", "ps", s.id)[0]["id"] == int(number)

    following = cli.popen("sandbox", "logs", s.id, "-f", "--tail", "1", "--stream", "stdout")
    assert following.stdout is not None
    assert following.stdout.readline() == "up\n"
    cli.ok("sandbox", "exec", s.id, "--", "echo one; echo two >&2")
    assert following.stdout.readline() == "one\n"
    assert sorted(cli.ok("sandbox", "logs", s.id).splitlines()) == ["one", "two", "up"]
    assert cli.ok("sandbox", "logs", s.id, "--stream", "stdout", "-n", "1") == "one\n"
    assert cli.run("sandbox", "logs", s.id, "--stream", "nonsense").returncode == 2
    assert cli.run("sandbox", "logs", s.id, "--tail", "many").returncode == 2
    cli.ok("sandbox", "exec", s.id, "--", "echo three")
    assert following.stdout.readline() == "three\n"
    following.send_signal(signal.SIGINT)
    assert following.wait(SECONDS) != 0

    s.pause()
    events = cli.ok("sandbox", "events", s.id).splitlines()
    assert [e.split()[1] for e in events] == ["sandbox.running", "sandbox.paused"]
    assert cli.json("sandbox", "events", s.id, "-n", "1")[0]["type"] == "sandbox.paused"
    plain = cli.popen("sandbox", "events", s.id, "-f")
    for_programs = cli.popen("sandbox", "events", s.id, "--follow", "--tail", "1", "--json")
    assert plain.stdout is not None
    assert for_programs.stdout is not None
    assert [plain.stdout.readline().split()[1] for _ in range(2)] == ["sandbox.running", "sandbox.paused"]
    assert json.loads(for_programs.stdout.readline())["type"] == "sandbox.paused"
    s.delete()
    out, err = plain.communicate(timeout=SECONDS)
    assert (plain.returncode, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()] == ["sandbox.deleted"]
    out, err = for_programs.communicate(timeout=SECONDS)
    assert (for_programs.returncode, err) == (0, "")
    assert [json.loads(line)["type"] for line in out.splitlines()] == ["sandbox.deleted"]
    assert cli.run("sandbox", "events", s.id).returncode == 3


def test_sandbox_cp(cli: Cli, box: Sandbox, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "up.bin").write_bytes(data)
    cli.ok("sandbox", "cp", str(tmp_path / "up.bin"), f"{box.id}:/tmp/cli/")
    assert box.read("/tmp/cli/up.bin") == data
    cli.ok("sandbox", "cp", f"{box.id}:/tmp/cli/up.bin", str(tmp_path / "down.bin"))
    assert (tmp_path / "down.bin").read_bytes() == data
    cli.ok("sandbox", "cp", f"{box.id}:/tmp/cli/up.bin", str(tmp_path / "sub dir é.bin"))
    assert (tmp_path / "sub dir é.bin").read_bytes() == data
    cli.ok("sandbox", "cp", "-", f"{box.id}:/tmp/cli/-rf", stdin="from stdin")
    assert cli.ok("sandbox", "cp", f"{box.id}:/tmp/cli/-rf", "-") == "from stdin"
    missing = cli.run("sandbox", "cp", f"{box.id}:/tmp/cli/none", str(tmp_path / "none"))
    assert missing.returncode == 3
    assert not (tmp_path / "none").exists()
    assert cli.run("sandbox", "cp", str(tmp_path / "none"), f"{box.id}:/tmp/x").returncode == 3
    assert cli.run("sandbox", "cp", str(tmp_path / "up.bin"), f"{box.id}:relative").returncode == 2


def test_templates_and_engines(cli: Cli) -> None:
    assert "code-interpreter" in cli.ok("template", "list")
    assert "code-interpreter" in [t["name"] for t in cli.json("template", "list")]
    assert "qemu" in cli.ok("engines")
    assert cli.json("engines")[0]["name"] == "qemu"
    missing = cli.run("template", "rm", "no-such")
    assert missing.returncode == 3
    assert "no-such" in missing.stderr


def test_errors_say_what_to_do(cli: Cli) -> None:
    wrong = cli.run("sandbox", "list", PANDASTACK_API_KEY="pds_wrong")
    assert wrong.returncode == 4
    nobody = cli.run("sandbox", "list", PANDASTACK_API="http://127.0.0.1:1")
    assert nobody.returncode not in (0, 4)
    assert "pandastack serve" in nobody.stderr
    unknown = cli.run("sandbox", "create", "-t", "no-such")
    assert unknown.returncode == 2
    assert "code-interpreter" in unknown.stderr
    for done in (wrong, nobody, unknown):
        assert done.stdout == ""
        assert len(done.stderr.strip().splitlines()) <= 2, done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["sandbox"],
        ["sandbox", "nonsense"],
        ["sandbox", "exec"],
        ["sandbox", "create", "--nonsense"],
        ["sandbox", "create", "--ttl", "soon"],
        ["sandbox", "rm"],
        ["sandbox", "cp", "a", "b"],
        ["run", "-c", "1", "file.py"],
        ["serve", "--listen", "nonsense", "--data-dir", "/dev/null/x"],
    ],
)
def test_wrong_usage(cli: Cli, args: list[str]) -> None:
    done = cli.run(*args)
    assert done.returncode not in (0, -6, -11)
    assert done.stderr


@pytest.mark.parametrize("args", [[], ["sandbox"], ["sandbox", "create"], ["run"], ["serve"], ["template", "build"]])
def test_help(cli: Cli, args: list[str]) -> None:
    assert "pandastack" in cli.ok(*args, "--help")


def documented_commands() -> dict[str, str]:
    """The sections of docs/cli.md, by command; one headed "snapshot list, rm" is about two."""
    sections: dict[str, str] = {}
    for section in (REPO / "docs" / "cli.md").read_text().split("\n## ")[1:]:
        heading, text = section.split("\n", 1)
        group = heading.split()[0]
        for name in heading.split(", "):
            sections[name] = sections[f"{group} {name}"] = text
    return sections


@pytest.mark.parametrize("json_too", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        "gc",
        "run -c 1 --keep",
        "sandbox create",
        "sandbox events a",
        "sandbox exec a true",
        "sandbox fork a",
        "sandbox get a",
        "sandbox list",
        "sandbox network a",
        "sandbox ps a",
        "snapshot create a",
        "snapshot list",
        "template list",
        "template rm a",
        "version",
    ],
)
def test_nothing_that_a_daemon_says_controls_the_terminal(
    cli: Cli, hostile: str, command: str, json_too: bool
) -> None:
    argv = [str(cli.program), *command.split(), *(["--json"] if json_too else [])]
    with Terminal(argv, {**cli.env, "PANDASTACK_API": hostile, "TERM": "xterm"}) as t:
        _, err = t.wait()
        shown = t.rest() + err
    assert shown
    assert not [c for c in CONTROLS if c in shown], shown


def test_json_for_programs_is_as_it_is(cli: Cli, hostile: str) -> None:
    done = cli.run("sandbox", "list", "--json", PANDASTACK_API=hostile)
    assert json.loads(done.stdout)[0]["id"] == "a" + "".join(CONTROLS)
    assert CONTROLS[-1] in done.stdout


def test_every_command_and_option_is_documented(cli: Cli) -> None:
    sections = documented_commands()
    commands = re.findall(r"^  ((?:[a-z]+ )?[a-z-]+)  +[a-z]", cli.ok("--help"), re.MULTILINE)
    assert len(commands) > 20
    for command in commands:
        assert command in sections
        listed = cli.ok(*command.split(), "--help")
        for short, long in re.findall(r"^  (?:(-\w), |    )?(--[a-z-]+)", listed, re.MULTILINE):
            named = re.search(rf"(?<![\w-])({long}|{short or long})(?![\w-])", sections[command])
            assert named or long in ("--json", "--help"), f"{command} {long}"


def test_the_config_file_is_found(daemon: Daemon, tmp_path: Path) -> None:
    """Where neither variable is set."""
    cli = Cli(daemon, tmp_path)
    del cli.env["PANDASTACK_API"], cli.env["PANDASTACK_API_KEY"]
    config = tmp_path / ".config" / "pandastack" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"api_url": daemon.url, "api_key": daemon.key}))
    assert cli.run("sandbox", "list").returncode == 0


def test_default_folders(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """An ordinary user's daemon writes its key where the command line and the SDKs of that user find it."""
    home = tmp_path / "home"
    # An ordinary user also where the tests run as root, whose folder would be the machine's own.
    as_user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []
    d = make_daemon(home / ".local/share/pandastack", env={"HOME": str(home)}, wrapper=as_user).wait_ready()
    config = home / ".config/pandastack/config.json"
    assert json.loads(config.read_text()) == {"api_url": d.url, "api_key": d.key}
    assert config.stat().st_mode & 0o777 == 0o600
    cli = Cli(d, home)
    del cli.env["PANDASTACK_API"], cli.env["PANDASTACK_API_KEY"]
    assert cli.ok("run", "-c", "print('found')") == "found\n"
    d.stop()
    d.check_clean()
