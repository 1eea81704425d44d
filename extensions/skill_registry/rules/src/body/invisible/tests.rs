//! Tests of `invisible`.

use super::*;

fn kinds(line: &str) -> Vec<(usize, usize, HiddenCharKind)> {
    find_hidden(line).into_iter().map(|(range, kind)| (range.start, range.end, kind)).collect()
}

#[test]
fn legitimate_characters_are_ignored() {
    let fine = [
        "plain\ttext\r\n",
        "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}",
        "\u{2764}\u{FE0F}\u{200D}\u{1F525} and \u{1F44B}\u{1F3FD}",
        "\u{2139}\u{FE0F} 1\u{FE0F}\u{20E3} \u{26A0}\u{FE0F} \u{2192}\u{FE0E}",
        "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
        "\u{645}\u{6CC}\u{200C}\u{62E}\u{648}\u{627}\u{647}\u{645}",
        "\u{915}\u{94D}\u{200D}\u{937}",
        "\u{5D0}\u{200F} (x)",
        "\u{E2A}\u{E27}\u{E31}\u{200B}\u{E2A}",
        "\u{8FBB}\u{E0100}",
        "na\u{EF}ve caf\u{E9} \u{2014} \u{1F1E9}\u{1F1EA}",
    ];
    for line in fine {
        assert_eq!(kinds(line), [], "{line:?}");
    }
}

#[test]
fn hidden_characters_are_found() {
    let cases = [
        ("a\u{E0068}\u{E0069}b", vec![(1, 9, HiddenCharKind::Tag)]),
        ("\u{1F3F4}\u{E0068}\u{E0069}", vec![(4, 12, HiddenCharKind::Tag)]),
        ("a\u{202E}b", vec![(1, 4, HiddenCharKind::Bidi)]),
        ("a\u{2067}b\u{2069}", vec![(1, 4, HiddenCharKind::Bidi), (5, 8, HiddenCharKind::Bidi)]),
        ("\u{5D0}\u{202E}", vec![(2, 5, HiddenCharKind::Bidi)]),
        ("a\u{200E}b", vec![(1, 4, HiddenCharKind::Bidi)]),
        ("a\u{200B}\u{2060}b", vec![(1, 7, HiddenCharKind::ZeroWidth)]),
        ("x\u{FEFF}", vec![(1, 4, HiddenCharKind::ZeroWidth)]),
        ("a\u{200D}b", vec![(1, 4, HiddenCharKind::Joiner)]),
        ("\u{1F468}\u{200D} x", vec![(4, 7, HiddenCharKind::Joiner)]),
        ("\u{3164}", vec![(0, 3, HiddenCharKind::Filler)]),
        ("\u{1B}[31m", vec![(0, 1, HiddenCharKind::Control)]),
        ("\u{26A0}\u{FE0F}\u{FE01}\u{FE02}", vec![(6, 12, HiddenCharKind::Selector)]),
        ("a\u{E0101}", vec![(1, 5, HiddenCharKind::Selector)]),
    ];
    for (line, expected) in cases {
        assert_eq!(kinds(line), expected, "{line:?}");
    }
}
