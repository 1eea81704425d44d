//! The folding of case, accents and character forms.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{canonical_combining_class, decompose_canonical};

use super::TextAnalyzer;

/// Replaces characters outside ASCII by their folded forms. ASCII stays unchanged; the word
/// splitter lower-cases it.
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
            // Composition first: `e` with a combining accent and `é` must fold alike.
            for c in text.chars().flat_map(plain_forms).nfc() {
                push_folded(c, &mut folded);
            }
        }
    }
    Cow::Owned(folded)
}

/// Returns the ASCII in the Unicode case folding of a character, with a blank for the rest of it.
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

/// Returns the plain forms of a letter or digit in a special form: full or half width, ligatures.
/// Other signs stay unchanged, or a trade mark would become the letters tm.
fn plain_forms(c: char) -> impl Iterator<Item = char> {
    let special = matches!(c, '\u{fb00}'..='\u{fb4f}' | '\u{ff00}'..='\u{ffef}');
    let (plain, itself) = match special {
        true => (Some(std::iter::once(c).nfkc()), None),
        false => (None, Some(c)),
    };
    plain.into_iter().flatten().chain(itself)
}

/// Appends a character in lower case and without its accents.
fn push_folded(c: char, folded: &mut String) {
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
            // Joiners and soft hyphens occur within words and must not split them.
            '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => {}
            c if is_accent(c) => {}
            c => folded.push(base_letter(c)),
        }
    }
}

/// Returns the letter below the accents, or the character itself if its marks make it another
/// letter, as in kana.
fn base_letter(c: char) -> char {
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

/// Returns whether a character is an accent of Latin, Greek or Cyrillic, or a Hebrew or Arabic point.
fn is_accent(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{64b}'..='\u{65f}' | '\u{670}'
    ) && canonical_combining_class(c) != 0
}
