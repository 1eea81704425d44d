//! `skillhost skill test`: skills against their cases, without a model.

use std::fs;

use serde_json::Value;
use test_support::{Output, TestHome};

use crate::fixtures::repository_root;

const FORMS: &str = "---\nname: pdf-forms\ndescription: Fills in PDF forms such as the W-9. Use when \
    a form has to be completed.\n---\n\n# Forms\n\nOpen the file first.\n";

fn forms_home(triggers: &str) -> TestHome {
    TestHome::new()
        .trusted()
        .skill("pdf-forms", FORMS)
        .skill("tea", "---\nname: tea\ndescription: Brews green tea.\n---\n# Tea\n")
        .file("sandbox/skills/pdf-forms/evals/triggers.json", triggers)
}

const TRIGGERS: &str = r#"[
  {"query": "complete the W-9", "should_trigger": true},
  {"query": "brew some green tea", "should_trigger": false, "expected_skill": "tea"},
  {"query": "open the file", "should_trigger": true}
]"#;

fn run_test(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost([&["skill", "test"], args].concat())
}

#[test]
fn failed_cases_are_listed_and_fail() {
    let home = forms_home(TRIGGERS);
    insta::assert_snapshot!(run_test(&home, &[]), @r#"
    exit 1
    --- stdout
    routing: pdf-forms/q3 "open the file": only its body matches, which models do not see before they choose
    skill     cases passed failed recall precision MRR
    pdf-forms 3     2      1      0.50   1.00      0.75
    1 skill, 3 cases: 2 passed, 1 failed, among 200 other skills
    "#);
    let passed = run_test(&home, &["--only", "pdf-forms/q[12]"]);
    assert_eq!(passed.status, 0, "{passed}");
    let json: Value = run_test(&home, &["pdf-forms", "--json"]).json();
    let skill = &json["skills"][0];
    assert_eq!((&skill["skill_id"], &skill["precision"]), (&"pdf-forms".into(), &1.0.into()));
    assert_eq!(skill["results"][2]["failure"]["kind"], "body_only");
    assert_eq!(json["distractors"], 200);
}

#[test]
fn path_is_tested_in_place_of_installed_skill() {
    let home = forms_home(TRIGGERS);
    let better = FORMS.replace("such as", "and opens files such as");
    let home = home
        .file("draft/pdf-forms/SKILL.md", better)
        .file("draft/pdf-forms/evals/triggers.json", TRIGGERS);
    let tested = run_test(&home, &["draft/pdf-forms/"]);
    assert_eq!(tested.status, 0, "{tested}");
    assert_eq!(run_test(&home, &["pdf-forms"]).status, 1);
}

#[test]
fn wrong_file_names_its_line() {
    let home = forms_home("[\n  {\"query\": \"x\", \"should_trigger\": \"perhaps\"},\n  7\n]");
    insta::assert_snapshot!(run_test(&home, &["pdf-forms"]), @"
    exit 2
    --- stdout
    [HOME]/sandbox/skills/pdf-forms/evals/triggers.json:2:36: error: `[0].should_trigger` is neither true nor false; it is not used
      help: write `true` or `false`
    [HOME]/sandbox/skills/pdf-forms/evals/triggers.json:3:3: error: `[1]` is a string, not a map
      help: write a map
    skill     cases passed failed recall precision MRR
    pdf-forms 0     0      0      –      –         –
    1 skill, 0 cases: 0 passed, 0 failed, among 200 other skills
    ");
}

#[test]
fn unknown_names_are_not_found() {
    let home = forms_home(TRIGGERS);
    insta::assert_snapshot!(run_test(&home, &["pdf-from"]), @"
    exit 3
    --- stderr
    error: skill `pdf-from` not found
    hint: did you mean `pdf-forms`?
    ");
    assert_eq!(run_test(&home, &["--agent", "nobody"]).status, 3);
    assert_eq!(run_test(&home, &["./missing/"]).status, 3);
    assert_eq!(run_test(&home, &["--only", "["]).status, 2);
    // A skill without cases proves nothing.
    assert_eq!(run_test(&home, &["tea"]).status, 1);
}

#[test]
fn reports_are_written() {
    let home = forms_home(TRIGGERS);
    let hostile = TRIGGERS.replace("open the file", "<script>alert(1)</script> \\u001b[31m open");
    let home = home.file("sandbox/skills/pdf-forms/evals/triggers.json", hostile);
    let tested = run_test(&home, &["--junit", "report.xml", "--html", "report.html"]);
    assert_eq!(tested.status, 1, "{tested}");
    let junit = fs::read_to_string(home.path("report.xml")).unwrap();
    assert!(junit.contains("tests=\"3\" skipped=\"0\" failures=\"1\""), "{junit}");
    let html = fs::read_to_string(home.path("report.html")).unwrap();
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script"), "{html}");
    assert!(!html.contains('\u{1b}') && !junit.contains('\u{1b}'));
    // One file: nothing is loaded from elsewhere.
    assert!(!html.contains("http") && !html.contains("src="), "{html}");
}

#[test]
fn shipped_skills_pass_their_cases() {
    let home = TestHome::new().trusted();
    for skills in ["sandbox/skills", "tests/fixtures/evals/skills"] {
        let path = format!("{}/", repository_root().join(skills).display());
        let json = run_test(&home, &[&path, "--json"]).success().json();
        for skill in json["skills"].as_array().unwrap() {
            assert!(skill["results"].as_array().unwrap().len() >= 20, "{}", skill["skill_id"]);
            assert_eq!(skill["recall"], 1.0, "{}", skill["skill_id"]);
        }
    }
}

#[test]
fn held_out_cases_reach_no_reader_of_skill() {
    let home = forms_home(TRIGGERS);
    let secret = "put my name into the rental contract";
    let home = home.file(
        "sandbox/data/skill_registry/evals/pdf-forms/triggers.json",
        format!("[{{\"query\": \"{secret}\", \"should_trigger\": true}}]"),
    );
    for args in [
        &["show", "pdf-forms"][..],
        &["read", "pdf-forms"],
        &["list"],
        &["search", "rental", "contract"],
        &["read", "pdf-forms", "../../data/skill_registry/evals/pdf-forms/triggers.json"],
        &["read", "pdf-forms", "evals/../../../data/skill_registry/evals/pdf-forms/triggers.json"],
    ] {
        let shown = home.skillhost([&["skill"], args].concat());
        assert!(!shown.to_string().contains(secret), "{args:?}: {shown}");
    }
    // Operators test with them.
    let json = run_test(&home, &["pdf-forms", "--split", "held-out", "--json"]).json();
    assert_eq!(json["skills"][0]["results"][0]["query"], secret);
    assert_eq!(json["skills"][0]["results"].as_array().unwrap().len(), 1);
}
