# SPDX-License-Identifier: Apache-2.0
"""What a cell of code gave, and how a notebook shows it."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import html
import json
from dataclasses import dataclass, field
from typing import Any

from .errors import Json, json_object
from .models import Model

CHART = "application/vnd.pandastack.chart+json"
TABLE = "application/vnd.dataresource+json"


@dataclass(frozen=True)
class Picture:
    """A picture in a form that every model's API takes: bytes, base64, a data URL."""

    data: bytes = field(repr=False)
    mime_type: str

    @property
    def base64(self) -> str:
        """Its bytes in base64."""
        return base64.b64encode(self.data).decode()

    @property
    def url(self) -> str:
        """As a data URL."""
        return f"data:{self.mime_type};base64,{self.base64}"


@dataclass(frozen=True)
class Result:
    """One result: the same thing in several forms, by MIME type. JSON is text, and binary is base64."""

    data: dict[str, str]

    @property
    def text(self) -> str | None:
        """As plain text."""
        return self.data.get("text/plain")

    @property
    def html(self) -> str | None:
        """As HTML, such as the table of a DataFrame."""
        return self.data.get("text/html")

    @property
    def markdown(self) -> str | None:
        """As Markdown."""
        return self.data.get("text/markdown")

    @property
    def latex(self) -> str | None:
        """As LaTeX."""
        return self.data.get("text/latex")

    @property
    def svg(self) -> str | None:
        """As SVG, which is text."""
        return self.data.get("image/svg+xml")

    @property
    def png(self) -> str | None:
        """As PNG in base64."""
        return self.data.get("image/png")

    @property
    def jpeg(self) -> str | None:
        """As JPEG in base64."""
        return self.data.get("image/jpeg")

    @property
    def json(self) -> Any:
        """The value of a result that is JSON."""
        return self._parsed("application/json")

    @property
    def chart(self) -> Any:
        """The data of a figure: titles, axes, points (docs/charts.md)."""
        return self._parsed(CHART)

    @property
    def table(self) -> Any:
        """The rows of a DataFrame (docs/charts.md)."""
        return self._parsed(TABLE)

    @property
    def picture(self) -> Picture | None:
        """As a picture, PNG if there is one. What the guest only calls a picture is none."""
        for mime in ("image/png", "image/jpeg"):
            try:
                data = base64.b64decode("".join(self.data.get(mime, "").split()), validate=True)
            except (binascii.Error, ValueError):
                continue
            if data:
                return Picture(data, mime)
        return None

    @property
    def plain(self) -> str | None:
        """The plainest words for it."""
        return next(filter(None, (self.text, self.markdown, self.latex, self.data.get("application/json"))), None)

    def _parsed(self, mime: str) -> Any:
        text = self.data.get(mime)
        return None if text is None else json.loads(text)


@dataclass
class Execution(Model):
    """A cell that ended, well or not: `error` is the traceback, None when all went well.

    Nothing is left unsaid: `truncated` when output was cut, `state_lost` when the variables are gone with their
    kernel, `kernel_restarted` when this cell was the first of a new one, `signal` when a kernel died of one.
    """

    status: str
    exit_code: int
    stdout: str = ""
    stderr: str = ""
    results: list[Result] = field(default_factory=list[Result])
    error: str | None = None
    error_name: str | None = None
    error_value: str | None = None
    error_line: int | None = None
    execution_count: int | None = None
    duration_ms: int = 0
    truncated: bool = False
    output_bytes: dict[str, int] = field(default_factory=dict[str, int])
    kernel_restarted: bool = False
    state_lost: bool = False
    signal: int | None = None
    reason: str | None = None
    files_changed: list[str] = field(default_factory=list[str])
    files_changed_truncated: bool = False

    @classmethod
    def from_json(cls, data: Any) -> Execution:
        """Of the answer to a cell; also of a command's, which code without a kernel gets."""
        answer = dict(json_object(data) or {})
        answer["results"] = [Result(bundle) for bundle in answer.get("results", [])]
        if "status" not in answer:
            code = answer.get("exit_code")
            answer["status"] = "error" if code else "ok"
            answer["error"] = (answer.get("stderr") or f"exit status {code}") if code else None
        return super().from_json(answer)

    @property
    def text(self) -> str | None:
        """The value of the last expression as text; without one, what was displayed last."""
        return next((r.text for r in reversed(self.results) if r.text is not None), None)

    @property
    def png(self) -> str | None:
        """The first picture, as PNG in base64."""
        return next((r.png for r in self.results if r.png), None)

    def for_model(self, max_text: int = 20_000, max_images: int = 4) -> tuple[str, list[Picture]]:
        """What a model is to see of it: a text, which is never empty, and the pictures.

        The text is output, values and traceback, in the words that cost least; what a picture shows is not said
        again. Where something was left out, it says so.

        Args:
            max_text: How many characters; of more, the middle is left out.
            max_images: How many pictures.
        """
        pictures = [r.picture for r in self.results]
        values = [r.plain for r, picture in zip(self.results, pictures) if picture is None]
        parts = [self.stdout, self.stderr, *values, self.error]
        text = _shortened("\n".join(p.rstrip("\n") for p in parts if p), max_text)
        shown = [p for p in pictures if p is not None]
        notes = [
            "" if text else "[a picture was drawn]" if shown else "[no output]",
            f"[{len(shown) - max_images} more pictures]" if len(shown) > max_images else "",
            "[output was cut]" if self.truncated else "",
            "[the kernel began anew: its variables are gone]" if self.state_lost else "",
        ]
        return "\n".join(filter(None, [text, *notes])), shown[:max_images]

    def to_dict(self) -> Json:
        """As JSON, in the API's form; from_json() takes it back."""
        return {**dataclasses.asdict(self), "results": [dict(r.data) for r in self.results]}

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """For notebooks. The guest's HTML stands in a frame where its scripts do not run: nobody has read them."""
        shown = [_pre(self.stdout), *map(_show, self.results), _pre(self.stderr), _pre(self.error)]
        text = [self.stdout, *(r.text for r in self.results), self.stderr, self.error]
        return {
            "text/html": "\n".join(filter(None, shown)),
            "text/plain": "\n".join(t.rstrip("\n") for t in text if t),
        }


def _shortened(text: str, limit: int) -> str:
    """Its beginning and its end, where the traceback's last line is."""
    left_out = len(text) - limit
    if left_out <= 0:
        return text
    return f"{text[: limit // 2]}\n[{left_out} characters left out]\n{text[len(text) - (limit - limit // 2) :]}"


def _pre(text: str | None) -> str:
    return f"<pre>{html.escape(text)}</pre>" if text else ""


def _show(result: Result) -> str:
    for mime, data in (("image/png", result.png), ("image/jpeg", result.jpeg)):
        if data:
            return f'<img src="data:{mime};base64,{html.escape(data)}">'
    page = result.html or result.svg
    if page:
        style = "width: 100%; height: 20em; border: 0; resize: vertical"
        return f'<iframe sandbox srcdoc="{html.escape(page)}" style="{style}"></iframe>'
    return _pre(result.markdown or result.latex or result.text or result.data.get("application/json"))
