//! Unpredictable texts: tokens of buttons, and pairing codes.

use skillhost_files::{sha256_hex, to_hex};
use ulid::Ulid;

/// The characters of a code: without those that people confuse.
const CODE_ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
/// The number of characters of a code: 50 bits, for ten minutes and one person.
const CODE_CHARS: usize = 10;

/// Returns a token of 128 random bits.
pub(crate) fn new_button_token() -> String {
    to_hex(&random_bits().to_be_bytes())
}

/// Returns the hash of a token, which is stored in its place.
pub(crate) fn token_hash(token: &str) -> String {
    sha256_hex(token.as_bytes())
}

/// Returns a code in two groups.
pub(crate) fn new_pairing_code() -> String {
    let mut bits = random_bits();
    let mut code = String::with_capacity(CODE_CHARS + 1);
    for at in 0..CODE_CHARS {
        if at == CODE_CHARS / 2 {
            code.push('-');
        }
        // 32 characters take exactly five bits each.
        code.push(char::from(CODE_ALPHABET[(bits & 31) as usize]));
        bits >>= 5;
    }
    code
}

/// Returns whether a text has the form of a code.
pub(crate) fn is_pairing_code(text: &str) -> bool {
    let characters = text.bytes().filter(|byte| !matches!(byte, b'-' | b' '));
    let (mut count, mut is_code) = (0, true);
    for byte in characters {
        count += 1;
        is_code &= CODE_ALPHABET.contains(&byte.to_ascii_uppercase());
    }
    is_code && count == CODE_CHARS
}

/// Returns 128 random bits. A ULID has 80, behind its time.
fn random_bits() -> u128 {
    (Ulid::generate().random() << 64) | (Ulid::generate().random() & u128::from(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tokens_and_codes_differ() {
        let tokens: BTreeSet<String> = (0..1_000).map(|_| new_button_token()).collect();
        assert!(tokens.len() == 1_000 && tokens.iter().all(|token| token.len() == 32));
        // Both halves are random.
        assert_eq!(tokens.iter().map(|it| &it[..16]).collect::<BTreeSet<_>>().len(), 1_000);
        assert_eq!(tokens.iter().map(|it| &it[16..]).collect::<BTreeSet<_>>().len(), 1_000);
        let codes: BTreeSet<String> = (0..1_000).map(|_| new_pairing_code()).collect();
        assert!(codes.len() == 1_000 && codes.iter().all(|code| is_pairing_code(code)));
        assert!(
            is_pairing_code("abcde fghjk")
                && !is_pairing_code("hello")
                && !is_pairing_code("I0LO1")
        );
    }
}
