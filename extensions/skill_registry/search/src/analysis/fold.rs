//! Case, accents and forms of characters.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{canonical_combining_class, decompose_canonical};

use super::TextAnalyzer;

/// Replaces characters outside ASCII by what stands for them. ASCII is left as it is: whoever cuts
/// the words lower-cases it.
pub(super) fn fold_text(analysis: TextAnalyzer, text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len());
    match analysis {
        TextAnalyzer::Reference => {
            for c in text.chars() {
                match c {
                    c if c.is_ascii() => folded.push(c),
                    c => folded.push_str(ascii_case_fold(c)),
                }
            }
        }
        TextAnalyzer::Standard => {
            for c in text.chars().flat_map(compatible).nfc() {
                standard(c, &mut folded);
            }
        }
    }
    Cow::Owned(folded)
}

/// The ASCII in the Unicode case folding of a character, a blank for the rest of it.
fn ascii_case_fold(c: char) -> &'static str {
    match c {
        'ß' | 'ẞ' => "ss",
        'ſ' => "s",
        '\u{212a}' => "k",
        'ﬀ' => "ff",
        'ﬁ' => "fi",
        'ﬂ' => "fl",
        'ﬃ' => "ffi",
        'ﬄ' => "ffl",
        'ﬅ' | 'ﬆ' => "st",
        'İ' => "i ",
        'ŉ' => " n",
        'ǰ' => "j ",
        'ẖ' => "h ",
        'ẗ' => "t ",
        'ẘ' => "w ",
        'ẙ' => "y ",
        'ẚ' => "a ",
        _ => " ",
    }
}

/// The plain forms of a letter or digit that has a special one: full or half width, ligatures.
/// Signs keep theirs, or a trade mark would end in the letters tm.
fn compatible(c: char) -> impl Iterator<Item = char> {
    let special = matches!(c, '\u{fb00}'..='\u{fb4f}' | '\u{ff00}'..='\u{ffef}');
    let (plain, itself) = match special {
        true => (Some(std::iter::once(c).nfkc()), None),
        false => (None, Some(c)),
    };
    plain.into_iter().flatten().chain(itself)
}

/// Writes a character in lower case and without its accents.
fn standard(c: char, folded: &mut String) {
    if c.is_ascii() {
        return folded.push(c);
    }
    for c in c.to_lowercase() {
        match c {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'þ' => folded.push_str("th"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'ħ' => folded.push('h'),
            'ı' => folded.push('i'),
            'ſ' => folded.push('s'),
            'ς' => folded.push('σ'),
            // Joiners and soft hyphens stand inside of words.
            '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => {}
            c if is_accent(c) => {}
            c => folded.push(base(c)),
        }
    }
}

/// The letter below the accents; the character itself where its marks make it another letter, as in
/// kana.
fn base(c: char) -> char {
    let (mut base, mut accents) = (None, true);
    decompose_canonical(c, |part| match base {
        None => base = Some(part),
        Some(_) => accents &= is_accent(part),
    });
    match base {
        Some(base) if accents => base,
        _ => c,
    }
}

/// Accents of Latin, Greek and Cyrillic, points of Hebrew and of Arabic.
fn is_accent(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{64b}'..='\u{65f}' | '\u{670}'
    ) && canonical_combining_class(c) != 0
}
