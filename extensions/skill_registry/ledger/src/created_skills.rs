//! Skills that agents created, and their approval by a person.

use std::collections::HashMap;

use serde_json::json;
use skill_catalog::{AgentAuthor, CreatedSkill, CreatedSkills, Skill, Snapshot, TrustLevel};
use skill_format::{Digest, SkillId};

use crate::changes::record::record_version;
use crate::files::created_mirror::{MIRROR, Mirror, read_mirror};
use crate::files::skill_directory::{SkillDirectory, find_skill, require_skill};
use crate::files::tree::{CapturedTree, read_tree};
use crate::grant::untrusted_root;
use crate::ledger::Ledger;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::proposal::HumanActor;
use crate::records::version::{ApprovalStatus, VersionAuthor};
use crate::session::LedgerSession;
use crate::sqlite::{CreatedSkillRow, NewAuditEntry};

impl Ledger {
    /// Records that an agent created a skill, as reported by a tool that writes files for agents.
    /// Until a person approves the skill, it neither grants tools nor can be bound.
    ///
    /// A tool may report before it writes, so that the skill is never taken for the operator's, and
    /// again afterwards; that counts as one creation.
    ///
    /// # Errors
    /// [`LedgerErrorKind::Argument`] for a name that cannot be an id; those of the disk and the
    /// database.
    pub fn report_created(
        &self,
        snapshot: &Snapshot,
        author: &AgentAuthor,
        skill_id: &str,
    ) -> Result<(), LedgerError> {
        let id = SkillId::new(skill_id).map_err(|error| {
            LedgerError::new(LedgerErrorKind::Argument, error.to_string(), "name a directory")
        })?;
        // The skill may be newer than the snapshot; then its first version is recorded later.
        let place = find_skill(snapshot, skill_id)?.map(SkillDirectory::for_skill);
        self.with_session(|session| {
            let captured = place.as_ref().map(read_tree).transpose()?;
            session.change(|work| {
                let known = work.created(skill_id)?;
                if let (Some(place), Some(captured)) = (&place, &captured) {
                    let author = VersionAuthor::Agent(author.clone());
                    record_version(work, skill_id, place, captured, &author)?;
                }
                // After an approval the report counts again: the agent may have written other
                // files.
                if known.is_some_and(|known| known.author == *author && known.approved.is_none()) {
                    return Ok(());
                }
                let changed = work.append_audit(&NewAuditEntry {
                    action: "skill.created",
                    by: &author.agent_id,
                    via: "agent",
                    skill_id: Some(skill_id),
                    detail: json!({"author": author}),
                    ..NewAuditEntry::default()
                })?;
                let created = CreatedSkillRow {
                    skill_id: id.to_string(),
                    author: author.clone(),
                    approved: None,
                    approved_by: None,
                };
                work.put_created(&created, changed)
            })?;
            session.mirror_created()
        })
    }

    /// Approves a skill as it is now: `digest` is that of the tree that the person saw. A later
    /// edit of its files revokes the approval; a proposal or version that a person applies does
    /// not.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] for an unknown skill, [`LedgerErrorKind::State`] for one of an
    /// untrusted root that no agent created, [`LedgerErrorKind::Digest`] if its files differ from
    /// those that the person saw; those of the disk and the database.
    pub fn approve_skill(
        &self,
        snapshot: &Snapshot,
        actor: &HumanActor,
        skill_id: &str,
        digest: Digest,
    ) -> Result<(), LedgerError> {
        let skill = require_skill(snapshot, skill_id)?;
        let place = SkillDirectory::for_skill(skill);
        self.with_session(|session| {
            session.restore_texts(snapshot)?;
            let captured = read_tree(&place)?;
            session.change(|work| {
                let all = work.all_created()?;
                let origins_unknown = all.iter().any(CreatedSkillRow::is_unknown_origins);
                // With unknown origins every skill counts as created by an agent, so that an
                // approval is recorded there.
                let created = work.created(skill_id)?.or_else(|| {
                    let skill_id = skill_id.to_owned();
                    origins_unknown
                        .then(|| CreatedSkillRow { skill_id, ..CreatedSkillRow::unknown_origins() })
                });
                if created.is_none() && skill.trust() == TrustLevel::Untrusted {
                    return Err(untrusted_root(skill));
                }
                check_digest(skill_id, &captured, digest)?;
                record_version(work, skill_id, &place, &captured, &VersionAuthor::External)?;
                let changed = work.append_audit(&NewAuditEntry {
                    action: "skill.approved",
                    by: &actor.name,
                    via: &actor.via,
                    skill_id: Some(skill_id),
                    detail: json!({"tree": digest}),
                    ..NewAuditEntry::default()
                })?;
                let Some(mut created) = created else {
                    return work.put_approval(skill_id, digest, &actor.name, changed);
                };
                created.approved = Some(digest);
                created.approved_by = Some(actor.name.clone());
                work.put_created(&created, changed)?;
                let is_known = |skill: &Skill| {
                    let id = skill.id().as_str();
                    id == skill_id || all.iter().any(|created| created.skill_id == id)
                };
                // Once every trusted skill has a record of its own, the origins are known again.
                let mut trusted = trusted_skills(snapshot);
                if origins_unknown && trusted.all(is_known) {
                    work.drop_unknown_origins()?;
                }
                Ok(())
            })?;
            // After the commit: the copy must not be ahead of the database.
            session.mirror_created()?;
            self.touch_generation();
            Ok(())
        })
    }

