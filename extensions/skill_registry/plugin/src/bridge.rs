//! The border between the registry and the kernel: threads, errors, results and log lines.

use skill_catalog::RegistryError;
use skill_service::{LogMessage, ToolAnswer};
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio;

/// Runs work that blocks on the disk on a thread where it delays no other call.
///
/// The thread stays the same, so a call costs no switch; the runtime moves its other tasks
/// elsewhere.
pub(crate) fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// Converts an error of the registry into one of the kernel.
pub(crate) fn to_extension_error(error: impl Into<RegistryError>) -> ExtensionError {
    let error = error.into();
    ExtensionError::new(error.kind, error.message).with_hint(error.hint.to_string())
}

/// Converts a result into the kernel's type.
pub(crate) fn to_tool_output(answer: ToolAnswer) -> Result<ToolOutput> {
    let skill = answer.skill();
    let output = ToolOutput::text(answer.text).with_structured(&answer.structured)?;
    Ok(match skill {
        Some((skill_id, digest)) => output.with_skill(skill_id, digest),
        None => output,
    })
}

/// Logs the messages.
pub(crate) fn log_messages(messages: &[LogMessage]) {
    for line in messages {
        // Operators filter by this origin.
        match line.warning {
            true => tracing::warn!(target: "skill_registry::watch", "{}", line.text),
            false => tracing::debug!(target: "skill_registry::watch", "{}", line.text),
        }
    }
}
