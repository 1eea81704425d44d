//! Tests of the approval prompt of a chat: text and diffs, its keys, a terminal that is closed.

use mock_model::{MockModel, Step};
use rustix::process::Signal;
use serde_json::json;
use test_support::{Terminal, TestHome};

use crate::agents_scene::{agents_home, ask_in_thread, format_messages, last_thread};
use crate::fixtures::start_kernel;

fn write_step(path: &str, content: &str) -> Step {
    Step::calls("write_file", &json!({ "path": path, "content": content }).to_string())
}

fn open_chat(home: &TestHome) -> Terminal {
    let mut chat = home.on_terminal(home.command().args(["chat", "--agent", "worker"]), (100, 24));
    chat.wait_for("> ");
    chat
}

fn leave(mut chat: Terminal) -> String {
    chat.wait_for("> ");
    chat.send("/quit\r");
    let session = chat.finish();
    assert_eq!((session.output.status, session.modes_restored), (0, true), "{}", session.output);
    session.output.stdout
}

#[test]
fn changed_file_is_shown_as_diff() {
    let mock = MockModel::with([write_step("plan.md", "one\nTWO\nthree\n"), Step::text("Done.")]);
    let home = agents_home(&mock).file("sandbox/plan.md", "one\ntwo\nthree\n");
    let mut chat = open_chat(&home);
    chat.send("Write\r");
    chat.wait_for("worker asks to call write_file of core_tools");
    chat.wait_for("| modify sandbox/plan.md");
    chat.wait_for("|  one");
    chat.wait_for("| -two");
    chat.wait_for("| +TWO");
    chat.wait_for("arguments, as the agent wrote them:");
    chat.wait_for("> content: 3 lines, 14 bytes");
    chat.wait_for("[N]o");
    chat.send("y\n");
    chat.wait_for("Done.");
    let shown = leave(chat);
    assert!(!shown.contains("\\n"), "{shown}");
    assert_eq!(std::fs::read_to_string(home.path("sandbox/plan.md")).unwrap(), "one\nTWO\nthree\n");
}

#[test]
fn diff_binds_approval_to_file() {
    let mock = MockModel::with([write_step("plan.md", "new\n"), Step::text("Conflict, then.")]);
    let home = agents_home(&mock).file("sandbox/plan.md", "old\n");
    let mut chat = open_chat(&home);
    chat.send("Write\r");
    chat.wait_for("| -old");
    chat.wait_for("[N]o");
    home.write("sandbox/plan.md", "written meanwhile\n");
    chat.send("y\n");
    chat.wait_for("Conflict, then.");
    leave(chat);
    let kept = std::fs::read_to_string(home.path("sandbox/plan.md")).unwrap();
    assert_eq!(kept, "written meanwhile\n");
}

#[test]
fn long_call_is_shown_on_request() {
    let content: String = (0..100).map(|line| format!("line {line}\n")).collect();
    let mock = MockModel::with([write_step("long.md", &content), Step::text("No, then.")]);
    let home = agents_home(&mock);
    let mut chat = open_chat(&home);
    chat.send("Write\r");
    chat.wait_for("more lines; [v] shows them");
    chat.wait_for("[N]o");
    chat.send("v\n");
    chat.wait_for("| +line 99");
    chat.wait_for("[N]o");
    chat.send("\n");
    chat.wait_for("No, then.");
    leave(chat);
    assert!(!home.path("sandbox/long.md").exists());
}

#[test]
fn edited_arguments_are_approved_again() {
    let mock = MockModel::with([write_step("a.md", "draft"), Step::text("Noted.")]);
    let home = agents_home(&mock);
    let mut chat = open_chat(&home);
    chat.send("Write\r");
    chat.wait_for("[N]o");
    // Ctrl-C in the editor returns to the prompt.
    chat.send("e\n");
    chat.wait_for("Alt-Enter starts a new line");
    chat.wait_for("path: a.md");
    chat.send("\u{3}");
    chat.wait_for("worker asks to call write_file");
    chat.wait_for("[N]o");
    chat.send("e\n");
    chat.wait_for("path: a.md");
    chat.send("\u{15}b.md\r");
    chat.wait_for("content: draft");
    chat.send("\u{15}better\u{1b}\rtext\r");
    chat.wait_for("worker asks to call write_file");
    chat.wait_for("| create sandbox/b.md");
    chat.wait_for("| +better");
    chat.wait_for("[N]o");
    chat.send("y\n");
    chat.wait_for("Noted.");
    leave(chat);
    assert!(!home.path("sandbox/a.md").exists());
    assert_eq!(std::fs::read_to_string(home.path("sandbox/b.md")).unwrap(), "better\ntext");
    // The model learns which call was made.
    let answer = mock.requests()[1].last_text();
    assert!(answer.contains("The user changed the arguments of this call to:"), "{answer}");
    assert!(answer.contains(r"better\ntext"), "{answer}");
}

