//! The state of the service that the health check reads.

use std::sync::{Mutex, PoisonError};

use skillhost_sdk::prelude::*;

/// The failure of the service, if it has one.
#[derive(Debug, Default)]
pub(crate) struct ServiceState(Mutex<Option<(String, String)>>);

impl ServiceState {
    /// Stores the failure; logs a new one.
    pub(crate) fn set_failure(&self, failure: Option<&ExtensionError>) {
        let failure = failure.map(|error| (error.message().to_owned(), error.hint().to_owned()));
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A failure that repeats is logged once.
        if let Some((message, _)) = failure.as_ref().filter(|_| *state != failure) {
            tracing::warn!("{message}");
        }
        *state = failure;
    }

    /// Checks that the service works.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] with the failure.
    pub(crate) fn check_health(&self) -> Result<()> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((message, hint)) => {
                let error = ExtensionError::new(ErrorKind::Unavailable, message.clone());
                Err(error.with_hint(hint.clone()))
            }
        }
    }
}
