//! A control group for one run, where the system has delegated the controllers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use skillhost_policy::ResourceLimits;

/// A control group of version 2; removed on drop.
#[derive(Debug)]
pub(super) struct ControlGroup {
    directory: PathBuf,
}

impl ControlGroup {
    /// Creates a group with the limits, or returns `None` if the controllers are not delegated.
    pub(super) fn create(limits: &ResourceLimits) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let own = Path::new("/sys/fs/cgroup").join(own);
        // A group with processes cannot have limited children, except the root. Therefore the new
        // group is put next to the own one.
        let parent = if own == Path::new("/sys/fs/cgroup") { &own } else { own.parent()? };
        Self::create_in(parent, limits).ok()
    }

    fn create_in(parent: &Path, limits: &ResourceLimits) -> io::Result<Self> {
        let controllers = fs::read_to_string(parent.join("cgroup.subtree_control"))?;
        let has = |name| controllers.split_ascii_whitespace().any(|word| word == name);
        if !has("memory") || !has("pids") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let directory = parent.join(format!("skillhost-run-{}", std::process::id()));
        fs::create_dir(&directory)?;
        let group = Self { directory };
        let bytes = limits.memory_mib.saturating_mul(1 << 20);
        group.write("memory.max", &bytes.to_string())?;
        group.write("memory.oom.group", "1")?;
        // Not every system has swap.
        let _ = group.write("memory.swap.max", "0");
        // The first process of a namespace counts.
        group.write("pids.max", &limits.tasks.saturating_add(1).to_string())?;
        Ok(group)
    }

    /// Moves a process that has not started the program yet.
    pub(super) fn add(&self, pid: Pid) -> io::Result<()> {
        self.write("cgroup.procs", &pid.as_raw_pid().to_string())
    }

    /// Tests whether the limit of memory has ended processes.
    pub(super) fn was_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.directory.join("memory.events")).unwrap_or_default();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|count| count != "0")
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.directory.join(file), text)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Both fail only if the group is in use or removed; the next start is not affected.
        let _ = self.write("cgroup.kill", "1");
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_needs_delegated_controllers() {
        let parent = tempfile::tempdir().unwrap();
        let limits = ResourceLimits::default();
        fs::write(parent.path().join("cgroup.subtree_control"), "cpu pids\n").unwrap();
        assert!(ControlGroup::create_in(parent.path(), &limits).is_err());
        fs::write(parent.path().join("cgroup.subtree_control"), "memory pids\n").unwrap();
        let group = ControlGroup::create_in(parent.path(), &limits).unwrap();
        let written = fs::read_to_string(group.directory.join("memory.max")).unwrap();
        assert_eq!(written, (1024_u64 << 20).to_string());
        assert!(!group.was_out_of_memory());
        fs::write(group.directory.join("memory.events"), "oom 1\noom_kill 2\n").unwrap();
        assert!(group.was_out_of_memory());
    }
}
