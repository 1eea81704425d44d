//! Tests that files in `sandbox/extensions` have no effect before a person approves them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};
use test_support::{TestHome, example_program, library};

use crate::agents_scene::agents_home;
use crate::builds::toolchain;
use crate::fixtures::{agent_manifest, allow_read, bind_time_filters, home, shipped_manifest};

/// A manifest of an agent with events, schedules and every tool.
const SPY: &str = "id: spy\nname: Spy\n\
    agent: {integration_mode: tool, instructions: Watch., uses_tools: [kernel, echo]}\n\
    events: {subscribes: [{topic: '*', handler: notify_user, text: 'spied'}]}\n\
    schedules: [{name: often, cron: '* * * * *', prompt: Look.}]\n";

/// Returns phase and reason of the only rejected extension.
fn rejection(home: &TestHome) -> (String, String) {
    let report = home.skillhost(["ext", "list", "--json"]).success().json();
    let rejected = report["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), 1, "{report}");
    let text = |field: &str| rejected[0][field].as_str().unwrap().to_owned();
    (text("phase"), text("reason"))
}

fn field_values(list: &Value, field: &str) -> Vec<String> {
    let all = list.as_array().unwrap().iter();
    all.map(|entry| entry[field].as_str().unwrap().to_owned()).collect()
}

/// Writes a process extension whose tool list comes from a file outside of the home.
fn with_listed_tools(home: TestHome, id: &str, tools: &str) -> TestHome {
    let names = home.outside().join("tools");
    fs::write(&names, tools).unwrap();
    let (program, names) = (example_program("misbehave_process"), names.display().to_string());
    // A relative path in the command is resolved in the extension's directory, so a script starts
    // the program.
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", program.display());
    let command = json!(["./server", "listing", names]);
    let reads = allow_read(&[&program, Path::new(&names)]);
    let text = format!(
        "id: {id}\nname: Lister\nversion: 1.0.0\nentrypoint: {{command: {command}}}\n{reads}"
    );
    let home = home.extension(id, &text);
    home.write(format!("sandbox/extensions/{id}/server"), script);
    let server = home.path(format!("sandbox/extensions/{id}/server"));
    fs::set_permissions(server, fs::Permissions::from_mode(0o755)).unwrap();
    home
}

#[test]
fn moved_library_is_not_loaded() {
    let home = TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .file("sandbox/drafts/mine/manifest.yaml", "id: mine\nname: M\nentrypoint: echo\n")
        .trusted();
    fs::copy(library("echo"), home.path("sandbox/drafts/mine/libecho.so")).unwrap();
    fs::create_dir_all(home.path("sandbox/extensions")).unwrap();
    fs::rename(home.path("sandbox/drafts/mine"), home.path("sandbox/extensions/mine")).unwrap();
    assert_eq!(rejection(&home), ("approve".into(), "it is not approved".into()));
    home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).exits(3);
    home.approve("mine");
    home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).success();
}

#[test]
fn shipped_library_keeps_its_id() {
    let claim = "id: aaa\nname: A\nentrypoint: skill_registry\n";
    let home = home().extension("aaa", claim);
    assert_eq!(rejection(&home).0, "approve");
    home.skillhost(["skill", "list"]).success();
    // Approval is impossible, too: the directory contains no library.
    let denied = home.skillhost(["ext", "approve", "aaa", "--print"]).exits(3);
    assert!(
        denied
            .stderr
            .contains("library `libskill_registry.so` not found in sandbox/extensions/aaa"),
        "{denied}"
    );
    fs::remove_dir_all(home.path("sandbox/extensions/aaa")).unwrap();
    let home = home.manifest("aaa", claim);
    assert_eq!(
        rejection(&home),
        (
            "probe".into(),
            "the library `libskill_registry.so` of the installation is that of the extension \
             `skill_registry`"
                .into()
        )
    );
    home.skillhost(["tool", "call", "list_skills"]).success();
}

