# SPDX-License-Identifier: Apache-2.0
"""A data analyst: takes a CSV and a question, computes in a sandbox without a network, gives back charts."""

import json
import sys
from pathlib import Path
from typing import Any

from openai import OpenAI
from pandastack import CodeContext, Picture, Sandbox

SYSTEM = """\
You are a data analyst. The DataFrame `df` is loaded in the kernel of run_python; variables stay between calls. \
Compute every figure that you state. Read a traceback, correct the code, go on. Draw with matplotlib if it helps."""
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "run_python",
        "description": "Run Python. What it prints, the last value, the traceback and charts are shown to you.",
        "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
    },
}


def load(sandbox: Sandbox, ctx: CodeContext, csv: Path) -> str:
    """Upload the file; what the model is told of it."""
    sandbox.filesystem.upload(csv, f"/workspace/{csv.name}")
    ex = ctx.run_code(f"import pandas as pd\ndf = pd.read_csv({csv.name!r})\ndf.info()\ndf.head()")
    text, _ = ex.for_model()
    if ex.error:
        raise ValueError(f"{csv} cannot be read as CSV:\n{text}")
    return text


def converse(client: OpenAI, ctx: CodeContext, messages: list[Any]) -> tuple[str, list[Picture]]:
    """Let the model run code until it has an answer; the answer, and all that was drawn."""
    charts: list[Picture] = []
    while True:
        reply = client.chat.completions.create(model="gpt-5", messages=messages, tools=[TOOL]).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return reply.content or "", charts
        drawn: list[Picture] = []
        for call in reply.tool_calls:
            text, pictures = ctx.run_code(json.loads(call.function.arguments)["code"]).for_model()
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            drawn += pictures
        if drawn:  # a tool's message is text here, so charts follow in one of the user's
            images = [{"type": "image_url", "image_url": {"url": p.url}} for p in drawn]
            messages.append({"role": "user", "content": [{"type": "text", "text": "This was drawn:"}, *images]})
        charts += drawn


def analyse(csv: Path, question: str, client: OpenAI) -> tuple[str, list[Picture]]:
    """The answer, and the charts. One sandbox and one kernel for it, whatever happens."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "data-analyst"}, network={"egress": "none"})
    try:
        ctx = sandbox.create_code_context(cwd="/workspace")
        about = f"{question}\n\nThe data, {csv.name}:\n{load(sandbox, ctx, csv)}"
        return converse(client, ctx, [{"role": "system", "content": SYSTEM}, {"role": "user", "content": about}])
    finally:
        sandbox.kill()


if __name__ == "__main__":
    answer, charts = analyse(Path(sys.argv[1]), " ".join(sys.argv[2:]), OpenAI())
    print(answer)
    for number, chart in enumerate(charts, 1):
        Path(f"chart-{number}.png").write_bytes(chart.data)
