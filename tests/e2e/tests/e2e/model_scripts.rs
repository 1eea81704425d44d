//! Tests of `skillhost skill test --model` with scripts as assertions.

use serde_json::{Value, json};
use test_support::{Output, TestHome, program};

use crate::fixtures::{agent_manifest, shipped_manifest};

const SETTINGS: &str =
    "models:\n  default: m/m\n  providers:\n    m: {wire: script, script: model.yaml}\n";

/// A model that writes a file and names a month.
const MODEL: &str = "rules:
  - when: {turn: 0}
    call: {tool: write_file, arguments: {path: 'workspace:work/out.txt', content: March}}
  - say: It is March.
";

/// Checks the answer on standard input and the file in the working directory.
const CHECK: &str = "#!/bin/sh
read -r input
case \"$input\" in *'\"answer\":\"It is March.\"'*) ;; *) echo 'no answer' >&2; exit 1 ;; esac
test \"$(cat out.txt)\" = March || { echo 'no file' >&2; exit 1; }
echo 'the file names March'
";

/// Fails, and tries to change the skill and a file of the home.
const HOSTILE: &str = "#!/bin/sh
echo changed > ../SKILL.md
echo changed > \"$1\"
echo 'it is April' >&2
exit 3
";

fn script_home(scripts: &[(&str, &str)]) -> TestHome {
    let agent = "  instructions: You work.\n  uses_tools: [skill_registry, core_tools]\n";
    let assertions: Vec<Value> = scripts
        .iter()
        .map(|(name, _)| json!({"type": "custom", "value": format!("script: evals/{name}")}))
        .collect();
    let evals =
        json!({"evals": [{"id": "ada", "prompt": "Which month?", "assertions": assertions}]});
    let home = TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("orchestrator_agent", &agent_manifest("orchestrator_agent", agent))
        .skill("greet", "---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n")
        .file("sandbox/skills/greet/evals/evals.json", evals.to_string())
        .file("sandbox/skills/greet/evals/suite.yaml", "tools: {write_file: real}\n")
        .file("model.yaml", MODEL)
        .settings(SETTINGS);
    let add = |home: TestHome, (name, text): &(&str, &str)| {
        home.file(format!("sandbox/skills/greet/evals/{name}"), *text)
    };
    scripts.iter().fold(home, add).trusted()
}

fn test_greet(home: &TestHome, more: &[&str]) -> Output {
    let base = ["skill", "test", "greet", "--model", "m/m", "--runs", "1", "--out", "out"];
    home.skillhost(base.iter().chain(&["--json"]).chain(more))
}

/// Returns the results of the run with the skill: whether each assertion holds, and its evidence.
fn results(output: &Output) -> Vec<(Option<bool>, String)> {
    let cases = output.json()["models"][0]["cases"].clone();
    let run = cases[0]["runs"][0]["grading"]["assertion_results"].clone();
    let result = |it: &Value| (it["passed"].as_bool(), it["evidence"].as_str().unwrap().to_owned());
    run.as_array().unwrap().iter().map(result).collect()
}

#[test]
fn scripts_check_answer_and_files() {
    let home = script_home(&[("check.sh", CHECK), ("hostile.sh", HOSTILE)]);
    let output = test_greet(&home, &["--run-scripts"]).exits(1);
    let results = results(&output);
    assert_eq!(results[0], (Some(true), "exit code 0: the file names March".to_owned()));
    assert_eq!(results[1], (Some(false), "exit code 3: it is April".to_owned()));
    // The script got a copy of the skill.
    let kept = std::fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    assert!(kept.contains("Say hello."), "{kept}");
}

#[test]
fn script_of_interpreter_checks_answer() {
    if program("python3").is_none() {
        return;
    }
    const CHECK: &str = "import json, sys\n\
        answer = json.load(sys.stdin)['answer']\n\
        print('checked: ' + answer)\n\
        sys.exit(4 if 'March' in answer else 0)\n";
    let home = script_home(&[("check.py", CHECK)]);
    let output = test_greet(&home, &["--run-scripts"]).exits(1);
    // A script that fails without a line on standard error has its reason on the other stream.
    let expected = (Some(false), "exit code 4: checked: It is March.".to_owned());
    assert_eq!(results(&output), [expected], "{output}");
}

#[test]
fn scripts_run_only_on_request() {
    let home = script_home(&[("check.sh", CHECK)]);
    let skipped = results(&test_greet(&home, &[]).exits(1));
    assert_eq!(skipped, [(None, "skipped: a script requires --run-scripts".to_owned())]);
}

#[test]
fn scripts_that_cannot_run_are_skipped() {
    let home = script_home(&[("check.sh", CHECK), ("killed.sh", "#!/bin/sh\nkill -9 $$\n")]);
    std::fs::remove_file(home.path("sandbox/skills/greet/evals/check.sh")).unwrap();
    let output = test_greet(&home, &["--run-scripts"]).exits(1);
    let results = results(&output);
    assert_eq!(results[0].0, None, "{output}");
    assert!(results[0].1.contains("evals/check.sh"), "{output}");
    assert_eq!(results[1], (None, "skipped: the script: ended by signal 9".to_owned()));
}
