//! The repository itself: its commands, its texts and its tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{files, none, read, root};

#[test]
fn ci_runs_the_same_as_people() {
    let text = read(Path::new(".ci/run"));
    let commands: Vec<_> = text.lines().filter(|line| line.starts_with("cargo")).collect();
    assert_eq!(commands, ["cargo xtask test"]);
    assert_eq!(text.lines().last(), Some("cargo xtask test"));
    for fresh in ["CARGO_HOME=\"$fresh/", "CARGO_TARGET_DIR=\"$fresh/", "rm -rf \"$fresh\""] {
        assert!(text.contains(fresh), "{fresh}");
    }
}

#[test]
fn the_product_speaks_of_itself_alone() {
    // Assembled here, so that this file does not contain them.
    let words = [
        ["/work", "/main"].concat(),
        ["/work", "/scratch"].concat(),
        ["/root", "/"].concat(),
        ["index.", "crates.io"].concat(),
        ["static.", "crates.io"].concat(),
    ];
    let text_files = ["rs", "md", "toml", "yaml", "yml", "jinja2", "in", "json", "txt", "snap"];
    let mut findings = Vec::new();
    for path in files() {
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        if !text_files.contains(&extension.as_str()) {
            continue;
        }
        let bytes = fs::read(root().join(&path)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for word in &words {
            if text.contains(word.as_str()) {
                findings.push(format!("{} has {word}", path.display()));
            }
        }
    }
    none("paths of a machine or hosts of a registry", &findings);
}

#[test]
fn every_test_file_is_part_of_its_binary() {
    let search = "extensions/skill_registry/search/tests/search";
    for folder in ["tests/e2e/tests/e2e", "tests/abi/tests/boundary", search] {
        let main = read(&Path::new(folder).join("main.rs"));
        let mut modules = 0;
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if path.extension().is_some_and(|extension| extension == "rs") && name != "main" {
                assert!(main.contains(&format!("mod {name};")), "{folder}/{name}.rs is forgotten");
                modules += 1;
            }
        }
        assert!(modules > 5, "{folder}");
    }
}

/// The output of git in this repository, or `None` without a git directory.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn commits_have_a_component_and_a_short_subject() {
    // The first commit that has the rule; earlier ones are exempt, and so is a copy without history.
    let rule = "-Scomponent: imperative verb";
    let commits = git(&["log", "--reverse", "--format=%H", rule, "--", "CONTRIBUTING.md"]);
    let Some(first) = commits.and_then(|text| text.lines().next().map(str::to_owned)) else {
        return;
    };
    let range = format!("{first}..HEAD");
    let subjects = git(&["log", "--format=%h %p|%s", &range]).unwrap();
    let mut findings = Vec::new();
    for line in subjects.lines() {
        let (commit, subject) = line.split_once('|').unwrap();
        if commit.split(' ').count() > 2 {
            findings.push(format!("{line}: a merge"));
        }
        let is_word = |word: &str| {
            let is_part =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
            !word.is_empty() && word.chars().all(is_part)
        };
        let is_plain = subject.split_once(": ").is_some_and(|(components, verb)| {
            components.split(',').all(|component| is_word(component.trim_start()))
                && verb.split(' ').next().is_some_and(is_word)
                && !verb.ends_with('.')
        });
        if !is_plain || subject.chars().count() > 72 || subject.starts_with("wip") {
            findings.push(line.to_owned());
        }
    }
    none("commits that are not as CONTRIBUTING.md asks", &findings);
}
