//! Tests of process extensions: approval, tools, failures and shutdown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mock_model::{MockModel, Step, Wire};
use serde_json::Value;
use test_support::{Output, TestHome, example_program, poll_until, program, wait_until};

use crate::fixtures::{
    agent_manifest, allow_read, bind_time_filters, repository_root, start_kernel,
};

fn manifest(command: &str) -> String {
    format!(
        "id: sample\nname: Sample\nversion: 1.2.3\nentrypoint: {{command: {command}}}\n{}",
        allow_read(&[&example_program("misbehave_process")])
    )
}

/// A script that replaces itself by the program, because approvals show only text files.
const SERVER: &str = "#!/bin/sh\nexec \"$(cat program)\" \"$@\"\n";

/// Creates a trusted home with one unapproved process extension.
fn unapproved_home(command: &str) -> TestHome {
    let program = example_program("misbehave_process");
    let home = TestHome::new()
        .extension("sample", &manifest(command))
        .file("sandbox/extensions/sample/server", SERVER)
        .file("sandbox/extensions/sample/program", program.to_str().unwrap())
        .trusted();
    make_executable(&home.path("sandbox/extensions/sample/server"));
    home
}

fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Creates a trusted home with a process extension that the operator has installed.
fn sample_home(command: &str) -> TestHome {
    let home = TestHome::new().manifest("sample", &manifest(command)).trusted();
    fs::copy(example_program("misbehave_process"), home.path("manifests/sample/server")).unwrap();
    home
}

fn call_args<'t>(tool: &'t str, arguments: &'t str) -> [&'t str; 4] {
    ["tool", "call", tool, arguments]
}

/// Tests whether a process of this home runs. The ids in a namespace are others than here.
fn has_process(home: &TestHome) -> bool {
    let data = home.path("sandbox/data/sample");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|entry| {
        let data = format!("SKILLHOST_DATA_DIR={}", data.display());
        // A zombie has no environment.
        fs::read(entry.path().join("environ"))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == data.as_bytes()))
    })
}

/// Returns the process's description of itself from a running kernel.
fn call_whoami(home: &TestHome) -> Result<Value, Output> {
    let output = home.skillhost(call_args("whoami", "{}"));
    if output.status == 0 { Ok(output.json()) } else { Err(output) }
}

/// Returns what distinguishes the process from others.
fn process_instance(home: &TestHome) -> String {
    let found = poll_until("a process that replies", || call_whoami(home));
    found["instance"].as_str().unwrap().to_owned()
}

