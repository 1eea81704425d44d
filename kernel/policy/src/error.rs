//! The reasons why a policy is not valid.

use crate::allowed_entry::UnusableEntry;
use crate::domain::DomainError;

/// The reason why a policy is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The text is not JSON of the expected shape.
    #[error("the policy is not valid: {reason}")]
    Shape {
        /// The reason of the parser, with the key.
        reason: String,
    },
    /// A key would weaken the isolation in a way that is not supported.
    #[error("`{key}` is not supported: {reason}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// The alternative.
        reason: &'static str,
    },
    /// A path is not valid.
    #[error("`{key}`: the path `{path}` is not valid: {reason}")]
    Path {
        /// The list.
        key: &'static str,
        /// The entry.
        path: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// A path that the operator allows cannot be used.
    #[error(transparent)]
    Unusable(Box<UnusableEntry>),
    /// A domain is not valid.
    #[error("`{key}`: {source}")]
    Domain {
        /// The list.
        key: &'static str,
        /// The reason.
        source: DomainError,
    },
}

impl PolicyError {
    /// Returns the remedy, or another one if the error has none of its own.
    #[must_use]
    pub fn hint_or(&self, other: &str) -> String {
        match self {
            Self::Unusable(entry) => entry.hint().to_owned(),
            _ => other.to_owned(),
        }
    }
}
