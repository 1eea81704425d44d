//! Tests of the counts of the use of skills, from a run of an agent to `skillhost skill stats`.

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};
use test_support::{TestHome, can_isolate, program};

use crate::agents_scene::{agents_home_on, ask_agent};
use crate::fixtures::skill_md;

const REVIEW: &str = r#"{"skill_id":"code-review"}"#;
const OTHER: &str = r#"{"skill_id":"door-care"}"#;
const FILE: &str = r#"{"skill_id":"code-review","path":"notes.md"}"#;

fn usage_home(mock: &MockModel) -> TestHome {
    agents_home_on(mock, Wire::Openai)
        .skill("door-care", &skill_md("Oils doors. Use when a door creaks.", "Oil it."))
        .file("sandbox/skills/code-review/notes.md", "Notes.")
}

/// Returns the counts of a skill: offered, surfaced, reads, files, scripts and bounced.
fn counts(home: &TestHome, skill: &str) -> Vec<Value> {
    let stats = home.skillhost(["skill", "stats", "--json"]).success().json();
    let skills = stats["skills"].as_array().unwrap();
    let found = skills.iter().find(|row| row["skill_id"] == skill);
    let found = found.unwrap_or_else(|| panic!("{stats}"));
    ["offered", "surfaced", "reads", "resource_reads", "scripts", "bounced"]
        .map(|name| found[name].clone())
        .to_vec()
}

#[test]
fn run_counts_offers_and_bounces() {
    let mock = MockModel::with([
        Step::calls("read_skill", REVIEW),
        Step::calls("read_skill", OTHER),
        Step::text("Oiled."),
        Step::calls("read_skill", REVIEW),
        Step::calls("read_skill_resource", FILE),
        Step::calls("read_skill", OTHER),
        Step::text("Reviewed, then oiled."),
    ]);
    let home = usage_home(&mock);
    ask_agent(&home, "worker", "The door creaks").success();
    // Three turns; the first skill was left for the second one.
    assert_eq!(json!(counts(&home, "code-review")), json!([3, 0, 1, 0, 0, 1]));
    assert_eq!(json!(counts(&home, "door-care")), json!([3, 0, 1, 0, 0, 0]));
    // In the next run its file is used before.
    ask_agent(&home, "worker", "Review the door").success();
    assert_eq!(json!(counts(&home, "code-review")), json!([7, 0, 2, 1, 0, 1]));
    assert_eq!(json!(counts(&home, "door-care")), json!([7, 0, 2, 0, 0, 0]));
    let table = home.skillhost(["skill", "stats", "code-review"]).success().stdout;
    let table: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
    let expected = [
        vec!["agent", "offered", "surfaced", "reads", "files", "scripts", "bounced"],
        vec!["worker", "7", "0", "2", "1", "0", "1"],
    ];
    assert_eq!(table, expected);
    let days = home.skillhost(["skill", "stats", "code-review", "--json"]).success().json();
    let offered = days["days"].as_array().unwrap().iter().map(|day| day["offered"].as_u64());
    assert_eq!(offered.sum::<Option<u64>>(), Some(7), "{days}");
}

#[test]
fn script_runs_are_counted() {
    if !can_isolate() || program("bash").is_none() {
        return;
    }
    const RUN: &str = r#"{"path":"scripts/a.sh"}"#;
    let mock = MockModel::with([
        Step::calls("read_skill", OTHER),
        Step::calls("skills.run_script", RUN),
        Step::calls("skills.run_script", RUN),
        Step::calls("read_skill", REVIEW),
        Step::text("Oiled."),
    ]);
    let home = usage_home(&mock).file("sandbox/skills/door-care/scripts/a.sh", "exit 1\n");
    let shown = home.skillhost(["skill", "show", "door-care", "--json"]).success().json();
    let digest = shown["scripts"]["digest"].as_str().unwrap();
    let approve = ["skill", "approve-scripts", "door-care", "--yes", "--digest", digest];
    home.skillhost(approve).success();
    ask_agent(&home, "worker", "Oil the door").success();
    // A script that fails has run as well, and a skill whose script ran did not bounce.
    assert_eq!(json!(counts(&home, "door-care")), json!([5, 0, 1, 0, 2, 0]));
    // An operator's own run is no use by an agent.
    home.skillhost(["skill", "run", "door-care", "scripts/a.sh"]).exits(1);
    assert_eq!(json!(counts(&home, "door-care")), json!([5, 0, 1, 0, 2, 0]));
}

#[test]
fn operator_calls_are_no_use() {
    let mock = MockModel::with([]);
    let home = usage_home(&mock);
    home.skillhost(["tool", "call", "read_skill", REVIEW]).success();
    // The read is logged, as before.
    assert_eq!(json!(counts(&home, "code-review")), json!([0, 0, 1, 0, 0, 0]));
    let output = home.skillhost(["skill", "stats", "code-review"]).success();
    assert!(output.stderr.contains("`code-review` was neither offered nor read"), "{output}");
}

#[test]
fn advice_requires_enough_data() {
    let mock = MockModel::with([Step::text("Done.")]);
    let home = usage_home(&mock);
    ask_agent(&home, "worker", "Go").success();
    let output = home.skillhost(["skill", "stats", "door-care", "--advice"]).success();
    assert!(output.stderr.contains("no advice from the last 90 days"), "{output}");
    assert!(output.stdout.contains("too little data: "), "{output}");
    assert!(output.stdout.contains("14 days: door-care; "), "{output}");
    assert!(output.stdout.contains("no cases: "), "{output}");
    let json = home.skillhost(["skill", "stats", "--advice", "--json"]).success().json();
    assert_eq!(json["report"]["advice"], json!([]));
    home.skillhost(["skill", "stats", "door-car", "--days", "3"]).success();
    home.skillhost(["skill", "stats", "nonsense", "--advice"]).exits(3);
}
