# SPDX-License-Identifier: Apache-2.0
"""What the tests of the whole product share: the daemon as a process, and its API as a person would use it."""

from harness.api import Api, ApiError, Event, Sandbox, Session, joined
from harness.daemon import Daemon, LogRecord

__all__ = ["Api", "ApiError", "Daemon", "Event", "LogRecord", "Sandbox", "Session", "joined"]
