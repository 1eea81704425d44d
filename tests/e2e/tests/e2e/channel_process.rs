//! Tests of a channel that is a process.

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};
use test_support::{TestHome, poll_until};

use crate::agents_scene::agents_home;
use crate::fixtures::start_kernel;
use crate::home_queue::kill;
use crate::mailbox::direct_message;

/// A channel over files in its data directory: `inbox/N.json` is received, `outbox.jsonl` is sent.
const SERVER: &str = r#"
import json, os, sys, threading, time
data = os.environ["SKILLHOST_DATA_DIR"]
lock = threading.Lock()

def reply(message, result):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)

def receive(message):
    cursor = message["params"]["cursor"] or ""
    until = time.monotonic() + message["params"]["waitMs"] / 1000
    inbox = os.path.join(data, "inbox")
    while time.monotonic() < until:
        names = sorted(os.listdir(inbox)) if os.path.isdir(inbox) else []
        names = [name for name in names if name.endswith(".json") and name > cursor]
        if names:
            files = [json.load(open(os.path.join(inbox, name))) for name in names]
            reply(message, {"received": {
                "messages": [one for one in files if "text" in one],
                "buttons": [one for one in files if "token" in one],
                "cursor": names[-1],
            }})
            return
        time.sleep(0.02)
    reply(message, {"received": {"messages": [], "buttons": []}})

def append(name, value):
    with open(os.path.join(data, name), "a") as file:
        file.write(json.dumps(value) + "\n")

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method", "")
    if "id" not in message:
        continue
    if method == "initialize":
        reply(message, {"protocolVersion": message["params"]["protocolVersion"],
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "pigeon", "version": "1"}})
    elif method == "tools/list":
        reply(message, {"tools": []})
    elif method == "skillhost/channel/info":
        reply(message, {"info": {"account": "pigeon", "text_limit": 4096, "format": "plain text",
                                 "has_buttons": True, "can_edit": True}})
    elif method == "skillhost/channel/send":
        append("outbox.jsonl", message["params"])
        reply(message, {"sent": {"sent": {"message_id": message["params"]["key"]}}})
    elif method == "skillhost/channel/hint":
        reply(message, {"hint": None})
    elif method == "skillhost/channel/answer":
        append("answers.jsonl", message["params"])
        reply(message, {"answered": None})
    elif method == "skillhost/channel/receive":
        threading.Thread(target=receive, args=(message,), daemon=True).start()
    else:
        reply(message, {})
"#;

fn pigeon_home(mock: &MockModel) -> TestHome {
    let settings =
        format!("{}channels: {{pigeon: {{agent: worker}}}}\n", mock.settings(Wire::Openai));
    let manifest = "id: pigeon\nname: Pigeon\nchannel: true\n\
                    entrypoint: {command: [python3, server.py]}\n";
    agents_home(mock)
        .manifest("pigeon", manifest)
        .file("manifests/pigeon/server.py", SERVER)
        .settings(&settings)
        .trusted()
}

fn put(home: &TestHome, number: usize, file: &Value) {
    let name = format!("sandbox/data/pigeon/inbox/{number}");
    home.write(format!("{name}.tmp"), file.to_string());
    let path = |suffix: &str| home.path(format!("{name}.{suffix}"));
    std::fs::rename(path("tmp"), path("json")).unwrap();
}

/// Waits for a line of a file of the process.
fn wait_for(home: &TestHome, file: &str, condition: impl Fn(&Value) -> bool) -> Value {
    poll_until("a line that meets the condition", || {
        let path = home.path(format!("sandbox/data/pigeon/{file}"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let values = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        values.filter(|value| condition(value)).last().ok_or(text)
    })
}

fn wait_for_text(home: &TestHome, part: &str) -> Value {
    wait_for(home, "outbox.jsonl", |sent| sent["text"].as_str().unwrap().contains(part))
}

#[test]
fn process_receives_sends_and_decides() {
    let write = json!({ "path": "notes.txt", "content": "kept" }).to_string();
    let mock = MockModel::with([
        Step::text("Hello yourself."),
        Step::calls("write_file", &write),
        Step::text("Written."),
    ]);
    let home = pigeon_home(&mock);
    let kernel = start_kernel(&home);
    let created = home.skillhost(["channel", "pair", "pigeon", "--json"]).success().json();
    put(&home, 1, &direct_message("pair", "1", created["code"].as_str().unwrap()));
    wait_for_text(&home, "You are paired as owner");
    put(&home, 2, &direct_message("hello", "1", "Hello"));
    wait_for_text(&home, "Hello yourself.");
    put(&home, 3, &direct_message("write", "1", "Write a note"));
    let asked = wait_for(&home, "outbox.jsonl", |sent| sent["buttons"].is_array());
    // Killed and started again, it goes on behind the stored position.
    kill(kernel);
    let kernel = start_kernel(&home);
    put(
        &home,
        4,
        &json!({
            "token": asked["buttons"][0]["token"],
            "conversation": asked["conversation"],
            "message_id": asked["key"],
            "peer": { "id": "1", "name": "" },
            "callback": "press 1",
        }),
    );
    let answer = wait_for(&home, "answers.jsonl", |answer| answer["callback"] == "press 1");
    assert_eq!(answer["text"], "Decided: approve.");
    wait_for_text(&home, "Written.");
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept");
    assert_eq!(mock.requests().len(), 3);
    kernel.interrupt().success();
}
