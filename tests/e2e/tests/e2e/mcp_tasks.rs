//! Tests of `skillhost mcp`: tool calls as background tasks of clients that poll.

use std::fs;

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};
use skillhost_tasks::{TaskKind, TaskState};
use test_support::{TestHome, example_program};

use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};
use crate::home_queue::{HomeQueue, kill};
use crate::mcp_client::{Client, texts};
use crate::mcp_http::HttpServer;

/// A process extension with the tools of the conformance suite.
const MANIFEST: &str = "id: task_tools\nname: Task tools\nentrypoint: {command: [./server]}\n\
    mcp: {tools: [slow_compute, failing_job, confirm_delete]}\n";
const TOKENS: [&str; 2] = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];

fn task_home() -> TestHome {
    let home = TestHome::new().manifest("task_tools", MANIFEST).trusted();
    fs::copy(example_program("task_tools"), home.path("manifests/task_tools/server")).unwrap();
    home
}

fn connect(home: &TestHome) -> Client {
    Client::spawn(home.command().arg("mcp"))
}

/// Returns parameters of a client that polls tasks and shows forms.
fn polling(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": { "io.modelcontextprotocol/tasks": {} },
            "elicitation": { "form": {} },
        },
    });
    params
}

/// Calls a tool and returns the handle of its task.
fn submit(client: &mut Client, tool: &str, arguments: &Value) -> String {
    let call = polling(json!({ "name": tool, "arguments": arguments }));
    let made = client.result("tools/call", call);
    assert_eq!(made["resultType"], "task", "{made}");
    made["taskId"].as_str().unwrap().to_owned()
}

fn get(client: &mut Client, handle: &str) -> Value {
    client.result("tasks/get", polling(json!({ "taskId": handle })))
}

#[test]
fn client_polls_task_to_its_end() {
    let home = task_home();
    let kernel = start_kernel(&home);
    let mut client = connect(&home);
    let handle = submit(&mut client, "failing_job", &json!({}));
    assert_eq!(get(&mut client, &handle)["status"], "working");
    let queue = HomeQueue::open(&home);
    queue.wait_for_end(&queue.only_task().id);
    let ended = get(&mut client, &handle);
    assert_eq!(
        (&ended["status"], &ended["result"]["isError"]),
        (&"completed".into(), &true.into())
    );
    assert_eq!(ended["result"]["content"][0]["text"], "the job failed");
    kernel.interrupt().success();
}

#[test]
fn task_outlives_kernel_and_server() {
    let home = task_home();
    let kernel = start_kernel(&home);
    let mut client = connect(&home);
    let arguments = json!({ "seconds": 1, "label": "three" });
    let handle = submit(&mut client, "slow_compute", &arguments);
    let queue = HomeQueue::open(&home);
    let task = queue.only_task().id;
    queue.wait_for(&task, |task| task.state == TaskState::Running);
    kill(kernel);
    // Ends the server without its shutdown.
    drop(client);
    let mut client = connect(&home);
    assert_eq!(get(&mut client, &handle)["status"], "working");
    let kernel = start_kernel(&home);
    assert_eq!(queue.wait_for_end(&task).attempt, 2);
    let ended = get(&mut client, &handle);
    assert_eq!(ended["result"]["content"][0]["text"], "computed three", "{ended}");
    kernel.interrupt().success();
}

#[test]
fn client_answers_question_of_tool() {
    let home = task_home();
    let kernel = start_kernel(&home);
    let mut client = connect(&home);
    let handle = submit(&mut client, "confirm_delete", &json!({ "filename": "x" }));
    let queue = HomeQueue::open(&home);
    let task = queue.only_task().id;
    queue.wait_for(&task, |task| task.state == TaskState::Waiting);
    let asked = get(&mut client, &handle);
    assert_eq!(asked["status"], "input_required", "{asked}");
    let requests = asked["inputRequests"].as_object().unwrap();
    let [(key, request)] = &requests.iter().collect::<Vec<_>>()[..] else { panic!("{asked}") };
    assert_eq!(request["method"], "elicitation/create");
    let answer = json!({ "action": "accept", "content": { "confirm": true } });
    let responses = json!({ key.as_str(): answer });
    let update = polling(json!({ "taskId": handle, "inputResponses": responses }));
    assert_eq!(client.result("tasks/update", update)["resultType"], "complete");
    queue.wait_for_end(&task);
    let ended = get(&mut client, &handle);
    assert_eq!(
        (&ended["status"], &ended["result"]["isError"]),
        (&"completed".into(), &false.into())
    );
    let text = ended["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\"confirm\":true"), "{text}");
    kernel.interrupt().success();
}

