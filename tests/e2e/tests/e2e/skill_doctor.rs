//! Tests of `skillhost skill doctor`: the status of each skill, without a kernel.

use std::fs;

use test_support::TestHome;

use crate::fixtures::{run_as_reader, stable_json};

fn skill_text(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}. Use when asked.\n{more}---\nDo it.\n")
}

/// Settings with two roots, the second one untrusted.
const ROOTS: &str = "\
extensions:
  skill_registry:
    ignore: [attic]
    roots:
      - {label: sandbox, path: sandbox/skills, trust: operator}
      - {label: team, path: team}
";

#[test]
fn healthy_home_shows_only_yes() {
    let home = TestHome::new()
        .trusted()
        .skill("brew", &skill_text("brew", ""))
        .skill("pour", &skill_text("pour", ""));
    insta::assert_snapshot!(home.skillhost(["skill", "doctor"]), @"
    exit 0
    --- stdout
    skill root    discovered parsed valid visible in L1
    brew  sandbox yes        yes    yes   yes     yes
    pour  sandbox yes        yes    yes   yes     yes

    2 skills, 2 visible, 2 in L1; the catalog has 292 of 8000 characters
    ");
}

#[test]
fn first_failed_step_has_reason() {
    let home = TestHome::new()
        .trusted()
        .settings(ROOTS)
        .skill("brew", &skill_text("brew", "requires: [pour, ghost]\n"))
        .skill("copied", &skill_text("copied", ""))
        .file("team/copied/SKILL.md", skill_text("copied", ""))
        .skill("greet", "---\ndescription: Greets people.\n---\nSay hello.\n")
        .skill("mute", "---\nname: mute\n---\nNothing.\n")
        .skill("odd`name", &skill_text("odd", ""))
        .skill("attic/old", &skill_text("old", ""))
        .skill("pour", &skill_text("pour", ""))
        .file("team/pour/SKILL.md", skill_text("pour", "license: MIT\n"))
        .file("team/stir/SKILL.md", skill_text("stir", ""))
        .file(
            "team/stir/skill.yaml",
            "tools:\n  dependencies:\n    - {tool: Spoon, required: true, purpose: stirring}\n",
        )
        .skill("wipe", &skill_text("wipe", "disable-model-invocation: true\n"));
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--profile", "lenient"]), @"
    exit 1
    --- stdout
    skill    root    discovered parsed valid visible in L1
    brew     sandbox yes        yes    yes   yes     yes
    copied   sandbox yes        yes    yes   yes     yes
    copied   team    yes        yes    yes   copy    copy
    greet    sandbox yes        yes    yes   yes     yes
    mute     sandbox yes        no     -     -       -
    odd`name sandbox no         -      -     -       -
    pour     sandbox yes        yes    yes   yes     yes
    pour     team    yes        yes    yes   no      no
    stir     team    yes        yes    yes   yes     yes
    wipe     sandbox yes        yes    yes   no      no

    brew  [HOME]/sandbox/skills/brew/SKILL.md
      ineligible: required skill `ghost` not found
    copied  [HOME]/team/copied/SKILL.md
      note: the same in every file as [HOME]/sandbox/skills/copied/SKILL.md, which is used
      note: untrusted: it is listed with its origin, cannot be bound and grants nothing
    greet  [HOME]/sandbox/skills/greet/SKILL.md
      not in skills/list for MCP clients: `name` is missing
    mute  [HOME]/sandbox/skills/mute/SKILL.md
      not parsed: `description` is missing [description.required, line 1]
      hint: write `description:` and what the skill does and when to use it
    odd`name  [HOME]/sandbox/skills/odd`name
      not a skill: a skill id cannot contain U+0060 [id.invalid]
      hint: rename the directory
    pour  [HOME]/team/pour/SKILL.md
      not visible: its id is taken by [HOME]/sandbox/skills/pour/SKILL.md in root `sandbox`; this one is reachable as `pour@team` [id.duplicate]
      hint: rename one of the two directories
      note: untrusted: it is listed with its origin, cannot be bound and grants nothing
    stir  [HOME]/team/stir/SKILL.md
      note: it needs tools, which depend on the agent: Spoon
      note: untrusted: it is listed with its origin, cannot be bound and grants nothing
    wipe  [HOME]/sandbox/skills/wipe/SKILL.md
      not visible: it is for users only: it sets `disable-model-invocation` [disable-model-invocation]
    10 skills, 5 visible, 5 in L1; the catalog has 422 of 8000 characters
    --- stderr
    note: not searched: attic
    ");
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "doctor", "--json"]).exits(1)), @r#"
    {
      "catalog": {
        "budget": 8000,
        "chars": 422,
        "listed": 5,
        "omitted": 0,
        "shortened": 0,
        "without_description": 0
      },
      "ignored": [
        "attic"
      ],
      "not_granted": [],
      "partial": null,
      "profile": "spec",
      "remarks": [],
      "roots": [
        {
          "label": "sandbox",
          "path": "[HOME]/sandbox/skills",
          "trust": "operator"
        },
        {
          "label": "team",
          "path": "[HOME]/team",
          "trust": "untrusted"
        }
      ],
      "schema_version": 1,
      "skills": [
        {
          "defect": true,
          "discovered": true,
          "eligible": false,
          "id_only": false,
          "in_l1": true,
          "missing": [
            {
              "kind": "missing_skill",
              "message": "required skill `ghost` not found",
              "name": "ghost"
            }
          ],
          "notes": [],
          "parsed": true,
          "path": "[HOME]/sandbox/skills/brew/SKILL.md",
          "reason": {
            "column": 1,
            "help": "write it under `metadata`, words separated by commas, as `skillhost skill fmt --portable` does",
            "line": 4,
            "message": "`requires` is not a field of the standard; it is used here",
            "rule": "frontmatter.unknownField",
            "severity": "error"
          },
          "root": "sandbox",
          "skill_id": "brew",
          "stopped_at": "valid",
          "trust": "operator",
          "unchecked_tools": [],
          "valid": false,
          "visible": true
        },
        {
          "defect": false,
          "discovered": true,
          "eligible": true,
          "id_only": false,
          "in_l1": true,
          "missing": [],
          "notes": [],
          "parsed": true,
          "path": "[HOME]/sandbox/skills/copied/SKILL.md",
          "reason": null,
          "root": "sandbox",
          "skill_id": "copied",
          "stopped_at": null,
          "trust": "operator",
          "unchecked_tools": [],
          "valid": true,
          "visible": true
        },
        {
          "copy_of": "[HOME]/sandbox/skills/copied/SKILL.md",
          "defect": false,
          "discovered": true,
          "eligible": true,
          "id_only": false,
          "in_l1": false,
          "missing": [],
          "notes": [
            "untrusted: it is listed with its origin, cannot be bound and grants nothing"
          ],
          "parsed": true,
          "path": "[HOME]/team/copied/SKILL.md",
          "reason": {
            "column": 0,
            "help": "remove one of them",
            "line": 0,
            "message": "its id is taken by [HOME]/sandbox/skills/copied/SKILL.md in root `sandbox`; both are the same in every file",
            "rule": "id.copy",
            "severity": "warning"
          },
          "root": "team",
          "skill_id": "copied",
          "stopped_at": "visible",
          "trust": "untrusted",
          "unchecked_tools": [],
          "valid": true,
          "visible": false
        },
        {
          "defect": true,
          "discovered": true,
          "eligible": true,
          "id_only": false,
          "in_l1": true,
          "missing": [],
          "notes": [],
          "parsed": true,
          "path": "[HOME]/sandbox/skills/greet/SKILL.md",
          "reason": {
            "column": 0,
            "help": "write `name: greet`",
            "line": 1,
            "message": "`name` is missing; the directory's name is used",
            "rule": "name.required",
            "severity": "error"
          },
          "root": "sandbox",
          "skill_id": "greet",
          "stopped_at": "valid",
          "trust": "operator",
          "unchecked_tools": [],
          "unlisted": "`name` is missing",
          "valid": false,
          "visible": true
        },
        {
          "defect": true,
          "discovered": true,
          "eligible": null,
          "id_only": false,
          "in_l1": false,
          "missing": [],
          "notes": [],
          "parsed": false,
          "path": "[HOME]/sandbox/skills/mute/SKILL.md",
          "reason": {
            "column": 0,
            "help": "write `description:` and what the skill does and when to use it",
            "line": 1,
            "message": "`description` is missing",
            "rule": "description.required",
            "severity": "error"
          },
          "root": "sandbox",
          "skill_id": "mute",
          "stopped_at": "parsed",
          "trust": null,
          "unchecked_tools": [],
          "valid": null,
          "visible": false
        },
        {
          "defect": true,
          "discovered": false,
          "eligible": null,
          "id_only": false,
          "in_l1": false,
          "missing": [],
          "notes": [],
          "parsed": false,
          "path": "[HOME]/sandbox/skills/odd`name",
          "reason": {
            "column": 0,
            "help": "rename the directory",
            "line": 0,
            "message": "a skill id cannot contain U+0060",
            "rule": "id.invalid",
            "severity": "error"
          },
          "root": "sandbox",
          "skill_id": "odd`name",
          "stopped_at": "discovered",
          "trust": null,
          "unchecked_tools": [],
          "valid": null,
          "visible": false
        },
        {
          "defect": false,
          "discovered": true,
          "eligible": true,
          "id_only": false,
          "in_l1": true,
          "missing": [],
          "notes": [],
          "parsed": true,
          "path": "[HOME]/sandbox/skills/pour/SKILL.md",
          "reason": null,
          "root": "sandbox",
          "skill_id": "pour",
          "stopped_at": null,
          "trust": "operator",
          "unchecked_tools": [],
          "valid": true,
          "visible": true
        },
        {
          "defect": true,
          "discovered": true,
          "eligible": true,
          "id_only": false,
          "in_l1": false,
          "missing": [],
          "notes": [
            "untrusted: it is listed with its origin, cannot be bound and grants nothing"
          ],
          "parsed": true,
          "path": "[HOME]/team/pour/SKILL.md",
          "reason": {
            "column": 0,
            "help": "rename one of the two directories",
            "line": 0,
            "message": "its id is taken by [HOME]/sandbox/skills/pour/SKILL.md in root `sandbox`; this one is reachable as `pour@team`",
            "rule": "id.duplicate",
            "severity": "warning"
          },
          "root": "team",
          "skill_id": "pour",
          "stopped_at": "visible",
          "trust": "untrusted",
          "unchecked_tools": [],
          "valid": true,
          "visible": false
        },
        {
          "defect": false,
          "discovered": true,
          "eligible": true,
          "id_only": false,
          "in_l1": true,
          "missing": [],
          "notes": [
            "untrusted: it is listed with its origin, cannot be bound and grants nothing"
          ],
          "parsed": true,
          "path": "[HOME]/team/stir/SKILL.md",
          "reason": null,
          "root": "team",
          "skill_id": "stir",
          "stopped_at": null,
          "trust": "untrusted",
          "unchecked_tools": [
            "Spoon"
          ],
          "valid": true,
          "visible": true
        },
        {
          "defect": true,
          "discovered": true,
          "eligible": true,
          "id_only": false,
          "in_l1": false,
          "missing": [],
          "notes": [],
          "parsed": true,
          "path": "[HOME]/sandbox/skills/wipe/SKILL.md",
          "reason": {
            "column": 1,
            "help": "strict validators refuse it",
            "line": 4,
            "message": "`disable-model-invocation` is not a field of the standard; it is used here",
            "rule": "frontmatter.unknownField",
            "severity": "error"
          },
          "root": "sandbox",
          "skill_id": "wipe",
          "stopped_at": "valid",
          "trust": "operator",
          "unchecked_tools": [],
          "valid": false,
          "visible": false
        }
      ]
    }
    "#);
}

