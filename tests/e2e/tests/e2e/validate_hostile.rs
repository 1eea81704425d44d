//! Tests of `skillhost skill validate` and `lint` with hostile files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::fixtures::{run_as_reader, untrusted_home};

const FORMATS: [&str; 5] = ["human", "json", "jsonl", "sarif", "github"];

fn valid_skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Counts. Use when asked to count.\n---\nCount.\n")
}

fn run_check(home: &TestHome, command: &str, args: &[&str]) -> Output {
    home.skillhost(["skill", command].iter().chain(args))
}

/// Returns the path of each line of `--jsonl` and the rules that it names.
fn rule_lines(output: &Output) -> Vec<String> {
    let lines = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            let found = line["diagnostics"].as_array().unwrap().iter();
            let rules: Vec<&str> = found.map(|found| found["rule"].as_str().unwrap()).collect();
            format!("{} {}", line["path"].as_str().unwrap(), rules.join(" ")).trim().to_owned()
        })
        .collect()
}

#[test]
fn invalid_files_do_not_stop_validation() {
    let home = TestHome::new()
        .file("in/a-good/SKILL.md", valid_skill("a-good"))
        .file("in/latin/SKILL.md", b"---\nname: latin\ndescription: Caf\xe9.\n---\nBody.\n")
        .file("in/large/SKILL.md", "x".repeat((1 << 20) + 1))
        .file("in/z-good/SKILL.md", valid_skill("z-good"));
    for directory in ["pipe", "folder/SKILL.md", "link", "dangling", "not-utf8"] {
        fs::create_dir_all(home.path("in").join(directory)).unwrap();
    }
    let pipe = home.path("in/pipe/SKILL.md");
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0).unwrap();
    symlink("../a-good/SKILL.md", home.path("in/link/SKILL.md")).unwrap();
    symlink("nowhere", home.path("in/dangling/SKILL.md")).unwrap();
    let odd = home.path("in/not-utf8").join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("SKILL.md"), valid_skill("cafe")).unwrap();

    let output = run_check(&home, "validate", &["in", "--jsonl"]).exits(1);
    insta::assert_snapshot!(rule_lines(&output).join("\n"), @"
    in/a-good/SKILL.md
    in/dangling/SKILL.md file.symlink
    in/folder/SKILL.md file.notRegular
    in/large/SKILL.md file.maxSize
    in/latin/SKILL.md file.encoding
    in/link/SKILL.md file.symlink
    in/not-utf8/caf� id.invalid
    in/pipe/SKILL.md file.notRegular
    in/z-good/SKILL.md
    ");
    // A single path has the same finding.
    let single = run_check(&home, "validate", &["in/pipe/SKILL.md", "in/pipe", "--jsonl"]).exits(1);
    assert_eq!(rule_lines(&single), ["in/pipe/SKILL.md file.notRegular"; 2]);
    for command in ["validate", "lint"] {
        for format in FORMATS {
            let output = run_check(&home, command, &["in", "--format", format]).exits(1);
            assert_eq!(output.stderr, "", "{command} {format}");
            assert!(output.stdout.contains("latin/SKILL.md"), "{command} {format}");
        }
    }
}

