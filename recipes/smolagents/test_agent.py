# SPDX-License-Identifier: Apache-2.0
"""The agent with a Model of our own: smolagents brings none for tests."""

import os
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from pandastack import CodeContext, Sandbox
from pandastack.integrations.smolagents import SandboxExecutor
from smolagents import ChatMessage, CodeAgent, MessageRole, Model, tool
from smolagents.utils import AgentError

import agent
from recipes import story
from recipes.openai_server import say
from recipes.typed import Typed


class ScriptedModel(Model):
    def __init__(self, codes: Iterator[str]) -> None:
        super().__init__()
        self.codes = codes
        self.seen: list[ChatMessage] = []

    def generate(self, messages: list[ChatMessage], **kwargs: Any) -> ChatMessage:
        self.seen = list(messages)
        return ChatMessage(MessageRole.ASSISTANT, f"Thought: code it.\n<code>\n{next(self.codes)}\n</code>")


def as_png(image: Any) -> bytes:
    out = BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()


def test_it_corrects_itself_and_draws() -> None:
    final = "final_answer({'mean': float(sales.mean()), 'rows': len(sales)})"
    model = ScriptedModel(iter([*story.CELLS, final]))
    assert agent.answer(story.QUESTION, model) == {"mean": 120.0, "rows": 3}, "the final answer is an object"
    responses = [m for m in model.seen if m.role == MessageRole.TOOL_RESPONSE]
    parts = [part for m in model.seen for part in m.content if part["type"] == "image"]
    story.check(
        texts=["".join(part.get("text", "") for part in m.content) for m in responses if "text" in m.content[0]],
        pictures=[as_png(part["image"]) for part in parts],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(Exception, match="generating model output"):
        agent.answer(story.QUESTION, ScriptedModel(iter(["1"])))


@tool
def double(number: int) -> int:
    """Twice a number.

    Args:
        number: The number.
    """
    return number * 2


@pytest.fixture(scope="module")
def ctx() -> Iterator[CodeContext]:
    with Sandbox.create(ttl_seconds=600) as sandbox:
        yield sandbox.create_code_context()


def test_tools_and_variables_go_to_the_sandbox(ctx: CodeContext) -> None:
    model = ScriptedModel(
        iter(["print(double(given))", "import os\nfinal_answer((double(given), os.uname().nodename))"])
    )
    run = CodeAgent([double], model, executor=SandboxExecutor(ctx), additional_authorized_imports=["*"])
    number, host = run.run("Double it.", additional_args={"given": 21})
    assert number == 42
    assert host != os.uname().nodename, "it ran elsewhere"
    assert "42" in str(model.seen[-1].content)


def test_what_is_there_is_not_installed_again(ctx: CodeContext) -> None:
    ctx.run_code("import sys; get_ipython().system = lambda command: print('would run', command)")
    executor = SandboxExecutor(ctx)
    logged: list[str] = []
    executor.logger.log = lambda text, **_: logged.append(str(text))
    assert executor.install_packages(["Pillow", "numpy", "humanize==4.17.0"]) == [
        "Pillow",
        "numpy",
        "humanize==4.17.0",
    ]
    assert logged == ["would run pip install humanize==4.17.0\n"]


@pytest.mark.parametrize("value", ["pickle:gASVBQAAAAAAAACMATGULg==", "safe:{", "", "safe:[[[["])
def test_a_guest_cannot_make_us_unpickle(ctx: CodeContext, value: str) -> None:
    code = f"class FinalAnswerException(BaseException): pass\nraise FinalAnswerException({value!r})"
    with pytest.raises(AgentError, match="no final answer"):
        SandboxExecutor(ctx)(code)


def test_its_command_line(typed: Typed) -> None:
    codes = [*story.CELLS, f"final_answer({story.ANSWER!r})"]
    printed, server = typed(
        story.QUESTION, model=[say(f"Thought: code it.\n<code>\n{code}\n</code>") for code in codes]
    )
    assert printed.splitlines()[-1] == story.ANSWER
    (picture,) = server.shown()[1]
    story.check_png(picture)
