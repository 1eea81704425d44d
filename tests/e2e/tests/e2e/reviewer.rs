//! Tests of proposal review by an agent that the settings name.

use serde_json::json;

use crate::fixtures::{home, skill_md};

#[test]
fn missing_reviewer_leaves_proposals_to_people() {
    let review =
        "extensions: {skill_registry: {review: {policy: agent-approves, agent: nobody}}}\n";
    let home = home().settings(review);
    let doctor = home.skillhost(["ext", "doctor"]).success();
    let line = "review agent-approves: proposals that the agent nobody approves are applied\n";
    assert!(doctor.stdout.contains(line), "{doctor}");
    let doctor = home.skillhost(["ext", "doctor", "--json"]).success().json();
    let expected = json!({
        "policy": "agent-approves", "agent": "nobody", "timeout_ms": 300_000,
        "checks": {"routing": "require"},
    });
    assert_eq!(doctor["review"], expected);

    let text = skill_md("Greets people. Use when somebody arrives.", "Wave.");
    let wish = json!({"skill_id": "greet", "new_content": text, "justification": "Friendlier."});
    home.skillhost(["tool", "call", "propose_skill_update", &wish.to_string()]).success();
    let listed = home.skillhost(["skill", "proposals", "--json"]).success().json();
    assert_eq!(listed["proposals"][0]["state"], "open");
}
