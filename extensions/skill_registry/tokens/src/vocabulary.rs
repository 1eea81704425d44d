//! The vocabulary: byte strings in the order in which they were learned.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The tokens of o200k_base without the special ones, by rank: one byte with the length, then the
/// bytes. `cargo xtask o200k` converts the file from the one published by OpenAI; a test converts
/// it back and compares the hash.
static TOKENS: &[u8] = include_bytes!("../data/o200k_base.bin");

/// A map from byte strings to ranks.
#[derive(Debug)]
pub(crate) struct TokenVocabulary {
    ranks: HashMap<&'static [u8], u32>,
}

impl TokenVocabulary {
    /// Returns the rank of a byte string, or `None` if it is not a token.
    pub(crate) fn rank(&self, bytes: &[u8]) -> Option<u32> {
        self.ranks.get(bytes).copied()
    }
}

/// Returns the vocabulary of o200k_base, indexed at the first call.
pub(crate) fn o200k() -> &'static TokenVocabulary {
    static INDEX: LazyLock<TokenVocabulary> = LazyLock::new(|| {
        // The mean entry is slightly longer than 8 bytes, so the map does not grow.
        let mut ranks = HashMap::with_capacity(TOKENS.len() / 8);
        ranks.extend(tokens().zip(0..));
        TokenVocabulary { ranks }
    });
    &INDEX
}

/// Returns the tokens by rank.
fn tokens() -> impl Iterator<Item = &'static [u8]> {
    let mut rest = TOKENS;
    std::iter::from_fn(move || {
        let (&length, after) = rest.split_first()?;
        let (token, after) = after.split_at_checked(usize::from(length))?;
        rest = after;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// The SHA-256 that OpenAI's tiktoken expects of `o200k_base.tiktoken`.
    const PUBLISHED: &str = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d";

    #[test]
    fn table_matches_published_hash() {
        let mut hash = Sha256::new();
        for (rank, token) in tokens().enumerate() {
            hash.update(format!("{} {rank}\n", STANDARD.encode(token)));
        }
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, PUBLISHED);
    }

    #[test]
    fn every_byte_is_token() {
        let vocabulary = o200k();
        assert_eq!(vocabulary.ranks.len(), 199_998);
        for byte in 0..=u8::MAX {
            assert!(vocabulary.rank(&[byte]).is_some(), "{byte}");
        }
        assert_eq!(vocabulary.rank(b" the"), Some(290));
        assert_eq!(vocabulary.rank(b""), None);
    }
}
