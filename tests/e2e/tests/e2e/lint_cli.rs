//! Tests of `skillhost skill lint`: findings and fixes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::fixtures::{run_as_reader, untrusted_home};

const HEAD: &str = "---\nname: beads\ndescription: Counts beads in jars. Use when the user asks how many beads there are.\n---\n";

fn beads_home(rest: &str) -> TestHome {
    TestHome::new().file("beads/SKILL.md", format!("{HEAD}{rest}"))
}

fn run_lint(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost(["skill", "lint"].iter().chain(args))
}

fn beads_text(home: &TestHome) -> String {
    fs::read_to_string(home.path("beads/SKILL.md")).unwrap()
}

#[test]
fn findings_have_file_positions() {
    let home = beads_home("# Count\n\nOpen `scripts\\count.py`.\nDone.");
    insta::assert_snapshot!(run_lint(&home, &["beads"]), @r"
    exit 1
    --- stdout
    warning[backslash-path]: `scripts\count.py` is written with backslashes
     --> beads/SKILL.md:7:6
      |
    7 | Open `scripts\count.py`.
      |      ^^^^^^^^^^^^^^^^^^^
      |
      = help: write it with slashes

    note[final-newline]: the last line has no line end
     --> beads/SKILL.md:8:6
      |
    8 | Done.
      |      ^
      |
      = help: end the file with one

    1 skill: valid; 1 warning, 1 note
    2 fixable with --fix
    ");
}

#[test]
fn notes_do_not_fail_lint() {
    let home = beads_home("Count them.\nDone.");
    let report = run_lint(&home, &["beads", "--json"]).success().json();
    assert_eq!(report["skills"][0]["diagnostics"][0]["rule"], "final-newline");
    assert_eq!(report["summary"]["notes"], 1);
    assert!(report["skills"][0].get("fixed").is_none());
}

#[test]
fn fix_applies_and_reports_fixes() {
    let home = beads_home("# Count\n\nOpen `scripts\\count.py`.\nA b\u{200b}ead.\nDone.");
    insta::assert_snapshot!(run_lint(&home, &["beads", "--fix"]), @"
    exit 0
    --- stdout
    beads/SKILL.md: 3 fixed

    1 skill: valid; 3 fixed
    ");
    let expected = format!("{HEAD}# Count\n\nOpen `scripts/count.py`.\nA bead.\nDone.\n");
    assert_eq!(beads_text(&home), expected);
    let second = run_lint(&home, &["beads", "--fix", "--json"]).json();
    assert_eq!(
        (&second["skills"][0]["fixed"], &second["summary"]["fixed"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(beads_text(&home), expected);
    assert_eq!(fs::read_dir(home.path("beads")).unwrap().count(), 1, "nothing is left over");
}

#[test]
fn fix_keeps_mode_and_removes_bom() {
    let home = TestHome::new().file("beads/SKILL.md", format!("\u{feff}{HEAD}Count."));
    let path = home.path("beads/SKILL.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let report = run_lint(&home, &["beads", "--fix", "--json"]).json();
    assert_eq!(report["summary"]["fixed"], 2);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(beads_text(&home), format!("{HEAD}Count.\n"));
}

#[test]
fn fix_skips_utf16_files() {
    let utf16: Vec<u8> = [0xFF, 0xFE]
        .into_iter()
        .chain(format!("{HEAD}Count.").encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let home = TestHome::new().file("beads/SKILL.md", &utf16);
    let report = run_lint(&home, &["beads", "--fix", "--json"]).json();
    assert_eq!(report["skills"][0]["fixed"], 0);
    assert_eq!(fs::read(home.path("beads/SKILL.md")).unwrap(), utf16);
}

#[test]
fn fix_reports_read_only_file() {
    let home = untrusted_home().file("in/beads/SKILL.md", format!("{HEAD}Count."));
    let output = run_as_reader(&home, &["skill", "lint", "--fix", "in/beads"]).exits(5);
    insta::assert_snapshot!(output, @"
    exit 5
    --- stdout
    note[final-newline]: the last line has no line end
     --> in/beads/SKILL.md:5:7
      |
    5 | Count.
      |       ^
      |
      = help: end the file with one

    1 skill: valid; 1 note
    1 fixable with --fix
    --- stderr
    error: in/beads/SKILL.md cannot be replaced: Permission denied (os error 13)
    hint: it is as it was
    ");
    assert_eq!(
        fs::read_to_string(home.path("in/beads/SKILL.md")).unwrap(),
        format!("{HEAD}Count.")
    );
    let locked = beads_home("Count.");
    let path = locked.path("beads/SKILL.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let denied = run_lint(&locked, &["beads", "--fix"]).exits(5);
    assert!(denied.stderr.contains("permission denied"), "{denied}");
    assert_eq!(beads_text(&locked), format!("{HEAD}Count."));
}

#[test]
fn lint_rejects_reference_format() {
    let home = beads_home("Count.\n");
    let args = ["beads", "--profile", "reference", "--format", "reference"];
    insta::assert_snapshot!(run_lint(&home, &args), @"
    exit 2
    --- stderr
    error: the reference validator has no lint
    hint: `skillhost skill validate` has its form
    ");
}

/// Creates two skills with the same words, and one with a missing dependency.
fn catalog_home() -> TestHome {
    let alike = HEAD.replace("beads\n", "jars\n");
    let needy = "---\nname: lids\ndescription: Shuts jars with lids. Use when a jar is open.\nmetadata:\n  requires: hinges\n---\nShut.\n";
    beads_home("Count.\n")
        .file("jars/SKILL.md", format!("{alike}Count.\n"))
        .file("lids/SKILL.md", needy)
        .file("zips/SKILL.md", "---\nname: zips\ndescription: Zips. Use when open.\n---\nZip.\n")
}

#[test]
fn lint_compares_skills() {
    let home = catalog_home();
    insta::assert_snapshot!(run_lint(&home, &["."]), @r#"
    exit 1
    --- stdout
    warning[description-quality]: the description has only 20 characters
     --> zips/SKILL.md:3:14
      |
    3 | description: Zips. Use when open.
      |              ^^^^^^^^^^^^^^^^^^^^
      |
      = help: say what the skill does and when to use it: add "Use when the user asks to …"

    warning[catalog-overlap]: the description says the same as that of `beads`
     --> jars/SKILL.md:3:14
      |
    3 | description: Counts beads in jars. Use when the user asks how many beads there are.
      |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: say in each when to use it and not the other, or make one skill of the two

    warning[requires-unresolved]: there is no skill `hinges`
     --> lids/SKILL.md:5:3
      |
    5 |   requires: hinges
      |   ^^^^^^^^
      |
      = help: add the skill, or remove it from `requires`

    4 skills: all valid; 3 warnings
      1  catalog-overlap
      1  description-quality
      1  requires-unresolved
    "#);
    // A single skill has no other skill to compare it with.
    for id in ["beads", "jars"] {
        run_lint(&home, &[id]).success();
    }
}

#[test]
fn cross_skill_findings_name_each_skill() {
    let home = catalog_home();
    let lines = run_lint(&home, &["jars", "gone", "lids", "zips", "beads", "--jsonl"]).exits(3);
    let report: Vec<String> = lines
        .stdout
        .lines()
        .map(|line| {
            let skill: Value = serde_json::from_str(line).unwrap();
            let found = skill["diagnostics"].as_array().unwrap().iter();
            let rules: Vec<_> = found.map(|found| found["rule"].as_str().unwrap()).collect();
            format!("{} {} {}", skill["path"], skill["properties"]["name"], rules.join(" "))
        })
        .collect();
    insta::assert_snapshot!(report.join("\n"), @r#"
    "jars/SKILL.md" "jars" 
    "gone" null path.notFound
    "lids/SKILL.md" "lids" requires-unresolved
    "zips/SKILL.md" "zips" description-quality
    "beads/SKILL.md" "beads" catalog-overlap
    "#);
    let object =
        run_lint(&home, &["jars", "gone", "lids", "zips", "beads", "--json"]).exits(3).json();
    let objects: Vec<Value> =
        lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(object["skills"], json!(objects));
    for format in ["sarif", "github"] {
        let output = run_lint(&home, &[".", "--format", format]).exits(1);
        assert!(output.stdout.contains("requires-unresolved"), "{output}");
    }
}

#[test]
fn explain_prints_rule_documentation() {
    let home = TestHome::new();
    let page = run_lint(&home, &["--explain", "context-budget"]).success().stdout;
    assert!(page.contains("context-budget") && page.contains("## Why is this bad?"), "{page}");
    let denied = run_lint(&home, &["--explain", "context-bugdet"]).exits(3);
    assert!(denied.stderr.contains("context-budget"), "{denied}");
}

#[test]
fn new_skill_is_reported_until_written() {
    for template in ["minimal", "full", "script", "reference"] {
        let home = TestHome::new();
        home.skillhost(["skill", "new", "bead-jars", "--template", template, "--dir", "."])
            .success();
        let report = run_lint(&home, &["bead-jars", "--json"]).exits(1).json();
        let found = report["skills"][0]["diagnostics"].as_array().unwrap();
        let at_description =
            |it: &&Value| it["rule"] == "placeholder-text" && it["line"] == 3 && it["column"] == 14;
        assert_eq!(found.iter().filter(at_description).count(), 1, "{template}: {report}");
    }
}
