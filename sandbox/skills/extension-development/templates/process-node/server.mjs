// A process extension: an MCP server on standard input and output.
//
// To adapt it:
// 1. Choose an id for the directory and for `id` in manifest.yaml.
// 2. Write a function for each tool. It takes the arguments as an object and returns the text for
//    the model and, if programs need one, a value (otherwise null). Throw ToolError for errors
//    that the model can correct, and state the error and the correction.
// 3. List the function in TOOLS, with its effect, when to use it, and the schema of its
//    arguments. Set readOnlyHint for a tool that changes nothing; any other requires approval.
// Do not change the code below the line.
//
// Rules:
// - Standard output carries only the protocol. console.log() goes to the log.
// - A call may take 60 seconds, so give every network request a timeout; a process that does not
//   answer is killed and restarted.
// - Write persistent data to DATA_DIR. The directory of this file is a temporary copy.
// - CONFIG is `config` of the manifest with the operator's settings. Secrets that the manifest
//   lists under `secrets` are environment variables; never put them into a result or a log.

import { createInterface } from "node:readline";

const CONFIG = JSON.parse(process.env.SKILLHOST_CONFIG ?? "{}");
export const DATA_DIR = process.env.SKILLHOST_DATA_DIR ?? ".";

/** An error that the model can correct. */
class ToolError extends Error {}

function count_lines({ text }) {
  const lines = text === "" ? [] : text.replace(/\n$/, "").split("\n");
  const most = CONFIG.most_lines ?? 100000;
  if (lines.length > most) {
    throw new ToolError(`the text has more than ${most} lines; pass it in parts`);
  }
  return [`${lines.length} lines`, { lines: lines.length }];
}

const TOOLS = [
  {
    name: "count_lines",
    description: "Counts the lines of a text. Use it instead of counting yourself.",
    inputSchema: {
      type: "object",
      properties: { text: { type: "string", description: "the text" } },
      required: ["text"],
      additionalProperties: false,
    },
    annotations: { readOnlyHint: true },
    function: count_lines,
  },
];

// ------------------------------------------------------------------------------------------------

/** A request that fails with a JSON-RPC error code and a message. */
class RequestError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function callTool(params) {
  const tool = TOOLS.find((tool) => tool.name === params.name);
  if (tool === undefined) throw new RequestError(-32602, `tool ${params.name} not found`);
  const given = params.arguments ?? {};
  const { required = [], properties = {} } = tool.inputSchema;
  const missing = required.filter((name) => !Object.hasOwn(given, name));
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(properties, name));
  if (missing.length > 0 || unknown.length > 0) {
    throw new RequestError(-32602, `missing arguments: [${missing}], unknown arguments: [${unknown}]`);
  }
  const content = (text) => [{ type: "text", text }];
  try {
    const [text, value] = await tool.function(given);
    const result = { content: content(text), isError: false };
    return value === null ? result : { ...result, structuredContent: value };
  } catch (error) {
    if (error instanceof ToolError) return { content: content(error.message), isError: true };
    console.error(error); // The model receives the message, the log the stack.
    return { content: content(`the tool failed: ${error}`), isError: true };
  }
}

const METHODS = {
  initialize: (params) => ({
    protocolVersion: params.protocolVersion ?? "2025-06-18",
    capabilities: { tools: {} },
    serverInfo: { name: process.env.SKILLHOST_ID ?? "server", version: "1" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: TOOLS.map(({ function: _, ...spec }) => spec) }),
  "tools/call": callTool,
};

/** Returns the response to one line, or null if the line requires none. */
async function answer(line) {
  let request = null;
  try {
    request = JSON.parse(line);
  } catch {
    // Answered below.
  }
  if (typeof request?.method !== "string") {
    const error = { code: -32700, message: "not a valid request" };
    return { jsonrpc: "2.0", id: null, error };
  }
  if (request.id === undefined) return null; // A notification.
  const reply = { jsonrpc: "2.0", id: request.id };
  try {
    if (!Object.hasOwn(METHODS, request.method)) {
      throw new RequestError(-32601, `method ${request.method} not found`);
    }
    return { ...reply, result: await METHODS[request.method](request.params ?? {}) };
  } catch (error) {
    return { ...reply, error: { code: error.code ?? -32603, message: error.message } };
  }
}

console.log = console.error;
createInterface({ input: process.stdin }).on("line", async (line) => {
  const reply = line.trim() === "" ? null : await answer(line);
  if (reply !== null) process.stdout.write(`${JSON.stringify(reply)}\n`);
});
