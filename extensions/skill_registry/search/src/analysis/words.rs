//! The splitting of a folded text into words.

use unicode_normalization::char::is_combining_mark;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// Calls a function with each word, in lower case. ASCII, scripts with spaces between words, and
/// scripts without (as overlapping pairs of characters) are separated from each other.
pub(super) fn for_each_word(text: &str, mut each: impl FnMut(&str)) {
    let bytes = text.as_bytes();
    let mut word = String::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if !byte.is_ascii() {
            flush_word(&mut word, &mut each);
            at += read_non_ascii(&text[at..], &mut each);
            continue;
        }
        at += 1;
        if byte.is_ascii_alphanumeric() {
            word.push(char::from(byte.to_ascii_lowercase()));
            continue;
        }
        match match_symbol_name(byte, &bytes[at..], &word) {
            Some((rest, more)) => {
                word.push_str(rest);
                at += more;
            }
            None => flush_word(&mut word, &mut each),
        }
    }
    flush_word(&mut word, &mut each);
}

fn flush_word(word: &mut String, each: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        each(word);
        word.clear();
    }
}

/// Matches names with signs: returns the text that a sign adds to the word before it, and the
/// number of further bytes of the name.
fn match_symbol_name(sign: u8, after: &[u8], word: &str) -> Option<(&'static str, usize)> {
    let follows = |name: &str| {
        after.get(..name.len()).is_some_and(|next| next.eq_ignore_ascii_case(name.as_bytes()))
    };
    match sign {
        // Without these names, `c++`, `c#` and `.net` would be lost as single letters and signs.
        b'+' if word.ends_with('c') && follows("+") => Some(("plusplus", 1)),
        b'#' if word.ends_with('c') => Some(("sharp", 0)),
        b'.' if follows("net") => Some(("dotnet", 3)),
        b'.' if follows("js") && ["node", "next", "vue"].iter().any(|it| word.ends_with(it)) => {
            Some(("js", 2))
        }
        _ => None,
    }
}

/// Passes on the words in the leading run of characters outside ASCII and returns its length in
/// bytes.
fn read_non_ascii(text: &str, each: &mut impl FnMut(&str)) -> usize {
    let end = text.find(|c: char| c.is_ascii()).unwrap_or(text.len());
    let mut rest = &text[..end];
    while let Some(first) = rest.chars().next() {
        let kind = CharClass::classify(first);
        let same = |c: char| {
            // Vowel signs and points belong to the letter before them.
            CharClass::classify(c) == kind || (kind != CharClass::Sign && is_combining_mark(c))
        };
        let length = rest.find(|c| !same(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        match kind {
            CharClass::Sign => {}
            CharClass::Apart => each(run),
            CharClass::Together => for_each_pair(run, each),
        }
        rest = after;
    }
    end
}

fn for_each_pair(run: &str, each: &mut impl FnMut(&str)) {
    let starts = || run.char_indices().map(|(at, _)| at);
    let ends = starts().skip(2).chain(std::iter::once(run.len()));
    for (start, end) in starts().zip(ends) {
        each(&run[start..end]);
    }
}

/// The class of a character outside ASCII.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    /// A separator of words.
    Sign,
    /// A letter of a script with spaces between words.
    Apart,
    /// A letter of a script without spaces between words.
    Together,
}

impl CharClass {
    fn classify(c: char) -> Self {
        match c {
            // Thai, Lao; Burmese; Khmer; kana; Han; hangul; Han again.
            '\u{0e00}'..='\u{0eff}'
            | '\u{1000}'..='\u{109f}'
            | '\u{1780}'..='\u{17ff}'
            | '\u{3040}'..='\u{30ff}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
                if is_letter_or_digit(c) || is_combining_mark(c) =>
            {
                Self::Together
            }
            c if is_letter_or_digit(c) => Self::Apart,
            _ => Self::Sign,
        }
    }
}

/// Returns whether a character belongs to a word. Circled or raised numbers do not.
fn is_letter_or_digit(c: char) -> bool {
    c.is_alphabetic() || c.general_category() == GeneralCategory::DecimalNumber
}
