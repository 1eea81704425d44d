// Runs one program of a skill for the kernel: JSON lines in both directions on descriptor 3.
//
// Standard output and standard error belong to the program. Only built-in modules are used, and the
// program's file may be an ES module or a CommonJS module.

import { createRequire } from "node:module";
import { Socket } from "node:net";
import { dirname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inspect } from "node:util";

const CHANNEL = 3;
const MAX_LINE = 4 * 1024 * 1024;

const channel = new Socket({ fd: CHANNEL, readable: true, writable: true });
/** The calls without an answer, by id. */
const openCalls = new Map();
/** The requests to the kernel without an answer, by id. */
const openRequests = new Map();
let nextRequest = 1;
/** The program, once it is loaded: `(args, ctx) => value`. */
let program = null;
/** The directory of the program's file. */
let directory = null;

/** An error of the kernel, such as a denied approval. A program may pass it on. */
class KernelError extends Error {
  constructor({ kind, message, hint }) {
    super(message);
    this.name = "KernelError";
    this.kind = kind;
    this.hint = hint ?? "";
  }
}

/** An error of the program that has a kind. */
class ProgramError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

// Replaced before anything of the program runs, so that both modules see the same functions.
const { stringify, parse } = JSON;

/** Returns a value as one line of valid Unicode. */
function toLine(message) {
  const text = stringify(message);
  // Half a surrogate pair, such as a cut emoji, is text in JavaScript and nowhere else.
  const valid = text.replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, "$1\ufffd");
  if (Buffer.byteLength(valid) >= MAX_LINE) {
    throw new ProgramError("too_large", `the message has more than ${MAX_LINE} bytes`);
  }
  return `${valid}\n`;
}

function describe(thrown) {
  try {
    if (thrown instanceof Error || typeof thrown?.message === "string") {
      const name = typeof thrown.name === "string" ? thrown.name : "";
      const named = name !== "" && !["Error", "KernelError"].includes(name);
      return named ? `${name}: ${thrown.message}` : `${thrown.message}`;
    }
    return `threw a value that is not an error: ${inspect(thrown, { depth: 1 })}`;
  } catch {
    return "threw a value that cannot be described";
  }
}

/** Returns ` (file:line:column)` of the first frame in the program's directory, or nothing. */
function findPlace(thrown) {
  try {
    for (const [, url, path, position] of `${thrown.stack}`.matchAll(/(file:\/\/)?(\/[^\n()]*?):(\d+:\d+)/g)) {
      const file = url === undefined ? path : fileURLToPath(`${url}${path}`);
      if (file.startsWith(`${directory}/`)) return ` (${file.slice(directory.length + 1)}:${position})`;
    }
  } catch {
    // The message has to do.
  }
  return "";
}

function toError(thrown) {
  const ours = thrown instanceof KernelError || thrown instanceof ProgramError;
  const message = describe(thrown).slice(0, 3800) + (ours ? "" : findPlace(thrown));
  const error = { kind: ours ? `${thrown.kind}` : "failed", message };
  if (ours && thrown.hint) error.hint = thrown.hint;
  return error;
}

function logStack(thrown) {
  try {
    if (thrown instanceof Error && !(thrown instanceof KernelError)) console.error(thrown.stack);
  } catch {
    // The description in the answer has to do.
  }
}

function answer(id, result) {
  let line;
  try {
    line = toLine({ id, result });
  } catch (error) {
    const kind = error instanceof ProgramError ? error.kind : "failed";
    line = toLine({ id, error: { kind, message: `the result cannot be sent: ${describe(error)}`.slice(0, 4000) } });
  }
  channel.write(line);
}

function answerError(id, thrown) {
  channel.write(toLine({ id, error: toError(thrown) }));
}

/** Sends a request to the kernel in the name of a call. */
function request(call, method, params) {
  if (call.ended) return Promise.reject(new ProgramError("cancelled", "the call has ended"));
  const id = `h${nextRequest++}`;
  return new Promise((resolve, reject) => {
    const line = toLine({ id, method, params: { ...params, call: call.id } });
    openRequests.set(id, { call, resolve, reject });
    channel.write(line);
  });
}

function rejectRequests(call, error) {
  for (const [id, open] of openRequests) {
    if (open.call !== call) continue;
    openRequests.delete(id);
    open.reject(error);
  }
}

function makeContext(call, params) {
  const { skill, requestId, taskId, traceId, userId } = params;
  const resources = Object.freeze(skill.resources.map((resource) => Object.freeze(resource)));
  const context = {
    requestId,
    taskId,
    traceId,
    userId,
    signal: call.controller.signal,
    skill: Object.freeze({
      name: skill.name,
      description: skill.description,
      instructions: skill.instructions,
      resources,
      dirPath: skill.dirPath,
      readResource: async (path) => (await request(call, "skill/read", { path: `${path}` })).text,
      getResourcesByType: (type) => resources.filter((resource) => resource.type === type),
    }),
  };
  if (params.tools) {
    context.invokeTool = (name, args = {}) =>
      request(call, "tool/invoke", { name: `${name}`, arguments: args });
  }
  return Object.freeze(context);
}

const isObject = (value) => value !== null && typeof value === "object";
const isClass = (value) =>
  typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value));
const findMethod = (value) =>
  ["invoke", "_call"].find((name) => typeof value?.[name] === "function");
const isProgram = (value) => typeof value === "function" || findMethod(value) !== undefined;

/** Returns what a module exports as its program. */
function findExport(module) {
  const named = (from) => from.default ?? from.handler ?? from.Tool;
  const found = named(module);
  // Compilers put a default export into the object that CommonJS exports.
  const inner = isObject(found) && !isProgram(found) ? named(found) : undefined;
  return [found, inner].find(isProgram);
}

