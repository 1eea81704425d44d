//! Counts in sentences.

/// Formats a count: `1 request`, `2 requests`.
pub(crate) fn pluralize(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
