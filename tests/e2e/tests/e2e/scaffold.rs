//! Tests of `skillhost ext new`: a template is built and used as its author would.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use test_support::{Output, TestHome, program};

use crate::builds::{cargo_build, shared_target};
use crate::fixtures::{home, repository_root, start_kernel};

/// Builds a new extension offline with the versions of the repository and returns its library. The
/// dependencies are built once for all tests.
fn build_crate(crate_dir: &Path) -> PathBuf {
    let id = crate_dir.file_name().unwrap().to_str().unwrap();
    let library = format!("lib{}.so", id.replace('-', "_"));
    let target = shared_target();
    let mut build = cargo_build(&crate_dir.join("Cargo.toml"), &target);
    let output = build.output().expect("cargo starts");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    assert_eq!(messages, "", "a scaffold builds without warnings");
    target.join("release").join(library)
}

/// Copies a library next to the manifest of its extension and approves it.
fn install_library(home: &TestHome, built: &Path, id: &str) {
    let directory = home.path("sandbox/extensions").join(id);
    fs::copy(built, directory.join("new")).unwrap();
    fs::rename(directory.join("new"), directory.join(built.file_name().unwrap())).unwrap();
    home.approve(id);
}

fn call_tool(home: &TestHome, arguments: &str) -> Output {
    home.skillhost(["tool", "call", "tea_time_greet", arguments])
}

