//! Tests of `skillhost ask`: the prompt of one turn.

use std::io::Write as _;
use std::process::Stdio;

use test_support::TestHome;

use crate::fixtures::{
    agent_manifest, home, shipped_manifest, skill_md, stable_json, start_kernel,
};

fn agents_home() -> TestHome {
    home()
        .manifest(
            "orchestrator_agent",
            &agent_manifest("orchestrator_agent", "  instructions: Answer.\n"),
        )
        .manifest(
            "greeter",
            &agent_manifest("greeter", "  uses_skills: [greet]\n  instructions: Be kind.\n"),
        )
}

#[test]
fn default_prompt_has_instructions_and_catalog() {
    insta::assert_snapshot!(agents_home().skillhost(["ask", "--print-prompt", "hi"]), @"
    exit 0
    --- stdout
    Answer.

    ---

    <available_skills>
    [Available Skills]
    • `greet` — Greets people. Use when somebody arrives.

    Use read_skill(skill_id) to load full instructions.
    </available_skills>
    You MUST load a skill, with skills.load or read_skill, before you use its instructions, files or scripts.
    ");
}

#[test]
fn prompt_layers_are_in_order() {
    let home = agents_home()
        .file("manifests/greeter/prompt.jinja2", "You are {{ agent.name }} in {{ sandbox }}.\n");
    insta::assert_snapshot!(home.skillhost(["ask", "--print-prompt", "--agent", "greeter", "hi"]), @r#"
    exit 0
    --- stdout
    You are The greeter in [HOME]/sandbox.

    <skill_content name="greet" digest="bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c">
    Say hello to them.
    </skill_content>

    Be kind.

    ---

    <available_skills>
    [Available Skills]
    • `greet` — Greets people. Use when somebody arrives.

    Use read_skill(skill_id) to load full instructions.
    </available_skills>
    You MUST load a skill, with skills.load or read_skill, before you use its instructions, files or scripts.
    "#);
}

#[test]
fn prompt_blocks_follow_priority() {
    let home = agents_home().settings("extensions: {echo: {greeting: Good morning.}}\n");
    insta::assert_snapshot!(home.skillhost(["ask", "--print-prompt", "hi"]), @"
    exit 0
    --- stdout
    Answer.

    ---

    <available_skills>
    [Available Skills]
    • `greet` — Greets people. Use when somebody arrives.

    Use read_skill(skill_id) to load full instructions.
    </available_skills>
    You MUST load a skill, with skills.load or read_skill, before you use its instructions, files or scripts.

    ---

    Good morning.
    ");
}

#[test]
fn json_prompt_is_one_object() {
    insta::assert_snapshot!(stable_json(&agents_home().skillhost(["ask", "--print-prompt", "--json", "hi"]).success()), @r#"
    {
      "agent": "orchestrator_agent",
      "blocks": [
        {
          "extension": "skill_registry",
          "priority": 60,
          "text": "<available_skills>\n[Available Skills]\n• `greet` — Greets people. Use when somebody arrives.\n\nUse read_skill(skill_id) to load full instructions.\n</available_skills>\nYou MUST load a skill, with skills.load or read_skill, before you use its instructions, files or scripts."
        },
        {
          "extension": "echo",
          "nothing": null,
          "priority": 200
        }
      ],
      "context": {
        "agent_id": "orchestrator_agent",
        "catalog": "all",
        "origin": "agent"
      },
      "schema_version": 1,
      "system_prompt": "Answer.\n\n---\n\n<available_skills>\n[Available Skills]\n• `greet` — Greets people. Use when somebody arrives.\n\nUse read_skill(skill_id) to load full instructions.\n</available_skills>\nYou MUST load a skill, with skills.load or read_skill, before you use its instructions, files or scripts."
    }
    "#);
}

#[test]
fn unknown_agent_suggests_similar_id() {
    insta::assert_snapshot!(agents_home().skillhost(["ask", "--print-prompt", "--agent", "greter", "hi"]), @"
    exit 3
    --- stderr
    error: agent `greter` not found
    hint: did you mean greeter?
    hint: see: skillhost agent list
    ");
}

#[test]
fn default_model_is_demo_script() {
    let home = agents_home();
    let output = home.skillhost(["ask", "hi"]).success();
    assert!(
        output.stdout.starts_with("I am script/demo, a script included in skillhost"),
        "{output}"
    );
    let notes: Vec<_> = output.stderr.lines().filter(|l| l.starts_with("note: ")).collect();
    assert_eq!(
        notes,
        ["note: these are the answers of a built-in script; to talk to a model, name it under \
          models.default in skillhost.yaml or with --model"]
    );
}

#[test]
fn missing_default_agent_gets_hint() {
    insta::assert_snapshot!(home().skillhost(["ask", "--print-prompt", "hi"]), @"
    exit 3
    --- stderr
    error: agent `orchestrator_agent` not found
    hint: see: skillhost agent list
    ");
}

#[test]
fn failed_agent_has_no_prompt() {
    let home = agents_home().manifest("lost", &agent_manifest("lost", "  uses_skills: [gret]\n"));
    insta::assert_snapshot!(home.skillhost(["ask", "--print-prompt", "--agent", "lost", "hi"]), @"
    exit 1
    --- stderr
    error: agent `lost` is in the error state: [HOME]/manifests/lost/manifest.yaml:5:17: uses_skills: skill `gret` not found
    hint: did you mean `greet`?
    ");
    home.skillhost(["ask", "--print-prompt", "hi"]).success();
}

#[test]
fn dash_reads_message_from_stdin() {
    let home = agents_home();
    let input = home.outside().join("input");
    std::fs::File::create(&input).unwrap().write_all(b"hi\n").unwrap();
    let stdin = Stdio::from(std::fs::File::open(&input).unwrap());
    let output =
        home.start(home.command().args(["ask", "--print-prompt", "-"]).stdin(stdin)).finish();
    assert_eq!(output, home.skillhost(["ask", "--print-prompt", "hi"]).success());
}

#[test]
fn running_kernel_uses_current_skills() {
    let home = agents_home();
    let kernel = start_kernel(&home);
    let ask =
        || home.skillhost(["ask", "--print-prompt", "--agent", "greeter", "hi"]).success().stdout;
    assert!(ask().contains("Say hello to them."));
    home.write("sandbox/skills/greet/SKILL.md", skill_md("Greets.", "Bow to them."));
    kernel.line_with("skill.changed greet");
    let changed = ask();
    assert!(changed.contains("Bow to them.") && !changed.contains("Say hello"), "{changed}");
    assert!(changed.contains("• `greet` — Greets.\n"), "{changed}");
    home.write("sandbox/skills/greet/SKILL.md", "---\nno fence");
    // A skill that no longer parses keeps its last valid text.
    assert_eq!(ask(), changed);
    kernel.interrupt().success();
}

#[test]
fn agent_recovers_with_its_skill() {
    let home = agents_home();
    let kernel = start_kernel(&home);
    let ask = |agent: &str| home.skillhost(["ask", "--print-prompt", "--agent", agent, "hi"]);
    ask("greeter").success();
    let text = std::fs::read(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    std::fs::remove_dir_all(home.path("sandbox/skills/greet")).unwrap();
    kernel.line_with("skill.removed greet");
    insta::assert_snapshot!(ask("greeter"), @"
    exit 1
    --- stderr
    error: agent `greeter` is in the error state: [HOME]/manifests/greeter/manifest.yaml:5:17: uses_skills: skill `greet` not found
    hint: list_skills shows the available skills
    ");
    ask("orchestrator_agent").success();
    home.write("sandbox/skills/greet/SKILL.md", text);
    kernel.line_with("skill.added greet");
    ask("greeter").success();
    kernel.interrupt().success();
}

#[test]
fn prompt_works_without_registry() {
    let home = TestHome::new()
        .manifest("echo", &shipped_manifest("echo"))
        .manifest("plain", "id: plain\nname: Plain\nagent: {instructions: Just answer.}\n")
        .trusted();
    let output = home.skillhost(["ask", "--print-prompt", "--agent", "plain", "hi"]).success();
    assert_eq!((&*output.stdout, &*output.stderr), ("Just answer.\n", ""));
}
