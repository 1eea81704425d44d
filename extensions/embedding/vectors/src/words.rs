//! The splitting of a text into words, like BERT's basic tokenizer.

use unicode_normalization::char::decompose_canonical;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// The maximum number of bytes of a text that are read; the rest does not change its vector.
pub const MAX_BYTES: usize = 64 * 1024;

/// Calls `take` for every word, in lower case and without accents. Every punctuation mark and
/// Chinese character is a separate word. Control and format characters are dropped.
pub(crate) fn for_each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    let mut alone = [0; 4];
    let end = text.floor_char_boundary(MAX_BYTES);
    for c in text[..end].chars() {
        match char_role(c) {
            CharRole::Letter if c.is_ascii() => word.push(c.to_ascii_lowercase()),
            // BERT decomposes before it lower-cases, so `İ` loses its dot.
            CharRole::Letter => decompose_canonical(c, |part| {
                if part.general_category() != GeneralCategory::NonspacingMark {
                    word.extend(part.to_lowercase());
                }
            }),
            CharRole::Ignored => {}
            CharRole::Blank => flush_word(&mut word, &mut take),
            CharRole::Alone => {
                flush_word(&mut word, &mut take);
                take(c.encode_utf8(&mut alone));
            }
        }
    }
    flush_word(&mut word, &mut take);
}

fn flush_word(word: &mut String, take: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        take(word);
        word.clear();
    }
}

/// The role of a character in words.
enum CharRole {
    /// Continues the word.
    Letter,
    /// Ends the word.
    Blank,
    /// Ends the word and is a word itself.
    Alone,
    /// Ignored.
    Ignored,
}

fn char_role(c: char) -> CharRole {
    match c {
        // ASCII needs no table lookup and is by far the most frequent.
        'a'..='z' | 'A'..='Z' | '0'..='9' => CharRole::Letter,
        ' ' | '\t' | '\n' | '\r' => CharRole::Blank,
        '\u{fffd}' => CharRole::Ignored,
        c if c.is_ascii_punctuation() => CharRole::Alone,
        c if is_chinese(c) => CharRole::Alone,
        c => match c.general_category_group() {
            GeneralCategoryGroup::Other => CharRole::Ignored,
            GeneralCategoryGroup::Punctuation => CharRole::Alone,
            GeneralCategoryGroup::Separator => CharRole::Blank,
            _ => CharRole::Letter,
        },
    }
}

/// Returns whether BERT treats a character as Chinese; kana and hangul are not.
fn is_chinese(c: char) -> bool {
    matches!(
        c,
        '\u{4e00}'..='\u{9fff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{20000}'..='\u{2a6df}'
            | '\u{2a700}'..='\u{2ceaf}'
            | '\u{f900}'..='\u{faff}'
            | '\u{2f800}'..='\u{2fa1f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each_word(text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn words_match_bert() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  Hello\tWorld\r\n", &["hello", "world"]),
            ("don't re-run C++!", &["don", "'", "t", "re", "-", "run", "c", "+", "+", "!"]),
            (
                "node.js v1.2 a_b $5 ^x `y`",
                &[
                    "node", ".", "js", "v1", ".", "2", "a", "_", "b", "$", "5", "^", "x", "`", "y",
                    "`",
                ],
            ),
            ("Crème BRÛLÉE naïve Ångström", &["creme", "brulee", "naive", "angstrom"]),
            // The dot above is removed with the accents, so no stray mark is left.
            ("İstanbul Straße", &["istanbul", "straße"]),
            ("e\u{301}te\u{301}", &["ete"]),
            ("日本語テスト ok", &["日", "本", "語", "テスト", "ok"]),
            // A voiced kana decomposes to a plain one and a mark.
            ("ガ", &["カ"]),
            // BERT decomposes hangul.
            ("한국", &["\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"]),
            ("Привет, мир…", &["привет", ",", "мир", "…"]),
            ("“quoted” — dash¿", &["“", "quoted", "”", "—", "dash", "¿"]),
            ("مرحبا\u{200f} שלום", &["مرحبا", "שלום"]),
            ("a\0b\u{fffd}c\u{200d}d\u{7}e", &["abcde"]),
            ("x\u{a0}y\u{3000}z\u{2028}w", &["x", "y", "z", "w"]),
            ("🎉party ½ €", &["🎉party", "½", "€"]),
        ];
        for (text, expected) in cases {
            assert_eq!(all(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn long_text_ends_at_character() {
        let text = "é".repeat(MAX_BYTES);
        assert_eq!(all(&text), ["e".repeat(MAX_BYTES / 2)]);
        let text = format!("a{text}");
        assert_eq!(all(&text), [format!("a{}", "e".repeat(MAX_BYTES / 2 - 1))]);
    }
}
