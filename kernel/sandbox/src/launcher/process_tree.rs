//! The processes of a run: all descendants of the launcher.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// The memory that a socket or pipe may hold in the kernel, in bytes: two full buffers.
const DESCRIPTOR_MEMORY: u64 = 512 << 10;

/// The interval at which the end of killed processes is awaited.
const REAP_INTERVAL: Duration = Duration::from_micros(200);

/// The processes at one moment.
#[derive(Debug, Default)]
pub(super) struct ProcessTree {
    pids: Vec<u32>,
    /// The number of processes and threads.
    pub(super) tasks: u64,
}

/// What the open descriptors of a run hold.
#[derive(Debug, Default)]
pub(super) struct HeldResources {
    /// The size of open files without a name, in bytes.
    pub(super) unlinked_bytes: u64,
    /// The memory of the kernel that sockets and pipes may use, in bytes.
    pub(super) kernel_bytes: u64,
}

/// Tests whether the kernel lists the children of a process.
pub(super) fn can_list_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

impl ProcessTree {
    /// Reads the descendants of this process.
    pub(super) fn read() -> Self {
        let mut tree = Self { pids: vec![std::process::id()], tasks: 0 };
        let mut next = 0;
        while let Some(pid) = tree.pids.get(next) {
            // The process may have ended by now.
            for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                tree.tasks += 1;
                let children = fs::read_to_string(task.path().join("children"));
                let children = children.unwrap_or_default();
                tree.pids.extend(
                    children.split_ascii_whitespace().filter_map(|n| n.parse::<u32>().ok()),
                );
            }
            next += 1;
        }
        tree.pids.remove(0);
        tree.tasks = tree.tasks.saturating_sub(1);
        tree
    }

    /// Tests whether a thread belongs to one of the processes.
    pub(super) fn has_thread(&self, thread: u32) -> bool {
        let process = read_number(&format!("/proc/{thread}/status"), "Tgid:");
        self.pids.iter().any(|pid| u64::from(*pid) == process)
    }

    /// Tests whether one of the processes is in a process group.
    pub(super) fn has_group(&self, group: u32) -> bool {
        self.pids.iter().any(|pid| read_group(*pid) == Some(group))
    }

    /// Returns the resident memory in bytes; pages count for each process that shares them.
    pub(super) fn resident_bytes(&self, page: u64) -> u64 {
        let pages = |pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
            text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
        };
        self.pids.iter().map(pages).sum::<u64>() * page
    }

    /// Returns the memory in bytes, with pages divided among the processes that share them. Slower
    /// than `resident_bytes`, which is never less.
    pub(super) fn proportional_bytes(&self) -> u64 {
        let kib = |pid| read_number(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
        self.pids.iter().map(kib).sum::<u64>() << 10
    }

    /// Returns what the open descriptors hold.
    pub(super) fn held_resources(&self) -> HeldResources {
        let mut held = HeldResources::default();
        for pid in &self.pids {
            for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
                let Ok(meta) = fs::metadata(entry.path()) else { continue };
                if meta.is_file() && meta.nlink() == 0 {
                    held.unlinked_bytes += meta.blocks() * 512;
                } else if !meta.is_file() && !meta.is_dir() {
                    held.kernel_bytes += DESCRIPTOR_MEMORY;
                }
            }
        }
        held
    }
}

/// Ends all descendants of this process and returns their number.
///
/// This process is a subreaper: what a killed process has started becomes its child.
pub(super) fn end_descendants() -> usize {
    // Those that have ended by themselves are not left over.
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    let mut ended = 0;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {
                ended += 1;
                continue;
            }
            Ok(None) => {}
            // There is no child left.
            Err(_) => return ended,
        }
        for pid in ProcessTree::read().pids {
            if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
                // It may have ended by now.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(REAP_INTERVAL);
    }
}

/// Returns the memory of the machine that is available, in bytes.
pub(super) fn available_memory() -> u64 {
    read_number("/proc/meminfo", "MemAvailable:") << 10
}

/// Returns the number of processes and threads of a user.
pub(super) fn count_user_tasks(user: u32) -> u64 {
    let mut count = 0;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let is_process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        if is_process && entry.metadata().is_ok_and(|meta| meta.uid() == user) {
            // A directory has two links of its own and one of each directory in it.
            let links = fs::metadata(entry.path().join("task")).map_or(3, |meta| meta.nlink());
            count += links.saturating_sub(2);
        }
    }
    count
}

/// Returns the process group of a process.
fn read_group(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain any character.
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(2)?.parse().ok()
}

/// Returns the number on the line of a file that begins with a key, or 0.
fn read_number(path: &str, key: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let word = line.and_then(|rest| rest.split_ascii_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}
