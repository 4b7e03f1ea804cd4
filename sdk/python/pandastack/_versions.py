# SPDX-License-Identifier: Apache-2.0
"""The daemon's version and this package's, said where something went wrong that may come of two that do not fit.

The daemon names its own in a header of each answer, so that costs no request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar

from ._version import __version__

# What a header may hold to be shown in a message: it comes from whoever answers.
_FORM = re.compile(r"(\d{1,5})\.(\d{1,5})\.(\d{1,5})[A-Za-z0-9_.+-]{0,32}", re.ASCII)

_UPDATE_SDK = "update this SDK, by pip install of the sdk/python that came with the daemon"
_UPDATE_DAEMON = "update the daemon and restart it"

# Of the answer that came last to this thread or task, which is the one that it reads.
_daemon: ContextVar[str | None] = ContextVar("pandastack_daemon", default=None)


def note_version(headers: Mapping[str, str]) -> None:
    """Remember who answers now."""
    text = headers.get("Pandastack-Version", "")
    _daemon.set(text if _FORM.fullmatch(text) else None)


def is_other_version() -> bool:
    """Whether the daemon has named a version that is not ours."""
    return _daemon.get() not in (None, __version__)


def _numbers(version: str) -> tuple[int, ...]:
    form = _FORM.fullmatch(version)
    return tuple(map(int, form.groups())) if form else ()


def version_advice() -> str:
    """What to do about a failure that another version of the daemon explains."""
    daemon = _daemon.get()
    if daemon is None:
        return (
            f"the server names no version, this SDK is pandastack {__version__}: if it is an older daemon, "
            f"{_UPDATE_DAEMON}"
        )
    both = f"the daemon is pandastack {daemon}, this SDK is pandastack {__version__}"
    if daemon == __version__:
        return f"{both}: is something between them that changes requests or answers?"
    theirs, ours = _numbers(daemon), _numbers(__version__)
    update = "update the older of the two"
    if theirs != ours:
        update = _UPDATE_SDK if theirs > ours else _UPDATE_DAEMON
    return f"{both}: {update}"
