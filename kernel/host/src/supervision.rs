//! When a kernel that ended is started again: the rules, without the process.

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::journal::{create_private_dir, open_append};

/// The exit code of a kernel that wants to be started again.
pub const RESTART_CODE: u8 = 75;

/// The variable that tells a kernel which process supervises it.
pub const SUPERVISED: &str = "SKILLHOST_SUPERVISED";

/// The file that whoever supervises the kernel of a home holds a lock on; it has the holder's
/// process id.
const LOCK: &str = "supervisor.lock";

/// How often a lock that is held is tried again, and how long after.
const LOOKS: u32 = 3;
const LOOK: Duration = Duration::from_millis(20);

/// That this process supervises the kernel of a home; over when it is dropped, or with the process.
#[derive(Debug)]
pub struct SupervisorLock {
    _file: File,
}

/// Why a process may not supervise the kernel of a home.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorLockError {
    /// Another one does.
    #[error("the kernel of this home is supervised already{}", holder.map(|id| format!(", by process {id}")).unwrap_or_default())]
    Held {
        /// Its process id, where it has written one.
        holder: Option<u32>,
    },
    /// The lock could not be looked at.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl SupervisorLock {
    /// Whether a process supervises the kernel of a home: where none runs, one is about to.
    #[must_use]
    pub fn is_held(home: &Home) -> bool {
        let file = File::open(home.data_dir("kernel").join(LOCK));
        // A file that is not there is held by nobody.
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Lets this process supervise the kernel of a home, and no other.
    ///
    /// # Errors
    /// [`SupervisorLockError`].
    pub fn acquire(home: &Home) -> Result<Self, SupervisorLockError> {
        let folder = home.data_dir("kernel");
        let path = folder.join(LOCK);
        let failed = |source| SupervisorLockError::Io { path: path.clone(), source };
        create_private_dir(&folder).map_err(failed)?;
        let opened = match open_append(&path, true) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_append(&path, false),
            opened => opened,
        };
        let mut file = opened.map_err(failed)?;
        let mut locked = file.try_lock();
        for _ in 0..LOOKS {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            // Whoever only looks has it for a moment.
            std::thread::sleep(LOOK);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Who it is only helps; the lock itself says that there is one.
                let _ = file.read_to_string(&mut text);
                return Err(SupervisorLockError::Held { holder: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()))
            .map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// When `skillhost run --supervised` gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SupervisorSettings {
    /// After so many crashes within `within_ms` the kernel is not started again.
    pub crashes: u32,
    /// Crashes that are older do not count, milliseconds.
    pub within_ms: u64,
    /// The wait after the first crash, milliseconds; it doubles with every other one that counts.
    pub delay_ms: u64,
    /// A kernel that gives no sign of life for this long is killed, which counts as a crash;
    /// milliseconds, at least 3000.
    pub silence_ms: u64,
}

impl Default for SupervisorSettings {
    fn default() -> Self {
        Self { crashes: 5, within_ms: 300_000, delay_ms: 1000, silence_ms: 30_000 }
    }
}

/// Restarts that were asked for and need no wait, for one that crashes and counts. A person allows
/// one at a time; only an extension that asks at every start comes to more.
const MAX_FREE_RESTARTS: usize = 2;

/// The longest wait.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// How a kernel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    /// It wants to be started again.
    RestartRequested,
    /// Not in order.
    Crashed,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start it again after a wait.
    Restart(Duration),
    /// Leave it. So many ends of that kind came within the time that counts.
    Stop(usize),
}

/// Remembers how often a kernel ended. The time is the caller's: since whenever, never backwards.
#[derive(Debug)]
pub struct RestartBackoff {
    settings: SupervisorSettings,
    crashes: VecDeque<Duration>,
    asked: VecDeque<Duration>,
}

impl RestartBackoff {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(settings: SupervisorSettings) -> Self {
        Self { settings, crashes: VecDeque::new(), asked: VecDeque::new() }
    }

