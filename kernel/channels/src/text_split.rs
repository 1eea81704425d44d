//! Long texts in parts that a platform accepts.

use unicode_segmentation::UnicodeSegmentation as _;

/// The smallest limit: a character may have two units.
const MIN_LIMIT: usize = 2;

/// Splits a text into parts of at most `limit` UTF-16 code units: at the ends of lines where
/// possible, else between words, else between graphemes. The line break or space at a split is left
/// out; nothing else is.
#[must_use]
pub(crate) fn split_text(text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(MIN_LIMIT);
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(fitting) = fitting_bytes(rest, limit) else {
            parts.push(rest.to_owned());
            break;
        };
        let (end, next) = split_point(rest, fitting);
        parts.push(rest[..end].to_owned());
        rest = &rest[next..];
    }
    // Platforms refuse messages without visible text.
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Returns the number of bytes that fit into the limit, or `None` if all do.
fn fitting_bytes(text: &str, limit: usize) -> Option<usize> {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units > limit {
            return Some(at);
        }
    }
    None
}

/// Returns the end of the first part and the start of the next one.
fn split_point(text: &str, fitting: usize) -> (usize, usize) {
    // A break right behind the part counts, as it is left out.
    let end = fitting + text[fitting..].chars().next().map_or(0, char::len_utf8);
    let window = &text[..end];
    // An early break would leave a part nearly empty.
    let is_late = |at: &usize| *at > fitting / 2;
    if let Some(at) = window.rfind('\n').filter(is_late) {
        return (at, at + 1);
    }
    let word = window.char_indices().rev().find(|(_, c)| c.is_whitespace());
    if let Some((at, c)) = word.filter(|(at, _)| is_late(at)) {
        return (at, at + c.len_utf8());
    }
    // The last grapheme may be cut off by the limit; one that alone exceeds it is split.
    let start = text[..end].grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
    let at = if start > 0 { start.min(fitting) } else { fitting };
    (at, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> usize {
        text.encode_utf16().count()
    }

    #[test]
    fn lines_and_words_stay_whole() {
        assert_eq!(split_text("one two\nthree", 8), ["one two", "three"]);
        assert_eq!(split_text("one two three", 8), ["one two", "three"]);
        assert_eq!(split_text("short", 8), ["short"]);
        assert_eq!(split_text("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(split_text("", 4), Vec::<String>::new());
        assert_eq!(split_text(" \n ", 4), Vec::<String>::new());
        // The first break is early: the part would be nearly empty.
        assert_eq!(split_text("a\nbcdefgh ijk", 9), ["a\nbcdefgh", "ijk"]);
    }

    #[test]
    fn graphemes_stay_whole_where_possible() {
        // A family of 11 units, and flags of 4.
        let family = "👨‍👩‍👧‍👦";
        assert_eq!(units(family), 11);
        let parts = split_text(&format!("ab{family}{family}"), 13);
        assert_eq!(parts, [format!("ab{family}"), family.to_owned()]);
        assert_eq!(split_text("🇳🇴🇳🇴🇳🇴", 9), ["🇳🇴🇳🇴", "🇳🇴"]);
        assert_eq!(split_text("e\u{301}e\u{301}", 3), ["e\u{301}", "e\u{301}"]);
        // One that alone exceeds the limit is split between characters.
        assert!(split_text(family, 4).iter().all(|part| units(part) <= 4));
    }

    #[test]
    fn every_part_fits_and_no_text_is_lost() {
        let text = "Ein längerer Text mit 👩‍💻, Zeilen\nund   Lücken. ".repeat(50);
        let all = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        for limit in [2, 3, 7, 20, 64, 4096] {
            let parts = split_text(&text, limit);
            assert!(parts.iter().all(|part| units(part) <= limit), "{limit}");
            assert_eq!(all(&parts.concat()), all(&text), "{limit}");
        }
    }
}
