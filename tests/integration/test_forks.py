# SPDX-License-Identifier: Apache-2.0
"""Forks: a machine and its copies, which share what they had, and neither numbers nor names nor what comes after."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import Api, Daemon, Sandbox, Session
from harness.daemon import fill, has_fault_points

Make = Callable[..., Sandbox]
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def discard(*sandboxes: Sandbox) -> None:
    for s in sandboxes:
        s.discard()


# ---- the calls ----


@pytest.fixture(scope="module")
def small(api: Api) -> Iterator[Sandbox]:
    """A parent of little state, for what is about the calls."""
    s = api.create("base", metadata={"who": "parent", "kept": "yes"}, env={"WORD": "kept"}, ttl_seconds=1234)
    s.write("/workspace/f", "parent's")
    try:
        yield s
    finally:
        s.discard()


def test_fork(small: Sandbox) -> None:
    """Clients take the id or the whole child out of the answer."""
    answer = small.api.call("POST", f"{small.path}/fork", want=201, json={"metadata": {"who": "child"}})
    child = Sandbox(small.api, answer["sandbox"])
    try:
        assert answer["children"] == [child.id]
        assert answer["parent_id"] == small.id
        assert answer["pause_ms"] > 0
        assert answer["delta_bytes"] > 0
        assert "tree_id" not in answer
        got = child.created
        assert got["parent"] == small.id
        assert got["boot_mode"] == "fork"
        assert got["metadata"] == {"who": "child", "kept": "yes"}
        assert got["ttl_seconds"] == 1234
        assert got["status"] == "running"
        assert {**child.info(), "expires_at": 0} == {**got, "expires_at": 0}
        assert (
            child.output("cat /workspace/f; echo; echo $WORD; hostname")
            == f"parent's\nkept\nsandbox-{child.id[:8]}\n"
        )
        child.write("/workspace/f", "child's")
        assert small.read("/workspace/f") == b"parent's"
    finally:
        child.discard()


def test_fork_without_a_body(small: Sandbox) -> None:
    child = Sandbox(small.api, small.api.call("POST", f"{small.path}/fork", want=201)["sandbox"])
    assert child.created["metadata"] == small.created["metadata"]
    child.delete()


@pytest.mark.parametrize("count", [1, 2, 5, None])
def test_fork_tree(small: Sandbox, count: int | None) -> None:
    body: dict[str, Any] = {"metadata": {"who": "child"}} | ({} if count is None else {"count": count})
    answer = small.api.call("POST", f"{small.path}/fork-tree", want=201, json=body)
    children = [Sandbox(small.api, c) for c in answer["children"]]
    try:
        assert len(children) == (count or 2)
        assert len({c.id for c in children}) == len(children)
        assert answer["parent_id"] == small.id
        assert "errors" not in answer
        for i, child in enumerate(children):
            assert child.created["metadata"] == {
                "who": "child",
                "kept": "yes",
                "fork_tree_id": answer["tree_id"],
                "fork_parent_id": small.id,
                "fork_index": str(i),
            }
            assert child.created["parent"] == small.id
            assert child.output("cat /workspace/f") == "parent's"
        listed = small.api.list(**{"metadata.fork_tree_id": answer["tree_id"]})
        assert {x["id"] for x in listed} == {c.id for c in children}
    finally:
        discard(*children)


@pytest.mark.parametrize(
    "body",
    [
        {"count": 0},
        {"count": 17},
        {"count": 1_000_000},
        {"count": -1},
        {"count": "x"},
        {"count": 1.5},
        {"count": [2]},
        {"count": 2, "metadata": 5},
        {"count": 2, "metadata": {"a": 5}},
        {"count": 2, "allow_partial": "yes"},
        # With its parent's two it would have 65.
        {"count": 2, "metadata": {f"key{i}": "" for i in range(63)}},
    ],
)
def test_bad_bodies(small: Sandbox, body: dict[str, Any]) -> None:
    before = small.api.ids()
    small.api.refused("POST", f"{small.path}/fork-tree", 400, "request.invalid", json=body)
    assert small.api.ids() == before


@pytest.mark.parametrize("call", ["fork", "fork-tree", "promote"])
def test_of_one_that_is_not_there(api: Api, call: str) -> None:
    api.refused("POST", f"/v1/sandboxes/{UNKNOWN}/{call}", 404, "sandbox.not_found", json={})


def test_promote(small: Sandbox) -> None:
    """Without cleanup nothing happens; with it the siblings end, and nobody else."""
    tree, other = small.fork_tree(3), small.fork_tree(2)
    winner = tree[1]
    path = f"{winner.path}/promote"
    tree_id = winner.created["metadata"]["fork_tree_id"]
    try:
        nothing = {"winner": winner.id, "tree_id": tree_id, "deleted": [], "failures": {}}
        assert small.api.call("POST", path, json={}) == nothing
        assert small.api.call("POST", path, json={"cleanup_siblings": False}) == nothing
        assert small.api.call("POST", path) == nothing
        assert all(s.status() == "running" for s in tree)
        got = small.api.call("POST", path, json={"cleanup_siblings": True, "tree_id": tree_id})
        assert set(got["deleted"]) == {tree[0].id, tree[2].id}
        assert got["failures"] == {}
        left = small.api.ids()
        assert {winner.id, small.id, *(s.id for s in other)} <= left
        assert not {tree[0].id, tree[2].id} & left
        assert winner.output("cat /workspace/f") == "parent's"
        assert small.api.call("POST", path, json={"cleanup_siblings": True})["deleted"] == []
    finally:
        discard(*tree, *other)


def test_promote_of_one_that_is_in_no_tree(small: Sandbox) -> None:
    answer = small.api.refused(
        "POST", f"{small.path}/promote", 400, "request.invalid", json={"cleanup_siblings": True}
    )
    assert "tree_id" in answer["error"]
    small.api.refused("POST", f"{small.path}/promote", 400, "request.invalid", json={"cleanup_siblings": "yes"})


def test_promote_spares_the_winners_own_children(small: Sandbox) -> None:
    """What was forked off the winner is no sibling of it; a grandchild by way of a sibling is none either."""
    winner, loser = small.fork_tree(2)
    child, tree = winner.fork(), winner.fork_tree(2)
    try:
        got = small.api.call("POST", f"{winner.path}/promote", json={"cleanup_siblings": True})
        assert got["deleted"] == [loser.id]
        assert all(s.status() == "running" for s in (child, *tree))
    finally:
        discard(winner, loser, child, *tree)


def test_all_or_nothing(small_disk: tuple[Daemon, Any]) -> None:
    """Where the disk has no room for all children: none, unless some are enough."""
    d, disk = small_disk
    s = d.api.create("base")
    os.truncate(fill(disk), (disk / "filler").stat().st_size - (32 << 20))
    body: dict[str, Any] = {"count": 16}
    d.api.refused("POST", f"{s.path}/fork-tree", 507, "no_space", json=body)
    assert d.folders() == [s.id]
    assert list((disk / "forks").iterdir()) == []
    assert s.output("echo goes on") == "goes on\n"
    answer = d.api.call("POST", f"{s.path}/fork-tree", want=201, json={**body, "allow_partial": True})
    made = [Sandbox(d.api, c) for c in answer["children"]]
    assert 0 < len(made) < 16
    assert len(made) + len(answer["errors"]) == 16
    assert {e["index"] for e in answer["errors"]} == set(range(16)) - {
        int(m.created["metadata"]["fork_index"]) for m in made
    }
    assert all(e["err"] for e in answer["errors"])
    assert all(m.output("echo fine") == "fine\n" for m in made)
    d.stop()
    d.check_clean()


# ---- generations ----


def test_generations(sandbox: Make, api: Api) -> None:
    """Forks of forks and of a restored sandbox; each has its own past, the links work in all (S6, S7)."""
    s = sandbox(env={"WORD": "kept"})
    kernel = s.session()
    kernel.ok("past = [0]")
    made: list[Sandbox] = []
    taken = ""
    try:
        at = s
        for generation in range(1, 4):
            with at.stream("echo up; sleep 5555") as events:
                next(events)
                child = at.fork()
                made.append(child)
                assert child.created["parent"] == at.id
                assert child.exec("pgrep -fx 'sleep 5555'")["stdout"] == ""
                assert at.output("pgrep -fx 'sleep 5555'").strip()
            assert child.same(kernel).text(f"past.append({generation}); past") == str(list(range(generation + 1)))
            at = child
        taken = at.snapshot()["id"]
        restored = api.restore(taken)
        made.append(restored)
        last = restored.fork()
        made.append(last)
        assert last.same(kernel).text("past.append('last'); past") == "[0, 1, 2, 3, 'last']"
        assert restored.same(kernel).text("past") == "[0, 1, 2, 3]"
        assert kernel.text("past") == "[0]"
        assert last.output("echo $WORD") == "kept\n"
    finally:
        discard(*made)
        api.request("DELETE", f"/v1/snapshots/{taken}")


def test_of_a_hibernated_and_a_paused_one(sandbox: Make) -> None:
    s = sandbox()
    kernel = s.session()
    kernel.ok("x = 5")
    for stop, go in ((s.hibernate, s.wake), (s.pause, s.resume)):
        stop()
        before = s.status()
        answer = s.api.call("POST", f"{s.path}/fork-tree", want=201, json={"count": 2})
        children = [s.api.sandbox(child["id"]) for child in answer["children"]]
        try:
            assert answer["delta_bytes"] > 1 << 20
            assert [c.same(kernel).text("x") for c in children] == ["5", "5"]
            assert s.status() == before
        finally:
            discard(*children)
        go()
        assert kernel.text("x") == "5"


def test_of_a_failed_one(sandbox: Make) -> None:
    s = sandbox("base")
    s.api.request("POST", f"{s.path}/exec", json={"cmd": "echo c > /proc/sysrq-trigger; sleep 9"})
    answer = s.api.refused("POST", f"{s.path}/fork", 409, "conflict")
    assert "failed" in answer["error"]


def test_a_cell_that_runs_at_the_fork(sandbox: Make) -> None:
    """Is interrupted in the clone, whose session is usable; in the parent it goes on."""
    s = sandbox()
    kernel = s.session()
    kernel.ok("import os, time\nx = 7")
    with kernel.stream("print('in')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nx = 8") as events:
        next(events)
        child = s.fork()
        try:
            got = child.same(kernel).ok("x", timeout_ms=20_000)
            assert got["results"] == [{"text/plain": "7"}]
            assert got["kernel_restarted"] is False
        finally:
            child.discard()
        s.write("/tmp/go", "")
        assert list(events)[-1].name != "error"
    assert kernel.text("x") == "8"


# ---- memory ----


def test_memory(daemon: Daemon, sandbox: Make) -> None:
    """Children of a large session compute from it, share it until they write, and see nobody else's writing."""
    s = sandbox()
    kernel = s.session()
    kernel.ok("import numpy as np\nbig = np.arange(20_000_000, dtype='float64') % 1000")  # 153 MiB
    total = kernel.text("float(big.sum())")
    children = s.fork_tree(4)
    try:
        pss = [daemon.memory_kib(c.id) for c in children]
        assert max(pss) < 130 << 10, pss  # a full copy has more than the array's 153 MiB
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(lambda c: c.same(kernel).text("float(big.sum())"), children)) == {total}
        assert children[0].same(kernel).text("big[:] = 1; float(big.sum())") == "20000000.0"
        for other in (s, *children[1:]):
            assert other.same(kernel).text("float(big.sum())") == total
        again = children[0].fork()
        children.append(again)
        assert again.same(kernel).text("float(big.sum())") == "20000000.0"
    finally:
        discard(*children)