#[test]
fn unapproved_agent_has_no_effect() {
    let home = home().extension("spy", SPY);
    let all = |home: &TestHome| {
        let json = |args: &[&str]| home.skillhost(args).success().json();
        (
            field_values(&json(&["agent", "list", "--json"])["agents"], "id"),
            field_values(&json(&["schedule", "list", "--json"])["schedules"], "id"),
        )
    };
    assert_eq!(all(&home), (vec![], vec![]));
    insta::assert_snapshot!(home.skillhost(["ask", "--agent", "spy", "--print-prompt", "x"]), @"
    exit 1
    --- stderr
    error: agent `spy` is in the error state: it is not approved
    hint: review and approve it: skillhost ext approve spy
    ");
    let kernel = home.start(home.command().arg("run"));
    kernel.line_with("running; Ctrl-C ends it");
    home.skillhost(["ext", "reload", "echo"]).success();
    let output = kernel.interrupt().success();
    assert!(!output.stdout.contains("spied"), "{output}");

    home.approve("spy");
    assert_eq!(all(&home), (vec!["spy".to_owned()], vec!["spy/often".to_owned()]));
    let kernel = home.start(home.command().arg("run"));
    kernel.line_with("running; Ctrl-C ends it");
    home.skillhost(["ext", "reload", "echo"]).success();
    kernel.line_with("spied");
    kernel.interrupt().success();
}

#[test]
fn edited_prompt_revokes_approval() {
    let home = home()
        .extension("guide", "id: guide\nname: Guide\nagent: {}\n")
        .file("sandbox/extensions/guide/prompt.jinja2", "Be kind.")
        .approved("guide");
    let prompt = ["ask", "--agent", "guide", "--print-prompt", "x"];
    assert!(home.skillhost(prompt).success().stdout.contains("Be kind."));
    home.write("sandbox/extensions/guide/prompt.jinja2", "Be cruel.");
    let denied = home.skillhost(prompt).exits(1);
    assert!(!denied.stdout.contains("cruel"), "{denied}");
    let (phase, reason) = rejection(&home);
    assert_eq!(phase, "approve");
    assert_eq!(reason, "its files have changed since they were approved: changed prompt.jinja2");
    home.write("sandbox/extensions/guide/prompt.jinja2", "Be kind.");
    home.skillhost(prompt).success();
}

#[test]
fn changed_tool_list_revokes_approval() {
    let home = with_listed_tools(home(), "lister", "look readOnlyHint\nchange").approved("lister");
    let tools = home.outside().join("tools");
    home.skillhost(["tool", "call", "look"]).exits(3);
    for (now, expected) in [
        ("look readOnlyHint\nchange\nmore", "`more` is new"),
        ("look readOnlyHint\nchange readOnlyHint", "`change` has other annotations"),
        ("look readOnlyHint", "`change` is gone"),
    ] {
        fs::write(&tools, now).unwrap();
        let reason = format!("its tools have changed since they were approved: {expected}");
        assert_eq!(rejection(&home), ("approve".into(), reason));
    }
    home.approve("lister");
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn duplicate_names_reject_later_extension() {
    let names = ["read_file", "read_skill", "echo", "skill_registry", "worker"];
    for name in names {
        let home = with_listed_tools(home(), "aaa", name)
            .manifest("core_tools", &shipped_manifest("core_tools"))
            .manifest("worker", "id: worker\nname: W\nagent: {integration_mode: tool}\n")
            .approved("aaa");
        let report = home.skillhost(["ext", "list", "--json"]).success().json();
        assert_eq!(field_values(&report["rejected"], "id"), ["aaa"], "{name}: {report}");
        assert_eq!(report["rejected"][0]["phase"], "wire");
        let reason = report["rejected"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(&format!("the tool `{name}` of `aaa` is already")), "{reason}");
        assert_eq!(field_values(&report["loaded"], "id"), ["echo", "skill_registry", "core_tools"]);
    }
    // Such an id would be ambiguous in `uses_tools`.
    let home = with_listed_tools(home(), "read_skill", "mine").approved("read_skill");
    assert_eq!(
        rejection(&home),
        ("wire".into(), "the id `read_skill` is the name of a tool of `skill_registry`".into())
    );
}

#[test]
fn approval_without_terminal_requires_digest() {
    let home = home().extension("guide", "id: guide\nname: Guide\nagent: {}\n");
    let output = home.skillhost(["ext", "approve", "guide"]).exits(2);
    let digest = home.skillhost(["ext", "approve", "guide", "--print", "--json"]).success().json();
    let digest = digest["digest"].as_str().unwrap();
    let command = format!("skillhost ext approve guide --digest {digest}");
    assert!(output.stderr.contains(&command), "{output}");
    let other = "0".repeat(64);
    home.skillhost(["ext", "approve", "guide", "--digest", &other]).exits(4);
    assert_eq!(rejection(&home).0, "approve");
    home.skillhost(["ext", "approve", "guide", "--digest", digest]).success();
    home.skillhost(["ext", "doctor"]).success();
    home.skillhost(["ext", "approve", "echo", "--print"]).exits(5);
    home.skillhost(["ext", "approve", "nobody", "--print"]).exits(3);
}

#[test]
fn terminal_approval_shows_code_first() {
    let _filters = bind_time_filters();
    let home = home()
        .extension("guide", "id: guide\nname: Guide\nagent: {uses_tools: [kernel]}\n")
        .file("sandbox/extensions/guide/README.md", "padding\n".repeat(2_000))
        .file("sandbox/extensions/guide/prompt.jinja2", "Obey me.\n");
    let mut person = home.on_terminal(home.command().args(["ext", "approve", "guide"]), (120, 60));
    person.wait_for("| may call: kernel");
    person.wait_for("| --- manifest.yaml");
    person.wait_for("|     Obey me.");
    person.wait_for("| --- README.md");
    person.wait_for("approve guide? [y]es, [N]o");
    person.send("y\n");
    person.wait_for("approved guide: agent, digest ");
    assert_eq!(person.finish().output.status, 0);
    home.skillhost(["ext", "doctor"]).success();
    // The next review begins with the changed lines.
    home.write("sandbox/extensions/guide/prompt.jinja2", "Ask me.\n");
    let review = home.skillhost(["ext", "approve", "guide", "--print"]).success();
    assert!(review.stdout.starts_with("  | changed since the approval of "), "{review}");
    let difference = "  | --- prompt.jinja2: changed lines\n  |     @@ -1 +1 @@\n  |     -Obey me.\n  |     +Ask me.\n";
    assert!(review.stdout.contains(difference), "{review}");
    // An extension that cannot be shown in full cannot be approved.
    home.write("sandbox/extensions/guide/README.md", "padding\n".repeat(40_000));
    let denied = home.skillhost(["ext", "approve", "guide", "--print"]).exits(5);
    assert!(denied.stderr.contains("README.md: 320000 bytes, 40000 lines"), "{denied}");
    home.write("sandbox/extensions/guide/README.md", [0xff, 0]);
    let denied = home.skillhost(["ext", "approve", "guide", "--print"]).exits(5);
    assert!(denied.stderr.contains("README.md: not text, 2 bytes"), "{denied}");
}

#[test]
fn revoked_approval_is_listed() {
    let guide = |id: &str| format!("id: {id}\nname: Guide\nagent: {{}}\n");
    let home = home()
        .extension("good", &guide("good"))
        .extension("changed", &guide("changed"))
        .extension("revoked", &guide("revoked"))
        .extension("waiting", &guide("waiting"))
        .approved("good")
        .approved("changed")
        .approved("revoked");
    home.write("sandbox/extensions/changed/more.txt", "more");
    home.skillhost(["ext", "revoke", "revoked"]).success();
    home.skillhost(["ext", "revoke", "waiting"]).exits(3);
    let listed = home.skillhost(["ext", "approvals", "--json"]).success().json();
    let listed = listed["approvals"].as_array().unwrap();
    let states: Vec<_> = listed.iter().map(|entry| (&entry["id"], &entry["state"])).collect();
    let expected = [
        ("changed", "changed"),
        ("good", "approved"),
        ("revoked", "revoked"),
        ("waiting", "not approved"),
    ];
    let expected = expected.map(|(id, state)| (json!(id), json!(state)));
    assert_eq!(states, expected.iter().map(|(id, state)| (id, state)).collect::<Vec<_>>());
    assert_eq!(
        (&listed[1]["approved_by"], &listed[1]["surface"]),
        (&json!("operator"), &json!("command line"))
    );
    let report = home.skillhost(["ext", "list", "--json"]).success().json();
    assert_eq!(field_values(&report["rejected"], "id"), ["changed", "revoked", "waiting"]);
    assert_eq!(field_values(&report["agents"], "id"), ["good"]);
}

#[test]
fn damaged_journal_fails_closed() {
    let home = home().extension("guide", "id: guide\nname: Guide\nagent: {}\n").approved("guide");
    let journal = home.path("sandbox/data/kernel/approvals.jsonl");
    let good = fs::read_to_string(&journal).unwrap();
    // A crash can leave a partial last line.
    fs::write(&journal, format!("{good}{{\"version\":1,\"id\":\"gui")).unwrap();
    let doctor = home.skillhost(["ext", "doctor"]).success();
    assert!(doctor.stdout.contains("the last line is incomplete and is ignored"), "{doctor}");
    fs::write(&journal, format!("{{}}\n{good}")).unwrap();
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(doctor.stdout.contains("no extension counts as approved: "), "{doctor}");
    assert!(
        doctor.stdout.contains("approvals.jsonl away, then review and approve each extension"),
        "{doctor}"
    );
    fs::remove_file(&journal).unwrap();
    home.approve("guide");
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn old_approval_file_is_retired_once() {
    let home = home()
        .extension("guide", "id: guide\nname: Guide\nagent: {}\n")
        .file("sandbox/data/kernel/installed.json", "{}");
    let note = "approvals of earlier versions no longer count";
    assert!(home.skillhost(["ext", "doctor"]).exits(1).stdout.contains(note));
    assert!(!home.skillhost(["ext", "doctor"]).exits(1).stdout.contains(note));
}

#[test]
fn build_extension_approves_agent() {
    let mock =
        MockModel::with([Step::calls("build_extension", r#"{"id":"guide"}"#), Step::text("Done.")]);
    let home = agents_home(&mock)
        .settings(&mock.settings(Wire::Openai))
        .extension("guide", &agent_manifest("guide", "  instructions: Be kind.\n"));
    let mut command = home.command();
    command.envs(toolchain()).args(["ask", "--agent", "worker", "Go"]);
    let mut person = home.on_terminal(&mut command, (120, 60));
    person.wait_for("| sandbox/extensions/guide: an agent");
    person.wait_for("instructions: Be kind.");
    person.wait_for("[N]o");
    person.send("y\n");
    person.wait_for("Done.");
    assert_eq!(person.finish().output.status, 0);
    let result = mock.requests()[1].last_text();
    assert!(result.starts_with("The agent `guide` is approved, digest "), "{result}");
    let listed = home.skillhost(["ext", "approvals", "--json"]).success().json();
    let approval = &listed["approvals"][0];
    assert_eq!(
        (&approval["approved_by"], &approval["surface"]),
        (&json!("agent worker"), &json!("channel"))
    );
    home.skillhost(["agent", "show", "guide"]).success();
}

#[test]
fn prebuilt_library_content_is_not_shown() {
    let home = TestHome::new().extension("mine", "id: mine\nname: M\nentrypoint: echo\n").trusted();
    fs::copy(library("echo"), home.path("sandbox/extensions/mine/libecho.so")).unwrap();
    let content = home.skillhost(["ext", "approve", "mine", "--print"]).success().stdout;
    assert!(content.contains("--- libecho.so: a prebuilt library of "), "{content}");
    assert!(content.contains("its content cannot be displayed"), "{content}");
    // An agent can only have extensions approved that are built from sources.
    let denied = home.skillhost(["ext", "build", "mine", "--yes"]).exits(5);
    assert!(denied.stderr.contains("Cargo.toml: not found"), "{denied}");
}
