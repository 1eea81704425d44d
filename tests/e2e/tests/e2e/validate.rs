//! `skillhost skill validate`: every form of its account, and its exit codes.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use test_support::{Output, TestHome};

use crate::scene::pretty;

/// One good skill, one with a wrong name, and a folder without any.
fn skills() -> TestHome {
    let home = TestHome::new()
        .file("skills/beads/SKILL.md", "---\nname: beads\ndescription: Counts beads. Use when there are beads.\nlicense: MIT\nmetadata:\n  version: \"1.0\"\n---\nCount.\n")
        .file("skills/jars/SKILL.md", "---\nname: Big Jars\ndescription: Opens jars. Use when a jar is shut.\ncolour: blue\n---\nTurn.\n");
    fs::create_dir(home.path("skills/nothing")).unwrap();
    fs::create_dir(home.path("empty")).unwrap();
    home
}

fn validate(home: &TestHome, args: &[&str]) -> Output {
    home.skillhost(["skill", "validate"].iter().chain(args))
}

#[test]
fn people_are_shown_the_place_in_the_file() {
    insta::assert_snapshot!(validate(&skills(), &["skills"]), @"
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
      = help: move it under `metadata`, or remove it

    2 skills: 1 valid, 3 errors
    ");
}

#[test]
fn good_skills_take_one_line() {
    insta::assert_snapshot!(validate(&skills(), &["skills/beads"]), @"
    exit 0
    --- stdout
    1 skill: valid
    ");
}

#[test]
fn one_object_has_every_skill() {
    let output = validate(&skills(), &["skills", "--json"]).exits(1);
    let told = output.json();
    insta::assert_snapshot!(pretty(told), @r#"
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
              "help": "move it under `metadata`, or remove it",
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
        assert_eq!(validate(&skills(), same).stdout, output.stdout);
    }
}

#[test]
fn json_lines_are_the_same_objects() {
    let home = skills();
    let whole = validate(&home, &["skills", "empty", "gone", "--json"]).exits(3).json();
    let lines = validate(&home, &["skills", "empty", "gone", "--jsonl"]).exits(3);
    let objects: Vec<Value> =
        lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(whole["skills"], json!(objects));
    assert_eq!(objects.len(), 4);
    assert_eq!(lines.stderr, "");
    let summary = json!({
        "skills": 2, "valid": 1, "errors": 3, "warnings": 0, "notes": 0, "problems": 2,
    });
    assert_eq!(whole["summary"], summary);
    assert_eq!(objects[3]["diagnostics"][0]["rule"], "path.notFound");
    // Nothing to look at is an object as well.
    let none = validate(&home, &["--paths-from", "-", "--json"]).success().json();
    assert_eq!(none["skills"], json!([]));
}

#[test]
fn sarif_names_rules_and_places() {
    let told =
        validate(&skills(), &["skills", "empty", "gone", "--format", "sarif"]).exits(3).json();
    let run = &told["runs"][0];
    assert_eq!(
        (&told["version"], &run["columnKind"]),
        (&json!("2.1.0"), &json!("unicodeCodePoints"))
    );
    insta::assert_snapshot!(pretty(run["results"].clone()), @r#"
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
          "text": "`colour` is not a known field; it is kept but not used\nhelp: move it under `metadata`, or remove it"
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
          "text": "there is no SKILL.md in it or below it\nhelp: name a skill's directory, its SKILL.md, or a folder of skills"
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
    insta::assert_snapshot!(pretty(run["invocations"].clone()), @r#"
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
    // No results are an empty list: none would mean that nothing was run.
    let clean = validate(&skills(), &["skills/beads", "--format", "sarif"]).success().json();
    assert_eq!(clean["runs"][0]["results"], json!([]));
    assert_eq!(
        clean["runs"][0]["invocations"],
        json!([{ "executionSuccessful": true, "toolExecutionNotifications": [] }])
    );
}

#[test]
fn github_is_told_in_workflow_commands() {
    insta::assert_snapshot!(
        validate(&skills(), &["skills", "empty", "gone", "--format", "github"]), @"
    exit 3
    --- stdout
    ::error file=skills/jars/SKILL.md,line=2,col=7,title=name.matchesDirectory::the name `Big Jars` is not the directory's name `jars`%0Ahelp: the directory's name is the skill's id; rename one of the two
    ::error file=skills/jars/SKILL.md,line=2,col=7,title=name.format::the name `Big Jars` is not lower-case letters, digits and single hyphens%0Ahelp: rename the skill; other readers refuse the file
    ::error file=skills/jars/SKILL.md,line=4,col=1,title=frontmatter.unknownField::`colour` is not a known field; it is kept but not used%0Ahelp: move it under `metadata`, or remove it
    ::error file=empty,title=structure.missingSkillMd::there is no SKILL.md in it or below it%0Ahelp: name a skill's directory, its SKILL.md, or a folder of skills
    2 skills: 1 valid, 3 errors, 2 problems
    --- stderr
    error: gone: it does not exist
    hint: check the path
    ");
}

#[test]
fn the_worst_problem_decides_the_exit_code_and_stops_nothing() {
    let home = skills();
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
        validate(&home, args).exits(code);
    }
    insta::assert_snapshot!(validate(&home, &["gone", "empty", "skills/beads"]), @"
    exit 3
    --- stdout
    error[structure.missingSkillMd]: there is no SKILL.md in it or below it
     --> empty
     = help: name a skill's directory, its SKILL.md, or a folder of skills

    1 skill: valid, 2 problems
    --- stderr
    error: gone: it does not exist
    hint: check the path
    ");
}

#[test]
fn warnings_fail_where_that_is_asked_for() {
    // A reserved word is a warning in the default profile and an error in that of its owner.
    let text = "---\nname: claude-beads\ndescription: Counts beads. Use when asked.\n---\nCount.\n";
    let home = TestHome::new().file("claude-beads/SKILL.md", text);
    validate(&home, &["claude-beads"]).success();
    validate(&home, &["claude-beads", "--strict"]).exits(1);
    validate(&home, &["claude-beads", "--profile", "lenient", "--strict"]).success();
    let told =
        validate(&home, &["claude-beads", "--profile", "anthropic", "--json"]).exits(1).json();
    assert_eq!(told["skills"][0]["valid"], false);
    assert_eq!(told["skills"][0]["diagnostics"][0]["rule"], "name.reserved");
}

#[test]
fn forms_that_contradict_each_other_are_refused() {
    let home = skills();
    for args in [
        &["--json", "--jsonl"][..],
        &["--json", "--format", "human"],
        &["--jsonl", "--format", "sarif"],
        &["--format", "reference"],
    ] {
        let refused = validate(&home, args).exits(2);
        assert_eq!(refused.stdout, "", "{args:?}");
    }
    insta::assert_snapshot!(validate(&home, &["--jsonl", "--format", "sarif"]), @"
    exit 2
    --- stderr
    error: --format, --jsonl and --json ask for different forms
    hint: give one of them
    ");
}

#[test]
fn paths_come_from_a_list() {
    let home = skills()
        .file("list.txt", "\r\nskills/beads\r\n\r\n   \nskills/jars/SKILL.md")
        .file("none.txt", "\n\r\n");
    let checked = |output: Output| -> Vec<String> {
        let lines = output.stdout.lines();
        lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["path"].to_string()).collect()
    };
    let both = ["\"skills/beads/SKILL.md\"", "\"skills/jars/SKILL.md\""];
    let listed = validate(&home, &["--jsonl", "--paths-from", "list.txt"]).exits(1);
    assert_eq!(checked(listed), both);
    // What several paths lead to is looked at once.
    let again = validate(&home, &["skills", "--jsonl", "--paths-from", "list.txt"]).exits(1);
    assert_eq!(checked(again), both);
    let mut command = home.command();
    let list = fs::File::open(home.path("list.txt")).unwrap();
    command.stdin(Stdio::from(list)).args(["skill", "validate", "--jsonl", "--paths-from", "-"]);
    assert_eq!(checked(home.start(&mut command).finish().exits(1)), both);
    insta::assert_snapshot!(validate(&home, &["--paths-from", "none.txt"]), @"
    exit 0
    --- stdout
    no skill was looked at
    ");
    insta::assert_snapshot!(validate(&home, &["--paths-from", "gone.txt"]), @"
    exit 3
    --- stderr
    error: gone.txt: No such file or directory (os error 2)
    ");
}

#[test]
fn the_working_directory_is_looked_at_by_default() {
    let home = skills();
    for (folder, code) in [("skills", 1), ("skills/beads", 0), ("empty", 1)] {
        let mut command = home.command();
        command.current_dir(home.path(folder)).args(["skill", "validate", "--jsonl"]);
        let output = home.start(&mut command).finish().exits(code);
        if folder == "skills/beads" {
            let told: Value = output.json();
            assert_eq!((&told["path"], &told["valid"]), (&json!("SKILL.md"), &json!(true)));
        }
    }
}
