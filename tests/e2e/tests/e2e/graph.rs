//! Tests of `skillhost skill graph`: dependencies between skills.

use test_support::TestHome;

use crate::fixtures::{skill_md, stable_json};

fn skill_requiring(requires: &str) -> String {
    format!("---\ndescription: Does its part.\nmetadata:\n  requires: {requires}\n---\nDo it.\n")
}

/// Creates a home with skills in `set/`; the command reads no other directory.
fn skills_in_set(skills: &[(&str, &str)]) -> TestHome {
    skills
        .iter()
        .fold(TestHome::new(), |home, (id, text)| home.file(format!("set/{id}/SKILL.md"), *text))
}

const PREPARE: &str = "\
composition:
  dependencies:
    - skillName: build
      reason: Makes what it prepares for.
    - skillName: weather
      reason: Rain slows the build.
      optional: true
  executionOrder: before
";

#[test]
fn graph_prints_dependency_levels() {
    let home = skills_in_set(&[
        ("deploy", &skill_requiring("test, build")),
        ("test", &skill_requiring("build")),
        ("build", &skill_md("Builds.", "Build it.")),
        ("prepare", &skill_md("Prepares.", "Prepare it.")),
    ])
    .file("set/prepare/skill.yaml", PREPARE);
    insta::assert_snapshot!(home.skillhost(["skill", "graph", "set"]), @"
    exit 0
    --- stdout
    1  prepare
    2  build
    3  test
    4  deploy
    optional: `prepare` can use `weather`, which is not here
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "graph", "set", "--mermaid"]), @r#"
    exit 0
    --- stdout
    flowchart TD
        s0["build"]
        s1["deploy"]
        s2["prepare"]
        s3["test"]
        s4["weather"]
        s1 --> s3
        s1 --> s0
        s2 -->|before| s0
        s3 --> s0
        s2 -.-> s4
        classDef missing stroke-dasharray: 5 5
        class s4 missing
    "#);
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "graph", "set", "--json"])), @r#"
    {
      "behind_cycles": [],
      "conflicts": [],
      "cycles": [],
      "duplicates": [],
      "edges": [
        {
          "needs": "test",
          "optional": false,
          "order": "after",
          "skill": "deploy"
        },
        {
          "needs": "build",
          "optional": false,
          "order": "after",
          "skill": "deploy"
        },
        {
          "needs": "build",
          "optional": false,
          "order": "before",
          "skill": "prepare"
        },
        {
          "needs": "build",
          "optional": false,
          "order": "after",
          "skill": "test"
        }
      ],
      "levels": [
        [
          "prepare"
        ],
        [
          "build"
        ],
        [
          "test"
        ],
        [
          "deploy"
        ]
      ],
      "missing": [
        {
          "needs": "weather",
          "optional": true,
          "skill": "prepare"
        }
      ],
      "more_in_cycles": 0,
      "order": [
        "prepare",
        "build",
        "test",
        "deploy"
      ],
      "schema_version": 1,
      "sound": true
    }
    "#);
}

#[test]
fn unmet_conflicting_cyclic_dependencies_fail() {
    let rude = "---\ndescription: Insults.\nmetadata:\n  composition: |\n    dependencies: []\n    \
                conflicts: [greet]\n---\nInsult them.\n";
    let home = skills_in_set(&[
        ("greet", &skill_requiring("people")),
        ("insult", rude),
        ("egg", &skill_requiring("hen")),
        ("hen", &skill_requiring("egg")),
        ("omelette", &skill_requiring("egg")),
        ("mute", "---\nname: mute\n---\nNo description.\n"),
    ])
    .file("set/omelette/skill.yaml", "composition: {dependencies: none}\n");
    insta::assert_snapshot!(home.skillhost(["skill", "graph", "set"]), @"
    exit 1
    --- stdout
    1  greet
    1  insult
    missing: `greet` needs `people`, which is not here
    conflict: `greet` and `insult` exclude each other
    cycle: egg → hen → egg
    waits: `omelette` has to come after a cycle
    --- stderr
    note: left out set/mute/SKILL.md: 1: error[description.required]: `description` is missing
    note: set/omelette/skill.yaml:1:29: warning[composition.type]: `composition.dependencies` is a string, not a list
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "graph", "set", "--json"])), @r#"
    {
      "behind_cycles": [
        "omelette"
      ],
      "conflicts": [
        {
          "skill": "greet",
          "with": "insult"
        }
      ],
      "cycles": [
        [
          "egg",
          "hen",
          "egg"
        ]
      ],
      "duplicates": [],
      "edges": [
        {
          "needs": "hen",
          "optional": false,
          "order": "after",
          "skill": "egg"
        },
        {
          "needs": "egg",
          "optional": false,
          "order": "after",
          "skill": "hen"
        },
        {
          "needs": "egg",
          "optional": false,
          "order": "after",
          "skill": "omelette"
        }
      ],
      "levels": [
        [
          "greet",
          "insult"
        ]
      ],
      "missing": [
        {
          "needs": "people",
          "optional": false,
          "skill": "greet"
        }
      ],
      "more_in_cycles": 0,
      "order": [
        "greet",
        "insult"
      ],
      "schema_version": 1,
      "sound": false
    }
    "#);
}

