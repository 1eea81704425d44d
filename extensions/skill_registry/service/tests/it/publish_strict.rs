//! Published entries read back by a strict parser, for arbitrary SKILL.md files.

use std::fs;

use proptest::prelude::*;
use serde_json::Value;
use skill_service::SkillPublisher;

use crate::fixture::StoreFixture;

/// Skills of one fixture.
const SKILLS: usize = 24;

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z0-9]{1,4}(-[a-z0-9]{1,3}){0,2}",
        1 => "[a-zA-Zü_. -]{0,6}",
        1 => prop::sample::select(vec!["no", "y", "7", "1e3", "'a'", "\"a\"", "[a]", "*x", "&x a", "~"])
            .prop_map(str::to_owned),
        1 => Just("x".repeat(65)),
    ]
}

fn any_description() -> impl Strategy<Value = String> {
    let texts = vec![
        "D.",
        "Use: when asked",
        "'quoted: text'",
        "\"tab\\tand \\u00e9\"",
        "|\n  Two\n  lines",
        ">-\n  Folded\n  text",
        "*x",
        "&x D.",
        "!own D.",
        "- a",
        "2026-01-02",
        "1_000",
        "yes",
        "",
        "' '",
        "[a, b]",
        "{a: b}",
        "\"unclosed",
        "plain\n  goes on",
        "D. # remark",
        "@reserved",
    ];
    prop_oneof![
        4 => prop::sample::select(texts).prop_map(str::to_owned),
        2 => "\\PC{0,24}",
        1 => prop::sample::select(vec![1_023, 1_024, 1_025]).prop_map(|n| "x".repeat(n)),
        1 => Just("\u{1f600}".repeat(513)),
    ]
}

fn any_line() -> impl Strategy<Value = String> {
    let lines = vec![
        "version: 1.10",
        "x: [1, {a: true}]",
        "x: y",
        "name: twice",
        "description: twice",
        "y: &y [a]",
        "z: *y",
        "<<: {a: b}",
        "<<: *y",
        "1: x",
        "true: x",
        "? [a]\n: b",
        "x: !own y",
        "x: !!str 1",
        "x: .inf",
        "x: 0o17",
        "x: 007",
        "x: 99999999999999999999999",
        "x:\ty",
        "\tx: y",
        "...",
        "--- ",
        "license: MIT",
        "license: 1",
        "metadata: {version: 1.0}",
        "metadata: {version: '1.0'}",
        "allowed-tools: [Read]",
        "compatibility: ''",
        "# remark",
        "no key",
    ];
    prop_oneof![
        4 => prop::sample::select(lines).prop_map(str::to_owned),
        1 => "\\PC{0,16}",
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    let fence = prop::sample::select(vec![
        "---",
        "---",
        "---",
        "---",
        "---",
        "--- ",
        "\n---",
        "\u{feff}---",
    ]);
    let end = prop::sample::select(vec!["\n", "\n", "\n", "\r\n"]);
    let lines = prop::collection::vec(any_line(), 0..4);
    (any_name(), any_description(), lines, fence, end).prop_map(
        |(name, text, lines, fence, end)| {
            let head = format!("{fence}\nname: {name}\ndescription: {text}");
            let all = [vec![head], lines, vec!["---".to_owned(), "Body.\n".to_owned()]].concat();
            all.join("\n").replace('\n', end)
        },
    )
}

/// Reads a frontmatter without any of the registry's own code.
fn strictly_read(text: &str) -> Option<Value> {
    let text = text.replace("\r\n", "\n");
    let (yaml, _) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
    // The line break before the closing line belongs to the YAML.
    serde_yaml::from_str(&format!("{yaml}\n")).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]
    #[test]
    fn listed_entries_are_read_back_strictly(
        texts in prop::collection::vec(any_text(), SKILLS),
    ) {
        let fixture = StoreFixture::new();
        for (number, text) in texts.iter().enumerate() {
            fixture.write(&format!("skills/s{number}/SKILL.md"), text);
        }
        // One of them must be valid, or the list would prove little.
        fixture.skill("skills/demo", "Body.");
        let store = fixture.open();
        let snapshot = store.snapshot();
        let published = SkillPublisher::new().entries(&store, &snapshot, snapshot.skills());
        let listed: Vec<_> =
            published.entries.iter().filter(|entry| entry.unlisted.is_none()).collect();
        prop_assert!(listed.iter().any(|entry| entry.id == "demo"));
        for entry in listed {
            let text = fs::read_to_string(fixture.path(&format!("skills/{}/SKILL.md", entry.id)));
            let text = text.unwrap();
            let read = strictly_read(&text);
            prop_assert_eq!(read, Some(Value::Object(entry.frontmatter.clone())), "{}", text);
            let name = entry.frontmatter["name"].as_str().unwrap();
            let is_word = |word: &str| {
                !word.is_empty() && word.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9'))
            };
            prop_assert!(name.split('-').all(is_word) && name.len() <= 64, "{}", text);
            prop_assert_eq!(entry.files.as_ref().unwrap()[0].uri.rsplit('/').nth(1), Some(name));
            let description = entry.frontmatter["description"].as_str().unwrap();
            let count = description.chars().count();
            prop_assert!((1..=1_024).contains(&count), "{}", text);
        }
    }
}
