//! Tests of `skillhost skill test --model`: real runs in homes of their own, with scripted models.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::fixtures::{agent_manifest, shipped_manifest};

/// The price makes 1,000 tokens cost a cent.
const SETTINGS: &str = "models:\n  default: noisy/m\n  providers:\n    noisy: {wire: script, script: \
                        model.yaml}\n    court: {wire: script, script: judge.yaml}\n  known:\n    \
                        noisy/m: {price: {input: 10, output: 10}}\n";

/// A model that greets properly only if it has read the skill.
const MODEL: &str = "rules:
  - when: {user: [greet], turn: 0, offered: read_skill, system: [Greets people]}
    call: {tool: read_skill, arguments: {skill_id: greet}}
  - when: {answered: read_skill, failed: false}
    say: Hello Ada, welcome.
  - say: I do not know.
";

const TRIGGERS: &str = r#"[{"query": "greet Ada", "should_trigger": true},
    {"query": "brew some tea", "should_trigger": false}]"#;

fn greet_skill(description: &str) -> String {
    format!("---\nname: greet\ndescription: {description}\n---\nSay hello and welcome.\n")
}

fn evals(assertions: &Value) -> String {
    json!({"skill_name": "greet", "evals": [
        {"id": "ada", "prompt": "Please greet Ada.", "assertions": assertions},
    ]})
    .to_string()
}

/// Creates a home with the skill `greet`, its cases, and an agent without other tools than those of
/// skills, files and commands.
fn eval_home(model: &str, assertions: &Value) -> TestHome {
    let agent =
        "  instructions: You work.\n  uses_tools: [skill_registry, core_tools, run_command]\n";
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("orchestrator_agent", &agent_manifest("orchestrator_agent", agent))
        .skill("greet", &greet_skill("Greets people. Use when a visitor arrives."))
        .file("sandbox/skills/greet/evals/evals.json", evals(assertions))
        .file("sandbox/skills/greet/evals/triggers.json", TRIGGERS)
        .file("model.yaml", model)
        .file("judge.yaml", "rules: [{say: none}]\n")
        .settings(SETTINGS)
        .trusted()
}

fn contains(value: &str) -> Value {
    json!([{"type": "contains", "value": value}])
}

fn test_greet(home: &TestHome, more: &[&str]) -> Output {
    let base = ["skill", "test", "greet", "--model", "noisy/m", "--out", "out", "--json"];
    home.skillhost(base.iter().chain(more))
}

fn report(output: &Output) -> Value {
    output.json()["models"][0].clone()
}

fn counts(rate: &Value) -> (u64, u64) {
    (rate["successes"].as_u64().unwrap(), rate["trials"].as_u64().unwrap())
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The directories of finished runs below a directory.
fn finished_runs(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.join("grading.json").is_file() {
            found.push(path);
        } else if path.is_dir() {
            found.extend(finished_runs(&path));
        }
    }
    found.sort();
    found
}

