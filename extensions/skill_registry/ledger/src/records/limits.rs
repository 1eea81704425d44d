//! Limits of what a ledger records.

use crate::records::error::{LedgerError, LedgerErrorKind};

/// The maximum number of undecided proposals for one skill.
pub(crate) const MAX_OPEN_PER_SKILL: u64 = 50;

/// The maximum number of undecided proposals in all.
pub(crate) const MAX_OPEN_TOTAL: u64 = 500;

/// The largest justification or reason, in bytes.
const MAX_REASON: usize = 8 << 10;

/// Checks the length of a reason; `what` names it in the message.
pub(crate) fn check_reason(what: &str, text: &str) -> Result<(), LedgerError> {
    if text.len() <= MAX_REASON {
        return Ok(());
    }
    Err(LedgerError::new(
        LedgerErrorKind::TooLarge,
        format!("{what} has {} bytes, at most {MAX_REASON} are possible", text.len()),
        "shorten it",
    ))
}
