//! Tests of `skillhost skill` on disk, without a kernel.

use std::fs;

use test_support::TestHome;

use crate::fixtures::{home, pretty_json, skill_md, stable_json};

/// Creates a home with only skills: no manifest, no trust, no settings.
fn skills_home() -> TestHome {
    let brew = "---\nname: brew\ndescription: Brews tea. Use when thirsty.\nmetadata:\n  tags: kitchen, hot\n  requires: greet\n---\nBoil.\n";
    TestHome::new()
        .trusted()
        .skill(
            "greet",
            &skill_md("Greets people. Use when somebody arrives.", "Say hello to them."),
        )
        .skill("brew", brew)
        .file("sandbox/skills/brew/scripts/boil.sh", "#!/bin/sh\necho hot\n")
        .file("sandbox/skills/brew/leaf.bin", [0u8, 159, 146, 150])
        .skill("other-name", "---\nname: another\ndescription: Has two names.\n---\nBody.\n")
}

#[test]
fn list_reports_skipped_skills() {
    let home = skills_home().skill("mute", "---\nname: mute\n---\nNothing.\n");
    insta::assert_snapshot!(home.skillhost(["skill", "list"]), @"
    exit 0
    --- stdout
    brew        Brews tea. Use when thirsty. [~2 tokens, sandbox]
    greet       Greets people. Use when somebody arrives. [~5 tokens, sandbox]
    other-name  Has two names. [~2 tokens, sandbox]
    --- stderr
    note: skipped [HOME]/sandbox/skills/mute/SKILL.md: 1: error[description.required]: `description` is missing
    note: 2 warnings; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "list", "--json"]).success()), @r#"
    {
      "matched": 3,
      "omitted": 0,
      "problems": [
        {
          "column": 0,
          "help": "write `name: greet`",
          "line": 1,
          "message": "`name` is missing; the directory's name is used",
          "path": "[HOME]/sandbox/skills/greet/SKILL.md",
          "rule": "name.required",
          "severity": "warning",
          "skill": "greet",
          "skipped": false
        },
        {
          "column": 0,
          "help": "write `description:` and what the skill does and when to use it",
          "line": 1,
          "message": "`description` is missing",
          "path": "[HOME]/sandbox/skills/mute/SKILL.md",
          "rule": "description.required",
          "severity": "error",
          "skill": "mute",
          "skipped": true
        },
        {
          "column": 7,
          "help": "the directory's name is the skill's id; rename one of the two",
          "line": 2,
          "message": "the name `another` is not the directory's name `other-name`",
          "path": "[HOME]/sandbox/skills/other-name/SKILL.md",
          "rule": "name.matchesDirectory",
          "severity": "warning",
          "skill": "other-name",
          "skipped": false
        }
      ],
      "schema_version": 1,
      "skills": [
        {
          "description": "Brews tea. Use when thirsty.",
          "model_invocable": true,
          "skill_id": "brew",
          "source": "sandbox",
          "tags": [
            "kitchen",
            "hot"
          ],
          "tokens": 2,
          "trust": "operator"
        },
        {
          "description": "Greets people. Use when somebody arrives.",
          "model_invocable": true,
          "skill_id": "greet",
          "source": "sandbox",
          "tags": [],
          "tokens": 5,
          "trust": "operator"
        },
        {
          "description": "Has two names.",
          "model_invocable": true,
          "skill_id": "other-name",
          "source": "sandbox",
          "tags": [],
          "tokens": 2,
          "trust": "operator"
        }
      ],
      "total": 3
    }
    "#);
}

#[test]
fn query_and_tags_filter_list() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["skill", "list", "TEA"]), @"
    exit 0
    --- stdout
    brew        Brews tea. Use when thirsty. [~2 tokens, sandbox]
    --- stderr
    note: 2 warnings; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "list", "--tag", "hot", "--tag", "kitchen"]), @"
    exit 0
    --- stdout
    brew        Brews tea. Use when thirsty. [~2 tokens, sandbox]
    --- stderr
    note: 2 warnings; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "list", "--tag", "cold"]), @"
    exit 0
    --- stderr
    note: none of 3 skills matches
    note: 2 warnings; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "list", "arrives", "--json"]).success()), @r#"
    {
      "matched": 1,
      "omitted": 0,
      "problems": [
        {
          "column": 0,
          "help": "write `name: greet`",
          "line": 1,
          "message": "`name` is missing; the directory's name is used",
          "path": "[HOME]/sandbox/skills/greet/SKILL.md",
          "rule": "name.required",
          "severity": "warning",
          "skill": "greet",
          "skipped": false
        },
        {
          "column": 7,
          "help": "the directory's name is the skill's id; rename one of the two",
          "line": 2,
          "message": "the name `another` is not the directory's name `other-name`",
          "path": "[HOME]/sandbox/skills/other-name/SKILL.md",
          "rule": "name.matchesDirectory",
          "severity": "warning",
          "skill": "other-name",
          "skipped": false
        }
      ],
      "schema_version": 1,
      "skills": [
        {
          "description": "Greets people. Use when somebody arrives.",
          "matched": [
            "description"
          ],
          "model_invocable": true,
          "skill_id": "greet",
          "source": "sandbox",
          "tags": [],
          "tokens": 5,
          "trust": "operator"
        }
      ],
      "total": 3
    }
    "#);
}

