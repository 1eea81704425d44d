//! Tests of `skillhost skill cost`, without a home or a kernel.

use std::fs;

use test_support::TestHome;

use crate::fixtures::{run_as_reader, stable_json};

const BREW: &str = "---\nname: brew\ndescription: Brews tea. Use when thirsty.\nmetadata:\n  requires: greet\n---\nBoil the water, then pour it over the leaves.\n";

fn skills_home() -> TestHome {
    TestHome::new()
        .file("kit/brew/SKILL.md", BREW)
        .file("kit/brew/references/teas.md", "# Teas\n\nÄrger mit grünem Tee: 80 °C.\n")
        .file("kit/brew/leaf.bin", [0u8, 159, 146, 150])
        .file("kit/greet/SKILL.md", "---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n")
        .file(
            "kit/purge/SKILL.md",
            "---\nname: purge\ndescription: Deletes everything.\ndisable-model-invocation: true\n---\nDelete it.\n",
        )
}

#[test]
fn single_skill_lists_parts() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit/brew"]), @"
    exit 0
    --- stdout
    brew               tokens          characters
    catalog line       13 ~10          40
    <available_skills> 42 ~34          136
    instructions       119 ~102        408
    body               12 ~12          46
    leaf.bin           binary, 4 bytes
    references/teas.md 18 ~10          37

    client      characters  listed shortened without description left out
    skillhost   256 of 8000 1      0         0                   0
    Claude Code 37 of 8000  1      0         0                   0
    Codex       63 of 8000  1      0         0                   0

    tokens of o200k_base; after ~ estimates, ceil(chars/4)
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit/brew/SKILL.md", "--estimate"]), @"
    exit 0
    --- stdout
    brew               tokens          characters
    catalog line       ~10             40
    <available_skills> ~34             136
    instructions       ~102            408
    body               ~12             46
    leaf.bin           binary, 4 bytes
    references/teas.md ~10             37

    client      characters  listed shortened without description left out
    skillhost   256 of 8000 1      0         0                   0
    Claude Code 37 of 8000  1      0         0                   0
    Codex       63 of 8000  1      0         0                   0

    estimated tokens, ceil(chars/4)
    ");
}

#[test]
fn several_skills_list_totals() {
    let home = skills_home();
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit"]), @"
    exit 0
    --- stdout
    skill    catalog   <available_skills> instructions body   resources
    brew     13 ~10    42 ~34             119 ~102     12 ~12 18 ~10 in 1, 1 not text
    greet    10 ~7     39 ~31             66 ~43       3 ~3
    purge    user only user only          62 ~43       3 ~3
    3 skills 71 ~71    91 ~75             247 ~188     18 ~18 18 ~10 in 1, 1 not text

    client      characters  listed shortened without description left out
    skillhost   283 of 8000 2      0         0                   0
    Claude Code 61 of 8000  2      0         0                   0
    Codex       170 of 8000 3      0         0                   0

    tokens of o200k_base; after ~ estimates, ceil(chars/4)
    ");
    // A skill on two paths counts once.
    let twice = home.skillhost(["skill", "cost", "kit", "kit/brew"]).success();
    assert_eq!(twice, home.skillhost(["skill", "cost", "kit"]));
}

