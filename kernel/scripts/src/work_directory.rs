//! The work directory of a thread: shared with the file tools, and compared before and after a run.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, MetadataExt as _};
use serde::Serialize;
use skillhost_files::jail::{self, RelPath};
use skillhost_files::{copy_package_file, create_private_dir, sha256_hex};
use skillhost_home::Home;
use skillhost_payload::{CallError, ErrorKind};

/// The limit of entries that are compared.
const MAX_ENTRIES: usize = 50_000;
const MAX_DEPTH: usize = 32;

/// The limit of files in a result; further ones are counted.
const MAX_LISTED: usize = 200;

/// The limit of unreadable directories that are named.
const MAX_UNREADABLE: usize = 20;

/// The limit of bytes that are hashed for one result.
const MAX_HASHED: u64 = 1 << 30;

/// The prefix of a work directory in the copy of the skill.
const SKILL_PREFIX: &str = "@skill";

/// A directory in which a script starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkDirectory {
    /// The writable directory of the thread.
    pub(crate) root: PathBuf,
    /// The directory in which the script starts.
    pub(crate) start: PathBuf,
}

/// A file that a run created or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// The path relative to the work directory of the thread.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content, hexadecimal; absent for a very large file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The files of a work directory at one moment.
#[derive(Debug, Default)]
pub(crate) struct WorkSnapshot {
    files: BTreeMap<String, FileStamp>,
    /// The directories that cannot be read.
    unreadable: Vec<String>,
    complete: bool,
}

/// The facts by which a changed file is recognized without reading it.
type FileStamp = (u64, u64, Option<SystemTime>, i64, i64);

/// Returns the work directory of a thread and creates it.
///
/// # Errors
/// [`ErrorKind::Io`]
pub fn open_thread_directory(home: &Home, thread: &str) -> Result<PathBuf, CallError> {
    let name = match RelPath::new_printable(thread) {
        Ok(name) if name.components().count() == 1 => thread.to_owned(),
        // Threads of other programs may have any id.
        _ => sha256_hex(thread.as_bytes()).chars().take(32).collect(),
    };
    let root = home.root().join("sandbox");
    let made = jail::open_below(&root, &format!("work/{name}"), true);
    made.map_err(|error| directory_error(&name, error))?;
    // Without links, because the policy of the run names it.
    fs::canonicalize(root.join("work").join(&name))
        .map_err(|error| CallError::new(ErrorKind::Io, format!("work directory: {error}")))
}

impl WorkDirectory {
    /// Finds the directory that `workdir` names: below `root`, which it creates, or `@skill` and
    /// below, in the copy of the skill.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::Denied`] for a path that leads elsewhere.
    pub(crate) fn open(root: &Path, workdir: &str, skill: &Path) -> Result<Self, CallError> {
        let root = root.to_owned();
        let (base, below) = match workdir.strip_prefix(SKILL_PREFIX) {
            Some("") => return Ok(Self { start: skill.to_owned(), root }),
            Some(rest) if rest.starts_with('/') => (skill, &rest[1..]),
            _ if matches!(workdir, "" | ".") => return Ok(Self { start: root.clone(), root }),
            _ => (root.as_path(), workdir.strip_prefix("./").unwrap_or(workdir)),
        };
        let rel = RelPath::new(below.trim_end_matches('/')).map_err(|error| {
            CallError::new(ErrorKind::InvalidArgument, format!("workdir: {error}")).with_hint(
                "give a directory below the work directory, or @skill for the skill's files",
            )
        })?;
        let makes = base == root;
        let opened = jail::open_below(base, rel.as_str(), makes);
        opened.map_err(|error| directory_error(rel.as_str(), error))?;
        Ok(Self { start: base.join(rel.as_str()), root })
    }
}

fn directory_error(name: &str, error: jail::JailError) -> CallError {
    let (kind, reason) = match error {
        jail::JailError::NotFound => (ErrorKind::NotFound, "not found".to_owned()),
        jail::JailError::Io(error) => (ErrorKind::Io, error.to_string()),
        _ => (ErrorKind::Denied, "not a directory, or reached through a link".to_owned()),
    };
    CallError::new(kind, format!("workdir {name}: {reason}"))
        .with_hint("give a directory below the work directory")
}

/// Creates a private directory below another one.
pub(crate) fn create_scratch(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let path = parent.join(name);
    create_private_dir(&path)?;
    Ok(path)
}

