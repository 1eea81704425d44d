//! Tests of manifest fields for a process: names of tools, environment, start.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use test_support::{Output, TestHome, example_program, poll_until};

use crate::fixtures::{allow_read, bind_time_filters, start_kernel};
use crate::processes::without_level;

/// Creates a trusted home with an installed process `id`; `more` is appended to its manifest.
fn add_process(home: TestHome, id: &str, mode: &str, more: &str) -> TestHome {
    let manifest = format!(
        "id: {id}\nname: Sample\nversion: 1.0.0\nentrypoint: {{command: [./server, {mode}]}}\n{more}"
    );
    let home = home.manifest(id, &manifest);
    fs::copy(example_program("misbehave_process"), home.path(format!("manifests/{id}/server")))
        .unwrap();
    home
}

fn sample_home(mode: &str, more: &str) -> TestHome {
    add_process(TestHome::new().trusted(), "sample", mode, more)
}

fn call_tool(home: &TestHome, tool: &str, arguments: &str) -> Output {
    home.skillhost(["tool", "call", tool, arguments])
}

fn process_environment(home: &TestHome) -> Value {
    let output = call_tool(home, "whoami", "{}").success();
    serde_json::from_str::<Value>(&output.stdout).unwrap()["environment"].clone()
}

#[test]
fn tool_names_are_final_everywhere() {
    let tools = "mcp: {tools: [s_echo]}\ntools:\n  prefix: s_\n  rename: {shout: yell, nope: x}\n  \
                 exclude: ['h*', crash, garbage, spawn, wait, refuse]\n";
    let home = sample_home("good", tools);
    insta::assert_snapshot!(without_level(&home.skillhost(["ext", "list"])), @"
    exit 0
    --- stdout
    EXTENSION STATE  VERSION PROVIDES
    sample    loaded 1.0.0   process ([LEVEL]), tools s_echo yell s_fail s_whoami
    --- stderr
    note: `sample`: tools: rename: nope: matches none of its tools
    ");
    let listed = home.skillhost(["tool", "list", "--json"]).success().json();
    let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["s_echo", "s_fail", "s_whoami", "yell"]);
    assert_eq!(call_tool(&home, "s_echo", r#"{"text":"hi"}"#).success().stdout, "hi\n");
    assert_eq!(call_tool(&home, "yell", r#"{"text":"hi"}"#).success().stdout, "HI\n");
    for own in ["echo", "shout", "crash"] {
        let error = call_tool(&home, own, "{}").exits(3).stderr;
        assert!(error.contains("not found") || error.contains("not available"), "{own}: {error}");
    }
}

#[test]
fn tool_clash_suggests_working_prefix() {
    let _filters = bind_time_filters();
    let home = add_process(sample_home("good", ""), "weather", "good", "");
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(doctor.stdout.contains("ok sample"), "{doctor}");
    let reason = "reason: the tool `echo` of `weather` is already provided by `sample`";
    assert!(doctor.stdout.contains(reason), "{doctor}");
    let (_, lines) = doctor
        .stdout
        .split_once("hint: write into the manifest of `weather`: ")
        .unwrap_or_else(|| panic!("{doctor}"));
    let line = lines.lines().next().unwrap();
    assert_eq!(line, "tools: {prefix: weather_}");
    // The hint alone must be enough to resolve the clash.
    let home = add_process(home, "weather", "good", &format!("{line}\n"));
    home.skillhost(["ext", "doctor"]).success();
    assert_eq!(call_tool(&home, "weather_echo", r#"{"text":"hi"}"#).success().stdout, "hi\n");
}

#[test]
fn process_environment_is_private() {
    let home = sample_home("good", "env: {UNITS: metric, PORT: 8080}\n");
    let variables = process_environment(&home);
    let names: Vec<_> = variables.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "HOME",
        "PATH",
        "PORT",
        "SKILLHOST_CONFIG",
        "SKILLHOST_DATA_DIR",
        "SKILLHOST_ID",
        "TMPDIR",
        "UNITS",
        "XDG_CACHE_HOME",
    ];
    assert_eq!(names, expected);
    assert_eq!((&variables["UNITS"], &variables["PORT"]), (&json!("metric"), &json!("8080")));
    assert_eq!(variables["HOME"], "[HOME]/sandbox/data/kernel/homes/sample");
    assert_eq!(variables["XDG_CACHE_HOME"], "[HOME]/sandbox/data/kernel/homes/sample/.cache");
    let private = fs::metadata(home.path("sandbox/data/kernel/homes/sample")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&private.permissions()) & 0o777, 0o700);

    let home = sample_home("good", "env: {HOME: /home/me}\n");
    let variables = process_environment(&home);
    assert_eq!(
        (&variables["HOME"], &variables["XDG_CACHE_HOME"]),
        (&json!("/home/me"), &Value::Null)
    );
}

#[test]
fn trial_has_secrets_and_home() {
    let manifest = "id: sample\nname: Sample\nentrypoint: {command: [./server, keyed]}\n\
                    secrets: [SAMPLE_KEY]\n";
    // A build shows and copies only files up to 1 MiB, so the program is a small one.
    let server = example_program("misbehave_process");
    let manifest = format!("{manifest}{}", allow_read(&[&server]));
    let home = TestHome::new().extension("sample", &manifest).trusted();
    let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", server.display());
    home.write("sandbox/extensions/sample/server", script);
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(home.path("sandbox/extensions/sample/server"), executable).unwrap();
    let build = || home.skillhost(["ext", "build", "sample", "--yes"]);
    let denied = build().exits(1);
    assert!(denied.stderr.contains("SAMPLE_KEY is not set"), "{denied}");
    home.write(".env", "SAMPLE_KEY=hunter2\n");
    let built = build().success();
    assert!(!built.stdout.contains("hunter2") && !built.stderr.contains("hunter2"), "{built}");
    let starts =
        || fs::read_to_string(home.path("sandbox/data/kernel/homes/sample/.cache/starts")).unwrap();
    assert_eq!(starts(), "hunter2\n", "the trial wrote into the cache that stays");
    call_tool(&home, "echo", "{}").success();
    assert!(starts().starts_with("hunter2\nhunter2\n"), "{}", starts());
}

#[test]
fn manifest_start_timeout_applies() {
    let home = sample_home("silent", "start_timeout_ms: 1000\n");
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    let reason = "`initialize` and `tools/list` timed out after 1000 ms";
    assert!(doctor.stdout.contains(reason), "{doctor}");
}

#[test]
fn failed_start_is_retried() {
    let home = sample_home("flaky", "");
    let kernel = start_kernel(&home);
    let answer = poll_until("a reply of the process", || {
        let output = call_tool(&home, "echo", r#"{"text":"hi"}"#);
        if output.status == 0 { Ok(output.stdout) } else { Err(output) }
    });
    assert_eq!(answer, "hi\n");
    let doctor = home.skillhost(["ext", "doctor"]).success();
    assert!(doctor.stdout.contains("ok sample 1.0.0"), "{doctor}");
    kernel.interrupt().success();
}

#[test]
fn reload_starts_rejected_extension() {
    let worker = "id: worker\nname: Worker\nagent: {uses_tools: [echo]}\ndepends_on: [sample]\n";
    let home = sample_home("good", "").manifest("worker", worker);
    let server = home.path("manifests/sample/server");
    fs::rename(&server, home.path("server")).unwrap();
    let kernel = start_kernel(&home);
    let missing = call_tool(&home, "sample_echo", "{}").exits(3);
    let hint = "the extension `sample`, which may have it, was rejected in phase probe";
    assert!(missing.stderr.contains(hint), "{missing}");
    let denied = home.skillhost(["ext", "reload", "sample"]).exits(1);
    let message = "error: `sample` was not started (probe): `./server` is not an executable file";
    assert!(denied.stderr.starts_with(message), "{denied}");
    let unknown = home.skillhost(["ext", "reload", "sampel"]).exits(3);
    assert!(unknown.stderr.contains("did you mean sample?"), "{unknown}");
    fs::rename(home.path("server"), &server).unwrap();
    let started = home.skillhost(["ext", "reload", "sample"]).success();
    assert!(started.stdout.starts_with("started sample 1.0.0 (after "), "{started}");
    assert_eq!(call_tool(&home, "echo", r#"{"text":"hi"}"#).success().stdout, "hi\n");
    let doctor = home.skillhost(["ext", "doctor"]).success();
    assert!(doctor.stdout.contains("ok worker (agent)"), "{doctor}");
    kernel.interrupt().success();
}

#[test]
fn reload_rejects_stale_library() {
    let library = test_support::library("echo");
    let home = TestHome::new().trusted();
    let home = home.manifest("echo", "id: echo\nname: Echo\nentrypoint: echo\n");
    let home = home.library("echo", "echo", &library);
    let kernel = start_kernel(&home);
    home.skillhost(["ext", "reload", "echo"]).success();
    let file = library.file_name().unwrap().to_string_lossy().into_owned();
    let newer = format!("manifests/echo/target/debug/{file}");
    home.write(&newer, fs::read(&library).unwrap());
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    fs::File::options().write(true).open(home.path(&newer)).unwrap().set_modified(later).unwrap();
    let denied = home.skillhost(["ext", "reload", "echo"]).exits(1);
    let message = format!(
        "error: `echo` was not reloaded (probe): [HOME]/{newer} is newer than \
         [HOME]/manifests/echo/{file}, which is loaded\n"
    );
    assert!(denied.stderr.starts_with(&message), "{denied}");
    assert!(denied.stderr.contains("hint: install the new one: skillhost ext build echo"));
    kernel.interrupt().success();
}

#[test]
fn operator_arguments_are_validated() {
    let home = sample_home("good", "");
    insta::assert_snapshot!(call_tool(&home, "echo", r#"{"text": 1}"#), @r#"
    exit 2
    --- stderr
    error: arguments of `echo` are not valid: `/text`: 1 is not of type "string"
    hint: see the tool's input schema: skillhost tool list --json
    "#);
}

#[test]
fn invalid_tool_schema_is_rejected() {
    let home = sample_home("objekt", "");
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    let reason = "reason: the input schema of the tool `measure` is not a valid JSON Schema: \
                  `/properties/text/type`: \"objekt\" is not";
    assert!(doctor.stdout.contains(reason), "{doctor}");
}

#[test]
fn rejected_extension_tool_has_reason() {
    let home = sample_home("panic", "mcp: {tools: [echo]}\n");
    let output = call_tool(&home, "echo", "{}").exits(3);
    let message = "error: tool `echo` is not available: its extension `sample` was rejected in \
                   phase start: ended with exit code 101 before it answered the handshake\n";
    assert!(output.stderr.starts_with(message), "{output}");
    let home = add_process(sample_home("good", ""), "weather", "good", "tools: {prefix: echo}\n");
    let home = add_process(
        home,
        "zeta",
        "good",
        "tools: {exclude: ['[!e]*'], rename: {echo: echoecho}}\n",
    );
    let output = call_tool(&home, "echoecho", r#"{"text":"x"}"#).success();
    assert_eq!(output.stdout, "x\n", "the first owner answers");
}

#[test]
fn directory_without_manifest_is_listed() {
    let home = TestHome::new().trusted();
    home.write("sandbox/extensions/yml/manifest.yml", "id: yml\n");
    home.write("sandbox/extensions/notes/readme.txt", "x");
    insta::assert_snapshot!(home.skillhost(["ext", "doctor"]), @"
    exit 1
    --- stdout
    rejected yml in phase discover
      manifest: [HOME]/sandbox/extensions/yml/manifest.yml
      reason: [HOME]/sandbox/extensions/yml/manifest.yml is not read
      hint: name it manifest.yaml
    note [HOME]/sandbox/extensions/notes is not an extension: manifest.yaml not found; write it, or move the directory elsewhere
    ");
}

#[test]
fn build_rejects_unloadable_manifest() {
    let home = TestHome::new().trusted();
    let manifest = |id: &str, more: &str| {
        format!("id: {id}\nname: N\nentrypoint: {{command: [sh, x.sh]}}\n{more}")
    };
    let build = |id: &str| home.skillhost(["ext", "build", id, "--yes"]);
    home.write("sandbox/extensions/a/manifest.yaml", manifest("b", ""));
    insta::assert_snapshot!(build("a"), @"
    exit 4
    --- stderr
    error: sandbox/extensions/a/manifest.yaml has the id `b`, and its directory is named `a`
    hint: give both the same name
    ");
    home.write("sandbox/extensions/a/manifest.yaml", manifest("a", "depends_on: [b_tow]\n"));
    home.write("sandbox/extensions/b_two/manifest.yaml", manifest("b_two", ""));
    insta::assert_snapshot!(build("a"), @"
    exit 5
    --- stderr
    error: manifest.yaml:4:14: depends_on: extension `b_tow` not found
    hint: did you mean b_two?
    ");
    home.write("sandbox/extensions/c/manifest.yml", manifest("c", ""));
    let denied = build("c").exits(1);
    assert!(denied.stderr.contains("c/manifest.yml is not read\nhint: name it manifest.yaml"));
}

#[test]
fn approved_tool_must_exist() {
    let home = sample_home("good", "").manifest(
        "orchestrator_agent",
        "id: orchestrator_agent\nname: O\nagent: {uses_tools: [sample, kernel]}\n",
    );
    let poll =
        |tool: &str| home.skillhost(["ask", "--model", "script/demo", "--approve", tool, "hi"]);
    insta::assert_snapshot!(poll("ecko"), @"
    exit 2
    --- stderr
    error: --approve: tool `ecko` not found
    hint: did you mean echo?
    hint: see: skillhost tool list
    ");
    for known in ["shout", "create_agent"] {
        let output = poll(known);
        assert!(!output.stderr.contains("not found"), "{output}");
    }
    let kernel = start_kernel(&home);
    assert!(
        poll("nosuch").exits(2).stderr.starts_with("error: --approve: tool `nosuch` not found")
    );
    kernel.interrupt().success();
}

#[test]
fn missing_api_key_exits_with_five() {
    let home = TestHome::new().trusted();
    let home = home.manifest("orchestrator_agent", "id: orchestrator_agent\nname: O\nagent: {}\n");
    let home = home.settings(
        "models:\n  default: far/model\n  providers:\n    far: {wire: anthropic, base_url: 'https://127.0.0.1:1/v1', key: FAR_KEY}\n",
    );
    let output = home.skillhost(["ask", "hi"]).exits(5);
    assert!(output.stderr.contains("key FAR_KEY of provider `far` not found"));
    let kernel = start_kernel(&home);
    home.skillhost(["ask", "hi"]).exits(5);
    kernel.interrupt().success();
}
