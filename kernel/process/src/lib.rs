//! Extensions that run as separate processes, over the Model Context Protocol.
//!
//! The kernel supplies a [`ProcessSpec`] with a directory that it has checked. This crate starts
//! the process, exchanges messages over its standard input and output, supervises and restarts it,
//! and stops it. [`ProcessSupervisor`] is the only public type. Each module has one concern: `wire`
//! parses and validates lines, `skim` reads lines that are too long for that, `child` wraps the
//! operating system, `running` is one process from its handshake to its exit, `supervised` restarts
//! it after a crash, and `tools` converts tools and results.

mod child;
mod running;
mod skim;
mod supervised;
mod tools;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillhost_kernel::supervision::{RestartBackoff, SupervisorSettings};
use skillhost_kernel::{CallError, ErrorKind, ProcessExtension, ProcessLauncher, ProcessSpec};

use crate::supervised::SupervisedProcess;

/// A launcher that starts process extensions and restarts them after a crash.
///
/// Five crashes within five minutes reach the restart limit.
#[derive(Debug, Clone, Default)]
pub struct ProcessSupervisor {
    restarts: SupervisorSettings,
}

impl ProcessSupervisor {
    /// Creates a supervisor with another delay after the first crash; each further crash doubles
    /// it.
    #[must_use]
    pub fn with_delay(delay: Duration) -> Self {
        // A delay beyond 64 bits of milliseconds is unreachable anyway.
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Self { restarts: SupervisorSettings { delay_ms, ..SupervisorSettings::default() } }
    }
}

#[async_trait]
impl ProcessLauncher for ProcessSupervisor {
    async fn start(&self, start: ProcessSpec) -> Result<Arc<dyn ProcessExtension>, CallError> {
        Ok(Arc::new(SupervisedProcess::start(start, RestartBackoff::new(self.restarts)).await?))
    }
}

/// Returns an error without a hint.
fn call_error(kind: ErrorKind, message: impl Into<String>) -> CallError {
    CallError { kind, message: message.into(), hint: String::new() }
}

/// Sanitizes text of a process for terminals and logs: one line, without control characters,
/// truncated after `max_chars` characters.
fn to_printable(text: &str, max_chars: usize) -> String {
    let mut safe = String::new();
    for (count, character) in text.trim_end().chars().enumerate() {
        if count == max_chars {
            safe.push('…');
            break;
        }
        match character {
            '\t' => safe.push(' '),
            // Direction marks and other invisible characters could disguise the text.
            hidden if hidden.is_control() || is_invisible(hidden) => {
                safe.extend(hidden.escape_unicode());
            }
            plain => safe.push(plain),
        }
    }
    safe
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::to_printable;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(to_printable("a\tb\u{1b}[2Jc\r\n", 100), "a b\\u{1b}[2Jc");
        assert_eq!(to_printable("x\u{202e}y", 100), "x\\u{202e}y");
        assert_eq!(to_printable("äöü", 2), "äö…");
    }
}
