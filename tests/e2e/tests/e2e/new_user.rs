//! The first steps of users of five kinds, with the output that they see.

use std::fs;

use serde_json::Value;
use test_support::TestHome;

use crate::fixtures::{agent_manifest, home, start_kernel};

const BEADS: &str = "---\nname: beads\ndescription: Counts beads. Use when asked.\ntype: guide\n---\n\nOpen \
     `scripts\\a.py`. \nOpen `scripts\\b.py`.\n";

/// A repository with skills, which is no home.
fn repository() -> TestHome {
    let home = TestHome::new();
    let root = home.outside().join("repo");
    for (path, text) in [("skills/beads/SKILL.md", BEADS), (".git/HEAD", "")] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

fn run_in_repository(home: &TestHome, args: &[&str]) -> test_support::Output {
    let mut command = home.command();
    home.start(command.current_dir(home.outside().join("repo")).args(args)).finish()
}

#[test]
fn author_reads_totals_and_remedies() {
    let home = repository();
    let shown = run_in_repository(&home, &["skill", "lint", "skills"]).exits(1).stdout;
    let (_, totals) = shown.split_once("1 skill: ").unwrap();
    insta::assert_snapshot!(totals, @"
    invalid; 1 error, 3 warnings, 1 note
    3 fixable with --fix
    ");
    assert!(shown.contains("as `skillhost skill fmt --portable` does"), "{shown}");
    let dry = run_in_repository(&home, &["skill", "lint", "--fix", "--dry-run", "skills"]).exits(1);
    assert!(dry.stdout.contains("+Open `scripts/a.py`."), "{dry}");
}

#[test]
fn author_needs_no_home() {
    let home = repository();
    for args in [&["skill", "list"][..], &["skill", "search", "beads"], &["skill", "show", "beads"]]
    {
        let output = run_in_repository(&home, args).success();
        assert!(output.stdout.contains("beads"), "{output}");
        assert!(output.stderr.contains("no home here: these are the skills in"), "{output}");
    }
}

#[test]
fn operator_learns_process_and_state() {
    let home = home();
    let kernel = start_kernel(&home);
    let second = home.skillhost(["run"]).exits(4).stderr;
    let second = second.replace(&kernel.id().to_string(), "PID");
    insta::assert_snapshot!(second, @"
    error: skillhost already runs for [HOME], as process PID
    hint: see: skillhost status; stop it: skillhost stop; or use another --home
    ");
    kernel.interrupt().success();
    home.skillhost(["service", "install", "--print"]).success();
}

#[test]
fn operator_reads_one_event_per_line() {
    let home = home().manifest("worker", &agent_manifest("worker", "  instructions: Work.\n"));
    let kernel = start_kernel(&home);
    home.skillhost(["ask", "--agent", "worker", "hello"]).success();
    kernel.interrupt().success();
    let lines = home.skillhost(["event", "tail", "--json"]).success().stdout;
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().any(|event| event.to_string().contains("user.message")), "{lines}");
}

#[test]
fn agent_user_learns_why_script_answers() {
    let home = home().manifest("worker", &agent_manifest("worker", "  instructions: Work.\n"));
    let asked = home.skillhost(["ask", "--agent", "worker", "hello"]).success();
    assert!(asked.stderr.contains("answers of a built-in script"), "{asked}");
    assert!(asked.stderr.contains("models.default in skillhost.yaml or with --model"), "{asked}");
    assert!(asked.stdout.contains("skillhost model check"), "{asked}");
    assert!(asked.stderr.contains("resume the thread with: --thread "), "{asked}");
}

#[test]
fn extension_author_sees_next_commands() {
    let home = home();
    let made = home.skillhost(["ext", "new", "words", "--template", "process-python"]).success();
    let next: Vec<&str> = made.stdout.lines().filter(|line| line.starts_with("  ")).collect();
    let expected = [
        "  skillhost ext build words",
        "  skillhost ext doctor",
        "  skillhost tool call words_count_words '{\"text\": \"one two\"}'",
    ];
    assert_eq!(next, expected);
    let source = fs::read_to_string(
        crate::fixtures::repository_root().join("kernel/builder/templates/lib.rs.in"),
    );
    let source = source.unwrap();
    assert!(source.contains("`skillhost ext build {{id}}` compiles"));
    let shown = home.skillhost(["tool", "show", "echo"]).success();
    assert!(shown.stdout.starts_with("echo  echo\n"), "{shown}");
}

#[test]
fn extension_author_sees_progress_of_build() {
    let home = home();
    home.skillhost(["ext", "new", "words", "--template", "process-python"]).success();
    let mut command = home.command();
    let mut terminal = home.on_terminal(command.args(["ext", "build", "words"]), (120, 60));
    terminal.wait_for("build and install words? [y]es, [N]o");
    terminal.send("y\r");
    terminal.wait_for("checking, building and trying words: 0 s");
    let left = terminal.finish();
    // Without Python the trial fails.
    assert!([0, 1].contains(&left.output.status), "{}", left.output);
    let piped = home.skillhost(["ext", "build", "words", "--yes"]);
    assert!(!piped.stderr.contains("checking, building"), "{piped}");
}

#[test]
fn help_has_examples_and_conventions() {
    let home = TestHome::new();
    let help = home.skillhost(["skill", "--help"]).success().stdout;
    for part in ["Find and read:", "Write and check:", "--quiet", "--verbose", "--color"] {
        assert!(help.contains(part), "{part} in {help}");
    }
    for args in
        [&["skill", "lint"][..], &["ext", "new"], &["mcp", "install"], &["thread", "delete"]]
    {
        let help = home.skillhost(args.iter().chain(&["--help"])).success().stdout;
        assert!(help.contains("\nExamples:\n  # "), "{args:?}: {help}");
    }
    let thread = home.skillhost(["thread", "--help"]).success().stdout;
    assert!(thread.contains("[alias: ls]") && thread.contains("[alias: rm]"), "{thread}");
    home.skillhost(["config", "--color", "sometimes"]).exits(2);
}
