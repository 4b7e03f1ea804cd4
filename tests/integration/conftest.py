# SPDX-License-Identifier: Apache-2.0
"""All that a test gets from the daemon is what api/openapi.yaml says."""

from __future__ import annotations

from harness import Api
from harness.contract import contract

Api.on_answer = staticmethod(contract.check)
