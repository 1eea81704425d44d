//! Tests of skill scopes and states, and of their explanation.

use std::fs;

use serde_json::{Value, json};
use test_support::TestHome;

use crate::fixtures::{agent_manifest, home, shipped_manifest, skill_md, start_kernel};

/// Creates a home with three skills; the shipped builder is bound to one of them.
fn agents_home() -> TestHome {
    let builder = shipped_manifest("builder_agent").replace(", skill-authoring", "");
    home()
        .skill("brew-tea", &skill_md("Brews tea.", "Boil."))
        .skill("bake-bread", &skill_md("Bakes bread.", "Knead."))
        .skill("extension-development", &skill_md("Makes extensions.", "Begin."))
        .manifest("orchestrator_agent", &shipped_manifest("orchestrator_agent"))
        .manifest("builder_agent", &builder)
        .manifest("none", &agent_manifest("none", "  instructions: Hi.\n  catalog: none\n"))
        .manifest(
            "cook",
            &agent_manifest(
                "cook",
                "  instructions: Hi.\n  catalog: {include: ['b*', zz-*], exclude: [bake-bread]}\n",
            ),
        )
}

fn print_prompt(home: &TestHome, agent: &str) -> String {
    home.skillhost(["ask", "--print-prompt", "--agent", agent, "hello"]).success().stdout
}

/// Returns the ids that have a line in an agent's prompt.
fn listed_ids(home: &TestHome, agent: &str) -> Vec<String> {
    let prompt = print_prompt(home, agent);
    let id = |line: &str| Some(line.strip_prefix("• `")?.split('`').next()?.to_owned());
    prompt.lines().filter_map(id).collect()
}

#[test]
fn manifest_scope_limits_catalog() {
    let home = agents_home();
    let all = ["bake-bread", "brew-tea", "extension-development", "greet"];
    assert_eq!(listed_ids(&home, "orchestrator_agent"), all);
    assert_eq!(listed_ids(&home, "builder_agent"), ["extension-development"]);
    assert_eq!(listed_ids(&home, "cook"), ["brew-tea"]);
    assert_eq!(listed_ids(&home, "none"), Vec::<String>::new());
    assert!(!print_prompt(&home, "none").contains("[Available Skills]"));
}

fn explain_skills(home: &TestHome, agent: &str, prompt: &str) -> (Value, i32) {
    let args = ["skill", "doctor", "--agent", agent, "--prompt", prompt, "--json"];
    let output = home.skillhost(args);
    (output.json(), output.status)
}

