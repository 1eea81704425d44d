//! The shipped file tools, through the binary.

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::scene::{agent, home, shipped, skill};

fn with_tools() -> TestHome {
    home().manifest("core_tools", &shipped("core_tools"))
}

fn call(home: &TestHome, tool: &str, arguments: &Value) -> Output {
    home.skillhost(["tool", "call", tool, &arguments.to_string()])
}

#[test]
fn files_of_the_sandbox_are_worked_on() {
    let home = with_tools();
    let written =
        call(&home, "write_file", &json!({"path": "notes/a.md", "content": "one\ntwo\n"}));
    insta::assert_snapshot!(written, @"");
    let patch = "--- a/notes/a.md\n+++ b/notes/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    call(&home, "apply_patch", &json!({ "patch": patch })).success();
    insta::assert_snapshot!(call(&home, "read_file", &json!({"path": "notes/a.md"})), @"");
    call(&home, "move_path", &json!({"from": "notes/a.md", "to": "b.md"})).success();
    insta::assert_snapshot!(call(&home, "list_directory", &json!({})), @"");
    call(&home, "delete_path", &json!({"path": "b.md"})).success();
    insta::assert_snapshot!(call(&home, "read_file", &json!({"path": "b.md"})), @"");
    insta::assert_snapshot!(call(&home, "read_file", &json!({"path": "../skillhost.yaml"})), @"");
    insta::assert_snapshot!(call(&home, "list_directory", &json!({"path": "data"})), @"");
}

#[test]
fn every_tool_says_what_it_may_do() {
    let listed = with_tools().skillhost(["tool", "list", "--json"]).success().json();
    let own = |tool: &&Value| tool["extension"] == "core_tools";
    let said = |tool: &Value| {
        json!([tool["name"], tool["read_only"], tool["destructive"], tool["needs_approval"]])
    };
    let said: Vec<Value> =
        listed["tools"].as_array().unwrap().iter().filter(own).map(said).collect();
    let expected = [
        json!(["apply_patch", false, false, "unless_granted"]),
        json!(["delete_path", false, true, "unless_granted"]),
        json!(["list_directory", true, false, "never"]),
        json!(["move_path", false, false, "unless_granted"]),
        json!(["read_file", true, false, "never"]),
        json!(["write_file", false, false, "unless_granted"]),
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_skill_is_read_only_and_a_new_one_is_not_approved() {
    let home = with_tools()
        .manifest("writer", &agent("writer", "  uses_skills: [coffee]\n  instructions: Brew.\n"));
    let path = "skills/greet/SKILL.md";
    let before = std::fs::read_to_string(home.path("sandbox").join(path)).unwrap();
    insta::assert_snapshot!(call(&home, "write_file", &json!({"path": path, "content": "mine"})), @"");
    assert_eq!(std::fs::read_to_string(home.path("sandbox").join(path)).unwrap(), before);

    let coffee = skill("Brews coffee.", "Grind.");
    let written =
        call(&home, "write_file", &json!({"path": "skills/coffee/SKILL.md", "content": coffee}));
    insta::assert_snapshot!(written, @"");
    let listed = call(&home, "list_skills", &json!({})).success();
    assert!(
        listed.stdout.contains("`coffee` — Brews coffee. [~2 tokens; sandbox, unapproved"),
        "{listed}"
    );
    insta::assert_snapshot!(home.skillhost(["agent", "list"]), @"");
    let history = home.skillhost(["skill", "history", "coffee", "--json"]).success().json();
    assert_eq!(history["versions"][0]["author"]["kind"], "agent", "{history}");

    // Another skill of that id would take its place in the ledger.
    let again = json!({"path": "skills/group/greet/SKILL.md", "content": coffee});
    insta::assert_snapshot!(call(&home, "write_file", &again), @"");
    assert!(!home.path("sandbox/skills/group").exists());
}

#[test]
fn without_a_registry_no_skill_comes_to_be() {
    let home = TestHome::new().manifest("core_tools", &shipped("core_tools")).trusted();
    let coffee = skill("Brews coffee.", "Grind.");
    let args = json!({"path": "skills/coffee/SKILL.md", "content": coffee});
    insta::assert_snapshot!(call(&home, "write_file", &args), @"");
    assert!(!home.path("sandbox/skills/coffee").exists());
    call(&home, "write_file", &json!({"path": "a.md", "content": "x"})).success();
}
