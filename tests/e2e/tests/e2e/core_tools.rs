//! Tests of the shipped file tools through the binary.

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::fixtures::{agent_manifest, home, shipped_manifest};

fn tools_home() -> TestHome {
    home().manifest("core_tools", &shipped_manifest("core_tools"))
}

fn call_tool(home: &TestHome, tool: &str, arguments: &Value) -> Output {
    home.skillhost(["tool", "call", tool, &arguments.to_string()])
}

#[test]
fn file_tools_edit_sandbox_files() {
    let home = tools_home();
    let written =
        call_tool(&home, "write_file", &json!({"path": "notes/a.md", "content": "one\ntwo\n"}));
    insta::assert_snapshot!(written, @"
    exit 0
    --- stdout
    Created `notes/a.md`: 2 lines, 8 bytes; sha256 c3f9c8c283a2b1f2f1896f27a01cbe3cddc0c9d93f752e4639035a0f5b36f6e8.
    ");
    let patch = "--- a/notes/a.md\n+++ b/notes/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    call_tool(&home, "apply_patch", &json!({ "patch": patch })).success();
    insta::assert_snapshot!(call_tool(&home, "read_file", &json!({"path": "notes/a.md"})), @"
    exit 0
    --- stdout
    one
    2
    [lines 1 to 2 of 2; sha256 b8c083898d90038ced2e04df2f932eefa7d187080dee0d9942be12c156d95034]
    ");
    call_tool(&home, "move_path", &json!({"from": "notes/a.md", "to": "b.md"})).success();
    insta::assert_snapshot!(call_tool(&home, "list_directory", &json!({})), @"
    exit 0
    --- stdout
    b.md (6 bytes)
    notes/
    skills/
    [3 entries]
    ");
    call_tool(&home, "delete_path", &json!({"path": "b.md"})).success();
    insta::assert_snapshot!(call_tool(&home, "read_file", &json!({"path": "b.md"})), @"
    exit 3
    --- stderr
    error: `b.md` not found in the sandbox
    hint: list_directory lists the entries; a path is taken literally
    ");
    insta::assert_snapshot!(call_tool(&home, "read_file", &json!({"path": "../skillhost.yaml"})), @"
    exit 5
    --- stderr
    error: a path cannot have a component `.` or `..`
    hint: give a path below the sandbox, with /, as list_directory shows it: skills/x/SKILL.md
    ");
    insta::assert_snapshot!(call_tool(&home, "list_directory", &json!({"path": "data"})), @"
    exit 5
    --- stderr
    error: `data` is private data
    hint: sandbox/data belongs to the extensions; use their tools
    ");
}

#[test]
fn tools_declare_annotations() {
    let listed = tools_home().skillhost(["tool", "list", "--json"]).success().json();
    let own = |tool: &&Value| tool["extension"] == "core_tools";
    let annotations = |tool: &Value| {
        json!([tool["name"], tool["read_only"], tool["destructive"], tool["needs_approval"]])
    };
    let annotations: Vec<Value> =
        listed["tools"].as_array().unwrap().iter().filter(own).map(annotations).collect();
    let expected = [
        json!(["apply_patch", false, false, "unless_granted"]),
        json!(["delete_path", false, true, "unless_granted"]),
        json!(["find_files", true, false, "never"]),
        json!(["git_diff", true, false, "never"]),
        json!(["git_log", true, false, "never"]),
        json!(["list_directory", true, false, "never"]),
        json!(["move_path", false, false, "unless_granted"]),
        json!(["read_file", true, false, "never"]),
        json!(["search_text", true, false, "never"]),
        json!(["write_file", false, false, "unless_granted"]),
        json!(["write_files", false, false, "unless_granted"]),
    ];
    assert_eq!(annotations, expected);
}

#[test]
fn file_tools_cannot_edit_skills() {
    let home = tools_home().manifest(
        "writer",
        &agent_manifest("writer", "  uses_skills: [coffee]\n  instructions: Brew.\n"),
    );
    let path = "skills/greet/SKILL.md";
    let original = std::fs::read_to_string(home.path("sandbox").join(path)).unwrap();
    insta::assert_snapshot!(call_tool(&home, "write_file", &json!({"path": path, "content": "mine"})), @"
    exit 5
    --- stderr
    error: `skills/greet/SKILL.md` belongs to the skill `greet`, which is read-only
    hint: propose the change: propose_skill_update with skill_id `greet`
    ");
    assert_eq!(std::fs::read_to_string(home.path("sandbox").join(path)).unwrap(), original);

    let coffee = "---\nname: coffee\ndescription: Brews coffee.\n---\nGrind.\n";
    let written = call_tool(
        &home,
        "write_file",
        &json!({"path": "skills/coffee/SKILL.md", "content": coffee}),
    );
    insta::assert_snapshot!(written, @"
    exit 0
    --- stdout
    Created `skills/coffee/SKILL.md`: 5 lines, 55 bytes; sha256 9ed1ab375a8e49eac74b9385aafcedbea2fb0f429e12494870c832a63cc20746.
    `coffee` is a new skill, not approved: it grants nothing and cannot be bound until a person approves it with `skillhost skill approve coffee`.
    ");
    let listed = call_tool(&home, "list_skills", &json!({})).success();
    assert!(
        listed.stdout.contains("`coffee` — Brews coffee. [~2 tokens; sandbox, unapproved"),
        "{listed}"
    );
    insta::assert_snapshot!(home.skillhost(["agent", "list"]), @"
    exit 0
    --- stdout
    AGENT  STATE TOKENS SKILLS NAME
    writer error 0      coffee The writer
    --- stderr
    note: writer: [HOME]/manifests/writer/manifest.yaml:5:17: uses_skills: `coffee` was created by an agent and is not approved as it is now (inspect its files, then run: skillhost skill approve coffee --digest 3c5bf05bebafef9e38b86aeb1695b9308ad24df0344267c98e2b6a56a78f20b5)
    ");
    let history = home.skillhost(["skill", "history", "coffee", "--json"]).success().json();
    assert_eq!(history["versions"][0]["author"]["kind"], "agent", "{history}");

    // A second skill of that id would replace the first one in the ledger.
    let again = json!({"path": "skills/group/greet/SKILL.md", "content": coffee});
    insta::assert_snapshot!(call_tool(&home, "write_file", &again), @"
    exit 4
    --- stderr
    error: skill `greet` already exists
    hint: choose another id, or change it with propose_skill_update
    ");
    assert!(!home.path("sandbox/skills/group").exists());
}

#[test]
fn skill_creation_requires_registry() {
    let home = TestHome::new().manifest("core_tools", &shipped_manifest("core_tools")).trusted();
    let coffee = "---\nname: coffee\ndescription: Brews coffee.\n---\nGrind.\n";
    let args = json!({"path": "skills/coffee/SKILL.md", "content": coffee});
    insta::assert_snapshot!(call_tool(&home, "write_file", &args), @"
    exit 1
    --- stderr
    error: `skill_registry` is not loaded
    hint: no skill can be created without the registry; ask the operator
    ");
    assert!(!home.path("sandbox/skills/coffee").exists());
    call_tool(&home, "write_file", &json!({"path": "a.md", "content": "x"})).success();
}
