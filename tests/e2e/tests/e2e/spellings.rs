//! Tests of earlier spellings of commands and options, and of the options that all commands share.

use std::fs;

use test_support::{Output, TestHome};

use crate::fixtures::{home, skill_md};

/// Pairs of an earlier and the present spelling.
const SPELLINGS: &[(&[&str], &[&str])] = &[
    (&["threads", "list"], &["thread", "list"]),
    (&["threads", "show", "0"], &["thread", "show", "0"]),
    (&["events", "tail"], &["event", "tail"]),
    (&["events", "dead"], &["event", "dead-letters"]),
    (&["events", "retry", "9"], &["event", "retry", "9"]),
    (&["models", "list"], &["model", "list"]),
    (&["ext", "list"], &["extension", "list"]),
    (&["config"], &["config", "show"]),
    (&["mcp", "install", "claude", "--print"], &["mcp", "config", "claude"]),
    (&["skill", "resource", "greet", "more.md"], &["skill", "read", "greet", "more.md"]),
    (&["skill", "triads", "sandbox/skills"], &["skill", "roles", "sandbox/skills"]),
    (
        &["skill", "graph", "sandbox/skills", "--mermaid"],
        &["skill", "graph", "sandbox/skills", "--format", "mermaid"],
    ),
    (
        &["skill", "fmt", "sandbox/skills", "--check", "--jsonl"],
        &["skill", "fmt", "sandbox/skills", "--check", "--format", "jsonl"],
    ),
    (
        &["skill", "cost", "sandbox/skills", "--jsonl"],
        &["skill", "cost", "sandbox/skills", "--format", "jsonl"],
    ),
    (
        &["skill", "cost", "sandbox/skills", "--window", "8000"],
        &["skill", "cost", "sandbox/skills", "--context-window", "8000"],
    ),
    (
        &["skill", "validate", "--paths-from", "paths"],
        &["skill", "validate", "--files-from", "paths"],
    ),
    (
        &["skill", "lint", "sandbox/skills", "--jsonl"],
        &["skill", "lint", "sandbox/skills", "--format", "jsonl"],
    ),
    (&["skill", "proposals"], &["skill", "proposal", "list"]),
    (&["skill", "review", "7"], &["skill", "proposal", "review", "7"]),
    (
        &["skill", "reject", "7", "--reason", "x"],
        &["skill", "proposal", "reject", "7", "--reason", "x"],
    ),
    (&["skill", "rebase", "7"], &["skill", "proposal", "rebase", "7"]),
    (
        &["skill", "approve", "7", "--yes", "--digest", "0123456789ab"],
        &["skill", "proposal", "approve", "7", "--yes", "--digest", "0123456789ab"],
    ),
    (&["skill", "audit-log", "--since", "1"], &["skill", "audit-log", "--after", "1"]),
    (
        &["skill", "doctor", "--agent", "guide", "--prompt", "Greet"],
        &["skill", "explain", "--agent", "guide", "--prompt", "Greet"],
    ),
    (
        &["export", "--to", "claude", "--user", "--check", "--allow", "greet"],
        &[
            "skill",
            "export",
            "--to",
            "claude",
            "--scope",
            "user",
            "--check",
            "--allow-untrusted",
            "greet",
        ],
    ),
];

/// A home with a skill, a file of the skill, an agent and a list of paths.
fn furnished_home() -> TestHome {
    home()
        .skill("greet", &skill_md("Greets people. Use when asked.", "Say hello."))
        .file("sandbox/skills/greet/more.md", "More.\n")
        .file("paths", "sandbox/skills/greet\n")
        .manifest("guide", "id: guide\nname: Guide\nagent: {instructions: Hi.}\n")
}

fn parts(output: &Output) -> (i32, &str, &str) {
    (output.status, &output.stdout, &output.stderr)
}

#[test]
fn earlier_spellings_give_same_output() {
    let home = furnished_home();
    for (earlier, present) in SPELLINGS {
        let (old, new) = (home.skillhost(*earlier), home.skillhost(*present));
        assert_eq!(parts(&old), parts(&new), "{earlier:?}");
        // A usage error would be the same for both.
        assert!(!new.stderr.contains("Usage:"), "{present:?}: {new}");
    }
}

#[test]
fn earlier_spellings_are_not_listed() {
    let help = home().skillhost(["--help"]).success().stdout;
    for word in ["threads", "events", "models", "export"] {
        assert!(!help.contains(&format!("\n  {word}")), "{word}: {help}");
    }
    let help = home().skillhost(["skill", "--help"]).success().stdout;
    for word in ["proposals", "review", "reject", "rebase", "resource", "triads"] {
        assert!(!help.contains(&format!("\n  {word} ")), "{word}: {help}");
    }
}

#[test]
fn symlink_export_has_both_spellings() {
    let home = furnished_home();
    home.skillhost(["export", "--to", "./old", "--link", "greet"]).success();
    home.skillhost(["skill", "export", "--to", "./new", "--symlink", "greet"]).success();
    for directory in ["old", "new"] {
        let metadata = fs::symlink_metadata(home.path(directory).join("greet")).unwrap();
        assert!(metadata.is_symlink(), "{directory}");
    }
}

#[test]
fn color_option_overrides_terminal() {
    let home = furnished_home();
    let list = |when: &str| home.skillhost(["skill", "list", "--color", when]).success().stdout;
    assert!(list("always").contains('\u{1b}'), "{}", list("always"));
    assert!(!list("never").contains('\u{1b}') && !list("auto").contains('\u{1b}'));
    home.skillhost(["skill", "list", "--color", "sometimes"]).exits(2);
}
