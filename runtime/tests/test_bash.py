# SPDX-License-Identifier: Apache-2.0
"""The bash kernel: one shell for all cells, whatever they do to it."""

from __future__ import annotations

import os
import random
import re
import resource
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Answer, KernelClient, Zygote, recv_frame

from pandastack_kernel import bash as bash_driver
from pandastack_kernel import frames

REPEAT_S = 0.5
"""How often the agent repeats an interrupt."""

KILL_S = 0.05
"""How long after the signal the agent kills what the cell has started."""


def run(kernel: KernelClient, code: str, **options: Any) -> tuple[int, str, str]:
    """Run a cell; return (exit status, stdout, stderr)."""
    answer = kernel.run(code, **options)
    return status_of(answer), answer.pipe_out.decode(), answer.pipe_err.decode()


def status_of(answer: Answer) -> int:
    assert answer.done is not None, answer
    status = answer.done["exit_code"]
    assert isinstance(status, int)
    if answer.status == "ok":
        assert status == 0
        assert not answer.errors
    else:
        assert len(answer.errors) == 1
    return status


def out(kernel: KernelClient, code: str, **options: Any) -> str:
    """Run a cell that must succeed and say nothing on stderr; return its output."""
    status, text, errors = run(kernel, code, **options)
    assert (status, errors) == (0, ""), (text, errors)
    return text


@pytest.fixture
def bash(zygote: Zygote, tmp_path: Path) -> Iterator[KernelClient]:
    client = zygote.kernel(cwd=str(tmp_path), language="bash")
    yield client
    left = descendants(client.pid) if client.pid else []
    client.close()
    # The agent kills the control group.
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


# What a cell is.


