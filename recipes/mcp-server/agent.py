# SPDX-License-Identifier: Apache-2.0
"""Code execution for any MCP client: start the server that a configuration names, list its tools, run code."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, ImageContent, TextContent

CONFIG = Path(__file__).with_name("mcp.json")


@asynccontextmanager
async def connect(environment: dict[str, str]) -> AsyncIterator[Client]:
    """What Claude Desktop, Cursor and others do with the same file. The sandbox ends with the connection."""
    entry = json.loads(CONFIG.read_text())["mcpServers"]["pandastack"]
    env = {**entry.get("env", {}), **environment}
    async with Client(StdioServerParameters(command=entry["command"], args=entry["args"], env=env)) as client:
        yield client


async def run_code(client: Client, code: str) -> tuple[str, list[bytes], bool]:
    """What the model would read, the pictures that it would see, and whether the code failed."""
    result: CallToolResult = await client.call_tool("run_code", {"code": code})
    text = "\n".join(part.text for part in result.content if isinstance(part, TextContent))
    pictures = [base64.b64decode(part.data) for part in result.content if isinstance(part, ImageContent)]
    return text, pictures, bool(result.is_error)


async def main(cells: list[str]) -> None:
    async with connect({}) as client:
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        for number, cell in enumerate(cells, 1):
            text, pictures, _ = await run_code(client, cell)
            print(f"[{number}] {text}")
            for picture in pictures:
                Path(f"chart-{number}.png").write_bytes(picture)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
