//! Grants of `allowed-tools`: without effect until a person approved the skill as it is.

use serde::Serialize;
use skill_catalog::{Skill, Snapshot, Store, TrustLevel};
use skill_format::{AllowedTools, Digest, SkillId};

use crate::files::skill_directory::{SkillDirectory, require_skill};
use crate::files::tree::{current_digests, read_tree};
use crate::ledger::Ledger;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::note::LedgerNote;

/// The `allowed-tools` of a skill in an operator's root, and its approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolGrant {
    /// The skill.
    pub skill_id: SkillId,
    /// The tools, in the order of the file; at least one.
    pub allowed_tools: Vec<String>,
    /// `true` if a person approved the tree as it is now.
    pub approved: bool,
    /// The digest of the tree now.
    pub digest: Digest,
}

impl Ledger {
    /// Returns `true` if a person approved the files of a skill as they are now, with a SKILL.md of
    /// the digest `text`.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn is_approved(&self, skill: &Skill, text: Digest) -> Result<bool, LedgerError> {
        let id = skill.id().as_str();
        let approved = self.with_existing_session(|session| {
            session.read(|work| match work.created(id)? {
                // Skills that agents created have their own table, so that no other approval can
                // count.
                Some(created) => Ok(created.approved),
                None => work.approval(id),
            })
        })?;
        let Some(approved) = approved else { return Ok(false) };
        // The tree is read from the disk at every check: a file other than SKILL.md may have
        // changed.
        let (tree, read) = current_digests(skill)?;
        Ok(tree == approved && read == Some(text))
    }

    /// Returns the result of [`Ledger::is_approved`]; an error counts as `false` and is noted.
    pub fn counts(&self, skill: &Skill, text: Digest) -> bool {
        self.is_approved(skill, text).unwrap_or_else(|error| {
            let (skill_id, reason) = (skill.id().to_string(), error.to_string());
            self.note(LedgerNote::ApprovalUnknown { skill_id, reason });
            false
        })
    }

    /// Returns the skills of operators' roots whose `allowed-tools` names a tool, sorted by id. A
    /// skill that cannot be read grants no tools and is left out.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn tool_grants(
        &self,
        store: &Store,
        snapshot: &Snapshot,
    ) -> Result<Vec<ToolGrant>, LedgerError> {
        let mut grants = Vec::new();
        for skill in snapshot.skills().iter().filter(|skill| skill.trust() == TrustLevel::Operator)
        {
            let Ok(source) = store.read(skill) else { continue };
            let AllowedTools::List(tools) = &source.frontmatter.allowed_tools else { continue };
            if tools.is_empty() {
                continue;
            }
            grants.push(ToolGrant {
                skill_id: skill.id().clone(),
                allowed_tools: tools.clone(),
                approved: self.is_approved(skill, source.digest)?,
                digest: read_tree(&SkillDirectory::for_skill(skill))?.digest(),
            });
        }
        Ok(grants)
    }

    /// Returns the digest of a skill's current tree.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] for an unknown skill; those of the disk.
    pub fn tree_of(&self, snapshot: &Snapshot, skill_id: &str) -> Result<Digest, LedgerError> {
        Ok(read_tree(&SkillDirectory::for_skill(require_skill(snapshot, skill_id)?))?.digest())
    }
}

/// Creates the error for approving a skill of an untrusted root, where an approval has no effect.
pub(crate) fn untrusted_root(skill: &Skill) -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::State,
        format!("`{}` lies in the untrusted root `{}`", skill.id(), skill.source()),
        "set `trust: operator` for its root in skillhost.yaml if you trust all of its skills",
    )
}
