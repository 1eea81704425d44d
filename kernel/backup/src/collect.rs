//! The files of a home that belong into a backup.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use skillhost_files::irregular_kind;
use skillhost_files::jail::RelPath;
use skillhost_files::temporary::is_temporary;
use skillhost_home::Home;

use crate::error::BackupError;
use crate::index::{HOME_PARTS, MAX_ENTRIES, SECRETS_FILE};

/// The first bytes of a database (SQLite, "Database File Format").
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The files that SQLite keeps next to a database; a snapshot contains their contents.
const SQLITE_SUFFIXES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The kernel's data that it makes again: copies of programs and libraries in use, their caches, the
/// log, a restart in progress.
const KERNEL_TRANSIENT: [&str; 5] = ["copies", "processes", "homes", "logs", "restart.json"];

/// Directories of an extension that are neither approved nor used.
const GENERATED_DIRS: [&str; 3] = ["target", "__pycache__", ".git"];

/// An entry of the home that is not in the backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedEntry {
    /// The path in the home.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// The kind of a collected entry. The order is that of the archive: a database refers to files that
/// may be newer, but never to files that are older than it expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntryKind {
    Directory,
    Database,
    AppendLog,
    Plain,
}

/// An entry that belongs into the backup.
#[derive(Debug, Clone)]
pub(crate) struct CollectedEntry {
    pub(crate) kind: EntryKind,
    /// The path in the home.
    pub(crate) path: RelPath,
    /// The permissions.
    pub(crate) mode: u32,
}

/// The entries of a home.
#[derive(Debug, Default)]
pub(crate) struct CollectedEntries {
    /// In the order of the archive.
    pub(crate) entries: Vec<CollectedEntry>,
    pub(crate) skipped: Vec<SkippedEntry>,
}

/// Lists the entries of a home that belong into its backup. `except` is a file that does not, by
/// device and inode.
pub(crate) fn collect_entries(
    home: &Home,
    secrets: bool,
    except: (u64, u64),
) -> Result<CollectedEntries, BackupError> {
    let mut collected = CollectedEntries::default();
    let root = home.root();
    for part in HOME_PARTS {
        if part != SECRETS_FILE || secrets {
            collect_below(root, Path::new(part), except, &mut collected)?;
        }
    }
    collected.entries.sort_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
    Ok(collected)
}

fn collect_below(
    root: &Path,
    start: &Path,
    except: (u64, u64),
    collected: &mut CollectedEntries,
) -> Result<(), BackupError> {
    let mut pending = vec![start.to_owned()];
    while let Some(path) = pending.pop() {
        let full = root.join(&path);
        let found = match fs::symlink_metadata(&full) {
            Ok(found) => found,
            // The home may have none of this part, and files come and go while a kernel runs.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(source) => return Err(BackupError::Io { path: full, source }),
        };
        if is_transient(&path) || (found.dev(), found.ino()) == except {
            continue;
        }
        if !found.is_dir() && !found.is_file() {
            collected.skip(&path, format!("it is {}", irregular_kind(found.file_type())));
            continue;
        }
        let Some(name) = path.to_str().and_then(|path| RelPath::new(path).ok()) else {
            collected.skip(&path, "its path is too long, too deep or not UTF-8".to_owned());
            continue;
        };
        if collected.entries.len() >= MAX_ENTRIES {
            return Err(BackupError::TooMany { path: root.to_owned(), limit: MAX_ENTRIES });
        }
        let mode = found.mode() & 0o777;
        let kind = match found.is_dir() {
            true => EntryKind::Directory,
            false if is_sqlite_sidecar(&full) => continue,
            false if path.extension().is_some_and(|end| end == "jsonl") => EntryKind::AppendLog,
            false if path.starts_with("sandbox") && is_database(&full) => EntryKind::Database,
            false => EntryKind::Plain,
        };
        collected.entries.push(CollectedEntry { kind, path: name, mode });
        if kind == EntryKind::Directory {
            let failed = BackupError::io(&full);
            let entries = fs::read_dir(&full).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let entries = entries.map_err(failed)?;
            pending.extend(entries.into_iter().map(|entry| path.join(entry.file_name())));
        }
    }
    Ok(())
}

impl CollectedEntries {
    fn skip(&mut self, path: &Path, reason: String) {
        self.skipped.push(SkippedEntry { path: path.to_owned(), reason });
    }
}

/// Returns whether an entry has no value in another process: locks, temporary files, caches.
fn is_transient(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
    if parts.last().is_some_and(|name| is_temporary(name)) {
        return true;
    }
    match parts.as_slice() {
        // Of a build only the previous one is kept, for a rollback.
        ["sandbox", "data", "kernel", "builds", id, rest @ ..] => {
            id.starts_with('.') || !matches!(rest, [] | ["previous" | "previous.json"])
        }
        // Hidden files of the kernel are copies of libraries that are mapped.
        ["sandbox", "data", "kernel", name, ..] => {
            KERNEL_TRANSIENT.contains(name) || name.ends_with(".lock") || name.starts_with('.')
        }
        ["sandbox", "data", _, name] => matches!(*name, "lock" | "turn"),
        ["sandbox", "extensions", _, rest @ ..] => {
            rest.iter().any(|part| GENERATED_DIRS.contains(part))
        }
        _ => false,
    }
}

/// Returns whether a file belongs to a database next to it.
fn is_sqlite_sidecar(path: &Path) -> bool {
    let Some(text) = path.to_str() else { return false };
    let mut databases = SQLITE_SUFFIXES.iter().filter_map(|suffix| text.strip_suffix(suffix));
    databases.any(|database| is_database(Path::new(database)))
}

fn is_database(path: &Path) -> bool {
    let mut start = [0; SQLITE_MAGIC.len()];
    // Only the start of a regular file, as the caller has checked.
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *SQLITE_MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_entries_are_left_out() {
        for path in [
            "sandbox/data/kernel/kernel.lock",
            "sandbox/data/kernel/events.db.lock",
            "sandbox/data/kernel/copies/worker/12-0/manifest.yaml",
            "sandbox/data/kernel/homes/clock/.cache",
            "sandbox/data/kernel/logs/kernel.log",
            "sandbox/data/kernel/.libecho-12-0-0000.so",
            "sandbox/data/kernel/builds/.target/debug",
            "sandbox/data/kernel/builds/echo/trial/x",
            "sandbox/data/skill_registry/lock",
            "sandbox/extensions/echo/target/debug/libecho.so",
            "sandbox/skills/greet/.skillhost-tmp-1-0",
        ] {
            assert!(is_transient(Path::new(path)), "{path}");
        }
        for path in [
            "sandbox/data/kernel/approvals.jsonl",
            "sandbox/data/kernel/builds/echo/previous",
            "sandbox/data/kernel/threads/t/messages.jsonl",
            "sandbox/extensions/echo/src/lib.rs",
            "sandbox/skills/build/target/notes.md",
            "sandbox/skills/greet/lock",
            "manifests/echo/manifest.yaml",
        ] {
            assert!(!is_transient(Path::new(path)), "{path}");
        }
    }
}
