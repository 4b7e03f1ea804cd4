# SPDX-License-Identifier: Apache-2.0
"""MIME bundles on the wire: every value a string.

Binary types are base64 without line breaks, JSON types are JSON text (NaN and infinity, which JSON has not,
become null), the rest is text.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

MAX_EVENT_BYTES = 64 << 20
"""Most that one result may carry; a larger value is left out and named in the metadata's ``omitted``."""

_DETACH_CHARS = 16 << 10
"""From here on a value is not worth escaping and parsing as JSON."""

_TEXT_APPLICATIONS = ("javascript", "xml", "x-latex", "x-tex", "sql", "yaml", "toml")


def encode(data: Mapping[str, Any]) -> dict[str, str]:
    """Return ``data`` with every value as the string that goes into an event; None values are dropped."""
    return {mime: encode_value(mime, value) for mime, value in data.items() if value is not None}


def encode_value(mime: str, value: Any) -> str:
    """Return one MIME value as a string. A string under a binary type is taken to be base64 already."""
    if is_json(mime):
        return _json_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        if is_text(mime):
            return bytes(value).decode("utf-8", "backslashreplace")
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, str):
        return "".join(value.split()) if is_binary(mime) else value
    if isinstance(value, (list, tuple)) and all(isinstance(line, str) for line in value):
        return "".join(value)
    if isinstance(value, (dict, list, tuple)):
        return _json_text(value)
    return str(value)


def is_json(mime: str) -> bool:
    """Tell whether values of this type are JSON."""
    kind = mime.partition(";")[0].strip()
    return kind == "application/json" or kind.endswith("+json")


def is_binary(mime: str) -> bool:
    """Tell whether values of this type are certainly bytes: images but SVG, sound, video, fonts, PDF."""
    kind = mime.partition(";")[0].strip()
    if kind.endswith("+xml"):
        return False
    return kind == "application/pdf" or kind.partition("/")[0] in ("image", "audio", "video", "font")


def is_text(mime: str) -> bool:
    """Tell whether values of this type are certainly text."""
    kind, _, name = mime.partition(";")[0].strip().partition("/")
    return kind == "text" or name.endswith(("+xml", *_TEXT_APPLICATIONS))


def limit(data: dict[str, str], metadata: dict[str, Any]) -> None:
    """Take the largest values out of ``data`` until it fits MAX_EVENT_BYTES (counted in characters).

    ``metadata["omitted"]`` then maps each type taken out to its length.
    """
    total = sum(map(len, data.values()))
    while total > MAX_EVENT_BYTES and data:
        mime = max(data, key=lambda key: len(data[key]))
        size = len(data.pop(mime))
        metadata.setdefault("omitted", {})[mime] = size
        total -= size


def detach(event: dict[str, Any]) -> list[bytes]:
    """Take the large values out of a result event, to be sent as bytes ahead of it.

    The event gains ``body``: ``{mime: bytes}`` in the order of what is returned.
    """
    data: dict[str, str] = event.get("data", {})
    large = [mime for mime, value in data.items() if len(value) >= _DETACH_CHARS]
    if not large:
        return []
    pieces = [data.pop(mime).encode("utf-8", "backslashreplace") for mime in large]
    event["body"] = dict(zip(large, map(len, pieces), strict=True))
    return pieces


def _json_text(value: Any) -> str:
    if isinstance(value, str):
        try:
            json.loads(value)
            return value
        except ValueError:
            pass
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _plain(value: Any) -> Any:
    """Return the nearest JSON value of what ``json`` does not know (numpy scalars and arrays, dates, sets)."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return _finite(_plain(value))
