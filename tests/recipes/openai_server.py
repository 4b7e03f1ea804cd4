# SPDX-License-Identifier: Apache-2.0
"""A model that speaks OpenAI's protocols on a loopback port, for agents that have no fake model of their own.

It says what its script has, one answer after the other, and keeps what it was asked. Without a script it fails. Chat
completions are answered whole, the Responses API as a stream.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
_ids = itertools.count(1)


def say(text: str) -> Json:
    """The model's last word."""
    return {"role": "assistant", "content": text}


def call(name: str, **args: Any) -> Json:
    """The model wants a tool called."""
    function = {"name": name, "arguments": json.dumps(args)}
    calls = [{"id": f"call-{next(_ids)}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _events(message: Json) -> Iterator[Json]:
    """A message as the Responses API streams it."""
    yield {"type": "response.created", "response": {"id": "r", "created_at": 0, "model": "scripted"}}
    if message.get("tool_calls"):
        items = [
            {"type": "function_call", "id": c["id"], "call_id": c["id"], "status": "completed", **c["function"]}
            for c in message["tool_calls"]
        ]
    else:
        items = [{"type": "message", "id": "m", "role": "assistant", "content": []}]
    for i, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": i, "item": {**item, "arguments": ""}}
        if item["type"] == "message":
            yield {"type": "response.output_text.delta", "item_id": "m", "delta": message["content"]}
        yield {"type": "response.output_item.done", "output_index": i, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.completed", "response": {"usage": usage}}


class ScriptedServer(ThreadingHTTPServer):
    """The server; `url` is what OPENAI_BASE_URL is set to. A step of several messages is one answer's choices."""

    daemon_threads = True

    def __init__(self, script: Iterable[Json | list[Json]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = iter(script)
        self.requests: list[Json] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, request: Json) -> tuple[int, Json]:
        """Status and body for a request."""
        self.requests.append(request)
        step = next(self.script, None)
        if step is None:
            return 400, {"error": {"message": "the script is over", "type": "invalid_request_error"}}
        choices = [
            {"index": i, "message": m, "finish_reason": "tool_calls" if m.get("tool_calls") else "stop"}
            for i, m in enumerate(step if isinstance(step, list) else [step])
        ]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = {"id": "c", "object": "chat.completion", "created": 0, "model": request["model"], "usage": usage}
        return 200, {**whole, "choices": choices}

    def seen(self, role: str) -> list[Any]:
        """The contents of the messages of a role in the last request."""
        return [m["content"] for m in self.requests[-1]["messages"] if m["role"] == role]

    def pictures(self) -> list[str]:
        """The pictures in the last request, in base64."""
        parts = [part for content in self.seen("user") if isinstance(content, list) for part in content]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        return [url.removeprefix("data:image/png;base64,") for url in urls]


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = self.server.answer(request)
        kind, body = "application/json", json.dumps(answer).encode()
        if status == 200 and self.path.endswith("/responses"):
            events = _events(answer["choices"][0]["message"])
            kind, body = "text/event-stream", b"".join(b"data: %s\n\n" % json.dumps(e).encode() for e in events)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def scripted(*script: Json | list[Json]) -> Iterator[ScriptedServer]:
    """A server while the block runs."""
    server = ScriptedServer(script)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