#[test]
fn new_extension_builds_loads_and_reloads() {
    let home = home();
    let sdk = repository_root().join("kernel/sdk");
    home.start(home.command().args(["ext", "new", "tea-time", "--sdk"]).arg(sdk))
        .finish()
        .success();
    let directory = home.path("sandbox/extensions/tea-time");
    let install = |built: &Path| install_library(&home, built, "tea-time");

    fs::copy(repository_root().join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    install(&build_crate(&directory));
    home.skillhost(["ext", "doctor"]).success();
    let kernel = start_kernel(&home);
    assert_eq!(
        call_tool(&home, r#"{"name":"Ada"}"#).success().stdout,
        "Hello, Ada! This is tea-time.\n"
    );
    insta::assert_snapshot!(call_tool(&home, "{}"), @"
    exit 2
    --- stderr
    error: arguments of `tea_time_greet` are not valid: field `name` is missing
    hint: see the tool's input schema: skillhost tool list --json
    ");

    let source = fs::read_to_string(directory.join("src/lib.rs")).unwrap();
    fs::write(directory.join("src/lib.rs"), source.replace("Hello, {name}!", "Tea, {name}?"))
        .unwrap();
    install(&build_crate(&directory));
    home.skillhost(["ext", "reload", "tea-time"]).success();
    assert_eq!(
        call_tool(&home, r#"{"name":"Ada"}"#).success().stdout,
        "Tea, Ada? This is tea-time.\n"
    );
    kernel.interrupt().success();
}

/// Creates an extension from a template of the SDK, builds its crate and approves it.
fn install_template(home: &TestHome, template: &str, id: &str) -> Output {
    let sdk = repository_root().join("kernel/sdk");
    let arguments = ["ext", "new", id, "--template", template, "--sdk"];
    let made = home.start(home.command().args(arguments).arg(sdk)).finish().success();
    let directory = home.path("sandbox/extensions").join(id);
    fs::copy(repository_root().join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    install_library(home, &build_crate(&directory), id);
    made
}

#[test]
fn context_template_adds_block() {
    let home = home();
    let made = install_template(&home, "context", "team-rules");
    insta::assert_snapshot!(made.stdout, @"
    made [HOME]/sandbox/extensions/team-rules
    next:
      skillhost ext build team-rules
      skillhost ext doctor
      skillhost ask --print-prompt hello
    ");
    home.skillhost(["ext", "doctor"]).success();
    let listed = home.skillhost(["ext", "list"]).success();
    assert!(listed.stdout.contains("context 50"), "{listed}");
}

#[test]
fn service_template_runs() {
    let home = home();
    let made = install_template(&home, "service", "watcher");
    assert!(made.stdout.ends_with("  skillhost ext doctor\n  skillhost run\n"), "{made}");
    home.skillhost(["ext", "doctor"]).success();
    let kernel = start_kernel(&home);
    home.write("sandbox/skills/new/SKILL.md", "---\ndescription: New.\n---\nNew.\n");
    kernel.line_with("skill.added: new");
    kernel.interrupt().success();
}

/// Returns whether a program is missing, with a notice: only these tests need it.
fn is_missing(name: &str) -> bool {
    let missing = program(name).is_none();
    if missing {
        // Standard error may be closed; that must not fail the test.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name} not found");
    }
    missing
}

/// Runs the commands that `ext new` prints, for a template of a process.
fn run_next_commands(home: &TestHome, made: &Output) -> Output {
    let commands: Vec<_> = made.stdout.lines().skip(2).collect();
    let build: Vec<_> = commands[0].split_whitespace().skip(1).chain(["--yes"]).collect();
    home.skillhost(build).success();
    let doctor: Vec<_> = commands[1].split_whitespace().skip(1).collect();
    home.skillhost(doctor).success();
    let (call, arguments) = commands[2].trim().split_once(" '").unwrap_or((commands[2], "'"));
    let call = call.split_whitespace().skip(1).map(str::to_owned);
    let arguments = arguments.trim_end_matches('\'').to_owned();
    let arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
    home.skillhost(call.chain(arguments)).success()
}

#[test]
fn python_template_is_called() {
    if is_missing("python3") {
        return;
    }
    let home = home();
    for id in ["word-stats", "other_stats"] {
        let made = home.skillhost(["ext", "new", id, "--template", "process-python"]).success();
        let called = run_next_commands(&home, &made);
        assert_eq!(called.stdout, "2 words, the longest is 'one'\n");
    }
}

#[test]
fn node_template_is_called() {
    if is_missing("node") {
        return;
    }
    let home = home();
    let made = home.skillhost(["ext", "new", "line-stats", "--template", "process-node"]).success();
    assert_eq!(run_next_commands(&home, &made).stdout, "1 lines\n");
    let failed = home.skillhost(["tool", "call", "line_stats_count_lines", r#"{"text": 5}"#]);
    assert!(failed.exits(2).stderr.contains("line_stats_count_lines"));
}

#[test]
fn mcp_template_wraps_server() {
    if is_missing("python3") {
        return;
    }
    let home = home();
    let server = repository_root()
        .join("sandbox/skills/extension-development/templates/process-python/server.py");
    let mut new = home.command();
    new.args(["ext", "new", "counter", "--template", "mcp", "--", "python3", "-B"]).arg(server);
    let made = home.start(&mut new).finish().success();
    let listed = run_next_commands(&home, &made);
    assert!(listed.stdout.contains("counter_count_words"), "{listed}");
    let called =
        home.skillhost(["tool", "call", "counter_count_words", r#"{"text": "a b c"}"#]).success();
    assert_eq!(called.stdout, "3 words, the longest is 'a'\n");
}

#[test]
fn invalid_template_is_refused() {
    let home = home();
    let new = |arguments: &[&str]| {
        home.skillhost([&["ext", "new", "x", "--template"], arguments].concat()).exits(2)
    };
    insta::assert_snapshot!(new(&["mcp"]).stderr, @"
    error: template `mcp` requires the command of the server
    hint: skillhost ext new x --template mcp -- npx -y @modelcontextprotocol/NAME@VERSION
    ");
    insta::assert_snapshot!(new(&["process-python", "--", "true"]).stderr, @"
    error: template `process-python` has its own program; only `mcp` takes a command
    hint: add --template mcp, or omit the command
    ");
    let unknown = new(&["perl"]);
    assert!(unknown.stderr.contains("native, process-python, process-node"), "{unknown}");
    assert!(!home.path("sandbox/extensions/x").exists());
}
