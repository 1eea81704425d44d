//! Versions of the skills that a command modifies.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;

use skill_catalog::Store;
use skill_format::SkillId;
use skill_ledger::Ledger;
use skillhost_terminal::{CliContext, CliError};

use super::home_skills;
use super::wording::registry_error;
use crate::arguments::SkillRoots;

/// A recorder of a skill's files before and after a command modifies them, for skills of a trusted
/// home. Other skills have no versions.
pub(super) struct Recorder<'s> {
    session: &'s CliContext,
    /// Opened by the first write.
    home: OnceCell<Option<(Ledger, Store)>>,
}

impl<'s> Recorder<'s> {
    pub(super) fn new(session: &'s CliContext) -> Self {
        Self { session, home: OnceCell::new() }
    }

    /// Replaces a SKILL.md and records the texts before and after as versions.
    pub(super) fn replacing<E: From<CliError>>(
        &self,
        path: &Path,
        replace: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.record(path)?;
        replace()?;
        if let Err(error) = self.record(path) {
            // The next use of the ledger records the version instead.
            self.session
                .output
                .print_note(format!("no version is recorded yet: {}", error.message()));
        }
        Ok(())
    }

    fn record(&self, path: &Path) -> Result<(), CliError> {
        let home = self.home.get_or_init(|| {
            let home = self.session.find_trusted_home().ok().flatten()?;
            let store =
                home_skills::open_store(self.session, &SkillRoots { roots: Vec::new() }).ok()?;
            Some((home_skills::open_ledger(&home), store))
        });
        let Some((ledger, store)) = home else { return Ok(()) };
        let snapshot = store.snapshot();
        let Some(id) = skill_at(&snapshot, path) else { return Ok(()) };
        ledger.record_direct_edits(&snapshot, &[id]).map_err(registry_error)?;
        for note in ledger.take_notes() {
            self.session.output.print_note(note);
        }
        Ok(())
    }
}

/// Returns the skill whose SKILL.md has this path.
fn skill_at(snapshot: &skill_catalog::Snapshot, path: &Path) -> Option<SkillId> {
    let path = fs::canonicalize(path).ok()?;
    let mut skills = snapshot.skills().iter();
    let found = skills.find(|skill| {
        // A cheap test first: most paths already differ in the directory's name.
        path.parent().and_then(Path::file_name) == Some(skill.id().as_str().as_ref())
            && fs::canonicalize(skill.location()).is_ok_and(|location| location == path)
    });
    found.map(|skill| skill.id().clone())
}
