//! What lets skillhost take part elsewhere: manual pages, pre-commit hooks, a GitHub action.

use std::fs;
use std::path::Path;
use std::process::Command;

use test_support::{Output, TestHome, binary};

use crate::scene::repository;

const GOOD: &str = "---\nname: beads\ndescription: Counts beads. Use when asked.\n---\nCount.\n";

#[test]
fn every_command_has_a_manual_page() {
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
    for part in [".TH skillhost-skill-validate 1", "paths\\-from", "sarif", "Exit codes"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let told = home.skillhost(["man", "pages/man1", "--json"]).success().json();
    assert_eq!(told["pages"].as_array().unwrap().len(), names.len());
    fs::write(home.path("file"), "").unwrap();
    home.skillhost(["man", "file"]).exits(4);
}

#[test]
fn the_hooks_are_commands_that_take_files() {
    let text = fs::read_to_string(repository().join(".pre-commit-hooks.yaml")).unwrap();
    let entries: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("entry: skillhost ")).collect();
    assert_eq!(entries, ["skill validate", "skill lint", "skill fmt"]);
    let home = TestHome::new().file("beads/SKILL.md", GOOD).file("jars/SKILL.md", GOOD);
    for (file, code) in [("beads/SKILL.md", 0), ("jars/SKILL.md", 1)] {
        let words = entries[0].split(' ').chain([file]);
        home.skillhost(words).exits(code);
    }
}

/// Runs the last step of the action as the runner does: the inputs are in the environment.
fn action(home: &TestHome, inputs: &[(&str, &str)]) -> Output {
    let text = fs::read_to_string(repository().join("action.yml")).unwrap();
    let (_, script) = text.rsplit_once("      run: |\n").unwrap();
    let script: String = script
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line).to_owned() + "\n")
        .collect();
    let path = std::env::var("PATH").unwrap();
    let folder = binary().parent().unwrap().display().to_string();
    let mut command = home.command_of(Path::new("/bin/bash"));
    command
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script])
        .env("PATH", format!("{folder}:{path}"))
        .env("SKILLHOST_COMMAND", "validate")
        .env("SKILLHOST_PROFILE", "spec")
        .env("SKILLHOST_FORMAT", "github")
        .env("SKILLHOST_OUTPUT", "")
        .envs(inputs.iter().copied());
    home.start(&mut command).finish()
}

#[test]
fn the_action_annotates_and_fails() {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let home = TestHome::new().file("a b/beads/SKILL.md", GOOD).file("jars/SKILL.md", GOOD);
    let good = action(&home, &[("SKILLHOST_PATHS", "a b/beads")]).success();
    assert_eq!(good.stdout, "1 skill: valid\n");
    let bad = action(&home, &[("SKILLHOST_PATHS", "a b\njars\n\n")]).exits(1);
    assert!(bad.stdout.starts_with("::error file=jars/SKILL.md,line=2,col=7,title="), "{bad}");
    let into = [("SKILLHOST_PATHS", "jars"), ("SKILLHOST_OUTPUT", "out.sarif")];
    let written = action(&home, &[&into[..], &[("SKILLHOST_FORMAT", "sarif")]].concat()).exits(1);
    assert_eq!(written.stdout, "");
    assert!(fs::read_to_string(home.path("out.sarif")).unwrap().contains("\"2.1.0\""));
}

#[test]
fn no_input_of_the_action_becomes_part_of_its_script() {
    let text = fs::read_to_string(repository().join("action.yml")).unwrap();
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
    action(&home, &[("SKILLHOST_PATHS", evil)]).exits(3);
    for input in ["SKILLHOST_COMMAND", "SKILLHOST_PROFILE", "SKILLHOST_FORMAT"] {
        let refused = action(&home, &[("SKILLHOST_PATHS", "beads"), (input, evil)]).exits(2);
        assert!(!refused.stdout.contains("Usage"), "{refused}");
    }
    let mut names: Vec<_> =
        fs::read_dir(home.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["beads", "sandbox"]);
}

#[test]
fn the_scripts_of_the_action_are_shell() {
    let text = fs::read_to_string(repository().join("action.yml")).unwrap();
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