#[test]
fn unreadable_file_is_io_error() {
    let home = untrusted_home()
        .file("in/a-good/SKILL.md", valid_skill("a-good"))
        .file("in/closed/SKILL.md", valid_skill("closed"))
        .file("in/shut/inner/SKILL.md", valid_skill("inner"));
    let close = |path: &str, mode| {
        fs::set_permissions(home.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    close("in/closed/SKILL.md", 0o000);
    close("in/shut", 0o000);
    let output = run_as_reader(&home, &["skill", "validate", "in"]);
    let report = run_as_reader(&home, &["skill", "validate", "in", "--json"]);
    close("in/shut", 0o755);
    insta::assert_snapshot!(output, @"
    exit 5
    --- stdout
    1 skill: valid; 2 problems
    --- stderr
    error: in/closed/SKILL.md: it may not be read
    hint: check its read permissions
    error: in/shut/SKILL.md: it may not be read
    hint: check its read permissions
    ");
    let report = report.exits(5).json();
    assert_eq!(report["summary"]["skills"], 1);
    assert_eq!(report["summary"]["problems"], 2);
}

#[test]
fn thousands_of_directories_are_scanned_quickly() {
    let home = TestHome::new();
    for number in 0..2_000 {
        let name = format!("skill-{number:04}");
        let inner = if number % 2 == 0 { "SKILL.md" } else { "notes.md" };
        home.write(format!("many/{:02}/{name}/{inner}", number % 20), valid_skill(&name));
    }
    let output = run_check(&home, "validate", &["many"]).success();
    assert_eq!((&*output.stdout, &*output.stderr), ("1000 skills: all valid\n", ""));
    let report = run_check(&home, "validate", &["many", "--jsonl"]).success();
    let paths: Vec<String> = rule_lines(&report);
    assert_eq!(paths.len(), 1_000);
    assert!(paths.is_sorted(), "the order depends on the disk");
}

/// Creates a skill with terminal control sequences in every part.
fn hostile_home() -> TestHome {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{e0041}\r";
    let (long, longer) = ("y".repeat(25_000), "z".repeat(900_000));
    TestHome::new().file(
        format!("in/{}/SKILL.md", evil.replace('\r', "\n::error::x\r%0A")),
        format!(
            "---\nname: \"{evil}::set-output name=x::y%0A\"\ndescription: [press](http://example.com) {{0}} {evil}\n{evil}: x\n{long}: {long}\n---\n{evil}{longer}\n"
        ),
    )
}

#[test]
fn every_format_escapes_control_characters() {
    let home = hostile_home();
    for command in ["validate", "lint"] {
        for format in FORMATS {
            let output = run_check(&home, command, &["in", "--format", format]).exits(1);
            let steers =
                |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{2066}\u{e0041}".contains(c);
            assert!(!output.stdout.contains(steers), "{command} {format}");
            assert!(!output.stderr.contains(steers), "{command} {format}");
            let longest = output.stdout.lines().map(|line| line.chars().count()).max().unwrap();
            if format == "human" {
                assert!(longest < 700, "{command} {longest}");
            }
        }
    }
}

#[test]
fn text_is_not_workflow_command() {
    for command in ["validate", "lint"] {
        let output = run_check(&hostile_home(), command, &["in", "--format", "github"]).exits(1);
        let mut lines: Vec<&str> = output.stdout.lines().collect();
        lines.pop();
        assert!(lines.len() > 2);
        for line in lines {
            let (command, message) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
            let (command, properties) = command.split_once(' ').unwrap();
            assert!(["error", "warning", "notice"].contains(&command), "{line:.200}");
            let keys: Vec<&str> =
                properties.split(',').map(|it| it.split_once('=').unwrap().0).collect();
            assert!(keys.starts_with(&["file"]) && keys.ends_with(&["title"]), "{keys:?}");
            assert!(keys.len() <= 4 && !message.is_empty(), "{line:.200}");
        }
    }
}

#[test]
fn json_keeps_original_text() {
    let home = hostile_home();
    let report = run_check(&home, "validate", &["in", "--json"]).exits(1);
    assert!(report.json()["skills"][0]["path"].as_str().unwrap().contains("\u{1b}]0;owned\u{7}"));
    let sarif = run_check(&home, "validate", &["in", "--format", "sarif"]).exits(1).json();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let uri = &results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    let uri = uri.as_str().unwrap();
    assert!(uri.starts_with("in/%1B%5D0%3Bowned%07%1B%5B2J%C2%9B31m") && uri.is_ascii(), "{uri}");
}

#[test]
fn closed_stdout_is_not_an_error() {
    let home = TestHome::new();
    for number in 0..300 {
        // The output exceeds the buffer of a pipe.
        home.write(format!("in/skill-{number}/SKILL.md"), "---\nname: NO\n---\n");
    }
    for command in ["validate", "lint"] {
        for format in FORMATS {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut skillhost = home.command();
            skillhost.args(["skill", command, "in", "--format", format]);
            let child = skillhost.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
            // `command` holds a write end of the pipe as well.
            drop(skillhost);
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{command} {format}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command} {format}");
        }
    }
}

#[test]
fn path_without_utf8_is_checked() {
    let home = TestHome::new();
    let directory = home.path("").join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir_all(directory.join("beads")).unwrap();
    fs::write(directory.join("beads/SKILL.md"), valid_skill("beads")).unwrap();
    let run = |format: &str| {
        let args = ["skill".as_ref(), "validate".as_ref(), "--format".as_ref(), OsStr::new(format)];
        home.skillhost(args.into_iter().chain([OsStr::from_bytes(b"caf\xe9")])).success()
    };
    assert_eq!(run("human").stdout, "1 skill: valid\n");
    assert_eq!(run("json").json()["skills"][0]["path"], json!("caf\u{fffd}/beads/SKILL.md"));
    let list = home.path("list");
    fs::write(&list, b"caf\xe9/beads\n").unwrap();
    run_check(&home, "validate", &["--paths-from", "list"]).success();
}
