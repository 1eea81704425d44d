//! The exit codes of the program.

/// The command succeeded.
pub(crate) const OK: u8 = 0;
/// The command worked and reported findings.
pub(crate) const FINDINGS: u8 = 1;
/// The command line, settings or arguments are not valid.
pub(crate) const USAGE: u8 = 2;
/// The named item does not exist.
pub(crate) const NOT_FOUND: u8 = 3;
/// The current state does not allow the command.
pub(crate) const CONFLICT: u8 = 4;
/// A file, a directory, a permission or missing trust.
pub(crate) const IO: u8 = 5;
/// A supervised kernel reached its restart limit.
pub(crate) const CRASHED: u8 = 70;
/// A kernel requests a restart from its supervisor.
pub(crate) const RESTART: u8 = skillhost_kernel::supervision::RESTART_CODE;
/// Interrupted by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
