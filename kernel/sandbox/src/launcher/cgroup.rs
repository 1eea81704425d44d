//! A control group for one run, where the system has delegated the controllers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use skillhost_policy::ResourceLimits;

/// The controllers of a run.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// The begin of the name of the group of a run; the process id of its launcher follows.
const RUN_PREFIX: &str = "skillhost-run-";

/// The group for the processes of a delegated group, which cannot have processes and limited
/// children at the same time.
const LEAF: &str = "skillhost-kernel";

/// The attribute by which systemd marks a delegated group.
const DELEGATED: &str = "user.delegate";

/// A control group of version 2; its processes end and it is removed on drop.
#[derive(Debug)]
pub(super) struct ControlGroup {
    directory: PathBuf,
}

impl ControlGroup {
    /// Creates a group with the limits, or returns `None` if the controllers are not delegated.
    pub(super) fn create(limits: &ResourceLimits) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let root = find_mount(&mounts)?;
        Self::create_near(&root, &root.join(own), limits)
    }

    /// Creates a group next to the own one or, in a delegated group, inside of it.
    fn create_near(root: &Path, own: &Path, limits: &ResourceLimits) -> Option<Self> {
        // Only the root group can have processes and limited children.
        let parent = if own == root { own } else { own.parent()? };
        let group = Self::create_in(parent, limits).ok();
        if group.is_some() || own == root || !is_delegated(own) {
            return group;
        }
        move_processes_aside(own).and_then(|()| Self::create_in(own, limits)).ok()
    }

    fn create_in(parent: &Path, limits: &ResourceLimits) -> io::Result<Self> {
        enable_controllers(parent)?;
        remove_abandoned(parent);
        let directory = parent.join(format!("{RUN_PREFIX}{}", std::process::id()));
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

    /// Ends all processes of the group at once.
    pub(super) fn end_processes(&self) {
        // Before Linux 5.14 they are ended one by one afterwards.
        let _ = self.write("cgroup.kill", "1");
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
        self.end_processes();
        // Fails only if the group is in use or removed; the next start is not affected.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Returns the directory of the hierarchy of version 2, which is not the usual one on systems that
/// have version 1 as well.
fn find_mount(mounts: &str) -> Option<PathBuf> {
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

fn is_delegated(group: &Path) -> bool {
    let mut value = [0_u8; 1];
    let read = rustix::fs::getxattr(group, DELEGATED, &mut value[..]);
    read.is_ok_and(|length| length == 1) && value == *b"1"
}

/// Makes the controllers available to the children of a group.
fn enable_controllers(group: &Path) -> io::Result<()> {
    let control = group.join("cgroup.subtree_control");
    let has_all = |file: &Path| {
        let text = fs::read_to_string(file)?;
        let has = |name| text.split_ascii_whitespace().any(|word| word == name);
        Ok::<_, io::Error>(CONTROLLERS.into_iter().all(has))
    };
    if has_all(&control)? {
        return Ok(());
    }
    if !has_all(&group.join("cgroup.controllers"))? {
        return Err(io::ErrorKind::Unsupported.into());
    }
    fs::write(control, CONTROLLERS.map(|name| format!("+{name}")).join(" "))
}

/// Moves the processes of a delegated group into a child of it.
fn move_processes_aside(group: &Path) -> io::Result<()> {
    let leaf = group.join(LEAF);
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for process in fs::read_to_string(group.join("cgroup.procs"))?.lines() {
        // It may have ended in the meantime.
        let _ = fs::write(leaf.join("cgroup.procs"), process);
    }
    Ok(())
}

/// Removes the groups of launchers that were killed.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let launcher = name.to_str().and_then(|name| name.strip_prefix(RUN_PREFIX));
        if launcher.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let group = ControlGroup { directory: entry.path() };
            drop(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Returns whether the limits were written into a group in this directory.
    fn has_group(parent: &Path) -> bool {
        let group = parent.join(format!("{RUN_PREFIX}{}", std::process::id()));
        fs::read_to_string(group.join("memory.max")).is_ok_and(|text| text == "1073741824")
            && fs::read_to_string(group.join("pids.max")).is_ok_and(|text| text == "257")
            && fs::read_to_string(group.join("memory.oom.group")).is_ok_and(|text| text == "1")
    }

    #[test]
    fn group_needs_delegated_controllers() {
        let parent = tempfile::tempdir().unwrap();
        let limits = ResourceLimits::default();
        let file = |name: &str| parent.path().join(name);
        assert!(ControlGroup::create_in(parent.path(), &limits).is_err());
        put(&file("cgroup.subtree_control"), "cpu pids\n");
        put(&file("cgroup.controllers"), "cpu pids\n");
        assert!(ControlGroup::create_in(parent.path(), &limits).is_err());
        put(&file("cgroup.controllers"), "cpu memory pids\n");
        let group = ControlGroup::create_in(parent.path(), &limits).unwrap();
        let enabled = fs::read_to_string(file("cgroup.subtree_control")).unwrap();
        assert_eq!(enabled, "+memory +pids");
        assert!(has_group(parent.path()) && !group.was_out_of_memory());
        fs::write(group.directory.join("memory.events"), "oom 1\noom_kill 2\n").unwrap();
        assert!(group.was_out_of_memory());
        group.end_processes();
        assert_eq!(fs::read_to_string(group.directory.join("cgroup.kill")).unwrap(), "1");
    }

    #[test]
    fn group_is_created_next_to_own_one() {
        let root = tempfile::tempdir().unwrap();
        let limits = ResourceLimits::default();
        let own = root.path().join("slice/own");
        put(&root.path().join("slice/cgroup.subtree_control"), "memory pids\n");
        put(&own.join("cgroup.procs"), "1\n");
        let group = ControlGroup::create_near(root.path(), &own, &limits).unwrap();
        assert!(has_group(&root.path().join("slice")), "{group:?}");
        put(&root.path().join("slice/cgroup.subtree_control"), "pids\n");
        put(&root.path().join("slice/cgroup.controllers"), "pids\n");
        put(&own.join("cgroup.controllers"), "memory pids\n");
        put(&own.join("cgroup.subtree_control"), "\n");
        assert!(ControlGroup::create_near(root.path(), &own, &limits).is_none(), "not delegated");
    }

    /// The group of a service with `Delegate=yes`, but without a group for its processes.
    #[test]
    fn delegated_group_gets_leaf_for_its_processes() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("slice/own");
        put(&own.join("cgroup.procs"), "41\n42\n");
        put(&own.join("cgroup.controllers"), "memory pids\n");
        put(&own.join("cgroup.subtree_control"), "\n");
        put(&own.join(LEAF).join("cgroup.procs"), "");
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&own, DELEGATED, b"1", flags).is_err() {
            // This file system has no attributes.
            return;
        }
        let limits = ResourceLimits::default();
        let group = ControlGroup::create_near(root.path(), &own, &limits).unwrap();
        assert!(has_group(&own), "{group:?}");
        let moved = fs::read_to_string(own.join(LEAF).join("cgroup.procs")).unwrap();
        assert_eq!(moved, "42", "a control file takes one process at a time");
    }

    #[test]
    fn groups_of_ended_launchers_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        put(&parent.path().join("cgroup.subtree_control"), "memory pids\n");
        // No process has this number.
        let abandoned = parent.path().join("skillhost-run-999999999");
        let running = parent.path().join("skillhost-run-1");
        for group in [&abandoned, &running] {
            fs::create_dir(group).unwrap();
        }
        remove_abandoned(parent.path());
        assert_eq!(fs::read_to_string(abandoned.join("cgroup.kill")).unwrap(), "1");
        assert!(!running.join("cgroup.kill").exists() && running.exists());
    }

    /// On a machine where this user may create groups; no controller is necessary for the end.
    #[test]
    fn processes_of_real_group_end() {
        let Some(root) = find_mount(&fs::read_to_string("/proc/self/mountinfo").unwrap()) else {
            return;
        };
        let directory = root.join(format!("skillhost-test-{}", std::process::id()));
        if fs::create_dir(&directory).is_err() {
            return;
        }
        let group = ControlGroup { directory: directory.clone() };
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let added = group.add(pid);
        if added.is_ok() && directory.join("cgroup.kill").exists() {
            group.end_processes();
        } else {
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        drop(group);
        assert!(!directory.exists());
    }

    #[test]
    fn mount_of_version_2_is_found() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            31 24 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        assert_eq!(find_mount(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(find_mount("30 24 0:26 / /sys rw - sysfs sysfs rw\n"), None);
    }
}
