//! The bearer token of the HTTP server.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// A bearer token that requests must send; only its hash is stored.
#[derive(Clone)]
pub struct BearerToken([u8; 32]);

/// An error for a text that is not a valid token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is short enough to be guessed.
    #[error("bearer token requires at least {} characters", BearerToken::MIN)]
    Short,
    /// The token cannot be sent in a header.
    #[error("bearer token requires visible ASCII characters")]
    Character,
}

impl BearerToken {
    /// The minimum length of a token, in characters.
    pub const MIN: usize = 16;

    /// Creates a token from a text without its surrounding white space.
    ///
    /// # Errors
    /// [`TokenError`] for a text that is too short or cannot be sent in a header.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        // Token files usually end with a line break.
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Character);
        }
        if text.len() < Self::MIN {
            return Err(TokenError::Short);
        }
        Ok(Self(Sha256::digest(text).into()))
    }

    /// Returns the hash, which identifies the holders of the token.
    pub(crate) fn hash(&self) -> &[u8; 32] {
        let Self(hash) = self;
        hash
    }

    /// Compares with a given text in a time that depends on the length of that text alone.
    #[must_use]
    pub fn matches(&self, given: &str) -> bool {
        self.0.ct_eq(Sha256::digest(given).as_slice()).into()
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not even the hash belongs into a log.
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_token_matches() {
        let token = BearerToken::new(" 0123456789abcdef\n").unwrap();
        assert!(token.matches("0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0"] {
            assert!(!token.matches(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn weak_token_is_rejected() {
        assert_eq!(BearerToken::new("").unwrap_err(), TokenError::Short);
        assert_eq!(BearerToken::new("0123456789abcde").unwrap_err(), TokenError::Short);
        assert_eq!(BearerToken::new("0123456789 abcdef").unwrap_err(), TokenError::Character);
        assert_eq!(BearerToken::new("0123456789äbcdef0").unwrap_err(), TokenError::Character);
    }
}
