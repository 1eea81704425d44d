// A model that calls one tool and repeats what it answers: Anthropic's Messages and OpenAI's
// Responses, as far as Claude Code and Codex ask for them. Listens on loopback, prints its port, and
// writes what came back from the tool to the file it is given.
//
// node model.mjs TOOL ARGUMENTS FILE

import { createServer } from "node:http";
import { writeFileSync } from "node:fs";

const [tool, args, file] = process.argv.slice(2);

function body(request) {
  return new Promise((resolve) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      try {
        resolve(JSON.parse(Buffer.concat(chunks).toString("utf8")));
      } catch {
        resolve({});
      }
    });
  });
}

function events(response, list) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of list) {
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }
  response.end();
}

const text = (content) =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("\n");

function anthropic(request, response) {
  const offered = (request.tools ?? []).map((one) => one.name).find((name) => name.endsWith(tool));
  const last = request.messages?.at(-1);
  const result = Array.isArray(last?.content)
    ? last.content.find((part) => part.type === "tool_result")
    : undefined;
  if (result) writeFileSync(file, text(result.content));
  const call = offered && !result;
  const block = call
    ? { type: "tool_use", id: "toolu_1", name: offered, input: {} }
    : { type: "text", text: "" };
  const delta = call
    ? { type: "input_json_delta", partial_json: args }
    : { type: "text_delta", text: "Done." };
  const usage = { input_tokens: 1, output_tokens: 1 };
  const stop = call ? "tool_use" : "end_turn";
  const message = { id: "msg_1", type: "message", role: "assistant", model: request.model, usage };
  if (!request.stream) {
    const content = call ? { ...block, input: JSON.parse(args) } : { type: "text", text: "Done." };
    const whole = { ...message, content: [content], stop_reason: stop, stop_sequence: null };
    response.writeHead(200, { "content-type": "application/json" });
    return response.end(JSON.stringify(whole));
  }
  events(response, [
    {
      type: "message_start",
      message: { ...message, content: [], stop_reason: null, stop_sequence: null },
    },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: stop, stop_sequence: null }, usage },
    { type: "message_stop" },
  ]);
}

function openai(request, response) {
  const flat = (request.tools ?? []).flatMap((one) =>
    one.tools ? one.tools.map((inner) => ({ ...inner, namespace: one.name })) : [one],
  );
  const offered = flat.find((one) => one.name?.endsWith(tool));
  const result = (request.input ?? []).find((item) => item.type === "function_call_output");
  if (result) {
    writeFileSync(file, typeof result.output === "string" ? result.output : text(result.output));
  }
  const call = offered && !result;
  const item = call
    ? {
        type: "function_call",
        id: "fc_1",
        call_id: "call_1",
        name: offered.name,
        arguments: args,
        status: "completed",
        ...(offered.namespace ? { namespace: offered.namespace } : {}),
      }
    : {
        type: "message",
        id: "msg_1",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "Done.", annotations: [] }],
      };
  const usage = {
    input_tokens: 1,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 1,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 2,
  };
  const base = { id: "resp_1", object: "response", model: request.model };
  events(response, [
    { type: "response.created", response: { ...base, status: "in_progress", output: [] } },
    { type: "response.output_item.added", output_index: 0, item },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: { ...base, status: "completed", output: [item], usage } },
  ]);
}

const server = createServer(async (request, response) => {
  const path = new URL(request.url, "http://localhost").pathname;
  const asked = await body(request);
  if (process.env.MODEL_LOG) {
    const names = (asked.tools ?? []).map((one) => one.name ?? one.type);
    console.error(request.method, path, JSON.stringify(names).slice(0, 2000));
  }
  if (path.endsWith("/messages")) return anthropic(asked, response);
  if (path.endsWith("/responses")) return openai(asked, response);
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ input_tokens: 1, data: [], models: [] }));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
