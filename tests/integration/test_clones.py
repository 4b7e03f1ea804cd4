# SPDX-License-Identifier: Apache-2.0
"""Two sandboxes of one template are two machines: nothing random, and no name, is the same (S1 to S4)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness import Api, Sandbox

RANDOM_OF_A_KERNEL = """
import os, random, secrets, ssl, tempfile, uuid
import numpy as np
{
    "random": random.random(),
    "numpy": float(np.random.rand()),
    "numpy_generator": float(np.random.default_rng().random()),
    "uuid4": str(uuid.uuid4()),
    "uuid1": str(uuid.uuid1()),
    "secrets": secrets.token_hex(16),
    "urandom": os.urandom(16).hex(),
    "getrandom": os.getrandom(16).hex(),
    "ssl": ssl.RAND_bytes(16).hex(),
    "shuffled": random.sample(range(1000), 10),
    "tempfile": tempfile.mktemp(),
    "hash": hash("pandastack"),
}
"""

SOURCES = {
    "urandom": "head -c16 /dev/urandom | od -An -tx1",
    "uuid": "cat /proc/sys/kernel/random/uuid",
    "openssl": "openssl rand -hex 16",
    "node": 'node -e \'console.log(Math.random(), require("crypto").randomBytes(8).toString("hex"))\'',
    "python": "python3 -c 'import random, uuid; print(random.random(), uuid.uuid4())'",
    "hostname": "hostname",
    "machine_id": "cat /etc/machine-id",
}


@pytest.fixture(scope="module")
def clones(api: Api) -> Iterator[list[Sandbox]]:
    made = [api.create() for _ in range(3)]
    yield made
    for s in made:
        s.discard()


def test_S1_warm_kernels_differ(clones: list[Sandbox]) -> None:
    values = [eval(s.session().text(RANDOM_OF_A_KERNEL)) for s in clones]
    for name in values[0]:
        if name == "hash":
            continue  # PYTHONHASHSEED is of the interpreter's start; see test_S1_hash_seed
        seen = [str(v[name]) for v in values]
        assert len(set(seen)) == 3, (name, seen)


def test_S1_two_sessions_of_one_sandbox_differ(clones: list[Sandbox]) -> None:
    a, b = (eval(clones[0].session().text(RANDOM_OF_A_KERNEL)) for _ in range(2))
    assert all(a[name] != b[name] for name in a if name != "hash"), (a, b)


@pytest.mark.parametrize("source", SOURCES)
def test_S1_S2_S3_sources_differ(clones: list[Sandbox], source: str) -> None:
    seen = [s.output(SOURCES[source]) for s in clones]
    assert len(set(seen)) == 3, seen
    assert all(text.strip() for text in seen)


def test_S2_first_bytes_after_the_restore(api: Api) -> None:
    """The very first thing that a clone does is to draw random bytes."""
    made = [api.create() for _ in range(2)]
    try:
        seen = [s.output("head -c16 /dev/urandom | od -An -tx1; head -c16 /dev/random | od -An -tx1") for s in made]
        assert seen[0] != seen[1]
        assert not set(seen[0].split("\n")[:2]) & set(seen[1].split("\n")[:2])
    finally:
        for s in made:
            s.discard()


def test_S3_identity(clones: list[Sandbox]) -> None:
    for s in clones:
        host, machine = s.output("hostname; cat /etc/machine-id").split()
        assert host == f"sandbox-{s.id[:8]}"
        assert len(machine) == 32
        assert s.output("hostname; cat /etc/hostname").split() == [host, host]
        assert s.output(f"getent hosts {host}").split()[0].startswith("127.")
    keys = clones[0].output("ls /etc/ssh/ssh_host_* 2>/dev/null || true")
    assert keys == "", "host keys of the template would be shared by all its sandboxes"


@pytest.mark.parametrize("_", range(3))
def test_S4_clock(api: Api, _: int) -> None:
    """Right before user code runs, however long the template lay on the disk."""
    s = api.create()
    try:
        before = time.time()
        guest = float(s.output("date +%s.%N"))
        after = time.time()
    finally:
        s.discard()
    assert before - 0.05 <= guest <= after + 0.05, (guest - before, after - before)


def test_S4_clock_in_a_warm_kernel(clones: list[Sandbox]) -> None:
    before = time.time()
    guest = float(clones[0].session().text("import time; time.time()"))
    assert before - 0.05 <= guest <= time.time() + 0.05
