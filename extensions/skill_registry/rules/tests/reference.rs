//! Profile `reference` compared with the recorded results of skills-ref 0.1.1.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its fixtures has failed")]
#![expect(clippy::disallowed_methods, reason = "the fixtures are on the disk")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value;
use skill_compat::reference::{
    FILE_NAMES, PromptSkill, ReferenceError, ReferenceProperties, format_output,
    load_reference_skill, python_repr, to_prompt, validate_reference,
};
use skill_format::SkillInput;
use skill_rules::{CheckOptions, CheckScope, Profile, check_skill};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures")
}

/// Returns the name and the bytes of a skill's file, as the reference finds it.
fn read(dir: &Path) -> Option<(&'static str, Vec<u8>)> {
    FILE_NAMES.iter().find_map(|name| Some((*name, fs::read(dir.join(name)).ok()?)))
}

/// Returns the messages of the verdict on a directory.
fn verdict(dir: &Path) -> Vec<String> {
    let file = read(dir);
    let input = SkillInput {
        dir_name: dir.file_name().unwrap().to_str().unwrap(),
        file_name: file.as_ref().map(|(name, _)| *name),
        bytes: file.as_ref().map_or(&[], |(_, bytes)| bytes),
        files: None,
    };
    let report = check_skill(
        &input,
        CheckOptions { profile: Profile::Reference, scope: CheckScope::Validate },
    );
    let found: Vec<_> = report.findings.into_iter().map(|found| found.diagnostic).collect();
    assert_eq!(found, validate_reference(&input), "{}", dir.display());
    found.into_iter().map(|found| found.message).collect()
}

fn properties(text: &str) -> Result<ReferenceProperties, ReferenceError> {
    load_reference_skill(text.as_bytes())?.properties()
}

/// Removes the words of the YAML library, which differ from those of the reference.
fn without_library_words(message: &str) -> &str {
    const INVALID: &str = "Invalid YAML in frontmatter:";
    if message.starts_with(INVALID) { INVALID } else { message }
}

fn texts(value: &Value) -> Vec<&str> {
    let list = value.as_array().unwrap();
    list.iter().map(|text| without_library_words(text.as_str().unwrap())).collect()
}

#[test]
fn fixtures_match_reference_output() {
    let root = fixtures().join("skill-fixtures");
    let expected = fs::read_to_string(root.join("expected.jsonl")).unwrap();
    let mut seen = 0;
    for line in expected.lines() {
        seen += 1;
        let line: Value = serde_json::from_str(line).unwrap();
        let (path, expected) = (line["path"].as_str().unwrap(), &line["skills_ref"]);
        let dir = root.join(path);
        let found = verdict(&dir);
        let read = read(&dir).map(|(name, bytes)| {
            let properties = load_reference_skill(&bytes).and_then(|skill| skill.properties());
            (name, properties)
        });
        if !expected["crash"].is_null() {
            let message = "the file is not UTF-8: byte 35 cannot be decoded; the reference \
                           validator crashes here";
            assert_eq!(found, [message], "{path}");
            assert_eq!(read.unwrap().1.unwrap_err().to_string(), message, "{path}");
            continue;
        }
        let found: Vec<&str> = found.iter().map(|text| without_library_words(text)).collect();
        assert_eq!(found, texts(&expected["errors"]), "{path}");
        match read {
            None => {
                let display_path = path.replacen("skills", "$ROOT", 1);
                assert_eq!(expected["read_error"], format!("SKILL.md not found in {display_path}"));
            }
            Some((_, Err(error))) => {
                let read_error = expected["read_error"].as_str().unwrap();
                let (error, read_error) =
                    (error.to_string(), without_library_words(read_error).to_owned());
                assert_eq!(without_library_words(&error), read_error, "{path}");
            }
            Some((name, Ok(properties))) => {
                let json: Value = serde_json::from_str(&properties.to_json().unwrap()).unwrap();
                assert_eq!(json, expected["properties"], "{path}");
                let location = format!("{}/{name}", path.replacen("skills", "$ROOT", 1));
                let block = to_prompt(&[PromptSkill { properties, location }]).unwrap();
                assert_eq!(block, expected["prompt"].as_str().unwrap(), "{path}");
            }
        }
    }
    assert_eq!(seen, 88);
}

