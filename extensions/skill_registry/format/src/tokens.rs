//! Estimated token counts.

use std::fmt;
use std::iter::Sum;

use serde::Serialize;

/// The estimated number of tokens of a text: a quarter of its characters, rounded up.
///
/// The estimate needs no tokenizer and is used on every hot path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TokenCount(u32);

impl TokenCount {
    /// Estimates the tokens of a text.
    #[must_use]
    pub fn estimate(text: &str) -> Self {
        Self::from_chars(text.chars().count())
    }

    /// Estimates the tokens of a text with this many characters.
    #[must_use]
    pub fn from_chars(chars: usize) -> Self {
        Self(u32::try_from(chars.div_ceil(4)).unwrap_or(u32::MAX))
    }

    /// Returns the number of tokens.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for TokenCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Sum for TokenCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |total, count| Self(total.0.saturating_add(count.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_counts_characters_rounded_up() {
        let counts =
            ["", "a", "abcd", "abcde", "éééé", "技能技能技"].map(|t| TokenCount::estimate(t).get());
        assert_eq!(counts, [0, 1, 1, 2, 1, 2]);
    }

    #[test]
    fn sum_saturates() {
        let huge = TokenCount::from_chars(usize::MAX);
        assert_eq!(huge.get(), u32::MAX);
        assert_eq!([huge, TokenCount::estimate("a")].into_iter().sum::<TokenCount>(), huge);
        assert_eq!(TokenCount::estimate("abcde").to_string(), "2");
        assert_eq!(serde_json::to_value(TokenCount::estimate("abcde")).unwrap(), 2);
    }
}