#[test]
fn process_extension_is_listed_and_called() {
    let _filters = bind_time_filters();
    let home = sample_home("[./server, good]");
    insta::assert_snapshot!(without_level(&home.skillhost(["ext", "list"])), @"
    exit 0
    --- stdout
    EXTENSION STATE  VERSION PROVIDES
    sample    loaded 1.2.3   process ([LEVEL]), tools echo shout fail refuse whoami crash hang garbage huge wait spawn hoard
    ");
    let called = home.skillhost(call_args("echo", r#"{"text":"hi"}"#)).success();
    assert_eq!(called.stdout, "hi\n");
    insta::assert_snapshot!(home.skillhost(call_args("fail", "{}")), @"
    exit 1
    --- stdout
    there is nothing to do
    ");
    insta::assert_snapshot!(home.skillhost(call_args("refuse", "{}")), @"
    exit 2
    --- stderr
    error: `text` is missing
    ");
    insta::assert_snapshot!(without_level(&home.skillhost(["ext", "doctor"])), @"
    exit 0
    --- stdout
    ok sample 1.2.3 (process ([LEVEL]), tools echo shout fail refuse whoami crash hang garbage huge wait spawn hoard; opened in [N] µs)
    ");
    let listed = home.skillhost(["ext", "list", "--json"]).success().json();
    let loaded = &listed["loaded"][0];
    assert_eq!(loaded["command"], serde_json::json!(["./server", "good"]));
    assert_eq!(loaded["version"], "1.2.3");
    let level = loaded["isolation"]["level"].as_str().unwrap();
    assert!(["namespaces", "landlock", "none"].contains(&level), "{level}");
    assert_eq!(level != "none", test_support::can_isolate());
}

/// Replaces the isolation level, which depends on the machine.
pub(crate) fn without_level(output: &Output) -> String {
    let levels = ["(namespaces)", "(landlock)", "(not isolated)"];
    levels.iter().fold(output.to_string(), |text, level| text.replace(level, "([LEVEL])"))
}

#[test]
fn only_approved_files_are_started() {
    let _filters = bind_time_filters();
    let home = unapproved_home("[./server, good]");
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @"
    exit 1
    --- stdout
    rejected sample in phase approve
      manifest: [HOME]/sandbox/extensions/sample/manifest.yaml
      reason: it is not approved
      hint: review and approve it: skillhost ext approve sample
    ");
    let started = home.path("sandbox/data/sample/started");
    assert!(!started.exists(), "it was started");
    home.approve("sample");
    assert!(!started.exists(), "it is tried in a home of its own");
    home.skillhost(call_args("echo", "{}")).success();
    assert!(started.exists());
    fs::remove_file(&started).unwrap();
    // A change, an addition or a removal anywhere in the directory revokes the approval.
    for (path, text) in [
        ("sandbox/extensions/sample/more.py", "import os"),
        (
            "sandbox/extensions/sample/manifest.yaml",
            "id: sample\nname: Sample\nentrypoint: {command: [./server, good, x]}\n",
        ),
        ("sandbox/extensions/sample/server", "#!/bin/sh\nexec \"$(cat program)\" good\n"),
    ] {
        let before = fs::read(home.path(path)).ok();
        home.write(path, text);
        let output = home.skillhost(["ext", "doctor", "--json"]).exits(1).json();
        let rejected = &output["report"]["rejected"][0];
        assert_eq!((&rejected["id"], &rejected["phase"]), (&"sample".into(), &"approve".into()));
        let reason = rejected["reason"].as_str().unwrap();
        assert!(
            reason.starts_with("its files have changed since they were approved: "),
            "{reason}"
        );
        match before {
            Some(bytes) => home.write(path, bytes),
            None => fs::remove_file(home.path(path)).unwrap(),
        }
    }
    let program = home.path("sandbox/extensions/sample/program");
    make_executable(&program);
    let moded = home.skillhost(["ext", "doctor"]).exits(1).stdout;
    assert!(moded.contains("approved: mode of program was 644 and is 755"), "{moded}");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!started.exists(), "it was started");
    home.skillhost(call_args("echo", "{}")).success();
    // The target of a link may change after the approval.
    std::os::unix::fs::symlink("/etc/hostname", home.path("sandbox/extensions/sample/link"))
        .unwrap();
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]).exits(1), @"
    exit 1
    --- stdout
    rejected sample in phase approve
      manifest: [HOME]/sandbox/extensions/sample/manifest.yaml
      reason: [HOME]/sandbox/extensions/sample/link: it is a symbolic link, not a regular file
      hint: put a copy of the file in its place
    ");
}

#[test]
fn process_write_tools_require_approval() {
    let mock = MockModel::with([
        Step::calls("echo", r#"{"text":"from the process"}"#),
        Step::calls("shout", r#"{"text":"loud"}"#),
        Step::text("Done."),
    ]);
    let worker = agent_manifest("worker", "  instructions: Work.\n  uses_tools: [sample]\n")
        .replace("depends_on: [skill_registry]\n", "");
    let home = sample_home("[./server, good]").manifest("worker", &worker);
    let home = home.settings(&mock.settings(Wire::Openai));
    let output = home.skillhost(["ask", "--agent", "worker", "Go on"]).success();
    assert_eq!(output.stdout, "Done.\n");
    let requests = mock.requests();
    assert_eq!(requests[1].last_text(), "from the process");
    let denied = requests[2].last_text();
    assert!(denied.contains("shout") && !denied.contains("LOUD"), "{denied}");
}

#[test]
fn crashed_process_is_restarted() {
    let home = sample_home("[./server, good]");
    let kernel = start_kernel(&home);
    let first = process_instance(&home);
    insta::assert_snapshot!(home.skillhost(call_args("crash", "{}")), @"
    exit 1
    --- stderr
    error: the process ended with exit code 7
    last lines of standard error:
    about to end
    TypeError: it was made to fail
    hint: check for partial effects of the call; the process is restarted
    ");
    let second = process_instance(&home);
    assert_ne!(first, second);
    insta::assert_snapshot!(home.skillhost(call_args("garbage", "{}")), @"
    exit 1
    --- stderr
    error: the process wrote an invalid protocol message as line 5 of its standard output: `debug: here I am`
    hint: check for partial effects of the call; the process is restarted
    ");
    assert_ne!(process_instance(&home), second);
    home.skillhost(["ext", "doctor"]).success();
    kernel.interrupt().success();
}

#[test]
fn failed_process_start_is_rejected() {
    for (mode, phase, reason) in [
        ("panic", "start", "ended with exit code 101 before it answered the handshake"),
        (
            "garbage",
            "start",
            "wrote an invalid protocol message as line 1 of its standard output: `Starting up, please wait\\u{1b}[2J`",
        ),
        ("crowded", "start", "has more than 128 tools, or lists them on more than 16 pages"),
    ] {
        let home = sample_home(&format!("[./server, {mode}]"));
        let report = home.skillhost(["ext", "list", "--json"]).success().json();
        let rejected = &report["rejected"][0];
        assert_eq!(rejected["phase"], phase, "{mode}: {report}");
        assert_eq!(rejected["reason"].as_str().unwrap().lines().next(), Some(reason), "{mode}");
    }
    let home = sample_home("[no-such-program-anywhere]");
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]).exits(1), @"
    exit 1
    --- stdout
    rejected sample in phase probe
      manifest: [HOME]/manifests/sample/manifest.yaml
      reason: program `no-such-program-anywhere` not found in PATH
      hint: install it, or write ./no-such-program-anywhere for a program in the extension's directory
    ");
}

#[test]
fn process_ends_with_its_kernel() {
    let home = sample_home("[./server, good]");
    let kernel = start_kernel(&home);
    process_instance(&home);
    assert!(has_process(&home));
    kernel.interrupt().success();
    assert!(!has_process(&home));
    assert_eq!(fs::read_to_string(home.path("sandbox/data/sample/ended")).unwrap(), "in order");
    let copies = home.path("sandbox/data/kernel/processes/sample");
    let count_copies = |place: &Path| {
        let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name != ".sweep").count()
    };
    assert_eq!(count_copies(&copies), 0);

    // The launcher notices the end of a killed kernel, even if the process ignores everything.
    let deaf = "[sh, -c, \"trap '' TERM; exec ./server deaf\"]";
    for command in ["[./server, good]", deaf] {
        home.write("manifests/sample/manifest.yaml", manifest(command));
        let kernel = start_kernel(&home);
        process_instance(&home);
        assert!(has_process(&home));
        drop(kernel);
        wait_until("the end of the process", || !has_process(&home));
    }
}

/// Without isolation only the process itself can notice it, or the next kernel.
#[test]
fn unsandboxed_process_outlives_killed_kernel() {
    let deaf = "[sh, -c, \"trap '' TERM; exec ./server deaf\"]";
    let home = sample_home(deaf).settings("sandbox: {unsandboxed: [sample]}\n");
    let kernel = start_kernel(&home);
    process_instance(&home);
    drop(kernel);
    assert!(has_process(&home));
    home.skillhost(["ext", "list"]).success();
    wait_until("the end of the process", || !has_process(&home));
}

#[test]
fn reload_requires_approval_of_new_files() {
    let home = unapproved_home("[./server, good]").approved("sample");
    let kernel = start_kernel(&home);
    let first = process_instance(&home);
    let changed = manifest("[./server, good]").replace("1.2.3", "2.0.0");
    home.write("sandbox/extensions/sample/manifest.yaml", changed);
    let denied = home.skillhost(["ext", "reload", "sample"]).exits(1);
    assert!(
        denied.stderr.contains("was not reloaded (approve): its files have changed"),
        "{denied}"
    );
    assert!(denied.stderr.contains("hint: review and approve it: skillhost ext approve sample\n"));
    assert_eq!(process_instance(&home), first, "the one that was in use goes on");
    home.approve("sample");
    let reloaded = home.skillhost(["ext", "reload", "sample", "--json"]).success().json();
    assert_eq!((&reloaded["from"], &reloaded["to"]), (&"1.2.3".into(), &"2.0.0".into()));
    assert_ne!(process_instance(&home), first);
    kernel.interrupt().success();
}

#[test]
fn process_receives_settings_not_environment() {
    let manifest = "id: sample\nname: Sample\nentrypoint: {command: [./server, good]}\n\
                    config: {a: 1}\nsecrets: [TOKEN, PATH]\n";
    let home = sample_home("[x]").manifest("sample", manifest).file(".env", "TOKEN=hunter2\n");
    let home = home.settings("extensions: {sample: {b: two}}\n");
    let mut command = home.command();
    command.env("SKILLHOST_LOG", "warn").env("LANG", "C.UTF-8").env("OTHER_SECRET", "x");
    let output = home.start(command.args(call_args("whoami", "{}"))).finish().success();
    let details: Value = serde_json::from_str(&output.stdout).unwrap();
    let environment = details["environment"].as_object().unwrap();
    let names: Vec<_> = environment.keys().map(String::as_str).collect();
    let expected = [
        "HOME",
        "LANG",
        "PATH",
        "SKILLHOST_CONFIG",
        "SKILLHOST_DATA_DIR",
        "SKILLHOST_ID",
        "TMPDIR",
        "TOKEN",
        "XDG_CACHE_HOME",
    ];
    assert_eq!(names, expected);
    let value = |name: &str| environment[name].as_str().unwrap().to_owned();
    let config: Value = serde_json::from_str(&value("SKILLHOST_CONFIG")).unwrap();
    assert_eq!(config, serde_json::json!({"a": 1, "b": "two"}));
    assert_eq!((value("TOKEN").as_str(), value("SKILLHOST_ID").as_str()), ("hunter2", "sample"));
    assert_eq!(value("SKILLHOST_DATA_DIR"), "[HOME]/sandbox/data/sample");
    let directory = details["folder"].as_str().unwrap();
    assert!(directory.starts_with("[HOME]/sandbox/data/kernel/processes/sample/"), "{directory}");
}

#[test]
fn python_template_runs_unchanged() {
    use std::io::Write as _;
    if program("python3").is_none() {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: there is no python3 to run the template with");
        return;
    }
    let template = "sandbox/skills/extension-development/templates/process-python";
    let mut home = TestHome::new();
    for name in ["manifest.yaml", "server.py"] {
        let bytes = fs::read(repository_root().join(template).join(name)).unwrap();
        home = home.file(format!("sandbox/extensions/word_count/{name}"), bytes);
    }
    let home = home.trusted().approved("word_count");
    let output = home.skillhost(call_args("count_words", r#"{"text":"one two"}"#)).success();
    assert_eq!(output.stdout, "2 words, the longest is 'one'\n");
    insta::assert_snapshot!(home.skillhost(call_args("count_words", r#"{"txet":"one two"}"#)), @"
    exit 2
    --- stderr
    error: arguments of `count_words` are not valid: unknown field `txet`; did you mean text?; field `text` is missing
    hint: see the tool's input schema: skillhost tool list --json
    ");
    let settings = "extensions: {word_count: {most_words: 1}}\n";
    let home = home.settings(settings);
    let output = home.skillhost(call_args("count_words", r#"{"text":"one two"}"#));
    assert!(format!("{output}").contains("the text has more than 1 words"), "{output}");
}
