//! Kills of the kernel during a tool call: a `once` tool is not called again without a decision, a
//! `keyed` one is called again with the same key.

use std::fs;
use std::io::Write as _;

use mock_model::{MockModel, Step, Wire};
use test_support::{TestHome, example_library, program, wait_until};

use crate::agents_scene::{ToolBarrier, format_messages};
use crate::fixtures::{agent_manifest, shipped_manifest};
use crate::supervision::{ask_on_terminal, kill_kernel, start_supervised_with, wait_for_start};

const HANG: &str = r#"{"do":"key","hang":true}"#;

/// Creates a home with the agent `careless`, whose tool `bad` records the key of each call and hangs
/// at the first attempt.
fn recording_home(mock: &MockModel, effect: &str) -> TestHome {
    let manifest =
        format!("id: bad\nname: Bad\nentrypoint: misbehave\nconfig: {{effect: {effect}}}\n");
    let careless = "  instructions: You try things.\n  uses_tools: [bad]\n";
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("bad", &manifest)
        .library("bad", "misbehave", &example_library("misbehave"))
        .manifest("careless", &agent_manifest("careless", careless))
        .settings(&mock.settings(Wire::Openai))
        .trusted()
}

/// Returns the keys of the calls of `bad` so far.
fn recorded_keys(home: &TestHome) -> Vec<String> {
    let record = fs::read_to_string(home.path("record")).unwrap();
    record.lines().filter_map(|line| line.strip_prefix("bad bad ")).map(str::to_owned).collect()
}

#[test]
fn killed_once_call_needs_decision() {
    let happened = "tool: the run was cut off before this call was answered; a person confirmed that \
                    it happened, but its result is not known\n";
    let stop = "tool: the run was cut off before this call was answered; it may have happened\n";
    for (input, calls, result) in
        [("h\n", 1, Some(happened)), ("s\n", 1, Some(stop)), ("a\n", 2, None)]
    {
        let mock = MockModel::with([Step::calls("bad", HANG), Step::text("That is all.")]);
        let home = recording_home(&mock, "once");
        let barrier = ToolBarrier::bind(&home);
        let supervisor = start_supervised_with(&home, &["--json"]);
        let kernel = wait_for_start(&supervisor);
        let mut person = ask_on_terminal(&home, "careless", "Try it");
        let blocked = barrier.wait_for_call();
        kill_kernel(kernel);
        drop(blocked);
        wait_for_start(&supervisor);
        person.wait_for("careless calls bad of bad");
        person.wait_for("the kernel ended during this call, which may have happened");
        person.wait_for("[h] it happened, [a] make it again, [s] stop");
        assert_eq!(recorded_keys(&home).len(), 1, "no call before the decision");
        // Only a clear answer decides.
        person.send("y\n");
        person.wait_for("[h] it happened, [a] make it again, [s] stop");
        person.send(input);
        person.wait_for("That is all.");
        let session = person.finish();
        assert_eq!(session.output.status, 0, "{}", session.output);
        let keys = recorded_keys(&home);
        assert_eq!(keys.len(), calls, "{input:?}");
        let messages = format_messages(&mock.requests()[1]);
        let again = format!("tool: {}\n", keys[0]);
        assert!(messages.ends_with(result.unwrap_or(&again)), "{input:?}: {messages}");
        supervisor.interrupt().success();
    }
}

#[test]
fn killed_once_call_without_person_is_not_repeated() {
    // The model makes the same call again, which needs a decision as well.
    let mock = MockModel::with([
        Step::calls("bad", HANG),
        Step::calls("bad", HANG),
        Step::text("Then I leave it."),
    ]);
    let home = recording_home(&mock, "once");
    let barrier = ToolBarrier::bind(&home);
    let supervisor = start_supervised_with(&home, &["--json"]);
    let kernel = wait_for_start(&supervisor);
    let ask = home.spawn(["ask", "--agent", "careless", "Try it"]);
    let blocked = barrier.wait_for_call();
    kill_kernel(kernel);
    drop(blocked);
    let output = ask.finish().success();
    assert_eq!(output.stdout, "Then I leave it.\n");
    let note = "`bad` may have happened and was not called again: no terminal is available";
    assert_eq!(output.stderr.matches(note).count(), 2, "{output}");
    assert_eq!(recorded_keys(&home).len(), 1);
    supervisor.interrupt().success();
}

