# SPDX-License-Identifier: Apache-2.0
"""Where the daemon is and with which key: arguments, the environment, then the user's configuration file.

The file is `pandastack/config.json` below `$XDG_CONFIG_HOME` or `~/.config`; the daemon writes it at its first start,
and the command line reads it in the same way.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .errors import AuthError, ConfigError, Json, json_object

DEFAULT_API = "http://127.0.0.1:8080"
# The published clients know the members by several names.
API_NAMES = ("api", "api_url", "apiUrl")
KEY_NAMES = ("api_key", "token", "apiKey")


@dataclass(frozen=True)
class Config:
    """The daemon's address, without a slash at its end, and the key."""

    api: str
    key: str
    key_from: str

    @property
    def is_local(self) -> bool:
        """Whether the daemon is on this machine, where no proxy must come in between."""
        return urlsplit(self.api).hostname in ("127.0.0.1", "::1", "localhost")


def config_path() -> Path:
    """The file; it need not be there."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "pandastack" / "config.json"


def _read_file(path: Path) -> Json:
    try:
        content = json_object(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as e:
        raise ConfigError(f"cannot read {path}: {e}") from e
    if content is None:
        raise ConfigError(f"{path} is not a JSON object")
    return content


def _member(content: Json, names: tuple[str, ...]) -> str | None:
    values = (content.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value), None)


def _check_api(api: str) -> str:
    try:
        parts = urlsplit(api)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{api!r} is no address of a daemon: PANDASTACK_API must be like {DEFAULT_API}")
    api = api.rstrip("/")
    return api[: -len("/v1")] if api.endswith("/v1") else api


def load_config(api_url: str | None = None, api_key: str | None = None) -> Config:
    """What is given counts first, then the environment; the file is read only where something is still missing."""
    path = config_path()
    api = api_url or os.environ.get("PANDASTACK_API")
    key = api_key or os.environ.get("PANDASTACK_API_KEY")
    key_from = "the argument api_key" if api_key else "PANDASTACK_API_KEY"
    content = {} if api and key else _read_file(path)
    if not key:
        key, key_from = _member(content, KEY_NAMES), str(path)
    if not key:
        raise AuthError(
            f"no API key: set PANDASTACK_API_KEY, or start the daemon once as this user "
            f"(`pandastack serve` writes a key to {path})"
        )
    return Config(_check_api(api or _member(content, API_NAMES) or DEFAULT_API), key, key_from)