    /// Returns the approval status of the skills that agents created; all others are the
    /// operator's.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn approval_statuses(
        &self,
        snapshot: &Snapshot,
    ) -> Result<HashMap<SkillId, ApprovalStatus>, LedgerError> {
        let mirrored = self.data_dir.join(MIRROR).exists();
        // A copy without a database shows that the database was lost: a session rebuilds it.
        let created = match mirrored && !self.read_only {
            true => self.with_session(all_created),
            false => self.with_existing_session(all_created),
        };
        let created = match created {
            Err(error) if error.is_unwritable() => self.with_existing_session(all_created),
            created => created,
        };
        let created = self.or_mirrored(created?)?;
        let mut statuses = HashMap::new();
        if created.iter().any(CreatedSkillRow::is_unknown_origins) {
            for skill in trusted_skills(snapshot) {
                let digest = read_tree(&SkillDirectory::for_skill(skill))?.digest();
                let (author, approved) = (AgentAuthor::default(), false);
                statuses.insert(skill.id().clone(), ApprovalStatus { author, approved, digest });
            }
        }
        for CreatedSkillRow { skill_id, author, approved, .. } in created {
            let Some(skill) = find_skill(snapshot, &skill_id)? else { continue };
            let digest = read_tree(&SkillDirectory::for_skill(skill))?.digest();
            let approved = approved == Some(digest);
            statuses.insert(skill.id().clone(), ApprovalStatus { author, approved, digest });
        }
        Ok(statuses)
    }

    /// Returns the skills that agents created, whether they are in the snapshot or not, with the
    /// digests of their current trees. Takes no lock if no such skill exists.
    ///
    /// # Errors
    /// Those of the disk and the database. Such skills are unknown only if the copy next to the
    /// database cannot be read either.
    pub fn created_skills(&self, snapshot: &Snapshot) -> Result<CreatedSkills, LedgerError> {
        let created = self.with_existing_session(all_created)?;
        Ok(with_trees(self.or_mirrored(created)?, snapshot))
    }

    /// Returns the records of the database, or those of the copy if the database has none.
    fn or_mirrored(&self, rows: Vec<CreatedSkillRow>) -> Result<Vec<CreatedSkillRow>, LedgerError> {
        if !rows.is_empty() {
            return Ok(rows);
        }
        match read_mirror(&self.data_dir) {
            // If the ledger cannot be written, a lost database is not rebuilt from the copy.
            Mirror::Lines(lines) => Ok(lines),
            // A ledger existed: its rebuild records that the origins are unknown.
            Mirror::Unreadable => self.with_session(all_created),
            Mirror::Missing => Ok(rows),
        }
    }

    /// Returns the result of [`Ledger::created_skills`] from the copy next to the database, without
    /// the lock and the database; `None` if the copy cannot be read, and if a database exists
    /// without one.
    pub(crate) fn mirrored_created_skills(&self, snapshot: &Snapshot) -> Option<CreatedSkills> {
        match read_mirror(&self.data_dir) {
            Mirror::Lines(lines) => Some(with_trees(lines, snapshot)),
            Mirror::Missing => (!self.database().exists()).then(CreatedSkills::new),
            Mirror::Unreadable => None,
        }
    }
}

/// Returns the skills that count as the operator's unless a record says otherwise.
fn trusted_skills(snapshot: &Snapshot) -> impl Iterator<Item = &Skill> {
    snapshot
        .skills()
        .iter()
        .map(|skill| &**skill)
        .filter(|skill| skill.trust() == TrustLevel::Operator)
}

fn all_created(session: &mut LedgerSession<'_>) -> Result<Vec<CreatedSkillRow>, LedgerError> {
    session.read(|work| work.all_created())
}

fn with_trees(created: Vec<CreatedSkillRow>, snapshot: &Snapshot) -> CreatedSkills {
    let mut all = CreatedSkills::new();
    if created.iter().any(CreatedSkillRow::is_unknown_origins) {
        let unknown = CreatedSkill { author: AgentAuthor::default(), approved: None, tree: None };
        all.extend(trusted_skills(snapshot).map(|skill| (skill.id().clone(), unknown.clone())));
    }
    let with_tree = |CreatedSkillRow { skill_id, author, approved, .. }: CreatedSkillRow| {
        let id = SkillId::new(&skill_id).ok()?;
        let skill = snapshot.get(&skill_id).filter(|skill| *skill.id() == id);
        // A tree that cannot be read completely never equals the approved one.
        let captured = skill.and_then(|skill| read_tree(&SkillDirectory::for_skill(skill)).ok());
        let tree = captured.filter(|tree| tree.complete).map(|tree| tree.digest());
        Some((id, CreatedSkill { author, approved, tree }))
    };
    all.extend(created.into_iter().filter_map(with_tree));
    all
}

fn check_digest(
    skill_id: &str,
    captured: &CapturedTree,
    digest: Digest,
) -> Result<(), LedgerError> {
    let now = captured.digest();
    if !captured.complete {
        return Err(LedgerError::new(
            LedgerErrorKind::TooLarge,
            format!("`{skill_id}` has more files than can be approved"),
            "remove the files that do not belong to the skill: 512 files and 16 MiB are possible",
        ));
    }
    if now == digest {
        return Ok(());
    }
    Err(LedgerError::new(
        LedgerErrorKind::Digest,
        format!("`{skill_id}` has the digest {now}, not {digest}"),
        "inspect its files again: they differ from those that were approved",
    ))
}
