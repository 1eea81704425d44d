//! Tests of the canonical form of a frontmatter: examples and properties.

use proptest::prelude::*;
use skill_format::find_fences;
use skill_format::tree::parse_frontmatter;
use skill_rules::fmt::{FmtErrorKind, FmtOptions, FormattedSkill, format_skill};
use yaml_tree::{Mapping, MappingEntry, Value, YamlStyle};

const PORTABLE: FmtOptions = FmtOptions { portable: true };

fn formatted(text: &str, options: FmtOptions) -> FormattedSkill {
    format_skill(text, options).unwrap_or_else(|error| panic!("{}: {error}\n{text}", error.line))
}

/// Formats a frontmatter between fences and returns the text between them.
fn format_yaml(yaml: &str, options: FmtOptions) -> String {
    let text = formatted(&format!("---\n{yaml}---\nBody\n"), options).text;
    let again = formatted(&text, options);
    assert_eq!((again.text.as_str(), again.changed), (text.as_str(), false));
    let inner = text.strip_prefix("---\n").and_then(|rest| rest.strip_suffix("---\nBody\n"));
    inner.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[track_caller]
fn assert_formatted(before: &str, after: &str) {
    assert_eq!(format_yaml(before, FmtOptions::default()), after, "{before}");
}

#[test]
fn canonical_form_is_unchanged() {
    let text = "---\n# header\n\nname: x\ndescription: >-\n  One\n  two\nmetadata:\n  # why\n  \
                a: \"1.0\" # text\n  json: {\"b\": [\"c\"]}\n  list:\n    - p\n    - q: r\n      \
                s: t\n\n  # tail\nother: |\n  lit\n   more\n# foot\n---\n\r\nBody\r\n---\n";
    assert_eq!(
        formatted(text, FmtOptions::default()),
        FormattedSkill { text: text.to_owned(), changed: false, left: Vec::new() }
    );
}

#[test]
fn fences_and_line_ends_are_normalized() {
    for (before, after) in [
        ("\r\n \n---  \r\nname: x\r\n---\t\r\n\r\nbody  \r\n", "---\nname: x\n---\n\r\nbody  \r\n"),
        ("---\nname: x\n---", "---\nname: x\n---\n"),
        ("---\n---\n# not a comment", "---\n---\n# not a comment"),
        ("---\n\n# why\n\n\n---\nx", "---\n# why\n---\nx"),
        ("---\nname: x\n---\n\u{feff}---\n", "---\nname: x\n---\n\u{feff}---\n"),
    ] {
        assert_eq!(formatted(before, FmtOptions::default()).text, after, "{before:?}");
    }
}

#[test]
fn fields_are_sorted_without_nested_order() {
    assert_formatted(
        "z: 1\nmetadata:\n  b: x\n  a: y\nname: n\na: 2\ndescription: d\nallowed-tools: t\n\
         compatibility: c\nlicense: l\n",
        "name: n\ndescription: d\nlicense: l\ncompatibility: c\nallowed-tools: t\n\
         metadata:\n  b: x\n  a: y\nz: 1\na: 2\n",
    );
}

#[test]
fn quotes_are_minimal() {
    assert_formatted("a: 'x y'\n", "a: x y\n");
    assert_formatted("a: \"it's\"\nb: 'say \"hi\"'\n", "a: it's\nb: say \"hi\"\n");
    assert_formatted("a: 'x: y'\nb: \"# x\"\n", "a: \"x: y\"\nb: \"# x\"\n");
    assert_formatted("a: 'it''s: x'\nb: \"\\\"q\\\": x\"\n", "a: \"it's: x\"\nb: '\"q\": x'\n");
    assert_formatted(
        "\"key one\": x\n'on': y\n",
        "key one: x\n'on': y\n".replace('\'', "\"").as_str(),
    );
    assert_formatted(
        "a: \"one\\ntwo\"\nb: \"\\u00e9\\u200b\"\n",
        "a: \"one\\ntwo\"\nb: \"é\\u200B\"\n",
    );
}

#[test]
fn value_types_are_preserved() {
    for text in [
        "1.10",
        "1",
        "-3",
        "1e3",
        ".5",
        "0x1F",
        "0o17",
        "1_000",
        "12:30:45",
        "2024-01-15",
        "true",
        "False",
        "yes",
        "No",
        "on",
        "OFF",
        "y",
        "null",
        "~",
        ".inf",
        "-.INF",
        ".nan",
        "=",
        "<<",
        "2001-12-14t21:59:43.10-05:00",
    ] {
        assert_formatted(&format!("a: {text}\n"), &format!("a: {text}\n"));
        assert_formatted(&format!("a: '{text}'\n"), &format!("a: \"{text}\"\n"));
    }
    assert_formatted("a:\nb: \"\"\nc: ''\n", "a:\nb: \"\"\nc: \"\"\n");
    assert_formatted("a: '1.0 or so, roughly'\n", "a: 1.0 or so, roughly\n");
}

#[test]
fn texts_keep_line_breaks() {
    assert_formatted("a: one\n  two\n\n  three\n", "a: >-\n  one\n  two\n\n  three\n");
    assert_formatted(
        "a: \"one: x\n  two\"\nb: 'it''s\n  x'\n",
        "a: >-\n  one: x\n  two\nb: >-\n  it's\n  x\n",
    );
    assert_formatted("a:\n    one\n", "a: one\n");
    assert_formatted(
        "a: |2\n     x\n    y\nb: >+\n    z\n\n\nc: d\n",
        "a: |2\n     x\n    y\nb: >+\n  z\n\n\nc: d\n",
    );
    assert_formatted("a: >\n      x\n       y\n\n\nb: c\n", "a: >\n  x\n   y\n\nb: c\n");
}

#[test]
fn blank_lines_stay_outside_texts() {
    assert_formatted(
        "name: x\n\nz: y\ndescription: |+\n  t\n",
        "name: x\ndescription: |+\n  t\nz: y\n",
    );
    assert_formatted(
        "name: x\n\n# c\n\nz: y\ndescription: |+\n  t\n",
        "name: x\ndescription: |+\n  t\n# c\n\nz: y\n",
    );
    assert_formatted("a: |+\n\n\nb: |\n", "a: \"\\n\\n\"\nb: \"\"\n");
}

#[test]
fn collections_are_indented_and_brackets_kept() {
    assert_formatted(
        "a:\n- x\n-   b: 1\n    c:\n         - d\n- - e\n  - f\nm:\n      k: 'v'\n",
        "a:\n  - x\n  - b: 1\n    c:\n      - d\n  - - e\n    - f\nm:\n  k: v\n",
    );
    assert_formatted("a:   [ x,'y' ]   # c\n", "a: [ x,'y' ] # c\n");
    assert_formatted(
        "m:\n    a:\n      {\n        \"b\": 1, # in\n      }\n",
        "m:\n  a:\n    {\n      \"b\": 1, # in\n    }\n",
    );
    assert_formatted(
        "{name: x, description: 'y: z', t: [a, b]}\n",
        "name: x\ndescription: \"y: z\"\nt: [a, b]\n",
    );
}

#[test]
fn comments_stay_with_their_fields() {
    assert_formatted(
        "# about b\nb: 1   #behind b\n\n\n# about name\n# two\nname: >- # header\n  x\n# end\n",
        "# about name\n# two\nname: >- # header\n  x\n# about b\nb: 1 #behind b\n# end\n",
    );
    assert_formatted(
        "# skillhost: allow(x)\n\nb: 1\nname: n # skillhost: allow(y)\n",
        "# skillhost: allow(x)\n\nname: n # skillhost: allow(y)\nb: 1\n",
    );
    assert_formatted(
        "l: # why\n- a # x\n# about b\n- # dash\n  b: 1\n  # in b\n  c: 2\nm:\n  k:\n  # above v\n    v # v\n  # tail\n",
        "l: # why\n  - a # x\n  # about b\n  # dash\n  - b: 1\n    # in b\n    c: 2\nm:\n  # above v\n  k: v # v\n  # tail\n",
    );
    assert_formatted(
        "a: |\n  # text\n # comment\nb: \"x # text\" # comment 2\n",
        "a: |\n  # text\n# comment\nb: \"x # text\" # comment 2\n",
    );
}

#[test]
fn invalid_yaml_becomes_recovered_text() {
    assert_formatted(
        "description: Use when: asked\n  or told # x\n# why\nname:x\nlicense: \"a\" b\n",
        "# why\nname: x\ndescription: >-\n  Use when: asked\n  or told # x\nlicense: '\"a\" b'\n",
    );
    assert_formatted(
        "metadata:\n\tauthor: me\n\tb: c\nname: x\n",
        "name: x\nmetadata: |-\n  author: me\n  b: c\n",
    );
    assert_formatted(
        "a: \"one\nNote: two\"\nb: `x`\nc: {x\n",
        "a: >-\n  one\n  Note: two\nb: \"`x`\"\nc: \"{x\"\n",
    );
    assert_formatted("name:true\ndescription:1.0\n", "name: \"true\"\ndescription: \"1.0\"\n");
}

#[test]
fn unsafe_input_is_rejected_with_line() {
    let deep = format!("a: {}{}\n", "[".repeat(20), "]".repeat(20));
    for (yaml, line, message) in [
        ("a: 1\nb: &x y\n", 3, "the anchor `&x` is ignored, and other readers"),
        ("a: !!str x\n", 2, "the tag `!!str` is ignored"),
        ("a: 1\nb: 2\na: 3\n", 4, "duplicate key `a`"),
        ("a: {b: 1, b: 2}\n", 2, "duplicate key `b`"),
        ("a: {{x}}\n", 2, "a list or map as a key"),
        ("a: 1\n...\nb: 2\n", 2, "several YAML documents"),
        ("- a\n", 2, "not a list of `key: value` lines"),
        ("[a\n", 3, "not YAML"),
        ("stray\na: b: c\n", 2, "text without a field"),
        (deep.as_str(), 2, "over a limit"),
        ("a: 1\nb: x\ry\n", 3, "carriage return"),
        ("a: x\0y\n", 2, "NUL"),
    ] {
        let error = format_skill(&format!("---\n{yaml}---\n"), FmtOptions::default()).unwrap_err();
        assert_eq!(error.line, line, "{yaml} {error}");
        assert!(error.to_string().contains(message), "{error}");
        assert_ne!(error.reason, FmtErrorKind::Inexact);
    }
    for (text, line, message) in [
        ("", 0, "the file is empty"),
        ("# Title\n", 1, "does not start with `---`"),
        ("\n---\na: 1\n", 2, "no closing line"),
    ] {
        let error = format_skill(text, FmtOptions::default()).unwrap_err();
        assert_eq!((error.line, error.to_string().contains(message)), (line, true), "{error}");
    }
}

#[test]
fn portable_moves_nonstandard_fields() {
    let before = "tags:\n- a # one\n- b\nversion: 1.10\nname: x\n# who\nrequires: [c, d]\n\
                  disable-model-invocation: true\nargument-hint: [file]\nhooks:\n  on: [{run: x, n: 1}]\n\
                  when_to_use: >-\n  one\n  two\n";
    let after = "name: x\nmetadata:\n  # one\n  tags: a, b\n  version: \"1.10\"\n  # who\n  \
                 requires: c, d\n  argument-hint: \"[file]\"\n  hooks: '{\"on\": [{\"run\": \"x\", \
                 \"n\": 1}]}'\n  when_to_use: >-\n    one\n    two\ndisable-model-invocation: true\n";
    assert_eq!(format_yaml(before, PORTABLE), after);
    let text = format!("---\n{before}---\n");
    assert_eq!(formatted(&text, PORTABLE).left, ["disable-model-invocation"]);
    assert_eq!(
        format_yaml("metadata: {a: b, tags: \"x, y\"} # m\ntags: [x, y]\nz: 1\n", PORTABLE),
        "metadata:\n  a: b\n  tags: x, y # m\n  z: \"1\"\n"
    );
    assert_eq!(format_yaml("metadata:\nz: q\n", PORTABLE), "metadata:\n  z: q\n");
}

#[test]
fn portable_never_overwrites() {
    for (yaml, reason) in [
        ("metadata:\n  tags: x\ntags: [y]\n", FmtErrorKind::Taken { key: "tags".to_owned() }),
        ("metadata: text\nz: 1\n", FmtErrorKind::MetadataNotMap),
    ] {
        let error = format_skill(&format!("---\n{yaml}---\n"), PORTABLE).unwrap_err();
        assert_eq!(error.reason, reason);
    }
}

const KEYS: [&str; 9] =
    ["name", "description", "license", "metadata", "tags", "version", "x-one", "two words", "'on'"];

/// A strategy for a value in some style, as written after its key, with the numbers of its
/// comments.
fn value() -> impl Strategy<Value = String> {
    let text = "[a-z][a-zé0-9 ',.()/-]{0,18}[a-z.]";
    let lines = proptest::collection::vec(text, 2..5);
    let quoted = "[-a-z0-9 :#,\\[\\]{}&*!|>%@`.?=~<é]{0,24}";
    prop_oneof![
        text.prop_map(|text| format!(" {text}")),
        "(1\\.10|true|null|~|2024-01-15|on|0x1F|)".prop_map(|text| format!("   {text}")),
        "(1\\.10|true|null|~|2024-01-15|on|0x1F|)".prop_map(|text| format!(" '{text}'")),
        quoted.prop_map(|text| format!(" \"{text}\"")),
        quoted.prop_map(|text| format!(" '{text}'  ")),
        lines.clone().prop_map(|lines| format!(" {}", lines.join("\n    "))),
        lines.clone().prop_map(|lines| format!(" \"{}\"", lines.join("\n\n   "))),
        (lines.clone(), "[|>][-+]?", 1..5_usize).prop_map(|(lines, header, indent)| {
            let indent = format!("\n{}", " ".repeat(indent));
            format!(" {header}{indent}{}", lines.join(&indent))
        }),
        lines.clone().prop_map(|lines| format!("\n- \"{}\"", lines.join("\"\n- \""))),
        lines
            .clone()
            .prop_map(|lines| format!("\n   k: [a,'b']\n   l: '{}'", lines[0].replace('\'', ""))),
        lines.prop_map(|lines| format!(
            "\n  - k: {}\n    m:\n     - |\n         # {}",
            lines[0], lines[1]
        )),
        Just(" {\"a\": [\"b\", 1],\n     \"c\": 2}".to_owned()),
    ]
}

/// A field: key, value, and whether it has a comment above it, a comment after it, and a blank
/// line above it.
type Field = (usize, String, bool, bool, bool);

fn fields() -> impl Strategy<Value = Vec<Field>> {
    let field = (0..KEYS.len(), value(), any::<bool>(), any::<bool>(), any::<bool>());
    proptest::collection::vec(field, 0..7).prop_map(|mut fields| {
        let mut seen = [false; KEYS.len()];
        fields.retain(|field| !std::mem::replace(&mut seen[field.0], true));
        fields
    })
}

fn written(fields: &[Field], newline: &str) -> String {
    let mut text = String::new();
    for (number, (key, value, above, behind, blank)) in fields.iter().enumerate() {
        if *blank {
            text.push_str("  \n");
        }
        if *above {
            text.push_str(&format!("#above {number}.\n"));
        }
        let one_line = !value.contains('\n');
        let behind =
            if *behind && one_line { format!("   #behind {number}.") } else { String::new() };
        text.push_str(&format!("{}:{value}{behind}\n", KEYS[*key]));
    }
    text.replace('\n', newline)
}

fn root(text: &str) -> Mapping {
    let fences = find_fences(text).expect("the text was made with fences");
    match parse_frontmatter(&text[fences.yaml], 2).root {
        Value::Mapping(root) => root,
        other => panic!("{other:?}"),
    }
}

fn by_key(mut root: Mapping) -> Mapping {
    root.entries.sort_by(|a, b| a.key.text.cmp(&b.key.text));
    root
}

/// Returns keys and values that have another type in YAML without quotes, and whether they are
/// quoted.
fn typed(root: &Mapping) -> Vec<(String, bool)> {
    let words = ["1.10", "true", "null", "~", "2024-01-15", "on", "0x1F", ""];
    let texts = |entry: &MappingEntry| {
        let value = match &entry.value {
            Value::Scalar(scalar) => Some(scalar.clone()),
            Value::Sequence(_) | Value::Mapping(_) => None,
        };
        [Some(entry.key.clone()), value].into_iter().flatten()
    };
    let texts = root.entries.iter().flat_map(texts);
    let typed = texts.filter(|scalar| words.contains(&scalar.text.as_str()));
    typed.map(|scalar| (scalar.text, scalar.style == YamlStyle::Plain)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn formatting_preserves_content(
        fields in fields(),
        crlf in any::<bool>(),
        body in "(---\n|x\r\n|# y\n|\u{feff}| ){0,5}",
    ) {
        let newline = if crlf { "\r\n" } else { "\n" };
        let text = format!("---{newline}{}--- {newline}{body}", written(&fields, newline));
        let result = formatted(&text, FmtOptions::default()).text;
        let again = formatted(&result, FmtOptions::default());
        prop_assert!(!again.changed, "{text}\n{result}\n{}", again.text);
        let (before, after) = (by_key(root(&text)), by_key(root(&result)));
        prop_assert!(before.same_content(&after), "{text}\n{result}");
        prop_assert_eq!(typed(&before), typed(&after), "{}\n{}", text, result);
        let body_kept = result.ends_with(&format!("\n---\n{body}"));
        prop_assert!(body_kept || result == format!("---\n---\n{body}"), "{}", result);
        let lines: Vec<&str> = result.lines().collect();
        for (number, (key, value, above, behind, _)) in fields.iter().enumerate() {
            let plain_key = KEYS[*key].trim_matches('\'');
            let is_key = |line: &str| line.trim_matches('"').replace("\":", ":").starts_with(&format!("{plain_key}:"));
            let at = |comment: &str| lines.iter().filter(|line| line.contains(comment)).count();
            if *above {
                let comment = format!("#above {number}.");
                prop_assert_eq!(at(&comment), 1, "{}", result);
                let is_header = number == 0;
                let mut below = lines.iter().skip_while(|line| !line.contains(&comment));
                let next = below.find(|line| !line.starts_with('#') && !line.is_empty());
                prop_assert!(is_header || next.is_some_and(|line| is_key(line)), "{number}\n{result}");
            }
            if *behind && !value.contains('\n') {
                let comment = format!(" #behind {number}.");
                prop_assert_eq!(at(&comment), 1, "{}", result);
                prop_assert!(lines.iter().any(|line| line.contains(&comment) && is_key(line)), "{}", result);
            }
        }
    }

    #[test]
    fn portable_result_stays_portable(fields in fields()) {
        let text = format!("---\n{}---\n", written(&fields, "\n"));
        if let Ok(result) = format_skill(&text, PORTABLE) {
            let again = formatted(&result.text, PORTABLE);
            prop_assert!(!again.changed, "{text}\n{}\n{}", result.text, again.text);
            for entry in root(&result.text).entries {
                prop_assert!(["name", "description", "license", "metadata"].contains(&entry.key.text.as_str()));
            }
        }
    }
}
