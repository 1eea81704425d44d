//! Tests of `skillhost skill validate`: output formats and exit codes.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::fixtures::pretty_json;

/// Creates one valid skill, one with a wrong name, and an empty directory.
fn skills_home() -> TestHome {
    let home = TestHome::new()
        .file("skills/beads/SKILL.md", "---\nname: beads\ndescription: Counts beads. Use when there are beads.\nlicense: MIT\nmetadata:\n  version: \"1.0\"\n---\nCount.\n")
        .file("skills/jars/SKILL.md", "---\nname: Big Jars\ndescription: Opens jars. Use when a jar is shut.\ncolour: blue\n---\nTurn.\n");
    fs::create_dir(home.path("skills/nothing")).unwrap();
    fs::create_dir(home.path("empty")).unwrap();
    home
}

fn run_validate(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost(["skill", "validate"].iter().chain(args))
}

#[test]
fn human_output_shows_source_lines() {
    insta::assert_snapshot!(run_validate(&skills_home(), &["skills"]), @"
    exit 1
    --- stdout
    error[name.matchesDirectory]: the name `Big Jars` is not the directory's name `jars`
     --> skills/jars/SKILL.md:2:7
      |
    2 | name: Big Jars
      |       ^^^^^^^^
      |
      = help: the directory's name is the skill's id; rename one of the two

    error[name.format]: the name `Big Jars` is not lower-case letters, digits and single hyphens
     --> skills/jars/SKILL.md:2:7
      |
    2 | name: Big Jars
      |       ^^^^^^^^
      |
      = help: rename the skill; other readers refuse the file

    error[frontmatter.unknownField]: `colour` is not a known field; it is kept but not used
     --> skills/jars/SKILL.md:4:1
      |
    4 | colour: blue
      | ^^^^^^
      |
      = help: move it under `metadata`, as `skillhost skill fmt --portable` does, or remove it

    2 skills: 1 valid, 1 invalid; 3 errors
    ");
}

#[test]
fn valid_skills_take_one_line() {
    insta::assert_snapshot!(run_validate(&skills_home(), &["skills/beads"]), @"
    exit 0
    --- stdout
    1 skill: valid
    ");
}

#[test]
fn json_object_contains_every_skill() {
    let output = run_validate(&skills_home(), &["skills", "--json"]).exits(1);
    let report = output.json();
    insta::assert_snapshot!(pretty_json(report), @r#"
    {
      "schema_version": 1,
      "skills": [
        {
          "diagnostics": [],
          "errors": [],
          "path": "skills/beads/SKILL.md",
          "properties": {
            "description": "Counts beads. Use when there are beads.",
            "license": "MIT",
            "metadata": {
              "version": "1.0"
            },
            "name": "beads"
          },
          "valid": true,
          "warnings": []
        },
        {
          "diagnostics": [
            {
              "column": 7,
              "help": "the directory's name is the skill's id; rename one of the two",
              "line": 2,
              "message": "the name `Big Jars` is not the directory's name `jars`",
              "rule": "name.matchesDirectory",
              "severity": "error"
            },
            {
              "column": 7,
              "help": "rename the skill; other readers refuse the file",
              "line": 2,
              "message": "the name `Big Jars` is not lower-case letters, digits and single hyphens",
              "rule": "name.format",
              "severity": "error"
            },
            {
              "column": 1,
              "help": "move it under `metadata`, as `skillhost skill fmt --portable` does, or remove it",
              "line": 4,
              "message": "`colour` is not a known field; it is kept but not used",
              "rule": "frontmatter.unknownField",
              "severity": "error"
            }
          ],
          "errors": [
            "the name `Big Jars` is not the directory's name `jars`",
            "the name `Big Jars` is not lower-case letters, digits and single hyphens",
            "`colour` is not a known field; it is kept but not used"
          ],
          "path": "skills/jars/SKILL.md",
          "properties": {
            "description": "Opens jars. Use when a jar is shut.",
            "name": "Big Jars"
          },
          "valid": false,
          "warnings": []
        }
      ],
      "summary": {
        "errors": 3,
        "notes": 0,
        "problems": 0,
        "skills": 2,
        "valid": 1,
        "warnings": 0
      }
    }
    "#);
    for same in [&["--format", "json", "skills"][..], &["--json", "--format=json", "skills"]] {
        assert_eq!(run_validate(&skills_home(), same).stdout, output.stdout);
    }
}

#[test]
fn jsonl_matches_json_objects() {
    let home = skills_home();
    let object = run_validate(&home, &["skills", "empty", "gone", "--json"]).exits(3).json();
    let lines = run_validate(&home, &["skills", "empty", "gone", "--jsonl"]).exits(3);
    let objects: Vec<Value> =
        lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(object["skills"], json!(objects));
    assert_eq!(objects.len(), 4);
    assert_eq!(lines.stderr, "");
    let summary = json!({
        "skills": 2, "valid": 1, "errors": 3, "warnings": 0, "notes": 0, "problems": 2,
    });
    assert_eq!(object["summary"], summary);
    assert_eq!(objects[3]["diagnostics"][0]["rule"], "path.notFound");
    // A run without skills reports an object as well.
    let none = run_validate(&home, &["--paths-from", "-", "--json"]).success().json();
    assert_eq!(none["skills"], json!([]));
}

#[test]
fn sarif_contains_rules_and_positions() {
    let report = run_validate(&skills_home(), &["skills", "empty", "gone", "--format", "sarif"])
        .exits(3)
        .json();
    let run = &report["runs"][0];
    assert_eq!(
        (&report["version"], &run["columnKind"]),
        (&json!("2.1.0"), &json!("unicodeCodePoints"))
    );
    insta::assert_snapshot!(pretty_json(run["results"].clone()), @r#"
    [
      {
        "level": "error",
        "locations": [
          {
            "physicalLocation": {
              "artifactLocation": {
                "uri": "skills/jars/SKILL.md"
              },
              "region": {
                "startColumn": 7,
                "startLine": 2
              }
            }
          }
        ],
        "message": {
          "text": "the name `Big Jars` is not the directory's name `jars`\nhelp: the directory's name is the skill's id; rename one of the two"
        },
        "ruleId": "name.matchesDirectory",
        "ruleIndex": 0
      },
      {
        "level": "error",
        "locations": [
          {
            "physicalLocation": {
              "artifactLocation": {
                "uri": "skills/jars/SKILL.md"
              },
              "region": {
                "startColumn": 7,
                "startLine": 2
              }
            }
          }
        ],
        "message": {
          "text": "the name `Big Jars` is not lower-case letters, digits and single hyphens\nhelp: rename the skill; other readers refuse the file"
        },
        "ruleId": "name.format",
        "ruleIndex": 1
      },
      {
        "level": "error",
        "locations": [
          {
            "physicalLocation": {
              "artifactLocation": {
                "uri": "skills/jars/SKILL.md"
              },
              "region": {
                "startColumn": 1,
                "startLine": 4
              }
            }
          }
        ],
        "message": {
          "text": "`colour` is not a known field; it is kept but not used\nhelp: move it under `metadata`, as `skillhost skill fmt --portable` does, or remove it"
        },
        "ruleId": "frontmatter.unknownField",
        "ruleIndex": 2
      },
      {
        "level": "error",
        "locations": [
          {
            "physicalLocation": {
              "artifactLocation": {
                "uri": "empty"
              }
            }
          }
        ],
        "message": {
          "text": "SKILL.md not found in it or below it\nhelp: name a skill's directory, its SKILL.md, or a directory of skills"
        },
        "ruleId": "structure.missingSkillMd",
        "ruleIndex": 3
      }
    ]
    "#);
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "skillhost");
    for (index, result) in run["results"].as_array().unwrap().iter().enumerate() {
        let rule = &driver["rules"][result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"], "result {index}");
        assert!(rule["help"]["markdown"].as_str().unwrap().contains("## Why is this bad?"));
        assert!(!rule["shortDescription"]["text"].as_str().unwrap().is_empty());
        assert!(!rule["fullDescription"]["text"].as_str().unwrap().is_empty());
        assert_eq!(rule["defaultConfiguration"]["level"], "error");
    }
    insta::assert_snapshot!(pretty_json(run["invocations"].clone()), @r#"
    [
      {
        "executionSuccessful": false,
        "toolExecutionNotifications": [
          {
            "level": "error",
            "locations": [
              {
                "physicalLocation": {
                  "artifactLocation": {
                    "uri": "gone"
                  }
                }
              }
            ],
            "message": {
              "text": "it does not exist\nhelp: check the path"
            }
          }
        ]
      }
    ]
    "#);
    // SARIF requires an empty list here: a missing list would mean that no check ran.
    let clean =
        run_validate(&skills_home(), &["skills/beads", "--format", "sarif"]).success().json();
    assert_eq!(clean["runs"][0]["results"], json!([]));
    assert_eq!(
        clean["runs"][0]["invocations"],
        json!([{ "executionSuccessful": true, "toolExecutionNotifications": [] }])
    );
}

#[test]
fn github_format_uses_workflow_commands() {
    insta::assert_snapshot!(
        run_validate(&skills_home(), &["skills", "empty", "gone", "--format", "github"]), @"
    exit 3
    --- stdout
    ::error file=skills/jars/SKILL.md,line=2,col=7,title=name.matchesDirectory::the name `Big Jars` is not the directory's name `jars`%0Ahelp: the directory's name is the skill's id; rename one of the two
    ::error file=skills/jars/SKILL.md,line=2,col=7,title=name.format::the name `Big Jars` is not lower-case letters, digits and single hyphens%0Ahelp: rename the skill; other readers refuse the file
    ::error file=skills/jars/SKILL.md,line=4,col=1,title=frontmatter.unknownField::`colour` is not a known field; it is kept but not used%0Ahelp: move it under `metadata`, as `skillhost skill fmt --portable` does, or remove it
    ::error file=empty,title=structure.missingSkillMd::SKILL.md not found in it or below it%0Ahelp: name a skill's directory, its SKILL.md, or a directory of skills
    2 skills: 1 valid, 1 invalid; 3 errors, 2 problems
    --- stderr
    error: gone: it does not exist
    hint: check the path
    ");
}

#[test]
fn worst_problem_decides_exit_code() {
    let home = skills_home();
    for (args, code) in [
        (&["skills/beads"][..], 0),
        (&["skills/jars"], 1),
        (&["empty"], 1),
        (&["skills/beads/SKILL.md", "empty"], 1),
        (&["gone", "skills/jars", "skills/beads"], 3),
        (&["skills/jars", "empty", "gone"], 3),
        (&["--no-such-option"], 2),
        (&["--profile", "mine"], 2),
    ] {
        run_validate(&home, args).exits(code);
    }
    insta::assert_snapshot!(run_validate(&home, &["gone", "empty", "skills/beads"]), @"
    exit 3
    --- stdout
    error[structure.missingSkillMd]: SKILL.md not found in it or below it
     --> empty
     = help: name a skill's directory, its SKILL.md, or a directory of skills

    1 skill: valid; 2 problems
    --- stderr
    error: gone: it does not exist
    hint: check the path
    ");
}

#[test]
fn strict_mode_fails_on_warnings() {
    // A reserved word is a warning in the default profile and an error in its owner's profile.
    let text = "---\nname: claude-beads\ndescription: Counts beads. Use when asked.\n---\nCount.\n";
    let home = TestHome::new().file("claude-beads/SKILL.md", text);
    run_validate(&home, &["claude-beads"]).success();
    run_validate(&home, &["claude-beads", "--strict"]).exits(1);
    run_validate(&home, &["claude-beads", "--profile", "lenient", "--strict"]).success();
    let report =
        run_validate(&home, &["claude-beads", "--profile", "anthropic", "--json"]).exits(1).json();
    assert_eq!(report["skills"][0]["valid"], false);
    assert_eq!(report["skills"][0]["diagnostics"][0]["rule"], "name.reserved");
}

#[test]
fn conflicting_formats_are_rejected() {
    let home = skills_home();
    for args in [
        &["--json", "--jsonl"][..],
        &["--json", "--format", "human"],
        &["--jsonl", "--format", "sarif"],
        &["--format", "reference"],
    ] {
        let denied = run_validate(&home, args).exits(2);
        assert_eq!(denied.stdout, "", "{args:?}");
    }
    insta::assert_snapshot!(run_validate(&home, &["--jsonl", "--format", "sarif"]), @"
    exit 2
    --- stderr
    error: --format conflicts with --json or with another format
    hint: give one of them
    ");
}

#[test]
fn paths_are_read_from_list() {
    let home = skills_home()
        .file("list.txt", "\r\nskills/beads\r\n\r\n   \nskills/jars/SKILL.md")
        .file("none.txt", "\n\r\n");
    let checked = |output: Output| -> Vec<String> {
        let lines = output.stdout.lines();
        lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["path"].to_string()).collect()
    };
    let both = ["\"skills/beads/SKILL.md\"", "\"skills/jars/SKILL.md\""];
    let listed = run_validate(&home, &["--jsonl", "--paths-from", "list.txt"]).exits(1);
    assert_eq!(checked(listed), both);
    // A skill on several paths is checked once.
    let repeated = run_validate(&home, &["skills", "--jsonl", "--paths-from", "list.txt"]).exits(1);
    assert_eq!(checked(repeated), both);
    let mut command = home.command();
    let list = fs::File::open(home.path("list.txt")).unwrap();
    command.stdin(Stdio::from(list)).args(["skill", "validate", "--jsonl", "--paths-from", "-"]);
    assert_eq!(checked(home.start(&mut command).finish().exits(1)), both);
    insta::assert_snapshot!(run_validate(&home, &["--paths-from", "none.txt"]), @"
    exit 0
    --- stdout
    no skill checked
    ");
    insta::assert_snapshot!(run_validate(&home, &["--paths-from", "gone.txt"]), @"
    exit 3
    --- stderr
    error: gone.txt: No such file or directory (os error 2)
    ");
}

#[test]
fn validate_defaults_to_working_directory() {
    let home = skills_home();
    for (directory, code) in [("skills", 1), ("skills/beads", 0), ("empty", 1)] {
        let mut command = home.command();
        command.current_dir(home.path(directory)).args(["skill", "validate", "--jsonl"]);
        let output = home.start(&mut command).finish().exits(code);
        if directory == "skills/beads" {
            let report: Value = output.json();
            assert_eq!((&report["path"], &report["valid"]), (&json!("SKILL.md"), &json!(true)));
        }
    }
}
