//! The exit codes, one place for all of them.

/// Everything went well.
pub(crate) const OK: u8 = 0;
/// The command worked and found something wrong with what it looked at.
pub(crate) const FINDINGS: u8 = 1;
/// The command line, settings or arguments say something they may not.
pub(crate) const USAGE: u8 = 2;
/// The thing named does not exist.
pub(crate) const NOT_FOUND: u8 = 3;
/// The state is not what the command assumes.
pub(crate) const CONFLICT: u8 = 4;
/// A file, a directory, a permission or a missing trust.
pub(crate) const IO: u8 = 5;
/// Interrupted by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
