//! Tests of manual pages, pre-commit hooks and the GitHub action.

use std::fs;
use std::path::Path;
use std::process::Command;

use test_support::{Output, TestHome, binary};

use crate::fixtures::repository_root;

const GOOD: &str = "---\nname: beads\ndescription: Counts beads. Use when asked.\n---\nCount.\n";

#[test]
fn every_command_has_manual_page() {
    let home = TestHome::new();
    let output = home.skillhost(["man", "pages/man1"]).success();
    let mut names: Vec<String> = fs::read_dir(home.path("pages/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(output.stdout, format!("{} pages in pages/man1\n", names.len()));
    for name in ["skillhost.1", "skillhost-man.1", "skillhost-skill-validate.1"] {
        assert!(names.contains(&name.to_owned()), "{name} of {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("help")), "{names:?}");
    let page = fs::read_to_string(home.path("pages/man1/skillhost-skill-validate.1")).unwrap();
    for part in [".TH skillhost-skill-validate 1", "files\\-from", "sarif", "Exit codes"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let report = home.skillhost(["man", "pages/man1", "--json"]).success().json();
    assert_eq!(report["pages"].as_array().unwrap().len(), names.len());
    fs::write(home.path("file"), "").unwrap();
    home.skillhost(["man", "file"]).exits(4);
}

#[test]
fn hooks_accept_file_arguments() {
    let text = fs::read_to_string(repository_root().join(".pre-commit-hooks.yaml")).unwrap();
    let entries: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("entry: skillhost ")).collect();
    assert_eq!(entries, ["skill validate", "skill lint", "skill fmt"]);
    let home = TestHome::new().file("beads/SKILL.md", GOOD).file("jars/SKILL.md", GOOD);
    for (file, code) in [("beads/SKILL.md", 0), ("jars/SKILL.md", 1)] {
        let words = entries[0].split(' ').chain([file]);
        home.skillhost(words).exits(code);
    }
}

/// Runs the last step of the action as the runner does, with the inputs in the environment.
fn run_action(home: &TestHome, inputs: &[(&str, &str)]) -> Output {
    let text = fs::read_to_string(repository_root().join("action.yml")).unwrap();
    let (_, script) = text.rsplit_once("      run: |\n").unwrap();
    let script: String = script
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line).to_owned() + "\n")
        .collect();
    let path = std::env::var("PATH").unwrap();
    let directory = binary().parent().unwrap().display().to_string();
    let mut command = home.command_of(Path::new("/bin/bash"));
    command
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script])
        .env("PATH", format!("{directory}:{path}"))
        .env("SKILLHOST_COMMAND", "validate")
        .env("SKILLHOST_PROFILE", "spec")
        .env("SKILLHOST_FORMAT", "github")
        .env("SKILLHOST_OUTPUT", "")
        .envs(inputs.iter().copied());
    home.start(&mut command).finish()
}

#[test]
fn action_annotates_and_fails() {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let home = TestHome::new().file("a b/beads/SKILL.md", GOOD).file("jars/SKILL.md", GOOD);
    let good = run_action(&home, &[("SKILLHOST_PATHS", "a b/beads")]).success();
    assert_eq!(good.stdout, "1 skill: valid\n");
    let bad = run_action(&home, &[("SKILLHOST_PATHS", "a b\njars\n\n")]).exits(1);
    assert!(bad.stdout.starts_with("::error file=jars/SKILL.md,line=2,col=7,title="), "{bad}");
    let into = [("SKILLHOST_PATHS", "jars"), ("SKILLHOST_OUTPUT", "out.sarif")];
    let written =
        run_action(&home, &[&into[..], &[("SKILLHOST_FORMAT", "sarif")]].concat()).exits(1);
    assert_eq!(written.stdout, "");
    assert!(fs::read_to_string(home.path("out.sarif")).unwrap().contains("\"2.1.0\""));
}

#[test]
fn action_inputs_are_not_executed() {
    let text = fs::read_to_string(repository_root().join("action.yml")).unwrap();
    let mut in_script = false;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        in_script = (in_script && (indent > 6 || line.is_empty())) || line.trim() == "run: |";
        assert!(!in_script || !line.contains("${{"), "{line}");
    }
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let home = TestHome::new().file("beads/SKILL.md", GOOD);
    let evil = "x; touch pwned #$(touch pwned)`touch pwned`\" || touch pwned\n--help";
    run_action(&home, &[("SKILLHOST_PATHS", evil)]).exits(3);
    for command in [evil, "fmt", "lint --fix"] {
        let inputs = [("SKILLHOST_PATHS", "beads"), ("SKILLHOST_COMMAND", command)];
        let denied = run_action(&home, &inputs).exits(2);
        let error = "::error::the input command is neither validate nor lint\n";
        assert_eq!((&*denied.stdout, &*denied.stderr), (error, ""));
    }
    for input in ["SKILLHOST_PROFILE", "SKILLHOST_FORMAT"] {
        let denied = run_action(&home, &[("SKILLHOST_PATHS", "beads"), (input, evil)]).exits(2);
        assert!(!denied.stdout.contains("Usage"), "{denied}");
    }
    let mut names: Vec<_> =
        fs::read_dir(home.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["beads", "sandbox"]);
}

#[test]
fn action_scripts_parse_as_shell() {
    let text = fs::read_to_string(repository_root().join("action.yml")).unwrap();
    for script in text.split("      run: |\n").skip(1) {
        let script: Vec<&str> =
            script.lines().take_while(|line| line.starts_with("        ")).collect();
        let Ok(checked) = Command::new("bash").args(["-n", "-c", &script.join("\n")]).output()
        else {
            return;
        };
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}
