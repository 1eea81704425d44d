//! The approvals of a home: the decisions of a person about `sandbox/extensions`.
//!
//! Each decision is one line of `sandbox/data/kernel/approvals.jsonl`, which file tools cannot
//! reach. Lines are appended and never changed; the last line of an id is in force.

mod details;
mod extension_files;
mod record;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use skillhost_files::{create_private_dir, split_complete_lines, sync_directory, sync_file};
use skillhost_payload::OperatorCommand;

use crate::home::Home;

pub use details::{ApprovalDetails, approval_details};
pub use extension_files::MANIFEST;
pub use extension_files::{pin_digest, read_extension_files};
pub use record::{
    AgentFacts, ApprovalAction, ApprovalKind, ApprovalRecord, ApprovalSurface, ApprovedFile,
    Approver,
};
pub use record::{changed_files, changed_tools};

/// The record version that this program writes, and the newest that it reads.
const VERSION: u32 = 1;

/// The largest journal that is read, in bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The approvals of a home, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Approvals {
    records: Vec<ApprovalRecord>,
    /// The last line is incomplete and does not count.
    torn: bool,
}

/// An error of the journal of approvals.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalsError {
    /// The journal could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line of the journal is not a record.
    #[error("{}:{line}: not a record of an approval: {reason}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
}

/// The command that approves an extension.
const APPROVE: OperatorCommand<'_> = OperatorCommand::ApproveExtension { id: "ID" };

impl ApprovalsError {
    /// Returns a hint.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Io { .. } => "check that it may be read and written".to_owned(),
            Self::Damaged { path, .. } => format!(
                "move {} away, then review and approve each extension again: {APPROVE}",
                path.display()
            ),
        }
    }
}

impl Approvals {
    /// Reads the approvals of a home. A missing journal is empty.
    ///
    /// # Errors
    /// [`ApprovalsError`]; then no extension is approved.
    pub fn load(home: &Home) -> Result<Self, ApprovalsError> {
        let path = approvals_file(home);
        let mut options = OpenOptions::new();
        // A link must not redirect the journal, and a FIFO must not block the start.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        match options.read(true).custom_flags(flags.cast_signed()).open(&path) {
            Ok(mut file) => {
                // Waits for a line that is being appended.
                flock(&file, FlockOperation::LockShared)
                    .map_err(|error| io_error(&path, error.into()))?;
                Ok(Self::parse(&path, &read_limited(&mut file, &path)?)?.0)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(io_error(&path, error)),
        }
    }

    /// Returns the approval in force for an extension, if its last record is one.
    #[must_use]
    pub fn approval(&self, id: &str) -> Option<&ApprovalRecord> {
        self.latest(id).filter(|record| record.action == ApprovalAction::Approve)
    }

    /// Returns the last record of an extension.
    #[must_use]
    pub fn latest(&self, id: &str) -> Option<&ApprovalRecord> {
        self.records.iter().rev().find(|record| record.id == id)
    }

    /// Returns the last record of every extension, by id.
    #[must_use]
    pub fn by_id(&self) -> BTreeMap<&str, &ApprovalRecord> {
        self.records.iter().map(|record| (record.id.as_str(), record)).collect()
    }

    /// Returns the last approval of an extension that covers a library with this sha256, in force
    /// or not.
    #[must_use]
    pub fn approval_of_library(&self, id: &str, sha256: &str) -> Option<&ApprovalRecord> {
        self.records.iter().rev().find(|record| {
            record.id == id
                && record.action == ApprovalAction::Approve
                && record.library_sha256.as_deref() == Some(sha256)
        })
    }

    /// Returns a note about an incomplete last record, which is ignored.
    #[must_use]
    pub fn torn_note(&self, home: &Home) -> Option<String> {
        self.torn.then(|| {
            format!(
                "{}: the last line is incomplete and is ignored; approve that extension again",
                approvals_file(home).display()
            )
        })
    }

    /// Appends a record; it is on disk when this returns. A record that already is the extension's
    /// last is not appended again.
    ///
    /// # Errors
    /// [`ApprovalsError`]; the journal then is unchanged.
    pub fn append(home: &Home, record: &ApprovalRecord) -> Result<(), ApprovalsError> {
        let path = approvals_file(home);
        let io = |error| io_error(&path, error);
        let dir = home.data_dir("kernel");
        create_private_dir(&dir).map_err(io)?;
        let mut options = OpenOptions::new();
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(flags.cast_signed());
        let mut file = options.open(&path).map_err(io)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| io(error.into()))?;
        // Read again under the lock: another process may have appended.
        let bytes = read_limited(&mut file, &path)?;
        let (approvals, length) = Self::parse(&path, &bytes)?;
        if approvals.latest(&record.id) == Some(record) {
            return Ok(());
        }
        let length = length as u64;
        if approvals.torn {
            // An incomplete line would merge with the new one.
            file.set_len(length).map_err(io)?;
        }
        let mut line = serde_json::to_vec(record).map_err(|error| io(error.into()))?;
        line.push(b'\n');
        let written = file
            .write_all(&line)
            .and_then(|()| sync_file(&file))
            // The directory entry of a new journal is durable only after its directory is synced.
            .and_then(|()| sync_directory(&dir));
        if written.is_err() {
            // A line that cannot be removed is torn, or the caller revokes it.
            let _ = file.set_len(length).and_then(|()| sync_file(&file));
        }
        written.map_err(io)
    }

    /// Parses a journal; also returns the length of its complete lines.
    fn parse(path: &Path, bytes: &[u8]) -> Result<(Self, usize), ApprovalsError> {
        let (lines, length) = split_complete_lines(bytes);
        let mut records = Vec::with_capacity(lines.len());
        for (number, line) in lines.into_iter().enumerate() {
            let damaged = |reason: String| {
                let path = path.to_owned();
                ApprovalsError::Damaged { path, line: number + 1, reason }
            };
            let record: ApprovalRecord =
                serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
            if record.version > VERSION {
                return Err(damaged(format!("version {} is unknown", record.version)));
            }
            records.push(record);
        }
        Ok((Self { records, torn: length < bytes.len() }, length))
    }
}

