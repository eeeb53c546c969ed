"""Uses a server through the official Python SDK: client.py MODE COMMAND. Prints what it saw."""

import asyncio
import json
import os
import sys

from mcp import Client, MCPError, StdioServerParameters


async def main() -> None:
    mode, command = sys.argv[1:]
    server = StdioServerParameters(command=command, args=["serve"], env=dict(os.environ))
    saw = {}
    async with Client(server, mode=mode) as client:
        saw["version"] = client.protocol_version
        saw["server"] = client.server_info.name
        listed = await client.list_tools()
        saw["listed"] = [tool.name for tool in listed.tools if tool.name in ("blocks", "spin")]
        blocks = await client.call_tool("blocks", {})
        saw["blocks"] = [block.type for block in blocks.content]
        structured = await client.call_tool("structured", {"n": 3})
        saw["structured"] = [structured.structured_content, structured.content[0].text]
        failed = await client.call_tool("fail", {"text": "no"})
        saw["failed"] = [failed.is_error, failed.content[0].text]
        try:
            await client.call_tool("no_such_tool_at_all", {})
        except MCPError as error:
            saw["unknown"] = [error.error.code, error.error.message]
        reports = []

        async def hear(done: float, total: float | None, message: str | None) -> None:
            reports.append([done, total, message])

        await client.call_tool("report", {"n": 2}, progress_callback=hear)
        # While it is slow, newer reports take the place of older ones.
        saw["last report"] = reports[-1]
        try:
            async with asyncio.timeout(0.2):
                await client.call_tool("spin", {})
        except TimeoutError:
            saw["after spin"] = (await client.call_tool("echo", {"text": "here"})).content[0].text
    for name, value in saw.items():
        print(f"{name}: {json.dumps(value)}")


asyncio.run(main())
