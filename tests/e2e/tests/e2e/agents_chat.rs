//! `skillhost chat`: on a terminal and from a pipe.

use mock_model::{Asked, MockModel, Step};
use rustix::process::Signal;
use test_support::{Output, Terminal, TestHome};

use crate::agents_scene::{REVIEW, agents, last_thread, said};

/// Has a chat read lines from a file.
fn piped(home: &TestHome, args: &[&str], lines: &str) -> Output {
    let path = home.outside().join("lines");
    std::fs::write(&path, lines).unwrap();
    let input = std::fs::File::open(&path).unwrap();
    home.start(home.command().arg("chat").args(args).stdin(input)).finish()
}

fn on_terminal(home: &TestHome, args: &[&str]) -> Terminal {
    home.on_terminal(home.command().arg("chat").args(args), (100, 40))
}

#[test]
fn lines_from_a_pipe_are_said_and_followed() {
    let mock = MockModel::with([Step::text("Hello."), Step::text("I do."), Step::text("Who?")]);
    let home = agents(&mock);
    let lines = "Hi\n\n/skill code-review do it\n/thread\n/nothing\n/reset\n//who am I\n";
    let output = piped(&home, &["--agent", "worker"], lines).success();
    let thread = last_thread(&home);
    assert_eq!(
        output.stdout,
        format!(
            "Hello.\nI do.\nthread    {thread}\nagent     worker\nmessages  4\n\
             skill     code-review\nWho?\n"
        )
    );
    assert!(output.stderr.contains("error: there is no /nothing\n"), "{output}");
    let asked = mock.requests();
    assert!(!asked[0].system().contains(REVIEW));
    assert_eq!(asked[1].system().matches(REVIEW).count(), 1);
    assert_eq!(said(&asked[1]), "user: Hi\nassistant: Hello.\nuser: do it\n");
    // Forgotten is forgotten, skills included.
    assert!(!asked[2].system().contains(REVIEW));
    assert_eq!(said(&asked[2]), "user: /who am I\n");
}

#[test]
fn a_script_sees_how_its_last_turn_went() {
    let mock = MockModel::new();
    let home = agents(&mock);
    let output = piped(&home, &["--model", "nobody/x"], "Hi\n").exits(3);
    assert_eq!(output.stdout, "");
    let output = piped(&home, &["--json", "--agent", "worker"], "/thread\n/agents\n").success();
    let lines: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["messages"], 0);
    assert_eq!(lines[1]["agents"][1]["id"], "worker");
}

#[test]
fn another_agent_gets_a_thread_of_its_own() {
    let mock = MockModel::with([Step::text("One."), Step::text("Two.")]);
    let home = agents(&mock);
    piped(&home, &["--agent", "worker"], "first\n/agent orchestrator_agent\nsecond\n/agent x\n")
        .exits(3);
    assert_eq!(
        mock.requests().iter().map(said).collect::<Vec<_>>(),
        ["user: first\n", "user: second\n"]
    );
    let listed = home.skillhost(["threads", "list", "--json"]).success().json();
    let agents: Vec<_> = listed["threads"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&agents[0]["agent"], &agents[1]["agent"]),
        (&"orchestrator_agent".into(), &"worker".into())
    );
    let shown = home.skillhost(["threads", "show", listed["threads"][1]["id"].as_str().unwrap()]);
    let stdout = shown.success().stdout;
    assert!(stdout.ends_with("\nuser\nfirst\n\nassistant\nOne.\n"), "{stdout}");
}

const WRITE: &str = r#"{"path": "notes.txt", "content": "kept\u001b[2J"}"#;

#[test]
fn what_asks_is_refused_where_nobody_can_be_asked() {
    let write = || Step::calls("write_file", WRITE);
    let mock = MockModel::with([write(), Step::text("No."), write(), Step::text("Yes.")]);
    let home = agents(&mock);
    let output = piped(&home, &["--agent", "worker"], "Write\n/approve write_file\nWrite\n");
    let output = output.success();
    assert_eq!(output.stdout, "No.\nYes.\n");
    assert!(
        output.stderr.contains("note: `write_file` was not called: nobody can be asked here"),
        "{output}"
    );
    let answers: Vec<_> = mock.requests().iter().map(Asked::last_text).collect();
    assert!(answers[1].contains("nobody can be asked here"), "{}", answers[1]);
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept\u{1b}[2J");
}

#[test]
fn a_person_at_a_terminal_is_asked_and_answers() {
    let write = || Step::calls("write_file", WRITE);
    let mock = MockModel::with([
        write(),
        Step::text("Refused, then."),
        write(),
        Step::text("Written, then."),
    ]);
    let home = agents(&mock);
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
    // Shown whole, and harmless.
    chat.wait_for("\"content\": \"kept\\u001b[2J\"");
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
    let left = chat.finish();
    assert_eq!(left.output.status, 0, "{}", left.output);
    assert!(left.modes_restored);
    assert!(!left.bytes.windows(4).any(|bytes| bytes == b"\x1b[2J"));
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept\u{1b}[2J");
    let history = std::fs::read_to_string(home.outside().join("state/skillhost/chat-history"));
    assert_eq!(history.unwrap(), "#V2\n/skills\nWrite\n/quit\n");
}

#[test]
fn ctrl_c_ends_the_turn_and_at_the_prompt_the_chat() {
    let mock =
        MockModel::with([Step::text("It begins.\n").held_midway(), Step::text("Here I am.")]);
    let home = agents(&mock);
    let mut chat = on_terminal(&home, &["--agent", "worker"]);
    chat.wait_for("> ");
    chat.send("Talk\r");
    chat.wait_for("It begins.");
    chat.signal(Signal::INT);
    chat.wait_for("error: the run was cancelled");
    chat.wait_for("> ");
    chat.send("Still there?\r");
    chat.wait_for("Here I am.");
    chat.wait_for("> ");
    chat.send("\u{3}");
    let left = chat.finish();
    assert_eq!(left.output.status, 130, "{}", left.output);
    assert!(left.modes_restored);
    assert_eq!(said(&mock.requests()[1]), "user: Talk\nuser: Still there?\n");

    // The signal itself, as another process sends it, ends it too and gives the terminal back.
    let mut chat = on_terminal(&home, &["--thread", &last_thread(&home)]);
    chat.wait_for("> ");
    chat.signal(Signal::INT);
    let left = chat.finish();
    assert_eq!((left.output.status, left.modes_restored), (130, true), "{}", left.output);
}
