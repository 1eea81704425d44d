//! Settings of the supervisor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The restart policy of `skillhost run --supervised`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SupervisorSettings {
    /// Number of crashes within `within_ms` after which the kernel is not restarted.
    pub crashes: u32,
    /// Age in milliseconds from which a crash no longer counts.
    pub within_ms: u64,
    /// Pause after the first crash, in milliseconds; it doubles with every further one that counts.
    pub delay_ms: u64,
    /// Time without a heartbeat after which a kernel is killed, which counts as a crash; in
    /// milliseconds, at least 3000.
    pub silence_ms: u64,
}

impl Default for SupervisorSettings {
    fn default() -> Self {
        Self { crashes: 5, within_ms: 300_000, delay_ms: 1000, silence_ms: 30_000 }
    }
}
