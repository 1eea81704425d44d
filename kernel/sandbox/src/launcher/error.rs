//! The errors of the steps of a set-up.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::isolation::RefusalKind;

/// A step that failed. Nothing of the program ran.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SetupError {
    pub(super) kind: RefusalKind,
    pub(super) step: String,
    pub(super) message: String,
}

impl SetupError {
    pub(super) fn new(kind: RefusalKind, step: &str, message: impl Display) -> Self {
        Self { kind, step: step.to_owned(), message: message.to_string() }
    }

    /// Adds the outer step.
    pub(super) fn within(mut self, step: &str) -> Self {
        self.step = format!("{step}: {}", self.step);
        self
    }
}

/// A result with the step at which it occurred.
pub(super) trait StepContext<T> {
    /// Makes an error of the isolation out of any error.
    fn at(self, step: &str) -> Result<T, SetupError>;
}

impl<T, E: Display> StepContext<T> for Result<T, E> {
    fn at(self, step: &str) -> Result<T, SetupError> {
        self.map_err(|error| SetupError::new(RefusalKind::Isolation, step, error))
    }
}
