//! `skillhost skill lint`: what it finds and what it mends.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::scene::{as_a_reader, untrusted_home};

const HEAD: &str = "---\nname: beads\ndescription: Counts beads in jars. Use when the user asks how many beads there are.\n---\n";

fn beads(rest: &str) -> TestHome {
    TestHome::new().file("beads/SKILL.md", format!("{HEAD}{rest}"))
}

fn lint(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost(["skill", "lint"].iter().chain(args))
}

fn text(home: &TestHome) -> String {
    fs::read_to_string(home.path("beads/SKILL.md")).unwrap()
}

#[test]
fn findings_point_into_the_file() {
    let home = beads("# Count\n\nOpen `scripts\\count.py`.\nDone.");
    insta::assert_snapshot!(lint(&home, &["beads"]), @r"
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

    1 skill: valid, 1 warning, 1 note
    ");
}

#[test]
fn notes_alone_are_no_failure() {
    let home = beads("Count them.\nDone.");
    let told = lint(&home, &["beads", "--json"]).success().json();
    assert_eq!(told["skills"][0]["diagnostics"][0]["rule"], "final-newline");
    assert_eq!(told["summary"]["notes"], 1);
    assert!(told["skills"][0].get("fixed").is_none());
}

#[test]
fn what_can_be_mended_is_mended_and_told() {
    let home = beads("# Count\n\nOpen `scripts\\count.py`.\nA b\u{200b}ead.\nDone.");
    insta::assert_snapshot!(lint(&home, &["beads", "--fix"]), @"
    exit 0
    --- stdout
    beads/SKILL.md: 3 mended

    1 skill: valid, 3 mended
    ");
    let expected = format!("{HEAD}# Count\n\nOpen `scripts/count.py`.\nA bead.\nDone.\n");
    assert_eq!(text(&home), expected);
    let again = lint(&home, &["beads", "--fix", "--json"]).json();
    assert_eq!(
        (&again["skills"][0]["fixed"], &again["summary"]["fixed"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(text(&home), expected);
    assert_eq!(fs::read_dir(home.path("beads")).unwrap().count(), 1, "nothing is left over");
}

#[test]
fn mending_keeps_the_mode_and_the_byte_order_mark() {
    let home = TestHome::new().file("beads/SKILL.md", format!("\u{feff}{HEAD}Count."));
    let path = home.path("beads/SKILL.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let told = lint(&home, &["beads", "--fix", "--json"]).json();
    assert_eq!(told["summary"]["fixed"], 1);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(text(&home), format!("\u{feff}{HEAD}Count.\n"));
}

#[test]
fn a_text_whose_places_are_not_its_bytes_is_left_alone() {
    let utf16: Vec<u8> = [0xFF, 0xFE]
        .into_iter()
        .chain(format!("{HEAD}Count.").encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let home = TestHome::new().file("beads/SKILL.md", &utf16);
    let told = lint(&home, &["beads", "--fix", "--json"]).json();
    assert_eq!(told["skills"][0]["fixed"], 0);
    assert_eq!(fs::read(home.path("beads/SKILL.md")).unwrap(), utf16);
}

#[test]
fn a_file_that_may_not_be_written_is_named_and_stays() {
    let home = untrusted_home().file("in/beads/SKILL.md", format!("{HEAD}Count."));
    let output = as_a_reader(&home, &["skill", "lint", "--fix", "in/beads"]).exits(5);
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

    1 skill: valid, 1 note
    --- stderr
    error: in/beads/SKILL.md cannot be replaced: Permission denied (os error 13)
    hint: it is as it was
    ");
    assert_eq!(
        fs::read_to_string(home.path("in/beads/SKILL.md")).unwrap(),
        format!("{HEAD}Count.")
    );
    let locked = beads("Count.");
    let path = locked.path("beads/SKILL.md");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let refused = lint(&locked, &["beads", "--fix"]).exits(5);
    assert!(refused.stderr.contains("permission denied"), "{refused}");
    assert_eq!(text(&locked), format!("{HEAD}Count."));
}

#[test]
fn the_form_of_another_command_is_refused() {
    let home = beads("Count.\n");
    let args = ["beads", "--profile", "reference", "--format", "reference"];
    insta::assert_snapshot!(lint(&home, &args), @"
    exit 2
    --- stderr
    error: the reference validator has no lint
    hint: `skillhost skill validate` has its form
    ");
}
