//! The identifier of an extension.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of an extension: a lower-case letter, then up to 63 of `a-z`, `0-9`, `_` and `-`.
///
/// It also names the extension's directory, its data directory and its section in the settings, so
/// it is always a safe path component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ExtensionId(Box<str>);

/// An error for text that is not a valid [`ExtensionId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("extension id {text:?} must be {}", ExtensionId::RULE)]
pub struct ExtensionIdError {
    /// The rejected text.
    pub text: String,
}

impl ExtensionId {
    /// The maximum length of an id, in bytes.
    pub const MAX_LEN: usize = 64;
    /// The format of an id, in words that read after "must be".
    pub(crate) const RULE: &str =
        "a lower-case letter followed by at most 63 of `a-z`, `0-9`, `_` and `-`";
    /// The format of an id, as a regular expression.
    pub(crate) const PATTERN: &str = "^[a-z][a-z0-9_-]{0,63}$";

    /// Creates an id from valid `text`.
    ///
    /// # Errors
    /// [`ExtensionIdError`] if `text` violates the rule above.
    pub fn new(text: &str) -> Result<Self, ExtensionIdError> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        let has_valid_start = text.starts_with(|c: char| c.is_ascii_lowercase());
        if has_valid_start && text.len() <= Self::MAX_LEN && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(ExtensionIdError { text: text.to_owned() })
        }
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExtensionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` respects the width that tables ask for.
        f.pad(&self.0)
    }
}

impl TryFrom<String> for ExtensionId {
    type Error = ExtensionIdError;

    // Used by serde, so that an id from JSON is checked as well.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(&text)
    }
}

impl FromStr for ExtensionId {
    type Err = ExtensionIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl Borrow<str> for ExtensionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ExtensionId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for ExtensionId {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for ExtensionId {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_accepts_only_documented_alphabet() {
        let longest = "a".repeat(64);
        for good in ["a", "skill_registry", "skill-registry", "x9", longest.as_str()] {
            assert_eq!(ExtensionId::new(good).map(|id| id.to_string()), Ok(good.to_owned()));
        }
        let too_long = "a".repeat(65);
        let bad =
            ["", "9a", "_a", "-a", "A", "aB", "a b", "a/b", "a.b", "..", "é", "aé", &too_long];
        for text in bad {
            assert_eq!(ExtensionId::new(text), Err(ExtensionIdError { text: text.to_owned() }));
        }
    }

    #[test]
    fn serde_round_trip_checks_id() {
        let id = ExtensionId::new("echo").unwrap();
        assert_eq!(format!("{id:>6}|"), "  echo|");
        assert_eq!(serde_json::to_value(&id).unwrap(), serde_json::json!("echo"));
        assert_eq!(serde_json::from_str::<ExtensionId>("\"echo\"").unwrap(), id);
        assert!(serde_json::from_str::<ExtensionId>("\"../echo\"").is_err());
        assert_eq!(
            ExtensionId::new("No").unwrap_err().to_string(),
            "extension id \"No\" must be a lower-case letter followed by at most 63 of `a-z`, \
             `0-9`, `_` and `-`"
        );
    }
}
