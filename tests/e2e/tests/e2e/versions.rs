//! Tests of skill versions: the first one, the one that is served while a file is broken, and
//! removed ones.

use std::fs;

use serde_json::Value;
use test_support::TestHome;

use crate::fixtures::{
    agent_manifest, home, skill_md, start_kernel, untrusted_home, wait_for_poll,
};

const GREET: &str = "sandbox/skills/greet/SKILL.md";

fn skill_history(home: &TestHome) -> Vec<Value> {
    let history = home.skillhost(["skill", "history", "greet", "--json"]).success().json();
    history["versions"].as_array().unwrap().clone()
}

#[test]
fn run_records_initial_version() {
    let home = home();
    let original = fs::read_to_string(home.path(GREET)).unwrap();
    let kernel = start_kernel(&home);
    wait_for_poll(&home, &kernel, "sandbox/skills", "probe");
    // `sed -i` and editors leave such temporary files.
    home.write("sandbox/skills/greet/sedAb12Cd", "half");
    home.write(GREET, format!("{original}More.\n"));
    kernel.line_with("skill.version.created greet ");
    let versions = skill_history(&home);
    assert_eq!(versions.len(), 2, "{versions:?}");
    assert_eq!((&versions[0]["files"], &versions[1]["files"]), (&1.into(), &1.into()));
    let first = versions[0]["tree"].as_str().unwrap();
    home.skillhost(["skill", "rollback", "greet", "--yes", "--digest", first]).success();
    assert_eq!(fs::read_to_string(home.path(GREET)).unwrap(), original);

    fs::remove_dir_all(home.path("sandbox/skills/greet")).unwrap();
    kernel.line_with("skill.removed greet ");
    kernel.interrupt().success();
    let rollback = ["skill", "rollback", "greet", "1", "--yes", "--digest", first];
    home.skillhost(rollback).success();
    assert_eq!(fs::read_to_string(home.path(GREET)).unwrap(), original);
}

#[test]
fn agents_keep_last_valid_skills() {
    let home = untrusted_home()
        .manifest(
            "worker",
            &agent_manifest("worker", "  instructions: Work.\n  uses_skills: [greet]\n"),
        )
        .trusted();
    let kernel = start_kernel(&home);
    wait_for_poll(&home, &kernel, "sandbox/skills", "probe");
    kernel.interrupt().success();
    home.write(GREET, "broken");
    let kernel = start_kernel(&home);
    wait_for_poll(&home, &kernel, "sandbox/skills", "again");
    kernel.interrupt().success();
    let prompt = ["ask", "--print-prompt", "--agent", "worker", "hi"];
    let prompt = home.skillhost(prompt).success();
    assert!(prompt.stdout.contains("Say hello to them."), "{prompt}");
    let read = home.skillhost(["tool", "call", "read_skill", r#"{"skill_id":"greet"}"#]).success();
    assert!(read.stdout.contains("Say hello to them."), "{read}");
}

#[test]
fn fmt_records_previous_version() {
    let home = home();
    let original = "---\nname: greet\ndescription: 'Greets: people.'\n---\nHello.\n";
    home.write(GREET, original);
    home.skillhost(["skill", "fmt", "sandbox/skills/greet"]).success();
    assert_ne!(fs::read_to_string(home.path(GREET)).unwrap(), original);
    let versions = skill_history(&home);
    assert_eq!(versions.len(), 2, "{versions:?}");
    let first = versions[0]["tree"].as_str().unwrap();
    home.skillhost(["skill", "rollback", "greet", "--yes", "--digest", first]).success();
    assert_eq!(fs::read_to_string(home.path(GREET)).unwrap(), original);
    // An untrusted home gets no ledger.
    let home = untrusted_home();
    home.write(GREET, original);
    home.skillhost(["skill", "fmt", "sandbox/skills/greet"]).success();
    assert!(!home.path("sandbox/data/skill_registry").exists());
}

#[test]
fn prune_lists_removed_versions() {
    let home = home();
    for number in 0..5 {
        home.write(GREET, skill_md("Greets people.", &format!("Say hello {number} times.")));
        skill_history(&home);
    }
    let prune = |args: &[&str]| home.skillhost([&["skill", "prune"], args].concat()).success();
    let would = prune(&["--keep", "2", "--dry-run"]);
    assert_eq!(
        would.stdout,
        "would remove 2 versions of 1 skill, 2 texts (1 KiB) and 0 readings\n"
    );
    assert_eq!(skill_history(&home).len(), 5);
    let removed = prune(&["--keep", "2"]).stdout;
    assert!(
        removed.starts_with("removed 2 versions of 1 skill, 2 texts (1 KiB) and 0 readings\n"),
        "{removed}"
    );
    let numbers: Vec<u64> =
        skill_history(&home).iter().map(|version| version["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 4, 5]);
    let report = prune(&["--json"]).json();
    assert_eq!((&report["dry_run"], &report["removed"]["versions"]), (&false.into(), &0.into()));
    home.skillhost(["skill", "prune", "--keep", "0"]).exits(2);
}
