//! Tests of `fix`.

use super::*;

fn edit(range: std::ops::Range<usize>, replacement: &str) -> TextEdit {
    TextEdit { range, replacement: replacement.to_owned() }
}

#[test]
fn edits_apply_in_text_order() {
    let edits = [edit(4..5, "E"), edit(0..1, ""), edit(2..2, "+")];
    assert_eq!(apply_edits("abcdef", &edits), "b+cdEf");
    assert_eq!(apply_edits("abc", &[]), "abc");
}

#[test]
fn first_overlapping_edit_wins() {
    assert_eq!(apply_edits("abcdef", &[edit(2..5, "X"), edit(1..3, "Y")]), "aYdef");
    assert_eq!(apply_edits("abc", &[edit(1..2, "X"), edit(1..3, "Y")]), "aXc");
    assert_eq!(apply_edits("ab", &[edit(2..2, "1"), edit(2..2, "2")]), "ab12");
}

#[test]
fn out_of_range_edits_are_skipped() {
    assert_eq!(
        apply_edits("a\u{E9}b", &[edit(2..3, ""), edit(9..9, "x"), edit(3..4, "B")]),
        "a\u{E9}B"
    );
}
