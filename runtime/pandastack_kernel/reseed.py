# SPDX-License-Identifier: Apache-2.0
"""Fresh randomness for a process that is a copy of another one.

The rule is CPython's own for ``os.fork``: the global generators are seeded again from the operating system;
a generator that the user made (``random.Random(1)``, ``numpy.random.default_rng(1)``) is left alone.
``uuid4``, ``secrets`` and ``os.urandom`` keep no state. String hashes are the same in all copies.
"""

from __future__ import annotations

import random
import sys

_GLOBAL_GENERATORS = (
    ("numpy.random", "seed"),
    ("sympy.core.random", "seed"),
    ("torch", "seed"),
)


def reseed() -> None:
    """Seed the global generators of ``random`` and of the libraries that are loaded."""
    random.seed()
    for name, function in _GLOBAL_GENERATORS:
        module = sys.modules.get(name)
        if module is not None:
            try:
                getattr(module, function)()
            except Exception:
                # A library half imported, or of another version; its own fork handling has to do.
                pass
