//! Cuts a text into words as BERT's basic tokeniser does.

use unicode_normalization::char::decompose_canonical;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// How many bytes of a text are read: what comes after them does not change its vector.
pub const MOST_BYTES: usize = 64 * 1024;

/// Calls `take` for every word: lower case, without accents; a punctuation mark and a Chinese
/// character is a word of its own. Controls and formats are not there at all.
pub(crate) fn for_each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    let mut alone = [0; 4];
    let end = text.floor_char_boundary(MOST_BYTES);
    for c in text[..end].chars() {
        match kind(c) {
            CharRole::Letter if c.is_ascii() => word.push(c.to_ascii_lowercase()),
            CharRole::Letter => decompose_canonical(c, |part| {
                if part.general_category() != GeneralCategory::NonspacingMark {
                    word.extend(part.to_lowercase());
                }
            }),
            CharRole::Nothing => {}
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

/// What a character does to the word before it.
enum CharRole {
    /// It goes on.
    Letter,
    /// It ends.
    Blank,
    /// It ends, and the character is a word.
    Alone,
    /// As if the character were not there.
    Nothing,
}

fn kind(c: char) -> CharRole {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => CharRole::Letter,
        ' ' | '\t' | '\n' | '\r' => CharRole::Blank,
        '\u{fffd}' => CharRole::Nothing,
        c if c.is_ascii_punctuation() => CharRole::Alone,
        c if is_chinese(c) => CharRole::Alone,
        c => match c.general_category_group() {
            GeneralCategoryGroup::Other => CharRole::Nothing,
            GeneralCategoryGroup::Punctuation => CharRole::Alone,
            GeneralCategoryGroup::Separator => CharRole::Blank,
            _ => CharRole::Letter,
        },
    }
}

/// The blocks that BERT counts as Chinese; kana and hangul are not among them.
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
    fn words_are_those_of_bert() {
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
            // The dot above goes with the accents, so no stray mark is left.
            ("İstanbul Straße", &["istanbul", "straße"]),
            ("e\u{301}te\u{301}", &["ete"]),
            ("日本語テスト ok", &["日", "本", "語", "テスト", "ok"]),
            // A voiced kana is a plain one and a mark.
            ("ガ", &["カ"]),
            // BERT takes hangul apart.
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
    fn a_long_text_is_read_to_a_whole_character() {
        let text = "é".repeat(MOST_BYTES);
        assert_eq!(all(&text), ["e".repeat(MOST_BYTES / 2)]);
        let text = format!("a{text}");
        assert_eq!(all(&text), [format!("a{}", "e".repeat(MOST_BYTES / 2 - 1))]);
    }
}
