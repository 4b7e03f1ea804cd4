# SPDX-License-Identifier: Apache-2.0
"""Everything that this package raises: one tree, whose messages say what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ._codes import STATUS_OF_CODE
from ._versions import is_other_version, version_advice

Json = dict[str, Any]


def json_object(value: Any) -> Json | None:
    """The value if it is a JSON object."""
    return cast(Json, value) if isinstance(value, dict) else None


class PandastackError(Exception):
    """The root of the tree.

    Attributes:
        message: What went wrong, and what to do about it.
        status: The HTTP status that stands for it; None where there was no answer.
        code: For programs: a row of the daemon's `api/errors.def`, such as "sandbox.not_found".
        request_id: Names the request in the daemon's log.
        details: What there was until it failed, in the form that it would have had (`stdout`, `state_lost`, …).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        details: Json | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.request_id = request_id
        self.details: Json = details or {}

    @property
    def stdout(self) -> str:
        """What a command or a cell had written until it failed."""
        return str(self.details.get("stdout", ""))

    @property
    def stderr(self) -> str:
        """As stdout."""
        return str(self.details.get("stderr", ""))


class ConfigError(PandastackError):
    """The address or the configuration file is none."""


class APIConnectionError(PandastackError):
    """No answer: the daemon is not there, was silent for too long, or went away."""


class ExecInterrupted(APIConnectionError):
    """The stream of a command or a cell ended before its end: what became of it is not known."""


class AuthError(PandastackError):
    """No API key, or one that the daemon does not know."""


class BadRequestError(PandastackError):
    """The daemon refused the request, and would again."""


class ConflictError(BadRequestError):
    """Not in the state that it is in: paused, or in use by others."""


class LimitError(BadRequestError):
    """There are as many as there may be."""


class NotFoundError(PandastackError):
    """No such sandbox, session, file, snapshot or template."""


class SandboxTimeout(PandastackError):
    """A command or a cell was ended by its time limit; `stdout`, `stderr` and `details` have what there was."""


class CommandError(PandastackError):
    """A command failed, and `check=True` was asked for."""

    def __init__(self, message: str, *, exit_code: int, details: Json) -> None:
        super().__init__(message, details=details)
        self.exit_code = exit_code


class ExploreError(PandastackError):
    """No candidate of explore() succeeded; `outcomes` says why."""

    def __init__(self, message: str, outcomes: Sequence[Any]) -> None:
        super().__init__(message)
        self.outcomes = outcomes


class ServerError(PandastackError):
    """It is not the request's fault."""


class SandboxFailed(ServerError):
    """The sandbox's machine is gone; the message says why."""


class NotSupportedError(ServerError):
    """This daemon does not have that."""


# The path itself: what is asked for by its name has a code of its own.
_UNKNOWN_PATH = ("not_found", "request.method")
# What one version refuses or lacks, another may have.
_MAY_BE_NEWS = ("request.invalid", "not_supported")
# Of a command or a cell.
_TIMED_OUT = " timeout after "

_CLASS_OF_CODE: dict[str, type[PandastackError]] = {
    "sandbox.failed": SandboxFailed,
    **dict.fromkeys(_UNKNOWN_PATH, NotSupportedError),
}
_CLASS_OF_STATUS: dict[int, type[PandastackError]] = {
    401: AuthError,
    403: AuthError,
    404: NotFoundError,
    409: ConflictError,
    429: LimitError,
    501: NotSupportedError,
    504: SandboxTimeout,
}


def make_error(body: Json, status: int | None = None, request_id: str | None = None) -> PandastackError:
    """The exception that an answer stands for, or the `error` event of a stream, which has no status of its own."""
    code = str(body["code"]) if "code" in body else None
    if status is None:
        status = STATUS_OF_CODE.get(code or "", 500)
    cls = _CLASS_OF_CODE.get(code or "") or _CLASS_OF_STATUS.get(status)
    if cls is None:
        cls = ServerError if status >= 500 else BadRequestError
    message = str(body.get("error") or f"the daemon answered with HTTP {status}")
    if code in _UNKNOWN_PATH or (code in _MAY_BE_NEWS and is_other_version()):
        message = f"{message} ({version_advice()})"
    elif cls is SandboxTimeout and _TIMED_OUT in message:
        message = f"{message}: allow it more time, or do less at once"
    return cls(
        message,
        status=status,
        code=code,
        request_id=str(body["request_id"]) if "request_id" in body else request_id,
        details=json_object(body.get("details")),
    )


def not_understood(what: str) -> ServerError:
    """The error for an answer of another shape than expected."""
    return ServerError(f"the daemon's answer is not what this SDK expects: {what} ({version_advice()})")