#[test]
fn client_cancels_running_task() {
    let home = task_home();
    let kernel = start_kernel(&home);
    let mut client = connect(&home);
    let arguments = json!({ "seconds": 600, "label": "never" });
    let handle = submit(&mut client, "slow_compute", &arguments);
    let queue = HomeQueue::open(&home);
    let task = queue.only_task().id;
    queue.wait_for(&task, |task| task.state == TaskState::Running);
    let cancelled = client.result("tasks/cancel", polling(json!({ "taskId": handle })));
    assert_eq!(cancelled["resultType"], "complete");
    assert_eq!(queue.wait_for_end(&task).state, TaskState::Cancelled);
    assert_eq!(get(&mut client, &handle)["status"], "cancelled");
    kernel.interrupt().success();
}

/// Sends a request over HTTP and returns the response.
fn request(server: &HttpServer, token: &str, method: &str, name: &str, params: Value) -> Value {
    let params = polling(params);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let token = format!("Bearer {token}");
    let headers = [
        ("Authorization", &*token),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
        ("Mcp-Name", name),
    ];
    let mut messages = server.post(&headers, &message).messages();
    messages.pop().expect("each request has a response")
}

#[test]
fn only_owner_finds_task() {
    let home = task_home();
    let kernel = start_kernel(&home);
    let serve = |token: &str| {
        let mut command = home.command();
        let command = command.env("SKILLHOST_MCP_TOKEN", token);
        HttpServer::start(&home, command.args(["mcp", "--http", "127.0.0.1:0"]))
    };
    let find = |server: &HttpServer, token: &str, handle: &str| {
        request(server, token, "tasks/get", handle, json!({ "taskId": handle }))
    };
    let server = serve(TOKENS[0]);
    let call = json!({ "name": "failing_job", "arguments": {} });
    let made = request(&server, TOKENS[0], "tools/call", "failing_job", call);
    let handle = made["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}"));
    server.process.interrupt().success();
    // The holder of the same token finds it on a new server, the holder of another does not.
    let server = serve(TOKENS[0]);
    let found = find(&server, TOKENS[0], handle);
    assert_eq!(found["result"]["taskId"], handle, "{found}");
    server.process.interrupt().success();
    let server = serve(TOKENS[1]);
    let foreign = find(&server, TOKENS[1], handle);
    let unknown = find(&server, TOKENS[1], "unknown");
    assert_eq!((&foreign["error"]["code"], &foreign["error"]), (&json!(-32602), &unknown["error"]));
    // Neither does the operator's client on standard input and output.
    let mut client = connect(&home);
    let params = polling(json!({ "taskId": handle }));
    assert_eq!(client.expect_error("tasks/get", &params).0, -32602);
    let own = submit(&mut client, "failing_job", &json!({}));
    assert_eq!(find(&server, TOKENS[1], &own)["error"], unknown["error"]);
    server.process.interrupt().success();
    kernel.interrupt().success();
}

#[test]
fn exported_agent_works_as_task() {
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::text("Two findings.")));
    let manifest = |id: &str, exports: &str| {
        format!("{}{exports}", agent_manifest(id, "  integration_mode: tool\n"))
    };
    let home = TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("reviewer", &manifest("reviewer", "mcp: {tools: [reviewer]}\n"))
        .manifest("private", &manifest("private", ""))
        .settings(&mock.settings(Wire::Openai))
        .trusted();
    let kernel = start_kernel(&home);
    let mut client = connect(&home);
    let names = texts(&client.result("tools/list", polling(json!({})))["tools"], "/name");
    let has = |name: &str| names.iter().any(|listed| listed == name);
    assert_eq!((has("reviewer"), has("private")), (true, false), "{names:?}");
    let call = |tool: &str, arguments: Value| json!({ "name": tool, "arguments": arguments });
    let review = || call("reviewer", json!({ "task": "Review kv.\nBriefly." }));
    // The error for a client that cannot poll names the missing capability.
    let mut plain = polling(review());
    plain["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    assert_eq!(client.expect_error("tools/call", plain).0, -32021);
    let made = client.result("tools/call", polling(review()));
    let queue = HomeQueue::open(&home);
    let task = queue.only_task();
    assert_eq!((task.kind, task.title.as_str()), (TaskKind::Agent, "Review kv."));
    queue.wait_for_end(&task.id);
    // A short task is answered by its result.
    let ended = match made["taskId"].as_str() {
        Some(handle) => get(&mut client, handle)["result"].clone(),
        None => made,
    };
    assert_eq!(ended["content"][0]["text"], "Two findings.", "{ended}");
    // Arguments that do not fit are the error of a tool; an agent without export is unknown.
    let faulty = client.result("tools/call", polling(call("reviewer", json!({ "text": "x" }))));
    assert_eq!(faulty["isError"], true, "{faulty}");
    let unknown = polling(call("private", json!({ "task": "x" })));
    assert_eq!(client.expect_error("tools/call", unknown).0, -32602);
    kernel.interrupt().success();
}