#[test]
fn json_reports_token_counter() {
    let home = skills_home();
    insta::assert_snapshot!(stable_json(&home.skillhost(["skill", "cost", "kit/brew", "--json"]).success()), @r#"
    {
      "clients": [
        {
          "budget": 8000,
          "chars": 256,
          "client": "skillhost",
          "listed": 1,
          "omitted": 0,
          "shortened": 0,
          "source": "the configuration of skill_registry",
          "without_description": 0
        },
        {
          "budget": 8000,
          "chars": 37,
          "client": "Claude Code",
          "listed": 1,
          "omitted": 0,
          "shortened": 0,
          "source": "https://code.claude.com/docs/en/skills",
          "without_description": 0
        },
        {
          "budget": 8000,
          "chars": 63,
          "client": "Codex",
          "listed": 1,
          "omitted": 0,
          "shortened": 0,
          "source": "https://developers.openai.com/codex/skills",
          "without_description": 0
        }
      ],
      "encoding": "o200k_base",
      "estimate": "ceil(chars/4)",
      "problems": [],
      "schema_version": 1,
      "skills": [
        {
          "available_skills": {
            "chars": 136,
            "estimate": 34,
            "o200k": 42
          },
          "body": {
            "chars": 46,
            "estimate": 12,
            "o200k": 12
          },
          "catalog_line": {
            "chars": 40,
            "estimate": 10,
            "o200k": 13
          },
          "instructions": {
            "chars": 408,
            "estimate": 102,
            "o200k": 119
          },
          "path": "kit/brew",
          "resources": [
            {
              "content": "binary",
              "path": "leaf.bin",
              "size": 4
            },
            {
              "chars": 37,
              "content": "text",
              "estimate": 10,
              "o200k": 18,
              "path": "references/teas.md",
              "size": 40
            }
          ],
          "skill_id": "brew",
          "user_only": false
        }
      ],
      "total": {
        "available_skills": {
          "chars": 174,
          "estimate": 44,
          "o200k": 52
        },
        "body": {
          "chars": 46,
          "estimate": 12,
          "o200k": 12
        },
        "catalog": {
          "chars": 256,
          "estimate": 64,
          "o200k": 61
        },
        "instructions": {
          "chars": 408,
          "estimate": 102,
          "o200k": 119
        },
        "other_files": 1,
        "resource_bytes": 44,
        "resources": {
          "chars": 37,
          "estimate": 10,
          "o200k": 18
        },
        "skills": 1,
        "text_files": 1
      }
    }
    "#);
    let estimated = home.skillhost(["skill", "cost", "kit/brew", "--json", "--estimate"]).success();
    let exact = home.skillhost(["skill", "cost", "kit/brew", "--json"]).success().json();
    let mut estimated = estimated.json();
    assert_eq!(estimated["encoding"], serde_json::Value::Null);
    assert_eq!(estimated["total"]["body"]["o200k"], serde_json::Value::Null);
    // All other fields are equal.
    estimated["encoding"] = "o200k_base".into();
    for pointer in [
        "/total/catalog",
        "/total/available_skills",
        "/total/instructions",
        "/total/body",
        "/total/resources",
        "/skills/0/catalog_line",
        "/skills/0/available_skills",
        "/skills/0/instructions",
        "/skills/0/body",
        "/skills/0/resources/1",
    ] {
        let tokens = exact.pointer(pointer).unwrap()["o200k"].clone();
        assert!(tokens.is_u64(), "{pointer}");
        estimated.pointer_mut(pointer).unwrap()["o200k"] = tokens;
    }
    assert_eq!(estimated, exact);
}

#[test]
fn jsonl_has_skill_and_problem_lines() {
    let home = skills_home().file("kit/hollow/SKILL.md", "");
    let output = home.skillhost(["skill", "cost", "kit", "gone", "--jsonl"]).exits(3);
    assert_eq!(output.stderr, "");
    let rows: Vec<String> = output
        .stdout
        .lines()
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(value["schema_version"], 1);
            let id = value["skill_id"].as_str().or(value["rule"].as_str());
            format!("{} {}", value["path"].as_str().unwrap(), id.unwrap())
        })
        .collect();
    assert_eq!(
        rows,
        [
            "kit/brew brew",
            "kit/greet greet",
            "kit/hollow/SKILL.md frontmatter.missing",
            "kit/purge purge",
            "gone path.notFound",
        ]
    );
}

#[test]
fn rendered_instructions_are_counted() {
    let home = skills_home();
    let cost = home.skillhost(["skill", "cost", "kit/brew", "--json"]).success().json();
    let read = home.skillhost(["skill", "read", "brew", "--root", "kit", "--json"]).success();
    let text = read.json()["text"].as_str().unwrap().to_owned();
    let counted = &cost["skills"][0]["instructions"];
    assert_eq!(counted["chars"], text.chars().count());
    assert_eq!(counted["estimate"], text.chars().count().div_ceil(4));
}

