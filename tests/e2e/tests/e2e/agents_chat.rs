//! Tests of `skillhost chat` on a terminal and from a pipe.

use mock_model::{MockModel, MockRequest, Step};
use rustix::process::Signal;
use test_support::{Output, Terminal, TestHome};

use crate::agents_scene::{REVIEW, agents_home, format_messages, last_thread};

/// Runs `skillhost chat` with the lines as its standard input.
fn chat_from_pipe(home: &TestHome, args: &[&str], lines: &str) -> Output {
    let path = home.outside().join("lines");
    std::fs::write(&path, lines).unwrap();
    let input = std::fs::File::open(&path).unwrap();
    home.start(home.command().arg("chat").args(args).stdin(input)).finish()
}

fn on_terminal(home: &TestHome, args: &[&str]) -> Terminal {
    home.on_terminal(home.command().arg("chat").args(args), (100, 40))
}

#[test]
fn piped_chat_runs_messages_and_commands() {
    let mock = MockModel::with([Step::text("Hello."), Step::text("I do."), Step::text("Who?")]);
    let home = agents_home(&mock);
    let lines = "Hi\n\n/skill code-review do it\n/thread\n/nothing\n/reset\n//who am I\n";
    let output = chat_from_pipe(&home, &["--agent", "worker"], lines).success();
    let thread = last_thread(&home);
    assert_eq!(
        output.stdout,
        format!(
            "Hello.\nI do.\nthread    {thread}\nagent     worker\nmessages  4\n\
             skill     code-review\nWho?\n"
        )
    );
    assert!(output.stderr.contains("error: /nothing is not a command\n"), "{output}");
    let requests = mock.requests();
    assert!(!requests[0].system().contains(REVIEW));
    assert_eq!(requests[1].system().matches(REVIEW).count(), 1);
    assert_eq!(format_messages(&requests[1]), "user: Hi\nassistant: Hello.\nuser: do it\n");
    // `/reset` drops the active skills together with the messages.
    assert!(!requests[2].system().contains(REVIEW));
    assert_eq!(format_messages(&requests[2]), "user: /who am I\n");
}

#[test]
fn exit_code_reports_last_turn() {
    let mock = MockModel::new();
    let home = agents_home(&mock);
    let output = chat_from_pipe(&home, &["--model", "nobody/x"], "Hi\n").exits(3);
    assert_eq!(output.stdout, "");
    let output =
        chat_from_pipe(&home, &["--json", "--agent", "worker"], "/thread\n/agents\n").success();
    let lines: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["messages"], 0);
    assert_eq!(lines[1]["agents"][1]["id"], "worker");
}

#[test]
fn agent_switch_starts_new_thread() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two.")]);
    let home = agents_home(&mock);
    chat_from_pipe(
        &home,
        &["--agent", "worker"],
        "first\n/agent orchestrator_agent\nsecond\n/agent x\n",
    )
    .exits(3);
    assert_eq!(
        mock.requests().iter().map(format_messages).collect::<Vec<_>>(),
        ["user: first\n", "user: second\n"]
    );
    let listed = home.skillhost(["threads", "list", "--json"]).success().json();
    let agents: Vec<_> = listed["threads"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&agents[0]["agent"], &agents[1]["agent"]),
        (&"orchestrator_agent".into(), &"worker".into())
    );
    let stored = home.skillhost(["threads", "show", listed["threads"][1]["id"].as_str().unwrap()]);
    let stdout = stored.success().stdout;
    assert!(stdout.ends_with("\nuser\nfirst\n\nassistant\nOne.\n"), "{stdout}");
}

const WRITE: &str = r#"{"path": "notes.txt", "content": "kept\u001b[2J"}"#;

#[test]
fn piped_chat_denies_unapproved_calls() {
    let write = || Step::calls("write_file", WRITE);
    let mock = MockModel::with([write(), Step::text("No."), write(), Step::text("Yes.")]);
    let home = agents_home(&mock);
    let output =
        chat_from_pipe(&home, &["--agent", "worker"], "Write\n/approve write_file\nWrite\n");
    let output = output.success();
    assert_eq!(output.stdout, "No.\nYes.\n");
    assert!(
        output
            .stderr
            .contains("note: `write_file` was not called: no approval channel is available"),
        "{output}"
    );
    let answers: Vec<_> = mock.requests().iter().map(MockRequest::last_text).collect();
    assert!(answers[1].contains("no approval channel is available"), "{}", answers[1]);
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept\u{1b}[2J");
}

#[test]
fn terminal_chat_requests_approval() {
    let write = || Step::calls("write_file", WRITE);
    let mock = MockModel::with([
        write(),
        Step::text("Refused, then."),
        write(),
        Step::text("Written, then."),
    ]);
    let home = agents_home(&mock);
    let mut chat = on_terminal(&home, &["--agent", "worker"]);
    chat.wait_for("talking to worker in thread");
    chat.wait_for("> ");
    chat.send("/sk\t");
    chat.wait_for("skill");
    chat.send("s\r");
    chat.wait_for("• `code-review` — Reviews code.");
    chat.wait_for("> ");
    chat.send("Write\r");
    chat.wait_for("worker asks to call write_file of core_tools");
    // The arguments are complete and their control characters are escaped.
    chat.wait_for("| create sandbox/notes.txt");
    chat.wait_for("| +kept\\u{1b}[2J");
    chat.wait_for("> content: \"kept\\u{1b}[2J");
    chat.wait_for("[N]o");
    chat.send("n\n");
    chat.wait_for("Refused, then.");
    chat.wait_for("> ");
    assert!(!home.path("sandbox/notes.txt").exists());
    chat.send("Write\r");
    chat.wait_for("[N]o");
    chat.send("y\n");
    chat.wait_for("Written, then.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let session = chat.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    assert!(session.modes_restored);
    assert!(!session.bytes.windows(4).any(|bytes| bytes == b"\x1b[2J"));
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept\u{1b}[2J");
    let history = std::fs::read_to_string(home.outside().join("state/skillhost/chat-history"));
    assert_eq!(history.unwrap(), "#V2\n/skills\nWrite\n/quit\n");
}

#[test]
fn ctrl_c_cancels_turn_then_exits() {
    let mock = MockModel::with([
        Step::text("It begins.\n\nIt goes on.\n\n").held_midway(),
        Step::text("Here I am."),
    ]);
    let home = agents_home(&mock);
    let mut chat = on_terminal(&home, &["--agent", "worker"]);
    chat.wait_for("> ");
    chat.send("Talk\r");
    chat.wait_for("It begins.");
    chat.signal(Signal::INT);
    chat.wait_for("error: run was cancelled");
    chat.wait_for("> ");
    chat.send("Still there?\r");
    chat.wait_for("Here I am.");
    chat.wait_for("> ");
    chat.send("\u{3}");
    let session = chat.finish();
    assert_eq!(session.output.status, 130, "{}", session.output);
    assert!(session.modes_restored);
    assert_eq!(format_messages(&mock.requests()[1]), "user: Talk\nuser: Still there?\n");

    // SIGINT from another process must restore the terminal modes, too.
    let mut chat = on_terminal(&home, &["--thread", &last_thread(&home)]);
    chat.wait_for("> ");
    chat.signal(Signal::INT);
    let session = chat.finish();
    assert_eq!((session.output.status, session.modes_restored), (130, true), "{}", session.output);
}
