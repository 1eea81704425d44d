//! The approvals of a home: the decisions of a person about `sandbox/extensions`.
//!
//! Each decision is one line of `sandbox/data/kernel/approvals.jsonl`, which file tools cannot
//! reach. Lines are appended and never changed; the last line of an id is in force.

mod decision_log;
mod details;
mod error;
mod extension_files;
mod record;
mod script_grant;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::home::Home;

use decision_log::{Decision, DecisionLines};
use error::APPROVE;

pub use details::{ApprovalDetails, approval_details};
pub use error::ApprovalsError;
pub use extension_files::{MANIFEST, pin_digest, read_extension_files};
pub use record::{
    AgentFacts, ApprovalAction, ApprovalKind, ApprovalRecord, ApprovalSurface, ApprovedFile,
    Approver, changed_files, changed_tools,
};
pub use script_grant::{GrantStatus, ScriptGrant, ScriptGrants};

/// The approvals of a home, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Approvals {
    records: Vec<ApprovalRecord>,
    /// The last line is incomplete and does not count.
    torn: bool,
}

impl Decision for ApprovalRecord {
    const NEWEST: u32 = record::VERSION;

    fn version(&self) -> u32 {
        self.version
    }
}

impl Approvals {
    /// Reads the approvals of a home. A missing journal is empty.
    ///
    /// # Errors
    /// [`ApprovalsError`]; then no extension is approved.
    pub fn load(home: &Home) -> Result<Self, ApprovalsError> {
        let DecisionLines { records, torn, .. } = DecisionLines::load(&approvals_file(home))?;
        Ok(Self { records, torn })
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
        DecisionLines::append(&home.data_dir("kernel"), FILE, record, |records| {
            records.iter().rev().find(|last| last.id == record.id) == Some(record)
        })
    }
}

/// The file of the approvals in the kernel's data directory.
const FILE: &str = "approvals.jsonl";

fn approvals_file(home: &Home) -> PathBuf {
    home.data_dir("kernel").join(FILE)
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
