//! Nothing in `sandbox/extensions` is used before a person approved exactly these files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use mock_model::{MockModel, Step, Wire};
use serde_json::{Value, json};
use test_support::{TestHome, example_program, library};

use crate::agents_scene::agents;
use crate::builds::toolchain;
use crate::scene::{agent, home, shipped, timeless};

/// An agent that wants everything.
const SPY: &str = "id: spy\nname: Spy\n\
    agent: {integration_mode: tool, instructions: Watch., uses_tools: [kernel, echo]}\n\
    events: {subscribes: [{topic: '*', handler: notify_user, text: 'spied'}]}\n\
    schedules: [{name: often, cron: '* * * * *', prompt: Look.}]\n";

/// The reason of the only rejected extension, after its phase.
fn rejected(home: &TestHome) -> (String, String) {
    let report = home.skillhost(["ext", "list", "--json"]).success().json();
    let rejected = report["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), 1, "{report}");
    let text = |field: &str| rejected[0][field].as_str().unwrap().to_owned();
    (text("phase"), text("reason"))
}

fn ids(list: &Value, field: &str) -> Vec<String> {
    let all = list.as_array().unwrap().iter();
    all.map(|entry| entry[field].as_str().unwrap().to_owned()).collect()
}

/// Writes a process extension that lists what a file outside of the home says.
fn listing(home: TestHome, id: &str, tools: &str) -> TestHome {
    let names = home.outside().join("tools");
    fs::write(&names, tools).unwrap();
    let (program, names) = (example_program("misbehave_process"), names.display().to_string());
    // A path in the command is one in the folder, so the program is found through a script.
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", program.display());
    let command = json!(["./server", "listing", names]);
    let text =
        format!("id: {id}\nname: Lister\nversion: 1.0.0\nentrypoint: {{command: {command}}}\n");
    let home = home.extension(id, &text);
    home.write(format!("sandbox/extensions/{id}/server"), script);
    let server = home.path(format!("sandbox/extensions/{id}/server"));
    fs::set_permissions(server, fs::Permissions::from_mode(0o755)).unwrap();
    home
}

#[test]
fn moved_library_is_not_loaded() {
    let home = TestHome::new()
        .manifest("skill_registry", &shipped("skill_registry"))
        .file("sandbox/drafts/mine/manifest.yaml", "id: mine\nname: M\nentrypoint: echo\n")
        .trusted();
    fs::copy(library("echo"), home.path("sandbox/drafts/mine/libecho.so")).unwrap();
    fs::create_dir_all(home.path("sandbox/extensions")).unwrap();
    fs::rename(home.path("sandbox/drafts/mine"), home.path("sandbox/extensions/mine")).unwrap();
    assert_eq!(rejected(&home), ("approve".into(), "it is not approved".into()));
    home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).exits(3);
    home.approve("mine");
    home.skillhost(["tool", "call", "echo", r#"{"text":"hi"}"#]).success();
}

#[test]
fn shipped_library_keeps_its_id() {
    let claim = "id: aaa\nname: A\nentrypoint: skill_registry\n";
    let home = home().extension("aaa", claim);
    assert_eq!(rejected(&home).0, "approve");
    home.skillhost(["skill", "list"]).success();
    // Nor can it be approved: it has no library of its own.
    let refused = home.skillhost(["ext", "approve", "aaa", "--print"]).exits(3);
    assert!(
        refused
            .stderr
            .contains("the library `libskill_registry.so` is not in sandbox/extensions/aaa"),
        "{refused}"
    );
    fs::remove_dir_all(home.path("sandbox/extensions/aaa")).unwrap();
    let home = home.manifest("aaa", claim);
    assert_eq!(
        rejected(&home),
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
fn unapproved_agent_gets_nothing() {
    let home = home().extension("spy", SPY);
    let all = |home: &TestHome| {
        let json = |args: &[&str]| home.skillhost(args).success().json();
        (
            ids(&json(&["agent", "list", "--json"])["agents"], "id"),
            ids(&json(&["schedule", "list", "--json"])["schedules"], "id"),
        )
    };
    assert_eq!(all(&home), (vec![], vec![]));
    insta::assert_snapshot!(home.skillhost(["ask", "--agent", "spy", "--print-prompt", "x"]), @"
    exit 1
    --- stderr
    error: agent `spy` is in the error state: it is not approved
    hint: look at it and approve it: skillhost ext approve spy
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
fn edited_prompt_is_inert() {
    let home = home()
        .extension("guide", "id: guide\nname: Guide\nagent: {}\n")
        .file("sandbox/extensions/guide/prompt.jinja2", "Be kind.")
        .approved("guide");
    let prompt = ["ask", "--agent", "guide", "--print-prompt", "x"];
    assert!(home.skillhost(prompt).success().stdout.contains("Be kind."));
    home.write("sandbox/extensions/guide/prompt.jinja2", "Be cruel.");
    let refused = home.skillhost(prompt).exits(1);
    assert!(!refused.stdout.contains("cruel"), "{refused}");
    let (phase, reason) = rejected(&home);
    assert_eq!(phase, "approve");
    assert_eq!(reason, "its files have changed since they were approved: changed prompt.jinja2");
    home.write("sandbox/extensions/guide/prompt.jinja2", "Be kind.");
    home.skillhost(prompt).success();
}

#[test]
fn tool_listing_is_held_to_its_approval() {
    let home = listing(home(), "lister", "look readOnlyHint\nchange").approved("lister");
    let tools = home.outside().join("tools");
    home.skillhost(["tool", "call", "look"]).exits(3);
    for (now, expected) in [
        ("look readOnlyHint\nchange\nmore", "`more` is new"),
        ("look readOnlyHint\nchange readOnlyHint", "`change` has other annotations"),
        ("look readOnlyHint", "`change` is gone"),
    ] {
        fs::write(&tools, now).unwrap();
        let reason = format!("its tools have changed since they were approved: {expected}");
        assert_eq!(rejected(&home), ("approve".into(), reason));
    }
    home.approve("lister");
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn taken_names_reject_the_newcomer_alone() {
    let names = ["read_file", "read_skill", "echo", "skill_registry", "worker"];
    for name in names {
        let home = listing(home(), "aaa", name)
            .manifest("core_tools", &shipped("core_tools"))
            .manifest("worker", "id: worker\nname: W\nagent: {integration_mode: tool}\n")
            .approved("aaa");
        let report = home.skillhost(["ext", "list", "--json"]).success().json();
        assert_eq!(ids(&report["rejected"], "id"), ["aaa"], "{name}: {report}");
        assert_eq!(report["rejected"][0]["phase"], "wire");
        let reason = report["rejected"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(&format!("the tool `{name}` of `aaa` is already")), "{reason}");
        assert_eq!(ids(&report["loaded"], "id"), ["echo", "skill_registry", "core_tools"]);
    }
    // An id that is the name of a tool would be meant where `uses_tools` names the tool.
    let home = listing(home(), "read_skill", "mine").approved("read_skill");
    assert_eq!(
        rejected(&home),
        ("wire".into(), "the id `read_skill` is the name of a tool of `skill_registry`".into())
    );
}

#[test]
fn approval_without_terminal_needs_the_digest() {
    let home = home().extension("guide", "id: guide\nname: Guide\nagent: {}\n");
    let asked = home.skillhost(["ext", "approve", "guide"]).exits(2);
    let digest = home.skillhost(["ext", "approve", "guide", "--print", "--json"]).success().json();
    let digest = digest["digest"].as_str().unwrap();
    let command = format!("skillhost ext approve guide --digest {digest}");
    assert!(asked.stderr.contains(&command), "{asked}");
    let other = "0".repeat(64);
    home.skillhost(["ext", "approve", "guide", "--digest", &other]).exits(4);
    assert_eq!(rejected(&home).0, "approve");
    home.skillhost(["ext", "approve", "guide", "--digest", digest]).success();
    home.skillhost(["ext", "doctor"]).success();
    home.skillhost(["ext", "approve", "echo", "--print"]).exits(5);
    home.skillhost(["ext", "approve", "nobody", "--print"]).exits(3);
}

#[test]
fn person_at_a_terminal_sees_the_code_first() {
    let _timeless = timeless();
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
    // What cannot be shown whole is refused.
    home.write("sandbox/extensions/guide/README.md", "padding\n".repeat(40_000));
    let refused = home.skillhost(["ext", "approve", "guide", "--print"]).exits(5);
    assert!(refused.stderr.contains("README.md: 320000 bytes, 40000 lines"), "{refused}");
    home.write("sandbox/extensions/guide/README.md", [0xff, 0]);
    let refused = home.skillhost(["ext", "approve", "guide", "--print"]).exits(5);
    assert!(refused.stderr.contains("README.md: not text, 2 bytes"), "{refused}");
}

#[test]
fn revoked_approval_is_listed_and_inert() {
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
    assert_eq!(ids(&report["rejected"], "id"), ["changed", "revoked", "waiting"]);
    assert_eq!(ids(&report["agents"], "id"), ["good"]);
}

#[test]
fn damaged_journal_fails_closed() {
    let home = home().extension("guide", "id: guide\nname: Guide\nagent: {}\n").approved("guide");
    let journal = home.path("sandbox/data/kernel/approvals.jsonl");
    let good = fs::read_to_string(&journal).unwrap();
    // A torn line of a crash is ignored and reported.
    fs::write(&journal, format!("{good}{{\"version\":1,\"id\":\"gui")).unwrap();
    let doctor = home.skillhost(["ext", "doctor"]).success();
    assert!(doctor.stdout.contains("the last line is incomplete and does not count"), "{doctor}");
    fs::write(&journal, format!("{{}}\n{good}")).unwrap();
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(doctor.stdout.contains("no extension counts as approved: "), "{doctor}");
    assert!(
        doctor.stdout.contains("approvals.jsonl away, then look at each extension"),
        "{doctor}"
    );
    fs::remove_file(&journal).unwrap();
    home.approve("guide");
    home.skillhost(["ext", "doctor"]).success();
}

#[test]
fn record_of_earlier_versions_is_retired_once() {
    let home = home()
        .extension("guide", "id: guide\nname: Guide\nagent: {}\n")
        .file("sandbox/data/kernel/installed.json", "{}");
    let note = "approvals of earlier versions no longer count";
    assert!(home.skillhost(["ext", "doctor"]).exits(1).stdout.contains(note));
    assert!(!home.skillhost(["ext", "doctor"]).exits(1).stdout.contains(note));
}

#[test]
fn agent_is_approved_by_build_extension() {
    let mock =
        MockModel::with([Step::calls("build_extension", r#"{"id":"guide"}"#), Step::text("Done.")]);
    let home = agents(&mock)
        .settings(&mock.settings(Wire::Openai))
        .extension("guide", &agent("guide", "  instructions: Be kind.\n"));
    let mut command = home.command();
    command.envs(toolchain()).args(["ask", "--agent", "worker", "Go"]);
    let mut person = home.on_terminal(&mut command, (120, 60));
    person.wait_for("| sandbox/extensions/guide: an agent");
    person.wait_for("instructions: Be kind.");
    person.wait_for("[N]o");
    person.send("y\n");
    person.wait_for("Done.");
    assert_eq!(person.finish().output.status, 0);
    let told = mock.requests()[1].last_text();
    assert!(told.starts_with("The agent `guide` is approved, digest "), "{told}");
    let listed = home.skillhost(["ext", "approvals", "--json"]).success().json();
    let approval = &listed["approvals"][0];
    assert_eq!(
        (&approval["approved_by"], &approval["surface"]),
        (&json!("agent worker"), &json!("channel"))
    );
    home.skillhost(["agent", "show", "guide"]).success();
}

#[test]
fn prebuilt_library_says_that_it_cannot_be_shown() {
    let home = TestHome::new().extension("mine", "id: mine\nname: M\nentrypoint: echo\n").trusted();
    fs::copy(library("echo"), home.path("sandbox/extensions/mine/libecho.so")).unwrap();
    let shown = home.skillhost(["ext", "approve", "mine", "--print"]).success().stdout;
    assert!(shown.contains("--- libecho.so: a prebuilt library of "), "{shown}");
    assert!(shown.contains("its content cannot be shown"), "{shown}");
    // An agent cannot have it approved: what it builds it builds from sources.
    let refused = home.skillhost(["ext", "build", "mine", "--yes"]).exits(5);
    assert!(refused.stderr.contains("Cargo.toml: is not there"), "{refused}");
}
