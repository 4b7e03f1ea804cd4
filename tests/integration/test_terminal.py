# SPDX-License-Identifier: Apache-2.0
"""Terminals in a sandbox: by WebSocket, and by the command line on a terminal of this machine."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import Api, Daemon, Sandbox
from harness.cli import Cli
from harness.terminal import Terminal
from harness.websocket import RefusedError, WebSocket

MIB = 1 << 20
SECONDS = 60


def until(ws: WebSocket, text: str) -> str:
    """What it shows, up to that."""
    shown = b""
    while text.encode() not in shown:
        message = ws.receive()
        assert isinstance(message, bytes), (message, shown)
        shown += message
    return shown.decode()


def to_the_end(ws: WebSocket) -> tuple[str, str | None]:
    """What it shows, and its last text message."""
    shown, last = b"", None
    while (message := ws.receive()) is not None:
        if isinstance(message, str):
            assert last is None
            last = message
        else:
            assert last is None
            shown += message
    assert ws.closed == 1000, ws.reason
    return shown.decode(), last


def ended(code: int, **more: int) -> str:
    """The last message."""
    extra = "".join(f',"{k}":{v}' for k, v in more.items())
    return f'{{"exit":{code},"type":"exit","code":{code}{extra}}}'


# ---- by WebSocket ----


def test_a_command(box: Sandbox) -> None:
    cmd = "tty; stty size; pwd; id -un; echo $TERM; exit 3"
    with box.socket("exec/pty", cmd=cmd, rows=40, cols=132, cwd="/tmp", user="nobody") as ws:
        shown, last = to_the_end(ws)
    tty, *lines = shown.split("\r\n")
    assert tty.startswith("/dev/pts/")
    assert lines == ["40 132", "/tmp", "nobody", "xterm-256color", ""]
    assert last == ended(3)


def test_a_signal_ends_it(box: Sandbox) -> None:
    with box.socket("exec/pty", cmd="kill -9 $$") as ws:
        assert to_the_end(ws) == ("", ended(137, signal=9))


@pytest.mark.parametrize("form", ["binary", "stdin"])
def test_a_shell(box: Sandbox, form: str) -> None:
    def type_in(text: str) -> None:
        ws.send(text.encode() if form == "binary" else {"stdin": text})

    with box.socket("exec/pty") as ws:
        type_in("stty size; echo $((6 * 7))-\n")
        assert "24 80\r\n42-" in until(ws, "42-")
        for message, size in [
            ('{"resize":{"rows":50,"cols":100}}', "50 100"),
            ('{"type":"resize","rows":30,"cols":90}', "30 90"),
        ]:
            ws.send(message)
            type_in("stty size\n")
            until(ws, size)
        type_in("sleep 1000; echo $((1 + 1))-\n")
        until(ws, "sleep")
        box.output("until pgrep -x sleep; do sleep 0.05; done")
        type_in("\x03")  # Ctrl-C
        type_in("exit 7\n")
        assert to_the_end(ws)[1] == ended(7)


def test_ssh_ends_without_a_word(box: Sandbox) -> None:
    """The public command line would show it."""
    with box.socket("ssh", rows=24, cols=80) as ws:
        ws.send(b"stty size; exit 3\n")
        shown, last = to_the_end(ws)
        assert "24 80" in shown
        assert last is None


def test_a_resize_reaches_the_program(box: Sandbox) -> None:
    script = (
        "import signal, os; signal.signal(signal.SIGWINCH, lambda *a: print(os.get_terminal_size(0)));"
        "print('ready', flush=True)\nwhile True: signal.pause()"
    )
    box.write("/tmp/winch.py", script)
    with box.socket("exec/pty", cmd="exec python3 -u /tmp/winch.py") as ws:
        until(ws, "ready")
        ws.send({"resize": {"rows": 11, "cols": 222}})
        until(ws, "columns=222, lines=11")


def test_much_output_and_a_slow_reader(box: Sandbox, daemon: Daemon) -> None:
    with daemon.stays_small(), box.socket("exec/pty", cmd=f"head -c {4 * MIB} /dev/zero | tr '\\0' x") as ws:
        assert box.output("echo on") == "on\n"
        assert to_the_end(ws) == ("x" * (4 * MIB), ended(0))


def test_much_input(box: Sandbox) -> None:
    line = b"x" * 1000 + b"\n"
    with box.socket("exec/pty", cmd="stty raw -echo; echo ready; head -c 1001000 | md5sum") as ws:
        until(ws, "ready")
        for _ in range(1000):
            ws.send(line)
        shown, last = to_the_end(ws)
    assert last == ended(0)
    assert shown.split()[0] == hashlib.md5(line * 1000).hexdigest()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("ls\n", "the body is not valid JSON"),
        ({}, 'text must be {"resize":{"rows":24,"cols":80}} or {"stdin":"ls\\n"}'),
        ({"stdin": 1}, "text must be"),
        ({"resize": 1}, "text must be"),
        ({"resize": {}}, "a resize has `rows` and `cols`"),
        ({"resize": {"rows": 24}}, "a resize has `rows` and `cols`"),
        ({"resize": {"rows": 0, "cols": 1}}, "`rows` must be an integer between 1 and 1000"),
        ({"resize": {"rows": 1001, "cols": 1}}, "`rows` must be an integer between 1 and 1000"),
        ({"type": "resize", "rows": "x", "cols": 1}, "`rows` must be an integer between 1 and 1000"),
    ],
)
def test_what_is_no_message(box: Sandbox, message: str, reason: str) -> None:
    with box.socket("exec/pty") as ws:
        ws.send(message)
        while ws.receive() is not None:
            pass
        assert ws.closed == 1003
        assert ws.reason.startswith(reason)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"rows": "0"}, 400),
        ({"rows": "1001"}, 400),
        ({"cols": "x"}, 400),
        ({"cmd": "x" * 122_881}, 413),
        ({"cwd": "/" + "x" * 4095}, 413),
        ({"user": "x" * 257}, 413),
    ],
)
def test_what_is_refused_at_once(box: Sandbox, query: dict[str, str], status: int) -> None:
    with pytest.raises(RefusedError) as e:
        box.socket("exec/pty", **query)
    assert e.value.status == status


def test_what_the_guest_refuses(box: Sandbox) -> None:
    for query, reason in [({"user": "nosuch"}, "nosuch"), ({"cwd": "/no/such"}, "/no/such")]:
        with box.socket("exec/pty", **query) as ws:
            assert ws.receive() is None
            assert ws.closed == 1011
            assert reason in ws.reason


def test_a_client_that_goes_away_ends_it(box: Sandbox) -> None:
    for closes in (True, False):
        ws = box.socket("exec/pty", cmd="echo pid=$$.; trap '' HUP TERM; sleep 1000")
        pid = until(ws, ".").split("=")[1].split(".")[0]
        if closes:
            ws.close()
        ws.drop()
        box.output(f"while [ -e /proc/{pid} ]; do sleep 0.05; done", timeout_seconds=30)


def test_hibernation(sandbox: Callable[..., Sandbox]) -> None:
    s = sandbox("base")
    with s.socket("exec/pty") as ws:
        ws.send(b"echo $((6 * 7))-\n")
        until(ws, "42-")
        s.hibernate()
        while ws.receive() is not None:
            pass
        assert ws.closed == 1011
        assert "hibernated" in ws.reason
    with s.socket("exec/pty", cmd="echo woken") as ws:
        assert to_the_end(ws) == ("woken\r\n", ended(0))


def test_keys(api: Api, box: Sandbox) -> None:
    """As a browser shows one."""
    headers = {"Sec-WebSocket-Protocol": f"pds-pty, bearer.{api.key}"}
    with WebSocket(api.url, f"{box.path}/exec/pty?cmd=echo+on", headers) as ws:
        assert ws.headers["sec-websocket-protocol"] == "pds-pty"
        assert to_the_end(ws)[0] == "on\r\n"


# ---- on the command line ----


@pytest.fixture
def cli(daemon: Daemon, tmp_path: Path) -> Cli:
    return Cli(daemon, tmp_path)


@contextlib.contextmanager
def terminal(cli: Cli, *args: str) -> Iterator[Terminal]:
    """The program on a terminal."""
    with Terminal([str(cli.program), *args], cli.env) as t:
        yield t


def test_cli_shell(cli: Cli, box: Sandbox) -> None:
    with terminal(cli, "sandbox", "ssh", box.id[:8]) as t:
        t.type("stty size; echo $((6 * 7))-\n")
        assert "31 97" in t.until("42-")
        t.resize(20, 60)
        t.type("stty size\n")
        t.until("20 60")
        t.type("echo $((1 + 1))-; cat\n")
        t.until("2-\r\n")
        t.type("typed\n")
        t.until("typed\r\ntyped")
        t.type("\x03")
        t.until("# ")
        t.type("exit 9\n")
        assert t.wait() == (9, "")


def test_cli_command(cli: Cli, box: Sandbox) -> None:
    cmd = "pwd; test -t 0 && echo a terminal; exit 5"
    with terminal(cli, "sandbox", "exec", "-t", "--cwd", "/tmp", box.id, "--", cmd) as t:
        assert t.until("a terminal") == "/tmp\r\na terminal"
        assert t.wait() == (5, "")
    with terminal(cli, "sandbox", "exec", "--tty", box.id, "--", "kill -15 $$") as t:
        assert t.wait() == (143, "")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_cli_signals(cli: Cli, box: Sandbox, how: signal.Signals) -> None:
    with terminal(cli, "sandbox", "exec", "-t", box.id, "--", "echo pid=$$.; exec sleep 1000") as t:
        pid = t.until(".").split("=")[1].split(".")[0]
        assert termios.tcgetattr(t.tty) != t.before, "it is raw"
        t.process.send_signal(how)
        assert t.wait() == (130, "")
        box.output(f"while [ -e /proc/{pid} ]; do sleep 0.05; done", timeout_seconds=30)


def test_cli_sandbox_is_deleted(cli: Cli, sandbox: Callable[..., Sandbox]) -> None:
    s = sandbox("base")
    with terminal(cli, "sandbox", "ssh", s.id) as t:
        t.type("echo $((6 * 7))-\n")
        t.until("42-")
        s.delete()
        status, err = t.wait()
        assert status == 1
        assert err.startswith("pandastack: the terminal was closed: ")


def test_cli_daemon_is_killed(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    d = make_daemon().wait_ready()
    s = d.api.create("base")
    with terminal(Cli(d, tmp_path), "sandbox", "ssh", s.id) as t:
        t.type("echo $((6 * 7))-\n")
        t.until("42-")
        d.kill()
        status, err = t.wait()
        assert status == 1
        assert "is lost" in err


def test_cli_refusals(cli: Cli, box: Sandbox) -> None:
    done = cli.run("sandbox", "ssh", box.id)
    assert done.returncode == 2
    assert "stdin is no terminal" in done.stderr
    with terminal(cli, "sandbox", "exec", "-t", "--json", box.id, "--", "true") as t:
        assert t.wait() == (2, "pandastack: of the options only --cwd goes with --tty\n")
    with terminal(cli, "sandbox", "ssh", "ffff") as t:
        assert t.wait()[0] == 3
    with terminal(cli, "sandbox", "exec", "-t", "--cwd", "/no/such", box.id, "--", "true") as t:
        status, err = t.wait()
        assert status == 1
        assert "/no/such" in err
