//! Tests of `measure`.

use super::*;

fn listing(id: &str, description: &str) -> SkillListing {
    SkillListing {
        id: id.to_owned(),
        name: id.to_owned(),
        description: description.to_owned(),
        when_to_use: None,
        location: format!("{id}/SKILL.md"),
        user_only: false,
    }
}

#[test]
fn text_has_both_counts() {
    let text = "Reviews pull requests.";
    let exact = TextCost { chars: 22, estimate: 6, o200k: Some(4) };
    assert_eq!(TokenCounter::new(true).count(text), exact);
    assert_eq!(TokenCounter::new(false).count(text), TextCost { o200k: None, ..exact });
}

#[test]
fn equal_texts_are_counted_once() {
    let mut counter = TokenCounter::new(true);
    counter.count("one");
    counter.count("two");
    counter.count("one");
    assert_eq!(counter.known.len(), 2);
    // A sentinel proves that a cached text is not counted again.
    counter.known.insert(Digest::compute(b"one"), 77);
    assert_eq!(counter.count("one").o200k, Some(77));
}

#[test]
fn sum_requires_exact_parts() {
    let mut sum = TextCost::default();
    sum += TextCost { chars: 5, estimate: 2, o200k: None };
    assert_eq!(sum, TextCost { chars: 5, estimate: 2, o200k: None });
    sum += TextCost { chars: 4, estimate: 1, o200k: Some(1) };
    sum += TextCost { chars: 1, estimate: u32::MAX, o200k: Some(2) };
    assert_eq!(sum, TextCost { chars: 10, estimate: u32::MAX, o200k: Some(3) });
}

#[test]
fn skill_has_catalog_line_and_element() {
    let listing = listing("brew", "Brews <tea>.");
    assert_eq!(catalog_line(&listing), "• `brew` — Brews ‹tea›.\n");
    assert_eq!(
        element(&listing),
        "<skill>\n<name>\nbrew\n</name>\n<description>\nBrews &lt;tea&gt;.\n</description>\n\
         <location>\nbrew/SKILL.md\n</location>\n</skill>\n"
    );
}
