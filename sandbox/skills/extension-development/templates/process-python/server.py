"""A process extension: an MCP server on standard input and output.

To make it yours:
1. Choose an id: it names the folder, and `id` in manifest.yaml.
2. Write a function for each tool. It takes the arguments by name and returns the text for
   the model and, where programs may want it, a value (else None). What the model can put
   right is a ToolError: say what is wrong and what to do instead.
3. List it in TOOLS: what it does and when to use it, and the schema of its arguments. A tool
   that changes nothing says readOnlyHint; any other asks a person before it is called.
Everything below the line stays as it is.

What holds:
- Standard output carries the protocol alone. print() goes to the log.
- Calls come one after the other. One may take 60 seconds, so give every request on the
  network a timeout; a process that does not answer is killed and started again.
- What is to be kept goes to DATA_DIR. The folder of this file is a copy that is thrown away.
- CONFIG is `config` of the manifest with the operator's settings. Secrets that the manifest
  lists under `secrets` are environment variables, and belong into no result and no log.
"""

import json
import os
import sys
import traceback
from pathlib import Path

CONFIG = json.loads(os.environ.get("SKILLHOST_CONFIG", "{}"))
DATA_DIR = Path(os.environ.get("SKILLHOST_DATA_DIR", "."))


class ToolError(Exception):
    """What the model can put right."""


def count_words(text):
    words = text.split()
    most = CONFIG.get("most_words", 100000)
    if len(words) > most:
        raise ToolError(f"the text has more than {most} words; pass it in parts")
    longest = max(words, key=len, default="")
    summary = f"{len(words)} words" + (f", the longest is {longest!r}" if words else "")
    return summary, {"words": len(words), "longest": longest}


TOOLS = [
    {
        "name": "count_words",
        "description": "Counts the words of a text. Use it instead of counting yourself.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "the text"}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
        "function": count_words,
    },
]


# ---------------------------------------------------------------------------------------------


class Refused(Exception):
    """A request that is not answered with a result: a code of JSON-RPC and a message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def initialize(params):
    return {
        "protocolVersion": params.get("protocolVersion", "2025-06-18"),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": os.environ.get("SKILLHOST_ID", "server"), "version": "1"},
    }


def list_tools(_params):
    public = [{k: v for k, v in tool.items() if k != "function"} for tool in TOOLS]
    return {"tools": public}


def call_tool(params):
    tool = next((tool for tool in TOOLS if tool["name"] == params.get("name")), None)
    if tool is None:
        raise Refused(-32602, f"no tool {params.get('name')!r}")
    arguments = params.get("arguments") or {}
    schema = tool["inputSchema"]
    missing = [name for name in schema.get("required", []) if name not in arguments]
    unknown = [name for name in arguments if name not in schema.get("properties", {})]
    if missing or unknown:
        raise Refused(-32602, f"missing arguments: {missing}, unknown arguments: {unknown}")
    try:
        text, value = tool["function"](**arguments)
    except ToolError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    except Exception as error:  # The model learns of it, the log has the place.
        traceback.print_exc()
        text = f"the tool failed: {type(error).__name__}: {error}"
        return {"content": [{"type": "text", "text": text}], "isError": True}
    result = {"content": [{"type": "text", "text": text}], "isError": False}
    return result if value is None else {**result, "structuredContent": value}


METHODS = {
    "initialize": initialize,
    "ping": lambda _params: {},
    "tools/list": list_tools,
    "tools/call": call_tool,
}


def answer(line):
    """The answer to one line, or None where it asks for none."""
    try:
        request = json.loads(line)
        method, params = request["method"], request.get("params") or {}
    except (ValueError, TypeError, KeyError, AttributeError):
        error = {"code": -32700, "message": "this is no request"}
        return {"jsonrpc": "2.0", "id": None, "error": error}
    if "id" not in request:
        return None  # A notification, such as that the client is ready.
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        if method not in METHODS:
            raise Refused(-32601, f"no method {method!r}")
        reply["result"] = METHODS[method](params)
    except Refused as refused:
        reply["error"] = {"code": refused.code, "message": str(refused)}
    return reply


def main():
    output, sys.stdout = sys.stdout, sys.stderr
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    for line in sys.stdin:
        reply = answer(line) if line.strip() else None
        if reply is not None:
            output.write(json.dumps(reply) + "\n")
            output.flush()


if __name__ == "__main__":
    main()
