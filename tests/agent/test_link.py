# SPDX-License-Identifier: Apache-2.0
"""Generations, windows and wrong input on the link."""

from __future__ import annotations

import os
import struct
import time

import pytest
from conftest import Agent
from link_client import DATA, EVENT, FRAME, MAGIC, MORE, OPEN, PADDING, WINDOW, Link, LinkError


def test_unknown_operation(link: Link) -> None:
    with pytest.raises(LinkError) as e:
        link.call("fly\nmore")
    assert e.value.kind == "unsupported" and "fly?more" in e.value.message


def test_requests_that_are_no_json(link: Link) -> None:
    for text in (b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"op":1}'):
        s = link.open("stats")
        link.last += 1
        link.streams[link.last] = type(s)(link, link.last)
        link.frame(OPEN, 0, link.last, text)
        with pytest.raises(LinkError):
            link.streams[link.last].result()
        s.result()


def test_a_request_in_parts(link: Link) -> None:
    result, out, _ = link.exec('printf %s "$X" | wc -c', env={"X": "y" * 100_000})
    assert out.strip() == b"100000" and result["exit_code"] == 0


def test_a_request_that_is_too_long(link: Link) -> None:
    with pytest.raises(LinkError) as e:
        link.exec("true", env={f"X{i}": "y" * 50_000 for i in range(6)})
    assert e.value.kind == "invalid"
    assert link.exec("echo fine")[1] == b"fine\n"


def test_stats(link: Link) -> None:
    stats = link.call("stats")
    assert 0 < stats["mem_available"] <= stats["mem_total"] and stats["uptime_ms"] > 0


def test_a_new_generation_kills_commands(agent: Agent) -> None:
    link = agent.link
    s = link.open("exec", cmd="echo $$; exec sleep 300")
    s.wait(lambda: s.stdout.endswith(b"\n"))
    pid = int(s.stdout)
    link.hello(padded=True)
    assert link.exec("echo next")[1] == b"next\n"
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(pid, 0)
            time.sleep(0.02)


def test_unsent_output_is_dropped_with_its_generation(link: Link) -> None:
    streams = [link.open("exec", cmd="yes") for _ in range(8)]
    streams[0].wait(lambda: streams[0].received > 0)
    time.sleep(0.2)
    link.hello(padded=True)
    assert link.exec("echo next")[1] == b"next\n"


FULL = struct.pack("<BBBBII", MAGIC, DATA, 0, 0, 1, FRAME) + b"x" * 1000


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 500])
def test_a_host_that_died_in_mid_frame(link: Link, cut: int) -> None:
    link.raw(FULL[:cut])
    link.hello(padded=True)
    assert link.exec("echo next")[1] == b"next\n"


def test_a_half_written_file_is_not_there(link: Link, tmp_path: object) -> None:
    path = f"{tmp_path}/file"
    link.write(path, b"old")
    s = link.open("write", path=path)
    s.send(b"x" * 100_000)
    link.hello(padded=True)
    assert link.read(path) == b"old"
    assert os.listdir(str(tmp_path)) == ["file", "root"] or sorted(os.listdir(str(tmp_path))) == ["file", "root"]


def test_padding_between_frames(link: Link) -> None:
    link.raw(PADDING)
    assert link.exec("echo a")[1] == b"a\n"
    link.raw(b"\0" * 5)
    assert link.exec("echo b")[1] == b"b\n"


def test_noise_until_hello(link: Link) -> None:
    link.raw(os.urandom(100_000).replace(bytes([MAGIC]), b"x"))
    link.hello(padded=True)
    assert link.exec("echo c")[1] == b"c\n"


def test_frames_of_unknown_streams_are_ignored(link: Link) -> None:
    for kind in range(2, 8):
        if kind != OPEN:
            link.frame(kind, 0, 4711, b"abcd")
    assert link.exec("echo d")[1] == b"d\n"


