//! The processes of a run: all descendants of the launcher.

use std::collections::BTreeSet;
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
    /// A running thread of each process: the first one may have ended before the others.
    threads: Vec<u32>,
    /// The number of processes and threads.
    pub(super) tasks: u64,
}

/// What the open descriptors of a run hold.
#[derive(Debug, Default)]
pub(super) struct HeldResources {
    /// The size of open and mapped files without a name, in bytes.
    pub(super) unlinked_bytes: u64,
    /// The number of mapped files without a name whose size this user cannot read.
    pub(super) unmeasured_files: u64,
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
        let mut tree = Self { pids: vec![std::process::id()], threads: Vec::new(), tasks: 0 };
        let mut next = 0;
        while let Some(pid) = tree.pids.get(next).copied() {
            let mut running = pid;
            // The process may have ended by now.
            for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                tree.tasks += 1;
                running = task.file_name().to_str().and_then(|n| n.parse().ok()).unwrap_or(pid);
                let children = fs::read_to_string(task.path().join("children"));
                let children = children.unwrap_or_default();
                tree.pids.extend(
                    children.split_ascii_whitespace().filter_map(|n| n.parse::<u32>().ok()),
                );
            }
            if running != pid && !has_ended(pid) {
                running = pid;
            }
            tree.threads.push(running);
            next += 1;
        }
        tree.pids.remove(0);
        tree.threads.remove(0);
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
        self.threads.iter().map(pages).sum::<u64>() * page
    }

    /// Returns the memory in bytes, with pages divided among the processes that share them. Slower
    /// than `resident_bytes`, which is never less.
    pub(super) fn proportional_bytes(&self) -> u64 {
        let kib = |pid| read_number(&format!("/proc/{pid}/smaps_rollup"), "Pss:");
        self.threads.iter().map(kib).sum::<u64>() << 10
    }

    /// Returns what the open descriptors and the mapped files hold.
    pub(super) fn held_resources(&self) -> HeldResources {
        let mut held = HeldResources::default();
        let mut unlinked = BTreeSet::new();
        let mut unmeasured = BTreeSet::new();
        for pid in &self.threads {
            for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
                let Ok(meta) = fs::metadata(entry.path()) else { continue };
                if meta.is_file() && meta.nlink() == 0 {
                    if unlinked.insert((meta.dev(), meta.ino())) {
                        held.unlinked_bytes += meta.blocks() * 512;
                    }
                } else if !meta.is_file() && !meta.is_dir() {
                    held.kernel_bytes += DESCRIPTOR_MEMORY;
                }
            }
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            for line in maps.lines().filter(|line| line.ends_with(" (deleted)")) {
                let Some(mapped) = MappedFile::parse(line) else { continue };
                if unmeasured.contains(&mapped.identity) {
                    continue;
                }
                match fs::metadata(format!("/proc/{pid}/map_files/{}", mapped.range)) {
                    Ok(meta) => {
                        if meta.is_file() && unlinked.insert((meta.dev(), meta.ino())) {
                            held.unlinked_bytes += meta.blocks() * 512;
                        }
                    }
                    Err(_) => {
                        unmeasured.insert(mapped.identity);
                    }
                }
            }
        }
        held.unmeasured_files = unmeasured.len() as u64;
        held
    }
}

/// A line of the file `maps`.
struct MappedFile<'a> {
    range: &'a str,
    /// The device and the number of the file.
    identity: (String, u64),
}

impl<'a> MappedFile<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let range = words.next()?;
        let device = words.nth(2)?;
        let number = words.next()?.parse().ok()?;
        Some(Self { range, identity: (device.to_owned(), number) })
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

/// Tests whether the first thread of a process has ended.
fn has_ended(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name, in parentheses, may contain any character.
    text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
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
