//! The sockets of other programs that a run would see.
//!
//! A socket can be connected to through a read-only mount, in every network namespace. Before version
//! 9, Landlock does not prevent it, so that the mounts cover what is found when a run starts.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::policy_paths::system_paths;
use crate::protocol::LaunchRequest;

/// The directories of sockets of services, which are hidden where they would be visible.
const RUNTIME_DIRECTORIES: [&str; 2] = ["/run", "/var/run"];

/// The paths in these directories that programs need to start and to read their configuration.
const RUNTIME_FILES: [&str; 4] = [
    "/run/current-system",
    "/run/opengl-driver",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
];

/// Directories without sockets of programs, or with too many entries.
const SKIPPED: [&str; 5] = ["/proc", "/sys", "/dev", "/nix/store", "/gnu/store"];

/// The number of entries of allowed directories that are searched, the shallow ones first.
const MAX_ENTRIES: usize = 10_000;

/// Finds the sockets in allowed directories that the policy does not list: those that the kernel
/// names with their path, and those among the first entries of the directories.
pub(super) fn find_host_sockets(request: &LaunchRequest) -> Vec<PathBuf> {
    let files = &request.policy.filesystem;
    let allowed: Vec<&Path> =
        files.allow_read.iter().chain(&files.allow_write).map(PathBuf::as_path).collect();
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let named = list_named_sockets(&table).filter_map(|path| fs::canonicalize(path).ok());
    let is_visible = |path: &PathBuf| {
        allowed.iter().any(|visible| path.starts_with(visible))
            || system_paths().any(|visible| path.starts_with(visible))
    };
    let mut sockets: Vec<PathBuf> = named.filter(is_visible).collect();
    sockets.extend(search_directories(&allowed));
    sockets.sort();
    sockets.dedup();
    let listed = &request.policy.network.allow_unix_sockets;
    sockets.retain(|path| is_socket(path) && !listed.contains(path));
    sockets
}

/// Returns the absolute paths in the list of sockets of the kernel.
fn list_named_sockets(table: &[u8]) -> impl Iterator<Item = &Path> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        // No other column has a slash.
        let start = line.windows(2).position(|pair| pair == b" /")?;
        Some(Path::new(OsStr::from_bytes(&line[start + 1..])))
    })
}

fn search_directories(roots: &[&Path]) -> Vec<PathBuf> {
    let mut sockets = Vec::new();
    let mut entries = 0;
    let is_skipped = |path: &Path| {
        let mut system = system_paths();
        SKIPPED.iter().any(|skipped| path.starts_with(skipped))
            || system.any(|system| path.starts_with(system))
    };
    let mut waiting: VecDeque<PathBuf> = roots.iter().map(|root| root.to_path_buf()).collect();
    sockets.extend(waiting.iter().filter(|path| is_socket(path)).cloned());
    while let Some(directory) = waiting.pop_front() {
        if is_skipped(&directory) {
            continue;
        }
        // It may be a file, or be unreadable for this user, and then for the run.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return sockets;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push_back(entry.path()),
                Ok(kind) if kind.is_socket() => sockets.push(entry.path()),
                _ => {}
            }
        }
    }
    sockets
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

/// Returns the directories of sockets of services that a run would see only as a part of others.
pub(super) fn hidden_runtime_directories(request: &LaunchRequest) -> Vec<PathBuf> {
    let files = &request.policy.filesystem;
    let is_hidden = |directory: &PathBuf| {
        let mut allowed = files.allow_read.iter().chain(&files.allow_write);
        let is_listed = allowed.clone().any(|path| path == directory);
        directory.symlink_metadata().is_ok_and(|meta| meta.is_dir())
            && !is_listed
            && allowed.any(|path| directory.starts_with(path))
    };
    RUNTIME_DIRECTORIES.map(PathBuf::from).into_iter().filter(is_hidden).collect()
}

/// Returns the paths in hidden directories that stay visible.
pub(super) fn kept_runtime_files(request: &LaunchRequest) -> Vec<&'static Path> {
    let hidden = hidden_runtime_directories(request);
    let is_kept = |path: &&Path| {
        hidden.iter().any(|directory| path.starts_with(directory))
            && path.symlink_metadata().is_ok()
    };
    RUNTIME_FILES.iter().map(Path::new).filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_names_absolute_paths() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            000000002b88a5c9: 00000003 00000000 00000000 0001 03 10797719\n\
            000000002b88a5c9: 00000003 00000000 00000000 0001 03     7 @abstract/x\n\
            000000002b88a5c9: 00000003 00000000 00000000 0001 03 10797 relative/x\n\
            000000009ebafe95: 00000002 00000000 00010000 0001 01 10801609 /tmp/a b\xff/sock\n";
        let found: Vec<_> = list_named_sockets(table).collect();
        assert_eq!(found, [Path::new(OsStr::from_bytes(b"/tmp/a b\xff/sock"))]);
    }
}
