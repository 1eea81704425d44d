//! Tests of the frontmatter as a tree: recovery, diagnostics and limits.

use proptest::prelude::*;

use skill_format::FRONTMATTER_LIMIT;
use skill_format::tree::{parse_counted, parse_frontmatter};
use yaml_tree::{
    DEPTH_LIMIT, EVENT_LIMIT, Mapping, MappingEntry, NODE_LIMIT, Span, Value, print_tree,
};

/// Returns a value as JSON-like text, as the tables of the tests write it.
fn describe_value(value: &Value) -> String {
    match value {
        Value::Scalar(scalar) => format!("{:?}", scalar.text),
        Value::Sequence(sequence) => {
            let items: Vec<_> = sequence.items.iter().map(describe_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Mapping(mapping) => describe_mapping(mapping),
    }
}

fn describe_mapping(mapping: &Mapping) -> String {
    let entry =
        |entry: &MappingEntry| format!("{}: {}", entry.key.text, describe_value(&entry.value));
    format!("{{{}}}", mapping.entries.iter().map(entry).collect::<Vec<_>>().join(", "))
}

fn check(text: &str, expected: &str, findings: &[&str]) {
    let tree = parse_frontmatter(text, 2);
    assert_eq!(describe_value(&tree.root), expected, "{text}");
    let found: Vec<_> = tree
        .diagnostics
        .iter()
        .map(|found| {
            let rule = found.rule.trim_start_matches("frontmatter.");
            format!("{}:{} {rule}: {}", found.line, found.column, found.message)
        })
        .collect();
    assert_eq!(found, findings, "{text}");
}

#[test]
fn value_is_text_of_file() {
    check("", "{}", &[]);
    check("# only a comment\n", "{}", &[]);
    check(
        "version: 1.10\non: yes\nnone: ~\nempty:\n",
        r#"{version: "1.10", on: "yes", none: "~", empty: ""}"#,
        &[],
    );
    check("a: [Read, 'Write']\nb: {c: d}\n", r#"{a: ["Read", "Write"], b: {c: "d"}}"#, &[]);
    check("a: |\n  x\n  y\nb: >-\n  x\n  y\n", r#"{a: "x\ny\n", b: "x y"}"#, &[]);
    check("a: 'it''s'\r\nb: \"q\\\"\"\r\n", r#"{a: "it's", b: "q\""}"#, &[]);
}

#[test]
fn spans_point_at_keys_and_values() {
    let tree = parse_frontmatter("é: ü\nlist:\n  - [x]\n", 2);
    let Value::Mapping(root) = &tree.root else { panic!("{tree:?}") };
    let places: Vec<_> = root
        .entries
        .iter()
        .map(|entry| {
            let (key, value) = (entry.key.span, entry.value.span());
            [(key.line, key.column), (value.line, value.column)]
        })
        .collect();
    assert_eq!(places, [[(2, 1), (2, 4)], [(3, 1), (4, 3)]]);
}

#[test]
fn nested_value_returns_source_text() {
    let text = "é: x\nflow: {\"emoji\": \"ü\", \"bins\": [\"jq\"]}  # why\nblock:\n    deep:\n        - a # why\n        - b\n\n# end\nlist:\n- x\n- y\nlast: z\n";
    let tree = parse_frontmatter(text, 2);
    let Value::Mapping(root) = tree.root else { panic!("{tree:?}") };
    let texts: Vec<_> = root.entries.into_iter().map(|entry| entry.value.into_text(text)).collect();
    assert_eq!(
        texts,
        [
            "x",
            "{\"emoji\": \"ü\", \"bins\": [\"jq\"]}",
            "deep:\n    - a # why\n    - b",
            "- x\n- y",
            "z"
        ]
    );
}

#[test]
fn flow_value_ends_at_bracket() {
    for flow in ["{a: 1,}", "{a: {b: 2, } ,\n # é }\n  }", "[x, ]", "{}", "[{a: 1,},]"] {
        let text = format!("k: {flow} # why\nl: x\n");
        let Value::Mapping(mut root) = parse_frontmatter(&text, 2).root else {
            panic!("not a map")
        };
        let is_flow = match &root.entries[0].value {
            Value::Mapping(mapping) => mapping.flow,
            Value::Sequence(sequence) => sequence.flow,
            Value::Scalar(_) => false,
        };
        assert!(is_flow, "{flow}");
        assert_eq!(
            root.entries.remove(0).value.into_text(&text),
            flow.replace("\n  }", "\n}").replace("\n # ", "\n# ")
        );
    }
}

#[test]
fn unusual_yaml_is_reported() {
    check(
        "a: &x [1]\nb: *x\nc: !!str 1\n",
        r#"{a: ["1"], b: "*x", c: "1"}"#,
        &[
            "2:4 anchor: the anchor `&x` is ignored",
            "3:4 alias: the alias `*x` is kept as text and not expanded",
            "4:4 tag: the tag `!!str` is ignored",
        ],
    );
    check(
        "a: 1\nb: {c: 2, c: 3}\na: 4\n",
        r#"{a: "1", b: {c: "2", c: "3"}, a: "4"}"#,
        &[
            "4:1 duplicateKey: duplicate key `a`; the first value is used",
            "3:11 duplicateKey: duplicate key `c`; the first value is used",
        ],
    );
    check(
        "a: 1\n...\nb: 2\n",
        r#"{a: "1", b: "2"}"#,
        &[
            "2:0 multipleDocuments: the frontmatter has several YAML documents; they are read as one",
        ],
    );
    check(
        "a: {{name}}\n",
        r#"{a: {{name}: ""}}"#,
        &["2:5 complexKey: a list or map as a key is kept as text"],
    );
}

const COLON: &str = "mapping values are not allowed in this context";

fn recovered_message(field: &str, reason: &str) -> String {
    format!("`{field}` is not valid YAML ({reason}) and is read as text")
}

#[test]
fn broken_field_is_kept_as_text() {
    check(
        "name: x\ndescription: Use when: asked\n  or invited\n# why\nallowed-tools: [Read, Write]\n",
        r#"{name: "x", description: "Use when: asked or invited", allowed-tools: ["Read", "Write"]}"#,
        &[&format!("3:22 recovered: {}", recovered_message("description", COLON))],
    );
    check(
        "name:x\nlicense: y\ndescription:y z\n",
        r#"{name: "x", license: "y", description: "y z"}"#,
        &[
            &format!(
                "2:1 recovered: {}",
                recovered_message("name", "a blank is missing after the colon")
            ),
            &format!(
                "4:1 recovered: {}",
                recovered_message("description", "a blank is missing after the colon")
            ),
        ],
    );
    check(
        "a: 1\nb: x\0y\n",
        "{a: \"1\", b: \"x\\0y\"}",
        &[&format!("3:5 recovered: {}", recovered_message("b", "NUL character"))],
    );
    check(
        "stray words\na: 1\n",
        r#"{a: "1"}"#,
        &["2:1 recovered: `stray words` belongs to no field and is left out"],
    );
}

#[test]
fn lost_content_sets_gap() {
    let deep = "[".repeat(DEPTH_LIMIT) + &"]".repeat(DEPTH_LIMIT);
    let cases = [
        ("a: b: c\nd: [e]\n".to_owned(), None),
        ("a: 1\nb: b\n".to_owned(), None),
        ("# why\n\nstray\na: b: c\n".to_owned(), Some((4, 1))),
        (format!("a: 1\nb: {deep}\n"), Some((3, 19))),
        (format!("a: [{}]\n", "x,".repeat(NODE_LIMIT)), Some((2, 1))),
        ("[just words".to_owned(), Some((3, 1))),
    ];
    for (text, gap) in cases {
        let found = parse_frontmatter(&text, 2).gap.map(|gap| (gap.line, gap.column));
        assert_eq!(found, gap, "{text:.30}");
    }
}

#[test]
fn broken_quotes_are_stripped() {
    let text = "a: \"x\" y\nb: \"say \"hi\" now\"\nc: 'it's'\nd: \"open\n";
    let tree = parse_frontmatter(text, 2);
    assert_eq!(
        describe_value(&tree.root),
        r#"{a: "\"x\" y", b: "say \"hi\" now", c: "it's", d: "open"}"#
    );
    let lines: Vec<_> = tree.diagnostics.iter().map(|found| found.line).collect();
    assert_eq!(lines, [2, 3, 4, 5]);
}

#[test]
fn unindented_quoted_scalar_is_read() {
    check(
        "description: \"one\nNote: two\n\nthree\"\nname: x: y\n",
        r#"{description: "one Note: two\nthree", name: "x: y"}"#,
        &[
            "2:1 recovered: the further lines of `description` are not indented",
            &format!("6:8 recovered: {}", recovered_message("name", COLON)),
        ],
    );
}

#[test]
fn broken_block_is_read_by_field() {
    check(
        "metadata:\n  short: a: b\n  tags: x, y\n  list:\n  - c\n  - d: e: f\nname: x\n",
        r#"{metadata: {short: "a: b", tags: "x, y", list: ["c", "d: e: f"]}, name: "x"}"#,
        &[
            &format!("3:11 recovered: {}", recovered_message("metadata.short", COLON)),
            &format!("7:9 recovered: {}", recovered_message("metadata.list", COLON)),
        ],
    );
    let tabs = "a block scalar content cannot start with a tab";
    check(
        "text: |\n\tone\n\ttwo\nfold: >-\n\tone\n\ttwo\n\n\tthree: 3\n",
        r#"{text: "one\ntwo", fold: "one two\nthree: 3"}"#,
        &[
            &format!("2:7 recovered: {}", recovered_message("text", tabs)),
            &format!("5:7 recovered: {}", recovered_message("fold", tabs)),
        ],
    );
}

#[test]
fn broken_block_returns_source_text() {
    let text = "metadata:\n\n  # why\n  list:\n    - a: b: c\n    - d\n\nname: x\n";
    let Value::Mapping(mut root) = parse_frontmatter(text, 2).root else { panic!("not a map") };
    let Value::Mapping(metadata) = root.entries.remove(0).value else { panic!("not a map") };
    assert_eq!(metadata.span, Span { line: 5, column: 3 });
    let list = metadata.get("list").cloned().map(|list| list.into_text(text));
    assert_eq!(list.as_deref(), Some("- a: b: c\n- d"));
    let whole = Value::Mapping(metadata).into_text(text);
    assert_eq!(whole, "list:\n  - a: b: c\n  - d");
}

#[test]
fn text_without_fields_is_not_map() {
    check("- a\n- b\n", r#"["a", "b"]"#, &[]);
    check("just words\n", r#""just words""#, &[]);
    check(
        "[just words",
        r#""[just words""#,
        &[
            "3:1 yaml: the frontmatter is not YAML: while parsing a flow sequence, expected ',' or ']'",
        ],
    );
}

#[test]
fn events_are_counted_up_to_limit() {
    assert_eq!(parse_counted("a: b\n", 2).1, 8);
    let (tree, events) = parse_counted(&"a: b: c\n".repeat(8_000), 2);
    assert_eq!(events, EVENT_LIMIT);
    let last = tree.diagnostics.iter().rfind(|found| found.rule == "frontmatter.recovered");
    assert_eq!(
        last.map(|found| found.message.clone()),
        Some(recovered_message("a", "too complex"))
    );
}

#[test]
fn hostile_input_events_are_bounded() {
    let deep = "a:\n".to_owned() + &(0..200).map(|n| " ".repeat(n) + " b:\n").collect::<String>();
    let laughs = "a: &a [x,x]\n".to_owned()
        + &(0..30).map(|n| format!("b{n}: &b{n} [*a, *a, *a, *a]\n")).collect::<String>();
    let limit = FRONTMATTER_LIMIT;
    let inputs = [
        "[".repeat(limit),
        "{".repeat(limit),
        "a: ".to_owned() + &"[".repeat(limit),
        "[{".repeat(limit / 2),
        "- ".repeat(limit / 2),
        "? ".repeat(limit / 2),
        "a: ".repeat(limit / 3),
        "a:\n".repeat(limit / 3),
        "a: \"\n".repeat(limit / 5),
        "a: '\n".repeat(limit / 5),
        "a: 'x'\n".repeat(limit / 7),
        "a: b: c\n".repeat(limit / 8),
        "...\n".repeat(limit / 4),
        "&a ".repeat(limit / 3),
        "!".repeat(limit),
        "\t\n".repeat(limit / 2),
        "a: |\n".to_owned() + &" \n".repeat(limit / 2),
        "x".repeat(limit),
        "a: [".to_owned() + &"1,".repeat(limit / 2),
        deep,
        laughs,
    ];
    for text in inputs {
        let (tree, events) = parse_counted(&text, 2);
        assert!(events <= EVENT_LIMIT, "{events} for {text:.20}");
        let is_map = matches!(tree.root, Value::Mapping(_));
        let has_error = tree.diagnostics.iter().any(|d| d.rule == "frontmatter.yaml");
        assert!(is_map || has_error || !tree.root.is_empty(), "{text:.20}");
    }
}

#[test]
fn value_over_budget_becomes_text() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let text = |value: &str| format!("name: x\ndeep: {value}\ndescription: y\n");
    let fits = nested(DEPTH_LIMIT - 1);
    assert_eq!(parse_frontmatter(&text(&fits), 2).diagnostics, []);
    let deeper = nested(DEPTH_LIMIT);
    check(
        &text(&deeper),
        &format!(r#"{{name: "x", deep: "{deeper}", description: "y"}}"#),
        &[&format!("3:22 recovered: {}", recovered_message("deep", "nested too deeply"))],
    );
    let many = "x,".repeat(NODE_LIMIT);
    check(
        &text(&format!("[{many}]")),
        &format!(r#"{{name: "x", deep: "[{many}]", description: "y"}}"#),
        &[&format!("3:1 recovered: {}", recovered_message("deep", "too many keys and values"))],
    );
}

const SEEDS: [&str; 12] = [
    "name: plain\ndescription: Does a thing. Use when asked.\n",
    "name: x\ndescription: Use when: the user says hi\nmetadata:\n\tauthor: me\n",
    "name: &a x\ndescription: *a\nlicense: !!str MIT\n",
    "name: x\r\ndescription: >-\r\n  Line one\r\n  line two\r\n\r\n  para\r\n",
    "name: x\ndescription: |+\n  a\n   b\n\n\nallowed-tools:\n  - Read\n  - Bash(git:*)\n",
    "name: \"q\\\"x\"\ndescription: 'it''s\n  long'\ntags: [a, \"b\", {c: d}]\n",
    "metadata: {\"emoji\": \"ü\", \"requires\": {\"bins\": [\"jq\"]}}\ndescription: é: ü\n",
    "a: \"one\nNote: two\nthree\"\ndescription: x # y\n",
    "? complex\n: value\n? [a, b]\n: c\n<<: *x\n",
    "metadata:\n  a: b: c\n  list:\n  - x\n  - y: z: w\n  version: 1.10\n",
    "name:x\ndescription:y\n...\n%YAML 1.2\nfoo: bar\n",
    "description: [unclosed\nname: {a: b\nlicense: @at `tick` %p\n",
];

/// A small generator (xorshift64*), so that the mutants are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(value).expect("31 bits fit") % limit
    }
}

fn mutant(random: &mut Random) -> String {
    const TOKENS: [&str; 28] = [
        ":", ": ", "- ", "\n", "\r", "\t", "  ", "\"", "'", "[", "]", "{", "}", ",", "#", " #",
        "&a ", "*a", "!t ", "|\n", ">-\n", "? ", "%", "@", "\0", "\u{85}", "\u{feff}", "...\n",
    ];
    let mut chars: Vec<char> = SEEDS[random.below(SEEDS.len())].chars().collect();
    for _ in 0..=random.below(6) {
        let at = random.below(chars.len() + 1);
        let end = (at + random.below(12)).min(chars.len());
        match random.below(4) {
            0 => drop(chars.drain(at..end)),
            1 => {
                let copy: Vec<char> = chars[at..end].to_vec();
                let to = random.below(chars.len() + 1);
                chars.splice(to..to, copy);
            }
            2 => {
                let other = SEEDS[random.below(SEEDS.len())];
                chars.splice(at..at, other.chars().skip(random.below(40)).take(25));
            }
            _ => {
                chars.splice(at..at, TOKENS[random.below(TOKENS.len())].chars());
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn mutants_parse_within_budget() {
    let mut random = Random(0x5EED);
    for number in 0..10_000 {
        let text = mutant(&mut random);
        let (tree, events) = parse_counted(&text, 2);
        assert!(events <= 40 + 10 * text.len(), "{number}: {events} events for {text:?}");
        if let Value::Mapping(root) = tree.root {
            let printed = print_tree(&root);
            let again = parse_frontmatter(&printed, 2);
            assert!(
                again.root.same_content(&Value::Mapping(root)),
                "{number}: {text:?}\n{printed}"
            );
        } else {
            assert!(!tree.root.is_empty(), "{number}: {text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_parses_within_budget(text in any::<String>(), yaml in "[-a-c \t:\n\"'\\[\\]{},#&*!|>%?\r]{0,80}") {
        for text in [text, yaml] {
            let (_, events) = parse_counted(&text, 2);
            prop_assert!(events <= 40 + 10 * text.len());
        }
    }

    #[test]
    fn every_field_is_retained(lines in proptest::collection::vec("[a-e]{1,3}: [-a-c :\"'\\[\\]{}#&*!|>%?@`]{0,12}", 1..8)) {
        let text = lines.join("\n");
        let tree = parse_frontmatter(&text, 2);
        let Value::Mapping(root) = &tree.root else { return Err(TestCaseError::fail("no map")) };
        for line in &lines {
            let key = line.split(':').next().unwrap_or_default();
            let is_in_tree = root.get(key).is_some() || describe_mapping(root).contains(&format!("{key}:"));
            prop_assert!(is_in_tree, "{key} of\n{text}\nis not in\n{}", describe_mapping(root));
        }
    }
}
