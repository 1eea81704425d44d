//! Tests of `sarif`.

use super::*;

#[test]
fn paths_become_uri_references() {
    for (path, expected) in [
        ("skills/beads/SKILL.md", "skills/beads/SKILL.md"),
        ("./SKILL.md", "SKILL.md"),
        (".", "."),
        ("../a b/ü%:?#/x", "../a%20b/%C3%BC%25%3A%3F%23/x"),
        ("/srv/skills", "file:///srv/skills"),
    ] {
        assert_eq!(uri(Path::new(path)), expected);
    }
}

#[test]
fn quoted_text_is_literal() {
    assert_eq!(literal("a [b] {c} `x`"), "a [b] {c} `x`");
    assert_eq!(literal("[press](http://x)"), "\\[press\\](http://x)");
    assert_eq!(literal("{0} {a}"), "{{0}} {{a}}");
}

#[test]
fn full_description_is_first_section() {
    let docs = "\n## What it does\nLooks at\nnames.\n\n## Why is this bad?\nIt is.\n";
    assert_eq!(what_it_does(docs), "Looks at names.");
}
