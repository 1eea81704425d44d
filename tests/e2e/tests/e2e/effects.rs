//! Tests that approvals of protected writes follow the effect of a call, not the tool's name.

use mock_model::{MockModel, Step};
use serde_json::json;
use test_support::Terminal;

use crate::agents_scene::agents_home;

fn write_step(path: &str, content: &str) -> Step {
    Step::calls("write_file", &json!({ "path": path, "content": content }).to_string())
}

/// Waits for the next approval request and sends the keys.
#[track_caller]
fn answer_approval(chat: &mut Terminal, tool: &str, parts: &[&str], keys: &str) {
    chat.wait_for(&format!("worker asks to call {tool} of core_tools"));
    for part in parts {
        chat.wait_for(part);
    }
    chat.wait_for("[N]o");
    chat.send(keys);
}

#[test]
fn session_approval_excludes_protected_writes() {
    let mock = MockModel::with([
        write_step("notes/a.md", "a"),
        write_step("notes/b.md", "b"),
        write_step("extensions/x/manifest.yaml", "id: x\n"),
        write_step("EXTENSIONS/x/manifest.yaml", "id: x\n"),
        Step::calls("move_path", r#"{"from": "notes", "to": "extensions/notes"}"#),
        Step::text("Done."),
    ]);
    let home = agents_home(&mock);
    let args = ["chat", "--agent", "worker", "--approve", "move_path"];
    let mut chat = home.on_terminal(home.command().args(args), (100, 40));
    chat.wait_for("> ");
    chat.send("Write\r");
    answer_approval(&mut chat, "write_file", &["[s] yes and until the end of this session"], "s\n");
    // The session approval covers the second note, but not the third call's protected path.
    let preview = ["| create sandbox/extensions/x/manifest.yaml", "| +id: x"];
    // Protected writes offer no `s`; any key but `y` denies the call.
    answer_approval(&mut chat, "write_file", &preview, "y\n");
    answer_approval(
        &mut chat,
        "write_file",
        &["| create sandbox/EXTENSIONS/x/manifest.yaml"],
        "n\n",
    );
    let moved = ["| move sandbox/notes/a.md to sandbox/extensions/notes/a.md", "| +a"];
    answer_approval(&mut chat, "move_path", &moved, "n\n");
    chat.wait_for("Done.");
    chat.wait_for("> ");
    chat.send("/quit\r");
    let session = chat.finish();
    assert_eq!(session.output.status, 0, "{}", session.output);
    assert_eq!(session.output.stdout.matches("allow it? [y]es").count(), 4, "{}", session.output);
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes/b.md")).unwrap(), "b");
    assert!(home.path("sandbox/extensions/x/manifest.yaml").exists());
    assert!(!home.path("sandbox/EXTENSIONS").exists());
    assert!(!home.path("sandbox/extensions/notes").exists());
}

#[test]
fn skill_grant_excludes_protected_writes() {
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id": "mover"}"#),
        write_step("notes/a.md", "granted"),
        write_step("extensions/x/manifest.yaml", "id: x\n"),
        Step::text("Done."),
    ]);
    let home = agents_home(&mock).skill(
        "mover",
        "---\nname: mover\ndescription: Moves. Use when asked.\nallowed-tools: write_file\n---\nDo.\n",
    );
    let preview = home.skillhost(["skill", "show", "mover", "--json"]).success().json();
    let digest = preview["tool_grant"]["digest"].as_str().unwrap();
    home.skillhost(["skill", "approve", "mover", "--yes", "--digest", digest]).success();
    home.skillhost(["ask", "--agent", "worker", "Write"]).success();
    let requests = mock.requests();
    assert!(
        requests[2].last_text().contains("Created `notes/a.md`"),
        "{}",
        requests[2].last_text()
    );
    let denied = requests[3].last_text();
    assert!(denied.contains("this call requires approval every time"), "{denied}");
    assert!(!home.path("sandbox/extensions/x").exists());
}

#[test]
fn unapproved_skill_grants_nothing() {
    let mock = MockModel::with([
        Step::calls("read_skill", r#"{"skill_id": "mover"}"#),
        write_step("notes/a.md", "not granted"),
        Step::text("Done."),
    ]);
    let home = agents_home(&mock).skill(
        "mover",
        "---\nname: mover\ndescription: Moves. Use when asked.\nallowed-tools: write_file\n---\nDo.\n",
    );
    home.skillhost(["ask", "--agent", "worker", "Write"]).success();
    let denied = mock.requests()[2].last_text();
    assert!(denied.contains("no approval channel is available"), "{denied}");
    assert!(!home.path("sandbox/notes").exists());
}

#[test]
fn binary_move_into_extensions_is_denied() {
    let mock = MockModel::with([
        Step::calls("move_path", r#"{"from": "build", "to": "extensions/evil"}"#),
        Step::text("Done."),
    ]);
    let home = agents_home(&mock);
    home.write("sandbox/build/manifest.yaml", "id: evil\nname: Evil\nentrypoint: evil\n");
    home.write("sandbox/build/libevil.so", b"\x7fELF\0");
    home.skillhost(["ask", "--agent", "worker", "--approve", "move_path", "Move"]).success();
    let denied = mock.requests()[1].last_text();
    assert!(denied.contains("cannot be shown in full for approval"), "{denied}");
    assert!(!home.path("sandbox/extensions/evil").exists());
}
