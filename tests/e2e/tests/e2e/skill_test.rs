//! `skillhost skill test`: skills against their cases, without a model.

use std::fs;

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::agents_scene::{agents_home_on, ask_agent};
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
    routing: pdf-forms/q3 "open the file": matched only in its body, which models do not see before they choose
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
fn wrong_held_out_file_names_its_path() {
    let home = forms_home("[]");
    home.write("sandbox/data/skill_registry/evals/pdf-forms/triggers.json", "[7]");
    let output = run_test(&home, &["pdf-forms"]).exits(2);
    let path = "sandbox/data/skill_registry/evals/pdf-forms/triggers.json:1:2: error: ";
    assert!(output.stdout.contains(path), "{output}");
}

#[test]
fn command_without_case_says_why() {
    let home = forms_home("[]");
    let output = run_test(&home, &["pdf-forms"]).exits(1);
    assert!(output.stderr.contains("`pdf-forms` has no cases"), "{output}");
    let prompts = r#"{"skill_name": "pdf-forms", "evals": [{"id": 1, "prompt": "Fill it in."}]}"#;
    home.write("sandbox/skills/pdf-forms/evals/evals.json", prompts);
    let output = run_test(&home, &["pdf-forms"]).exits(1);
    assert!(output.stderr.contains("`pdf-forms` has prompts alone"), "{output}");
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
    assert_eq!(run_test(&home, &["--agent", "absent_agent"]).status, 3);
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

const SECRET: &str = "put my name into the rental contract";

/// The file of the held-out cases, and ways to name it.
const HELD_OUT: &str = "data/skill_registry/evals/pdf-forms/triggers.json";

/// Adds held-out cases to a home.
fn with_held_out(home: TestHome) -> TestHome {
    let text = format!("[{{\"query\": \"{SECRET}\", \"should_trigger\": true}}]");
    home.file(format!("sandbox/{HELD_OUT}"), text)
}

#[test]
fn operators_test_with_held_out_cases() {
    let home = with_held_out(forms_home(TRIGGERS));
    let json = run_test(&home, &["pdf-forms", "--split", "held-out", "--json"]).json();
    let results = json["skills"][0]["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["query"]), (1, &SECRET.into()));
}

/// Spells a path below the sandbox in 25 ways.
fn spell_path(home: &TestHome) -> Vec<String> {
    let outside = home.root().join("sandbox").join(HELD_OUT).display().to_string();
    let starts = [
        "",
        "./",
        "/",
        "../",
        "../../",
        "skills/../",
        "skills/pdf-forms/../../",
        "sandbox/",
        "sandbox:",
        "sandbox:/",
        "drafts/../",
        "evals/../../../",
        "data/../",
        "//",
        ".//",
        "%2e%2e/",
        "..\\",
        "~/",
        "$HOME/sandbox/",
        "file:///",
        "skill://",
        "workspace:",
        "references/../../../",
    ];
    let mut paths: Vec<String> = starts.iter().map(|start| format!("{start}{HELD_OUT}")).collect();
    paths.extend([format!("file://{outside}"), outside]);
    paths
}

#[test]
fn held_out_cases_reach_no_tool_of_agent() {
    let mock = MockModel::new();
    let home = with_held_out(agents_home_on(&mock, Wire::Openai).skill("pdf-forms", FORMS));
    let paths = spell_path(&home);
    assert_eq!(paths.len(), 25);
    // One call of each tool for each path.
    let calls = |path: &str| {
        [
            ("read_file", json!({"path": path})),
            ("list_directory", json!({"path": path})),
            ("search_text", json!({"pattern": "rental|should_trigger", "path": path})),
            ("find_files", json!({"pattern": path})),
            ("git_diff", json!({"path": path})),
            ("read_skill_resource", json!({"skill_id": "pdf-forms", "path": path})),
            ("read_skill", json!({"skill_id": path})),
            ("list_skills", json!({"query": format!("rental contract {path}")})),
        ]
    };
    let mut steps = Vec::new();
    for path in &paths {
        let mut step = Step::text("");
        for (tool, arguments) in calls(path) {
            step = step.call(tool, &arguments.to_string());
        }
        steps.push(step);
    }
    steps.push(Step::text("done"));
    steps.into_iter().for_each(|step| mock.push(step));
    let asked = ask_agent(&home, "worker", "find the cases");
    assert_eq!(asked.status, 0, "{asked}");
    let requests = mock.requests();
    let results = requests.last().unwrap().messages();
    let results: Vec<_> = results.iter().filter(|message| message.role == "tool").collect();
    assert_eq!(results.len(), 200);
    for request in &requests {
        let body = request.body.to_string();
        assert!(!body.contains(SECRET), "{body}");
    }
}