#[test]
fn show_prints_skill_details() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["skill", "show", "brew"]), @"
    exit 0
    --- stdout
    brew
    description  Brews tea. Use when thirsty.
    location     [HOME]/sandbox/skills/brew/SKILL.md
    source       sandbox (trusted)
    scripts      not approved
    files digest sha256:7ed4bad7b447616f20c2cd68d2d2f25a9c874c9e4ebb7c038028a9658bcabaf6
    SKILL.md digest sha256:e7a9e7a9e9ecc3ce07e821a98b047c2918989746dc0aa1e94442ebf901eb8420
    tokens       approx. 2
    tags         kitchen, hot
    requires     greet
    resource     leaf.bin data, 4 bytes
    resource     scripts/boil.sh code, 19 bytes
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "show", "brew", "--json"]).success()), @r#"
    {
      "description": "Brews tea. Use when thirsty.",
      "diagnostics": [],
      "digest": "e7a9e7a9e9ecc3ce07e821a98b047c2918989746dc0aa1e94442ebf901eb8420",
      "location": "[HOME]/sandbox/skills/brew/SKILL.md",
      "model_invocable": true,
      "more_resources": 0,
      "name": "brew",
      "notes": [],
      "requires": [
        "greet"
      ],
      "resources": [
        {
          "kind": "data",
          "mime_type": "application/octet-stream",
          "path": "leaf.bin",
          "size": 4
        },
        {
          "kind": "code",
          "mime_type": "application/x-sh",
          "path": "scripts/boil.sh",
          "size": 19
        }
      ],
      "schema_version": 1,
      "scripts": {
        "digest": "sha256:7ed4bad7b447616f20c2cd68d2d2f25a9c874c9e4ebb7c038028a9658bcabaf6",
        "state": "not approved"
      },
      "skill_id": "brew",
      "skill_state": "on",
      "source": "sandbox",
      "state": "current",
      "tags": [
        "kitchen",
        "hot"
      ],
      "tokens": 2,
      "trust": "operator",
      "user_invocable": true,
      "when_to_use": null
    }
    "#);
    insta::assert_snapshot!(home.skillhost(["skill", "show", "other-name"]), @"
    exit 0
    --- stdout
    other-name
    description  Has two names.
    location     [HOME]/sandbox/skills/other-name/SKILL.md
    source       sandbox (trusted)
    SKILL.md digest sha256:b7bc59a7c233a7af954be55a3f3582093936f2dcbd8d5fc46765823b2d36df12
    tokens       approx. 2
    diagnostic   [HOME]/sandbox/skills/other-name/SKILL.md: 2:7: warning[name.matchesDirectory]: the name `another` is not the directory's name `other-name`
    ");
}

#[test]
fn read_prints_rendered_instructions() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["skill", "read", "brew"]), @r#"
    exit 0
    --- stdout
    Skill loaded: brew (approx. 2 tokens)

    <skill_content name="brew" digest="e7a9e7a9e9ecc3ce07e821a98b047c2918989746dc0aa1e94442ebf901eb8420">
    Boil.
    </skill_content>

    Resources (load one with read_skill_resource(skill_id, path)):
    - leaf.bin (data, 4 bytes)
    - scripts/boil.sh (code, 19 bytes)

    This skill requires: greet. Load it first if you haven't already.
    "#);
    let object = home.skillhost(["skill", "read", "brew", "--json"]).success().json();
    let text = home.skillhost(["skill", "read", "brew"]).stdout;
    assert_eq!(object["text"], text.trim_end());
    assert_eq!((&object["schema_version"], &object["tokens"]), (&1.into(), &2.into()));
}