#[test]
fn torture_set_matches_reference_verdicts() {
    // Observed with skills-ref 0.1.1.
    let invalid = ["Invalid YAML in frontmatter:"];
    let start = ["SKILL.md must start with YAML frontmatter (---)"];
    let unknown = "Unexpected fields in frontmatter: ";
    let root = fixtures().join("parser-torture");
    for (case, expected) in [
        ("alias-bomb", &invalid[..]),
        ("bom", &start),
        ("colon", &invalid),
        ("crlf", &[]),
        ("dashes-value", &[]),
        ("dup-key", &invalid),
        ("eof-fence", &[]),
        ("folded", &[]),
        ("hr-body", &[]),
        ("lead-nl", &start),
        ("list-tools", &[]),
        ("nodesc", &["Missing required field in frontmatter: description"]),
        ("num-name", &["Directory name 'num-name' must match skill name '123'"]),
        ("plain", &[]),
        ("tab-indent", &invalid),
        ("trail-ws", &[]),
        ("uni-na\u{ef}ve", &[]),
        ("unknown", &[unknown]),
        (
            "utf16",
            &[
                "the file is not UTF-8: byte 0 cannot be decoded; the reference validator crashes here",
            ],
        ),
        ("yaml-null", &[]),
    ] {
        let found = verdict(&root.join(case));
        let found: Vec<&str> = found
            .iter()
            .map(
                |text| {
                    if text.starts_with(unknown) { unknown } else { without_library_words(text) }
                },
            )
            .collect();
        assert_eq!(found, expected, "{case}");
    }
}