def test_a_window_that_is_exceeded(link: Link) -> None:
    s = link.open("exec", cmd="sleep 300", stdin=True)
    for _ in range(2 * WINDOW // FRAME):
        link.frame(DATA, 0, s.id, b"x" * FRAME)
        s.tx_window -= FRAME
    with pytest.raises(LinkError) as e:
        s.result()
    assert "window" in e.value.message


def test_events_that_are_no_json(link: Link) -> None:
    s = link.open("exec", cmd="read x; exit 4", stdin=True)
    for text in (b"", b"{", b"[1]", b'{"signal":"x"}', b'{"signal":-1}', b'{"signal":99999}'):
        link.frame(EVENT, 0, s.id, text)
    link.frame(EVENT, MORE, s.id, b'{"a')
    link.frame(EVENT, 0, s.id, b'":1}')
    s.end()
    assert s.result()["exit_code"] == 4


def test_resume(agent: Agent) -> None:
    agent.link.resume(hostname="box-1", machine_id="0123456789abcdef" * 2)
    etc = agent.root / "etc"
    assert (etc / "hostname").read_text() == "box-1\n"
    assert (etc / "machine-id").read_text() == "0123456789abcdef" * 2 + "\n"
    agent.link.resume(hostname="b")
    assert (etc / "hostname").read_text() == "b\n"


OURS = "127.0.1.1\tbox\n"
LONG = "".join(f"0.0.0.0 {i}.ads.example\n" for i in range(12000))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", OURS),
        ("127.0.0.1 localhost\n127.0.1.1 old\n::1 six\n", "127.0.0.1 localhost\n::1 six\n" + OURS),
        ("127.0.1.1\told\n127.0.1.1\n127.0.1.1 older", OURS),
        ("127.0.1.10 x\n127.0.1.1 old\n127.0.1.1.example y\n", "127.0.1.10 x\n127.0.1.1.example y\n" + OURS),
        ("# a\n\n\n127.0.0.1 no-end", "# a\n\n\n127.0.0.1 no-end\n" + OURS),
        (LONG[:200_000], LONG[:200_000].rstrip("\n") + "\n" + OURS),
        (LONG, LONG),
        ("127.0.1.1 old\n\0\n::1 six\n", "127.0.1.1 old\n\0\n::1 six\n"),
    ],
)
def test_hosts_of_a_copy(agent: Agent, before: str, after: str) -> None:
    """One line is the machine's; the others are the user's, however many."""
    hosts = agent.root / "etc/hosts"
    hosts.write_text(before)
    for _ in range(2):
        agent.link.resume(hostname="box")
        assert hosts.read_text() == after


def test_hosts_as_long_as_we_read(agent: Agent) -> None:
    hosts = agent.root / "etc/hosts"
    for length in range(256 * 1024 - 4200, 256 * 1024 + 100, 100):
        hosts.write_text("#" * length)
        agent.link.resume(hostname="box")
        assert hosts.read_text() in ("#" * length, "#" * length + "\n" + OURS)


def test_settings_of_package_managers(agent: Agent) -> None:
    (agent.root / "run").mkdir()
    pip, apt = agent.root / "run/pandastack-pip.conf", agent.root / "run/pandastack-apt.conf"
    agent.link.resume(packages={"pip": "[global]\n", "apt": "x", "other": "y"})
    assert (pip.read_text(), apt.read_text()) == ("[global]\n", "x")
    agent.link.resume(packages={"pip": "[other]\n", "apt": 7})
    assert (pip.read_text(), apt.read_text()) == ("[other]\n", "")
    # What is as it was is not written again.
    pip.write_text("the user's")
    agent.link.resume(packages={"pip": "[other]\n", "apt": 7})
    assert pip.read_text() == "the user's"
    agent.link.resume()
    assert pip.read_text() == ""
    assert not (agent.root / "run/pandastack-other.conf").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_ns": 0},
        {"entropy": "AAAA"},
        {"entropy": "!" * 88},
        {"hostname": "a b"},
        {"hostname": ""},
        {"machine_id": "0" * 31},
        {"machine_id": "G" * 32},
        {"env": [1]},
    ],
)
def test_resume_refuses(link: Link, wrong: dict[str, object]) -> None:
    with pytest.raises(LinkError) as e:
        link.resume(**wrong)
    assert e.value.kind == "invalid"
