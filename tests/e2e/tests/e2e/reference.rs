//! Tests of `skillhost` in place of the reference tool: through a link of its name, and as
//! `skill read-properties` and `skill to-prompt`. The expectations were observed with skills-ref
//! 0.1.1.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use test_support::{Output, TestHome, binary};

use crate::fixtures::stable_json;

/// Creates a home with skills in its working directory and a link to the program.
fn reference_home(program: &str) -> TestHome {
    let home = TestHome::new()
        .file("good/SKILL.md", "---\nname: good\ndescription: Says <\"it's\"> & \u{e9}\nmetadata:\n  a:\n    team: beads\n---\n")
        .file("low/skill.md", "---\nname: low\ndescription: Lower case.\n---\n")
        .file("bad/SKILL.md", "---\nname: Bad\nversion: 1\n---\n")
        .file("flow/SKILL.md", "---\nname: flow\ndescription: d\nallowed-tools: [Read]\n---\n")
        .file("latin/SKILL.md", b"---\nname: latin\ndescription: caf\xe9\n---\n")
        .file("empty/notes.txt", "");
    symlink(binary(), home.outside().join(program)).unwrap();
    home
}

/// Runs the program under a name of the reference tool.
fn run_reference(home: &TestHome, program: &str, args: &[&str]) -> Output {
    home.start(home.command_of(&home.outside().join(program)).args(args)).finish()
}

fn run(home: &TestHome, args: &[&str]) -> Output {
    run_reference(home, "skills-ref", args)
}