def test_memory_of_single_forks(daemon: Daemon, sandbox: Make) -> None:
    """The first fork of a large session leaves a memory to share; the next ones copy what has changed since."""
    s = sandbox()
    kernel = s.session()
    kernel.ok("import numpy as np\nbig = np.arange(20_000_000, dtype='float64') % 1000")  # 153 MiB
    children = []
    copied = []

    def fork() -> None:
        answer = s.api.call("POST", f"{s.path}/fork", want=201, json={})
        children.append(s.api.sandbox(answer["sandbox"]["id"]))
        copied.append(answer["delta_bytes"])

    try:
        for step in range(3):
            kernel.ok(f"big[0] = {step + 1}")
            fork()
        s.hibernate()
        kernel.ok("big[0] = 4")
        fork()
        assert copied[0] > 153 << 20
        assert max(copied[1:]) < 80 << 20, copied
        pss = [daemon.memory_kib(child.id) for child in children]
        assert max(pss) < 130 << 10, pss  # a full copy has more than the array's 153 MiB
        total = kernel.text("float(big[1:].sum())")
        for step, child in enumerate(children):
            assert child.same(kernel).text("float(big[0]), float(big[1:].sum())") == f"({step + 1}.0, {total})"
    finally:
        discard(*children)


def test_no_room_for_a_memory_to_share(small_disk: tuple[Daemon, Path]) -> None:
    """A few children get a copy each. Many would take more memory than that, and are refused."""
    d, disk = small_disk
    s = d.api.create("base")
    s.output("head -c 30M /dev/zero | tr '\\0' x > /dev/shm/big")
    mark = d.mark()
    child = s.fork()
    d.wait_log("no room for a memory that forks share", since=mark, sandbox=s.id)
    assert child.output("tr -d x < /dev/shm/big | wc -c; wc -c < /dev/shm/big").split() == ["0", str(30 << 20)]
    assert {p.name for p in (disk / "sandboxes").rglob("memory*")} == set()
    child.delete()
    d.api.refused("POST", f"{s.path}/fork-tree", 507, "no_space", json={"count": 16})
    assert d.folders() == [s.id]
    assert list((disk / "forks").iterdir()) == []
    d.stop()
    d.check_clean()


