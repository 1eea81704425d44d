//! The state of a console that listens.

use skillhost_kernel::Kernel;

use crate::login_table::LoginTable;

/// A console that listens.
pub(crate) struct ConsoleState {
    pub(crate) kernel: Kernel,
    pub(crate) logins: LoginTable,
    /// The name of the session's cookie; each home has another one.
    pub(crate) cookie_name: String,
    /// The value that `Host` must have.
    pub(crate) authority: String,
    /// The value that `Origin` must have.
    pub(crate) origin: String,
}

impl ConsoleState {
    /// Returns whether browsers reach the console through TLS.
    pub(crate) fn is_public(&self) -> bool {
        self.origin.starts_with("https://")
    }
}
