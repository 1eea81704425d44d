//! The time of calls of programs, compared with calls of an MCP server in one run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use test_support::{TestHome, binary, can_isolate, find_interpreter};

use super::approve_programs;
use crate::fixtures::home;

/// Calls of each tool.
const CALLS: usize = 1_000;

/// An MCP server with one tool that repeats a text.
const SERVER: &str = r#"import { createInterface } from "node:readline";
const tool = {
  name: "repeat", description: "Repeats a text.",
  inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  annotations: { readOnlyHint: true },
};
const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "repeat", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": ({ arguments: { text } }) => ({ content: [{ type: "text", text }] }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const found = methods[method];
  const answer = found ? { result: found(params ?? {}) } : { error: { code: -32601, message: "no such method" } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
}
"#;

/// Calls tools in turn, through the one dispatcher, and returns the median time of each in ms.
const DRIVER: &str = r"export default async ({ tools, calls }, ctx) => {
  const times = tools.map(() => []);
  for (let call = 0; call < calls + 100; call += 1) {
    for (const [index, name] of tools.entries()) {
      const start = performance.now();
      const { text } = await ctx.invokeTool(name, { text: 'hello' });
      const time = performance.now() - start;
      if (!text.startsWith('hello')) throw new Error(`${name}: ${text}`);
      if (call >= 100) times[index].push(time);
    }
  }
  return times.map((all) => all.sort((a, b) => a - b)[Math.floor(all.length / 2)]);
};
";

/// Returns the median time of a call of the server in ms, without any product.
fn measure_plain_server(server: &Path) -> f64 {
    let mut child = Command::new("node")
        .arg(server)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut times = Vec::new();
    for id in 0..CALLS + 100 {
        let call = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "repeat", "arguments": { "text": "hello" } },
        });
        let start = Instant::now();
        input.write_all(format!("{call}\n").as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id);
        if id >= 100 {
            times.push(start.elapsed().as_secs_f64() * 1000.0);
        }
    }
    drop(input);
    child.wait().unwrap();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn add_skill(home: &TestHome, id: &str, program: &str) {
    let text = format!("---\nname: {id}\ndescription: Is measured.\n---\nCall it.\n");
    home.write(format!("sandbox/skills/{id}/SKILL.md"), text);
    home.write(format!("sandbox/skills/{id}/index.mjs"), program);
}

/// Compares warm calls, and prints a line of JSON. `SKILLHOST_PROGRAM` names another build of the
/// program. Run alone: `cargo test -p e2e --test e2e -- --ignored --nocapture warm_calls`.
#[test]
#[ignore = "measures, and needs an idle machine"]
#[expect(clippy::print_stderr, reason = "the figure is the result")]
fn warm_calls_are_as_fast_as_mcp() {
    if !can_isolate() || find_interpreter("node").is_none() {
        return;
    }
    let home = home()
        .manifest(
            "repeater",
            "id: repeater\nname: Repeater\nversion: 1.0.0\nentrypoint: {command: [node, server.mjs]}\n",
        )
        .file("manifests/repeater/server.mjs", SERVER)
        .trusted();
    add_skill(&home, "driver", DRIVER);
    add_skill(&home, "answer", "export default ({ text }) => text;\n");
    approve_programs(&home, "answer");
    home.write("policy.json", r#"{"limits": {"seconds": 600}}"#);
    let program = std::env::var_os("SKILLHOST_PROGRAM").map_or_else(binary, PathBuf::from);
    let tools = ["answer", "repeat", "echo"];
    let arguments = json!({ "tools": tools, "calls": CALLS }).to_string();
    let mut command = home.command_of(&program);
    command.args(["skill", "call", "--json", "driver", &arguments, "--policy", "policy.json"]);
    let measured = home.start(&mut command).finish().success().json();
    let times: Vec<f64> = serde_json::from_value(measured["structured"]["result"].clone()).unwrap();
    let [handler, mcp, library] = times[..] else { panic!("{measured}") };
    let plain = measure_plain_server(&home.path("manifests/repeater/server.mjs"));
    // What the driver itself and the dispatcher need is no part of either call.
    let ratio = (handler - library) / (mcp - library);
    let figure = json!({
        "what": "warm call of a program ÷ MCP over stdio", "limit": 1.5, "ratio": ratio,
        "program_ms": handler, "mcp_ms": mcp, "library_ms": library, "plain_mcp_ms": plain,
    });
    eprintln!("{figure}");
    assert!(ratio <= 1.5, "{figure}");
}
