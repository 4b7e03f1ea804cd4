# SPDX-License-Identifier: Apache-2.0
"""A model that speaks OpenAI's protocols on a loopback port, for agents that have no fake model of their own.

It says what its script has, one answer after the other, and keeps what it was asked. Without a script it fails. Chat
completions are answered whole, the Responses API also as a stream.
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from recipes import story

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


def told() -> list[Json]:
    """The story, by calls of run_python."""
    return [*(call("run_python", code=cell) for cell in story.CELLS), say(story.ANSWER)]


def _items(message: Json) -> list[Json]:
    """A message as the Responses API has it."""
    if message.get("tool_calls"):
        return [
            {"type": "function_call", "id": c["id"], "call_id": c["id"], "status": "completed", **c["function"]}
            for c in message["tool_calls"]
        ]
    content = [{"type": "output_text", "text": message["content"], "annotations": []}]
    return [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}]


def _response(request: Json, message: Json) -> Json:
    """An answer of the Responses API."""
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    about = {"id": f"r-{next(_ids)}", "object": "response", "created_at": 0, "status": "completed"}
    tools = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    return {**about, **tools, "model": request["model"], "output": _items(message), "usage": {**usage, **details}}


def _events(response: Json) -> Iterator[Json]:
    """The same as a stream."""
    yield {"type": "response.created", "response": response}
    for i, item in enumerate(response["output"]):
        yield {"type": "response.output_item.added", "output_index": i, "item": {**item, "arguments": ""}}
        if item["type"] == "message":
            yield {"type": "response.output_text.delta", "item_id": "m", "delta": item["content"][0]["text"]}
        yield {"type": "response.output_item.done", "output_index": i, "item": item}
    yield {"type": "response.completed", "response": response}


class ScriptedServer(ThreadingHTTPServer):
    """The server; `environment` leads an agent to it. A step of several messages is one answer's choices."""

    daemon_threads = True

    def __init__(self, script: Iterable[Json | list[Json]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = iter(script)
        self.requests: list[Json] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.environment = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": self.url, "OPENAI_API_BASE": self.url}

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

    def shown(self) -> tuple[list[str], list[bytes]]:
        """What tools gave, as the last request has it, and the pictures in that."""
        request = self.requests[-1]
        texts: list[str] = []
        pictures: list[bytes] = []
        for item in request.get("messages") or request["input"]:
            content = item.get("output") or item.get("content")
            parts: list[Json] = content if isinstance(content, list) else [{"text": content}]
            if item.get("role") == "tool" or item.get("type") == "function_call_output":
                texts.append("".join(part.get("text", "") for part in parts))
            for part in parts:
                if url := part.get("image_url"):
                    data: str = url["url"] if isinstance(url, dict) else url
                    pictures.append(base64.b64decode(data.removeprefix("data:image/png;base64,")))
        return texts, pictures


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = self.server.answer(request)
        kind, body = "application/json", json.dumps(answer).encode()
        if status == 200 and self.path.endswith("/responses"):
            response = _response(request, answer["choices"][0]["message"])
            body = json.dumps(response).encode()
            if request.get("stream"):
                kind = "text/event-stream"
                body = b"".join(b"data: %s\n\n" % json.dumps(e).encode() for e in _events(response))
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
