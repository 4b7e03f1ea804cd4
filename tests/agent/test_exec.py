# SPDX-License-Identifier: Apache-2.0
"""Commands through the agent."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from conftest import Agent
from link_client import WINDOW, Link, LinkError, Stream


def test_output_and_exit_code(link: Link) -> None:
    result, out, err = link.exec("echo out; echo err >&2; exit 7")
    assert (out, err) == (b"out\n", b"err\n")
    assert result["exit_code"] == 7
    assert "signal" not in result and "timed_out" not in result and result["duration_ms"] >= 0


def test_argv_needs_no_shell(link: Link) -> None:
    s = link.open("exec", argv=["printf", "%s|", "a b", "$HOME", "-rf"])
    assert s.result()["exit_code"] == 0
    assert s.stdout == b"a b|$HOME|-rf|"


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"argv": []},
        {"argv": [1]},
        {"cmd": 5},
        {"cmd": "true", "env": []},
        {"cmd": "true", "env": {"A=B": "c"}},
        {"cmd": "true", "env": {"A": 1}},
    ],
)
def test_wrong_requests(link: Link, request_: dict[str, object]) -> None:
    with pytest.raises(LinkError) as e:
        link.call("exec", **request_)
    assert e.value.kind == "invalid"


def test_command_not_found(link: Link) -> None:
    result, _, err = link.exec("no-such-command-at-all")
    assert result["exit_code"] == 127 and b"not found" in err
    s = link.open("exec", argv=["no-such-command-at-all"])
    assert s.result()["exit_code"] == 127
    assert s.stderr == b"no-such-command-at-all: No such file or directory\n"
    s = link.open("exec", argv=["/etc/passwd"])
    assert s.result()["exit_code"] == 126


@pytest.mark.parametrize(
    ("cmd", "code", "sig"), [("kill -9 $$", 137, 9), ("kill -11 $$", 139, 11), ("kill -TERM $$", 143, 15)]
)
def test_signals(link: Link, cmd: str, code: int, sig: int) -> None:
    result, _, _ = link.exec(cmd)
    assert (result["exit_code"], result["signal"]) == (code, sig)


def test_stdin_is_at_its_end(link: Link) -> None:
    start = time.monotonic()
    result, out, _ = link.exec("cat; echo done")
    assert out == b"done\n" and time.monotonic() - start < 5


def test_stdin(link: Link) -> None:
    data = os.urandom(3_000_000)
    s = link.open("exec", cmd="cat", stdin=True)
    s.send(data)
    s.end()
    assert s.result()["exit_code"] == 0
    assert s.stdout == data


def test_stdin_that_nobody_reads(link: Link) -> None:
    s = link.open("exec", cmd="exec 0<&-; echo closed; sleep 1", stdin=True)
    s.wait(lambda: s.stdout == b"closed\n")
    s.send(b"x" * 1_000_000)
    s.end()
    assert s.result()["exit_code"] == 0


def test_background_children_do_not_hold_the_answer(link: Link) -> None:
    start = time.monotonic()
    result, out, _ = link.exec("sleep 100 & setsid sleep 100 > /dev/null & echo started")
    assert time.monotonic() - start < 2
    assert out == b"started\n" and result["exit_code"] == 0 and result["background"] is True
    assert "background" not in link.exec("sleep 100 > /dev/null 2>&1 & true")[0]


def test_a_service_that_logs_lives_on(link: Link, tmp_path: object) -> None:
    """It must not die of SIGPIPE, nor block on a full pipe, once its command was answered."""
    mark = f"{tmp_path}/done"
    link.exec(f"(sleep 0.5; head -c 500000 /dev/zero; echo ok > {mark}) & true")
    deadline = time.monotonic() + 10
    while not os.path.exists(mark):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_late_output_of_a_child_is_delivered(link: Link) -> None:
    _, out, _ = link.exec("(sleep 0.03; echo late) & echo early")
    assert out == b"early\nlate\n"


def test_timeout_kills_the_tree(agent: Agent) -> None:
    link = agent.link
    mark = f"pandastack-mark-{os.getpid()}-{time.monotonic_ns()}"
    start = time.monotonic()
    result, out, _ = link.exec(f"setsid sh -c 'sleep 300; : {mark}' & echo up; sleep 300; wait", timeout_ms=500)
    assert 0.4 < time.monotonic() - start < 5
    assert result["timed_out"] is True and result["exit_code"] == 124
    assert out == b"up\n"
    if agent.cgroup:
        _, ps, _ = link.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert b": " + mark.encode() not in ps.replace(b"cat ", b"")


def test_cancel_kills(link: Link) -> None:
    s = link.open("exec", cmd="echo $$; exec sleep 300")
    s.wait(lambda: s.stdout.endswith(b"\n"))
    pid = int(s.stdout)
    s.cancel()
    assert s.result()["signal"] == signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_signal_event(link: Link) -> None:
    s = link.open("exec", cmd="trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.05; done")
    s.wait(lambda: b"ready" in s.stdout)
    s.event({"signal": int(signal.SIGUSR1)})
    assert s.result()["exit_code"] == 3
    assert s.stdout == b"ready\ncaught\n"


def test_cwd(link: Link, tmp_path: object) -> None:
    assert link.exec("pwd", cwd=str(tmp_path))[1] == f"{tmp_path}\n".encode()
    with pytest.raises(LinkError) as e:
        link.exec("pwd", cwd="/no/such/dir")
    assert e.value.kind == "not_found" and "/no/such/dir" in e.value.message
    with pytest.raises(LinkError) as e:
        link.exec("pwd", cwd="/etc/passwd")
    assert e.value.kind == "not_a_directory"


def test_environment_layers(agent: Agent) -> None:
    (agent.root / "etc" / "environment").write_text('# comment\nA=file\nexport B="two words"\nC=file\nD=file\n')
    link = agent.link
    link.resume(env={"C": "sandbox", "D": "sandbox"})
    show = "echo $A-$B-$C-$D-$LANG; echo $PATH"
    assert link.exec(show, env={"D": "request"})[1].startswith(
        b"file-two words-sandbox-request-C.UTF-8\n/opt/venv/bin:"
    )
    assert link.exec(show)[1].startswith(b"file-two words-sandbox-sandbox-")


@pytest.mark.skipif(os.getuid() != 0, reason="only root changes users")
def test_user(link: Link) -> None:
    assert link.exec("id -un; id -u; echo $HOME", user="daemon", cwd="/")[1] == b"daemon\n1\n/usr/sbin\n"
    with pytest.raises(LinkError) as e:
        link.exec("true", user="nobody-like-that")
    assert "nobody-like-that" in e.value.message


def test_a_slow_reader_stops_only_itself(link: Link) -> None:
    slow = link.open("exec", cmd="head -c 5000000 /dev/zero; echo end >&2")
    slow.auto_credit = False
    slow.wait(lambda: slow.received == WINDOW)
    for _ in range(20):
        assert link.exec("echo quick")[1] == b"quick\n"
    assert slow.received == WINDOW and slow.answer is None
    slow.auto_credit = True
    slow.credit(WINDOW)
    slow.result()
    assert len(slow.stdout) == 5_000_000 and slow.stderr == b"end\n"


def test_output_before_the_exit_waits_for_the_reader(link: Link) -> None:
    s = link.open("exec", cmd=f"head -c {WINDOW + 50_000} /dev/zero")
    s.auto_credit = False
    s.wait(lambda: s.received == WINDOW)
    time.sleep(0.4)  # longer than the agent waits for late output
    link.pump(0)
    assert s.answer is None
    s.auto_credit = True
    s.credit(WINDOW)
    s.result()
    assert len(s.stdout) == WINDOW + 50_000


def test_both_channels_at_once(link: Link) -> None:
    s = link.open("exec", cmd="head -c 2000000 /dev/zero & head -c 2000000 /dev/zero >&2; wait")
    s.result()
    assert len(s.stdout) == len(s.stderr) == 2_000_000


def test_no_zombies(agent: Agent) -> None:
    agent.link.exec("for i in $(seq 200); do (sleep 0.01 &) ; done")
    deadline = time.monotonic() + 10
    while True:
        children = open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read().split()
        if not children:
            break
        assert time.monotonic() < deadline
        agent.link.exec("sleep 0.05")


def test_many_at_once(link: Link) -> None:
    streams = [link.open("exec", cmd=f"echo {i}; cat", stdin=True) for i in range(192)]
    with pytest.raises(LinkError) as e:
        link.call("exec", cmd="true")
    assert e.value.kind == "limit"
    for i, s in enumerate(streams):
        s.end()
        assert s.result()["exit_code"] == 0
        assert s.stdout == f"{i}\n".encode()
    assert link.exec("echo again")[1] == b"again\n"


def test_no_descriptor_reaches_a_command(link: Link) -> None:
    other = link.open("exec", cmd="cat", stdin=True)
    assert link.exec("ls /proc/self/fd")[1].split() == [b"0", b"1", b"2", b"3"]  # 3 is ls's own
    other.end()
    other.result()


# --- on a terminal -------------------------------------------------------------------------------


def terminal(link: Link, cmd: str | None = None, rows: int = 24, cols: int = 80, **request: object) -> Stream:
    return link.open("exec", cmd=cmd, pty={"rows": rows, "cols": cols}, **request)


def test_a_terminal_is_one(link: Link) -> None:
    s = terminal(link, "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo $TERM; exit 7", 31, 117)
    assert s.result()["exit_code"] == 7
    assert re.fullmatch(rb"/dev/pts/\d+\r\n31 117\r\nxterm-256color\r\n", s.stdout) and s.stderr == b""


def test_a_terminal_controls_its_session(link: Link) -> None:
    s = terminal(link, "echo ready; exec sleep 1000")
    s.wait(lambda: b"ready" in s.stdout)
    s.send(b"\x03")
    result = s.result()
    assert (result["exit_code"], result["signal"]) == (130, signal.SIGINT)
    assert s.stdout.endswith(b"^C")


def test_what_is_typed(link: Link) -> None:
    s = terminal(link, "read line; echo got $line; cat; echo end")
    s.send(b"hello\n")
    s.wait(lambda: b"got hello\r\n" in s.stdout)
    s.end()  # changes nothing
    s.send(b"more\n\x04")
    assert s.result()["exit_code"] == 0
    assert s.stdout.endswith(b"more\r\nmore\r\nend\r\n")


def test_a_login_shell(link: Link) -> None:
    s = terminal(link, env={"SHELL": "/bin/bash", "PS1": "$ "})
    s.send(b"shopt -q login_shell && echo is-$((40 + 2)); exit 3\n")
    assert s.result()["exit_code"] == 3
    assert b"is-42" in s.stdout
    s = terminal(link, env={"SHELL": "/no/such/shell"})
    s.send(b"exit 4\n")
    assert s.result()["exit_code"] == 4


def test_a_terminal_is_resized(link: Link) -> None:
    s = terminal(link, "trap 'stty size; exit 0' WINCH; echo ready; while :; do read x; done")
    s.wait(lambda: b"ready" in s.stdout)
    for wrong in ({}, {"rows": 0, "cols": 1}, {"rows": 65536, "cols": 1}, {"rows": "5", "cols": 5}, [], 7, None):
        s.event({"resize": wrong})
    s.event({"resize": {"rows": 50, "cols": 132}})
    assert s.result()["exit_code"] == 0
    assert s.stdout == b"ready\r\n50 132\r\n"


@pytest.mark.parametrize("pty", [{}, [], 1, {"rows": 24}, {"rows": 0, "cols": 80}, {"rows": 24, "cols": 65536}])
def test_terminals_that_are_none(link: Link, pty: object) -> None:
    with pytest.raises(LinkError) as e:
        link.call("exec", cmd="true", pty=pty)
    assert e.value.kind == "invalid"


def test_a_terminal_with_a_slow_reader_loses_nothing(link: Link, tmp_path: Path) -> None:
    """The command has ended, and the time for late output is over, long before the last of it is read."""
    s = link.open(
        "exec", cmd=f"stty -opost; echo $$ > {tmp_path}/pid; yes | head -c 268000", pty={"rows": 24, "cols": 80}
    )
    s.auto_credit = False
    s.wait(lambda: s.received >= WINDOW)
    pid = (tmp_path / "pid").read_text().strip()
    link.exec(f"while test -d /proc/{pid}; do sleep 0.01; done; sleep 0.3")
    s.auto_credit = True
    s.credit(s.received)
    assert s.result()["exit_code"] == 0
    assert s.stdout == b"y\n" * 134_000


def test_what_lives_on_after_a_terminal(link: Link, tmp_path: Path) -> None:
    """A service started with & keeps a terminal that it can write to."""
    done = tmp_path / "done"
    s = terminal(
        link, f"trap '' HUP; (until test -e {tmp_path}/go; do sleep 0.05; done; echo late && touch {done}) & exit 0"
    )
    assert s.result()["background"] is True
    (tmp_path / "go").touch()
    assert link.exec(f"until test -e {done}; do sleep 0.05; done", timeout_ms=10_000)[0]["exit_code"] == 0


def test_a_terminal_ends_with_its_client(link: Link, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    s = terminal(link, f"trap '' HUP; echo $$ > {pid_file}; echo ready; while :; do sleep 1000; done")
    s.wait(lambda: b"ready" in s.stdout)
    s.cancel()
    s.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_a_terminal_times_out(link: Link) -> None:
    result = terminal(link, "sleep 1000", timeout_ms=100).result()
    assert result["timed_out"] is True and result["exit_code"] == 124


def test_what_a_terminal_shows_is_not_logged(link: Link) -> None:
    assert terminal(link, "echo not-this-one").result()["exit_code"] == 0
    link.exec("echo but-this-one")
    s = link.open("logs")
    s.result()
    assert s.stdout == b"but-this-one\n"
