//! Processes that a killed kernel has left behind.
//!
//! A process should exit at the end of its standard input, which is the effect of a kernel's death;
//! one that ignores it would run forever. Therefore its id is recorded next to its directory, with
//! its start time, because the system reuses ids.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process_group};
use skillhost_files::write_atomically;

/// Records a process that was just started.
pub(crate) fn record_pid(path: &Path, pid: u32) -> std::io::Result<()> {
    match process_start_time(pid) {
        // An incomplete id could be that of another process.
        Some(started) => write_atomically(path, format!("{pid} {started}\n").as_bytes()),
        // The system does not report it, or the process has exited.
        None => Ok(()),
    }
}

/// Kills the recorded process with its group, if it still runs.
pub fn kill_recorded(path: &Path) {
    let Ok(text) = fs::read_to_string(path) else { return };
    let mut words = text.split_whitespace();
    let (Some(pid), Some(noted)) = (words.next().and_then(|w| w.parse().ok()), words.next()) else {
        return;
    };
    // Another start time means that the id was reused.
    if process_start_time(pid).is_none_or(|started| started != noted) {
        return;
    }
    if let Some(group) = Pid::from_raw(pid.cast_signed()) {
        tracing::warn!(pid, "killing a process of a killed kernel");
        // The process may exit at this very moment.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Returns the start time of a process, in the system's ticks.
fn process_start_time(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain any character.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(19).map(str::to_owned)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::Command;

    use super::*;

    #[test]
    fn only_recorded_process_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note");
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
