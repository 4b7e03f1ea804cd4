# SPDX-License-Identifier: Apache-2.0
"""A smolagents CodeAgent: all code that it writes, tools and final answer included, runs in a sandbox."""

import sys
from io import BytesIO
from typing import Any

import PIL.Image
from pandastack import Sandbox
from pandastack.integrations.smolagents import SandboxExecutor
from smolagents import ActionStep, CodeAgent, Model, OpenAIModel


def answer(question: str, model: Model) -> Any:
    """What the code gave to final_answer(). One sandbox and one kernel for it, whatever happens."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "smolagents"})
    try:
        executor = SandboxExecutor(sandbox.create_code_context())

        def show_charts(step: ActionStep, agent: CodeAgent) -> None:
            """What a step drew, as images of its observation."""
            step.observations_images = [PIL.Image.open(BytesIO(p.data)) for p in executor.take_pictures()]

        agent = CodeAgent(
            tools=[],
            model=model,
            executor=executor,
            additional_authorized_imports=["*"],  # it is the sandbox that bounds it
            step_callbacks=[show_charts],
        )
        return agent.run(question)
    finally:
        sandbox.kill()


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:]), OpenAIModel(model_id="gpt-5")))
