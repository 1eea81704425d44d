//! Tests of `body`.

use super::*;

const TEXT: &str = "---\n---\n# The `é` *way*\n\nUse `x` or\n[y](z).\n\n> quoted\n\n- one\n- two\n  - deep  \n    end\n\n| a | b |\n|---|---|\n| c | `` d` `` |\n\n```sh\nrun [no](link)\n```\n<!-- note -->\n\n***\n\n![i](<a b.png> \"t\") [r]\n\n[r]: ../up.md\n\n~~~\nopen\n";

fn at(text: &str) -> usize {
    TEXT.find(text).unwrap()
}

#[test]
fn passages_have_file_offsets() {
    let markdown = MarkdownBody::parse(TEXT, 8);
    let passages: Vec<_> = markdown
        .passages
        .iter()
        .map(|it| (it.kind, it.text.as_str(), it.quoted, it.listed))
        .collect();
    assert_eq!(
        passages,
        [
            (PassageKind::Heading, "The `é` way", false, false),
            (PassageKind::Text, "Use `x` or y.", false, false),
            (PassageKind::Text, "quoted", true, false),
            (PassageKind::Text, "one", false, true),
            (PassageKind::Text, "two", false, true),
            (PassageKind::Text, "deep end", false, true),
            (PassageKind::Cell, "a", false, false),
            (PassageKind::Cell, "b", false, false),
            (PassageKind::Cell, "c", false, false),
            (PassageKind::Cell, "`d``", false, false),
            (PassageKind::Text, "i r", false, false),
        ]
    );
    let place = |passage: usize, word: &str| {
        let passage = &markdown.passages[passage];
        &TEXT[passage.file_offset(passage.text.find(word).unwrap())..][..word.len()]
    };
    for (passage, word) in [(0, "way"), (1, "or"), (1, "y"), (5, "deep"), (5, "end")] {
        assert_eq!(place(passage, word), word);
    }
    let headings: Vec<_> = markdown.headings().map(|it| it.file_offset(0)).collect();
    assert_eq!(headings, [at("The")]);
}

#[test]
fn links_and_code_are_collected() {
    let markdown = MarkdownBody::parse(TEXT, 8);
    let links: Vec<_> = markdown
        .links
        .iter()
        .map(|link| (&*link.target, &TEXT[link.range.clone()], link.is_image))
        .collect();
    assert_eq!(
        links,
        [
            ("z", "[y](z)", false),
            ("a b.png", "![i](<a b.png> \"t\")", true),
            ("../up.md", "[r]", false),
        ]
    );
    let spans: Vec<_> = markdown
        .code_spans
        .iter()
        .map(|code| (&TEXT[code.range.clone()], &TEXT[code.content.clone()]))
        .collect();
    assert_eq!(spans, [("`é`", "é"), ("`x`", "x"), ("`` d` ``", "d`")]);
}

#[test]
fn code_and_html_are_opaque() {
    let markdown = MarkdownBody::parse(TEXT, 8);
    let code: Vec<_> = markdown
        .code_blocks
        .iter()
        .map(|code| (&TEXT[code.range.clone()], code.is_unclosed))
        .collect();
    assert_eq!(code, [("```sh\nrun [no](link)\n```", false), ("~~~\nopen\n", true)]);
    let html: Vec<_> = markdown.html.iter().map(|range| &TEXT[range.clone()]).collect();
    assert_eq!(html, ["<!-- note -->\n"]);
    let breaks: Vec<_> = markdown.breaks.iter().map(|range| &TEXT[range.clone()]).collect();
    assert_eq!(breaks, ["  \n"]);
    for opaque in ["x` or", "run", "note"] {
        assert!(markdown.is_opaque(at(opaque)), "{opaque}");
    }
    assert!(!markdown.is_opaque(at("quoted")));
}

#[test]
fn footnotes_are_text() {
    let markdown = MarkdownBody::parse("See[^1] it.\n\n[^1]: the-note\n", 0);
    let passages: Vec<_> = markdown.passages.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(passages, ["See it.", "the-note"]);
    assert_eq!(markdown.links, []);
}

#[test]
fn unclosed_fence_reaches_end_of_file() {
    let unclosed = |text: &str| {
        let blocks = MarkdownBody::parse(text, 0).code_blocks;
        blocks.iter().map(|code| code.is_unclosed).collect::<Vec<_>>()
    };
    assert_eq!(unclosed("```\na\n```\n"), [false]);
    assert_eq!(unclosed("```\na\n"), [true]);
    assert_eq!(unclosed("```\na\n``\n"), [true]);
    assert_eq!(unclosed("````\n```\n````"), [false]);
    assert_eq!(unclosed("> ```\n> a\n> ```\n"), [false]);
    assert_eq!(unclosed("- ```\n  a\n\ntext\n"), [false]);
    assert_eq!(unclosed("```"), [true]);
    assert_eq!(unclosed("    indented\n"), [false]);
}