#[test]
fn intended_exclusions_exit_with_zero() {
    let home = TestHome::new()
        .trusted()
        .settings(ROOTS)
        .skill("wipe", &skill_text("wipe", "disable-model-invocation: true\n"))
        .file("team/wipe/SKILL.md", skill_text("wipe", "disable-model-invocation: true\n"))
        .file("team/stir/SKILL.md", skill_text("stir", ""));
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--profile", "lenient"]), @"
    exit 0
    --- stdout
    skill root    discovered parsed valid visible in L1
    stir  team    yes        yes    yes   yes     yes
    wipe  sandbox yes        yes    yes   no      no
    wipe  team    yes        yes    yes   copy    copy

    stir  [HOME]/team/stir/SKILL.md
      note: untrusted: it is listed with its origin, cannot be bound and grants nothing
    wipe  [HOME]/sandbox/skills/wipe/SKILL.md
      not visible: it is for users only: it sets `disable-model-invocation` [disable-model-invocation]
    wipe  [HOME]/team/wipe/SKILL.md
      note: the same in every file as [HOME]/sandbox/skills/wipe/SKILL.md, which is used
      note: untrusted: it is listed with its origin, cannot be bound and grants nothing
    3 skills, 1 visible, 1 in L1; the catalog has 277 of 8000 characters
    --- stderr
    note: not searched: attic
    ");
}

