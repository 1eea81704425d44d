//! The state of the channel that other calls read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use skillhost_sdk::prelude::*;

/// The connection to the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// No token is set, or this kernel does not receive messages.
    Off,
    /// The last request succeeded.
    Online,
    /// Requests fail.
    Failing { message: String, hint: String },
}

/// The account and the connection.
#[derive(Debug)]
pub(crate) struct BotState {
    inner: Mutex<(String, ConnectionState)>,
}

impl Default for BotState {
    fn default() -> Self {
        Self { inner: Mutex::new((String::new(), ConnectionState::Off)) }
    }
}

impl BotState {
    fn lock(&self) -> MutexGuard<'_, (String, ConnectionState)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the id of the bot; empty without a token.
    pub(crate) fn account(&self) -> String {
        self.lock().0.clone()
    }

    pub(crate) fn set_account(&self, id: &str) {
        let mut inner = self.lock();
        if inner.0 != id {
            inner.0 = id.to_owned();
        }
    }

    /// Stores the state of the connection; logs a change of it.
    pub(crate) fn set_connection(&self, connection: ConnectionState) {
        let mut inner = self.lock();
        if inner.1 == connection {
            // A failure that repeats is logged once.
            return;
        }
        match &connection {
            ConnectionState::Off => tracing::debug!("messages are not received here"),
            ConnectionState::Online => tracing::info!("messages are received"),
            ConnectionState::Failing { message, .. } => tracing::warn!("{message}"),
        }
        inner.1 = connection;
    }

    /// Checks that requests succeed, where there are any.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] with the reason for which they fail.
    pub(crate) fn check_health(&self) -> Result<()> {
        match &self.lock().1 {
            ConnectionState::Off | ConnectionState::Online => Ok(()),
            ConnectionState::Failing { message, hint } => {
                Err(ExtensionError::new(ErrorKind::Unavailable, message.clone())
                    .with_hint(hint.clone()))
            }
        }
    }
}
