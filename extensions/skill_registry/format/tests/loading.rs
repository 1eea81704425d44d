//! Tests of the loading rules, field by field.

use proptest::prelude::*;
use skill_format::{
    AllowedTools, FRONTMATTER_LIMIT, Frontmatter, HeadStatus, ParsedSkill, Severity, find_head,
    parse_head, parse_skill,
};
use yaml_tree::{Scalar, Span, Value, YamlStyle};

const BASE: &str = "name: demo\ndescription: Does a thing.\n";

fn load(yaml: &str) -> ParsedSkill {
    parse_head("demo", format!("---\n{yaml}---\n").as_bytes())
}

fn findings(parsed: &ParsedSkill) -> Vec<String> {
    parsed.diagnostics.iter().map(|d| format!("{}:{} {}", d.line, d.column, d.rule)).collect()
}

fn demo() -> Frontmatter {
    Frontmatter {
        name: Some("demo".to_owned()),
        description: "Does a thing.".to_owned(),
        user_invocable: true,
        ..Frontmatter::default()
    }
}

/// Loads the base with more lines, which start at line 4.
fn check(more: &str, expected: Frontmatter, rules: &[&str]) {
    let parsed = load(&format!("{BASE}{more}"));
    assert_eq!(parsed.frontmatter, Some(expected), "{more}");
    assert_eq!(findings(&parsed), rules, "{more}");
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn standard_field_is_text() {
    check("", demo(), &[]);
    check(
        "license: ' MIT '\ncompatibility: 1.10\n",
        Frontmatter {
            license: Some("MIT".to_owned()),
            compatibility: Some("1.10".to_owned()),
            ..demo()
        },
        &[],
    );
    check("license:\ncompatibility: ''\nmetadata:\nallowed-tools:\n", demo(), &[]);
    check(
        "license: [MIT, BSD]\ncompatibility:\n  - Linux\n  - macOS\n",
        Frontmatter {
            license: Some("[MIT, BSD]".to_owned()),
            compatibility: Some("- Linux\n- macOS".to_owned()),
            ..demo()
        },
        &["4:10 license.type", "6:3 compatibility.type"],
    );
}

#[test]
fn length_limit_counts_characters() {
    let long = |chars: usize| "é".repeat(chars);
    for (field, limit, at) in [("description", 1024, "2:14"), ("compatibility", 500, "2:16")] {
        let with = |chars| load(&format!("{field}: {}\n{}", long(chars), BASE));
        assert_eq!(
            findings(&with(limit)).iter().filter(|found| found.contains("maxLength")).count(),
            0
        );
        assert!(findings(&with(limit + 1)).contains(&format!("{at} {field}.maxLength")), "{field}");
    }
}

#[test]
fn skill_requires_usable_description() {
    let cases: [(&str, Option<&str>, &[&str]); 9] = [
        ("description: x\n", Some("x"), &["1:0 name.required"]),
        ("name:\ndescription: x\n", Some("x"), &["2:1 name.required"]),
        ("name: [x]\ndescription: x\n", Some("x"), &["2:7 name.type"]),
        ("name: demo\ndescription: [beta] \n", Some("[beta]"), &["3:14 description.type"]),
        ("name: demo\ndescription: C # lang\n", Some("C"), &["3:16 description.comment"]),
        ("name: demo\ndescription: '  '\n", None, &["3:1 description.required"]),
        ("name: demo\ndescription:\n- a\n- b\n", None, &["4:1 description.type"]),
        (
            "name: demo\nDescription: x\n",
            None,
            &["1:0 description.required", "3:1 frontmatter.unknownField"],
        ),
        ("", None, &["1:0 name.required", "1:0 description.required"]),
    ];
    for (yaml, description, rules) in cases {
        let parsed = load(yaml);
        let loaded = parsed.frontmatter.as_ref().map(|loaded| loaded.description.as_str());
        assert_eq!(loaded, description, "{yaml}");
        assert_eq!(findings(&parsed), rules, "{yaml}");
    }
}

#[test]
fn structure_is_checked_first() {
    let cases: [(&[u8], &[&str]); 8] = [
        (b"", &["0:0 frontmatter.missing"]),
        (b"\n# Title\n", &["2:1 frontmatter.missing"]),
        (b"----\nname: x\n----\n", &["1:1 frontmatter.missing"]),
        (b"\n---\nname: x\n", &["2:1 frontmatter.unclosed"]),
        (b"---\n- a\n---\n", &["2:1 frontmatter.type"]),
        (b"---\njust words\n---\n", &["2:1 frontmatter.type"]),
        (b"---\n[a\n---\n", &["3:1 frontmatter.yaml"]),
        (b"---\nname: \xE9\n---\n", &["2:0 file.encoding"]),
    ];
    for (bytes, rules) in cases {
        let parsed = parse_head("demo", bytes);
        assert_eq!((parsed.frontmatter.is_none(), findings(&parsed)), (true, texts(rules)));
        assert_eq!(parsed.diagnostics[0].severity, Severity::Error);
        assert!(parsed.diagnostics[0].help.is_some(), "{}", parsed.diagnostics[0]);
    }
    let marked = parse_head("demo", "\u{FEFF}# Title\n".as_bytes());
    assert_eq!(findings(&marked), ["1:1 file.bom", "1:1 frontmatter.missing"]);
    let too_large = format!("---\n{BASE}{}---\n", "# \n".repeat(FRONTMATTER_LIMIT / 3));
    assert_eq!(findings(&parse_head("demo", too_large.as_bytes())), ["1:1 frontmatter.maxSize"]);
}

#[test]
fn allowed_tools_have_three_notations() {
    let tools =
        |list: &[&str]| Frontmatter { allowed_tools: AllowedTools::List(texts(list)), ..demo() };
    check("allowed-tools: Bash(git:*) Read\n", tools(&["Bash(git:*)", "Read"]), &[]);
    check("allowed-tools: Bash(git add:*), Read\n", tools(&["Bash(git add:*)", "Read"]), &[]);
    check(
        "allowed-tools:\n- Bash(git: *)\n- Web Search\n",
        tools(&["Bash(git: *)", "Web Search"]),
        &["5:1 allowed-tools.type", "5:13 frontmatter.recovered"],
    );
    check(
        "allowed-tools: [Bash(git log, git diff), Read]\n",
        tools(&["Bash(git log,git diff)", "Read"]),
        &["4:16 allowed-tools.type"],
    );
    let unparsable = Frontmatter { allowed_tools: AllowedTools::Unparsable, ..demo() };
    check("allowed-tools: Bash(git\n", unparsable.clone(), &["4:16 allowed-tools.format"]);
    check("allowed-tools: {Read: yes}\n", unparsable, &["4:16 allowed-tools.format"]);
    check("allowed-tools: []\n", demo(), &["4:16 allowed-tools.type"]);
}

#[test]
fn metadata_values_stay_as_written() {
    check(
        "metadata:\n  version: 1.10\n  quoted: \"1.10\"\n  on: yes\n  none:\n  bot: {\"a\": [1]}\n  deep:\n    x: y\n    z:\n      - w\n",
        Frontmatter {
            metadata: pairs(&[
                ("version", "1.10"),
                ("quoted", "1.10"),
                ("on", "yes"),
                ("none", ""),
                ("bot", "{\"a\": [1]}"),
                ("deep", "x: y\nz:\n  - w"),
            ]),
            ..demo()
        },
        &[
            "5:12 metadata.valueType",
            "8:7 metadata.valueType",
            "9:8 metadata.valueType",
            "11:5 metadata.valueType",
        ],
    );
    check(
        "metadata: {k: a, k: b}\n",
        Frontmatter { metadata: pairs(&[("k", "a")]), ..demo() },
        &["4:18 frontmatter.duplicateKey"],
    );
    let scalar = Scalar {
        text: "just words".to_owned(),
        style: YamlStyle::Plain,
        span: Span { line: 4, column: 11 },
    };
    check(
        "metadata: just words\n",
        Frontmatter { unknown: vec![("metadata".to_owned(), Value::Scalar(scalar))], ..demo() },
        &["4:11 metadata.type"],
    );
}

#[test]
fn tags_and_requires_merge_with_metadata() {
    let expected = |metadata: &[(&str, &str)]| Frontmatter {
        tags: texts(&["a", "b c"]),
        requires: texts(&["x", "y"]),
        metadata: pairs(metadata),
        ..demo()
    };
    check(
        "metadata:\n  tags: a, b c\n  requires: x,y\n",
        expected(&[("tags", "a, b c"), ("requires", "x,y")]),
        &[],
    );
    let unknown = ["4:1 frontmatter.unknownField", "5:1 frontmatter.unknownField"];
    check("tags: [a, 'b c', a]\nrequires: x, y\n", expected(&[]), &unknown);
    check(
        "tags: [a]\nrequires: x\nmetadata:\n  tags: a,b c\n  requires: [y]\n",
        expected(&[("tags", "a,b c"), ("requires", "[y]")]),
        &[unknown[0], unknown[1], "8:13 metadata.valueType"],
    );
    let parsed = load(&format!("{BASE}requires: {{bins: [jq]}}\ntags: [[a]]\n"));
    assert_eq!(
        findings(&parsed),
        [
            "4:1 frontmatter.unknownField",
            "4:11 requires.type",
            "5:1 frontmatter.unknownField",
            "5:7 tags.type"
        ]
    );
    let frontmatter = parsed.frontmatter.unwrap();
    let kept: Vec<_> = frontmatter.unknown.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        (frontmatter.tags.len(), frontmatter.requires.len(), kept),
        (0, 0, vec!["requires", "tags"])
    );
}

