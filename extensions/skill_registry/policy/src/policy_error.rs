//! An error in the text of a policy.

/// An error in a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct PolicyError {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// The message: a lower-case fragment without a final period.
    pub message: String,
    /// The suggested correction, if there is one.
    pub help: Option<String>,
}
