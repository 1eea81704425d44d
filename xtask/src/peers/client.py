"""The Python SDK's client against a server on standard input and output.

python client.py SKILL COMMAND ARGUMENT…
"""

import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import PaginatedRequestParams


async def main(skill, command, arguments):
    server = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        started = await session.initialize()
        print("initialize:", getattr(started, "protocol_version", None) or started.protocolVersion)
        tools = (await session.list_tools()).tools
        assert any(tool.name == "read_skill" for tool in tools), tools
        print("tools:", len(tools))
        result = await session.call_tool("read_skill", {"skill_id": skill})
        failed = getattr(result, "is_error", None) or getattr(result, "isError", False)
        assert not failed, result
        assert f"Skill loaded: {skill} " in result.content[0].text, result
        print("read_skill:", result.content[0].text.splitlines()[0])
        uris, cursor = [], None
        while True:
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await session.list_resources(params=params)
            uris += [str(resource.uri) for resource in page.resources]
            cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
            if not cursor:
                break
        assert f"skill://{skill}/SKILL.md" in uris, uris
        read = await session.read_resource(f"skill://{skill}/SKILL.md")
        assert read.contents[0].text.startswith("---"), read
        print("resources:", len(uris))
        prompts = (await session.list_prompts()).prompts
        print("prompts:", len(prompts))
        try:
            await session.read_resource("skill://nobody/SKILL.md")
        except Exception as error:
            print("unknown resource:", error)
        else:
            raise AssertionError("an unknown resource was read")


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