#[test]
fn profile_decides_validity() {
    let home = TestHome::new().trusted().skill("claude-brew", &skill_text("claude-brew", ""));
    home.skillhost(["skill", "doctor", "--profile", "spec"]).success();
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--profile", "anthropic"]), @"
    exit 1
    --- stdout
    skill       root    discovered parsed valid visible in L1
    claude-brew sandbox yes        yes    no    yes     yes

    claude-brew  [HOME]/sandbox/skills/claude-brew/SKILL.md
      not valid: the name contains the reserved word `claude` [name.reserved, line 2, column 7]
      hint: rename the skill and its directory
    1 skill, 1 visible, 1 in L1; the catalog has 268 of 8000 characters
    ");
    // An invalid skill is still loaded.
    home.skillhost(["skill", "read", "claude-brew"]).success();
}

#[test]
fn catalog_budget_cuts_descriptions_first() {
    let home = TestHome::new()
        .trusted()
        .skill("brew", &skill_text("brew", ""))
        .skill("pour", &skill_text("pour", ""))
        .skill("stir", &skill_text("stir", ""));
    let budget = |chars: u32| {
        home.write(
            "skillhost.yaml",
            format!("extensions: {{skill_registry: {{l1_budget_chars: {chars}}}}}"),
        );
        home.skillhost(["skill", "doctor"])
    };
    insta::assert_snapshot!(budget(275), @"
    exit 0
    --- stdout
    skill root    discovered parsed valid visible in L1
    brew  sandbox yes        yes    yes   yes     yes
    pour  sandbox yes        yes    yes   yes     id only
    stir  sandbox yes        yes    yes   yes     id only

    3 skills, 3 visible, 3 in L1 (2 without a description); the catalog has 266 of 275 characters
    ");
    insta::assert_snapshot!(budget(242), @"
    exit 1
    --- stdout
    skill root    discovered parsed valid visible in L1
    brew  sandbox yes        yes    yes   yes     no
    pour  sandbox yes        yes    yes   yes     no
    stir  sandbox yes        yes    yes   yes     no

    brew  [HOME]/sandbox/skills/brew/SKILL.md
      not in L1: the catalog has no room for it: models find it by searching alone [catalog.budget]
      hint: shorten descriptions, make skills user-only, or raise `l1_budget_chars`
    pour  [HOME]/sandbox/skills/pour/SKILL.md
      not in L1: the catalog has no room for it: models find it by searching alone [catalog.budget]
      hint: shorten descriptions, make skills user-only, or raise `l1_budget_chars`
    stir  [HOME]/sandbox/skills/stir/SKILL.md
      not in L1: the catalog has no room for it: models find it by searching alone [catalog.budget]
      hint: shorten descriptions, make skills user-only, or raise `l1_budget_chars`
    3 skills, 3 visible, 0 in L1; the catalog has 245 of 242 characters
    ");
}

#[test]
fn doctor_accepts_directories() {
    let home = TestHome::new().trusted().file("a/brew/SKILL.md", skill_text("brew", ""));
    fs::create_dir_all(home.path("b")).unwrap();
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--root", "a", "--root", "b"]), @"
    exit 0
    --- stdout
    skill root discovered parsed valid visible in L1
    brew  root yes        yes    yes   yes     yes

    1 skill, 1 visible, 1 in L1; the catalog has 254 of 8000 characters
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--root", "b"]), @"
    exit 0
    --- stderr
    note: no skills in [HOME]/b
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "doctor", "--root", "gone"]), @"
    exit 3
    --- stderr
    error: [HOME]/gone: no such directory
    hint: --root names a directory with skills
    ");
}

