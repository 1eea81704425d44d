//! The bearer token.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What requests have to carry; only a hash of it is kept.
#[derive(Clone)]
pub struct BearerToken([u8; 32]);

/// Why a text cannot be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It could be guessed.
    #[error("the bearer token has fewer than {} characters", BearerToken::MIN)]
    Short,
    /// No header could carry it.
    #[error("the bearer token has a character other than visible ASCII")]
    Character,
}

impl BearerToken {
    /// The fewest characters of a token.
    pub const MIN: usize = 16;

    /// Takes a text as the token; white space around it does not count.
    ///
    /// # Errors
    /// For a text that could be guessed or not be sent.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Character);
        }
        if text.len() < Self::MIN {
            return Err(TokenError::Short);
        }
        Ok(Self(Sha256::digest(text).into()))
    }

    /// Compares in a time that depends on the given text's length alone.
    #[must_use]
    pub fn matches(&self, given: &str) -> bool {
        self.0.ct_eq(Sha256::digest(given).as_slice()).into()
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = BearerToken::new(" 0123456789abcdef\n").unwrap();
        assert!(token.matches("0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0"] {
            assert!(!token.matches(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn what_could_be_guessed_is_no_token() {
        assert_eq!(BearerToken::new("").unwrap_err(), TokenError::Short);
        assert_eq!(BearerToken::new("0123456789abcde").unwrap_err(), TokenError::Short);
        assert_eq!(BearerToken::new("0123456789 abcdef").unwrap_err(), TokenError::Character);
        assert_eq!(BearerToken::new("0123456789äbcdef0").unwrap_err(), TokenError::Character);
    }
}
