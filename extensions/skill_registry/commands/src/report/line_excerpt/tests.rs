//! Tests of `line_excerpt`.

use super::*;

/// Returns the line with the marked part in `«»`.
fn pointed(line: &str, column: u32, width: usize) -> String {
    let LineExcerpt { text, carets } = excerpt_line(line, column, width);
    format!("{}«{}»{}", &text[..carets.start], &text[carets.clone()], &text[carets.end..])
}

#[test]
fn values_and_words_are_marked() {
    assert_eq!(pointed("name: Big Beads  ", 7, 80), "name: «Big Beads»  ");
    assert_eq!(pointed("  - one two", 5, 80), "  - «one two»");
    assert_eq!(pointed("colour: blue", 1, 80), "«colour»: blue");
    assert_eq!(pointed("see [a](b.md), please", 5, 80), "see «[a](b.md)», please");
    assert_eq!(pointed("  all of it ", 0, 80), "  «all of it» ");
    assert_eq!(pointed(":", 1, 80), "«:»");
}

#[test]
fn position_past_end_marks_end() {
    assert_eq!(pointed("abc", 4, 80), "abc«»");
    assert_eq!(pointed("abc", 400, 80), "abc«»");
    assert_eq!(pointed("", 1, 80), "«»");
    assert_eq!(pointed("", 0, 80), "«»");
}

#[test]
fn control_characters_keep_mark_position() {
    assert_eq!(pointed("a\u{1b}[2J: x\u{202e}y", 8, 80), "a\\u{1b}[2J: «x\\u{202e}y»");
    assert_eq!(pointed("\u{1b}\u{9b}", 2, 80), "\\u{1b}«\\u{9b}»");
}

#[test]
fn long_line_is_cut_around_position() {
    let line = format!("{}: {}", "k".repeat(30), "v".repeat(1 << 20));
    assert_eq!(pointed(&line, 33, 40), format!("…{}: «{}»…", "k".repeat(11), "v".repeat(27)));
    assert_eq!(pointed(&line, 1, 40), format!("«{}»: {}…", "k".repeat(30), "v".repeat(8)));
    let far = excerpt_line(&line, 1 << 20, 40);
    assert!(far.text.chars().count() <= 42 && far.text.starts_with('…'), "{far:?}");
}

#[test]
fn lines_are_found_in_any_order() {
    let mut lines = LineIndex::new("a\r\nb\n\nd");
    let found: Vec<_> = [2, 4, 4, 3, 1, 5, 2].map(|line| lines.get(line)).into();
    let expected = [Some("b"), Some("d"), Some("d"), Some(""), Some("a"), None, Some("b")];
    assert_eq!(found, expected);
}