#[test]
fn control_characters_are_edited_as_json() {
    let content = "kept\u{1b}]0;owned\u{7}";
    let mock = MockModel::with([write_step("a.md", content), Step::text("Noted.")]);
    let home = agents_home(&mock);
    let mut chat = open_chat(&home);
    chat.send("Write\r");
    chat.wait_for("[N]o");
    chat.send("e\n");
    chat.wait_for("path: a.md");
    chat.send("\r");
    chat.wait_for(r#"content (as JSON): "kept\u001b]0;owned\u0007""#);
    chat.send("\r");
    chat.wait_for("| +kept");
    chat.wait_for("[N]o");
    chat.send("y\n");
    chat.wait_for("Noted.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let session = chat.finish();
    assert!(!session.bytes.windows(2).any(|bytes| bytes == b"\x1b]"), "{}", session.output);
    assert_eq!(std::fs::read_to_string(home.path("sandbox/a.md")).unwrap(), content);
}

#[test]
fn interrupt_at_prompt_cancels_run() {
    let steps = || [write_step("a.md", "text"), Step::text("Here I am.")];
    let mock = MockModel::with(steps().into_iter().chain(steps()));
    let home = agents_home(&mock);
    for has_kernel in [false, true] {
        let kernel = has_kernel.then(|| start_kernel(&home));
        let mut chat = open_chat(&home);
        chat.send("Write\r");
        chat.wait_for("[N]o");
        chat.signal(Signal::INT);
        chat.wait_for("run was cancelled");
        chat.wait_for("> ");
        // An answer typed late is a message, not an approval.
        chat.send("y\r");
        chat.wait_for("Here I am.");
        leave(chat);
        assert!(!home.path("sandbox/a.md").exists());
        if let Some(kernel) = kernel {
            kernel.interrupt().success();
        }
    }
}

#[test]
fn invalid_edit_is_asked_again() {
    let mock = MockModel::with([
        Step::calls("delete_path", r#"{"path": "a.md", "recursive": false}"#),
        Step::text("Kept."),
    ]);
    let home = agents_home(&mock).file("sandbox/a.md", "a");
    let mut chat = open_chat(&home);
    chat.send("Delete\r");
    chat.wait_for("[N]o");
    chat.send("e\n");
    chat.wait_for("path: a.md");
    chat.send("\r");
    chat.wait_for("recursive: false");
    chat.send("\u{15}\"never\"\r");
    chat.wait_for("changed arguments are not valid");
    chat.wait_for("worker asks to call delete_path");
    chat.wait_for("recursive: false");
    chat.wait_for("[N]o");
    chat.send("n\n");
    chat.wait_for("Kept.");
    leave(chat);
    assert!(home.path("sandbox/a.md").exists());
}

#[test]
fn closed_terminal_refuses_and_keeps_thread() {
    let mock = MockModel::with([
        write_step("a.md", "text"),
        Step::text("Never mind."),
        Step::text("Still here."),
    ]);
    let home = agents_home(&mock);
    let mut chat = open_chat(&home);
    chat.send("Write it\r");
    chat.wait_for("[N]o");
    assert_eq!(chat.hang_up(), 129);
    assert!(!home.path("sandbox/a.md").exists());
    let thread = last_thread(&home);
    let output = ask_in_thread(&home, &thread, "And now?").success();
    assert!(output.stdout.contains("."), "{output}");
    let messages = format_messages(mock.requests().last().unwrap());
    assert!(messages.starts_with("user: Write it\n"), "{messages}");
    assert!(messages.contains("→ write_file"), "{messages}");
    assert!(messages.ends_with("user: And now?\n"), "{messages}");
}

#[test]
fn closed_terminal_leaves_run_to_kernel() {
    let mock = MockModel::with([write_step("a.md", "text"), Step::text("Not written.")]);
    let home = agents_home(&mock);
    let kernel = start_kernel(&home);
    let mut chat = open_chat(&home);
    chat.send("Write it\r");
    chat.wait_for("[N]o");
    assert_eq!(chat.hang_up(), 129);
    // The prompt refused, or the next client is asked; without a terminal that is a refusal.
    let thread = last_thread(&home);
    let output = home.skillhost(["ask", "--thread", &thread]).success();
    assert_eq!(output.stdout, "Not written.\n");
    assert!(!home.path("sandbox/a.md").exists());
    kernel.interrupt().success();
}