def test_state_persists(bash: KernelClient, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    out(
        bash,
        "x=1; export Y=2; declare -A map=([k]=v); list=(a 'b c'); cd sub\nf() { echo \"f $1\"; }\nset -o pipefail",
    )
    assert out(bash, 'echo $x "${map[k]}" "${list[1]}"; f 3; sh -c "echo $Y"') == "1 v b c\nf 3\n2\n"
    assert out(bash, "pwd; [[ -o pipefail ]] && echo on; echo $BASH_SUBSHELL") == f"{tmp_path}/sub\non\n0\n"
    assert out(bash, "set -- one 'two three'") == ""
    assert out(bash, 'echo $# "$2"') == "2 two three\n"
    out(bash, "exec 3>kept; umask 027; ulimit -n 100")
    assert out(bash, "echo text >&3; umask; ulimit -n; cat kept") == "0027\n100\ntext\n"


def test_scripts(bash: KernelClient) -> None:
    code = 'name=you\ncat <<END\nhi $name\nEND\n# a comment\nfor i in 1 2; do\n\techo $i\ndone | tac\ncase x in x) echo "a\\\nb";; esac'
    assert out(bash, code) == "hi you\n2\n1\nab\n"
    assert out(bash, "") == ""
    assert out(bash, "# only a comment") == ""
    assert out(bash, "echo é 漢 '\U0001f600'; printf '\\xff' | wc -c") == "é 漢 \U0001f600\n1\n"
    assert out(bash, "x='" + "y" * 300_000 + "'\necho ${#x}") == "300000\n"


def test_aliases(bash: KernelClient) -> None:
    out(bash, "alias hi='echo hello'")
    assert out(bash, "hi you") == "hello you\n"


def test_streams(bash: KernelClient) -> None:
    assert run(bash, "echo out; echo err >&2; sh -c 'echo child; echo bad >&2'") == (0, "out\nchild\n", "err\nbad\n")
    assert out(
        bash, "cat; read -r x; echo $?; [[ -t 0 ]] || echo none; python3 -c 'import sys; print(sys.stdin.read())'"
    ) == ("1\nnone\n\n")


def test_everything_is_there_before_the_end(bash: KernelClient) -> None:
    assert len(out(bash, "seq 200000; head -c 300000 /dev/zero | tr '\\0' x")) == 1288895 + 300000


def test_where_a_message_comes_from(bash: KernelClient) -> None:
    status, _, errors = run(bash, "\n\nnosuch")
    assert status == 127
    assert errors.endswith("/Cell[1]: line 3: nosuch: command not found\n")
    status, _, errors = run(bash, "echo yes\nif true; then\n)")
    assert status == 2
    assert "/Cell[2]: line 3: syntax error near unexpected token `)'" in errors
    status, _, errors = run(bash, "echo 'abc")
    assert status == 2
    assert "/Cell[3]: line 1: unexpected EOF while looking for matching `''" in errors
    assert out(bash, '\necho $LINENO ${0##*/} ${BASH_SOURCE##*/}; [[ $0 == "${BASH_SOURCE[0]}" ]]') == (
        "2 Cell[4] Cell[4]\n"
    )


def test_exit_status(bash: KernelClient) -> None:
    texts = {
        "false": "exit status 1",
        "(exit 42)": "exit status 42",
        "return 3": "exit status 3",
        "nosuch": "exit status 127 (a command was not found: is it installed, and in PATH?)",
        "/etc/passwd": "exit status 126 (the command was found but cannot be executed)",
        "sh -c 'kill -TERM $$'": "exit status 143 (killed by signal 15, SIGTERM)",
        "sh -c 'kill -9 $$'": "exit status 137 (killed by signal 9, SIGKILL; most often because memory ran out)",
        "(exit 255)": "exit status 255",
    }
    for code, text in texts.items():
        answer = bash.run(code)
        assert answer.status == "error"
        error = answer.error
        assert (error["name"], error["traceback"]) == ("ExitStatus", text)
        assert error["value"] == str(status_of(answer))
        assert out(bash, "echo $?") == error["value"] + "\n", "the next cell's $? is it"
    assert out(bash, "false; true; echo ${PIPESTATUS[0]}") == "0\n"
    assert [bash.run(code).done for code in ("true", "false")] == [
        {"status": "ok", "execution_count": 18, "exit_code": 0},
        {"status": "error", "execution_count": 19, "exit_code": 1},
    ]


def test_nothing_of_ours_is_in_the_way(bash: KernelClient, tmp_path: Path) -> None:
    assert out(bash, "echo $-; history; jobs; alias; compgen -v | grep -i panda; true") == "hB\n"
    assert out(bash, "shopt | grep -w on | cut -f1 | tr -d ' ' | tr '\\n' ' '") == (
        out(bash, "bash -O expand_aliases -c 'shopt' | grep -w on | cut -f1 | tr -d ' ' | tr '\\n' ' '")
    )
    assert out(bash, "ls /proc/self/fd | tr '\\n' ' '; echo; env | grep -ci panda; true") == "0 1 2 3 \n0\n"
    assert out(bash, "unset PS1 PS2; ls -A") == ""
    # Who runs the tests may have had signals ignored that no program can turn on again.
    ignored = "grep SigIgn /proc/self/status"
    script = subprocess.run(["bash", "-c", ignored], capture_output=True, text=True, check=True)
    assert out(bash, f"kill -0 $PPID && {ignored}") == script.stdout


def test_other_options_stay(bash: KernelClient) -> None:
    out(bash, "set -o noglob; shopt -s extglob globstar")
    assert out(bash, "echo $- * ; shopt -q extglob && shopt -q globstar && echo both") == "fhB *\nboth\n"


def test_trace_and_verbose(bash: KernelClient) -> None:
    status, text, errors = run(bash, "set -x; echo a")
    assert (status, text, errors) == (0, "a\n", "++ echo a\n")
    status, text, errors = run(bash, "echo b")
    assert (status, text) == (0, "b\n")
    assert errors.splitlines()[-1] == "++ echo b"
    assert len(errors.splitlines()) == 2
    assert run(bash, "set +x")[0] == 0
    assert run(bash, "set -v; echo a")[:2] == (0, "a\n")
    assert run(bash, "echo b; set +v")[:2] == (0, "b\n")
    assert out(bash, "echo c") == "c\n"


def test_traps(bash: KernelClient) -> None:
    assert out(bash, "trap 'echo debug' DEBUG; true") == "debug\n"
    assert out(bash, "true") == "", "it ends with its cell"
    assert run(bash, "trap 'echo failed' ERR; false; true")[:2] == (0, "failed\n")
    assert run(bash, "false; true")[:2] == (0, "failed\n")
    out(bash, "trap - ERR; trap 'echo usr1' USR1")
    assert out(bash, "kill -USR1 $$; echo after") == "usr1\nafter\n"
    assert out(bash, "trap 'echo int' INT; kill -INT $$; echo after") == "int\nafter\n"
    assert out(bash, "trap 'echo return' RETURN") == "return\n"
    out(bash, "trap - RETURN")


# Errors that end a script.


def test_errexit_ends_the_cell_and_not_the_shell(bash: KernelClient) -> None:
    pid = out(bash, "echo $$; x=1; f() { echo f; }; alias a='echo a'; sleep 1000 & job=$!")
    answer = bash.run("set -euo pipefail\ny=2\necho before\nfalse | true\necho never")
    assert status_of(answer) == 1
    assert answer.pipe_out == b"before\n"
    assert answer.error["traceback"] == "exit status 1\nset -e is on: the cell ended at the first command that failed"
    assert out(bash, "echo $? $- $x $y; f; a; echo $$; kill -0 $job") == f"1 ehuB 1 2\nf\na\n{pid}"
    assert run(bash, "f() { local here=1; ls /nosuch 2>/dev/null; }; f")[0] == 2
    assert (
        out(bash, "echo ${here-none}; [[ -o pipefail ]]; if false; then :; fi; ! true || true; echo on")
        == "none\non\n"
    )
    assert run(bash, "(exit 7)")[0] == 7, "the last command too"
    assert run(bash, "set +e; false; echo went on") == (0, "went on\n", "")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("set -u; echo $nosuch; echo never", "nosuch: unbound variable"),
        ("f() { local in_f=1; echo $nosuch; }; set -u; f; echo never", "nosuch: unbound variable"),
        (": ${nosuch?is needed}; echo never", "nosuch: is needed"),
        ("exec nosuch; echo never", "exec: nosuch: not found"),
        ("readonly r=1; r=2; echo never", "r: readonly variable"),
        ("echo $((1/0)); echo never", "division by 0"),
    ],
)
def test_fatal_errors(bash: KernelClient, code: str, message: str) -> None:
    out(bash, "kept=1")
    status, text, errors = run(bash, code)
    assert status
    assert text == ""
    assert message in errors
    assert out(bash, "set +u; echo $kept ${in_f-none}") == "1 none\n"


