# SPDX-License-Identifier: Apache-2.0
"""Commands in the background, at the real daemon."""

from __future__ import annotations

import signal

import pytest

from pandastack import (
    BadRequestError,
    Client,
    ConflictError,
    LimitError,
    NotFoundError,
    Sandbox,
    SandboxFailed,
)


def test_one_that_ends_and_what_it_wrote(box: Sandbox) -> None:
    options = {"A": "é"}
    process = box.commands.start("pwd; echo $A; id -un >&2; exit 3", cwd="/tmp", env=options, user="nobody")
    assert process.cmd.startswith("pwd")
    assert process.stdin is False
    assert process.wait() == 3
    assert (process.status, process.exit_code, process.timed_out) == ("exited", 3, False)
    out: list[str] = []
    err: list[str] = []
    assert process.stream(out.append, err.append) == 3
    assert ("".join(out), "".join(err)) == ("/tmp\né\n", "nobody\n")
    assert process.id in [p.id for p in box.commands.list()]
    assert box.commands.get(process.id).exit_code == 3
    with pytest.raises(NotFoundError, match="process") as e:
        box.commands.get(1_000_000)
    assert e.value.code == "process.not_found"
    assert box.commands.run("echo $WORD").stdout == "of the sandbox\n"


def test_stdin_a_bit_at_a_time(box: Sandbox) -> None:
    process = box.commands.start("read x; echo got $x; cat", stdin=True)
    process.write("é\n")
    process.write(b"hi", eof=True)
    out: list[str] = []
    assert process.stream(out.append) == 0
    assert "".join(out) == "got é\nhi"
    with pytest.raises(ConflictError):
        process.write("more")


def test_signals_and_an_end_by_force(box: Sandbox) -> None:
    polite = box.commands.start("trap 'echo bye; exit 7' INT; echo up; while :; do sleep 0.1; done")
    out: list[str] = []

    def on_stdout(chunk: str) -> None:
        out.append(chunk)
        if chunk == "up\n":
            polite.send_signal(signal.SIGINT)

    assert polite.stream(on_stdout) == 7
    assert "".join(out) == "up\nbye\n"
    deaf = box.commands.start("trap '' INT TERM; sleep 300")
    assert deaf.wait(0) is None
    assert deaf.refresh().status == "running"
    deaf.kill()
    assert deaf.wait() == 137
    assert deaf.signal == 9
    with pytest.raises(ConflictError):
        deaf.kill()
    with pytest.raises(BadRequestError):
        deaf.send_signal("NONSENSE")


def test_a_limit(box: Sandbox) -> None:
    process = box.commands.start("sleep 300", timeout=0.5)
    assert process.wait() == 124
    assert process.timed_out is True


def test_output_that_is_lost_is_told(box: Sandbox) -> None:
    process = box.commands.start("yes | head -c 1000000; echo end")
    process.wait()
    out: list[str] = []
    lost: list[int] = []
    assert process.stream(out.append, on_lost=lost.append) == 0
    assert sum(lost) + sum(map(len, out)) == process.output_bytes == 1_000_004
    assert len(lost) == 1
    assert "".join(out).endswith("y\nend\n")


def test_a_listener_that_raises_ends_the_stream_alone(box: Sandbox) -> None:
    process = box.commands.start("echo x; sleep 300")

    def stop(chunk: str) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        process.stream(stop)
    assert process.refresh().status == "running"
    process.kill()


def test_too_many(client: Client) -> None:
    with Sandbox.create("base", client=client) as sandbox:
        with pytest.raises(LimitError, match="32"):
            for _ in range(33):
                sandbox.commands.start("sleep 300")
        assert len(sandbox.commands.list()) == 32


def test_a_sandbox_that_is_killed_under_it(client: Client) -> None:
    with Sandbox.create("base", client=client) as sandbox:
        process = sandbox.commands.start("echo up; sleep 300")
        with pytest.raises(SandboxFailed, match="deleted") as e:
            process.stream(lambda chunk: sandbox.kill())
        assert e.value.stdout == "up\n"
        for call in (process.wait, process.refresh, process.kill, sandbox.commands.list, sandbox.logs):
            with pytest.raises(NotFoundError, match="deleted, has expired, or never was"):
                call()
