//! The first flow of the product: a user asks for an extension, agents write it, people agree, the
//! kernel builds it, starts anew with it, and the user's answer comes out of the new tool.

use std::fs;
use std::io::Write as _;

use mock_model::{Asked, MockModel, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_support::{Background, Left, Terminal, TestHome};

use crate::agents_scene::said;
use crate::builds::{toolchain, with_target};
use crate::scene::{repository, shipped};

mod feed;
mod parts;

use feed::Feed;
use parts::{BROKEN_LINE, CARGO, LIB, MENDED_LINE, SERVER};

const TASK: &str = "Create an extension that monitors RSS feeds";

/// A trusted home with everything that ships and matters here.
fn workshop(mock: &MockModel) -> TestHome {
    let mut home = TestHome::new();
    for id in ["skill_registry", "core_tools", "echo", "orchestrator_agent", "builder_agent"] {
        home = home.manifest(id, &shipped(id));
        let prompt = repository().join("manifests").join(id).join("prompt.jinja2");
        if let Ok(text) = fs::read_to_string(prompt) {
            home.write(format!("manifests/{id}/prompt.jinja2"), text);
        }
    }
    copy_tree(&repository().join("sandbox/skills"), &home.path("sandbox/skills"));
    with_target(home.settings(&mock.settings(Wire::Openai)).trusted())
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn supervised(home: &TestHome) -> Background {
    let kernel = home.start(home.command().envs(toolchain()).args(["run", "--supervised"]));
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

/// A person at a terminal, who asks and agrees.
fn person(home: &TestHome) -> Terminal {
    home.on_terminal(home.command().args(["ask", TASK]), (100, 60))
}

/// Agrees to the next call of a tool.
#[track_caller]
fn agree(terminal: &mut Terminal, agent: &str, tool: &str) {
    terminal.wait_for(&format!("{agent} asks to call {tool}"));
    terminal.wait_for("[N]o");
    terminal.send("y\n");
}

/// How often a person was asked.
fn questions(left: &Left) -> usize {
    left.output.stdout.matches("allow it? [y]es").count()
}

fn write(path: &str, content: &str) -> Step {
    Step::calls("write_file", &json!({ "path": path, "content": content }).to_string())
}

/// A library has a task for its schedule, a process a tool.
fn manifest(feed: &Feed, entrypoint: &Value) -> String {
    let mut schedule = json!({ "name": "poll", "cron": "*/15 * * * *" });
    match entrypoint {
        Value::String(_) => schedule["task"] = json!("poll"),
        _ => schedule["tool"] = json!("feeds_poll"),
    }
    let manifest = json!({
        "id": "rss_monitor",
        "name": "RSS monitor",
        "version": "0.1.0",
        "description": "Reads RSS feeds and tells what is new.",
        "entrypoint": entrypoint,
        "config": { "feeds": [feed.url()] },
        "schedules": [schedule],
    });
    serde_json::to_string_pretty(&manifest).unwrap()
}

/// What all requests said, for a look at what the agents knew.
fn asked(mock: &MockModel) -> Vec<Asked> {
    mock.requests()
}

/// Writes files of the extension in one step.
fn builder_step(files: &[(&str, String)]) -> Step {
    let file = |(path, text): &(&str, String)| json!({"path": format!("extensions/rss_monitor/{path}"), "content": text});
    let files: Vec<Value> = files.iter().map(file).collect();
    Step::calls("write_files", &json!({ "files": files }).to_string())
}

/// What is true at the end, whatever the extension is made of.
fn check_the_end(home: &TestHome, feed: &Feed, kernel: Background) {
    home.skillhost(["ext", "doctor"]).success();
    // The schedule polls the feed, and what it found is kept by the extension.
    feed.publish("Second post");
    home.skillhost(["schedule", "run", "rss_monitor/poll"]).success();
    let listed = home.skillhost(["schedule", "list", "--json"]).success().json();
    let listed = listed.to_string();
    assert!(listed.contains("rss_monitor"), "{listed}");
    assert_eq!(feed.served(), 2);
    kernel.interrupt().success();
}

#[test]
fn an_extension_in_rust_is_written_built_mended_and_used() {
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
            ("src/lib.rs", LIB.replace(MENDED_LINE, BROKEN_LINE)),
        ])])
        .chain([
            Step::calls("build_extension", r#"{"id": "rss_monitor"}"#),
            write("extensions/rss_monitor/src/lib.rs", LIB),
            Step::calls("build_extension", r#"{"id": "rss_monitor"}"#),
            Step::calls("request_restart", r#"{"reason": "rss_monitor is built"}"#),
            Step::text("Built. Call feeds_poll with no arguments."),
            Step::calls("feeds_poll", "{}"),
            Step::text("It works: the feed says First post."),
        ]),
    );
    let home = workshop(&mock);
    let kernel = supervised(&home);
    let mut user = person(&home);
    agree(&mut user, "builder_agent", "write_files");
    agree(&mut user, "builder_agent", "build_extension");
    agree(&mut user, "builder_agent", "write_file");
    agree(&mut user, "builder_agent", "build_extension");
    agree(&mut user, "builder_agent", "request_restart");
    agree(&mut user, "orchestrator_agent", "feeds_poll");
    user.wait_for("It works: the feed says First post.");
    let left = user.finish();
    assert_eq!(left.output.status, 0, "{}", left.output);
    assert_eq!(questions(&left), 6);
    // All three files were shown with their whole text before they were written.
    for shown in [
        "| create sandbox/extensions/rss_monitor/manifest.yaml",
        "| create sandbox/extensions/rss_monitor/Cargo.toml",
        "| create sandbox/extensions/rss_monitor/src/lib.rs",
        "| +export_extension!(Monitor: tools, scheduler);",
        "| modify sandbox/extensions/rss_monitor/src/lib.rs",
    ] {
        assert!(left.output.stdout.contains(shown), "{shown}: {}", left.output);
    }

    let requests = asked(&mock);
    assert_eq!(requests.len(), 10);
    // The orchestrator knows that the skill is there, the builder what it says.
    assert!(requests[0].system().contains("• `extension-development` — "));
    assert!(!requests[0].system().contains("Choose the smallest thing that works"));
    assert!(requests[1].system().contains("Choose the smallest thing that works"));
    assert!(requests[2].last_text().contains("export_extension!(Checklist: tools);"));
    // What rustc says comes with the place and the line.
    let failure = requests[4].last_text();
    assert!(failure.contains("src/lib.rs:"), "{failure}");
    assert!(failure.contains(BROKEN_LINE.trim()), "{failure}");
    assert!(requests[6].last_text().contains("rss_monitor"), "{}", requests[6].last_text());
    // After the restart the orchestrator has the tool, and knows what happened.
    let after = &requests[8];
    assert!(!requests[0].tools().iter().any(|tool| tool == "feeds_poll"));
    assert!(after.tools().iter().any(|tool| tool == "feeds_poll"), "{:?}", after.tools());
    assert!(said(after).contains("<kernel_notice nonce=\""), "{}", said(after));
    assert!(requests[9].last_text().contains("First post"), "{}", requests[9].last_text());
    assert_eq!(feed.served(), 1);
    check_the_end(&home, &feed, kernel);
}

fn no_python() -> bool {
    let missing = test_support::program("python3").is_none();
    if missing {
        // Where standard error is closed, nobody is there to be told.
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no python3 for the extension");
    }
    missing
}

#[test]
fn an_extension_in_python_is_written_checked_and_used() {
    if no_python() {
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
            write("extensions/rss_monitor/server.py", SERVER),
            Step::calls("build_extension", r#"{"id": "rss_monitor"}"#),
            Step::calls("request_restart", r#"{"reason": "rss_monitor is built"}"#),
            Step::text("Built. Call feeds_poll with no arguments."),
            Step::calls("feeds_poll", "{}"),
            Step::text("It works: the feed says First post."),
        ]),
    );
    let home = workshop(&mock);
    let kernel = supervised(&home);
    let mut user = person(&home);
    agree(&mut user, "builder_agent", "write_files");
    agree(&mut user, "builder_agent", "build_extension");
    agree(&mut user, "builder_agent", "write_file");
    agree(&mut user, "builder_agent", "build_extension");
    agree(&mut user, "builder_agent", "request_restart");
    agree(&mut user, "orchestrator_agent", "feeds_poll");
    user.wait_for("It works: the feed says First post.");
    let left = user.finish();
    assert_eq!(left.output.status, 0, "{}", left.output);
    assert_eq!(questions(&left), 6);
    let requests = asked(&mock);
    assert_eq!(requests.len(), 10);
    let failure = requests[4].last_text();
    assert!(failure.contains("server.py"), "{failure}");
    assert!(failure.contains("SyntaxError"), "{failure}");
    assert!(requests[9].last_text().contains("First post"), "{}", requests[9].last_text());
    check_the_end(&home, &feed, kernel);
}

#[test]
fn what_does_not_start_is_found_before_it_is_installed_and_a_kill_afterwards_loses_nothing() {
    if no_python() {
        return;
    }
    let feed = Feed::new("First post");
    let command = json!({ "command": ["python3", "server.py"] });
    let build = || Step::calls("build_extension", r#"{"id": "rss_monitor"}"#);
    let server = |text: &str| write("extensions/rss_monitor/server.py", text);
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
                // Here the kernel is killed; what the orchestrator says next is said by another one.
                Step::calls("feeds_poll", "{}"),
                Step::text("It works: the feed says First post."),
            ]),
    );
    let home = workshop(&mock);
    let mut command = home.command();
    command.envs(toolchain()).env("SKILLHOST_SUPERVISOR__DELAY_MS", "1");
    let supervisor = home.start(command.args(["run", "--supervised", "--json"]));
    let started: Value = serde_json::from_str(&supervisor.line_with("kernel.started")).unwrap();
    let kernel = Pid::from_raw(started["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    let mut user = person(&home);
    agree(&mut user, "builder_agent", "write_files");
    for _ in ["ends at once", "prints", "works"] {
        agree(&mut user, "builder_agent", "write_file");
        agree(&mut user, "builder_agent", "build_extension");
    }
    user.wait_for("builder_agent asks to call request_restart");
    user.wait_for("[N]o");
    kill_process(kernel, Signal::KILL).unwrap();
    agree(&mut user, "orchestrator_agent", "feeds_poll");
    user.wait_for("It works: the feed says First post.");
    let left = user.finish();
    assert_eq!(left.output.status, 0, "{}", left.output);
    assert_eq!(questions(&left), 9);
    let requests = asked(&mock);
    let last = |number: usize| requests[number].last_text();
    assert!(last(4).contains("no feeds today"), "{}", last(4));
    assert!(last(6).contains("hello"), "{}", last(6));
    assert!(last(8).contains("was built and installed"), "{}", last(8));
    // What was under way is said to be unknown, and the tool is there without another restart.
    let after = &requests[9];
    assert!(after.last_text().contains("was cut off"), "{}", after.last_text());
    assert!(after.tools().iter().any(|tool| tool == "feeds_poll"), "{:?}", after.tools());
    assert_eq!(feed.served(), 1);
    supervisor.interrupt().success();
}
