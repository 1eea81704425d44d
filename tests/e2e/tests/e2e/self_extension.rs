//! Tests of the first flow of the product: a user requests an extension, agents write it, a person
//! approves it, the kernel builds it and restarts, and the reply uses the new tool.

use std::fs;
use std::io::Write as _;

use mock_model::{MockModel, MockRequest, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_support::{Background, Left, Terminal, TestHome, copy_directory};

use crate::agents_scene::format_messages;
use crate::builds::{toolchain, with_target};
use crate::fixtures::{repository_root, shipped_manifest};

mod authored_skill;
mod builtin;
pub(crate) mod feed;
mod parts;

use feed::Feed;
use parts::{BROKEN_LINE, CARGO, FIXED_LINE, LIB, SERVER};

const TASK: &str = "Create an extension that monitors RSS feeds";

/// Creates a trusted home with the shipped extensions and agents of this flow, which can build
/// libraries.
fn workshop_home(mock: &MockModel) -> TestHome {
    with_target(shipped_home().settings(&mock.settings(Wire::Openai)).trusted())
}

/// Creates a home with the shipped extensions, agents and skills of this flow.
fn shipped_home() -> TestHome {
    let mut home = TestHome::new();
    for id in ["skill_registry", "core_tools", "echo", "orchestrator_agent", "builder_agent"] {
        home = home.manifest(id, &shipped_manifest(id));
        let prompt = repository_root().join("manifests").join(id).join("prompt.jinja2");
        if let Ok(text) = fs::read_to_string(prompt) {
            home.write(format!("manifests/{id}/prompt.jinja2"), text);
        }
    }
    copy_directory(&repository_root().join("sandbox/skills"), &home.path("sandbox/skills"));
    home
}

fn start_supervised(home: &TestHome) -> Background {
    let kernel = home.start(home.command().envs(toolchain()).args(["run", "--supervised"]));
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

/// Starts `ask` at a terminal, whose user approves calls.
fn start_ask(home: &TestHome) -> Terminal {
    home.on_terminal(home.command().args(["ask", TASK]), (100, 60))
}

/// Approves the next call of a tool.
#[track_caller]
pub(crate) fn approve_call(terminal: &mut Terminal, agent: &str, tool: &str) {
    terminal.wait_for(&format!("{agent} asks to call {tool}"));
    terminal.wait_for("[N]o");
    terminal.send("y\n");
}

/// Counts the approval prompts.
fn count_prompts(session: &Left) -> usize {
    session.output.stdout.matches("allow it? [y]es").count()
}

fn write_step(path: &str, content: &str) -> Step {
    Step::calls("write_file", &json!({ "path": path, "content": content }).to_string())
}

/// Returns a manifest; a library has a task for its schedule, a process a tool.
fn manifest(feed: &Feed, entrypoint: &Value) -> String {
    let mut schedule = json!({ "name": "poll", "cron": "*/15 * * * *" });
    match entrypoint {
        Value::String(_) => schedule["task"] = json!("poll"),
        _ => schedule["tool"] = json!("feeds_poll"),
    }
    let mut manifest = json!({
        "id": "rss_monitor",
        "name": "RSS monitor",
        "version": "0.1.0",
        "description": "Reads RSS feeds and tells what is new.",
        "entrypoint": entrypoint,
        "config": { "feeds": [feed.url()] },
        "schedules": [schedule],
    });
    if !entrypoint.is_string() {
        manifest["sandbox"] = json!({ "network": { "allowedDomains": ["127.0.0.1"] } });
    }
    serde_json::to_string_pretty(&manifest).unwrap()
}

/// Returns all model requests.
fn model_requests(mock: &MockModel) -> Vec<MockRequest> {
    mock.requests()
}

/// Writes files of the extension in one step.
fn builder_step(files: &[(&str, String)]) -> Step {
    let file = |(path, text): &(&str, String)| json!({"path": format!("extensions/rss_monitor/{path}"), "content": text});
    let files: Vec<Value> = files.iter().map(file).collect();
    Step::calls("write_files", &json!({ "files": files }).to_string())
}

/// Checks the final state, which is the same for every kind of extension.
fn check_final_state(home: &TestHome, feed: &Feed, kernel: Background) {
    home.skillhost(["ext", "doctor"]).success();
    // The schedule polls the feed, and the extension stores the new entries.
    feed.publish("Second post");
    home.skillhost(["schedule", "run", "rss_monitor/poll"]).success();
    let listed = home.skillhost(["schedule", "list", "--json"]).success().json();
    let listed = listed.to_string();
    assert!(listed.contains("rss_monitor"), "{listed}");
    assert_eq!(feed.served(), 2);
    kernel.interrupt().success();
}

#[test]
fn rust_extension_is_built_and_used() {
    let feed = Feed::new("First post");
    let mock = MockModel::with(
        [
            Step::calls(
                "delegate_task",
                &json!({ "agent_id": "builder_agent", "task": "An extension rss_monitor that reads RSS feeds." })
                    .to_string(),
            ),
            Step::calls(
                "read_skill_resource",
                r#"{"skill_id": "extension-development", "path": "templates/tool-provider/src/lib.rs"}"#,
            ),
        ]
        .into_iter()
        .chain([builder_step(&[
            ("manifest.yaml", manifest(&feed, &json!("rss_monitor"))),
            ("Cargo.toml", CARGO.to_owned()),
            ("src/lib.rs", LIB.replace(FIXED_LINE, BROKEN_LINE)),
        ])])
        .chain([
            Step::calls("build_extension", r#"{"id": "rss_monitor"}"#),
            write_step("extensions/rss_monitor/src/lib.rs", LIB),
            Step::calls("build_extension", r#"{"id": "rss_monitor"}"#),
            Step::calls("request_restart", r#"{"reason": "rss_monitor is built"}"#),
            Step::text("Built. Call feeds_poll with no arguments."),
            Step::calls("feeds_poll", "{}"),
            Step::text("It works: the feed says First post."),
        ]),
    );
    let home = workshop_home(&mock);
    let kernel = start_supervised(&home);
    let mut user = start_ask(&home);
    approve_call(&mut user, "builder_agent", "write_files");
    approve_call(&mut user, "builder_agent", "build_extension");
    approve_call(&mut user, "builder_agent", "write_file");
    approve_call(&mut user, "builder_agent", "build_extension");
    approve_call(&mut user, "builder_agent", "request_restart");
    approve_call(&mut user, "orchestrator_agent", "feeds_poll");
    user.wait_for("It works: the feed says First post.");
    let session = user.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    assert_eq!(count_prompts(&session), 6);
    // All three files were shown in full before they were written.
    for expected in [
        "| create sandbox/extensions/rss_monitor/manifest.yaml",
        "| create sandbox/extensions/rss_monitor/Cargo.toml",
        "| create sandbox/extensions/rss_monitor/src/lib.rs",
        "| +export_extension!(Monitor: tools, scheduler);",
        "| modify sandbox/extensions/rss_monitor/src/lib.rs",
    ] {
        assert!(session.output.stdout.contains(expected), "{expected}: {}", session.output);
    }

    let requests = model_requests(&mock);
    assert_eq!(requests.len(), 10);
    // The orchestrator knows that the skill exists; the builder has its text.
    assert!(requests[0].system().contains("• `extension-development` — "));
    assert!(!requests[0].system().contains("Choose the smallest thing that works"));
    assert!(requests[1].system().contains("Choose the smallest thing that works"));
    assert!(requests[2].last_text().contains("export_extension!(Checklist: tools);"));
    // Compiler errors have position and source line.
    let failure = requests[4].last_text();
    assert!(failure.contains("src/lib.rs:"), "{failure}");
    assert!(failure.contains(BROKEN_LINE.trim()), "{failure}");
    assert!(requests[6].last_text().contains("rss_monitor"), "{}", requests[6].last_text());
    // After the restart, the orchestrator has the tool and the notice of the restart.
    let after = &requests[8];
    assert!(!requests[0].tools().iter().any(|tool| tool == "feeds_poll"));
    assert!(after.tools().iter().any(|tool| tool == "feeds_poll"), "{:?}", after.tools());
    assert!(
        format_messages(after).contains("<kernel_notice nonce=\""),
        "{}",
        format_messages(after)
    );
    assert!(requests[9].last_text().contains("First post"), "{}", requests[9].last_text());
    assert_eq!(feed.served(), 1);
    check_final_state(&home, &feed, kernel);
}

pub(crate) fn python_is_missing() -> bool {
    let missing = test_support::program("python3").is_none();
    if missing {
        // Standard error may be closed; that must not fail the test.
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no python3 for the extension");
    }
    missing
}

#[test]
fn python_extension_is_approved_and_used() {
    if python_is_missing() {
        return;
    }
    let feed = Feed::new("First post");
    let command = json!({ "command": ["python3", "server.py"] });
    let mock = MockModel::with(
        [
            Step::calls("builder_agent", r#"{"task": "An extension rss_monitor that reads RSS feeds."}"#),
            Step::calls(
                "read_skill_resource",
                r#"{"skill_id": "extension-development", "path": "templates/process-python/server.py"}"#,
            ),
        ]
        .into_iter()
        .chain([builder_step(&[
            ("manifest.yaml", manifest(&feed, &command)),
            ("server.py", SERVER.replace("def poll", "def poll(")),
        ])])
        .chain([
            Step::calls("build_extension", r#"{"id": "rss_monitor"}"#),
            write_step("extensions/rss_monitor/server.py", SERVER),
            Step::calls("build_extension", r#"{"id": "rss_monitor"}"#),
            Step::calls("request_restart", r#"{"reason": "rss_monitor is built"}"#),
            Step::text("Built. Call feeds_poll with no arguments."),
            Step::calls("feeds_poll", "{}"),
            Step::text("It works: the feed says First post."),
        ]),
    );
    let home = workshop_home(&mock);
    let kernel = start_supervised(&home);
    let mut user = start_ask(&home);
    approve_call(&mut user, "builder_agent", "write_files");
    approve_call(&mut user, "builder_agent", "build_extension");
    approve_call(&mut user, "builder_agent", "write_file");
    approve_call(&mut user, "builder_agent", "build_extension");
    approve_call(&mut user, "builder_agent", "request_restart");
    approve_call(&mut user, "orchestrator_agent", "feeds_poll");
    user.wait_for("It works: the feed says First post.");
    let session = user.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    assert_eq!(count_prompts(&session), 6);
    let requests = model_requests(&mock);
    assert_eq!(requests.len(), 10);
    let failure = requests[4].last_text();
    assert!(failure.contains("server.py"), "{failure}");
    assert!(failure.contains("SyntaxError"), "{failure}");
    assert!(requests[9].last_text().contains("First post"), "{}", requests[9].last_text());
    check_final_state(&home, &feed, kernel);
}

#[test]
fn failing_extension_is_rejected_before_install() {
    if python_is_missing() {
        return;
    }
    let feed = Feed::new("First post");
    let command = json!({ "command": ["python3", "server.py"] });
    let build = || Step::calls("build_extension", r#"{"id": "rss_monitor"}"#);
    let server = |text: &str| write_step("extensions/rss_monitor/server.py", text);
    let mock = MockModel::with(
        [Step::calls("builder_agent", r#"{"task": "An extension rss_monitor."}"#)]
            .into_iter()
            .chain([builder_step(&[("manifest.yaml", manifest(&feed, &command))])])
            .chain([
                server("raise SystemExit(\"no feeds today\")\n"),
                build(),
                server(&format!("print(\"hello\")\n{SERVER}")),
                build(),
                server(SERVER),
                build(),
                Step::calls("request_restart", r#"{"reason": "rss_monitor is built"}"#),
                // The kernel is killed here; another kernel makes the orchestrator's next request.
                Step::calls("feeds_poll", "{}"),
                Step::text("It works: the feed says First post."),
            ]),
    );
    let home = workshop_home(&mock);
    let mut command = home.command();
    command.envs(toolchain()).env("SKILLHOST_SUPERVISOR__DELAY_MS", "1");
    let supervisor = home.start(command.args(["run", "--supervised", "--json"]));
    let started: Value = serde_json::from_str(&supervisor.line_with("kernel.started")).unwrap();
    let kernel = Pid::from_raw(started["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    let mut user = start_ask(&home);
    approve_call(&mut user, "builder_agent", "write_files");
    for _ in ["ends at once", "prints", "works"] {
        approve_call(&mut user, "builder_agent", "write_file");
        approve_call(&mut user, "builder_agent", "build_extension");
    }
    user.wait_for("builder_agent asks to call request_restart");
    user.wait_for("[N]o");
    kill_process(kernel, Signal::KILL).unwrap();
    // The delegated run may have done its work, so it is not started again by itself.
    user.wait_for("orchestrator_agent calls builder_agent");
    user.wait_for("[h] it happened, [a] make it again, [s] stop");
    user.send("s\n");
    approve_call(&mut user, "orchestrator_agent", "feeds_poll");
    user.wait_for("It works: the feed says First post.");
    let session = user.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    assert_eq!(count_prompts(&session), 9);
    let requests = model_requests(&mock);
    let last = |number: usize| requests[number].last_text();
    assert!(last(4).contains("no feeds today"), "{}", last(4));
    assert!(last(6).contains("hello"), "{}", last(6));
    assert!(last(8).contains("was built and installed"), "{}", last(8));
    // The interrupted call has an unknown outcome, and the tool exists without another restart.
    let after = &requests[9];
    assert!(after.last_text().contains("was cut off"), "{}", after.last_text());
    assert!(after.tools().iter().any(|tool| tool == "feeds_poll"), "{:?}", after.tools());
    assert_eq!(feed.served(), 1);
    supervisor.interrupt().success();
}
