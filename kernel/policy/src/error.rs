//! The reasons why a policy is not valid.

use crate::domain::InvalidDomain;

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
    /// A domain is not valid.
    #[error("`{key}`: {source}")]
    Domain {
        /// The list.
        key: &'static str,
        /// The reason.
        source: InvalidDomain,
    },
}
