"""A process extension: an MCP server on standard input and output.

To adapt it:
1. Choose an id for the directory and for `id` in manifest.yaml.
2. Write a function for each tool. It takes the arguments by name and returns the text for
   the model and, if programs need one, a value (otherwise None). Raise ToolError for errors
   that the model can correct, and state the error and the correction.
3. List the function in TOOLS, with its effect, when to use it, and the schema of its
   arguments. Set readOnlyHint for a tool that changes nothing; any other requires approval.
Do not change the code below the line.

Rules:
- Standard output carries only the protocol. print() goes to the log.
- Calls arrive one at a time. A call may take 60 seconds, so give every network request a
  timeout; a process that does not answer is killed and restarted.
- Write persistent data to DATA_DIR. The directory of this file is a temporary copy.
- CONFIG is `config` of the manifest with the operator's settings. Secrets that the manifest
  lists under `secrets` are environment variables; never put them into a result or a log.
"""

import json
import os
import sys
import traceback
from pathlib import Path

CONFIG = json.loads(os.environ.get("SKILLHOST_CONFIG", "{}"))
DATA_DIR = Path(os.environ.get("SKILLHOST_DATA_DIR", "."))


class ToolError(Exception):
    """An error that the model can correct."""


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
    """A request that fails with a JSON-RPC error code and a message."""

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
        raise Refused(-32602, f"tool {params.get('name')!r} not found")
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
    except Exception as error:  # The model receives the message, the log the traceback.
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
    """Returns the response to one line, or None if the line requires none."""
    try:
        request = json.loads(line)
        method, params = request["method"], request.get("params") or {}
    except (ValueError, TypeError, KeyError, AttributeError):
        error = {"code": -32700, "message": "not a valid request"}
        return {"jsonrpc": "2.0", "id": None, "error": error}
    if "id" not in request:
        return None  # A notification, such as `notifications/initialized`.
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        if method not in METHODS:
            raise Refused(-32601, f"method {method!r} not found")
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
