//! The errors of a kernel in this process, as errors of the command line.

use skillhost_agents::RunError;
use skillhost_control::SupervisorLockError;
use skillhost_conversation::ModelErrorKind;
use skillhost_core::KernelError;
use skillhost_terminal::{CliError, exit};

/// Converts an error of the kernel.
#[expect(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
pub(crate) fn kernel_error(error: KernelError) -> CliError {
    CliError::from_kind(error.kind(), &error.to_string(), &error.hint())
}

/// Converts an error of a run.
pub(crate) fn run_error(error: RunError) -> CliError {
    let kind = error.kind();
    match error {
        RunError::Cancelled => CliError::new(exit::INTERRUPTED, error.to_string()),
        RunError::Thread(error) => error.into(),
        RunError::Agent(error) => kernel_error(error),
        RunError::Model(error) => {
            let failed = CliError::from_kind(kind, &error.to_string(), &error.hint);
            // An error of a known model is not a mistake in the command line.
            failed.with_code(match error.kind {
                ModelErrorKind::Unknown => exit::NOT_FOUND,
                ModelErrorKind::Key => exit::IO,
                _ => exit::FINDINGS,
            })
        }
        error => CliError::from_kind(kind, &error.to_string(), &error.hint()),
    }
}

/// Converts an error of the lock of a supervisor.
pub(crate) fn supervisor_lock_error(error: SupervisorLockError) -> CliError {
    let message = error.to_string();
    match error {
        SupervisorLockError::Held { .. } => {
            CliError::new(exit::CONFLICT, message).with_hint(CliError::running_kernel_hint())
        }
        SupervisorLockError::Io { path, source } => CliError::io(&path, &source),
    }
}