/** Returns the text of a property, if it is one. */
function findText(name, ...from) {
  return from.map((owner) => owner?.[name]).find((value) => typeof value === "string" && value !== "");
}

/** Returns a JSON Schema: the value itself, or what its library makes of it. */
function toJsonSchema(schema, entry) {
  if (!isObject(schema)) return undefined;
  if (typeof schema.toJSONSchema === "function") return schema.toJSONSchema();
  if (!("_def" in schema || "_zod" in schema)) return schema;
  const require = createRequire(entry);
  for (const convert of [
    () => require("zod").toJSONSchema(schema),
    () => require("zod-to-json-schema").zodToJsonSchema(schema),
  ]) {
    try {
      return convert();
    } catch {
      // The next library.
    }
  }
  console.error("the schema of the program cannot be converted to JSON Schema; it is ignored");
  return undefined;
}

async function explainLoadError(error, entry) {
  const missing = /Cannot find (?:package|module) '([^']+)'/.exec(error?.message ?? "")?.[1];
  if (missing !== undefined && !/^[./]/.test(missing) && !missing.startsWith("file:")) {
    const parts = missing.split("/").slice(0, missing.startsWith("@") ? 2 : 1).join("/");
    return new ProgramError(
      "failed",
      `it needs the package \`${parts}\`, which is not installed in the directory of the skill`,
    );
  }
  if (error instanceof SyntaxError) {
    // Only the check of a file states the line of an error in an ES module.
    const { spawnSync } = await import("node:child_process");
    const checked = spawnSync(process.execPath, ["--check", entry], { encoding: "utf8", timeout: 5000 });
    const line = /^(?:file:\/\/)?\/.*:(\d+)$/m.exec(checked.stderr ?? "")?.[1];
    const place = line === undefined ? findPlace(error) : ` (${entry.slice(directory.length + 1)}:${line})`;
    return new ProgramError("failed", `SyntaxError: ${error.message}${place}`);
  }
  return error;
}

async function load({ entry }) {
  directory = dirname(entry);
  let module;
  try {
    module = await import(pathToFileURL(entry));
  } catch (error) {
    logStack(error);
    throw await explainLoadError(error, entry);
  }
  const found = findExport(module);
  if (found === undefined) {
    const names = Object.keys(module).slice(0, 20).join(", ") || "nothing";
    throw new ProgramError(
      "failed",
      "it exports no function, no object with `invoke` and no class as `default`, `handler` or " +
        `\`Tool\`; it exports ${names}`,
    );
  }
  let target = found;
  if (isClass(found)) {
    target = new found();
    if (findMethod(target) === undefined) {
      throw new ProgramError("failed", `the class ${found.name} has no method \`invoke\``);
    }
  }
  const method = findMethod(target);
  const isFunction = typeof target === "function" && method === undefined;
  program = isFunction ? (args, ctx) => target(args, ctx) : (args, ctx) => target[method](args, ctx);
  const sources = isFunction ? [module, module.default, target] : [target, module];
  const described = { form: isFunction ? "function" : "tool" };
  // A function has a `name` of its own, which is no statement.
  const name = isFunction ? findText("name", ...sources.filter(isObject)) : findText("name", target);
  const description = findText("description", ...sources);
  const schema = toJsonSchema(sources.map((owner) => owner?.schema).find(isObject), entry);
  return { ...described, name, description, schema };
}

/** Returns the result of a call: `{result, evidence?, metadata?}`, or a bare value as its result. */
function toResult(value) {
  if (isObject(value) && !Array.isArray(value) && Object.hasOwn(value, "result")) {
    const { result = null, evidence, metadata } = value;
    return { result, evidence, metadata };
  }
  return { result: value ?? null };
}

async function run(id, params) {
  if (program === null) throw new ProgramError("protocol", "no program is loaded");
  const call = { id, controller: new AbortController(), ended: false };
  openCalls.set(id, call);
  try {
    return toResult(await program(params.arguments, makeContext(call, params)));
  } finally {
    call.ended = true;
    openCalls.delete(id);
    rejectRequests(call, new ProgramError("cancelled", "the call has ended"));
  }
}

function cancel(id) {
  const call = openCalls.get(id);
  if (call === undefined) return;
  call.ended = true;
  const error = new ProgramError("cancelled", "the call was cancelled");
  rejectRequests(call, error);
  call.controller.abort(error);
}

function receive(message) {
  const { id, method, params } = message;
  if (method === undefined) {
    const open = openRequests.get(id);
    openRequests.delete(id);
    if (message.error) open?.reject(new KernelError(message.error));
    else open?.resolve(message.result);
    return;
  }
  if (method === "cancel") return cancel(params.id);
  const methods = { "program/load": () => load(params), "program/call": () => run(id, params) };
  const work = methods[method] ?? (() => Promise.reject(new ProgramError("protocol", `unknown method ${method}`)));
  work().then(
    (result) => answer(id, result),
    (error) => {
      if (method === "program/call") logStack(error);
      answerError(id, error);
    },
  );
}

let parts = [];
channel.on("data", (chunk) => {
  let start = 0;
  for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
    const line = Buffer.concat([...parts, chunk.subarray(start, end)]).toString();
    parts = [];
    start = end + 1;
    receive(parse(line));
  }
  if (start < chunk.length) parts.push(chunk.subarray(start));
});
// Without the kernel there are no more calls.
channel.on("close", () => process.exit(0));
channel.on("error", () => process.exit(0));
