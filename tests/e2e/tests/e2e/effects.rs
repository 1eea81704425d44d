//! What decides which code runs and what agents are told is approved by effect, not by tool name.

use mock_model::{MockModel, Step};
use serde_json::json;
use test_support::Terminal;

use crate::agents_scene::agents;

fn write(path: &str, content: &str) -> Step {
    Step::calls("write_file", &json!({ "path": path, "content": content }).to_string())
}

/// Waits for the next question and answers it.
#[track_caller]
fn answer(chat: &mut Terminal, tool: &str, parts: &[&str], keys: &str) {
    chat.wait_for(&format!("worker asks to call {tool} of core_tools"));
    for part in parts {
        chat.wait_for(part);
    }
    chat.wait_for("[N]o");
    chat.send(keys);
}

#[test]
fn session_consent_covers_no_protected_write() {
    let mock = MockModel::with([
        write("notes/a.md", "a"),
        write("notes/b.md", "b"),
        write("extensions/x/manifest.yaml", "id: x\n"),
        write("EXTENSIONS/x/manifest.yaml", "id: x\n"),
        Step::calls("move_path", r#"{"from": "notes", "to": "extensions/notes"}"#),
        Step::text("Done."),
    ]);
    let home = agents(&mock);
    let args = ["chat", "--agent", "worker", "--approve", "move_path"];
    let mut chat = home.on_terminal(home.command().args(args), (100, 40));
    chat.wait_for("> ");
    chat.send("Write\r");
    answer(&mut chat, "write_file", &["[s] yes and until the end of this session"], "s\n");
    // The second note is written without a question; the effect of the third call asks.
    let shown = ["| create sandbox/extensions/x/manifest.yaml", "| +id: x"];
    // There is no `s` here: it is a no.
    answer(&mut chat, "write_file", &shown, "y\n");
    answer(&mut chat, "write_file", &["| create sandbox/EXTENSIONS/x/manifest.yaml"], "n\n");
    let moved = ["| move sandbox/notes/a.md to sandbox/extensions/notes/a.md", "| +a"];
    answer(&mut chat, "move_path", &moved, "n\n");
    chat.wait_for("Done.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let left = chat.finish();
    assert_eq!(left.output.status, 0, "{}", left.output);
    assert_eq!(left.output.stdout.matches("allow it? [y]es").count(), 4, "{}", left.output);
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes/b.md")).unwrap(), "b");
    assert!(home.path("sandbox/extensions/x/manifest.yaml").exists());
    assert!(!home.path("sandbox/EXTENSIONS").exists());
    assert!(!home.path("sandbox/extensions/notes").exists());
}

#[test]
fn approved_skill_grants_no_protected_write() {
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id": "mover"}"#),
        write("notes/a.md", "granted"),
        write("extensions/x/manifest.yaml", "id: x\n"),
        Step::text("Done."),
    ]);
    let home = agents(&mock).skill(
        "mover",
        "---\nname: mover\ndescription: Moves. Use when asked.\nallowed-tools: write_file\n---\nDo.\n",
    );
    let shown = home.skillhost(["skill", "show", "mover", "--json"]).success().json();
    let digest = shown["tool_grant"]["digest"].as_str().unwrap();
    home.skillhost(["skill", "approve", "mover", "--yes", "--digest", digest]).success();
    home.skillhost(["ask", "--agent", "worker", "Write"]).success();
    let asked = mock.requests();
    assert!(asked[2].last_text().contains("Created `notes/a.md`"), "{}", asked[2].last_text());
    let refused = asked[3].last_text();
    assert!(refused.contains("this call asks every time"), "{refused}");
    assert!(!home.path("sandbox/extensions/x").exists());
}

#[test]
fn unapproved_skill_grants_nothing() {
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id": "mover"}"#),
        write("notes/a.md", "not granted"),
        Step::text("Done."),
    ]);
    let home = agents(&mock).skill(
        "mover",
        "---\nname: mover\ndescription: Moves. Use when asked.\nallowed-tools: write_file\n---\nDo.\n",
    );
    home.skillhost(["ask", "--agent", "worker", "Write"]).success();
    let refused = mock.requests()[2].last_text();
    assert!(refused.contains("nobody can be asked here"), "{refused}");
    assert!(!home.path("sandbox/notes").exists());
}

#[test]
fn binary_move_into_extensions_is_refused() {
    let mock = MockModel::with([
        Step::calls("move_path", r#"{"from": "build", "to": "extensions/evil"}"#),
        Step::text("Done."),
    ]);
    let home = agents(&mock);
    home.write("sandbox/build/manifest.yaml", "id: evil\nname: Evil\nentrypoint: evil\n");
    home.write("sandbox/build/libevil.so", b"\x7fELF\0");
    home.skillhost(["ask", "--agent", "worker", "--approve", "move_path", "Move"]).success();
    let refused = mock.requests()[1].last_text();
    assert!(refused.contains("cannot be shown whole to a person"), "{refused}");
    assert!(!home.path("sandbox/extensions/evil").exists());
}