/// Returns the properties of a skill with this frontmatter after name and description, as JSON.
fn json(yaml: &str) -> String {
    let text = format!("---\nname: n\ndescription: d\n{yaml}\n---\n");
    properties(&text).and_then(|read| read.to_json()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn properties_match_python_json() {
    let head = "{\n  \"name\": \"n\",\n  \"description\": \"d\"";
    for (yaml, json_behind) in [
        ("license:", ",\n  \"license\": \"\""),
        (
            "license:\n- MIT\n- a: b",
            ",\n  \"license\": [\n    \"MIT\",\n    {\n      \"a\": \"b\"\n    }\n  ]",
        ),
        (
            "compatibility: \"\u{e9} \u{1f389} \\t \\b \\x7f \\\"\"",
            ",\n  \"compatibility\": \"\\u00e9 \\ud83c\\udf89 \\t \\b \\u007f \\\"\"",
        ),
        ("license: \"\\ud83d\\ude00 \\ud800\"", ",\n  \"license\": \"\\ud83d\\ude00 \\ud800\""),
        ("metadata:", ""),
        ("metadata: text", ",\n  \"metadata\": \"text\""),
        (
            "metadata:\n  a:\n    team: beads\n    l:\n    - it's\n    - \"\\\"\\n\\u202e'\"",
            ",\n  \"metadata\": {\n    \"a\": \"{'team': 'beads', 'l': [\\\"it's\\\", '\\\"\\\\n\\\\u202e\\\\'']}\"\n  }",
        ),
        (
            "metadata:\n  v: 1.10\n  on: yes\n  n: ~\n  =: =",
            ",\n  \"metadata\": {\n    \"v\": \"1.10\",\n    \"on\": \"yes\",\n    \"n\": \"~\",\n    \"=\": \"=\"\n  }",
        ),
        (
            "metadata:\n  <<:\n    a: b\n    c: x\n  c: d",
            ",\n  \"metadata\": {\n    \"c\": \"d\",\n    \"a\": \"b\"\n  }",
        ),
        ("<<:\n  license: MIT", ""),
        ("license: \"a\nb\n\n\\\n  c\"", ",\n  \"license\": \"a b\\nc\""),
        ("license: >-\n   a\n   b\n\n     c", ",\n  \"license\": \"a b\\n\\n  c\""),
        ("license: |2+\n    a\n\n", ",\n  \"license\": \"  a\\n\\n\\n\""),
        ("license: a # b", ",\n  \"license\": \"a\""),
        ("? license\n: a\n", ",\n  \"license\": \"a\""),
    ] {
        assert_eq!(json(yaml), format!("{head}{json_behind}\n}}"), "{yaml}");
    }
}

#[test]
fn rejected_yaml_has_position() {
    for (yaml, expected) in [
        (
            "a: [b]",
            "found disallowed flow style (surround the text with quotes, or write one item per line) (line 4, column 4)",
        ),
        ("a: &b c", "found a disallowed anchor (surround the text with quotes) (line 4, column 4)"),
        ("a: *b", "found a disallowed alias (surround the text with quotes) (line 4, column 4)"),
        ("a: !!str c", "found a disallowed tag (do not specify types) (line 4, column 4)"),
        ("%YAML 1.1", "directives are not allowed (line 4, column 1)"),
        ("a: b: c", "mapping values are not allowed here (line 4, column 5)"),
        ("a: b\na: c", "duplicate key 'a' found (line 5, column 1)"),
        ("a:\n\tb: c", "found a tab that cannot start any token (line 5, column 1)"),
        ("a: \"b", "the quoted text that starts here has no end (line 4, column 4)"),
        ("a: \"\\q\"", "found unknown escape character 'q' (line 4, column 6)"),
        (
            "a:\n  b:\n    c: d\n  e:\n     f: g",
            "found mapping with indentation inconsistent with previous mapping (line 8, column 6)",
        ),
        (
            "a:\n   b: c\n  d: e",
            "the indentation does not match the surrounding lines (line 6, column 3)",
        ),
        ("...\na: b", "expected a single document, but found another one (line 5, column 1)"),
        ("<<: a", "expected a mapping or list of mappings for merging (line 2, column 1)"),
        ("word\nb: c", "could not find expected ':' (line 4, column 1)"),
        ("? - a\n: b", "a list or a map cannot be a key (line 4, column 3)"),
    ] {
        assert_eq!(json(yaml), format!("Invalid YAML in frontmatter: {expected}"), "{yaml}");
    }
}

#[test]
fn reference_crash_becomes_error() {
    for (yaml, expected) in [
        ("a: \u{7}", "unacceptable character #x0007: special characters are not allowed"),
        ("a: \"\\U00110000\"", "there is no character with the code 110000"),
        ("a:\n  <<:\n    b: c\n  <<:\n    d: e", "found duplicate key '<<'"),
        ("license: =", "a plain `=` or `<<` is not text for it and cannot be written as JSON"),
        ("# c\na:\n  # d\n  | # e\n  f", "two comments claim the same place"),
    ] {
        assert_eq!(
            json(yaml),
            format!("{expected}; the reference validator crashes here"),
            "{yaml}"
        );
    }
    let deep = format!("a:\n  {}b", "- ".repeat(30_000));
    assert!(json(&deep).starts_with("collections lie too deep in each other"));
    let half = properties("---\nname: \"\\ud800\"\ndescription: d\n---").unwrap();
    let prompt = to_prompt(&[PromptSkill { properties: half, location: String::new() }]);
    assert_eq!(
        prompt.unwrap_err().to_string(),
        "a half of a UTF-16 pair cannot be printed; the reference validator crashes here"
    );
}

/// Returns the findings about a file in `dir`: rule, line, column, message.
fn found(dir: &str, text: &str) -> Vec<(&'static str, u32, u32, String)> {
    let (bytes, file_name) = (text.as_bytes(), Some("SKILL.md"));
    let found = validate_reference(&SkillInput { dir_name: dir, file_name, bytes, files: None });
    found.into_iter().map(|it| (it.rule, it.line, it.column, it.message)).collect()
}

#[test]
fn findings_have_rule_and_position() {
    let long = "x".repeat(501);
    let text = format!(
        "---\nzeta: 1\nname: ' A--\u{fb01}_'\ncompatibility: {long}\nalpha: 2\ndescription: ' '\n---\n"
    );
    let unknown = "Unexpected fields in frontmatter: alpha, zeta. Only ['allowed-tools', \
                   'compatibility', 'description', 'license', 'metadata', 'name'] are allowed.";
    let invalid = "Skill name 'A--fi_' contains invalid characters. Only letters, digits, and \
                   hyphens are allowed.";
    let expected = [
        ("frontmatter.unknownField", 2, 1, unknown),
        ("name.format", 3, 7, "Skill name 'A--fi_' must be lowercase"),
        ("name.format", 3, 7, "Skill name cannot contain consecutive hyphens"),
        ("name.format", 3, 7, invalid),
        ("name.matchesDirectory", 3, 7, "Directory name 'a' must match skill name 'A--fi_'"),
        ("description.required", 6, 14, "Field 'description' must be a non-empty string"),
        ("compatibility.maxLength", 4, 16, "Compatibility exceeds 500 character limit (501 chars)"),
    ];
    assert_eq!(found("a", &text), expected.map(|(a, b, c, text)| (a, b, c, text.to_owned())));
    let types = "---name:\n- a\ndescription:\n  a: b\ncompatibility:\n- c\n---";
    let rules: Vec<_> = found("a", types).into_iter().map(|it| (it.0, it.1, it.2)).collect();
    assert_eq!(
        rules,
        [("name.type", 2, 1), ("description.type", 4, 3), ("compatibility.type", 6, 1)]
    );
    // The reference compares after normalization and prints the directory's name unchanged.
    assert_eq!(found("\u{fb01}n", "---\nname: fin\ndescription: d\n---"), []);
    assert_eq!(
        found("\u{fb01}", "---\nname: fin\ndescription: d\n---")[0].3,
        "Directory name '\u{fb01}' must match skill name 'fin'"
    );
}

#[test]
fn output_lines_match_reference() {
    let input =
        |bytes| SkillInput { dir_name: "a", file_name: Some("skill.md"), bytes, files: None };
    let valid =
        format_output("x/a", &validate_reference(&input(b"---\nname: a\ndescription: d\n---")));
    assert_eq!((&*valid.stdout, &*valid.stderr), ("Valid skill: x/a\n", ""));
    let invalid = format_output("x/a", &validate_reference(&input(b"---\nlicense: MIT\n---")));
    assert_eq!(invalid.stdout, "");
    assert_eq!(
        invalid.stderr,
        "Validation failed for x/a:\n  - Missing required field in frontmatter: name\n  \
         - Missing required field in frontmatter: description\n"
    );
    let other = SkillInput { file_name: Some("Skill.md"), ..input(b"") };
    assert_eq!(validate_reference(&other)[0].message, "Missing required file: SKILL.md");
}

#[test]
fn texts_are_quoted_like_python() {
    for (text, expected) in [
        ("a b", "'a b'"),
        ("it's", "\"it's\""),
        ("'\"", "'\\'\"'"),
        ("\t\r\n\\", "'\\t\\r\\n\\\\'"),
        ("\u{7f}\u{a0}\u{2028}\u{e0041}\u{e9}", "'\\x7f\\xa0\\u2028\\U000e0041\u{e9}'"),
    ] {
        assert_eq!(python_repr(text), expected);
    }
}

#[test]
fn prompt_escapes_all_but_location() {
    let properties = properties("---\nname: <a&b>\ndescription: ' \"it''s\" '\n---").unwrap();
    let block = to_prompt(&[PromptSkill { properties, location: "/a&b/SKILL.md".to_owned() }]);
    let expected = "<available_skills>\n<skill>\n<name>\n&lt;a&amp;b&gt;\n</name>\n<description>\n\
                    &quot;it&#x27;s&quot;\n</description>\n<location>\n/a&b/SKILL.md\n</location>\n\
                    </skill>\n</available_skills>";
    assert_eq!(block.unwrap(), expected);
}

proptest! {
    #[test]
    fn random_text_does_not_panic(
        words in prop::collection::vec(
            prop_oneof![
                2 => any::<String>(),
                8 => prop::sample::select(vec![
                    "\n", "\n  ", "  ", "- ", ": ", "? ", "#c", "\"", "'", "|", ">-", "|2", "\\",
                    "a", "key:", "\t", "...", "<<:", "\r", "\u{85}", "\u{feff}", "\\ud800", "=",
                ]).prop_map(str::to_owned),
            ],
            0..40,
        ),
    ) {
        let text = format!("---\nname: n\ndescription: d\n{}\n---\n", words.concat());
        let messages = found("n", &text);
        match properties(&text) {
            Ok(properties) => {
                if let Ok(json) = properties.to_json() {
                    prop_assert!(json.is_ascii());
                }
                let location = String::new();
                let _ = to_prompt(&[PromptSkill { properties, location }]);
            }
            Err(error) => prop_assert!(!messages.is_empty(), "{}", error),
        }
    }
}
