//! The last good text of a skill whose SKILL.md is broken, taken from its versions.

use std::sync::Arc;

use skill_catalog::{BrokenSkill, LastGoodText, SkillFile, is_valid_skill};

use crate::ledger::Ledger;
use crate::records::error::LedgerError;
use crate::session::LedgerWork;

/// The maximum number of versions of a skill that are examined, the newest first.
const MAX_VERSIONS: usize = 50;

impl Ledger {
    /// Returns the newest valid texts of broken skills, for those that have one.
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
    // A version of another directory belongs to a skill that only had the same id.
    let here = versions.iter().rev().take(MAX_VERSIONS);
    for stored in here.filter(|stored| stored.root == skill.root && stored.place == skill.place) {
        let files = work.version_listing(stored.seq)?;
        let skill_file = SkillFile::BOTH.iter().find_map(|skill_file| {
            files.iter().find(|file| file.path == skill_file.name()).map(|file| file.digest)
        });
        let Some(skill_file) = skill_file else { continue };
        // A damaged stored text is skipped like an invalid one.
        let Some(bytes) = work.verified(skill_file, None)? else { continue };
        if is_valid_skill(id, &bytes) {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}