#[test]
fn killed_keyed_call_is_repeated_with_same_key() {
    for effect in ["keyed", "read"] {
        let mock = MockModel::with([
            Step::calls("bad", HANG),
            Step::calls("bad", HANG),
            Step::text("That is all."),
        ]);
        let home = recording_home(&mock, effect);
        let barrier = ToolBarrier::bind(&home);
        let supervisor = start_supervised_with(&home, &["--json"]);
        let kernel = wait_for_start(&supervisor);
        let ask = home.spawn(["ask", "--agent", "careless", "Try it"]);
        let blocked = barrier.wait_for_call();
        kill_kernel(kernel);
        drop(blocked);
        // The second call has a key of its own, so it hangs as well, and is killed too.
        let kernel = wait_for_start(&supervisor);
        let blocked = barrier.wait_for_call();
        kill_kernel(kernel);
        drop(blocked);
        assert_eq!(ask.finish().success().stdout, "That is all.\n");
        let keys = recorded_keys(&home);
        assert_eq!(keys.len(), 4, "{effect}");
        assert!(keys[0] == keys[1] && keys[2] == keys[3] && keys[0] != keys[2], "{keys:?}");
        supervisor.interrupt().success();
    }
}

/// A process whose tool appends the key of each call to a file, and hangs at the first one.
const SERVER: &str = r#"
import json, os, sys, threading

LOG = os.path.join(os.environ["SKILLHOST_DATA_DIR"], "orders")
TOOL = {
    "name": "order", "description": "Orders.", "inputSchema": {"type": "object"},
    "annotations": {"idempotentHint": True}, "_meta": {"skillhost/needs_approval": "never"},
}


def call(params):
    key = params["_meta"]["skillhost/key"]
    with open(LOG, "a+") as log:
        log.seek(0)
        first = log.read() == ""
        log.write(key + "\n")
    if first:
        threading.Event().wait()
    return {"content": [{"type": "text", "text": "ordered"}]}


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1.0.0"},
        }
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        result = call(message["params"])
    elif method == "ping":
        result = {}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[test]
fn killed_call_of_process_is_repeated_with_same_key() {
    if program("python3").is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no python3 to run the process");
        return;
    }
    let mock = MockModel::with([Step::calls("order", "{}"), Step::text("It is ordered.")]);
    let clerk = "  instructions: You order.\n  uses_tools: [shop]\n";
    let shop =
        "id: shop\nname: Shop\nversion: 1.0.0\nentrypoint: {command: [python3, ./server.py]}\n";
    let home = TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("shop", shop)
        .file("manifests/shop/server.py", SERVER)
        .manifest("clerk", &agent_manifest("clerk", clerk))
        .settings(&mock.settings(Wire::Openai))
        .trusted();
    let supervisor = start_supervised_with(&home, &["--json"]);
    let kernel = wait_for_start(&supervisor);
    let ask = home.spawn(["ask", "--agent", "clerk", "Order it"]);
    let orders = || {
        let text = fs::read_to_string(home.path("sandbox/data/shop/orders")).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until("the call of the tool", || !orders().is_empty());
    kill_kernel(kernel);
    assert_eq!(ask.finish().success().stdout, "It is ordered.\n");
    let orders = orders();
    assert_eq!((orders.len(), &orders[0]), (2, &orders[1]));
    assert_eq!(orders[0].len(), 64);
    assert!(format_messages(&mock.requests()[1]).ends_with("tool: ordered\n"));
    supervisor.interrupt().success();
}