BIG = 100 << 20


def fill_memory(s: Sandbox, letter: str) -> None:
    """So much of it that the next fork makes a memory to share."""
    s.output(f"head -c {BIG} /dev/zero | tr '\\0' {letter} > /dev/shm/big")


def look(s: Sandbox) -> list[str]:
    """What is in that memory, and beside it."""
    return s.output("tr -d x < /dev/shm/big | wc -c; tr -d y < /dev/shm/big | wc -c; cat /dev/shm/word").split()


def test_two_forks_that_make_a_memory_to_share(make_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """One puts it in place while the other has written down how its parent differs from the one that was there."""
    if not has_fault_points():
        pytest.skip("the program was built without -Dfaults=true")
    flattened, captured = tmp_path / "flattened", tmp_path / "captured"
    d = make_daemon(env={"PANDASTACK_FAULT": f"fork.flattened={flattened},capture.memory={captured}"}).wait_ready()
    s = d.api.create("base")
    shared = d.data_dir / "sandboxes" / s.id / "shared"
    fill_memory(s, "x")
    s.output("echo zero > /dev/shm/word")
    zero = s.fork()
    before = shared.stat().st_ino
    fill_memory(s, "y")
    s.output("echo one > /dev/shm/word")
    os.mkfifo(flattened)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(s.fork)
        with contextlib.ExitStack() as holding:
            holding.enter_context(flattened.open("wb"))
            flattened.unlink()
            fill_memory(s, "x")
            s.output("echo two > /dev/shm/word")
            os.mkfifo(captured)
            second = pool.submit(s.fork)
            with captured.open("wb"):
                captured.unlink()
                holding.close()
                with pytest.raises(TimeoutError):
                    first.result(0.5)
                assert shared.stat().st_ino == before
        one, two = first.result(), second.result()
    s.output("echo three > /dev/shm/word")
    three = s.fork()
    assert shared.stat().st_ino != before
    assert look(zero) == ["0", str(BIG), "zero"]
    assert look(one) == [str(BIG), "0", "one"]
    assert look(two) == ["0", str(BIG), "two"]
    assert look(three) == ["0", str(BIG), "three"]
    d.stop()
    d.check_clean()


# ---- clones are different (S1 to S4) ----

CLONES = 16
PYTHON = """
import json, os, random, secrets, ssl, uuid
import numpy as np
print(json.dumps({
    "urandom": os.urandom(16).hex(), "secrets": secrets.token_hex(16), "uuid4": str(uuid.uuid4()),
    "random": random.random(), "numpy": float(np.random.rand()),
    "default_rng": float(np.random.default_rng().random()),
    "system": random.SystemRandom().random(), "ssl": ssl.RAND_bytes(16).hex(),
}))
"""
NODE = """
const crypto = require("crypto");
console.log(JSON.stringify({
  math: Math.random(), uuid: crypto.randomUUID(), bytes: crypto.randomBytes(16).toString("hex"),
  int: crypto.randomInt(2 ** 47), values: Array.from(crypto.getRandomValues(new Uint32Array(4))).join(" "),
}));
"""
SHELL = (
    "hostname; cat /etc/hostname /etc/machine-id /proc/sys/kernel/random/boot_id /proc/sys/kernel/random/uuid;"
    "head -c16 /dev/urandom | od -An -tx1 | tr -d ' '; openssl rand -hex 16"
)


class Family:
    """A parent with seeded and unseeded generators, and its clones."""

    def __init__(self, api: Api) -> None:
        self.parent = p = api.create()
        self.python, self.node, self.bash = p.session(), p.session(language="javascript"), p.session(language="bash")
        self.python.ok(
            PYTHON + "mine = random.Random(1); rng = np.random.default_rng(1); _ = mine.random(), rng.random()"
        )
        self.node.ok(NODE)
        self.bash.ok("echo $RANDOM $SRANDOM")
        self.clones = p.fork_tree(CLONES)
        self.all = [p, *self.clones]


@pytest.fixture(scope="module")
def family(api: Api) -> Iterator[Family]:
    made = Family(api)
    try:
        yield made
    finally:
        discard(*made.all)


def outputs(family: Family, session: Session, code: str) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda s: str(s.same(session).ok(code)["stdout"]), family.all))