def test_what_survives_a_fatal_error(bash: KernelClient) -> None:
    """All that a shell is, but its job table."""
    out(
        bash,
        "readonly R='r o'; declare -i n=3; declare -A m=([\"q'\"]=$'n\\nl' [b]='x  y'); a=(1 '' '3 4'); export E='é\\'\n"
        "declare -n ref=n; declare -l low=ABC; unset_later=1; unset unset_later; IFS=':'; shopt -s extglob nocasematch\n"
        "g() { case $1 in +(a|b)) echo yes;; *) echo no;; esac; }; h() { echo h $E; }; export -f h; trap 'echo usr1' USR1; set -- 1 'b c'\n"
        "exec 5>five; umask 077; OLDPWD=/x; ll() { echo 'a;b' \"$@\"; }; alias ll='ll -x'",
    )
    ask = (
        'declare -p R n m a E ref low IFS OLDPWD; echo ${unset_later-none} $# "$2"; shopt extglob nocasematch; g abba; g c\n'
        "trap -p USR1; echo five >&5; umask; alias; ll; bash -c h; n+=4; echo $n; low=XY; echo $low; echo $SHLVL $$"
    )
    before = out(bash, ask + "; n=3; low=abc")
    assert run(bash, "set -e; false")[0] == 1
    assert out(bash, ask) == before
    assert out(bash, "[[ -o errexit ]]; wc -l <five") == "2\n"


def test_exit_trap_of_the_user(bash: KernelClient) -> None:
    out(bash, "trap 'echo bye $x' EXIT")
    out(bash, "x=1")
    bash.request("exit 4")
    answer = bash.collect()
    assert answer.done is None
    assert answer.pipe_out == b"bye 1\n"
    assert os.waitstatus_to_exitcode(bash.wait_exit()) == 4


def test_sigterm_ends_the_cell(bash: KernelClient) -> None:
    out(bash, "x=1")
    assert run(bash, "kill $$; echo never") == (143, "", "")
    assert out(bash, "echo $x") == "1\n"


# The shell's death.