#[test]
fn extension_fields_are_read() {
    let parsed = load(&format!(
        "{BASE}when_to_use: later\ndisable-model-invocation: True\nuser-invocable: no\n\
         argument-hint: [file] [mode]\nversion: 1.10\narguments: [a, b]\n"
    ));
    let frontmatter = parsed.frontmatter.unwrap();
    assert_eq!(
        Frontmatter { arguments: None, ..frontmatter.clone() },
        Frontmatter {
            when_to_use: Some("later".to_owned()),
            disable_model_invocation: true,
            user_invocable: false,
            argument_hint: Some("[file] [mode]".to_owned()),
            version: Some("1.10".to_owned()),
            ..demo()
        }
    );
    let Some(Value::Sequence(arguments)) = frontmatter.arguments else { panic!("no list") };
    let arguments: Vec<_> = arguments.items.iter().filter_map(Value::as_str).collect();
    assert_eq!(arguments, ["a", "b"]);
    check(
        "disable-model-invocation: maybe\nuser-invocable:\n",
        demo(),
        &[
            "4:1 frontmatter.unknownField",
            "4:27 disable-model-invocation.type",
            "5:1 frontmatter.unknownField",
        ],
    );
    check(
        "argument-hint: [file]\n",
        Frontmatter { argument_hint: Some("[file]".to_owned()), ..demo() },
        &["4:1 frontmatter.unknownField"],
    );
}