def all_differ(values: list[Any], what: str) -> None:
    assert all(str(v).strip() for v in values), (what, values)
    assert len({str(v) for v in values}) == len(values), (what, values)


@pytest.mark.parametrize("language", ["python", "node"])
def test_S1_sessions(family: Family, language: str) -> None:
    session, code = (family.python, PYTHON) if language == "python" else (family.node, NODE)
    seen = [json.loads(text) for text in outputs(family, session, code)]
    for name in seen[0]:
        all_differ([v[name] for v in seen], name)


def test_S1_bash(family: Family) -> None:
    """$RANDOM has 15 bits: three of them in a row."""
    all_differ(outputs(family, family.bash, "echo $RANDOM $RANDOM $RANDOM"), "RANDOM")
    all_differ(outputs(family, family.bash, "echo $SRANDOM $SRANDOM"), "SRANDOM")


def test_S2_S3_the_machine(family: Family) -> None:
    with ThreadPoolExecutor(4) as pool:
        seen = [text.split() for text in pool.map(lambda s: s.output(SHELL), family.all)]
    for i, column in enumerate(zip(*seen, strict=True)):
        all_differ(list(column), f"line {i} of {SHELL}")
    assert [v[0] for v in seen] == [f"sandbox-{s.id[:8]}" for s in family.all]


