# SPDX-License-Identifier: Apache-2.0
"""The deep agent with LangChain's fake model: it writes a script, runs, edits and runs it, and looks at the chart."""

import base64

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from pandastack import Sandbox
from pandastack.integrations.deepagents import SandboxBackend

import agent
from recipes import story
from recipes.langchain_model import ScriptedModel, call

SETUP, FIXED, DRAWING = story.CELLS


def test_it_corrects_its_script_and_draws() -> None:
    run = {"command": "cd /workspace && MPLBACKEND=agg python3 sales.py"}
    steps = [
        call("write_file", file_path="/workspace/sales.py", content=SETUP),
        call("execute", **run),
        call("edit_file", file_path="/workspace/sales.py", old_string="sales.meen()", new_string=f"print({FIXED})"),
        call("execute", **run, timeout=100),
        call("execute", command=f"cd /workspace && cat >> sales.py <<'E'\n\n{DRAWING}\nplt.savefig('sales.png')\nE"),
        call("execute", **run, timeout=101),
        call("read_file", file_path="/workspace/sales.png"),
        story.ANSWER,
    ]
    model = ScriptedModel.of(steps)
    messages, charts = agent.answer(story.QUESTION, model)
    assert messages[-1].text == story.ANSWER
    tools = [m for m in model.seen if isinstance(m, ToolMessage)]
    images = [block for m in model.seen if not isinstance(m, AIMessage) for block in m.content_blocks]
    story.check(
        texts=[tools[1].text, tools[3].text, tools[6].text],
        pictures=[base64.b64decode(block["base64"]) for block in images if block["type"] == "image"],
    )
    story.check_png(charts["sales.png"])


def test_the_backend_says_what_is_wrong() -> None:
    with Sandbox.create(ttl_seconds=600) as sandbox:
        backend = SandboxBackend(sandbox)
        assert backend.execute("echo out; echo err >&2; exit 3").exit_code == 3
        late = backend.execute("echo begun; sleep 60", timeout=1)
        assert late.exit_code == 124
        assert "begun" in late.output
        assert "timeout" in late.output
        written, refused = backend.upload_files([("/workspace/a", b"\0\xff"), ("relative", b"")])
        assert (written.error, bool(refused.error)) == (None, True)
        there, missing = backend.download_files(["/workspace/a", "/workspace/none"])
        assert (there.content, missing.error) == (b"\0\xff", "file_not_found")


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(Exception, match="StopIteration"):
        agent.answer(story.QUESTION, ScriptedModel.of([]))
