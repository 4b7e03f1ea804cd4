# SPDX-License-Identifier: Apache-2.0
"""The deep agent with LangChain's fake model: it writes a script, runs, edits and runs it, and looks at the chart."""

import base64
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from pandastack import Sandbox
from pandastack.integrations.deepagents import SandboxBackend

import agent
from recipes import story
from recipes.langchain_model import ScriptedModel, call
from recipes.openai_server import call as wanted
from recipes.openai_server import say
from recipes.typed import Typed

SCRIPT = "sales = [120, 90, 150]\nprint(sales.mean())\n"
DRAWING = "import matplotlib.pyplot as plt\nplt.bar(['Jan', 'Feb', 'Mar'], sales)\nplt.savefig('sales.png')\n"
PATH = "/workspace/sales.py"


def test_it_corrects_its_script_and_draws() -> None:
    run = {"command": "cd /workspace && python3 sales.py"}
    steps = [
        call("write_file", file_path=PATH, content=SCRIPT),
        call("execute", **run),
        call("edit_file", file_path=PATH, old_string="sales.mean()", new_string="sum(sales) / len(sales)"),
        call("execute", command=f"{run['command']} && cat >>sales.py <<'E'\n{DRAWING}E"),
        call("execute", **run, timeout=200),
        call("read_file", file_path="/workspace/sales.png"),
        story.ANSWER,
    ]
    model = ScriptedModel.of(steps)
    messages, charts = agent.answer(story.QUESTION, model)
    assert messages[-1].text == story.ANSWER
    _, failed, _, value, drawn, looked = [m for m in model.seen if isinstance(m, ToolMessage)]
    assert "Traceback" in failed.text
    assert "AttributeError: 'list' object has no attribute 'mean'" in failed.text
    assert "120.0" in value.text
    assert "120.0" in drawn.text
    assert "iVBOR" not in looked.text
    blocks = [block for m in model.seen if not isinstance(m, AIMessage) for block in m.content_blocks]
    (picture,) = [base64.b64decode(block["base64"]) for block in blocks if block["type"] == "image"]
    assert picture == charts["sales.png"]
    story.check_png(picture)


def test_the_backend_says_what_is_wrong() -> None:
    with Sandbox.create(ttl_seconds=600, metadata={"recipe": "deepagents"}) as sandbox:
        backend = SandboxBackend(sandbox)
        assert backend.execute("echo out; echo err >&2; exit 3").exit_code == 3
        late = backend.execute("echo begun; sleep 60", timeout=3)
        assert late.exit_code == 124
        assert "begun" in late.output
        assert "timeout" in late.output
        written, refused = backend.upload_files([("/workspace/a", b"\0\xff"), ("relative", b"")])
        assert (written.error, bool(refused.error)) == (None, True)
        there, missing = backend.download_files(["/workspace/a", "/workspace/none"])
        assert (there.content, missing.error) == (b"\0\xff", "file_not_found")


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(Exception, match="StopIteration"):
        agent.answer(story.QUESTION, ScriptedModel.of([call("execute", command="true")]))


def test_its_command_line(typed: Typed) -> None:
    draw = "from PIL import Image; Image.new('RGB', (320, 240)).save('/workspace/sales.png')"
    calls = [wanted("execute", command=f'python3 -c "{draw}"'), wanted("read_file", file_path="/workspace/sales.png")]
    printed, server = typed(story.QUESTION, model=[*calls, say(story.ANSWER)])
    assert printed.strip() == story.ANSWER
    assert server.shown()[1] == [Path("sales.png").read_bytes()]