@pytest.mark.parametrize(
    ("code", "code_or_signal"),
    [
        ("exit 3", 3),
        ("(exit 7); exit", 7),
        ("f() { exit 258; }; f", 2),
        ("(exit 1) || exit", 1),
        ("set -e; f() { false || exit 5; }; f", 5),
        ("eval 'exit 6'", 6),
        ("set -e; exit 0", 0),
        ("exec false", 1),
        ("exec sh -c 'exit 9'", 9),
        ("exec true", 0),
        ("kill -9 $$", -9),
        ("exec /nosuch", 127),
        ("exec sh -c 'kill -TERM $$'", -15),
    ],
)
def test_death(zygote: Zygote, code: str, code_or_signal: int) -> None:
    kernel = zygote.kernel(language="bash")
    try:
        kernel.run("false")
        kernel.request(f"echo last\n{code}")
        answer = kernel.collect()
        assert answer.done is None
        assert answer.pipe_out == b"last\n"
        assert os.waitstatus_to_exitcode(kernel.wait_exit()) == code_or_signal
    finally:
        kernel.close()


def test_death_between_cells(bash: KernelClient, tmp_path: Path) -> None:
    out(bash, "(while [[ ! -e now ]]; do :; done; kill -9 $$) & :")
    (tmp_path / "now").touch()
    assert os.waitstatus_to_exitcode(bash.wait_exit()) == -9


def test_the_death_of_a_child_is_none(bash: KernelClient) -> None:
    assert run(bash, "sh -c 'kill -9 $$'; x=$?; (kill -9 $BASHPID); echo $x $?")[1] == "137 137\n"


def test_the_end_of_the_session(zygote: Zygote, tmp_path: Path) -> None:
    kernel = zygote.kernel(cwd=str(tmp_path), language="bash")
    out(kernel, "trap 'echo bye >bye' EXIT; sleep 1000 & echo $! >pid")
    directory = out(kernel, "dirname $0").strip()
    assert os.stat(directory).st_mode & 0o777 == 0o700
    shell = int(out(kernel, "echo $$"))
    kernel.control.shutdown(socket.SHUT_RDWR)
    assert kernel.wait_exit() == 0
    assert (tmp_path / "bye").read_text() == "bye\n"
    assert not Path(directory).exists()
    assert not Path(f"/proc/{shell}").exists()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    kernel.close()


def test_the_shell_ends_with_its_driver(zygote: Zygote) -> None:
    kernel = zygote.kernel(language="bash")
    shell = int(out(kernel, "trap '' HUP TERM; echo $$"))
    descriptor = os.pidfd_open(shell)
    kernel.close()
    assert select.select([descriptor], [], [], 10)[0]
    os.close(descriptor)


# Interrupts.


def start_tick(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return found  # it has ended meanwhile
    for child in children:
        found += [int(child), *descendants(int(child))]
    return found


class Agent:
    """What the agent does at an interrupt: SIGINT for the kernel, SIGKILL for all that the cell has started."""

    def __init__(self, kernel: KernelClient) -> None:
        self.kernel = kernel
        self.since = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))

    def interrupt(self) -> None:
        self.kernel.interrupt()
        threading.Event().wait(KILL_S)
        for pid in descendants(self.kernel.pid):
            try:
                if start_tick(pid) >= self.since:
                    os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                continue


