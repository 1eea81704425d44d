//! What people have approved of the code in `sandbox/extensions`, each extension by one digest.
//!
//! Agents write extensions. What they write runs only when its digest stands in
//! `sandbox/data/kernel/installed.json`, which their file tools cannot reach.

mod tree;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::write::write_atomically;

pub use tree::{TreeDigest, TreeError, copy_tree, digest_of};

/// The approved code of a home.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Installed {
    entries: BTreeMap<String, InstalledCode>,
}

/// Approved code of one extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledCode {
    /// [`TreeDigest::sha256`] of its files, or the sha256 of its library; hexadecimal.
    pub sha256: String,
    /// When it was approved, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who approved it, such as `operator`.
    pub by: String,
    /// What was approved before, so that it can be taken back into use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

/// Why the record of approved code could not be used.
#[derive(Debug, thiserror::Error)]
pub enum InstalledError {
    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not what the kernel writes.
    #[error("{}: not a record of approved code: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl InstalledError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Io { .. } => "check that it may be read and written".to_owned(),
            Self::Unreadable { path, .. } => format!(
                "move {} away, then approve each extension again: skillhost ext build ID",
                path.display()
            ),
        }
    }
}

impl Installed {
    /// Reads what was approved in a home; nothing where there is no record.
    ///
    /// # Errors
    /// [`InstalledError`]; then nothing counts as approved.
    pub fn read(home: &Home) -> Result<Self, InstalledError> {
        let path = record_file(home);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| InstalledError::Unreadable { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(InstalledError::Io { path, source }),
        }
    }

    /// Finds what was approved of an extension.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&InstalledCode> {
        self.entries.get(id)
    }

    /// Records that code was approved; what was approved before is kept as `previous`.
    ///
    /// # Errors
    /// [`InstalledError`]; the record then is what it was.
    pub fn record(home: &Home, id: &str, sha256: &str, by: &str) -> Result<(), InstalledError> {
        Self::change(home, |entries| {
            let before = entries.get(id);
            let previous = match before {
                // Approved again, and nothing else.
                Some(before) if before.sha256 == sha256 => before.previous.clone(),
                before => before.map(|before| before.sha256.clone()),
            };
            let (sha256, by) = (sha256.to_owned(), by.to_owned());
            entries.insert(id.to_owned(), InstalledCode { sha256, at_ms: now_ms(), by, previous });
        })
    }

    /// Takes an approval back; without one nothing happens.
    ///
    /// # Errors
    /// [`InstalledError`]; the record then is what it was.
    pub fn forget(home: &Home, id: &str) -> Result<(), InstalledError> {
        Self::change(home, |entries| drop(entries.remove(id)))
    }

    /// Reads, changes and writes while no other process does.
    fn change(
        home: &Home,
        change: impl FnOnce(&mut BTreeMap<String, InstalledCode>),
    ) -> Result<(), InstalledError> {
        let path = record_file(home);
        let _alone = lock(&path.with_extension("lock"))?;
        let mut installed = Self::read(home)?;
        change(&mut installed.entries);
        let failed = |source| InstalledError::Io { path: path.clone(), source };
        let mut bytes = serde_json::to_vec_pretty(&installed).map_err(|e| failed(e.into()))?;
        bytes.push(b'\n');
        write_atomically(&path, &bytes).map_err(failed)
    }
}

fn record_file(home: &Home) -> PathBuf {
    home.data_dir("kernel").join("installed.json")
}

/// Waits until no other process holds the lock; it is given back when the file is closed.
fn lock(path: &Path) -> Result<File, InstalledError> {
    let open = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    };
    open().map_err(|source| InstalledError::Io { path: path.to_owned(), source })
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::HomeSource;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sandbox")).unwrap();
        let home = Home::at(folder.path(), HomeSource::Argument).unwrap();
        (folder, home)
    }

    #[test]
    fn what_was_approved_is_read_again_with_what_was_before() {
        let (_folder, home) = home();
        assert_eq!(Installed::read(&home).unwrap(), Installed::default());
        Installed::record(&home, "a", "11", "operator").unwrap();
        Installed::record(&home, "b", "33", "operator").unwrap();
        for _ in 0..2 {
            Installed::record(&home, "a", "22", "agent builder").unwrap();
        }
        let installed = Installed::read(&home).unwrap();
        let a = installed.get("a").unwrap();
        let InstalledCode { sha256, by, previous, .. } = a;
        assert_eq!(
            (&**sha256, &**by, previous.as_deref()),
            ("22", "agent builder", Some("11")),
            "the same once more is not the one before"
        );
        Installed::forget(&home, "a").unwrap();
        let installed = Installed::read(&home).unwrap();
        assert_eq!((installed.get("a"), installed.get("b").is_some()), (None, true));
    }

    #[test]
    fn a_broken_record_approves_nothing_and_is_not_written_over() {
        let (_folder, home) = home();
        let path = record_file(&home);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "{").unwrap();
        assert!(matches!(Installed::read(&home), Err(InstalledError::Unreadable { .. })));
        let error = Installed::record(&home, "a", "11", "operator").unwrap_err();
        assert!(error.hint().starts_with("move "), "{}", error.hint());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{");
    }

    #[test]
    fn approvals_at_the_same_time_are_all_kept() {
        let (_folder, home) = home();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let home = &home;
                scope.spawn(move || {
                    for n in 0..10 {
                        Installed::record(home, &format!("e{writer}_{n}"), "11", "t").unwrap();
                    }
                });
            }
        });
        assert_eq!(Installed::read(&home).unwrap().entries.len(), 40);
    }
}
