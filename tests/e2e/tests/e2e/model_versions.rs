//! Tests of `skillhost skill test --model` against another version of a skill, and with providers that
//! fail.

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};
use skill_ledger::ProposeRequest;
use test_support::{Output, TestHome};

use crate::fixtures::{agent_manifest, shipped_manifest};
use crate::proposals::propose_request;

/// A model that does what the skill says.
const MODEL: &str = "rules:
  - when: {turn: 0}
    call: {tool: read_skill, arguments: {skill_id: greet}}
  - when: {answered: read_skill, answer: welcome}
    say: Hello, welcome.
  - say: Hello.
";

const SETTINGS: &str =
    "models:\n  default: m/m\n  providers:\n    m: {wire: script, script: model.yaml}\n";

fn skill_text(body: &str) -> String {
    format!("---\nname: greet\ndescription: Greets people.\n---\n{body}\n")
}

fn prompts(count: usize) -> String {
    let case = |number: usize| {
        json!({"id": number, "prompt": format!("Greet guest {number}"), "assertions": [
            {"type": "contains", "value": "welcome"}]})
    };
    json!({"evals": (0..count).map(case).collect::<Vec<_>>()}).to_string()
}

fn version_home(settings: &str) -> TestHome {
    let agent = "  instructions: You work.\n  uses_tools: [skill_registry]\n";
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("orchestrator_agent", &agent_manifest("orchestrator_agent", agent))
        .skill("greet", &skill_text("Say hello."))
        // A second skill with cases: a proposal selects its own skill alone.
        .skill("fare-well", &skill_text("Say goodbye.").replace("greet", "fare-well"))
        .file("sandbox/skills/fare-well/evals/evals.json", prompts(1))
        .file("model.yaml", MODEL)
        .settings(settings)
        .trusted()
}

fn compare(home: &TestHome, against: &str) -> Output {
    let args = ["skill", "test", "greet", "--model", "m/m", "--out", "out", "--json"];
    home.skillhost(args.iter().chain(&["--against", against]))
}

fn verdict(output: &Output) -> (Value, Value, i64) {
    let comparison = output.json()["models"][0]["comparison"].clone();
    (
        comparison["verdict"].clone(),
        comparison["held_out"]["mean"].clone(),
        comparison["runs"].as_i64().unwrap(),
    )
}

