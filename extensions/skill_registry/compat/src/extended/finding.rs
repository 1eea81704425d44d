//! The findings in the extended declarations.

use yaml_tree::Span;

/// A finding in an extended declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedFinding {
    /// The id of the rule.
    pub rule: &'static str,
    /// The position; for a value inside a text that is not a block, the start of the text.
    pub at: Span,
    /// The message: a lower-case fragment without a final period that quotes untrusted text.
    pub message: String,
    /// The hint on how to fix it.
    pub help: String,
    /// Whether only profile `skillscraft` reports it.
    pub strict: bool,
}