    /// Takes note of an end and says what follows.
    pub fn record_exit(&mut self, how: ExitCause, now: Duration) -> RestartDecision {
        let within = Duration::from_millis(self.settings.within_ms);
        let counted = match how {
            ExitCause::RestartRequested => &mut self.asked,
            ExitCause::Crashed => &mut self.crashes,
        };
        while counted.front().is_some_and(|then| now.saturating_sub(*then) >= within) {
            counted.pop_front();
        }
        counted.push_back(now);
        let count = counted.len();
        let crashes = usize::try_from(self.settings.crashes.max(1)).unwrap_or(usize::MAX);
        match how {
            ExitCause::RestartRequested if count > crashes.saturating_mul(MAX_FREE_RESTARTS) => {
                RestartDecision::Stop(count)
            }
            ExitCause::RestartRequested => RestartDecision::Restart(Duration::ZERO),
            ExitCause::Crashed if count >= crashes => RestartDecision::Stop(count),
            ExitCause::Crashed => {
                let doubled = u32::try_from(count - 1).map_or(u32::MAX, |n| 1 << n.min(16));
                let delay = Duration::from_millis(self.settings.delay_ms);
                RestartDecision::Restart(delay.saturating_mul(doubled).min(MAX_BACKOFF))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn again(wait: u64) -> RestartDecision {
        RestartDecision::Restart(seconds(wait))
    }

    #[test]
    fn five_crashes_in_five_minutes_are_enough() {
        let mut backoff = RestartBackoff::new(SupervisorSettings::default());
        let next: Vec<_> = [0, 2, 60, 200, 299]
            .map(|at| backoff.record_exit(ExitCause::Crashed, seconds(at)))
            .into();
        assert_eq!(next, [again(1), again(2), again(4), again(8), RestartDecision::Stop(5)]);
    }

    #[test]
    fn crashes_that_are_long_ago_do_not_count() {
        let mut backoff = RestartBackoff::new(SupervisorSettings::default());
        let at = [0, 10, 20, 30, 300, 310, 320, 400, 405];
        let next: Vec<_> = at.map(|at| backoff.record_exit(ExitCause::Crashed, seconds(at))).into();
        let expected = [1, 2, 4, 8, 8, 8, 8, 8].map(again);
        assert_eq!(next[..8], expected);
        assert_eq!(next[8], RestartDecision::Stop(5));
    }

    #[test]
    fn a_restart_that_was_asked_for_is_no_crash_and_needs_no_wait() {
        let mut backoff = RestartBackoff::new(SupervisorSettings::default());
        for at in 0..10 {
            assert_eq!(backoff.record_exit(ExitCause::RestartRequested, seconds(at)), again(0));
        }
        assert_eq!(backoff.record_exit(ExitCause::Crashed, seconds(10)), again(1));
        assert_eq!(
            backoff.record_exit(ExitCause::RestartRequested, seconds(11)),
            RestartDecision::Stop(11)
        );
        assert_eq!(backoff.record_exit(ExitCause::RestartRequested, seconds(400)), again(0));
    }

    #[test]
    fn one_process_at_a_time_supervises_a_home() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sandbox")).unwrap();
        let home = Home::open(folder.path(), crate::home::HomeSource::Argument).unwrap();
        let first = SupervisorLock::acquire(&home).unwrap();
        let Err(SupervisorLockError::Held { holder }) = SupervisorLock::acquire(&home) else {
            panic!("there are two");
        };
        assert_eq!(holder, Some(std::process::id()));
        assert!(SupervisorLock::is_held(&home));
        drop(first);
        assert!(!SupervisorLock::is_held(&home));
        SupervisorLock::acquire(&home).unwrap();
    }

    #[test]
    fn settings_say_how_many_and_how_long() {
        let settings = SupervisorSettings {
            crashes: 40,
            within_ms: 1000,
            delay_ms: 30_000,
            ..SupervisorSettings::default()
        };
        let mut backoff = RestartBackoff::new(settings);
        let mut ended = |at| backoff.record_exit(ExitCause::Crashed, Duration::from_millis(at));
        assert_eq!([ended(0), ended(1), ended(2)], [again(30), again(60), again(60)]);
        assert_eq!(ended(2000), again(30));
        for _ in 0..30 {
            ended(2001);
        }
        assert_eq!(ended(2001), again(60));
        let mut once = RestartBackoff::new(SupervisorSettings { crashes: 0, ..settings });
        assert_eq!(once.record_exit(ExitCause::Crashed, seconds(0)), RestartDecision::Stop(1));
    }
}