fn approvals_file(home: &Home) -> PathBuf {
    home.data_dir("kernel").join("approvals.jsonl")
}

/// Moves the record of earlier versions away, once: it covered neither every kind of extension nor
/// the modes of files. Returns a note for the operator.
/// The rename keeps the old decisions readable for the operator.
pub fn retire_installed_record(home: &Home) -> Option<String> {
    let path = home.data_dir("kernel").join("installed.json");
    fs::symlink_metadata(&path).ok()?;
    fs::rename(&path, path.with_extension("json.retired")).ok()?;
    Some(format!(
        "approvals of earlier versions no longer count: review each extension in \
         sandbox/extensions and approve it again: {APPROVE}"
    ))
}

fn io_error(path: &Path, source: io::Error) -> ApprovalsError {
    ApprovalsError::Io { path: path.to_owned(), source }
}

fn read_limited(file: &mut File, path: &Path) -> Result<Vec<u8>, ApprovalsError> {
    let mut bytes = Vec::new();
    let regular = file.metadata().map_err(|error| io_error(path, error))?.is_file();
    if !regular {
        return Err(io_error(path, io::Error::other("not a regular file")));
    }
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| io_error(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io_error(path, io::Error::other(format!("larger than {MAX_BYTES} bytes"))));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::HomeSource;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sandbox")).unwrap();
        let home = Home::open(dir.path(), HomeSource::Argument).unwrap();
        (dir, home)
    }

    fn record(id: &str, digest: &str) -> ApprovalRecord {
        let manifest =
            skillhost_manifest::parse_manifest(&format!("id: {id}\nname: A\nagent: {{}}\n"))
                .unwrap();
        let approver = Approver::operator(ApprovalSurface::CommandLine);
        let mut record = ApprovalRecord::approve(&manifest, &[], None, &approver);
        record.digest = digest.to_owned();
        record
    }

    fn digest(home: &Home, id: &str) -> Option<String> {
        Approvals::load(home).unwrap().approval(id).map(|record| record.digest.clone())
    }

    #[test]
    fn last_record_is_in_force() {
        let (_folder, home) = home();
        assert_eq!(digest(&home, "a"), None);
        for (id, digest) in [("a", "11"), ("b", "33"), ("a", "22")] {
            Approvals::append(&home, &record(id, digest)).unwrap();
        }
        assert_eq!(
            (digest(&home, "a"), digest(&home, "b")),
            (Some("22".into()), Some("33".into()))
        );
        let revoked = record("a", "22").revoked(&Approver::operator(ApprovalSurface::Terminal));
        for _ in 0..2 {
            Approvals::append(&home, &revoked).unwrap();
        }
        let approvals = Approvals::load(&home).unwrap();
        assert_eq!(approvals.approval("a"), None);
        assert_eq!(approvals.records.len(), 4, "the same record is appended once");
        let mode = fs::metadata(approvals_file(&home)).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    }

    #[test]
    fn torn_line_is_ignored_and_cut() {
        let (_folder, home) = home();
        Approvals::append(&home, &record("a", "11")).unwrap();
        let path = approvals_file(&home);
        let complete = fs::read(&path).unwrap();
        let mut torn = complete.clone();
        // A complete record without its line break.
        torn.extend(serde_json::to_vec(&record("a", "22")).unwrap());
        fs::write(&path, torn).unwrap();
        let approvals = Approvals::load(&home).unwrap();
        assert_eq!(approvals.approval("a").unwrap().digest, "11");
        assert!(approvals.torn_note(&home).unwrap().contains("is incomplete"));
        Approvals::append(&home, &record("b", "33")).unwrap();
        let text = fs::read(&path).unwrap();
        assert!(text.starts_with(&complete) && text.iter().filter(|b| **b == b'\n').count() == 2);
        assert_eq!(
            (digest(&home, "a"), digest(&home, "b")),
            (Some("11".into()), Some("33".into()))
        );
    }

    #[test]
    fn damaged_journal_approves_nothing() {
        let (_folder, home) = home();
        Approvals::append(&home, &record("a", "11")).unwrap();
        let path = approvals_file(&home);
        let good = fs::read_to_string(&path).unwrap();
        for damaged in [
            format!("{{\n{good}"),
            format!("{good}\0\0\0\0\n{good}"),
            good.replace("\"version\":1", "\"version\":2"),
            good.replace("\"action\":\"approve\"", "\"action\":\"bless\""),
        ] {
            fs::write(&path, &damaged).unwrap();
            let error = Approvals::load(&home).unwrap_err();
            assert!(matches!(error, ApprovalsError::Damaged { .. }), "{error}");
            assert!(error.hint().contains("skillhost ext approve ID"), "{}", error.hint());
            assert!(Approvals::append(&home, &record("b", "33")).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), damaged, "it is not written over");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(matches!(Approvals::load(&home), Err(ApprovalsError::Io { .. })));
    }

    #[test]
    fn concurrent_approvals_are_all_recorded() {
        let (_folder, home) = home();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let home = &home;
                scope.spawn(move || {
                    for n in 0..10 {
                        Approvals::append(home, &record(&format!("e{writer}_{n}"), "11")).unwrap();
                    }
                });
            }
        });
        assert_eq!(Approvals::load(&home).unwrap().records.len(), 40);
    }
}
