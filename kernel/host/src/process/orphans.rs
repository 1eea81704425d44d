//! Processes that a killed kernel left behind.
//!
//! A process ends when its standard input does, which is what the death of a kernel means to it; one
//! that does not listen would stay for ever. So its number is noted beside its folder, with the time
//! at which it was started, because numbers are given out again.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::write::write_atomically;

/// Notes a process that was just started.
pub(super) fn record_pid(path: &Path, pid: u32) -> std::io::Result<()> {
    match process_start_time(pid) {
        // Half a number could be another process's.
        Some(started) => write_atomically(path, format!("{pid} {started}\n").as_bytes()),
        // Not to be found out on this system, or over already.
        None => Ok(()),
    }
}

/// Kills the process that was noted, with its group, if it still runs.
pub(super) fn kill_recorded(path: &Path) {
    let Ok(text) = fs::read_to_string(path) else { return };
    let mut words = text.split_whitespace();
    let (Some(pid), Some(noted)) = (words.next().and_then(|w| w.parse().ok()), words.next()) else {
        return;
    };
    if process_start_time(pid).is_none_or(|started| started != noted) {
        return;
    }
    if let Some(group) = Pid::from_raw(pid.cast_signed()) {
        tracing::warn!(pid, "a process that a killed kernel left behind is killed");
        // It may end by itself at this very moment.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// When a process was started, in the system's own ticks.
fn process_start_time(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(19).map(str::to_owned)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::Command;

    use super::*;

    #[test]
    fn only_the_very_process_that_was_noted_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        let sleep = || Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let mut child = sleep();
        record_pid(&path, child.id()).unwrap();
        let noted = fs::read_to_string(&path).unwrap();
        let before = format!("{} 1\n", child.id());
        fs::write(&path, before).unwrap();
        kill_recorded(&path);
        assert_eq!(child.try_wait().unwrap(), None, "the number was another process's then");
        fs::write(&path, noted).unwrap();
        kill_recorded(&path);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        kill_recorded(&path);
        for nonsense in ["", "x", "1", "99999999999 1"] {
            fs::write(&path, nonsense).unwrap();
            kill_recorded(&path);
        }
    }
}
