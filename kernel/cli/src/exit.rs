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
/// A supervised kernel crashed so often that it is not started again.
pub(crate) const CRASHED: u8 = 70;
/// A kernel wants to be started again, by whoever supervises it.
pub(crate) const RESTART: u8 = skillhost_kernel::supervision::RESTART_CODE;
/// Interrupted by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
