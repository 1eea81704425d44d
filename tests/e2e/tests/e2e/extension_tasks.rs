//! Tests of tasks that an extension executes: submitted by commands and agents, killed, answered.

use mock_model::{MockModel, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_support::{Background, TestHome, example_library, poll_until, wait_until};

use crate::agents_scene::ask_agent;
use crate::fixtures::{agent_manifest, home, shipped_manifest, start_kernel};

const IMPORT: &str = "importer/import";

fn add_importer(home: TestHome) -> TestHome {
    let yaml = "id: importer\nname: Importer\nentrypoint: importer\n";
    home.manifest("importer", yaml).library("importer", "importer", &example_library("importer"))
}

fn submit(home: &TestHome, input: &str) -> String {
    let args = ["task", "submit", "--kind", IMPORT, input, "--json"];
    let submitted = home.skillhost(args).success().json();
    submitted["task"]["id"].as_str().unwrap().to_owned()
}

/// Waits until the JSON of a task satisfies a condition.
fn wait_for(home: &TestHome, id: &str, condition: impl Fn(&Value) -> bool) -> Value {
    poll_until("a task that meets the condition", || {
        let page = home.skillhost(["task", "show", id, "--json"]).success().json();
        if condition(&page["task"]) { Ok(page["task"].clone()) } else { Err(page) }
    })
}

fn kill(kernel: Background) {
    let pid = Pid::from_raw(i32::try_from(kernel.id()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let _ = kernel.finish();
}

/// Returns the keys of the imports of a page.
fn imports(home: &TestHome, page: u32) -> Vec<String> {
    let text = std::fs::read_to_string(home.path(format!("PAGE {page}"))).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn killed_import_skips_stored_steps() {
    let home = add_importer(home()).trusted();
    let kernel = start_kernel(&home);
    let id = submit(&home, r#"{"pages": 3, "hang": 2}"#);
    wait_until("the import of page 2", || !imports(&home, 2).is_empty());
    let shown = home.skillhost(["task", "show", &id]).success().stdout;
    assert!(shown.contains("progress   1 of 3: page 1"), "{shown}");
    assert!(shown.contains("3 pages") && shown.contains("ext importer/import"), "{shown}");
    kill(kernel);
    assert_eq!(imports(&home, 3), Vec::<String>::new());

    let kernel = start_kernel(&home);
    let task = wait_for(&home, &id, |task| task["state"] == "completed");
    assert_eq!(
        (&task["attempt"], &task["outcome"]["text"]),
        (&2.into(), &"3 pages, unasked".into())
    );
    let counts = [1, 2, 3].map(|page| imports(&home, page).len());
    assert_eq!(counts, [1, 2, 1]);
    // Both attempts of the step have the same key, so a server could tell them apart.
    let keys = imports(&home, 2);
    assert_eq!((&keys[0], &keys[0]), (&keys[1], &format!("{id}/page 2")));
    let logs = home.skillhost(["task", "logs", &id]).success().stdout;
    assert!(logs.contains("name=page 3") && logs.contains("result=100"), "{logs}");
    kernel.interrupt().success();
}

#[test]
fn asking_import_waits_without_worker() {
    let home = add_importer(home()).trusted();
    let kernel = start_kernel(&home);
    let id = submit(&home, r#"{"pages": 1, "ask": "Publish the page?"}"#);
    let waiting = wait_for(&home, &id, |task| task["state"] == "waiting");
    assert_eq!((&waiting["worker"], &waiting["lease_ms"]), (&Value::Null, &Value::Null));
    let question = waiting["waits"]["questions"][0].as_str().unwrap().to_owned();
    let shown = home.skillhost(["inbox", "show", &question]).success().stdout;
    assert!(shown.contains("Publish the page?") && shown.contains(IMPORT), "{shown}");
    // The question survives the kernel.
    kill(kernel);
    let kernel = start_kernel(&home);
    let refused = home.skillhost(["inbox", "answer", &question, "maybe"]);
    assert_ne!(refused.status, 0, "{refused}");
    home.skillhost(["inbox", "answer", &question, "yes"]).success();
    let task = wait_for(&home, &id, |task| task["state"] == "completed");
    assert_eq!(task["outcome"]["text"], "1 pages, yes");
    assert_eq!(imports(&home, 1).len(), 1);
    kernel.interrupt().success();
}

#[test]
fn orderly_stop_continues_behind_the_step() {
    let home = add_importer(home()).trusted();
    let kernel = start_kernel(&home);
    let id = submit(&home, r#"{"pages": 2, "hang": 2}"#);
    wait_for(&home, &id, |task| task["progress"]["done"] == 1.0);
    kernel.interrupt().success();
    let kernel = start_kernel(&home);
    let task = wait_for(&home, &id, |task| task["state"] == "completed");
    assert_eq!(task["outcome"]["text"], "2 pages, unasked");
    assert_eq!(imports(&home, 1).len(), 1);
    kernel.interrupt().success();
}

/// Returns the id of the task that retries one which was cancelled during its second page.
fn retry_cancelled(home: &TestHome, options: &[&str]) -> (String, String) {
    let id = submit(home, r#"{"pages": 2, "hang": 2}"#);
    wait_until("the import of page 2", || !imports(home, 2).is_empty());
    home.skillhost(["task", "cancel", &id]).success();
    wait_for(home, &id, |task| task["state"] == "cancelled");
    let args = ["task", "retry", &id, "--json"].into_iter().chain(options.iter().copied());
    let retried = home.skillhost(args).success().json();
    let retry = retried["task"]["id"].as_str().unwrap().to_owned();
    let task = wait_for(home, &retry, |task| task["state"] == "completed");
    assert_eq!(task["outcome"]["text"], "2 pages, unasked");
    (id, retry)
}

#[test]
fn retry_keeps_steps_and_keys() {
    let home = add_importer(home()).trusted();
    let kernel = start_kernel(&home);
    let (id, retry) = retry_cancelled(&home, &[]);
    assert_ne!(id, retry);
    assert_eq!(imports(&home, 1), [format!("{id}/page 1")]);
    // The other system recognizes the step that was cut off.
    assert_eq!(imports(&home, 2), [format!("{id}/page 2"), format!("{id}/page 2")]);
    kernel.interrupt().success();
}

#[test]
fn fresh_retry_has_new_keys() {
    let home = add_importer(home()).trusted();
    let kernel = start_kernel(&home);
    let (id, retry) = retry_cancelled(&home, &["--fresh"]);
    for page in [1, 2] {
        let expected = [format!("{id}/page {page}"), format!("{retry}/page {page}")];
        assert_eq!(imports(&home, page), expected);
    }
    kernel.interrupt().success();
}

#[test]
fn faulty_submission_stores_no_task() {
    let home = add_importer(home()).trusted();
    let args = ["task", "submit", "--kind", IMPORT, "{\"pages\": 1}"];
    let refused = home.skillhost(args).exits(4);
    assert!(refused.stderr.contains("no kernel runs"), "{refused}");
    let kernel = start_kernel(&home);
    for (args, message) in [
        (&[IMPORT, "{\"pages\": 0}"][..], "no pages"),
        (&[IMPORT, "{}"], "field `pages` is missing"),
        (&[IMPORT, "[1]"], "not a JSON object"),
        (&[IMPORT, "{}", "{}"], "`--kind` requires only the input"),
        (&["importer/imprt", "{\"pages\": 1}"], "did you mean importer/import"),
        (&["gone/import", "{\"pages\": 1}"], "task kind `gone/import` not found"),
    ] {
        let output = home.skillhost(["task", "submit", "--kind"].iter().chain(args));
        assert_ne!(output.status, 0, "{output}");
        assert!(output.stderr.contains(message), "{args:?}: {output}");
    }
    let listed = home.skillhost(["task", "list", "--json"]).success().json();
    assert_eq!(listed["tasks"], Value::Array(Vec::new()));
    kernel.interrupt().success();
}

#[test]
fn agents_submit_kinds_of_their_extensions() {
    let mock = MockModel::new();
    let call = |kind: &str| {
        Step::calls("submit_task", &format!(r#"{{"kind": "{kind}", "input": {{"pages": 1}}}}"#))
    };
    mock.answer_with(move |request| {
        let messages = request.messages();
        let calls = messages.iter().filter(|message| message.role == "tool").count();
        let publishes = messages.iter().any(|message| message.text.contains("Publish it"));
        Some(match (calls, publishes) {
            (0, false) => call(IMPORT),
            (0, true) => call("importer/publish"),
            _ => Step::text("Submitted."),
        })
    });
    let uses = |tools: &str| format!("  instructions: You import.\n  uses_tools: [{tools}]\n");
    let home = add_importer(TestHome::new())
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("keeper_agent", &agent_manifest("keeper_agent", &uses("tasks, importer")))
        .manifest("other_agent", &agent_manifest("other_agent", &uses("tasks")))
        .settings(&mock.settings(Wire::Openai))
        .trusted();
    let kernel = start_kernel(&home);
    ask_agent(&home, "keeper_agent", "Import it").success();
    let listed = home.skillhost(["task", "list", "--json"]).success().json();
    let id = listed["tasks"][0]["id"].as_str().unwrap().to_owned();
    let task = wait_for(&home, &id, |task| task["state"] == "completed");
    assert_eq!((&task["title"], &task["kind"]), (&"1 pages".into(), &"ext".into()));

    // Another agent may not, and a kind that requires approval is refused without a person.
    ask_agent(&home, "other_agent", "Import it").success();
    ask_agent(&home, "keeper_agent", "Publish it").success();
    let listed = home.skillhost(["task", "list", "--json"]).success().json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed:#}");
    let requests = mock.requests();
    let refusal = |part: &str| requests.iter().any(|request| request.last_text().contains(part));
    assert!(refusal("agent `other_agent` may not start tasks of `importer`"));
    assert!(refusal("approv"), "{:?}", requests.last().map(|request| request.last_text()));
    kernel.interrupt().success();
}
