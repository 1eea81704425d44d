//! Stand-ins for lone surrogates, which a Python text can contain.

/// The first stand-in of a lone surrogate.
///
/// A Python text can contain half of a UTF-16 pair, which `"\ud83d"` in YAML produces; a Rust text
/// cannot. The last private-use characters of Unicode represent them, in the order of the
/// surrogates.
const STAND_INS: u32 = 0x10_f800;
const SURROGATES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;

/// Returns the stand-in of a surrogate, or `None` for other codes.
pub(super) fn surrogate_standin(code: u32) -> Option<char> {
    SURROGATES.contains(&code).then(|| char::from_u32(code - SURROGATES.start() + STAND_INS))?
}

/// Returns the code of a character; for a stand-in, the code of its surrogate.
pub(super) fn code_point(c: char) -> u32 {
    match u32::from(c) {
        code @ STAND_INS.. => code - STAND_INS + SURROGATES.start(),
        code => code,
    }
}

/// Returns `true` if Python can encode a text as UTF-8.
pub(super) fn is_encodable(text: &str) -> bool {
    !text.chars().any(|c| u32::from(c) >= STAND_INS)
}

/// Replaces every stand-in with the replacement character, so that a text can be printed.
pub(super) fn make_encodable(text: String) -> String {
    if is_encodable(&text) {
        return text;
    }
    let replaced = |c| if u32::from(c) >= STAND_INS { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(replaced).collect()
}