def interrupted(kernel: KernelClient, setup: str, code: str, *, child: bool = False) -> Answer:
    """Run a cell, interrupt it once it has run ``setup`` (or started a ``child``), and return its answer."""
    others = descendants(kernel.pid)
    agent = Agent(kernel)
    kernel.request(f"{setup}\necho go\n{code}")
    text = b""
    while b"go\n" not in text:
        text += os.read(kernel.out_fd, 1 << 16)
    while child and descendants(kernel.pid) == others:
        pass
    done = threading.Event()

    def repeat() -> None:
        while True:
            agent.interrupt()
            if done.wait(REPEAT_S):
                return

    thread = threading.Thread(target=repeat)
    started = time.monotonic()
    thread.start()
    try:
        answer = kernel.collect(20)
    finally:
        done.set()
        thread.join()
    assert time.monotonic() - started < 5
    answer.pipe_out = text + answer.pipe_out
    return answer


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        ("", "while true; do :; done"),
        ("", "until false; do true; done"),
        ("", "for ((;;)); do ((i++)); done"),
        ("", "sleep 1000"),
        ("", "while true; do sleep 0.001; done"),
        ("", "sleep 1000 | cat | sleep 1000"),
        ("f() { g; echo f; }; g() { while :; do :; done; echo g; }", "while :; do f; done"),
        ("", "eval 'while :; do eval :; done'"),
        ("", "sleep 1000 & wait"),
        ("mkfifo p; exec 3<>p", "read -r x <&3"),
        ("mkfifo p; exec 3<>p", "read -r -t 1000 x <&3"),
        ("mkfifo p", "read -r x <p"),
        ("mkfifo p", "mapfile <p"),
        ("", "y=$(sleep 1000)"),
        ("", "y=$(while :; do :; done)"),
        ("", "(while :; do :; done)"),
        ("", "( trap '' INT TERM; sleep 1000; while :; do :; done )"),
        ("set -e", "while :; do :; done"),
        ("set -e", "while :; do sleep 0.001; done"),
        ("set -eu", "while ! false; do sleep 0.001; done"),
        ("set -T; trap : DEBUG; f() { :; }", "while :; do f; done"),
        ("trap : DEBUG; f() { while :; do :; done; }", "while :; do f; done"),
        ("set -E; trap 'echo err' ERR", "while :; do false; done"),
        ("", "while :; do echo spam; done"),
        ("", "yes"),
        ("trap 'echo int' INT", "while :; do :; done"),
        ("mkfifo p; exec 3<>p", "select y in a b; do :; done <&3"),
        ("echo 'while :; do :; done' >script", ". ./script"),
        ("", "python3 -c 'import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(1000)'"),
    ],
)
def test_interrupt(bash: KernelClient, setup: str, code: str) -> None:
    pid = out(bash, "set -C; readonly r=2; echo $$")
    answer = interrupted(bash, f"x=1; {setup}", f"{code}\necho never >never")
    assert answer.status == "error"
    assert answer.error["name"] == "KeyboardInterrupt"
    assert status_of(answer) == 130
    answer = bash.run("echo $-; set +eux -T -E; set +T +E; echo $x $r; trap -p DEBUG; shopt -q extdebug || echo $$")
    flags, *rest = answer.pipe_out.decode().splitlines(keepends=True)
    assert rest == ["1 2\n", pid]
    assert set(flags.strip()) == {*"hBC", *(flag for flag in "euTE" if re.search(f"set -[a-zA-Z]*{flag}", setup))}
    assert run(bash, "ls never")[0] == 2


def test_interrupt_while_tracing(bash: KernelClient) -> None:
    assert interrupted(bash, "set -x", "while :; do :; done").error["name"] == "KeyboardInterrupt"
    assert run(bash, "set +x")[0] == 0
    assert out(bash, "echo on") == "on\n"


def test_no_noise_of_an_interrupt(bash: KernelClient) -> None:
    assert interrupted(bash, "", "while :; do :; done").pipe_err == b""
    answer = interrupted(bash, "f() { sleep 1000; }", "f", child=True)
    assert re.fullmatch(rb"\S+/Cell\[2\]: line 1: +\d+ Killed +sleep 1000\n", answer.pipe_err)
    assert out(bash, "echo $?") == "130\n"


def test_background_jobs_of_earlier_cells_survive(bash: KernelClient) -> None:
    job = int(out(bash, "sleep 1000 & echo $!"))
    tick = start_tick(job)
    while int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) <= tick:
        pass
    interrupted(bash, "", "wait")
    assert out(bash, "jobs -p; kill %1; wait %1 2>/dev/null; echo $?") == f"{job}\n143\n"


def test_the_shell_is_older_than_any_cell(zygote: Zygote) -> None:
    for _ in range(5):
        kernel = zygote.kernel(language="bash")
        try:
            agent = Agent(kernel)
            (shell,) = descendants(kernel.pid)
            assert start_tick(shell) < agent.since
        finally:
            kernel.close()


def test_an_interrupt_between_cells_is_nothing(bash: KernelClient) -> None:
    for _ in range(5):
        bash.interrupt()
    assert out(bash, "echo on") == "on\n"
    bash.interrupt()
    assert out(bash, "echo on") == "on\n"


def test_interrupts_at_the_edges_of_cells(bash: KernelClient) -> None:
    """Interrupts at random moments: each cell answered once, none leaks, the shell lives."""
    generator = random.Random(5)
    out(bash, "shell=$$; state=0")
    for i in range(60):
        code = f"state={i}" if i % 3 else f"state={i}; set -e; false"
        bash.request(code, **({"env": {"A": "1"}} if i % 5 == 0 else {}))
        wait_until = time.monotonic() + generator.random() * 0.002
        while time.monotonic() < wait_until:
            pass
        bash.interrupt()
        answer = bash.collect(20)
        assert answer.done is not None
        after = bash.run('set +e; echo $state $shell "${A-none}"; trap -p DEBUG; shopt -q extdebug')
        assert after.pipe_out, (answer, after)
        state, shell, a = after.pipe_out.decode().split()
        assert int(state) <= i
        assert a == "none"
        assert int(shell) > 1


