//! Tests of manual pages and pre-commit hooks.

use std::fs;

use test_support::TestHome;

use crate::fixtures::repository_root;

pub(crate) const GOOD: &str =
    "---\nname: beads\ndescription: Counts beads. Use when asked.\n---\nCount.\n";

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
