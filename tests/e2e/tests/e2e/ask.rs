//! `skillhost ask`: the prompt of one turn.

use std::io::Write as _;
use std::process::Stdio;

use test_support::TestHome;

use crate::scene::{agent, home, running, shipped, skill, steady};

fn with_agents() -> TestHome {
    home()
        .manifest("orchestrator_agent", &agent("orchestrator_agent", "  instructions: Answer.\n"))
        .manifest(
            "greeter",
            &agent("greeter", "  uses_skills: [greet]\n  instructions: Be kind.\n"),
        )
}

#[test]
fn the_default_agents_prompt_has_its_instructions_and_the_catalog() {
    insta::assert_snapshot!(with_agents().skillhost(["ask", "--print-prompt", "hi"]), @"
    exit 0
    --- stdout
    Answer.

    ---

    [Available Skills]
    • `greet` — Greets people. Use when somebody arrives.

    Use read_skill(skill_id) to load full instructions.
    ");
}

#[test]
fn a_named_agents_prompt_has_its_layers_in_order() {
    let home = with_agents()
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

    [Available Skills]
    • `greet` — Greets people. Use when somebody arrives.

    Use read_skill(skill_id) to load full instructions.
    "#);
}

#[test]
fn blocks_follow_each_other_by_priority_and_settings_reach_the_extensions() {
    let home = with_agents().settings("extensions: {echo: {greeting: Good morning.}}\n");
    insta::assert_snapshot!(home.skillhost(["ask", "--print-prompt", "hi"]), @"
    exit 0
    --- stdout
    Answer.

    ---

    [Available Skills]
    • `greet` — Greets people. Use when somebody arrives.

    Use read_skill(skill_id) to load full instructions.

    ---

    Good morning.
    ");
}

#[test]
fn the_turn_is_one_json_object() {
    insta::assert_snapshot!(steady(&with_agents().skillhost(["ask", "--print-prompt", "--json", "hi"]).success()), @r#"
    {
      "agent": "orchestrator_agent",
      "blocks": [
        {
          "extension": "skill_registry",
          "priority": 60,
          "text": "[Available Skills]\n• `greet` — Greets people. Use when somebody arrives.\n\nUse read_skill(skill_id) to load full instructions."
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
      "system_prompt": "Answer.\n\n---\n\n[Available Skills]\n• `greet` — Greets people. Use when somebody arrives.\n\nUse read_skill(skill_id) to load full instructions."
    }
    "#);
}

#[test]
fn an_unknown_agent_is_named_with_the_nearest() {
    insta::assert_snapshot!(with_agents().skillhost(["ask", "--print-prompt", "--agent", "greter", "hi"]), @"
    exit 3
    --- stderr
    error: no agent `greter`
    hint: did you mean greeter?
    hint: see: skillhost agent list
    ");
}

#[test]
fn without_settings_the_built_in_script_answers_and_says_so() {
    let home = with_agents();
    let output = home.skillhost(["ask", "hi"]).success();
    assert!(output.stdout.starts_with("I am script/demo, a script that ships"), "{output}");
    let notes: Vec<_> = output.stderr.lines().filter(|l| l.starts_with("note: ")).collect();
    assert_eq!(
        notes,
        ["note: these are the answers of a built-in script; to talk to a model, name it under \
          models.default in skillhost.yaml or with --model"]
    );
}

#[test]
fn without_agents_it_says_where_to_look() {
    insta::assert_snapshot!(home().skillhost(["ask", "--print-prompt", "hi"]), @"
    exit 3
    --- stderr
    error: no agent `orchestrator_agent`
    hint: see: skillhost agent list
    ");
}

#[test]
fn an_agent_in_the_error_state_gets_no_prompt_and_the_others_do() {
    let home = with_agents().manifest("lost", &agent("lost", "  uses_skills: [gret]\n"));
    insta::assert_snapshot!(home.skillhost(["ask", "--print-prompt", "--agent", "lost", "hi"]), @"
    exit 1
    --- stderr
    error: agent `lost` is in the error state: [HOME]/manifests/lost/manifest.yaml:5:17: uses_skills: there is no skill `gret`
    hint: did you mean `greet`?
    ");
    home.skillhost(["ask", "--print-prompt", "hi"]).success();
}

#[test]
fn a_dash_reads_what_the_user_says_from_standard_input() {
    let home = with_agents();
    let input = home.outside().join("input");
    std::fs::File::create(&input).unwrap().write_all(b"hi\n").unwrap();
    let stdin = Stdio::from(std::fs::File::open(&input).unwrap());
    let output =
        home.start(home.command().args(["ask", "--print-prompt", "-"]).stdin(stdin)).finish();
    assert_eq!(output, home.skillhost(["ask", "--print-prompt", "hi"]).success());
}

#[test]
fn a_running_kernel_composes_with_what_it_has_seen_since() {
    let home = with_agents();
    let kernel = running(&home);
    let ask =
        || home.skillhost(["ask", "--print-prompt", "--agent", "greeter", "hi"]).success().stdout;
    assert!(ask().contains("Say hello to them."));
    home.write("sandbox/skills/greet/SKILL.md", skill("Greets.", "Bow to them."));
    kernel.line_with("skill.changed greet");
    let changed = ask();
    assert!(changed.contains("Bow to them.") && !changed.contains("Say hello"), "{changed}");
    assert!(changed.contains("• `greet` — Greets.\n"), "{changed}");
    home.write("sandbox/skills/greet/SKILL.md", "---\nno fence");
    // What is broken on disk is still bound as it last was.
    assert_eq!(ask(), changed);
    kernel.interrupt().success();
}

#[test]
fn an_agent_whose_skill_goes_stops_and_goes_on_when_it_is_back() {
    let home = with_agents();
    let kernel = running(&home);
    let ask = |agent: &str| home.skillhost(["ask", "--print-prompt", "--agent", agent, "hi"]);
    ask("greeter").success();
    let kept = std::fs::read(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    std::fs::remove_dir_all(home.path("sandbox/skills/greet")).unwrap();
    kernel.line_with("skill.removed greet");
    insta::assert_snapshot!(ask("greeter"), @"
    exit 1
    --- stderr
    error: agent `greeter` is in the error state: [HOME]/manifests/greeter/manifest.yaml:5:17: uses_skills: there is no skill `greet`
    hint: list_skills shows what there is
    ");
    ask("orchestrator_agent").success();
    home.write("sandbox/skills/greet/SKILL.md", kept);
    kernel.line_with("skill.added greet");
    ask("greeter").success();
    kernel.interrupt().success();
}

#[test]
fn a_home_without_the_registry_still_composes() {
    let home = TestHome::new()
        .manifest("echo", &shipped("echo"))
        .manifest("plain", "id: plain\nname: Plain\nagent: {instructions: Just answer.}\n")
        .trusted();
    let output = home.skillhost(["ask", "--print-prompt", "--agent", "plain", "hi"]).success();
    assert_eq!((&*output.stdout, &*output.stderr), ("Just answer.\n", ""));
}