@pytest.mark.parametrize("death", ["set -e; false", "set -u; $never", "${never:?}"])
def test_interrupts_as_an_error_ends_the_script(bash: KernelClient, death: str) -> None:
    """One that comes just before the EXIT trap must not end the shell; of 300, some do come then."""
    generator = random.Random(6)
    shell = out(bash, "kept=1; echo $$")
    for _ in range(300):
        bash.request(death)
        started = time.monotonic()
        at = started + generator.random() * 0.0005
        while time.monotonic() < at:
            pass
        bash.interrupt()
        assert bash.collect(20).done is not None
        assert out(bash, "set +eu; echo $$; trap -p DEBUG; shopt -q extdebug || echo $kept") == f"{shell}1\n"


@pytest.mark.parametrize("death", ["set -e; false", "${never:?}"])
def test_noclobber_and_an_error_that_ends_the_script(bash: KernelClient, death: str) -> None:
    shell = out(bash, "set -C; kept=1; echo $$")
    for _ in range(2):
        assert run(bash, death)[0] != 0
        assert out(bash, "set +e; echo $$ $kept; set -o | grep -c 'noclobber.*on'") == f"{shell.strip()} 1\n1\n"


def test_tracing_shows_nothing_of_ours(bash: KernelClient) -> None:
    run(bash, "set -x")
    assert b"pandastack" not in interrupted(bash, "", "while :; do :; done").pipe_err
    assert "pandastack" not in run(bash, "${never:?}")[2]


def test_interrupt_of_a_loop_of_subshells(bash: KernelClient) -> None:
    """Nothing in it is a command to the DEBUG trap."""
    assert interrupted(bash, "", "until (false); do (:); done").error["name"] == "KeyboardInterrupt"
    assert out(bash, "trap -p DEBUG; shopt -q extdebug || echo on") == "on\n"


def test_an_interrupt_while_nobody_reads(bash: KernelClient) -> None:
    bash.request("while :; do echo spamspamspam; done")
    agent = Agent(bash)
    while not select.select([bash.out_fd], [], [], 0)[0]:
        pass
    agent.interrupt()
    assert bash.collect(20).error["name"] == "KeyboardInterrupt"
    assert out(bash, "echo on") == "on\n"


# Environment for one cell.


def test_environment_of_a_cell(bash: KernelClient) -> None:
    out(bash, "export KEPT=old; plain=text; readonly FIXED=1")
    env = {"NEW": "a b\n'\"$x`\\", "KEPT": "new", "plain": "p", "CHANGED": "1", "FIXED": "2", "NO-NAME": "x"}
    assert out(bash, "sh -c 'echo \"$NEW|$KEPT|$plain|$CHANGED|$FIXED\"'; CHANGED=2; echo $?", env=env) == (
        "a b\n'\"$x`\\|new|p|1|\n0\n"
    )
    assert out(bash, "declare -p KEPT plain CHANGED FIXED; echo ${NEW-none}") == (
        'declare -x KEPT="old"\ndeclare -- plain="text"\ndeclare -x CHANGED="2"\ndeclare -r FIXED="1"\nnone\n'
    )
    assert run(bash, "set -e; false", env={"NEW": "1"})[0] == 1
    assert out(bash, "echo ${NEW-none}") == "none\n"
    assert run(bash, "set +e; (exit 9)")[0] == 9
    assert out(bash, "echo $?", env={"NEW": "1"}) == "9\n"


def test_environment_of_the_session(zygote: Zygote) -> None:
    kernel = zygote.kernel(env={"PATH": os.environ["PATH"], "WHO": "me", "HOME": "/root"}, language="bash")
    try:
        assert out(kernel, "echo $WHO ~") == "me /root\n"
    finally:
        kernel.close()


# Hostile cells.


def test_garbage_in_the_status_pipe(bash: KernelClient) -> None:
    """Descriptors of the driver that are pipes: one of them is the shell's way to say how a cell ended."""
    code = "for fd in /proc/$PPID/fd/*; do [[ $(readlink $fd) == pipe:* && -w $fd && ${fd##*/} -gt 2 ]] && echo $fd; done"
    pipes = out(bash, code).split()
    assert len(pipes) == 4
    status_pipe = pipes[-1]
    out(bash, f"printf 'done 0 \\0 garbage' >{status_pipe}; head -c 500000 /dev/urandom >{status_pipe}")
    assert run(bash, "(exit 5)")[0] == 5
    out(bash, f"sleep 1000 >{status_pipe} & :")
    started = time.monotonic()
    assert run(bash, "(exit 6)")[0] == 6
    assert time.monotonic() - started < 5