#[test]
fn offline_read_matches_tool() {
    let home = home().skill("brew", &skill_md("Brews.", "Boil."));
    for id in ["brew", "greet"] {
        let offline = home.skillhost(["skill", "read", id]).success();
        let tool =
            home.skillhost(["tool", "call", "read_skill", &format!(r#"{{"skill_id":"{id}"}}"#)]);
        assert_eq!(offline, tool);
    }
    let (offline, tool) = (
        home.skillhost(["skill", "list", "--json"]).success().json(),
        home.skillhost(["tool", "call", "list_skills", "--json"]).success().json(),
    );
    assert_eq!(offline["skills"], tool["structured"]["skills"]);
}

#[test]
fn unknown_skill_or_file_gets_suggestion() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["skill", "read", "brev"]), @"
    exit 3
    --- stderr
    error: skill `brev` not found
    hint: did you mean `brew`?
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "show", "zzz"]), @"
    exit 3
    --- stderr
    error: skill `zzz` not found
    hint: `skillhost skill list` shows the available skills
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "resource", "brew", "scripts/boil.hs"]), @"
    exit 3
    --- stderr
    error: `brew` has no file scripts/boil.hs
    hint: did you mean `scripts/boil.sh`?
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "resource", "brev", "scripts/boil.sh", "--json"]), @r#"
    exit 3
    --- stderr
    {"error":{"hints":["did you mean `brew`?"],"kind":"not_found","message":"skill `brev` not found"},"schema_version":1}
    "#);
}

#[test]
fn resource_is_printed_byte_for_byte() {
    // The file is longer than one page of the tool, and every page boundary splits a character.
    let long = "äöü€\n".repeat(40_000);
    let home = skills_home().file("sandbox/skills/greet/long.txt", &long);
    let printed = home.skillhost(["skill", "resource", "greet", "long.txt"]).success();
    assert!(printed.stdout == long, "{} of {} bytes", printed.stdout.len(), long.len());
    assert_eq!(printed.stderr, "");
    let script = home.skillhost(["skill", "resource", "brew", "scripts/boil.sh"]);
    assert_eq!(script.success().stdout, "#!/bin/sh\necho hot\n");
}

#[test]
fn binary_resource_requires_json() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["skill", "resource", "brew", "leaf.bin"]), @"
    exit 2
    --- stderr
    error: leaf.bin is not text
    hint: --json prints it in base64
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "resource", "brew", "leaf.bin", "--json"]).success()), @r#"
    {
      "content": "AJ+Slg==",
      "encoding": "base64",
      "kind": "data",
      "length": 4,
      "mime_type": "application/octet-stream",
      "next_offset": null,
      "notes": [],
      "offset": 0,
      "path": "leaf.bin",
      "schema_version": 1,
      "size": 4,
      "skill_id": "brew",
      "text": "Binary resource leaf.bin (application/octet-stream, 4 bytes), base64:\nAJ+Slg=="
    }
    "#);
}

