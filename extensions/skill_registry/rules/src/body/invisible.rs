//! Hidden characters, and the contexts in which they are legitimate.

use std::ops::Range;

use unicode_properties::{GeneralCategoryGroup, UnicodeEmoji, UnicodeGeneralCategory};

/// A kind of hidden character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HiddenCharKind {
    Tag,
    Bidi,
    ZeroWidth,
    Joiner,
    Filler,
    Control,
    Selector,
}

impl HiddenCharKind {
    /// Returns the plural name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tag => "tag characters",
            Self::Bidi => "bidirectional controls",
            Self::ZeroWidth => "characters without width",
            Self::Joiner => "joiners that join nothing",
            Self::Filler => "fillers",
            Self::Control => "control characters",
            Self::Selector => "variation selectors that select nothing",
        }
    }
}

/// Returns `true` if a text may have hidden characters; the context is not examined.
pub(crate) fn has_invisible(text: &str) -> bool {
    // Most texts are mostly ASCII, which is skipped a chunk at a time.
    const CHUNK: usize = 64;
    text.as_bytes().chunks(CHUNK).enumerate().any(|(number, chunk)| {
        // A fold without an early exit lets the compiler vectorize the loop.
        let odd = chunk.iter().fold(false, |any, &byte| any | is_odd_ascii(byte));
        let hides = |at: usize| text[at..].chars().next().is_some_and(|c| hidden_kind(c).is_some());
        // Bytes from 0xC0 start a character of several bytes, even across chunks.
        let mut starts = (number * CHUNK..).zip(chunk).filter(|(_, byte)| **byte >= 0xC0);
        odd || (!chunk.is_ascii() && starts.any(|(at, _)| hides(at)))
    })
}

/// Returns the hidden characters of a line that are not legitimate there, in order; a run of one
/// kind is one range.
pub(crate) fn find_hidden(line: &str) -> Vec<(Range<usize>, HiddenCharKind)> {
    let mut found: Vec<(Range<usize>, HiddenCharKind)> = Vec::new();
    if !has_invisible(line) {
        return found;
    }
    // Marks and zero-width spaces are legitimate anywhere in a line of such a script.
    let right_to_left = line.chars().any(is_right_to_left);
    let spaceless = line.chars().any(is_spaceless);
    let mut before = None;
    // An emoji flag such as Scotland's is a black flag, tag characters, and a closing tag.
    let mut in_flag = false;
    for (at, c) in line.char_indices() {
        let rest = &line[at + c.len_utf8()..];
        in_flag = match c {
            '\u{1F3F4}' => is_flag(rest),
            '\u{E0020}'..='\u{E007F}' => in_flag,
            _ => false,
        };
        let kind = hidden_kind(c).filter(|kind| match kind {
            HiddenCharKind::Tag => !in_flag,
            HiddenCharKind::Bidi => !(right_to_left && is_direction_mark(c)),
            HiddenCharKind::ZeroWidth => !(spaceless && c == '\u{200B}'),
            HiddenCharKind::Joiner => !is_valid_joiner(before, c, rest.chars().next()),
            HiddenCharKind::Selector => !is_valid_selector(before, c),
            HiddenCharKind::Filler | HiddenCharKind::Control => true,
        });
        if let Some(kind) = kind {
            let end = at + c.len_utf8();
            match found.last_mut() {
                Some((range, last)) if *last == kind && range.end == at => range.end = end,
                _ => found.push((at..end, kind)),
            }
        }
        before = Some(c);
    }
    found
}

fn hidden_kind(c: char) -> Option<HiddenCharKind> {
    Some(match c {
        '\u{E0000}'..='\u{E007F}' => HiddenCharKind::Tag,
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{61C}' => {
            HiddenCharKind::Bidi
        }
        '\u{200B}' | '\u{2060}' | '\u{FEFF}' | '\u{180E}' | '\u{AD}' => HiddenCharKind::ZeroWidth,
        '\u{200C}' | '\u{200D}' => HiddenCharKind::Joiner,
        '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' | '\u{2061}'..='\u{2064}' => {
            HiddenCharKind::Filler
        }
        '\u{206A}'..='\u{206F}' | '\u{FFF9}'..='\u{FFFB}' | '\u{2028}' | '\u{2029}' => {
            HiddenCharKind::Control
        }
        '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' => HiddenCharKind::Selector,
        '\u{80}'..='\u{9F}' => HiddenCharKind::Control,
        c if u8::try_from(c).is_ok_and(is_odd_ascii) => HiddenCharKind::Control,
        _ => return None,
    })
}

fn is_odd_ascii(byte: u8) -> bool {
    (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')) || byte == 0x7F
}

fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{61C}')
}

fn is_right_to_left(c: char) -> bool {
    matches!(u32::from(c), 0x590..=0x8FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFE | 0x1_0800..=0x1_0FFF | 0x1_E800..=0x1_EFFF)
        // The range includes a control (U+061C), which must not justify itself.
        && !matches!(hidden_kind(c), Some(HiddenCharKind::Bidi))
}

/// Returns `true` for scripts without blanks, in which a zero-width space separates words: Thai,
/// Lao, Burmese, Khmer.
fn is_spaceless(c: char) -> bool {
    matches!(u32::from(c), 0xE00..=0xEFF | 0x1000..=0x109F | 0x1780..=0x17FF)
}

/// Returns `true` for scripts with joiners: Arabic and related scripts, the scripts of India and
/// South-East Asia, Mongolian.
fn uses_joiners(c: char) -> bool {
    matches!(u32::from(c), 0x600..=0x8FF | 0x900..=0xDFF | 0xE00..=0x109F | 0x1780..=0x18AF | 0xFB50..=0xFDFF | 0xFE70..=0xFEFE | 0xA800..=0xABFF)
}

/// Returns `true` if a joiner is between two characters that it can join, or after a letter of a
/// script in which it also ends words.
fn is_valid_joiner(before: Option<char>, c: char, after: Option<char>) -> bool {
    let emoji = |c: char| c.is_emoji_char_or_emoji_component() && !c.is_ascii();
    match (before, after) {
        (Some(before), _) if uses_joiners(before) => true,
        (Some(before), Some(after)) => c == '\u{200D}' && emoji(before) && emoji(after),
        _ => false,
    }
}

/// Returns `true` if a variation selector follows a character with variants.
fn is_valid_selector(before: Option<char>, c: char) -> bool {
    let Some(before) = before else { return false };
    // A chain of selectors can hide data; only the first one has an effect.
    if matches!(hidden_kind(before), Some(HiddenCharKind::Selector)) {
        return false;
    }
    let ideograph =
        matches!(u32::from(before), 0x2E80..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF);
    // Some symbols that form emoji, such as the information sign, are in the group of letters.
    let letter = matches!(before.general_category_group(), GeneralCategoryGroup::Letter)
        && !before.is_emoji_char();
    match c {
        '\u{FE0E}' | '\u{FE0F}' => !letter && !before.is_whitespace() && !before.is_control(),
        '\u{FE00}'..='\u{FE0D}' => !before.is_ascii() || before.is_ascii_digit(),
        _ => ideograph,
    }
}

/// Returns `true` if the text after a black flag is a flag sequence: three to six letters or
/// digits as tags, and the closing tag.
fn is_flag(rest: &str) -> bool {
    let tags = rest
        .chars()
        .take_while(|c| matches!(c, '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}'))
        .count();
    (3..=6).contains(&tags) && rest.chars().nth(tags) == Some('\u{E007F}')
}

#[cfg(test)]
mod tests;
