//! The last good text of a skill whose SKILL.md is broken, out of its versions.

use std::sync::Arc;

use crate::ledger::Ledger;
use crate::ledger::error::LedgerError;
use crate::ledger::session::LedgerWork;
use crate::reading::{ReadOutcome, parse_complete};
use crate::skill::SkillFile;
use crate::store::{BrokenSkill, LastGoodText};

/// The number of versions of a skill that are looked at, the newest first.
const MAX_VERSIONS: usize = 50;

impl Ledger {
    /// Returns the newest texts of broken skills that are valid, of those that have one.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub(crate) fn last_good_texts(
        &self,
        broken: &[BrokenSkill],
    ) -> Result<Vec<LastGoodText>, LedgerError> {
        self.with_existing_session(|session| {
            session.read(|work| {
                let mut texts = Vec::new();
                for skill in broken {
                    if let Some(bytes) = newest_valid(work, skill)? {
                        texts.push(LastGoodText { skill: skill.clone(), bytes });
                    }
                }
                Ok(texts)
            })
        })
    }
}

fn newest_valid(
    work: &LedgerWork<'_, '_>,
    skill: &BrokenSkill,
) -> Result<Option<Arc<[u8]>>, LedgerError> {
    let id = skill.id.as_str();
    let versions = work.versions(id)?;
    let here = versions.iter().rev().take(MAX_VERSIONS);
    for stored in here.filter(|stored| stored.root == skill.root && stored.place == skill.place) {
        let files = work.version_listing(stored.seq)?;
        let own = SkillFile::BOTH.iter().find_map(|own| {
            files.iter().find(|file| file.path == own.name()).map(|file| file.digest)
        });
        let Some(own) = own else { continue };
        let Some(bytes) = work.verified(own, None)? else { continue };
        if matches!(parse_complete(id, &bytes), ReadOutcome::Valid(_)) {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}
