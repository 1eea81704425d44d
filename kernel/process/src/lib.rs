//! Extensions that run as separate processes, over the Model Context Protocol.
//!
//! The kernel supplies a [`ProcessSpec`] with a directory that it has checked. This crate starts
//! the process, exchanges messages over its standard input and output, supervises and restarts it,
//! and stops it. [`ProcessSupervisor`] is the only public type. Each module has one concern: `wire`
//! parses and validates lines, `skim` reads lines that are too long for that, `running` is one process from its handshake to its exit, `supervised` restarts
//! it after a crash, and `tools` converts tools and results.

mod error;
mod running;
mod skim;
mod supervised;
mod tools;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillhost_control::{RestartBackoff, RestartLimits};
use skillhost_core::{ProcessExtension, ProcessLauncher, ProcessSpec};
use skillhost_payload::CallError;

use crate::supervised::SupervisedProcess;

/// A launcher that starts process extensions and restarts them after a crash.
///
/// Five crashes within five minutes reach the restart limit.
#[derive(Debug, Clone, Default)]
pub struct ProcessSupervisor {
    restarts: RestartLimits,
}

impl ProcessSupervisor {
    /// Creates a supervisor with another delay after the first crash; each further crash doubles
    /// it.
    #[must_use]
    pub fn with_delay(delay: Duration) -> Self {
        Self { restarts: RestartLimits { delay, ..RestartLimits::default() } }
    }
}

#[async_trait]
impl ProcessLauncher for ProcessSupervisor {
    async fn start(&self, start: ProcessSpec) -> Result<Arc<dyn ProcessExtension>, CallError> {
        Ok(Arc::new(SupervisedProcess::start(start, RestartBackoff::new(self.restarts)).await?))
    }
}