#[test]
fn doctor_explains_hidden_skills() {
    let home = agents_home();
    let args = ["skill", "doctor", "--agent", "cook", "--prompt", "brew some tea"];
    insta::assert_snapshot!(home.skillhost(args), @"
    exit 1
    --- stdout
    1 of 4 skills visible; all of them are listed
    block: 242 of 8000 characters, 1 skills: 0 with a shortened description, 0 without, 0 left out

    best matches:
      1. brew-tea 23.994 (name, description; in the block)

    3 outside the agent's catalog: bake-bread, extension-development, greet
    no effect: `zz-*` of catalog: it matches no skill
    ");
    let (object, status) = explain_skills(&home, "cook", "brew some tea");
    assert_eq!(status, 1);
    let absent = |id: &str| -> Value {
        let skills = object["skills"].as_array().unwrap();
        skills.iter().find(|skill| skill["skill_id"] == id).unwrap()["absent"].clone()
    };
    assert_eq!((absent("greet"), absent("brew-tea")), (json!("scope"), Value::Null));
    assert_eq!(
        object["unmatched_globs"],
        json!([{"pattern": "zz-*", "reason": "it matches no skill"}])
    );
    let (object, status) = explain_skills(&home, "builder_agent", "-");
    assert_eq!((object["visible"].as_u64(), status), (Some(1), 0));
    home.skillhost(["skill", "doctor", "--agent", "nobody", "--prompt", "x"]).exits(3);
    home.skillhost(["skill", "doctor", "--agent", "cook"]).exits(2);
    let untrusted = crate::fixtures::untrusted_home();
    untrusted.skillhost(args).exits(5);
}

#[test]
fn skills_are_enabled_and_disabled() {
    let home = agents_home().settings("# mine\nallow_shadowing: []  # none\n\nextensions: {}\n");
    let off = home.skillhost(["skill", "disable", "greet", "brew-tea"]);
    insta::assert_snapshot!(off, @"
    exit 0
    --- stdout
    greet: on → off
    brew-tea: on → off
    ");
    let settings = || fs::read_to_string(home.path("skillhost.yaml")).unwrap();
    assert_eq!(
        settings(),
        "# mine\nallow_shadowing: []  # none\n\n\
         extensions: {skill_registry: {skills: {brew-tea: 'off', greet: 'off'}}}\n"
    );
    assert_eq!(listed_ids(&home, "orchestrator_agent"), ["bake-bread", "extension-development"]);
    let list = home.skillhost(["skill", "list"]).success().stdout;
    assert!(
        list.contains("greet                  Greets people. Use when somebody arrives. [~"),
        "{list}"
    );
    assert_eq!(list.matches(", off]").count(), 2, "{list}");
    let show = home.skillhost(["skill", "show", "greet"]).success().stdout;
    let line = "state        off (extensions.skill_registry.skills.greet in skillhost.yaml)\n";
    assert!(show.contains(line), "{show}");
    let name_only = home.skillhost(["skill", "disable", "--name-only", "brew-tea", "--json"]);
    assert_eq!(
        name_only.success().json()["changed"],
        json!([{"skill_id": "brew-tea", "from": "off", "to": "name-only"}])
    );
    assert!(print_prompt(&home, "orchestrator_agent").contains("• `brew-tea`\n"));
    home.skillhost(["skill", "disable", "--user-only", "bake-bread"]).success();
    assert_eq!(listed_ids(&home, "orchestrator_agent"), ["brew-tea", "extension-development"]);
    let enable = ["skill", "enable", "greet", "brew-tea", "bake-bread"];
    home.skillhost(enable).success();
    assert_eq!(
        home.skillhost(enable).success().stdout,
        "greet: on already\nbrew-tea: on already\nbake-bread: on already\n"
    );
    assert_eq!(listed_ids(&home, "orchestrator_agent").len(), 4);

    // An unknown id in the arguments changes no skill at all.
    let before = settings();
    insta::assert_snapshot!(home.skillhost(["skill", "disable", "greet", "brew-te"]), @"
    exit 3
    --- stderr
    error: skill `brew-te` not found
    hint: did you mean `brew-tea`?
    ");
    home.write("skillhost.yaml", "extensions: [\n");
    home.skillhost(["skill", "disable", "greet"]).exits(2);
    assert_eq!(settings(), "extensions: [\n");
    home.write("skillhost.yaml", before);
}

#[test]
fn disabled_bound_skill_fails_agent() {
    let home = agents_home();
    home.skillhost(["skill", "disable", "--user-only", "extension-development"]).success();
    let bound = print_prompt(&home, "builder_agent");
    assert!(bound.contains("<skill_content") && !bound.contains("[Available Skills]"), "{bound}");
    home.skillhost(["skill", "disable", "extension-development"]).success();
    let denied = home.skillhost(["ask", "--print-prompt", "--agent", "builder_agent", "hi"]);
    let denied = denied.exits(1);
    let setting = "extensions.skill_registry.skills.extension-development: off";
    assert!(denied.stderr.contains(setting), "{denied}");
    // An unknown skill in the settings is reported and does not stop the extension.
    home.write(
        "skillhost.yaml",
        "extensions: {skill_registry: {skills: {gret: off, 'x-*': off}}}\n",
    );
    let doctor = home.skillhost(["ext", "doctor"]).exits(1);
    assert!(doctor.stdout.contains("`gret` has no effect: skill not found"), "{doctor}");
    assert_eq!(listed_ids(&home, "orchestrator_agent").len(), 4);
}

#[test]
fn running_kernel_applies_skill_state() {
    let home = agents_home();
    let kernel = start_kernel(&home);
    let output = home.skillhost(["skill", "disable", "greet"]).success().stdout;
    assert_eq!(output, "greet: on → off\nthe running kernel uses it\n");
    kernel.line_with("kernel.extension_reloaded skill_registry");
    assert!(!listed_ids(&home, "orchestrator_agent").contains(&"greet".to_owned()));
    home.skillhost(["skill", "enable", "greet"]).success();
    assert!(listed_ids(&home, "orchestrator_agent").contains(&"greet".to_owned()));
    let args = ["skill", "doctor", "--agent", "none", "--prompt", "hi", "--json"];
    assert_eq!(home.skillhost(args).success().json()["visible"], 0);
    kernel.interrupt().success();
}