#[test]
fn ids_are_escaped_in_graph() {
    let home = skills_in_set(&[("odd", &skill_requiring("\"a\\e[2J\\\"]; click x\""))]);
    let graph = home.skillhost(["skill", "graph", "set"]).exits(1);
    assert!(!graph.stdout.contains('\u{1b}'), "{graph}");
    insta::assert_snapshot!(home.skillhost(["skill", "graph", "set", "--mermaid"]), @r#"
    exit 1
    --- stdout
    flowchart TD
        s0["a#91;2J#34;#93;#59; click x"]
        s1["odd"]
        s1 --> s0
        classDef missing stroke-dasharray: 5 5
        class s0 missing
    "#);
}

#[test]
fn skill_yaml_must_be_regular_file() {
    let home = skills_in_set(&[("alone", &skill_md("Stands alone.", "Stand."))]);
    std::fs::create_dir(home.path("set/alone/skill.yaml")).unwrap();
    insta::assert_snapshot!(home.skillhost(["skill", "graph", "set"]), @"
    exit 0
    --- stdout
    1  alone
    --- stderr
    note: set/alone/skill.yaml is not used: it is not a regular file
    ");
}

#[test]
fn missing_path_is_reported() {
    let home = TestHome::new();
    let graph = home.skillhost(["skill", "graph", "nowhere"]).exits(3);
    assert!(graph.stderr.contains("nowhere: it does not exist"), "{graph}");
    home.skillhost(["skill", "graph", "--json", "--mermaid"]).exits(2);
}

#[test]
fn show_lists_declared_dependencies() {
    let declared = "\
security:
  capabilities: [{capability: shell:execute, reason: Runs git.}]
  requiresNetwork: false
  executesCommands: true
  fileSystemScope: workspace
tools:
  dependencies:
    - {tool: Bash(git:*), required: true, purpose: Reads the log., minVersion: '2.40'}
    - {tool: Web, required: false, purpose: Looks up issues.}
tests:
  - name: story
    description: It tells a story.
    cases: [{name: x, input: Tell., assertions: [{type: contains, value: Once}]}]
";
    let home = TestHome::new()
        .trusted()
        .skill("history", &skill_md("Tells the past.", "Tell it."))
        .file("sandbox/skills/history/skill.yaml", format!("{declared}{PREPARE}"));
    insta::assert_snapshot!(home.skillhost(["skill", "show", "history"]), @"
    exit 0
    --- stdout
    history
    description  Tells the past.
    location     [HOME]/sandbox/skills/history/SKILL.md
    source       sandbox (trusted)
    SKILL.md digest sha256:c38746a7de44b490a99b0ef53ec4ea1fa04320514fcf6b29ed3d4d7490094790
    tokens       approx. 3
    capability   shell:execute: Runs git.
    security     no network, executes commands, scope workspace
    tool         Bash(git:*) 2.40 or newer: Reads the log.
    tool         Web: Looks up issues. (optional)
    skill        build: Makes what it prepares for.
    skill        weather: Rain slows the build. (optional)
    order        before the skills it needs
    test         story: It tells a story. (1 case)
    resource     skill.yaml data, 667 bytes
    note         loaded but not eligible: required skill 'build' not found
    diagnostic   [HOME]/sandbox/skills/history/SKILL.md: 1: warning[name.required]: `name` is missing; the directory's name is used
    ");
    let skill_json = home.skillhost(["skill", "show", "history", "--json"]).success().json();
    let keys: Vec<&String> = skill_json["extended"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["composition", "security", "tests", "tools"]);
    assert_eq!(skill_json["ineligible"][0]["name"], "build");
}
