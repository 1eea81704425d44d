//! Tests of `skillhost skill fmt` and `skillhost skill new`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use serde_json::json;
use test_support::TestHome;

use crate::fixtures::repository_root;

/// Creates a home with one canonical, one fixable and one unfixable skill.
fn skills_home() -> TestHome {
    TestHome::new()
        .file("skills/fine/SKILL.md", "---\nname: fine\ndescription: Counts.\n---\nBody\n")
        .file(
            "skills/odd/SKILL.md",
            "\u{feff}---\r\ndescription: 'It: counts.'\r\nname: odd\r\n--- \r\nBody\r\n",
        )
        .file("skills/beyond/SKILL.md", "---\nname: &a beyond\ndescription: *a\n---\n")
}

const FORMATTED: &str = "---\nname: odd\ndescription: \"It: counts.\"\n---\nBody\r\n";

fn read_text(home: &TestHome, path: &str) -> String {
    fs::read_to_string(home.path(path)).unwrap()
}

#[test]
fn fmt_skips_lossy_changes() {
    let home = skills_home();
    let odd = home.path("skills/odd/SKILL.md");
    fs::set_permissions(&odd, fs::Permissions::from_mode(0o640)).unwrap();
    let beyond = read_text(&home, "skills/beyond/SKILL.md");
    insta::assert_snapshot!(home.skillhost(["skill", "fmt", "skills"]), @"
    exit 1
    --- stdout
    formatted skills/odd/SKILL.md
    1 formatted, 1 unchanged, 1 refused
    --- stderr
    error: skills/beyond/SKILL.md:2: the anchor `&a` is ignored, and other readers may interpret it differently
    hint: write it in plain YAML, or put the text in quotes
    ");
    assert_eq!(read_text(&home, "skills/odd/SKILL.md"), FORMATTED);
    assert_eq!(fs::metadata(&odd).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(read_text(&home, "skills/beyond/SKILL.md"), beyond);
    let names: Vec<_> = fs::read_dir(home.path("skills/odd")).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file stays behind");
    home.skillhost(["skill", "fmt", "skills/odd", "skills/fine"]).success();
}

#[test]
fn check_shows_pending_changes() {
    let home = skills_home();
    let before = read_text(&home, "skills/odd/SKILL.md");
    insta::assert_snapshot!(home.skillhost(["skill", "fmt", "--check", "skills/odd", "skills/fine"]), @r#"
    exit 1
    --- stdout
    would format skills/odd/SKILL.md
      @@ -1,4 +1,4 @@
      ----␍
      -description: 'It: counts.'␍
      -name: odd␍
      ---- ␍
      +---
      +name: odd
      +description: "It: counts."
      +---
    1 would be formatted, 1 unchanged
    "#);
    assert_eq!(read_text(&home, "skills/odd/SKILL.md"), before);
    home.skillhost(["skill", "fmt", "--check", "skills/fine"]).success();
}

#[test]
fn json_reports_each_file() {
    let home = skills_home();
    let output = home.skillhost(["skill", "fmt", "--json", "skills"]);
    let object = output.exits(1).json();
    let status: Vec<_> =
        object["skills"].as_array().unwrap().iter().map(|skill| &skill["status"]).collect();
    assert_eq!(status, ["refused", "unchanged", "formatted"]);
    assert_eq!(object["skills"][0]["problem"]["line"], json!(2));
    assert_eq!(
        object["summary"],
        json!({ "unchanged": 1, "formatted": 1, "would_format": 0, "refused": 1, "failed": 0 })
    );
    let lines = home.skillhost(["skill", "fmt", "--jsonl", "nowhere", "skills/fine"]).exits(3);
    assert_eq!(lines.stdout.lines().count(), 2);
}

#[test]
fn portable_moves_fields() {
    let home = TestHome::new().file(
        "a/SKILL.md",
        "---\nname: a\ndescription: Counts.\ntags: [x, y]\nuser-invocable: false\n---\n",
    );
    insta::assert_snapshot!(home.skillhost(["skill", "fmt", "--portable", "a"]), @"
    exit 0
    --- stdout
    formatted a/SKILL.md
    1 formatted
    --- stderr
    note: a/SKILL.md: `user-invocable` stays at the top: it decides who may use the skill
    ");
    assert_eq!(
        read_text(&home, "a/SKILL.md"),
        "---\nname: a\ndescription: Counts.\nmetadata:\n  tags: x, y\nuser-invocable: false\n---\n"
    );
}

#[test]
fn fmt_skips_unwritable_files() {
    let home = skills_home();
    fs::create_dir(home.path("skills/link")).unwrap();
    symlink(home.path("skills/odd/SKILL.md"), home.path("skills/link/SKILL.md")).unwrap();
    let odd = home.path("skills/odd/SKILL.md");
    fs::set_permissions(&odd, fs::Permissions::from_mode(0o440)).unwrap();
    let before = read_text(&home, "skills/odd/SKILL.md");
    home.skillhost(["skill", "fmt", "skills/odd"]).exits(5);
    let output = home.skillhost(["skill", "fmt", "skills/link"]);
    assert_ne!(output.stderr, "");
    assert_eq!(read_text(&home, "skills/odd/SKILL.md"), before);
    assert!(fs::symlink_metadata(home.path("skills/link/SKILL.md")).unwrap().is_symlink());
}

#[test]
fn templates_pass_every_profile() {
    let home = TestHome::new();
    for template in ["minimal", "full", "script", "reference"] {
        let id = format!("tea-{template}");
        let args = ["skill", "new", &id, "--template", template, "--dir", "made", "--json"];
        let made = home.skillhost(args).success().json();
        for file in made["files"].as_array().unwrap() {
            let file = file.as_str().unwrap().trim_start_matches("[HOME]/");
            assert!(home.path(file).is_file(), "{file}");
        }
    }
    for profile in ["lenient", "spec", "reference", "skillscraft", "seed-strict", "anthropic"] {
        for command in ["validate", "lint"] {
            let output = home.skillhost(["skill", command, "made", "--profile", profile, "--json"]);
            let object = output.json();
            for skill in object["skills"].as_array().unwrap() {
                let mut found: Vec<_> = skill["diagnostics"].as_array().unwrap().iter().collect();
                // What the author has to write is reported, and nothing else.
                found.retain(|it| command == "validate" || it["rule"] != "placeholder-text");
                assert!(found.is_empty(), "{command} {profile} {found:?}");
            }
        }
    }
    home.skillhost(["skill", "fmt", "--check", "made"]).success();
    let script = home.path("made/tea-script/scripts/run.sh");
    assert_eq!(fs::metadata(script).unwrap().permissions().mode() & 0o100, 0o100);
}

#[test]
fn new_skill_overwrites_no_skill() {
    let home = TestHome::new();
    insta::assert_snapshot!(home.skillhost(["skill", "new", "tea-time"]), @"
    exit 0
    --- stdout
    made [HOME]/sandbox/skills/tea-time
    next:
      write in `description` what it does and when to use it
      edit [HOME]/sandbox/skills/tea-time/SKILL.md
      skillhost skill validate [HOME]/sandbox/skills/tea-time
      skillhost skill lint [HOME]/sandbox/skills/tea-time
    ");
    let text = read_text(&home, "sandbox/skills/tea-time/SKILL.md");
    insta::assert_snapshot!(home.skillhost(["skill", "new", "tea-time"]), @"
    exit 4
    --- stderr
    error: [HOME]/sandbox/skills/tea-time: File exists (os error 17)
    hint: choose another id
    ");
    assert_eq!(read_text(&home, "sandbox/skills/tea-time/SKILL.md"), text);
    for id in ["Tea", "tea--time", "-tea", "../tea", "claude-tea", "", "tea time"] {
        let output = home.skillhost(["skill", "new", "--", id]).exits(2);
        assert!(output.stderr.contains("cannot be the id of a skill"), "{id} {}", output.stderr);
    }
    insta::assert_snapshot!(home.skillhost(["skill", "new", "tea", "--template", "list"]), @"
    exit 2
    --- stderr
    error: template `list` not found
    hint: the templates are
    hint: minimal: instructions alone
    hint: full: every field of the specification, and a reference
    hint: script: instructions around a script
    hint: reference: answers out of references
    hint: handler: a tool in JavaScript
    hint: handler-python: a tool in Python
    ");
}

#[test]
fn failed_new_leaves_no_files() {
    let home = TestHome::new().file("sandbox/skills/.skillhost-tmp-2147483646-new-x/SKILL.md", "x");
    let ago = SystemTime::now() - Duration::from_secs(7_200);
    let leftover = home.path("sandbox/skills/.skillhost-tmp-2147483646-new-x");
    fs::File::open(&leftover).unwrap().set_modified(ago).unwrap();
    // The file occupies the path of the new directory.
    home.write("sandbox/skills/tea", "mine");
    home.skillhost(["skill", "new", "tea", "--template", "full"]).exits(4);
    home.skillhost(["skill", "new", "coffee", "--template", "script"]).success();
    let mut names: Vec<_> = fs::read_dir(home.path("sandbox/skills"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["coffee", "tea"]);
    let script = home.path("sandbox/skills/coffee/scripts/run.sh");
    assert_ne!(fs::metadata(script).unwrap().permissions().mode() & 0o100, 0);
}

#[test]
fn shipped_skills_are_formatted() {
    let shipped = repository_root().join("sandbox/skills");
    let home = TestHome::new();
    home.skillhost([
        OsStr::new("skill"),
        OsStr::new("fmt"),
        OsStr::new("--check"),
        shipped.as_ref(),
    ])
    .success();
}
