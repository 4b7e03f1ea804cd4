# SPDX-License-Identifier: Apache-2.0
"""The team with AutoGen's replaying client."""

import asyncio
import base64

import pytest
from autogen_core import CancellationToken, Image
from autogen_core.code_executor import CodeBlock
from autogen_core.models import LLMMessage, ModelFamily, ModelInfo, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from pandastack import AsyncSandbox
from pandastack.integrations.autogen import SandboxCodeExecutor

import agent
from recipes import story
from recipes.openai_server import say
from recipes.typed import Typed


def scripted(*answers: str) -> ReplayChatCompletionClient:
    sighted = ModelInfo(
        vision=True, function_calling=True, json_output=True, family=ModelFamily.UNKNOWN, structured_output=True
    )
    return ReplayChatCompletionClient(list(answers), model_info=sighted)


def parts_from_runner(messages: list[LLMMessage]) -> list[list[str | Image]]:
    said = [m.content for m in messages if isinstance(m, UserMessage) and m.source == "runner"]
    return [[content] if isinstance(content, str) else content for content in said]


def test_it_corrects_itself_and_draws() -> None:
    blocks = [f"```python\n{code}\n```" for code in story.CELLS]
    model = scripted(*blocks, f"{story.ANSWER} DONE")
    result = asyncio.run(agent.answer(story.QUESTION, model))
    assert result.messages[-1].to_text() == f"{story.ANSWER} DONE"
    seen = parts_from_runner(model.create_calls[-1]["messages"])
    images = [part for parts in seen for part in parts if isinstance(part, Image)]
    story.check(
        texts=[parts[0] for parts in seen],
        pictures=[base64.b64decode(image.to_base64()) for image in images],
    )


def test_a_model_that_fails_leaves_no_sandbox() -> None:
    with pytest.raises(Exception, match="No more mock responses"):
        asyncio.run(agent.answer(story.QUESTION, scripted("```python\n1\n```")))


def test_the_executor() -> None:
    async def use(sandbox: AsyncSandbox) -> None:
        async with SandboxCodeExecutor(sandbox) as executor:

            async def run(*blocks: tuple[str, str], token: CancellationToken | None = None) -> tuple[int, str]:
                code = [CodeBlock(code=code, language=language) for language, code in blocks]
                result = await executor.execute_code_blocks(code, token or CancellationToken())
                return result.exit_code, result.output

            assert await run(("Python", "x = 6; x"), ("py", "x * 7"), ("sh", "echo hi >&2")) == (0, "6\n42\nhi\n")
            status, output = await run(("sh", "echo a; exit 3"), ("python", "print('never')"))
            assert (status, output) == (3, "a\n")
            with pytest.raises(ValueError, match="there is no cobol here"):
                await run(("cobol", "STOP RUN."))

            token = CancellationToken()
            running = asyncio.create_task(run(("python", "open('/tmp/begun', 'w')\nwhile True: pass"), token=token))
            while not await sandbox.filesystem.exists("/tmp/begun"):
                assert not running.done()
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert await run(("python", "x")) == (0, "6"), "what was cancelled has ended, and nothing is lost"

            await executor.restart()
            assert "NameError" in (await run(("python", "x")))[1]
        assert await sandbox.list_code_contexts() == [], "it leaves no kernel"

    async def main() -> None:
        async with await AsyncSandbox.create(ttl_seconds=600, metadata={"recipe": "autogen"}) as sandbox:
            await use(sandbox)

    asyncio.run(main())


def test_its_command_line(typed: Typed) -> None:
    blocks = [say(f"```python\n{code}\n```") for code in story.CELLS]
    printed, server = typed(story.QUESTION, model=[*blocks, say(f"{story.ANSWER} DONE")])
    assert printed.strip() == f"{story.ANSWER} DONE"
    (picture,) = server.shown()[1]
    story.check_png(picture)
