//! The whole way of an improvement: an agent proposes through the plugin of a running kernel, a
//! person decides at a terminal, and the next prompt shows it.

use serde_json::json;
use test_support::{Background, TestHome};

use crate::proposals::json as told;
use crate::scene::{home, skill};

const GREET: &str = "sandbox/skills/greet/SKILL.md";

/// A kernel that never polls: what it notices, it notices at a turn.
fn without_polls(home: &TestHome) -> Background {
    let kernel = home.start(
        home.command()
            .env("SKILLHOST_EXTENSIONS__SKILL_REGISTRY__POLL_INTERVAL_MS", "0")
            .arg("run"),
    );
    kernel.line_with("running; Ctrl-C ends it");
    kernel
}

fn propose(home: &TestHome, text: &str) -> String {
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

fn prompt(home: &TestHome) -> String {
    home.skillhost(["ask", "--print-prompt", "hello"]).success().stdout
}

#[test]
fn an_improvement_is_proposed_reviewed_served_and_taken_back() {
    let home = home().manifest("orchestrator_agent", &crate::scene::shipped("orchestrator_agent"));
    let kernel = without_polls(&home);
    let old = std::fs::read_to_string(home.path(GREET)).unwrap();
    let new = skill("Greets people by day and by night. Use when somebody arrives.", "Say hi.");
    assert!(prompt(&home).contains("• `greet` — Greets people. Use when"));

    let id = propose(&home, &new);
    let listed = told(&home, &["proposals"]);
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

    // No poll has happened: the turn itself looks whether something was decided.
    assert!(prompt(&home).contains("• `greet` — Greets people by day and by night."));

    let versions = told(&home, &["history", "greet"]);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2, "{versions}");
    let first = versions["versions"][0]["tree"].as_str().unwrap();
    let back = ["skill", "rollback", "greet", "--yes", "--digest", first, "--reason", "too long"];
    home.skillhost(back).success();
    assert_eq!(std::fs::read_to_string(home.path(GREET)).unwrap(), old);
    assert!(prompt(&home).contains("• `greet` — Greets people. Use when"));

    // Somebody edits the file meanwhile: what was proposed no longer fits until it is rebased.
    let id = propose(&home, &old.replace("Say hello to them.", "Say hello to them, by name."));
    home.write(GREET, old.replace("Greets people.", "Greets everybody."));
    assert_eq!(told(&home, &["proposals"])["proposals"][0]["state"], "stale");
    home.skillhost(["skill", "rebase", &id]).success();
    let reviewed = told(&home, &["review", &id]);
    assert_eq!(reviewed["proposals"][0]["state"], "open");
    let digest = reviewed["proposals"][0]["new_digest"].as_str().unwrap();
    home.skillhost(["skill", "approve", &id, "--yes", "--digest", digest]).success();
    let text = std::fs::read_to_string(home.path(GREET)).unwrap();
    assert_eq!(
        text,
        old.replace("Greets people.", "Greets everybody.")
            .replace("Say hello to them.", "Say hello to them, by name.")
    );
    assert!(prompt(&home).contains("• `greet` — Greets everybody."));
    kernel.interrupt().success();
}