#[test]
fn misspelled_field_suggests_name() {
    let help = |field: &str| load(&format!("{BASE}{field}: x\n")).diagnostics[0].help.clone();
    assert_eq!(
        help("allowed_tools"),
        Some("rename it to `allowed-tools` if that field is meant".to_owned())
    );
    assert_eq!(help("License"), Some("rename it to `license` if that field is meant".to_owned()));
    assert_eq!(
        help("model"),
        Some(
            "move it under `metadata`, as `skillhost skill fmt --portable` does, or remove it"
                .to_owned()
        )
    );
}

#[test]
fn excess_findings_are_counted() {
    let fields: String = (0..500).map(|n| format!("f{n}: x\n")).collect();
    let parsed = load(&format!("{BASE}{fields}"));
    assert_eq!(parsed.frontmatter.map(|loaded| loaded.unknown.len()), Some(500));
    assert_eq!(parsed.diagnostics.len(), 101);
    assert_eq!(parsed.diagnostics[100].message, "400 more findings are left out");
}

#[test]
fn body_follows_closing_fence() {
    let text =
        "\u{FEFF}---\r\nname: demo\r\ndescription: Does a thing.\r\n---\r\n\r\n# é\r\n---\r\n";
    let skill = parse_skill("demo", text.as_bytes()).unwrap();
    assert_eq!(skill.body(), "\r\n# é\r\n---\r\n");
    assert_eq!(skill.parsed.frontmatter, Some(demo()));
    let HeadStatus::Complete(length) = find_head(text.as_bytes()) else { panic!("not complete") };
    assert_eq!(parse_head("demo", &text.as_bytes()[..length]), skill.parsed);
    let no_skill = parse_skill("demo", b"# Title\n").unwrap();
    assert_eq!((no_skill.body(), &no_skill.parsed.frontmatter), ("# Title\n", &None));
    let undecodable = parse_skill("demo", b"---\nname: x\n---\n\xFF").unwrap_err();
    assert_eq!(findings(&undecodable), ["4:0 file.encoding"]);
}

#[test]
fn head_ignores_body_bytes() {
    let mut bytes = format!("---\n{BASE}---\n").into_bytes();
    let alone = parse_head("demo", &bytes);
    bytes.extend([0xFF, 0xC3, b'\n']);
    assert_eq!(parse_head("demo", &bytes), alone);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        text in "(---[ \r]?\n)?([a-z-]{1,13}: ?[^\n]{0,20}\n){0,6}(---\n)?.{0,20}",
    ) {
        for bytes in [bytes.as_slice(), text.as_bytes()] {
            let parsed = parse_head("demo", bytes);
            let errors = parsed.diagnostics.iter().any(|d| d.severity == Severity::Error);
            prop_assert_eq!(parsed.frontmatter.is_none(), errors);
            if let Ok(skill) = parse_skill("demo", bytes) {
                prop_assert_eq!(&skill.parsed, &parsed);
                prop_assert!(skill.text.ends_with(skill.body()));
            }
            if let HeadStatus::Complete(length) = find_head(bytes) {
                prop_assert_eq!(&parse_head("demo", &bytes[..length]), &parsed);
            }
        }
    }
}
