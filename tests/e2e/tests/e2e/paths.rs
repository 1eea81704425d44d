//! Tests of resource paths that lead out of a skill, through every entry point.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use test_support::{Output, TestHome};

use crate::fixtures::{home, start_kernel};

/// Creates a home with a secret next to the skill and links to it.
fn linked_home() -> TestHome {
    let home = home()
        .file("sandbox/skills/greet/notes/names.txt", "Ada\n")
        .file("sandbox/skills/secret.txt", "SECRET\n");
    let greet = home.path("sandbox/skills/greet");
    symlink("../secret.txt", greet.join("link.txt")).unwrap();
    symlink(home.path("sandbox/skills"), greet.join("up")).unwrap();
    symlink("notes/names.txt", greet.join("inside.txt")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        greet.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    home
}

/// Returns paths with their exit code and a part of their error.
fn rejected_paths() -> Vec<(String, i32, &'static str)> {
    [
        ("..", 5, "component `.` or `..`"),
        ("../secret.txt", 5, "component `.` or `..`"),
        ("notes/../../secret.txt", 5, "component `.` or `..`"),
        ("./notes/names.txt", 5, "component `.` or `..`"),
        ("/etc/passwd", 5, "cannot be absolute"),
        ("//etc/passwd", 5, "cannot be absolute"),
        (r"..\secret.txt", 5, "backslash"),
        (r"notes\names.txt", 5, "backslash"),
        ("C:/secret.txt", 5, "drive"),
        ("%2e%2e/secret.txt", 3, "has no file %2e%2e/secret.txt"),
        ("%2e%2e%2fsecret.txt", 3, "has no file"),
        ("notes//names.txt", 2, "empty component"),
        ("notes/", 2, "empty component"),
        ("", 2, "empty"),
        ("notes", 2, "notes is a directory"),
        ("link.txt", 5, "symbolic link"),
        ("inside.txt", 5, "symbolic link"),
        ("up/secret.txt", 5, "symbolic link"),
        ("pipe", 5, "not a regular file"),
        ("absent.txt", 3, "has no file absent.txt"),
    ]
    .into_iter()
    .map(|(path, code, message)| (path.to_owned(), code, message))
    .chain([("a".repeat(8 << 10), 2, "bytes"), ("a/".repeat(4 << 10) + "b", 2, "bytes")])
    .collect()
}

fn assert_rejected(output: &Output, path: &str, code: i32, message: &str) {
    let prefix: String = path.chars().take(40).collect();
    assert_eq!(output.status, code, "{prefix:?}: {output}");
    assert_eq!(output.stdout, "", "{prefix:?}");
    assert!(output.stderr.contains(message), "{prefix:?}: {output}");
    assert!(output.stderr.contains("\nhint: "), "{prefix:?}: {output}");
    assert!(output.stderr.len() < 1024, "{prefix:?}: {} bytes", output.stderr.len());
    assert!(!output.stderr.contains("SECRET"), "{prefix:?}: {output}");
}

#[test]
fn command_paths_stay_in_skill() {
    let home = linked_home();
    for (path, code, message) in rejected_paths() {
        assert_rejected(
            &home.skillhost(["skill", "resource", "greet", &path]),
            &path,
            code,
            message,
        );
    }
    home.skillhost(["skill", "resource", "greet", "notes/names.txt"]).success();
}

#[test]
fn tool_paths_stay_in_skill() {
    let home = linked_home();
    let kernel = start_kernel(&home);
    let call = |path: &str| {
        let arguments = json!({ "skill_id": "greet", "path": path }).to_string();
        home.skillhost(["tool", "call", "read_skill_resource", &arguments])
    };
    for (path, code, message) in rejected_paths() {
        assert_rejected(&call(&path), &path, code, message);
    }
    // A NUL byte cannot be in a program's argument, but in an argument of a tool.
    assert_rejected(&call("notes/names.txt\0.png"), "NUL", 2, "cannot contain NUL");
    assert_eq!(call("notes/names.txt").success().stdout, "Ada\n");
    kernel.interrupt().success();
}

#[test]
fn skill_id_is_not_path() {
    let home = linked_home();
    for id in ["../skills/greet", "greet/notes", "/etc", ".", "..", "greet/", "greet\\", ""] {
        let output = home.skillhost(["skill", "read", id]).exits(3);
        assert!(output.stderr.contains("not found"), "{id:?}: {output}");
    }
    let long = home.skillhost(["skill", "read", &"a".repeat(8 << 10)]).exits(3);
    assert!(long.stderr.len() < 1024, "{} bytes", long.stderr.len());
}

#[test]
fn link_targets_are_not_listed() {
    let home = linked_home();
    let prefix = home.skillhost(["skill", "show", "greet", "--json"]).success().json();
    let paths: Vec<_> =
        prefix["resources"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
    assert_eq!(paths, ["notes/names.txt"]);
    insta::assert_snapshot!(prefix["notes"].to_string(), @r#"["4 entries of the skill's directory cannot be read: links, special or unreadable files, or names that are not UTF-8"]"#);
    // The directory of a skill may be a link whose target is in a root.
    symlink("greet", home.path("sandbox/skills/alias")).unwrap();
    fs::create_dir(home.outside().join("far")).unwrap();
    fs::write(home.outside().join("far/SKILL.md"), "---\ndescription: Far.\n---\nFar.\n").unwrap();
    symlink(home.outside().join("far"), home.path("sandbox/skills/far")).unwrap();
    insta::assert_snapshot!(home.skillhost(["skill", "list"]), @"
    exit 0
    --- stdout
    alias  Greets people. Use when somebody arrives. [~5 tokens, sandbox]
    greet  Greets people. Use when somebody arrives. [~5 tokens, sandbox]
    --- stderr
    note: skipped [HOME]/sandbox/skills/far: error[link.outside]: it links out of the roots, to [OUTSIDE]/far
    note: 2 warnings; `skillhost skill show ID` prints those of a skill
    ");
}
