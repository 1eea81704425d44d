//! Tests of an improvement from start to end: an agent proposes through the plugin of a running
//! kernel, a person decides at a terminal, and the next prompt contains the result.

use serde_json::json;
use test_support::{Background, TestHome};

use crate::fixtures::{home, skill_md};
use crate::proposals::skill_json;

const GREET: &str = "sandbox/skills/greet/SKILL.md";

/// Starts a kernel without polls, so that it detects changes only at a turn.
fn start_kernel_without_polls(home: &TestHome) -> Background {
    let kernel = home.start(
        home.command()
            .env("SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS", "0")
            .arg("run"),
    );
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

fn propose_change(home: &TestHome, text: &str) -> String {
    let arguments = json!({
        "skill_id": "greet",
        "new_content": text,
        "justification": "People come at night too.",
        "evidence": ["turn 3: greeted the night shift with good morning"],
    });
    let call = ["tool", "call", "propose_skill_update", &arguments.to_string(), "--json"];
    let answer = home.skillhost(call).success().json();
    answer["structured"]["proposal"].as_str().unwrap().to_owned()
}

fn print_prompt(home: &TestHome) -> String {
    home.skillhost(["ask", "--print-prompt", "hello"]).success().stdout
}

#[test]
fn improvement_is_proposed_applied_and_reverted() {
    let home = home()
        .manifest("orchestrator_agent", &crate::fixtures::shipped_manifest("orchestrator_agent"));
    let kernel = start_kernel_without_polls(&home);
    let old = std::fs::read_to_string(home.path(GREET)).unwrap();
    let new = skill_md("Greets people by day and by night. Use when somebody arrives.", "Say hi.");
    assert!(print_prompt(&home).contains("• `greet` — Greets people. Use when"));

    let id = propose_change(&home, &new);
    let listed = skill_json(&home, &["proposals"]);
    assert_eq!(listed["proposals"][0]["id"], id.as_str());
    assert_eq!(std::fs::read_to_string(home.path(GREET)).unwrap(), old);

    let mut command = home.command();
    let mut review = home.on_terminal(command.args(["skill", "review"]), (100, 60));
    review.wait_for("People come at night too.");
    review.wait_for("greeted the night shift");
    review.send("a");
    review.wait_for("? y/N");
    review.send("y");
    assert_eq!(review.finish().output.status, 0);
    assert_eq!(std::fs::read_to_string(home.path(GREET)).unwrap(), new);

    // No poll has run; the turn itself reads the ledger.
    assert!(print_prompt(&home).contains("• `greet` — Greets people by day and by night."));

    let versions = skill_json(&home, &["history", "greet"]);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2, "{versions}");
    let first = versions["versions"][0]["tree"].as_str().unwrap();
    let rollback =
        ["skill", "rollback", "greet", "--yes", "--digest", first, "--reason", "too long"];
    home.skillhost(rollback).success();
    assert_eq!(std::fs::read_to_string(home.path(GREET)).unwrap(), old);
    assert!(print_prompt(&home).contains("• `greet` — Greets people. Use when"));

    // The file changes after the proposal was made, so the proposal is stale until a rebase.
    let id =
        propose_change(&home, &old.replace("Say hello to them.", "Say hello to them, by name."));
    home.write(GREET, old.replace("Greets people.", "Greets everybody."));
    assert_eq!(skill_json(&home, &["proposals"])["proposals"][0]["state"], "stale");
    home.skillhost(["skill", "rebase", &id]).success();
    let reviewed = skill_json(&home, &["review", &id]);
    assert_eq!(reviewed["proposals"][0]["state"], "open");
    let digest = reviewed["proposals"][0]["new_digest"].as_str().unwrap();
    home.skillhost(["skill", "approve", &id, "--yes", "--digest", digest]).success();
    let text = std::fs::read_to_string(home.path(GREET)).unwrap();
    assert_eq!(
        text,
        old.replace("Greets people.", "Greets everybody.")
            .replace("Say hello to them.", "Say hello to them, by name.")
    );
    assert!(print_prompt(&home).contains("• `greet` — Greets everybody."));
    kernel.interrupt().success();
}