def test_S1_a_generator_of_the_users_own_goes_on(family: Family) -> None:
    seen = outputs(family, family.python, "print(mine.random(), rng.random())")
    own = random.Random(1)
    own.random()
    assert len(set(seen)) == 1
    assert float(seen[0].split()[0]) == own.random()


def offset(s: Sandbox, session: Session) -> float:
    """How far its clock is from ours, at least: what the round trip does not explain."""
    before = time.time()
    guest = float(s.same(session).text("__import__('time').time()"))
    after = time.time()
    return max(0.0, before - guest, guest - after)


def test_S4_the_clock(family: Family) -> None:
    assert max(offset(s, family.python) for s in family.all[:5]) < 0.05


def test_S4_the_clock_after_an_hour_in_storage(sandbox: Make, api: Api) -> None:
    """Faked: the guest's clock is an hour behind when it is captured. The monotonic one never goes back."""
    s = sandbox()
    kernel = s.session()
    kernel.ok("import time\nlast = time.monotonic()")
    kernel.ok("time.clock_settime(time.CLOCK_REALTIME, time.time() - 3600)")
    assert 3590 < offset(s, kernel) < 3610
    taken = s.snapshot()["id"]
    kernel.ok("time.clock_settime(time.CLOCK_REALTIME, time.time() - 3600)")
    copy, child = api.restore(taken), s.fork()
    try:
        for each in (copy, child):
            assert offset(each, kernel) < 0.05
            assert each.same(kernel).text("time.monotonic() >= last") == "True"
        kernel.ok("time.clock_settime(time.CLOCK_REALTIME, time.time() - 3600)")
        s.hibernate()
        s.wake()
        assert offset(s, kernel) < 0.05
        assert kernel.text("time.monotonic() >= last") == "True"
    finally:
        discard(copy, child)
        api.request("DELETE", f"/v1/snapshots/{taken}")
