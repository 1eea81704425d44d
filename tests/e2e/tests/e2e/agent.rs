//! Tests of `skillhost agent`: the list of agents and the layers of their instructions.

use test_support::TestHome;

use crate::fixtures::{agent_manifest, home, stable_json};

fn agents_home() -> TestHome {
    let layered = "  uses_tools: [echo]\n  uses_skills: [greet]\n  instructions: |\n    Be kind.\n";
    home()
        .manifest("greeter", &agent_manifest("greeter", layered))
        .file("manifests/greeter/prompt.jinja2", "You are {{ agent.name }}.\n")
        .manifest(
            "lost",
            &agent_manifest("lost", "  instructions: Hello.\n  uses_skills: [greet, gret]\n"),
        )
}

#[test]
fn list_shows_agent_states() {
    insta::assert_snapshot!(agents_home().skillhost(["agent", "list"]), @"
    exit 0
    --- stdout
    AGENT   STATE TOKENS SKILLS      NAME
    greeter ready 43     greet       The greeter
    lost    error 0      greet, gret The lost
    --- stderr
    note: lost: [HOME]/manifests/lost/manifest.yaml:6:24: uses_skills: skill `gret` not found (did you mean `greet`?)
    ");
    insta::assert_snapshot!(stable_json(&agents_home().skillhost(["agent", "list", "--json"]).success()), @r#"
    {
      "agents": [
        {
          "id": "greeter",
          "name": "The greeter",
          "state": "ready",
          "tokens": 43,
          "uses_skills": [
            "greet"
          ],
          "uses_tools": [
            "echo"
          ]
        },
        {
          "id": "lost",
          "name": "The lost",
          "problem": {
            "hint": "did you mean `greet`?",
            "reason": "[HOME]/manifests/lost/manifest.yaml:6:24: uses_skills: skill `gret` not found"
          },
          "state": "error",
          "tokens": 0,
          "uses_skills": [
            "greet",
            "gret"
          ],
          "uses_tools": []
        }
      ],
      "schema_version": 1
    }
    "#);
}

#[test]
fn show_lists_layer_sources_and_tokens() {
    let home = agents_home();
    insta::assert_snapshot!(home.skillhost(["agent", "show", "greeter"]), @r#"
    exit 0
    --- stdout
    greeter  The greeter
    manifest  [HOME]/manifests/greeter/manifest.yaml
    model     (default)
    tools     echo
    layers    3, approx. 43 tokens

    1. prompt [HOME]/manifests/greeter/prompt.jinja2 · sha256 d7e7a15f997f · approx. 5 tokens
    You are The greeter.

    2. skill greet sandbox/skills/greet/SKILL.md · sha256 bac4baef64d2 · approx. 35 tokens
    <skill_content name="greet" digest="bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c">
    Say hello to them.
    </skill_content>

    3. instructions [HOME]/manifests/greeter/manifest.yaml · sha256 f32bf5e09516 · approx. 3 tokens
    Be kind.
    "#);
    insta::assert_snapshot!(stable_json(&home.skillhost(["agent", "show", "greeter", "--json"]).success()), @r#"
    {
      "catalog": "declared",
      "id": "greeter",
      "layers": [
        {
          "digest": "d7e7a15f997f4a160f31badeaca1b9c2693231da84f82d6bd7fd7bafa4683ade",
          "kind": "prompt",
          "source": "[HOME]/manifests/greeter/prompt.jinja2",
          "text": "You are The greeter.",
          "tokens": 5
        },
        {
          "digest": "bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c",
          "kind": "skill",
          "skill_id": "greet",
          "source": "sandbox/skills/greet/SKILL.md",
          "text": "<skill_content name=\"greet\" digest=\"bac4baef64d29c6de0616a12b9b6e43eb74078226f01be2df8d4cad99799224c\">\nSay hello to them.\n</skill_content>",
          "tokens": 35
        },
        {
          "digest": "f32bf5e09516390e83144b4a66afea2f104e1b229bc809baed4f8efb0f3a1d39",
          "kind": "inline",
          "source": "[HOME]/manifests/greeter/manifest.yaml",
          "text": "Be kind.\n",
          "tokens": 3
        }
      ],
      "limits": {
        "max_tokens_per_invocation": null,
        "max_turns": null,
        "time_budget_ms": null
      },
      "manifest": "[HOME]/manifests/greeter/manifest.yaml",
      "model": null,
      "name": "The greeter",
      "schema_version": 1,
      "state": "ready",
      "tokens": 43,
      "tools": [
        "echo"
      ],
      "uses_skills": [
        "greet"
      ],
      "uses_tools": [
        "echo"
      ]
    }
    "#);
}

#[test]
fn skill_layer_digest_matches_file() {
    use sha2::{Digest as _, Sha256};
    let home = agents_home();
    let output = home.skillhost(["agent", "show", "greeter", "--json"]).success().json();
    let text = std::fs::read(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    let digest: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(output["layers"][1]["digest"], digest);
    let read = home.skillhost(["skill", "show", "greet", "--json"]).success().json();
    assert_eq!(read["digest"], digest);
}

#[test]
fn missing_skill_fails_only_its_agent() {
    let home = agents_home();
    insta::assert_snapshot!(home.skillhost(["agent", "show", "lost"]), @"
    exit 1
    --- stdout
    lost  The lost
    manifest  [HOME]/manifests/lost/manifest.yaml
    model     (default)
    tools     (none)
    error     [HOME]/manifests/lost/manifest.yaml:6:24: uses_skills: skill `gret` not found
    hint      did you mean `greet`?
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["agent", "show", "lost", "--json"]).exits(1)), @r#"
    {
      "catalog": "declared",
      "id": "lost",
      "layers": [],
      "limits": {
        "max_tokens_per_invocation": null,
        "max_turns": null,
        "time_budget_ms": null
      },
      "manifest": "[HOME]/manifests/lost/manifest.yaml",
      "model": null,
      "name": "The lost",
      "problem": {
        "hint": "did you mean `greet`?",
        "reason": "[HOME]/manifests/lost/manifest.yaml:6:24: uses_skills: skill `gret` not found"
      },
      "schema_version": 1,
      "state": "error",
      "tokens": 0,
      "tools": [],
      "uses_skills": [
        "greet",
        "gret"
      ],
      "uses_tools": []
    }
    "#);
    home.skillhost(["agent", "show", "greeter"]).success();
}

#[test]
fn missing_dependency_suggests_manifest_line() {
    let home = home().manifest("loose", "id: loose\nname: Loose\nagent:\n  uses_skills: [greet]\n");
    insta::assert_snapshot!(home.skillhost(["agent", "show", "loose"]), @"
    exit 1
    --- stdout
    loose  Loose
    manifest  [HOME]/manifests/loose/manifest.yaml
    model     (default)
    tools     (none)
    error     [HOME]/manifests/loose/manifest.yaml:4:17: uses_skills: no extension in depends_on provides skills
    hint      add `depends_on: [skill_registry]` to [HOME]/manifests/loose/manifest.yaml
    ");
}

#[test]
fn template_error_reports_line() {
    let home = agents_home().file("manifests/greeter/prompt.jinja2", "Hello\n{{ agent.nmae }}\n");
    insta::assert_snapshot!(home.skillhost(["agent", "show", "greeter"]), @"
    exit 1
    --- stdout
    greeter  The greeter
    manifest  [HOME]/manifests/greeter/manifest.yaml
    model     (default)
    tools     echo
    error     [HOME]/manifests/greeter/prompt.jinja2: line 2: undefined value: `agent.nmae` is undefined
    hint      variables are home, sandbox, agent.id and agent.name; an unknown one is an error
    ");
    home.write("manifests/greeter/prompt.jinja2", "Hello\n{% if %}\n");
    insta::assert_snapshot!(home.skillhost(["agent", "show", "greeter"]), @"
    exit 1
    --- stdout
    greeter  The greeter
    manifest  [HOME]/manifests/greeter/manifest.yaml
    model     (default)
    tools     echo
    error     [HOME]/manifests/greeter/prompt.jinja2: line 2: syntax error: unexpected end of block
    hint      variables are home, sandbox, agent.id and agent.name; an unknown one is an error
    ");
}

#[test]
fn untrusted_skill_cannot_be_bound() {
    let home = agents_home().settings(
        "extensions:\n  skill_registry:\n    roots: [{label: found, path: sandbox/skills, trust: untrusted}]\n",
    );
    insta::assert_snapshot!(home.skillhost(["agent", "show", "greeter"]), @"
    exit 1
    --- stdout
    greeter  The greeter
    manifest  [HOME]/manifests/greeter/manifest.yaml
    model     (default)
    tools     echo
    error     [HOME]/manifests/greeter/manifest.yaml:6:17: uses_skills: `greet` lies in the untrusted root `found` and cannot be bound
    hint      copy the skill into a trusted root, or set `trust: operator` for its root in skillhost.yaml if you trust all of its skills
    ");
}

#[test]
fn unknown_agent_suggests_similar_id() {
    insta::assert_snapshot!(agents_home().skillhost(["agent", "show", "greter"]), @"
    exit 3
    --- stderr
    error: agent `greter` not found
    hint: did you mean greeter?
    hint: see: skillhost agent list
    ");
    insta::assert_snapshot!(home().skillhost(["agent", "list"]), @"
    exit 0
    --- stdout
    AGENT STATE TOKENS SKILLS NAME
    ");
}

#[test]
fn linked_prompt_fails_only_its_agent() {
    let home = agents_home();
    home.write(".env", "TOKEN=canary-7f3a9c\n");
    std::fs::remove_file(home.path("manifests/greeter/prompt.jinja2")).unwrap();
    std::os::unix::fs::symlink(home.path(".env"), home.path("manifests/greeter/prompt.jinja2"))
        .unwrap();
    let output = home.skillhost(["agent", "show", "greeter"]);
    let text = format!("{output}");
    assert!(text.contains("prompt.jinja2: it is a symbolic link, not a regular file"), "{text}");
    assert!(!text.contains("canary"), "{text}");
    // Included templates must not follow symbolic links either.
    std::fs::remove_file(home.path("manifests/greeter/prompt.jinja2")).unwrap();
    home.write("manifests/greeter/prompt.jinja2", "{% include 'part' %}");
    std::os::unix::fs::symlink(home.path(".env"), home.path("manifests/greeter/part")).unwrap();
    let text = format!("{}", home.skillhost(["agent", "show", "greeter"]));
    assert!(text.contains("it is a symbolic link, not a regular file"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn endless_prompt_fails_only_its_agent() {
    let loops = "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}\
                 {% endfor %}{% endfor %}{% endfor %}";
    let home = agents_home()
        .file("manifests/greeter/prompt.jinja2", loops)
        .manifest("other", &agent_manifest("other", "  instructions: Hello.\n"));
    let text = format!("{}", home.skillhost(["agent", "show", "greeter"]));
    assert!(text.contains("line 1: engine ran out of fuel"), "{text}");
    let listed = home.skillhost(["agent", "list", "--json"]).success().json().to_string();
    assert_eq!(listed.matches(r#""state":"ready""#).count(), 1, "{listed}");
}
