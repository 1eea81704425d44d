//! Extensions that are processes of their own, over the Model Context Protocol.
//!
//! The kernel says what to start (a [`ProcessSpec`] with a folder that it has checked); here it is
//! started, spoken to through its standard input and output, watched, started again when it crashes,
//! and ended. [`ProcessSupervisor`] is the whole surface. One concern per file: `wire` turns lines into
//! messages and mistrusts them, `skim` reads what is too long for that, `child` is the operating system's side, `running` one process from
//! its handshake to its end, `supervised` what lives on when that end was unasked for, `tools` the
//! two shapes that a tool has.

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

/// Starts process extensions and keeps them running: after a crash one is started again, after five
/// in five minutes it is given up.
#[derive(Debug, Clone, Default)]
pub struct ProcessSupervisor {
    restarts: SupervisorSettings,
}

impl ProcessSupervisor {
    /// As [`ProcessSupervisor::default`], with another wait after the first crash; each further one doubles
    /// it.
    #[must_use]
    pub fn with_delay(delay: Duration) -> Self {
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

/// An error without a hint.
fn error(kind: ErrorKind, message: impl Into<String>) -> CallError {
    CallError { kind, message: message.into(), hint: String::new() }
}

/// Text of a process as people and logs may see it: one line, without control characters, cut.
fn printable(text: &str, longest: usize) -> String {
    let mut shown = String::new();
    for (count, character) in text.trim_end().chars().enumerate() {
        if count == longest {
            shown.push('…');
            break;
        }
        match character {
            '\t' => shown.push(' '),
            // Direction marks and other invisible characters would change what is read.
            hidden if hidden.is_control() || is_invisible(hidden) => {
                shown.extend(hidden.escape_unicode());
            }
            plain => shown.push(plain),
        }
    }
    shown
}

fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn text_of_a_process_is_shown_without_what_a_terminal_obeys() {
        assert_eq!(printable("a\tb\u{1b}[2Jc\r\n", 100), "a b\\u{1b}[2Jc");
        assert_eq!(printable("x\u{202e}y", 100), "x\\u{202e}y");
        assert_eq!(printable("äöü", 2), "äö…");
    }
}
