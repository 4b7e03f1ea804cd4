# SPDX-License-Identifier: Apache-2.0
"""The call, with a server in the sandbox itself in place of the API: the test has no other."""

from typing import Any

import pytest
from pandastack import Sandbox

import agent

SERVER = """
from http.server import HTTPServer, SimpleHTTPRequestHandler
server = HTTPServer(("127.0.0.1", 8000), SimpleHTTPRequestHandler)
print("ready", flush=True)
server.serve_forever()
"""
SERVE = f"""
cd /tmp && mkfifo ready && echo '{{"name": "pandas", "stars": [1, 2, 39]}}' >repo.json
python3 -c '{SERVER}' >ready 2>/dev/null &
read -r word <ready
"""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Sandbox.create

    def with_server(**options: Any) -> Sandbox:
        sandbox = create(**options)
        sandbox.exec(SERVE, check=True, timeout=60)
        return sandbox

    monkeypatch.setattr(Sandbox, "create", with_server)


@pytest.mark.usefixtures("served")
def test_it_reshapes_the_answer() -> None:
    ex = agent.call("http://localhost:8000/repo.json", "{answer['name']: sum(answer['stars'])}")
    assert (ex.error, ex.text) == (None, "{'pandas': 42}")


@pytest.mark.usefixtures("served")
def test_what_goes_wrong_is_a_traceback() -> None:
    assert "HTTP Error 404" in (agent.call("http://localhost:8000/none.json", "answer").error or "")


def test_who_is_interrupted_leaves_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_code(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Sandbox, "run_code", run_code)
    with pytest.raises(KeyboardInterrupt):
        agent.call("http://localhost:8000/repo.json", "answer")


def test_another_host_is_out_of_reach() -> None:
    other = "json.load(urllib.request.urlopen('http://192.0.2.1/', timeout=20))"
    ex = agent.call("http://api.example.invalid/", other)
    assert ex.error_name == "URLError"
