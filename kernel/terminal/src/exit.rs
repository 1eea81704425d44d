//! The exit codes of the program.

/// The command succeeded.
pub const OK: u8 = 0;
/// The command worked and reported findings.
pub const FINDINGS: u8 = 1;
/// The command line, settings or arguments are not valid.
pub const USAGE: u8 = 2;
/// The named item does not exist.
pub const NOT_FOUND: u8 = 3;
/// The current state does not allow the command.
pub const CONFLICT: u8 = 4;
/// A file, a directory, a permission or missing trust.
pub const IO: u8 = 5;
/// The run waits for a decision; its reply follows in the thread.
pub(crate) const PARKED: u8 = 6;
/// A supervised kernel reached its restart limit.
pub const CRASHED: u8 = 70;
/// A kernel requests a restart from its supervisor.
pub const RESTART: u8 = skillhost_control::RESTART_CODE;
/// Interrupted by Ctrl-C.
pub const INTERRUPTED: u8 = 130;
