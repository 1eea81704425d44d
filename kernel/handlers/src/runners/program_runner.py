"""Runs one program of a skill for the kernel: JSON lines in both directions on descriptor 3.

Standard output and standard error belong to the program. Each call has a thread of its own; the
main thread reads the messages. Only the standard library is used.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import sys
import threading
import traceback

CHANNEL = 3
MAX_LINE = 4 * 1024 * 1024

write_lock = threading.Lock()
state_lock = threading.Lock()
# The calls without an answer, and the requests to the kernel without one, by id.
open_calls = {}
open_requests = {}
next_request = 1
# The program, once it is loaded: `(args, ctx) -> value`.
program = None
# The directory of the program's file.
directory = None


class KernelError(Exception):
    """An error of the kernel, such as a denied approval. A program may pass it on."""

    def __init__(self, kind, message, hint=""):
        super().__init__(message)
        self.kind = kind
        self.hint = hint


class ProgramError(Exception):
    """An error of the program that has a kind."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind
        self.hint = ""


def to_line(message):
    # Half a surrogate pair is text in Python and nowhere else.
    text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    line = text.encode("utf-8", "replace") + b"\n"
    if len(line) > MAX_LINE:
        raise ProgramError("too_large", f"the message has more than {MAX_LINE} bytes")
    return line


def send(line):
    with write_lock:
        view = memoryview(line)
        while view:
            view = view[os.write(CHANNEL, view) :]


def describe(error):
    try:
        if isinstance(error, SystemExit):
            return f"called sys.exit({error.code!r})"[:4000]
        text = str(error)
    except BaseException:
        text = "an error that cannot be described"
    name = type(error).__name__
    plain = isinstance(error, (KernelError, ProgramError)) or name == "Exception"
    return (text if plain and text else f"{name}: {text}" if text else name)[:3800]


def find_place(error):
    """Returns ` (file:line)` of the last frame in the program's directory, or nothing."""
    try:
        places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError) and error.filename:
            places.append((error.filename, error.lineno))
        for file, line in reversed(places):
            if file.startswith(f"{directory}/"):
                return f" ({file[len(directory) + 1 :]}:{line})"
    except BaseException:
        pass
    return ""


def to_error(error):
    ours = isinstance(error, (KernelError, ProgramError))
    message = describe(error) + ("" if ours else find_place(error))
    result = {"kind": str(error.kind) if ours else "failed", "message": message}
    if ours and error.hint:
        result["hint"] = error.hint
    return result


def answer(id, result):
    try:
        line = to_line({"id": id, "result": result})
    except BaseException as error:
        kind = error.kind if isinstance(error, ProgramError) else "failed"
        message = f"the result cannot be sent: {describe(error)}"
        line = to_line({"id": id, "error": {"kind": kind, "message": message}})
    send(line)


def answer_error(id, error):
    send(to_line({"id": id, "error": to_error(error)}))


class OpenCall:
    """A call without an answer."""

    def __init__(self, id):
        self.id = id
        self.cancelled = threading.Event()
        self.ended = False

    def request(self, method, params):
        """Sends a request to the kernel and waits for the answer."""
        global next_request
        done = {"event": threading.Event(), "call": self}
        with state_lock:
            if self.ended or self.cancelled.is_set():
                raise ProgramError("cancelled", "the call has ended")
            id = f"h{next_request}"
            next_request += 1
            open_requests[id] = done
        try:
            send(to_line({"id": id, "method": method, "params": {**params, "call": self.id}}))
            done["event"].wait()
        finally:
            with state_lock:
                open_requests.pop(id, None)
        if "error" in done:
            error = done["error"]
            raise KernelError(error["kind"], error["message"], error.get("hint", ""))
        if "result" not in done:
            raise ProgramError("cancelled", "the call was cancelled")
        return done["result"]

    def release_requests(self):
        with state_lock:
            for done in open_requests.values():
                if done["call"] is self:
                    done["event"].set()


class Skill:
    """The skill of a program: `name`, `description`, `instructions`, `resources`, `dir_path`."""

    def __init__(self, call, skill):
        self._call = call
        self.name = skill["name"]
        self.description = skill["description"]
        self.instructions = skill["instructions"]
        self.resources = skill["resources"]
        self.dir_path = self.dirPath = skill["dirPath"]

    def read_resource(self, path):
        return self._call.request("skill/read", {"path": str(path)})["text"]

    def get_resources_by_type(self, type):
        return [resource for resource in self.resources if resource["type"] == type]

    readResource = read_resource
    getResourcesByType = get_resources_by_type


class Context:
    """The second argument of a program."""

    def __init__(self, call, params):
        self._call = call
        self.request_id = self.requestId = params["requestId"]
        self.task_id = self.taskId = params["taskId"]
        self.trace_id = self.traceId = params["traceId"]
        self.user_id = self.userId = params["userId"]
        self.cancelled = call.cancelled
        self.skill = Skill(call, params["skill"])
        if params["tools"]:
            self.invoke_tool = self.invokeTool = self._invoke_tool

    def _invoke_tool(self, name, arguments=None):
        params = {"name": str(name), "arguments": {} if arguments is None else arguments}
        return self._call.request("tool/invoke", params)


