# SPDX-License-Identifier: Apache-2.0
"""One call of an API, and its JSON reshaped: one cell, in a sandbox that reaches that API and nothing else."""

import sys
from urllib.parse import urlsplit

from pandastack import Execution, Sandbox

CODE = """
import json, urllib.request
answer = json.load(urllib.request.urlopen({url!r}, timeout=20))
{expression}
"""


def call(url: str, expression: str) -> Execution:
    """The value of an expression over `answer`. A model may write that: it sees no key and no other host."""
    to = urlsplit(url)
    port = to.port or {"http": 80, "https": 443}[to.scheme]
    sandbox = Sandbox.create(
        ttl_seconds=120,
        metadata={"recipe": "one-off-call"},
        network={"egress": {"allow": [f"{to.hostname}:{port}"]}},
    )
    try:
        return sandbox.run_code(CODE.format(url=url, expression=expression), timeout=60)
    finally:
        sandbox.kill()


if __name__ == "__main__":
    ex = call(*sys.argv[1:])
    print(ex.error or ex.text)