#[test]
fn validate_matches_reference_output() {
    let home = reference_home("skills-ref");
    let validate = |path| run(&home, &["validate", path]);
    for (path, shown) in
        [("good", "good"), ("./good//", "good"), ("good/SKILL.md", "good"), ("low/skill.md", "low")]
    {
        let valid = validate(path);
        assert_eq!((valid.status, &*valid.stderr), (0, ""), "{path}");
        assert_eq!(valid.stdout, format!("Valid skill: {shown}\n"));
    }
    insta::assert_snapshot!(validate("bad"), @"
    exit 1
    --- stderr
    Validation failed for bad:
      - Unexpected fields in frontmatter: version. Only ['allowed-tools', 'compatibility', 'description', 'license', 'metadata', 'name'] are allowed.
      - Skill name 'Bad' must be lowercase
      - Directory name 'bad' must match skill name 'Bad'
      - Missing required field in frontmatter: description
    ");
    insta::assert_snapshot!(validate("empty"), @"
    exit 1
    --- stderr
    Validation failed for empty:
      - Missing required file: SKILL.md
    ");
    insta::assert_snapshot!(validate("empty/notes.txt"), @"
    exit 1
    --- stderr
    Validation failed for empty/notes.txt:
      - Not a directory: empty/notes.txt
    ");
    // The reference words YAML errors differently, and crashes on the last file.
    insta::assert_snapshot!(validate("flow"), @"
    exit 1
    --- stderr
    Validation failed for flow:
      - Invalid YAML in frontmatter: found disallowed flow style (surround the text with quotes, or write one item per line) (line 4, column 16)
    ");
    insta::assert_snapshot!(validate("latin"), @"
    exit 1
    --- stderr
    Validation failed for latin:
      - the file is not UTF-8: byte 32 cannot be decoded; the reference validator crashes here
    ");
}

#[test]
fn working_directory_has_no_name() {
    let home = reference_home("skills-ref");
    let mut command = home.command_of(&home.outside().join("skills-ref"));
    let output = home.start(command.current_dir(home.path("good")).args(["validate", "."]));
    insta::assert_snapshot!(output.finish(), @"
    exit 1
    --- stderr
    Validation failed for .:
      - Directory name '' must match skill name 'good'
    ");
}

#[test]
fn properties_and_prompt_match_reference() {
    let home = reference_home("skills-ref");
    let properties = run(&home, &["read-properties", "good"]);
    insta::assert_snapshot!(properties, @r#"
    exit 0
    --- stdout
    {
      "name": "good",
      "description": "Says <\"it's\"> & \u00e9",
      "metadata": {
        "a": "{'team': 'beads'}"
      }
    }
    "#);
    assert_eq!(home.skillhost(["skill", "read-properties", "good"]), properties);
    let prompt = run(&home, &["to-prompt", "good", "low/skill.md"]);
    insta::assert_snapshot!(prompt, @r"
    exit 0
    --- stdout
    <available_skills>
    <skill>
    <name>
    good
    </name>
    <description>
    Says &lt;&quot;it&#x27;s&quot;&gt; &amp; é
    </description>
    <location>
    [HOME]/good/SKILL.md
    </location>
    </skill>
    <skill>
    <name>
    low
    </name>
    <description>
    Lower case.
    </description>
    <location>
    [HOME]/low/skill.md
    </location>
    </skill>
    </available_skills>
    ");
    assert_eq!(home.skillhost(["skill", "to-prompt", "good", "low/skill.md"]), prompt);
    for command in ["read-properties", "to-prompt"] {
        let failed = run(&home, &[command, "bad"]);
        let message = "Error: Missing required field in frontmatter: description\n";
        assert_eq!((failed.status, &*failed.stdout, &*failed.stderr), (1, "", message));
        assert_eq!(home.skillhost(["skill", command, "bad"]), failed);
    }
    let missing = run(&home, &["read-properties", "./empty"]);
    assert_eq!(missing.stderr, "Error: SKILL.md not found in empty\n");
    let missing = run(&home, &["to-prompt", "good", "empty"]);
    assert_eq!((missing.status, &*missing.stdout), (1, ""));
    assert_eq!(missing.stderr, "Error: SKILL.md not found in [HOME]/empty\n");
}

#[test]
fn json_option_uses_native_format() {
    let home = reference_home("skills-ref");
    let json = |args: [&str; 3]| stable_json(&home.skillhost(args.into_iter().chain(["--json"])));
    insta::assert_snapshot!(json(["skill", "read-properties", "low"]), @r#"
    {
      "properties": {
        "description": "Lower case.",
        "name": "low"
      },
      "schema_version": 1
    }
    "#);
    let failed = home.skillhost(["skill", "read-properties", "bad", "--json"]).exits(1);
    let error: Value = serde_json::from_str(&failed.stderr).unwrap();
    assert_eq!(error["error"]["message"], "Missing required field in frontmatter: description");
}

#[test]
fn command_line_matches_reference() {
    let home = reference_home("agentskills");
    let agentskills = |args: &[&str]| run_reference(&home, "agentskills", args);
    assert_eq!(agentskills(&["--version"]).success().stdout, "agentskills, version 0.1.1\n");
    let help = agentskills(&["--help", "--version"]).success();
    insta::assert_snapshot!(help, @"
    exit 0
    --- stdout
    Usage: agentskills [OPTIONS] COMMAND [ARGS]...

      Reference library for Agent Skills.

    Options:
      --version  Show the version and exit.
      --help     Show this message and exit.

    Commands:
      read-properties  Read and print skill properties as JSON.
      to-prompt        Generate <available_skills> XML for agent prompts.
      validate         Validate a skill directory.
    ");
    let no_args = agentskills(&[]);
    assert_eq!(
        (no_args.status, &no_args.stdout, &no_args.stderr),
        (2, &String::new(), &help.stdout)
    );
    insta::assert_snapshot!(agentskills(&["validate", "--help"]), @"
    exit 0
    --- stdout
    Usage: agentskills validate [OPTIONS] SKILL_PATH

      Validate a skill directory.

      Checks that the skill has a valid SKILL.md with proper frontmatter, correct
      naming conventions, and required fields.

      Exit codes:     0: Valid skill     1: Validation errors found

    Options:
      --help  Show this message and exit.
    ");
    insta::assert_snapshot!(agentskills(&["validate", "no'where"]), @r#"
    exit 2
    --- stderr
    Usage: agentskills validate [OPTIONS] SKILL_PATH
    Try 'agentskills validate --help' for help.

    Error: Invalid value for 'SKILL_PATH': Path "no'where" does not exist.
    "#);
    for (args, message) in [
        (&["validate"][..], "Missing argument 'SKILL_PATH'."),
        (&["to-prompt"], "Missing argument 'SKILL_PATHS...'."),
        (&["validate", "good", "low"], "Got unexpected extra argument (low)"),
        (&["validate", "good", "low", "x"], "Got unexpected extra arguments (low x)"),
        (&["validate", "--help", "-xy"], "No such option '-x'."),
        (&["--foo=1"], "No such option '--foo'."),
        (&["--", "--foo"], "No such option '--foo'."),
        (&["--"], "Missing command."),
        (&["lint"], "No such command 'lint'."),
    ] {
        let output = agentskills(args);
        assert_eq!((output.status, &*output.stdout), (2, ""), "{args:?}");
        assert_eq!(output.stderr.lines().last(), Some(&*format!("Error: {message}")), "{args:?}");
    }
    let no_value = agentskills(&["validate", "--help=1"]);
    assert_eq!(no_value.stderr, "Error: Option '--help' does not take a value.\n");
    let missing = home.skillhost(["skill", "read-properties", "nowhere"]).exits(2);
    assert_eq!(
        missing.stderr,
        "Usage: skillhost skill read-properties [OPTIONS] SKILL_PATH\nTry 'skillhost skill \
         read-properties --help' for help.\n\nError: Invalid value for 'SKILL_PATH': Path \
         'nowhere' does not exist.\n"
    );
}

#[test]
fn fixtures_validate_like_reference() {
    let home = reference_home("skills-ref");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/skill-fixtures");
    let root = fs::canonicalize(root).unwrap();
    let program = home.outside().join("skills-ref");
    let mut invalid = 0;
    for line in fs::read_to_string(root.join("expected.jsonl")).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (path, expected) = (line["path"].as_str().unwrap(), &line["skills_ref"]);
        let output = Command::new(&program).arg("validate").arg(path).current_dir(&root).output();
        let output = output.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let errors = expected["errors"].as_array().map_or(&[][..], Vec::as_slice);
        let crashes = !expected["crash"].is_null();
        if errors.is_empty() && !crashes {
            assert_eq!(output.status.code(), Some(0), "{path}");
            assert_eq!(output.stdout, format!("Valid skill: {path}\n").as_bytes());
            assert_eq!(stderr, "");
            continue;
        }
        invalid += 1;
        assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]), "{path}");
        let mut lines = format!("Validation failed for {path}:\n");
        for error in errors {
            lines.extend(["  - ", error.as_str().unwrap(), "\n"]);
        }
        match lines.find("Invalid YAML in frontmatter:") {
            // The rest of the line is the text of the YAML library.
            Some(at) => assert_eq!(stderr.get(..at), Some(&lines[..at]), "{path}"),
            None if crashes => assert!(stderr.starts_with(&lines), "{path}: {stderr}"),
            None => assert_eq!(stderr, lines, "{path}"),
        }
    }
    assert_eq!(invalid, 42);
}
