//! Texts as PostgreSQL stores them: its texts have no character 0.

use std::borrow::Cow;

/// The first character of every replacement; it is replaced itself.
const ESCAPE: char = '\u{1}';

/// Returns a text without the character 0; different texts stay different.
pub(super) fn encode_text(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1}1").replace('\0', "\u{1}0"))
}

/// Returns the text that was encoded.
pub(super) fn decode_text(text: String) -> String {
    match text.contains(ESCAPE) {
        true => text.replace("\u{1}0", "\0").replace("\u{1}1", "\u{1}"),
        false => text,
    }
}

/// Returns an optional text without the character 0.
pub(super) fn encode_optional(text: Option<&str>) -> Option<Cow<'_, str>> {
    text.map(encode_text)
}

/// Returns a number of the state machine; greater ones than the database has become its greatest.
pub(super) fn to_bigint(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a number of the database, which stores no negative ones.
pub(super) fn from_bigint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_is_decoded() {
        for text in ["", "plain", "\0", "\u{1}", "\u{1}0", "a\0\u{1}1\0b", "\u{1}\u{1}0\0"] {
            let encoded = encode_text(text).into_owned();
            assert!(!encoded.contains('\0'), "{text:?}");
            assert_eq!(decode_text(encoded), text);
        }
        assert_ne!(encode_text("\0"), encode_text("\u{1}0"));
    }
}