#[test]
fn root_option_requires_no_home() {
    let home = TestHome::new().trusted();
    let (one, two) = (home.outside().join("one"), home.outside().join("two"));
    for (directory, text) in [(&one, "From one."), (&two, "From two.")] {
        fs::create_dir_all(directory.join("same")).unwrap();
        fs::write(directory.join("same/SKILL.md"), skill_md(text, text)).unwrap();
    }
    let run =
        |args: &[&str]| home.start(home.command().current_dir(home.outside()).args(args)).finish();
    insta::assert_snapshot!(run(&["skill", "list", "--root", "one", "--root", "two"]), @"
    exit 0
    --- stdout
    same  From one. [~3 tokens, root]
    --- stderr
    note: 4 warnings; `skillhost skill show ID` prints those of a skill
    ");
    let read = run(&["skill", "read", "same@root2", "--root", "one", "--root", "two"]).success();
    assert!(read.stdout.contains("From two."), "{read}");
    let read = run(&["skill", "read", "same", "--root", "one", "--root", "two"]).success();
    assert!(read.stdout.contains("From one."), "{read}");
    insta::assert_snapshot!(run(&["skill", "list", "--root", "three"]), @"
    exit 3
    --- stderr
    error: [OUTSIDE]/three: no such directory
    hint: --root names a directory with skills
    ");
    insta::assert_snapshot!(run(&["skill", "read", "same@root3", "--root", "one"]), @"
    exit 3
    --- stderr
    error: skill `same@root3` not found
    hint: did you mean `same`?
    ");
}

#[test]
fn untrusted_and_shadowed_skills_are_marked() {
    let home = skills_home()
        .file("team/greet/SKILL.md", skill_md("Another greeting.", "Wave."))
        .file("team/extra/SKILL.md", skill_md("Comes from the team.", "Extra."))
        .settings(
            "extensions:\n  skill_registry:\n    roots:\n      - {label: sandbox, path: sandbox/skills, trust: operator}\n      - {label: team, path: team, trust: untrusted}\n",
        );
    insta::assert_snapshot!(home.skillhost(["skill", "list"]), @"
    exit 0
    --- stdout
    brew        Brews tea. Use when thirsty. [~2 tokens, sandbox]
    extra       Comes from the team. [~2 tokens, team, untrusted]
    greet       Greets people. Use when somebody arrives. [~5 tokens, sandbox]
    other-name  Has two names. [~2 tokens, sandbox]
    --- stderr
    note: 6 warnings; `skillhost skill show ID` prints those of a skill
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "show", "extra"]), @"
    exit 0
    --- stdout
    extra
    description  Comes from the team.
    location     [HOME]/team/extra/SKILL.md
    source       team (untrusted: listed, cannot be bound, grants nothing)
    SKILL.md digest sha256:a5df3a800f8671f9c410b015fc0b3570a8ba55f7eb253563b68fdb4ed4abe60c
    tokens       approx. 2
    diagnostic   [HOME]/team/extra/SKILL.md: 1: warning[name.required]: `name` is missing; the directory's name is used
    ");
    let wave = home.skillhost(["skill", "read", "greet@team"]).success();
    assert!(wave.stdout.contains("Wave."), "{wave}");
    let problems = home.skillhost(["skill", "list", "--json"]).success().json()["problems"].take();
    insta::assert_snapshot!(pretty_json(problems), @r#"
    [
      {
        "column": 0,
        "help": "write `name: greet`",
        "line": 1,
        "message": "`name` is missing; the directory's name is used",
        "path": "[HOME]/sandbox/skills/greet/SKILL.md",
        "rule": "name.required",
        "severity": "warning",
        "skill": "greet",
        "skipped": false
      },
      {
        "column": 7,
        "help": "the directory's name is the skill's id; rename one of the two",
        "line": 2,
        "message": "the name `another` is not the directory's name `other-name`",
        "path": "[HOME]/sandbox/skills/other-name/SKILL.md",
        "rule": "name.matchesDirectory",
        "severity": "warning",
        "skill": "other-name",
        "skipped": false
      },
      {
        "column": 0,
        "help": "write `name: extra`",
        "line": 1,
        "message": "`name` is missing; the directory's name is used",
        "path": "[HOME]/team/extra/SKILL.md",
        "rule": "name.required",
        "severity": "warning",
        "skill": "extra",
        "skipped": false
      },
      {
        "column": 0,
        "help": "write `name: greet`",
        "line": 1,
        "message": "`name` is missing; the directory's name is used",
        "path": "[HOME]/team/greet/SKILL.md",
        "rule": "name.required",
        "severity": "warning",
        "skill": "greet",
        "skipped": false
      },
      {
        "column": 0,
        "help": "rename the directory",
        "line": 0,
        "message": "the id is taken by [HOME]/sandbox/skills/greet/SKILL.md; this skill is reachable as `greet@team`",
        "path": "[HOME]/team/greet/SKILL.md",
        "rule": "id.duplicate",
        "severity": "warning",
        "skill": "greet",
        "skipped": false
      },
      {
        "column": 0,
        "help": null,
        "line": 0,
        "message": "it is used for `greet` instead of [HOME]/team/greet/SKILL.md",
        "path": "[HOME]/sandbox/skills/greet/SKILL.md",
        "rule": "id.duplicate",
        "severity": "note",
        "skill": "greet",
        "skipped": false
      }
    ]
    "#);
}

#[test]
fn empty_home_lists_searched_directories() {
    insta::assert_snapshot!(TestHome::new().trusted().skillhost(["skill", "list"]), @"
    exit 0
    --- stderr
    note: no skills in [HOME]/sandbox/skills
    note: skipped [HOME]/sandbox/skills: warning[root.missing]: root `sandbox` does not exist
    ");
}

#[test]
fn duplicate_root_labels_are_rejected() {
    let home = skills_home().settings(
        "extensions:\n  skill_registry:\n    roots: [{label: a, path: x}, {label: a, path: y}]\n",
    );
    insta::assert_snapshot!(home.skillhost(["skill", "list"]), @"
    exit 2
    --- stderr
    error: two roots have the label `a`
    hint: see: skillhost config
    ");
}

#[test]
fn skill_text_is_escaped() {
    let home = TestHome::new().trusted().skill(
        "sly",
        "---\ndescription: \"Clears \\e[2J the screen \\u202e.\"\n---\n\u{1b}]0;owned\u{7}\n",
    );
    let listed = home.skillhost(["skill", "list"]).success();
    let output = home.skillhost(["skill", "show", "sly"]).success();
    for output in [&listed, &output] {
        assert!(!output.stdout.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{output:?}");
        assert!(output.stdout.contains("Clears"), "{output:?}");
    }
}
