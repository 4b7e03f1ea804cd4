# SPDX-License-Identifier: Apache-2.0
"""Gathers the events of a command or a cell into the answer that the daemon would have given without a stream.

So `run_code()` gives the same Execution whether somebody listened or not. What is kept has the daemon's own bounds;
listeners see all.
"""

from __future__ import annotations

from ._sse import Event
from .errors import ExecInterrupted, Json, PandastackError, make_error

# As the daemon's defaults (--max-output, --max-results); characters, which are fewer than bytes.
OUTPUT_MAX = 1 << 20
RESULTS_MAX = 32 << 20


class _Output:
    """One of the two outputs."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._left = OUTPUT_MAX
        self.bytes = 0
        self.cut = False

    def add(self, chunk: str) -> None:
        self.bytes += len(chunk.encode(errors="replace"))
        self.cut = self.cut or len(chunk) > self._left
        self._pieces.append(chunk[: self._left])
        self._left -= len(self._pieces[-1])

    def text(self) -> str:
        note = f"\n[cut: {self.bytes} bytes in all]\n" if self.cut else ""
        return "".join(self._pieces) + note


class Gathered:
    """What there is so far."""

    def __init__(self) -> None:
        self._facts: Json = {}
        self._error: Json = {}
        self._over = False
        self._clear_next = False
        self._clear()

    def _clear(self) -> None:
        self._outputs = {"stdout": _Output(), "stderr": _Output()}
        self._results: list[dict[str, str]] = []
        self._names: list[str | None] = []  # of displays, beside their results
        self._left = RESULTS_MAX
        self._cut = False
        self._clear_next = False

    def take(self, event: Event) -> None:
        """One more event."""
        if event.name in self._outputs:
            if self._clear_next:
                self._clear()
            self._outputs[event.name].add(str(event.data.get("chunk", "")))
        elif event.name == "result":
            if self._clear_next:
                self._clear()
            self._add_result(event.data)
        elif event.name == "clear_output":
            if event.data.get("wait"):
                self._clear_next = True
            else:
                self._clear()
        elif event.name == "truncated":
            self._cut = True
        elif event.name == "error":
            self._error = event.data
        elif event.name == "exit":
            self._facts = {k: v for k, v in event.data.items() if k != "seq"}
            self._over = True

    def _add_result(self, data: Json) -> None:
        bundle: dict[str, str] = data.get("data") or {}
        name: str | None = data.get("display_id")
        size = sum(map(len, bundle.values()))
        if size > self._left:
            self._cut = True
            return
        self._left -= size
        if data.get("update") and name in self._names:
            at = self._names.index(name)
            self._left += sum(map(len, self._results[at].values()))
            self._results[at] = bundle
        else:
            self._results.append(bundle)
            self._names.append(name)

    def answer(self) -> Json:
        """As the daemon would have answered."""
        answer: Json = {name: output.text() for name, output in self._outputs.items()}
        answer["results"] = self._results
        answer["truncated"] = self._cut or any(o.cut for o in self._outputs.values())
        if answer["truncated"]:
            answer["output_bytes"] = {name: output.bytes for name, output in self._outputs.items()}
        answer.update({k: v for k, v in self._error.items() if k.startswith("error")})
        answer.update(self._facts)
        return answer

    def failure(self) -> PandastackError | None:
        """Why there is no answer, if there is none."""
        if "code" in self._error:  # the stream's own; an exception in a cell has none
            return make_error({**self._error, "details": self.answer()})
        if not self._over:
            return ExecInterrupted(
                "the stream ended before the code did: whether it still runs and what it has done is not known",
                details=self.answer(),
            )
        return None
