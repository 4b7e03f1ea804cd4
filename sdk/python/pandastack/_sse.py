# SPDX-License-Identifier: Apache-2.0
"""Server-sent events (WHATWG HTML, section 9.2), as far as the daemon uses them: events with JSON as their data."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .errors import Json, json_object, not_understood

# The daemon's largest event is 32 MiB before JSON's escapes.
EVENT_BYTES_MAX = 256 << 20


@dataclass(frozen=True)
class Event:
    """One event."""

    name: str
    data: Json


class Decoder:
    """Makes events of bytes, wherever these were cut."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of the line that has not ended
        self._size = 0  # bytes since the last event
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in this chunk."""
        self._size += len(chunk)
        if self._size > EVENT_BYTES_MAX:
            raise not_understood("an event is too large")
        events: list[Event] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join([*self._line, end])
            self._line.clear()
            event = self._take_line(line[:-1] if line.endswith(b"\r") else line)
            if event:
                events.append(event)
                self._size = len(rest)
        self._line.append(rest)
        return events

    def _take_line(self, line: bytes) -> Event | None:
        if not line:
            return self._finish()
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"data":
            self._data.append(value)
        return None

    def _finish(self) -> Event | None:
        name, self._name = self._name or "message", ""
        lines, self._data = self._data, []
        if not lines:
            return None
        try:
            data = json_object(json.loads(b"\n".join(lines)))
        except ValueError:
            data = None
        if data is None:
            raise not_understood(f"the data of an event {name!r} is no JSON object")
        return Event(name, data)