#[test]
fn versions_are_compared_in_looks() {
    let home = version_home(SETTINGS)
        .file("sandbox/skills/greet/evals/evals.json", prompts(1))
        .file("sandbox/data/skill_registry/evals/greet/evals.json", prompts(8));
    // Records the first version, and then the second one.
    drop(home.skillhost(["skill", "history", "greet"]).success());
    home.write("sandbox/skills/greet/SKILL.md", skill_text("Say hello and welcome."));
    drop(home.skillhost(["skill", "history", "greet"]).success());
    let better = compare(&home, "1").success();
    assert_eq!(verdict(&better), (json!("better"), json!(1.0), 3));
    assert!(home.path("out/iteration-1/eval-0/old_skill/run-1/grading.json").is_file());

    let request = ProposeRequest {
        skill_id: "greet".into(),
        new_content: Some(skill_text("Say nothing.")),
        justification: "shorter".into(),
        ..ProposeRequest::default()
    };
    let proposal = propose_request(&home, &request).unwrap().proposal.id;
    let worse = compare(&home, &format!("proposal:{proposal}")).exits(1);
    assert_eq!(verdict(&worse), (json!("blocked"), json!(-1.0), 3));
    // The result is recorded for the review, and an approval requires a reason.
    let notes = worse.json()["models"][0]["notes"].to_string();
    assert!(notes.contains(&format!("recorded for the review of proposal {proposal}")), "{notes}");
    let review = ["skill", "proposal", "review", &proposal];
    let listed = home.skillhost(["skill", "proposal", "list", "--json"]).success().json();
    let digest = listed["proposals"][0]["digest"].as_str().unwrap();
    let approve = ["skill", "approve", &proposal, "--yes", "--digest", digest];
    let refused = home.skillhost(approve).exits(2);
    assert!(refused.stderr.contains("model: blocked: held-out -1.00 ± "), "{refused:?}");
    let shown = home.skillhost(review).success();
    assert!(shown.stdout.contains("model: blocked: held-out -1.00"), "{shown}");
    // The same bytes in both arms are never better.
    let same = compare(&home, "2").success();
    assert_eq!(verdict(&same), (json!("not_lower"), json!(0.0), 12));
    // Parts of the cases are no evidence: they could have been chosen for their result.
    let args = ["skill", "test", "--model", "m/m", "--out", "part", "--json"];
    let part = ["--against", &format!("proposal:{proposal}"), "--only", "greet/0"];
    let part = home.skillhost(args.iter().chain(&part)).exits(1);
    assert!(part.stdout.contains("only a part of the cases ran"), "{part:?}");
    assert_eq!(part.json()["models"].as_array().unwrap().len(), 1);
    let fixed = ["--against", &format!("proposal:{proposal}"), "--runs", "1"];
    let fixed = home.skillhost(args.iter().chain(&fixed)).exits(1);
    assert!(fixed.stdout.contains("--runs fixes the number of runs"), "{fixed:?}");
    let reason = ["--reason", "people are greeted elsewhere"];
    drop(home.skillhost(approve.iter().chain(&reason)).success());
    assert!(compare(&home, "9").exits(3).stderr.contains("version 9"));
    assert!(compare(&home, "proposal:zzzzzz").exits(3).stderr.contains("zzzzzz"));
    let request = ProposeRequest {
        skill_id: "bow".into(),
        new_content: Some(skill_text("Bow.").replace("greet", "bow")),
        justification: "missing".into(),
        ..ProposeRequest::default()
    };
    let created = propose_request(&home, &request).unwrap().proposal.id;
    let created = ["--against", &format!("proposal:{created}")];
    let refused = home.skillhost(args.iter().chain(&created)).exits(3);
    assert!(refused.stderr.contains("creates bow: there is no base to test"), "{refused}");
}

/// Creates the home of one prompt and one query with a provider that makes one attempt.
fn provider_home(mock: &MockModel) -> TestHome {
    let url = mock.base_url(Wire::Openai);
    version_home(&format!(
        "models:\n  default: m/m\n  providers:\n    m: {{wire: {}, base_url: \"{url}\", retries: 0}}\n",
        Wire::Openai.name()
    ))
    .file("sandbox/skills/greet/evals/evals.json", prompts(1))
}

#[test]
fn busy_providers_are_tried_again() {
    let mock = MockModel::with([
        Step::busy(None),
        Step::status(503, "overloaded"),
        Step::text("Hello, welcome."),
        Step::empty(),
        Step::empty(),
        Step::text("Hello, welcome."),
    ]);
    let home = provider_home(&mock);
    let args =
        ["skill", "test", "greet", "--model", "m/m", "--runs", "1", "--out", "out", "--json"];
    let report = home.skillhost(args).success().json()["models"][0].clone();
    assert_eq!(mock.requests().len(), 6);
    for arm in report["arms"].as_array().unwrap() {
        assert_eq!((&arm["passed"]["successes"], &arm["invalid"]), (&json!(1), &json!(0)));
    }
    // Refused requests cost nothing, an empty reply does.
    assert_eq!(report["spent"], json!({"requests": 6, "tokens": 60, "usd": null}));
}

#[test]
fn providers_that_stay_busy_are_invalid() {
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::busy(None)));
    let home = provider_home(&mock);
    let args =
        ["skill", "test", "greet", "--model", "m/m", "--runs", "1", "--out", "out", "--json"];
    let output = home.skillhost(args).exits(5);
    let report = output.json()["models"][0].clone();
    assert_eq!(mock.requests().len(), 6, "three attempts in each arm");
    assert_eq!(report["cases"][0]["failure"], "invalid");
    let grading = &report["cases"][0]["runs"][0]["grading"]["skillhost"];
    assert_eq!(grading["outcome"], "invalid");
    assert!(!grading["reason"].as_str().unwrap().is_empty());
    assert!(!output.stdout.contains("\"pass_rate\":1"));
}