impl WorkSnapshot {
    /// Lists a directory without following links.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut snapshot = Self { complete: true, ..Self::default() };
        let dir = jail::open_root(root)?;
        snapshot.enter(&dir, "", 0);
        Ok(snapshot)
    }

    fn enter(&mut self, dir: &Dir, prefix: &str, depth: usize) {
        let Ok(entries) = dir.entries() else {
            self.add_unreadable(prefix);
            return;
        };
        for entry in entries {
            if self.files.len() >= MAX_ENTRIES || depth > MAX_DEPTH {
                self.complete = false;
                return;
            }
            let Ok(entry) = entry else {
                self.add_unreadable(prefix);
                return;
            };
            // A name that is not UTF-8 cannot be in a result.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = format!("{prefix}{name}");
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                match dir.open_dir_nofollow(&name) {
                    Ok(below) => self.enter(&below, &format!("{path}/"), depth + 1),
                    Err(_) => self.add_unreadable(&path),
                }
            } else if metadata.is_file() {
                let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
                let changed = (metadata.ctime(), metadata.ctime_nsec());
                let stamp = (metadata.ino(), metadata.len(), modified, changed.0, changed.1);
                self.files.insert(path, stamp);
            }
        }
    }

    fn add_unreadable(&mut self, path: &str) {
        match self.unreadable.len() < MAX_UNREADABLE {
            true => self.unreadable.push(format!("{}/", path.trim_end_matches('/'))),
            false => self.complete = false,
        }
    }

    /// Returns the directories that cannot be read, relative to the work directory.
    pub(crate) fn unreadable(&self) -> &[String] {
        &self.unreadable
    }

    /// Returns the files that are new or changed since `before`, and the number of further ones.
    pub(crate) fn changes_since(&self, before: &Self, root: &Path) -> (Vec<ChangedFile>, usize) {
        let changed: Vec<_> = self
            .files
            .iter()
            .filter(|(path, stamp)| before.files.get(*path) != Some(stamp))
            .collect();
        let more = changed.len().saturating_sub(MAX_LISTED);
        let mut budget = MAX_HASHED;
        let dir = jail::open_root(root).ok();
        let list = changed.into_iter().take(MAX_LISTED).map(|(path, stamp)| {
            let sha256 = match budget.checked_sub(stamp.1) {
                Some(rest) => {
                    budget = rest;
                    dir.as_ref().and_then(|dir| hash_below(dir, path))
                }
                None => None,
            };
            ChangedFile { path: path.clone(), bytes: stamp.1, sha256 }
        });
        (list.collect(), more)
    }

    /// Returns whether all files were compared.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }
}

fn hash_below(dir: &Dir, path: &str) -> Option<String> {
    // A file that grows without end is left without a digest.
    copy_package_file(dir, path, &mut io::sink(), MAX_HASHED).ok().map(|file| file.sha256)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn workdir_stays_inside() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let (root, skill) = (base.join("work"), base.join("skill"));
        fs::create_dir_all(skill.join("scripts")).unwrap();
        fs::create_dir_all(&root).unwrap();
        symlink("/etc", root.join("out")).unwrap();
        let open = |text: &str| WorkDirectory::open(&root, text, &skill).map(|found| found.start);
        assert_eq!(open(".").unwrap(), root);
        assert_eq!(open("a/b").unwrap(), root.join("a/b"));
        assert!(root.join("a/b").is_dir());
        assert_eq!(open("@skill").unwrap(), skill);
        assert_eq!(open("@skill/scripts").unwrap(), skill.join("scripts"));
        for text in [
            "..",
            "../x",
            "/etc",
            "a/../../x",
            "out",
            "out/x",
            "@skill/..",
            "@skill/missing",
            "a\0",
        ] {
            assert!(open(text).is_err(), "{text:?}");
        }
        assert!(!skill.join("missing").exists());
    }

    #[test]
    fn snapshot_reports_new_and_changed_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["kept", "changed"] {
            fs::write(dir.path().join(name), "1").unwrap();
        }
        let before = WorkSnapshot::read(dir.path()).unwrap();
        fs::write(dir.path().join("changed"), "22").unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/new"), "").unwrap();
        symlink("/etc/passwd", dir.path().join("link")).unwrap();
        let after = WorkSnapshot::read(dir.path()).unwrap();
        let (files, more) = after.changes_since(&before, dir.path());
        let changed = |path: &str, bytes, text: &[u8]| ChangedFile {
            path: path.into(),
            bytes,
            sha256: Some(sha256_hex(text)),
        };
        assert_eq!(files, [changed("changed", 2, b"22"), changed("sub/new", 0, b"")]);
        assert_eq!((more, after.is_complete()), (0, true));
    }

    #[test]
    fn unreadable_directory_is_named() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("a/closed");
        fs::create_dir_all(&closed).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o311)).unwrap();
        let snapshot = WorkSnapshot::read(dir.path()).unwrap();
        assert_eq!(snapshot.files.len(), 1);
        // Root can read everything.
        if fs::read_dir(&closed).is_err() {
            assert_eq!(snapshot.unreadable(), ["a/closed/"]);
        }
        let mut snapshot = WorkSnapshot { complete: true, ..WorkSnapshot::default() };
        for number in 0..=MAX_UNREADABLE {
            snapshot.add_unreadable(&format!("{number}"));
        }
        assert_eq!((snapshot.unreadable().len(), snapshot.is_complete()), (MAX_UNREADABLE, false));
    }
}