def find_text(name, *owners):
    for owner in owners:
        value = getattr(owner, name, None)
        if isinstance(value, str) and value:
            return value
    return None


def to_json_schema(schema):
    """Returns a JSON Schema: the value itself, or what its library makes of it."""
    if isinstance(schema, dict):
        return schema
    for name in ("model_json_schema", "toJSONSchema", "to_json_schema"):
        convert = getattr(schema, name, None)
        if callable(convert):
            return convert()
    return None


def takes_context(method):
    """Tells whether a method has a second parameter for the context."""
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):
        return True
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    # In LangChain the second parameter is a configuration.
    return len(positional) > 1 and positional[1].name != "config"


def find_invoke(value):
    invoke = getattr(value, "invoke", None)
    return invoke if callable(invoke) else None


def load(params):
    global program, directory
    entry = params["entry"]
    directory = os.path.dirname(entry)
    sys.path.insert(0, directory)
    spec = importlib.util.spec_from_file_location("skill_program", entry)
    module = importlib.util.module_from_spec(spec)
    sys.modules["skill_program"] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        traceback.print_exc()
        package = (error.name or "").split(".")[0]
        raise ProgramError(
            "failed", f"it needs the module `{package}`, which is not installed"
        ) from error
    except BaseException:
        traceback.print_exc()
        raise
    names = ("handler", "Tool", "tool")
    found = next((getattr(module, n) for n in names if getattr(module, n, None) is not None), None)
    if found is None:
        public = [name for name in vars(module) if not name.startswith("_")][:20]
        raise ProgramError(
            "failed",
            "it defines none of `handler`, `Tool` and `tool`; it defines "
            + (", ".join(public) or "nothing"),
        )
    if inspect.isclass(found):
        name = found.__name__
        found = found()
        if find_invoke(found) is None:
            raise ProgramError("failed", f"the class {name} has no method `invoke`")
    invoke = find_invoke(found)
    described = {"form": "function" if invoke is None else "tool"}
    if invoke is not None:
        program = invoke if takes_context(invoke) else lambda args, ctx: invoke(args)
        owners = [found, module]
        described["name"] = find_text("name", found)
    elif callable(found):
        program = found
        owners = [module, found]
        described["name"] = find_text("name", module)
    else:
        raise ProgramError("failed", "it has neither a function nor an object with `invoke`")
    described["description"] = find_text("description", *owners)
    schemas = (getattr(o, n, None) for o in owners for n in ("schema", "args_schema"))
    described["schema"] = next((s for s in map(to_json_schema, schemas) if s), None)
    return {name: value for name, value in described.items() if value is not None}


def to_result(value):
    """Returns the result of a call: `{result, evidence?, metadata?}`, or a bare value."""
    if isinstance(value, dict) and "result" in value:
        return {name: value[name] for name in ("result", "evidence", "metadata") if name in value}
    return {"result": value}


def run(call, params):
    try:
        if program is None:
            raise ProgramError("protocol", "no program is loaded")
        value = program(params["arguments"], Context(call, params))
        if inspect.isawaitable(value):
            value = asyncio.run(await_value(value))
        return to_result(value)
    finally:
        with state_lock:
            call.ended = True
            open_calls.pop(call.id, None)
        call.release_requests()


async def await_value(value):
    return await value


def work(call, params):
    id = call.id
    try:
        result = run(call, params)
    except BaseException as error:
        if not isinstance(error, (KernelError, ProgramError)):
            traceback.print_exc()
        answer_error(id, error)
    else:
        answer(id, result)


def receive(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params")
    if method is None:
        with state_lock:
            done = open_requests.get(id)
        if done is not None:
            for name in ("result", "error"):
                if name in message:
                    done[name] = message[name]
            done["event"].set()
    elif method == "cancel":
        with state_lock:
            call = open_calls.get(params["id"])
        if call is not None:
            call.cancelled.set()
            call.release_requests()
    elif method == "program/load":
        # In the main thread, as modules expect it.
        try:
            result = load(params)
        except BaseException as error:
            answer_error(id, error)
        else:
            answer(id, result)
    elif method == "program/call":
        call = OpenCall(id)
        # Before the next message, which may cancel it.
        with state_lock:
            open_calls[id] = call
        threading.Thread(target=work, args=(call, params), daemon=True).start()
    else:
        answer_error(id, ProgramError("protocol", f"unknown method {method}"))


def main():
    os.set_inheritable(CHANNEL, False)
    # Lines are in the log when they are written, not when the program ends.
    sys.stdout.reconfigure(line_buffering=True)
    buffer = bytearray()
    while chunk := os.read(CHANNEL, 1 << 16):
        searched = len(buffer)
        buffer += chunk
        while (end := buffer.find(b"\n", searched)) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            searched = 0
            receive(json.loads(line))
    # Without the kernel there are no more calls, and threads of the program may still run.
    os._exit(0)


main()
