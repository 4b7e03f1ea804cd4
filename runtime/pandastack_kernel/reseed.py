# SPDX-License-Identifier: Apache-2.0
"""Fresh randomness for a process that is a copy of another one.

The rule is CPython's own for ``os.fork``: the global generators are seeded again from the operating system;
a generator that the user made (``random.Random(1)``, ``numpy.random.default_rng(1)``) is left alone.
OpenSSL's is one of the process, which only notices a fork of its own: it gets entropy, and starts again from that.
``uuid4``, ``secrets`` and ``os.urandom`` keep no state. String hashes are the same in all copies.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any


def _seed_numpy(numpy_random: Any) -> None:
    """Do what its ``seed()`` does, by far less code: a copied machine has to translate it first."""
    state = random.Random().getstate()[1]
    numpy_random.set_state(("MT19937", state[:-1], state[-1]))


_GLOBAL_GENERATORS = (
    ("numpy.random", _seed_numpy),
    ("sympy.core.random", lambda module: module.seed()),
    ("torch", lambda module: module.seed()),
)


def reseed() -> None:
    """Seed the global generators of ``random`` and of the libraries that are loaded."""
    random.seed()
    openssl = sys.modules.get("_ssl")
    if openssl is not None:
        fresh = os.urandom(48)
        openssl.RAND_add(fresh, float(len(fresh)))
    for name, seed in _GLOBAL_GENERATORS:
        module = sys.modules.get(name)
        if module is not None:
            try:
                seed(module)
            except Exception:
                # A library half imported, or of another version; its own fork handling has to do.
                pass
