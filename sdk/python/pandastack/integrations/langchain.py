# SPDX-License-Identifier: Apache-2.0
"""LangChain: a tool that runs Python in a sandbox. Needs langchain-core."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from .. import CodeContext, Execution, Picture

DESCRIPTION = """\
Run Python in a sandbox. Variables stay from one call to the next. You see what was printed, the value of the last \
expression, the traceback if it fails, and what was drawn with matplotlib or plotly."""


def python_tool(ctx: CodeContext, *, name: str = "run_python", description: str = DESCRIPTION) -> BaseTool:
    """A tool for `create_agent()` and graphs.

    The model gets text and images as content blocks; the whole Execution is the message's artifact.
    """

    def run_python(code: str) -> tuple[list[dict[str, Any]], Execution]:
        execution = ctx.run_code(code)
        text, pictures = execution.for_model()
        return [{"type": "text", "text": text}, *map(image_block, pictures)], execution

    return StructuredTool.from_function(
        run_python, name=name, description=description, response_format="content_and_artifact"
    )


def image_block(picture: Picture) -> dict[str, Any]:
    """A picture as LangChain's content block."""
    return {"type": "image", "base64": picture.base64, "mime_type": picture.mime_type}