#[test]
fn runs_compare_both_arms() {
    let home = eval_home(MODEL, &contains("Hello Ada"));
    let files = ["--junit", "report.xml", "--html", "report.html"];
    let output = test_greet(&home, &files).success();
    let report = report(&output);
    let arm = |name: &str| {
        let arms = report["arms"].as_array().unwrap();
        arms.iter().find(|arm| arm["arm"] == name).unwrap().clone()
    };
    assert_eq!(counts(&arm("with_skill")["passed"]), (3, 3));
    assert_eq!(counts(&arm("without_skill")["passed"]), (0, 3));
    assert_eq!((counts(&report["recall"]), counts(&report["precision"])), ((3, 3), (3, 3)));
    assert_eq!(report["comparison"]["verdict"], "thin");

    let iteration = home.path("out/iteration-1");
    assert_eq!(finished_runs(&iteration).len(), 12);
    let run = iteration.join("eval-ada/with_skill/run-1");
    let grading = read_json(&run.join("grading.json"));
    assert_eq!(grading["summary"]["pass_rate"], 1.0);
    assert_eq!(grading["expectations"], grading["assertion_results"]);
    assert_eq!(grading["skillhost"]["model"], "noisy/m");
    let without = read_json(&iteration.join("eval-ada/without_skill/run-1/grading.json"));
    assert_eq!(without["skillhost"].get("skill"), None);
    let transcript = fs::read_to_string(run.join("transcript.jsonl")).unwrap();
    assert!(transcript.contains("Say hello and welcome."), "{transcript}");
    let timing = read_json(&run.join("timing.json"));
    let cost = timing["total_tokens"].as_f64().unwrap() / 1e5;
    assert!((timing["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-9, "{timing}");
    let benchmark = read_json(&iteration.join("benchmark.json"));
    assert_eq!(benchmark["run_summary"]["delta"]["pass_rate"], "+1.00");
    assert_eq!(benchmark["runs"].as_array().unwrap().len(), 6);

    let junit = fs::read_to_string(home.path("report.xml")).unwrap();
    assert!(junit.contains("name=\"greet model\" tests=\"4\""), "{junit}");
    let html = fs::read_to_string(home.path("report.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("without_skill") && !html.contains("<script"));

    // A finished iteration is not continued, and the home has no trace of the runs.
    home.write("sandbox/skills/greet/SKILL.md", greet_skill("Greets people at the door."));
    let second = self::report(&test_greet(&home, &["--html", "second.html"]).success());
    assert!(home.path("out/iteration-2/benchmark.json").is_file());
    let earlier = &second["earlier"][0];
    assert_eq!((&earlier["iteration"], counts(&earlier["passed"])), (&json!(1), (3, 3)));
    assert_eq!(earlier["skill"], report["digests"]["skill"]);
    assert_ne!(earlier["skill"], second["digests"]["skill"]);
    let html = fs::read_to_string(home.path("second.html")).unwrap();
    assert!(html.contains("iteration 1, sha256:"), "{html}");
    // Other cases are not comparable.
    home.write("sandbox/skills/greet/evals/evals.json", evals(&contains("Hello")));
    assert_eq!(self::report(&test_greet(&home, &[]).success()).get("earlier"), None);
    assert!(!home.path("sandbox/data/kernel/threads").exists());
}

/// Runs where `SKILLHOST_AGGREGATION` is the path of `aggregate_benchmark.py` of the public skill
/// `skill-creator`, which is not part of this repository.
#[test]
#[expect(clippy::print_stderr, reason = "the reason of a skip")]
fn aggregation_of_skill_creator_agrees() {
    let Some(script) = std::env::var_os("SKILLHOST_AGGREGATION") else {
        eprintln!(
            "skipped: SKILLHOST_AGGREGATION is not set to the path of aggregate_benchmark.py"
        );
        return;
    };
    let home = eval_home(MODEL, &json!([{"type": "contains", "value": "Hello Ada"}, "is short"]));
    // The sentence has no judge, so it is skipped.
    drop(test_greet(&home, &["--allow-skipped"]).success());
    let (iteration, copy) = (home.path("out/iteration-1"), home.path("aggregated.json"));
    let output = Command::new("python3")
        .arg(script)
        .args([&iteration, Path::new("--output"), &copy])
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !printed.contains("Warning"), "{printed}");
    let (ours, theirs) = (read_json(&iteration.join("benchmark.json")), read_json(&copy));
    assert_eq!(as_floats(&ours["run_summary"]), as_floats(&theirs["run_summary"]));
    let runs = |benchmark: &Value| {
        let mut runs = benchmark["runs"].as_array().unwrap().clone();
        runs.sort_by_key(|run| run["configuration"].to_string() + &run["run_number"].to_string());
        runs
    };
    assert_eq!(runs(&ours).len(), 6);
    assert_eq!(as_floats(&json!(runs(&ours))), as_floats(&json!(runs(&theirs))));
}

/// Returns a value without the difference between 1 and 1.0.
fn as_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(as_floats).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), as_floats(value))).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn chance_makes_cases_mixed() {
    let noisy = MODEL.replace(
        "    say: Hello Ada, welcome.\n",
        "    chance: 0.6\n    say: Hello Ada, welcome.\n",
    );
    let home = eval_home(&format!("seed: 5\n{noisy}"), &contains("Hello Ada"));
    let output =
        test_greet(&home, &["--runs", "20", "--only", "greet/ada", "--junit", "report.xml"]);
    let report = report(&output);
    let (passed, runs) = counts(&report["arms"][0]["passed"]);
    assert!((6..=18).contains(&passed) && runs == 20, "{passed} of {runs}");
    let junit = fs::read_to_string(home.path("report.xml")).unwrap();
    assert!(junit.contains("flakyFailure"), "{junit}");
}

#[test]
fn descriptions_move_recall_and_precision() {
    // The model follows the catalog: it reads a skill that claims everything.
    let model = "rules:
  - when: {turn: 0, system: [every task]}
    call: {tool: read_skill, arguments: {skill_id: greet}}
  - when: {turn: 0, user: [greet], system: [Greets people]}
    call: {tool: read_skill, arguments: {skill_id: greet}}
  - say: Done.
";
    let rates = |description: &str| {
        let home = eval_home(model, &contains("Done"));
        home.write("sandbox/skills/greet/SKILL.md", greet_skill(description));
        let report = report(&test_greet(&home, &["--only", "greet/q*", "--runs", "10"]));
        (counts(&report["recall"]), report["precision"].clone())
    };
    let (recall, precision) = rates("Greets people. Use when a visitor arrives.");
    assert_eq!((recall, counts(&precision)), ((10, 10), (10, 10)));
    let (recall, precision) = rates("Helps with every task.");
    assert_eq!((recall, counts(&precision)), ((10, 10), (10, 20)));
    let (recall, precision) = rates("Does things.");
    assert_eq!((recall, precision), ((0, 10), Value::Null));
}

#[test]
fn query_has_four_requests() {
    for (turn, is_read) in [(3, true), (4, false)] {
        let model = format!(
            "rules:\n  - when: {{turn: {turn}, user: [greet], offered: read_skill}}\n    call: {{tool: \
             read_skill, arguments: {{skill_id: greet}}}}\n  - when: {{user: [greet], offered: \
             read_skill}}\n    call: {{tool: list_skills, arguments: {{}}}}\n  - say: Done.\n"
        );
        let home = eval_home(&model, &contains("Done"));
        let output = test_greet(&home, &["--only", "greet/q1", "--runs", "1"]);
        let report = report(&output);
        assert_eq!(counts(&report["recall"]), (u64::from(is_read), 1), "{output}");
        let run = &report["cases"][0]["runs"][0]["grading"]["assertion_results"][0];
        let evidence = match is_read {
            true => "greet was read in request 4",
            false => "greet was not read in 4 requests",
        };
        assert_eq!(run["evidence"], evidence, "{output}");
    }
}

#[test]
fn broken_harness_is_no_zero() {
    let home = eval_home(MODEL, &contains("Hello"));
    home.write(
        "skillhost.yaml",
        format!("{SETTINGS}extensions: {{skill_registry: {{skills: {{greet: off}}}}}}\n"),
    );
    let output = test_greet(&home, &[]).exits(5);
    assert!(output.stderr.contains("the harness cannot see triggers: `/greet`"), "{output}");
    assert_eq!(finished_runs(&home.path("out")).len(), 0);
    // An agent that cannot read skills.
    let home = eval_home(MODEL, &contains("Hello"));
    let deaf =
        agent_manifest("orchestrator_agent", "  instructions: You work.\n  uses_tools: []\n");
    home.write("manifests/orchestrator_agent/manifest.yaml", deaf);
    let output = test_greet(&home, &[]).exits(5);
    assert!(output.stderr.contains("`orchestrator_agent` cannot read `greet`"), "{output}");
}

#[test]
fn silent_models_are_invalid() {
    let home = eval_home("rules: [{when: {user: never}, say: x}]\n", &contains("Hello"));
    let report = report(&test_greet(&home, &["--runs", "2"]).exits(5));
    assert_eq!(report["arms"][0]["passed"], Value::Null);
    // Two runs of the prompt and of each query.
    assert_eq!((&report["arms"][0]["invalid"], &report["recall"]), (&json!(6), &Value::Null));
    assert!(home.path("out/iteration-1/eval-ada/with_skill/invalid-1/grading.json").is_file());
    let same = eval_home("rules: [{say: Hello Ada}]\n", &contains("Hello Ada"));
    let output = test_greet(&same, &["--only", "greet/ada"]).success();
    assert_eq!(output.json()["models"][0]["comparison"]["train"]["mean"], 0.0);
}

#[test]
fn budgets_stop_before_requests() {
    let home = eval_home(MODEL, &contains("Hello Ada"));
    for budget in [["--budget-usd", "0"], ["--budget-tokens", "0"]] {
        let output = test_greet(&home, &budget).exits(5);
        assert!(output.stderr.contains("the runs need more than the budget"), "{output}");
    }
    assert_eq!(finished_runs(&home.path("out")).len(), 0);
    let whole = report(&test_greet(&home, &[]).success())["spent"].clone();
    let tokens = whole["tokens"].as_u64().unwrap();
    let longest = tokens / whole["requests"].as_u64().unwrap() * 3;

    let home = eval_home(MODEL, &contains("Hello Ada"));
    let limit = tokens * 9 / 10;
    let limited = report(&test_greet(&home, &["--budget-tokens", &limit.to_string()]).exits(5));
    let spent = limited["spent"]["tokens"].as_u64().unwrap();
    assert!(spent <= limit + longest, "{spent} of {limit}");
    let finished = finished_runs(&home.path("out/iteration-1"));
    assert!(finished.len() < 12 && !home.path("out/iteration-1/benchmark.json").exists());
    // With more budget the same iteration goes on, and no finished run is made again.
    let written =
        |path: &PathBuf| fs::metadata(path.join("grading.json")).unwrap().modified().unwrap();
    let before: Vec<_> = finished.iter().map(written).collect();
    let resumed = report(&test_greet(&home, &[]).success());
    assert_eq!(finished_runs(&home.path("out/iteration-1")).len(), 12);
    assert_eq!(finished.iter().map(written).collect::<Vec<_>>(), before);
    let all = resumed["spent"]["tokens"].as_u64().unwrap();
    assert!(all <= tokens + longest * 2, "{all}, {tokens} without the interruption");
}

#[test]
fn budget_is_that_of_all_skills() {
    let home = eval_home(MODEL, &contains("Hello Ada"));
    let alone = report(&test_greet(&home, &[]).success())["spent"]["tokens"].as_u64().unwrap();
    let copy = greet_skill("Opens doors.").replace("name: greet", "name: welcome");
    home.write("sandbox/skills/welcome/SKILL.md", copy);
    home.write("sandbox/skills/welcome/evals/triggers.json", TRIGGERS);
    let both =
        ["skill", "test", "greet", "welcome", "--model", "noisy/m", "--out", "both", "--json"];
    // The line of the other skill in the catalog makes each request a little longer.
    let limit = (alone * 11 / 10).to_string();
    let output = home.skillhost(both.iter().chain(&["--budget-tokens", &limit])).exits(5);
    // The results of the first skill are printed; nothing is left for the second one.
    let models = output.json()["models"].as_array().unwrap().clone();
    assert_eq!(models.len(), 1, "{output}");
    assert_eq!(models[0]["skill_id"], "greet");
    assert!(output.stderr.contains("the runs need more than the budget"), "{output}");
}

#[test]
fn wrong_inputs_and_agents_spend_nothing() {
    let home = eval_home(MODEL, &contains("Hello Ada"));
    let requests = || fs::read(home.path("out/iteration-1/requests.jsonl")).unwrap_or_default();
    let input = json!({"skill_name": "greet", "evals": [
        {"id": "ada", "prompt": "Please greet Ada.", "files": ["evals/files/none.csv"]},
    ]});
    home.write("sandbox/skills/greet/evals/evals.json", input.to_string());
    let output = test_greet(&home, &[]).exits(5);
    assert!(output.stderr.contains("none.csv"), "{output}");
    assert!(requests().is_empty());
    home.write("sandbox/skills/greet/evals/evals.json", evals(&contains("Hello Ada")));
    let agent = r#"[{"query": "greet Ada", "should_trigger": true, "agent": "absent"}]"#;
    home.write("sandbox/skills/greet/evals/triggers.json", agent);
    let output = test_greet(&home, &[]).exits(5);
    assert!(output.stderr.contains("absent"), "{output}");
    assert!(requests().is_empty());
}

#[test]
fn run_without_reply_of_judge_is_invalid() {
    let home =
        eval_home(MODEL, &json!(["It is friendly.", {"type": "contains", "value": "Hello Ada"}]));
    home.write("judge.yaml", "rules: [{when: {user: no prompt has this}, say: x}]\n");
    let args = ["--judge", "court/m", "--only", "greet/ada", "--runs", "1", "--allow-skipped"];
    let report = report(&test_greet(&home, &args).exits(5));
    let run = &report["cases"][0]["runs"][0]["grading"]["skillhost"];
    assert_eq!(run["outcome"], "invalid", "{report}");
    assert!(run["reason"].as_str().unwrap().starts_with("the judge: "), "{report}");
}

#[test]
fn invalid_expression_spends_nothing() {
    let home = eval_home(MODEL, &json!([{"type": "matches-regex", "value": "(("}]));
    let output = home.skillhost(["skill", "test", "greet", "--model", "noisy/m"]).exits(2);
    assert!(output.stdout.contains("evals.json:1:"), "{output}");
    assert!(output.stdout.contains("unclosed group"), "{output}");
    assert!(!home.path("sandbox/data/kernel/evals").exists());
}

#[test]
fn wrong_arguments_spend_nothing() {
    let home = eval_home(MODEL, &contains("Hello"));
    let exit = |args: &[&str], code: i32, text: &str| {
        let output = home.skillhost(["skill", "test"].iter().chain(args)).exits(code);
        assert!(output.stderr.contains(text), "{output}");
    };
    exit(&["greet", "--tier", "model"], 2, "--tier requires --model");
    exit(&["greet", "--model", "court/m", "--budget-usd", "1"], 2, "the price of model `court/m`");
    for rate in ["2", "0", "-0.5", "NaN"] {
        let args = ["greet", "--model", "court/m", "--threshold", rate];
        exit(&args, 2, "--threshold requires a rate above 0");
    }
    exit(&["greet", "--model", "noisy/m", "--budget-usd", "-1"], 2, "an amount of 0 or more");
    exit(&["greet", "--model", "noisy/m", "--runs", "-1"], 2, "-1 is not in 1..=100");
    // Without a model, these options would have no effect.
    for option in [["--against", "1"], ["--budget-usd", "1"], ["--runs", "2"], ["--out", "x"]] {
        exit(&["greet", option[0], option[1]], 2, "--model <MODEL>");
    }
    exit(&["greet", "--model", "noisy/m", "--only", "zzz"], 1, "no case matches");
    exit(&["greet", "--junit", "absent/x.xml"], 5, "create the directory");
    exit(&["greet", "--model", "noisy/m", "--against", "7"], 3, "`greet` has no version 7");
    exit(&["greet", "--model", "noisy/m", "--against", "x"], 2, "`x` is not a baseline");
    exit(&["greet", "--model", "missing/m"], 3, "provider `missing` not found");
    exit(&["other", "--model", "noisy/m"], 3, "`other`");
    let unknown = home.skillhost(["skill", "test", "greet", "--model", "noisy/m", "--agent", "x"]);
    assert!(unknown.exits(3).stderr.contains("agent `x` not found"));
    home.write(
        "sandbox/skills/greet/evals/evals.json",
        "{\"skill_name\": \"other\", \"evals\": []}",
    );
    let output = home.skillhost(["skill", "test", "greet", "--model", "noisy/m"]).exits(2);
    assert!(output.stdout.contains("the file is about `other`"), "{output}");
    assert!(!home.path("sandbox/data/kernel/evals").exists());
}

#[test]
fn assertions_pass_fail_and_skip() {
    let model = "rules:
  - when: {turn: 0}
    call:
      - {tool: write_file, arguments: {path: 'workspace:work/out/a.txt', content: new}}
      - {tool: write_file, arguments: {path: 'workspace:work/note.md', content: changed}}
      - {tool: run_command, arguments: {command: 'make -j2 test', directory: 'workspace:work'}}
  - say: |
      Caf\u{e9} in March. W-9 is done.
";
    let typed = |kind: &str, value: &str| json!({"type": kind, "value": value});
    let pass = json!([
        typed("contains", "Cafe\u{301}"),
        typed("not-contains", "April"),
        typed("matches-regex", "/w-?9/i"),
        typed("file-created", "out/*.txt"),
        typed("file-modified", "note.md"),
        typed("command-executed", "make *"),
    ]);
    let fail = json!([
        typed("contains", "April"),
        typed("not-contains", "March"),
        typed("matches-regex", "^w"),
        typed("file-created", "note.md"),
        typed("file-modified", "out/*"),
        typed("command-executed", "make test"),
    ]);
    let skip = json!([
        typed("custom", "script: tests/x.py"),
        typed("custom", "is polite"),
        "names a month",
    ]);
    let home = eval_home(model, &pass);
    home.write("sandbox/skills/greet/evals/suite.yaml", "tools: {write_file: real}\nruns: 1\n");
    home.write("sandbox/skills/greet/evals/files/note.md", "old");
    let with_file = |assertions: &Value| {
        let mut file: Value = serde_json::from_str(&evals(assertions)).unwrap();
        file["evals"][0]["files"] = json!(["evals/files/note.md"]);
        home.write("sandbox/skills/greet/evals/evals.json", file.to_string());
    };
    let results = |output: &Output| {
        let cases = output.json()["models"][0]["cases"].clone();
        let results = cases[0]["runs"][0]["grading"]["assertion_results"].clone();
        let passed = results.as_array().unwrap().iter().map(|result| result["passed"].as_bool());
        (passed.collect::<Vec<_>>(), results.to_string())
    };
    let only = ["--only", "greet/ada"];
    with_file(&pass);
    let output = test_greet(&home, &only);
    let (passed, text) = results(&output);
    assert_eq!(passed, vec![Some(true); 6], "{text}");
    drop(output.success());
    let run = home.path("out/iteration-1/eval-ada/with_skill/run-1");
    assert_eq!(fs::read_to_string(run.join("outputs/note.md")).unwrap(), "changed");
    assert!(!home.path("sandbox/out").exists());

    with_file(&fail);
    let (passed, text) = results(&test_greet(&home, &only).exits(1));
    assert_eq!(passed, vec![Some(false); 6], "{text}");

    with_file(&skip);
    let (passed, text) = results(&test_greet(&home, &only).exits(1));
    assert_eq!(passed, vec![None; 3], "{text}");
    assert!(home.path("out/iteration-3/eval-ada/with_skill/ungraded-1").is_dir());
    let allowed = ["--only", "greet/ada", "--allow-skipped"];
    drop(test_greet(&home, &allowed).success());
}

#[test]
fn judges_need_evidence() {
    let judged = |reply: &str| {
        let home = eval_home("rules: [{say: 'March, July.'}]\n", &json!(["names two months"]));
        home.write("judge.yaml", format!("rules: [{{say: '{reply}'}}]\n"));
        let args = ["--only", "greet/ada", "--judge", "court/m", "--runs", "1"];
        let output = test_greet(&home, &args);
        let results = output.json()["models"][0]["cases"][0]["runs"][0]["grading"].clone();
        results["assertion_results"][0].clone()
    };
    let passed = |reply: &str| judged(reply)["passed"].clone();
    assert_eq!(passed(r#"{"passed": true, "evidence": "March, July."}"#), true);
    assert_eq!(passed(r#"{"passed": true, "evidence": "April"}"#), false);
    assert_eq!(passed(r#"{"passed": false, "evidence": ""}"#), false);
    let prose = judged("Yes, it names two months.");
    assert_eq!(prose["passed"], Value::Null);
    assert!(prose["evidence"].as_str().unwrap().contains("not the required JSON"), "{prose}");
}

#[test]
fn stubs_replace_tools() {
    let model = "rules:
  - when: {turn: 0}
    call: {tool: run_command, arguments: {command: 'touch made', directory: sandbox}}
  - when: {answered: run_command, failed: true}
    say: It was refused.
  - when: {answered: run_command, answer: [Three tests]}
    say: It said so.
  - say: It had no output.
";
    let answer = |suite: &str, expected: &str| {
        let home = eval_home(model, &contains(expected));
        home.write("sandbox/skills/greet/evals/suite.yaml", suite);
        drop(test_greet(&home, &["--only", "greet/ada", "--runs", "1"]).success());
        assert!(!home.path("sandbox/made").exists());
    };
    answer("runs: 1\n", "It had no output.");
    answer("tools: {run_command: {say: Three tests passed.}}\n", "It said so.");
    answer("tools: {run_command: real}\n", "It was refused.");
}

#[test]
fn cases_are_hidden_from_runs() {
    let model = "rules:
  - when: {turn: 0}
    call:
      - {tool: read_skill_resource, arguments: {skill_id: greet, path: evals/evals.json}}
      - {tool: find_files, arguments: {}}
  - say: '{{all read_skill_resource}}'
";
    let home = eval_home(model, &json!([{"type": "not-contains", "value": "Please greet Ada"}]));
    home.write("sandbox/skills/greet/evals/suite.yaml", "tools: {find_files: real}\n");
    let output = test_greet(&home, &["--only", "greet/ada", "--runs", "1"]).success();
    let transcript = home.path("out/iteration-1/eval-ada/with_skill/run-1/transcript.jsonl");
    let transcript = fs::read_to_string(transcript).unwrap();
    // The prompt is there once, as the message of the user.
    assert_eq!(transcript.matches("Please greet Ada").count(), 1, "{output}{transcript}");
}

#[test]
fn run_home_is_separate_and_removed() {
    let model = "rules:
  - when: {turn: 0}
    call: {tool: read_file, arguments: {path: 'workspace:project/plan.txt'}}
  - when: {answered: read_file, failed: true}
    call: {tool: write_file, arguments: {path: made.txt, content: x}}
  - when: {answered: write_file, failed: false}
    say: Hello, welcome.
  - say: The workspace of the settings was read.
";
    let home = eval_home(model, &contains("welcome"));
    home.write(
        "sandbox/skills/greet/evals/suite.yaml",
        "tools: {read_file: real, write_file: real}",
    );
    home.write("project/plan.txt", "first the roof");
    // An absolute path, which the home of a run would reach as well.
    let project = home.path("project").display().to_string();
    let workspaces = format!("workspaces: [{{label: project, path: {project}}}]\n");
    let home = home.settings(&format!("{SETTINGS}{workspaces}"));
    let read = ["tool", "call", "read_file", r#"{"path": "workspace:project/plan.txt"}"#];
    assert!(home.skillhost(read).success().stdout.contains("first the roof"));

    let temporary = home.outside().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let args = ["skill", "test", "greet", "--model", "noisy/m", "--only", "greet/ada", "--json"];
    let output = home.start(home.command().args(args).env("TMPDIR", &temporary)).finish();
    assert_eq!(counts(&report(&output.success())["arms"][0]["passed"]), (3, 3));
    assert!(!home.path("sandbox/made.txt").exists());
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}
