//! Tests of `explain`.

use super::*;
use crate::profile::{ProfileLevels, RuleLevel};
use crate::rule::{RuleCheck, RuleExtent, RuleGroup};

fn of(docs: &'static str) -> Result<RuleDocumentation, DocumentationError> {
    parse_documentation(&Rule {
        id: "a.b",
        group: RuleGroup::Lint,
        extent: RuleExtent::Head,
        summary: "it is odd",
        levels: ProfileLevels::uniform(RuleLevel::Note),
        fixable: false,
        docs,
        check: RuleCheck::Loading,
    })
}

fn file(path: &str, bytes: &[u8]) -> ExampleFile {
    ExampleFile { path: path.to_owned(), bytes: bytes.to_vec(), link: None, mode: 0o644 }
}

#[test]
fn sections_and_examples_are_parsed() {
    let docs = "\n## What it does\nLooks.\n\n## Why is this bad?\nIt is.\n\n## Bad\n\
        ````markdown x/SKILL.md profile=skillscraft encoding=latin-1\né\n```sh\n## Good\n```\n````\n\n\
        ```sh x/scripts/a.sh mode=755\n{{ab*2}} {{c}}{{U+2D*2}}\n```\n\
        ```text x/b link=../c\n```\n\n## Good\nA file of one gigabyte is no example.\n";
    let link = ExampleFile { link: Some("../c".to_owned()), ..file("b", b"") };
    let script = ExampleFile { mode: 0o755, ..file("scripts/a.sh", b"abab {{c}}--\n") };
    let skill = ExampleSkill {
        dir_name: "x".to_owned(),
        files: vec![file("SKILL.md", b"\xE9\n```sh\n## Good\n```\n"), script, link],
    };
    let expected = RuleDocumentation {
        what: "Looks.",
        why: "It is.",
        bad: RuleExamples {
            profile: Profile::Skillscraft,
            skills: vec![skill.clone()],
            excuse: String::new(),
        },
        good: RuleExamples {
            excuse: "A file of one gigabyte is no example.".to_owned(),
            ..RuleExamples::default()
        },
    };
    assert_eq!(of(docs), Ok(expected));
    let entries = skill.entries();
    let names: Vec<_> = entries.iter().map(|it| (&*it.path, it.size, it.mode, &it.kind)).collect();
    assert_eq!(
        names,
        [
            ("SKILL.md", 20, 0o644, &EntryKind::File),
            ("b", 0, 0o644, &EntryKind::Symlink { escapes: true }),
            ("scripts", 0, 0o755, &EntryKind::Directory),
            ("scripts/a.sh", 13, 0o755, &EntryKind::File),
        ]
    );
}

#[test]
fn encodings_produce_file_bytes() {
    assert_eq!(encode_text("é", Some("utf-8-bom")).unwrap(), b"\xEF\xBB\xBF\xC3\xA9");
    assert_eq!(encode_text("é", Some("utf-16le")).unwrap(), b"\xFF\xFE\xE9\0");
    assert_eq!(encode_text("€", Some("latin-1")), None);
}

#[test]
fn errors_name_their_cause() {
    let section = DocumentationError::Section;
    assert_eq!(of("\n## What it does\nx\n"), Err(section("Why is this bad?")));
    assert_eq!(of("# What it does\n"), Err(section("What it does")));
    let with = |bad: &str| {
        let docs = format!(
            "\n## What it does\nx\n\n## Why is this bad?\nx\n\n## Bad\n{bad}\n\n## Good\nx\n"
        );
        of(docs.leak()).map(|_| ())
    };
    assert_eq!(with("x"), Ok(()));
    assert_eq!(with(""), Err(section("Bad")));
    assert_eq!(with("```a\n```"), Err(DocumentationError::Info("a".to_owned())));
    for info in ["a x/y profile=z", "a x/y size=1", "a x", "a x/y encoding=utf-7"] {
        let block = format!("```{info}\n```");
        assert_eq!(with(&block), Err(DocumentationError::Info(info.to_owned())));
    }
    assert_eq!(with("```a x/y\nz"), Err(DocumentationError::Unclosed("a x/y".to_owned())));
}
