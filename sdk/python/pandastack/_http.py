# SPDX-License-Identifier: Apache-2.0
"""HTTP as far as it is the same with and without asyncio: options, and what failures mean."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from ._config import Config
from ._version import __version__
from .errors import APIConnectionError, Json, PandastackError, ServerError, json_object, make_error

CONNECT_SECONDS = 10
EVENTS = "text/event-stream"
# The daemon sends a comment every 15 s on a stream that has nothing to say.
STREAM_SILENCE_SECONDS = 60
# What a call with a time limit in the sandbox may take beyond it: the guest kills and answers.
GRACE_SECONDS = 30
RETRY_PAUSES = (0.1, 0.4)


def client_options(config: Config, timeout: float) -> dict[str, Any]:
    """Arguments of httpx.Client and httpx.AsyncClient."""
    return {
        "base_url": config.api,
        "headers": {"Authorization": f"Bearer {config.key}", "User-Agent": f"pandastack-python/{__version__}"},
        "timeout": httpx.Timeout(timeout, connect=CONNECT_SECONDS, pool=None),
        "limits": httpx.Limits(max_connections=None),  # streams may be many
        "trust_env": not config.is_local,
    }


def path_of(*segments: str) -> str:
    """A path of the API."""
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def without_none(**members: Any) -> Json:
    """A request's body: what was not given is not sent, so that the daemon's default counts."""
    return {k: v for k, v in members.items() if v is not None}


def may_retry(error: httpx.TransportError, *, safe: bool) -> bool:
    """Whether a request may be sent again: it never left, or twice is as good as once and the connection broke."""
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return True
    return safe and isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError))


def explain(error: httpx.TransportError, config: Config, *, streams: bool = False) -> APIConnectionError:
    """What it means that there is no answer, or no more of one that comes in pieces."""
    where = f"the daemon at {config.api}"
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return APIConnectionError(
            f"no daemon answers at {config.api} ({error}): is it running? "
            f"Start it with `pandastack serve`, or set PANDASTACK_API to where it is"
        )
    if isinstance(error, httpx.TimeoutException) and streams:
        return APIConnectionError(f"{where} was silent for too long: it hangs, or what is between does. Try again")
    if isinstance(error, httpx.TimeoutException):
        return APIConnectionError(
            f"{where} was silent for too long: the call may still take effect. Client(timeout=…) waits longer"
        )
    return APIConnectionError(
        f"the connection to {where} broke ({error}): does it still run? The call may have taken effect"
    )


def no_socket(config: Config) -> APIConnectionError:
    """What it means that a WebSocket was asked for and something else was answered."""
    return APIConnectionError(
        f"what answers at {config.api} opened no WebSocket: is there a proxy before the daemon that passes none? "
        f"Is PANDASTACK_API the address of a pandastack daemon?"
    )


def foreign(response: httpx.Response, config: Config, text: str) -> ServerError:
    """Somebody else answers at the daemon's address."""
    name = response.headers.get("Server")
    who = f", by a server that calls itself {name[:60]!r}" if name else ""
    return ServerError(
        f"HTTP {response.status_code} from {config.api} is no answer of a pandastack daemon{who}: is PANDASTACK_API "
        f"right? This SDK is for pandastack {__version__}. It said: {text[:200]!r}",
        status=response.status_code,
    )


def refusal(response: httpx.Response, config: Config) -> PandastackError:
    """The error that an answer is, whose body has been read."""
    try:
        body = json_object(response.json())
    except ValueError:
        body = None
    if body is None or not isinstance(body.get("error"), str):
        return foreign(response, config, response.text)
    if response.status_code == 401:
        body["error"] = (
            f"the daemon at {config.api} refused the API key from {config.key_from}: `pandastack serve` writes the "
            f"right one to ~/.config/pandastack/config.json at its first start ({body.get('error')})"
        )
    return make_error(body, response.status_code, response.headers.get("X-Request-Id"))


def json_of(response: httpx.Response, config: Config) -> Any:
    """What a good answer holds; None where it has no body."""
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError as e:
        raise foreign(response, config, response.text) from e


def check_events(response: httpx.Response, config: Config) -> None:
    """Refuse an answer that is no stream of events."""
    kind = response.headers.get("Content-Type", "")
    if not kind.startswith(EVENTS):
        raise foreign(response, config, f"Content-Type: {kind}")