#[cfg(unix)]
#[test]
fn unreadable_paths_are_reported() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let home = TestHome::new()
        .trusted()
        .skill("brew", &skill_text("brew", ""))
        .skill("closed/inner", &skill_text("inner", ""))
        .skill("shut", &skill_text("shut", ""))
        .file("manifests/none", "")
        .file("elsewhere/pour/SKILL.md", skill_text("pour", ""));
    symlink(home.path("elsewhere/pour"), home.path("sandbox/skills/pour")).unwrap();
    let mode = |path: &str, mode| {
        let path = home.path(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("sandbox/skills/closed", 0o000);
    mode("sandbox/skills/shut/SKILL.md", 0o000);
    let output = run_as_reader(&home, &["skill", "doctor"]);
    mode("sandbox/skills/closed", 0o755);
    insta::assert_snapshot!(output, @"
    exit 1
    --- stdout
    skill root    discovered parsed valid visible in L1
    brew  sandbox yes        yes    yes   yes     yes
    pour  sandbox no         -      -     -       -
    shut  sandbox yes        no     -     -       -

    pour  [HOME]/sandbox/skills/pour
      not a skill: it links out of the roots, to [HOME]/elsewhere/pour [link.outside]
      hint: copy the skill, or make the directory it lies in a root
    shut  [HOME]/sandbox/skills/shut/SKILL.md
      not parsed: it cannot be read: Permission denied (os error 13) [file.unreadable]
      hint: give the process permission to read it
    3 skills, 1 visible, 1 in L1; the catalog has 254 of 8000 characters
    --- stderr
    note: the scan is incomplete: [HOME]/sandbox/skills/closed could not be read: Permission denied (os error 13)
    note: [HOME]/sandbox/skills/closed: error[scan.unreadable]: the directory cannot be searched: Permission denied (os error 13)
    ");
}

#[cfg(unix)]
#[test]
fn partial_scan_exits_with_one() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = TestHome::new()
        .trusted()
        .skill("brew", &skill_text("brew", ""))
        .file("manifests/none", "")
        .file("sandbox/skills/closed/none", "");
    let closed = home.path("sandbox/skills/closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let output = run_as_reader(&home, &["skill", "doctor", "--json"]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    let object = output.exits(1).json();
    assert_eq!(object["skills"][0]["stopped_at"], serde_json::Value::Null);
    assert_eq!(object["partial"]["reasons"][0]["reason"], "unreadable");
}
