//! Conversations whose questions outlast the time for which clients are asked, and the kernel.

use mock_model::{MockModel, Step, Wire};
use serde_json::Value;
use test_support::TestHome;

use crate::agents_scene::{agents_home, ask_agent, ask_in_thread, format_messages, last_thread};
use crate::fixtures::start_kernel;
use crate::home_queue::kill;

const WRITE: &str = r#"{"path": "notes.txt", "content": "kept"}"#;

/// The exit code of a command whose run waits parked.
const PARKED: i32 = 6;

/// A home whose kernel asks clients for a moment only.
fn impatient_home(mock: &MockModel) -> TestHome {
    let settings = format!("{}tasks: {{live_ms: 300}}\n", mock.settings(Wire::Openai));
    agents_home(mock).settings(&settings)
}

/// Has the worker make a call, which is asked about until the run is parked; returns the question.
fn park_call(home: &TestHome, tool: &str) -> Value {
    park_call_of(home, &["--agent", "worker"], tool)
}

fn park_call_of(home: &TestHome, place: &[&str], tool: &str) -> Value {
    let mut ask = home.command();
    let mut person = home.on_terminal(ask.arg("ask").args(place).arg("Do it"), (100, 40));
    person.wait_for(&format!("worker asks to call {tool}"));
    person.wait_for("the run waits for a decision");
    let session = person.finish();
    assert_eq!(session.output.status, PARKED, "{}", session.output);
    let question = inbox_question(home);
    let id = question["id"].as_str().unwrap();
    assert!(session.output.stdout.contains(id), "{}", session.output);
    question
}

/// Returns the only open question.
fn inbox_question(home: &TestHome) -> Value {
    let listed = home.skillhost(["inbox", "list", "--json"]).success().json();
    let [question] = listed["questions"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    question.clone()
}

/// Decides a question with the digest of what was shown.
fn approve(home: &TestHome, question: &Value) -> test_support::Output {
    let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
    home.skillhost(["inbox", "approve", id, "--digest", digest])
}

/// Returns the number of replies in the journal.
fn count_replies(home: &TestHome) -> usize {
    let journal = home.skillhost(["events", "tail", "--json"]).success().stdout;
    journal.lines().filter(|line| line.contains(r#""topic":"agent.replied""#)).count()
}

#[test]
fn parked_call_continues_in_next_kernel() {
    // The decision comes while the next kernel runs, or while none does.
    for is_decided_before_start in [false, true] {
        let mock = MockModel::with([Step::calls("write_file", WRITE), Step::text("Written.")]);
        let home = impatient_home(&mock);
        let kernel = start_kernel(&home);
        let question = park_call(&home, "write_file");
        assert_eq!(question["kind"], "consent");
        kill(kernel);
        if is_decided_before_start {
            approve(&home, &question).success();
        }
        let kernel = start_kernel(&home);
        if !is_decided_before_start {
            assert!(!home.path("sandbox/notes.txt").exists());
            approve(&home, &question).success();
        }
        kernel.line_with("kernel agent.replied");
        assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept");
        assert_eq!(mock.requests().len(), 2);
        // The decision is made, and a later start finds no work.
        let late = approve(&home, &question).exits(4);
        assert!(late.stderr.contains("decided as `approve` by operator on terminal"), "{late}");
        kill(kernel);
        mock.push(Step::text("Hello again."));
        let kernel = start_kernel(&home);
        assert_eq!(count_replies(&home), 1);
        let thread = last_thread(&home);
        assert_eq!(ask_in_thread(&home, &thread, "Hi").success().stdout, "Hello again.\n");
        let messages = format_messages(&mock.requests()[2]);
        assert!(messages.contains("assistant: Written.\nuser: Hi"), "{messages}");
        kernel.interrupt().success();
    }
}

#[test]
fn compaction_keeps_parked_question() {
    let mock = MockModel::with([
        Step::text("Hello."),
        Step::calls("write_file", WRITE),
        Step::text("They greeted."),
        Step::text("Written."),
    ]);
    let home = impatient_home(&mock);
    let kernel = start_kernel(&home);
    ask_agent(&home, "worker", "Hi").success();
    kernel.line_with("kernel agent.replied");
    let thread = last_thread(&home);
    let question = park_call_of(&home, &["--thread", &thread], "write_file");
    let lines = home.outside().join("lines");
    std::fs::write(&lines, "/compact\n").unwrap();
    let lines = std::fs::File::open(&lines).unwrap();
    let mut chat = home.command();
    let chat = home.start(chat.args(["chat", "--thread", &thread]).stdin(lines)).finish();
    assert!(chat.success().stderr.contains("older messages were summarized"));
    assert_eq!(inbox_question(&home)["id"], question["id"]);
    approve(&home, &question).success();
    kernel.line_with("kernel agent.replied");
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept");
    let messages = format_messages(&mock.requests()[3]);
    assert!(messages.contains("They greeted.") && messages.contains("tool: "), "{messages}");
    kernel.interrupt().success();
}

#[test]
fn new_message_withdraws_parked_question() {
    let mock = MockModel::with([Step::calls("write_file", WRITE), Step::text("As you like.")]);
    let home = impatient_home(&mock);
    let kernel = start_kernel(&home);
    let question = park_call(&home, "write_file");
    kill(kernel);
    let kernel = start_kernel(&home);
    let thread = last_thread(&home);
    assert_eq!(ask_in_thread(&home, &thread, "Leave it").success().stdout, "As you like.\n");
    let late = approve(&home, &question).exits(4);
    assert!(late.stderr.contains("withdrawn at "), "{late}");
    assert!(late.stderr.contains("a later message was sent"), "{late}");
    assert!(!home.path("sandbox/notes.txt").exists());
    assert_eq!(mock.requests().len(), 2);
    kernel.interrupt().success();
}

#[test]
fn restart_and_agent_are_decided_in_inbox() {
    let agent = r#"{"id": "counter", "name": "Counter", "description": "Counts things.",
        "instructions": "Count.", "uses_tools": ["echo"]}"#;
    let restart = r#"{"reason": "New tools."}"#;
    for (tool, arguments) in [("request_restart", restart), ("create_agent", agent)] {
        let mock = MockModel::with([Step::calls(tool, arguments), Step::text("Understood.")]);
        let home = impatient_home(&mock);
        let kernel = start_kernel(&home);
        let question = park_call(&home, tool);
        assert_eq!(question["kind"], "build", "{question}");
        let id = question["id"].as_str().unwrap();
        home.skillhost(["inbox", "refuse", id, "--reason", "Not today."]).success();
        kernel.line_with("kernel agent.replied");
        let messages = format_messages(&mock.requests()[1]);
        let refused = format!("call of `{tool}` was not approved: Not today.");
        assert!(messages.contains(&refused), "{messages}");
        assert!(!home.path("sandbox/extensions/counter").exists());
        let late = approve(&home, &question).exits(4);
        assert!(late.stderr.contains("decided as `refuse` by operator on terminal"), "{late}");
        kernel.interrupt().success();
    }
}