#[test]
fn budget_truncates_catalog() {
    let mut home = TestHome::new().trusted();
    for number in 0..60 {
        let text = format!(
            "---\nname: skill-{number:02}\ndescription: {}\n---\nBody.\n",
            "Does many things well. ".repeat(10)
        );
        home = home.file(format!("kit/skill-{number:02}/SKILL.md"), text);
    }
    let clients = |args: &[&str]| {
        let output = home.skillhost(["skill", "cost", "kit", "--estimate"].iter().chain(args));
        let stdout = output.success().stdout;
        stdout.split("\n\n").nth(1).unwrap().to_owned()
    };
    insta::assert_snapshot!(clients(&[]), @"
    client      characters   listed shortened without description left out
    skillhost   2496 of 8000 60     0         0                   0
    Claude Code 7821 of 8000 60     0         29                  0
    Codex       8000 of 8000 60     60        0                   0
    ");
    insta::assert_snapshot!(clients(&["--window", "1000000"]), @"
    client      characters     listed shortened without description left out
    skillhost   2496 of 80000  60     0         0                   0
    Claude Code 14520 of 40000 60     0         0                   0
    Codex       16320 of 80000 60     0         0                   0
    ");
    insta::assert_snapshot!(clients(&["--window", "20000"]), @"
    client      characters   listed shortened without description left out
    skillhost   1596 of 1600 60     0         36                  0
    Claude Code 660 of 800   60     0         60                  0
    Codex       1600 of 1600 37     9         28                  23
    ");
    // The catalog text is the one in the rendered prompt.
    home.write(
        "skillhost.yaml",
        "extensions: {skill_registry: {roots: [{label: kit, path: kit, trust: operator}]}}",
    );
    let doctor = home.skillhost(["skill", "doctor", "--json"]).success().json();
    let cost = home.skillhost(["skill", "cost", "kit", "--json"]).success().json();
    for field in ["budget", "chars", "listed", "shortened", "without_description", "omitted"] {
        assert_eq!(cost["clients"][0][field], doctor["catalog"][field], "{field}");
    }
}

#[test]
fn missing_paths_are_reported() {
    let home = skills_home().file("empty/readme.txt", "x").file("kit/hollow/SKILL.md", "no fences");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "gone"]), @"
    exit 3
    --- stderr
    error: gone: it does not exist [path.notFound]
    hint: check the path
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "empty"]), @"
    exit 1
    --- stderr
    error: empty: SKILL.md not found in it or below it [structure.missingSkillMd]
    hint: name a skill's directory, its SKILL.md, or a directory of skills
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit/hollow"]), @"
    exit 1
    --- stderr
    error: kit/hollow/SKILL.md: the file does not start with `---` [frontmatter.missing]
    hint: start the file with a line `---`, then `name:` and `description:`, then a line `---`
    ");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "gone", "empty", "kit/greet", "--estimate"]), @"
    exit 3
    --- stdout
    greet              tokens characters
    catalog line       ~7     27
    <available_skills> ~31    124
    instructions       ~43    170
    body               ~3     11

    client      characters  listed shortened without description left out
    skillhost   243 of 8000 1      0         0                   0
    Claude Code 24 of 8000  1      0         0                   0
    Codex       51 of 8000  1      0         0                   0

    estimated tokens, ceil(chars/4)
    --- stderr
    error: gone: it does not exist [path.notFound]
    hint: check the path
    error: empty: SKILL.md not found in it or below it [structure.missingSkillMd]
    hint: name a skill's directory, its SKILL.md, or a directory of skills
    ");
    let json = home.skillhost(["skill", "cost", "gone", "--json"]).exits(3);
    insta::assert_snapshot!(json.stdout, @r#"{"clients":[{"budget":8000,"chars":0,"client":"skillhost","listed":0,"omitted":0,"shortened":0,"source":"the configuration of skill_registry","without_description":0},{"budget":8000,"chars":0,"client":"Claude Code","listed":0,"omitted":0,"shortened":0,"source":"https://code.claude.com/docs/en/skills","without_description":0},{"budget":8000,"chars":0,"client":"Codex","listed":0,"omitted":0,"shortened":0,"source":"https://developers.openai.com/codex/skills","without_description":0}],"encoding":"o200k_base","estimate":"ceil(chars/4)","problems":[{"help":"check the path","message":"it does not exist","path":"gone","rule":"path.notFound"}],"schema_version":1,"skills":[],"total":{"available_skills":null,"body":{"chars":0,"estimate":0,"o200k":null},"catalog":null,"instructions":{"chars":0,"estimate":0,"o200k":null},"other_files":0,"resource_bytes":0,"resources":{"chars":0,"estimate":0,"o200k":null},"skills":0,"text_files":0}}"#);
    assert_eq!(json.stderr, "");
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit", "--window", "0"]), @"
    exit 2
    --- stderr
    error: invalid value '0' for '--context-window <TOKENS>': 0 is not in 1..=4294967295

    For more information, try '--help'.
    ");
}

#[test]
fn invalid_files_do_not_stop_count() {
    let home = skills_home();
    fs::File::create(home.path("kit/brew/video.txt")).unwrap().set_len(20 << 30).unwrap();
    let huge = fs::File::create(home.path("kit/greet/SKILL.md")).unwrap();
    huge.set_len(20 << 30).unwrap();
    insta::assert_snapshot!(home.skillhost(["skill", "cost", "kit", "--estimate"]), @"
    exit 1
    --- stdout
    skill    catalog   <available_skills> instructions body resources
    brew     ~10       ~34                ~114         ~12  ~10 in 1, 2 not text
    purge    user only user only          ~43          ~3
    2 skills ~64       ~44                ~157         ~15  ~10 in 1, 2 not text

    client      characters  listed shortened without description left out
    skillhost   256 of 8000 1      0         0                   0
    Claude Code 37 of 8000  1      0         0                   0
    Codex       119 of 8000 2      0         0                   0

    estimated tokens, ceil(chars/4)
    --- stderr
    error: kit/greet/SKILL.md: the file has 21474836480 bytes, more than the limit of 1048576 [file.maxSize]
    hint: move the bulk of the text into files under references/
    ");
}

#[cfg(unix)]
#[test]
fn unreadable_file_is_reported() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = skills_home().file("sandbox/skills/none", "").file("manifests/none", "");
    let closed = home.path("kit/brew/references/teas.md");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    insta::assert_snapshot!(run_as_reader(&home, &["skill", "cost", "kit/brew", "--estimate"]), @"
    exit 5
    --- stdout
    brew               tokens          characters
    catalog line       ~10             40
    <available_skills> ~34             136
    instructions       ~91             362
    body               ~12             46
    leaf.bin           binary, 4 bytes

    client      characters  listed shortened without description left out
    skillhost   256 of 8000 1      0         0                   0
    Claude Code 37 of 8000  1      0         0                   0
    Codex       63 of 8000  1      0         0                   0

    estimated tokens, ceil(chars/4)
    --- stderr
    error: kit/brew/references/teas.md: it may not be read [file.unreadable]
    hint: check its read permissions
    ");
}
