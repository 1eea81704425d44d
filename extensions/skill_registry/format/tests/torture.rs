//! Tests with the parser torture set: twenty SKILL.md, each with one construct that breaks parsers.

use skill_format::{
    AllowedTools, Frontmatter, HeadStatus, Severity, find_head, parse_head, parse_skill,
};
use yaml_tree::{Scalar, Span, Value, YamlStyle};

macro_rules! cases {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(
            concat!("../../../../tests/fixtures/parser-torture/", $name, "/SKILL.md")
        ).as_slice())),*]
    };
}

const CASES: [(&str, &[u8]); 20] = cases![
    "alias-bomb",
    "bom",
    "colon",
    "crlf",
    "dashes-value",
    "dup-key",
    "eof-fence",
    "folded",
    "hr-body",
    "lead-nl",
    "list-tools",
    "nodesc",
    "num-name",
    "plain",
    "tab-indent",
    "trail-ws",
    "uni-naïve",
    "unknown",
    "utf16",
    "yaml-null",
];

/// Returns the frontmatter that most of the cases have.
fn skill(name: &str) -> Frontmatter {
    Frontmatter {
        name: Some(name.to_owned()),
        description: "Does a thing. Use when asked.".to_owned(),
        user_invocable: true,
        ..Frontmatter::default()
    }
}

fn described(name: &str, description: &str) -> Frontmatter {
    Frontmatter { description: description.to_owned(), ..skill(name) }
}

fn field(name: &str, text: &str, style: YamlStyle, line: u32, column: u32) -> (String, Value) {
    let span = Span { line, column };
    (name.to_owned(), Value::Scalar(Scalar { text: text.to_owned(), style, span }))
}

/// The loaded frontmatter, the findings as `line:rule`, and the body.
type Expected = (Option<Frontmatter>, &'static [&'static str], &'static str);

fn expected(name: &str) -> Expected {
    let plain = "\nBody\n";
    match name {
        "alias-bomb" => (
            Some(Frontmatter {
                metadata: vec![("k".to_owned(), "*a".to_owned())],
                ..described(name, "x")
            }),
            &["3:frontmatter.anchor", "5:frontmatter.alias"],
            "B\n",
        ),
        "bom" => (Some(skill(name)), &["1:file.bom"], plain),
        "colon" => (
            Some(described(name, "Use when: the user says hi")),
            &["3:frontmatter.recovered"],
            plain,
        ),
        "crlf" => (Some(skill(name)), &[], "\r\nBody\r\n"),
        "dashes-value" => (Some(described(name, "Rows a---b are split")), &[], plain),
        "dup-key" => (Some(skill(name)), &["4:frontmatter.duplicateKey"], plain),
        "eof-fence" => (Some(described(name, "No newline after fence")), &[], ""),
        "folded" => (Some(described(name, "Line one line two")), &[], "Body\n"),
        "hr-body" => (Some(skill(name)), &[], "\nintro\n\n---\n\nafter rule\n"),
        "lead-nl" => (Some(skill(name)), &["1:frontmatter.leadingBlank"], plain),
        "list-tools" => (
            Some(Frontmatter {
                allowed_tools: AllowedTools::List(vec!["Read".to_owned(), "Bash".to_owned()]),
                ..skill(name)
            }),
            &["5:allowed-tools.type"],
            plain,
        ),
        "nodesc" => (None, &["1:description.required"], "Body\n"),
        "num-name" => (
            Some(Frontmatter { name: Some("123".to_owned()), ..described(name, "456") }),
            &["2:name.matchesDirectory"],
            "Body\n",
        ),
        "plain" => (Some(skill(name)), &[], plain),
        "tab-indent" => (
            Some(Frontmatter {
                unknown: vec![field("metadata", "author: me", YamlStyle::Raw, 4, 10)],
                ..described(name, "ok desc")
            }),
            &["5:frontmatter.recovered"],
            "B\n",
        ),
        "trail-ws" => (
            Some(described(name, "Trailing blanks on fence")),
            &["1:frontmatter.fenceWhitespace", "4:frontmatter.fenceWhitespace"],
            "Body\n",
        ),
        "uni-naïve" => (Some(described(name, "ok desc here")), &["2:name.portability"], "B\n"),
        "unknown" => (
            Some(Frontmatter {
                when_to_use: Some("later".to_owned()),
                unknown: vec![field("model", "fast", YamlStyle::Plain, 4, 8)],
                ..skill(name)
            }),
            &["4:frontmatter.unknownField", "5:frontmatter.unknownField"],
            plain,
        ),
        "utf16" => (Some(skill(name)), &["0:file.encoding"], plain),
        "yaml-null" => (Some(skill(name)), &[], plain),
        other => panic!("no expectation for {other}"),
    }
}

#[test]
fn lenient_loader_matches_table() {
    for (name, bytes) in CASES {
        let (frontmatter, findings, body) = expected(name);
        let Ok(skill) = parse_skill(name, bytes) else { panic!("{name} cannot be decoded") };
        assert_eq!(skill.parsed.frontmatter, frontmatter, "{name}");
        let found: Vec<_> =
            skill.parsed.diagnostics.iter().map(|d| format!("{}:{}", d.line, d.rule)).collect();
        assert_eq!(found, findings, "{name}");
        assert_eq!(skill.body(), body, "{name}");
        let errors =
            skill.parsed.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
        assert_eq!(errors > 0, frontmatter.is_none(), "{name}");
    }
}

#[test]
fn recovered_field_has_help() {
    for (name, field) in [("colon", "`description`"), ("tab-indent", "`metadata`")] {
        let Some((_, bytes)) = CASES.iter().find(|(case, _)| *case == name) else {
            panic!("no case {name}");
        };
        let parsed = parse_head(name, bytes);
        let [found] = &parsed.diagnostics[..] else { panic!("{:?}", parsed.diagnostics) };
        assert_eq!(
            (found.severity, found.message.contains(field), found.help.is_some()),
            (Severity::Warning, true, true),
            "{found}"
        );
    }
}

#[test]
fn head_matches_complete_file() {
    for (name, bytes) in CASES {
        let Ok(full) = parse_skill(name, bytes) else { panic!("{name} cannot be decoded") };
        assert_eq!(parse_head(name, bytes), full.parsed, "{name}");
        if let HeadStatus::Complete(length) = find_head(bytes) {
            assert_eq!(parse_head(name, &bytes[..length]), full.parsed, "{name}");
        } else {
            assert!(["eof-fence", "utf16"].contains(&name), "{name}");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "only the library must not touch files")]
fn every_fixture_has_case() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/fixtures/parser-torture");
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    names.sort_unstable();
    assert_eq!(names, CASES.map(|(name, _)| name));
}