def test_a_background_job_delays_nothing(bash: KernelClient) -> None:
    started = time.monotonic()
    out(bash, "sleep 1000 & (trap '' HUP; exec sleep 1000) & :")
    out(bash, "echo on")
    assert time.monotonic() - started < 5
    run(bash, "kill -9 %1 %2; wait")


def test_functions_and_aliases_with_our_words(bash: KernelClient) -> None:
    words = ("printf", "trap", "set", "source", "unset", "shopt", "declare", "return_", "exec", "eval", "export")
    run(bash, "; ".join(f"{word}() {{ echo mine; }}" for word in words) + "; alias builtin='echo no' .='echo no'")
    assert run(bash, "echo on; false")[:2] == (1, "on\n")
    assert out(bash, "echo on", env={"A": "1"}) == "on\n"


def test_a_cell_for_which_there_is_no_room(bash: KernelClient) -> None:
    out(bash, "kept=1")
    nothing = resource.prlimit(bash.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(bash.pid, resource.RLIMIT_FSIZE, (0, nothing[1]))
    for _ in range(2):
        answer = bash.run("echo never")
        assert (status_of(answer), answer.pipe_out) == (126, b"")
        assert answer.error["name"] == "OSError"
        assert "Free some space" in answer.error["traceback"]
    resource.prlimit(bash.pid, resource.RLIMIT_FSIZE, nothing)
    assert out(bash, "echo $? $kept") == "126 1\n"


def test_where_cells_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full, other = tmp_path / "full", tmp_path / "other"
    full.touch()  # no directory can be made there
    other.mkdir()
    driver = object.__new__(bash_driver._Driver)
    driver._directory, driver._count = None, 1
    monkeypatch.setattr(bash_driver, "_PARENTS", (str(full), str(other)))
    path = driver._write_cell("one")
    assert (path.read_text(), path.name, path.parent.parent) == ("one", "Cell[1]", other)
    assert driver._write_cell("two").parent == path.parent
    path.parent.rename(tmp_path / "away")
    path = driver._write_cell("three")
    assert path.read_text() == "three"
    path.unlink()
    path.mkdir()  # it cannot be written, and is not ours
    monkeypatch.setattr(bash_driver, "_PARENTS", (str(full),))
    with pytest.raises(NotADirectoryError):
        driver._write_cell("four")
    assert path.is_dir()


def test_a_cell_that_cleans_up_everything(bash: KernelClient) -> None:
    assert out(bash, 'rm -rf -- "$(dirname "$0")"; echo gone') == "gone\n"
    assert out(bash, 'd=$(dirname "$0"); rm -rf -- "$d"; touch "$d"; echo gone') == "gone\n"
    assert out(bash, 'rm "$d"; echo here') == "here\n"
    assert run(bash, "echo on; false")[:2] == (1, "on\n")
    out(bash, "mkdir d; cd d; rmdir ../d")
    assert out(bash, "echo on") == "on\n"
    assert run(bash, "PATH=; IFS=0123456789; (exit 13)")[0] == 13


def test_bad_requests(bash: KernelClient) -> None:
    for body in (b"{", b"[]", b'{"code": 1}', b'{"code": "", "env": {"A": 1}}'):
        bash.control.setblocking(True)
        bash.control.sendall(frames.encode(frames.RUN, body))
        assert bash.collect().status == "error"
    bash.control.sendall(frames.encode(b"?", b"unknown") + frames.encode_json(frames.INPUT, {"value": "x"}))
    assert out(bash, "echo on") == "on\n"


def test_reseed(bash: KernelClient) -> None:
    bash.control.sendall(frames.encode(frames.RESEED))
    assert recv_frame(bash.control) == (frames.RESEEDED, b"{}")
    assert out(bash, "echo on") == "on\n"


def test_a_cell_that_json_makes_larger(bash: KernelClient) -> None:
    size = 3 << 20
    assert out(bash, f"x='{chr(1) * size}'; echo ${{#x}}") == f"{size}\n"
