//! The results of checks.

/// The result of a check.
pub(crate) enum CheckVerdict {
    Passed(String),
    Failed(String),
    Skipped(String),
}

/// A line of the table.
pub(crate) struct PeerRow {
    pub(crate) peer: &'static str,
    pub(crate) check: String,
    pub(crate) verdict: CheckVerdict,
}
