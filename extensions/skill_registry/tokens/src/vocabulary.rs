//! The vocabulary: byte strings in the order in which they were learnt.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The tokens of o200k_base without its special ones, by rank: one byte with the length, then the
/// bytes. `cargo xtask o200k` makes the file from the one that OpenAI publishes; a test turns it
/// back and compares the hash.
static TOKENS: &[u8] = include_bytes!("../data/o200k_base.bin");

/// Finds the rank of a byte string.
#[derive(Debug)]
pub(crate) struct TokenVocabulary {
    ranks: HashMap<&'static [u8], u32>,
}

impl TokenVocabulary {
    /// Returns the place of a byte string in the vocabulary; nothing if it is no token.
    pub(crate) fn rank(&self, bytes: &[u8]) -> Option<u32> {
        self.ranks.get(bytes).copied()
    }
}

/// Returns the vocabulary of o200k_base, indexed at the first call.
pub(crate) fn o200k() -> &'static TokenVocabulary {
    static INDEX: LazyLock<TokenVocabulary> = LazyLock::new(|| {
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

    /// What OpenAI's tiktoken expects of `o200k_base.tiktoken`.
    const PUBLISHED: &str = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d";

    #[test]
    fn the_table_is_the_published_one() {
        let mut hash = Sha256::new();
        for (rank, token) in tokens().enumerate() {
            hash.update(format!("{} {rank}\n", STANDARD.encode(token)));
        }
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, PUBLISHED);
    }

    #[test]
    fn every_byte_is_a_token_and_so_every_text_can_be_counted() {
        let vocabulary = o200k();
        assert_eq!(vocabulary.ranks.len(), 199_998);
        for byte in 0..=u8::MAX {
            assert!(vocabulary.rank(&[byte]).is_some(), "{byte}");
        }
        assert_eq!(vocabulary.rank(b" the"), Some(290));
        assert_eq!(vocabulary.rank(b""), None);
    }
}
