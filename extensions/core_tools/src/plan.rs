//! A write between its examination and its commit.

use skillhost_sdk::{Result, ToolEffect};

use crate::change::ChangeSet;
use crate::jail::Sandbox;
use crate::path::SandboxPath;
use crate::result::ToolResult;
use crate::{effect, relocate};

/// A write that was examined but not committed.
#[derive(Clone, Debug)]
pub struct WritePlan {
    pub(crate) skills: Vec<String>,
    pub(crate) act: PlannedAction,
    pub(crate) done: ToolResult,
}

/// The change of a planned write.
#[derive(Clone, Debug)]
pub(crate) enum PlannedAction {
    Edit(ChangeSet),
    Move { from: SandboxPath, to: SandboxPath },
    Delete { path: SandboxPath, recursive: bool },
}

impl WritePlan {
    pub(crate) fn edits(sandbox: &Sandbox, change: ChangeSet, done: ToolResult) -> Result<Self> {
        Ok(Self { skills: change.new_skills(sandbox)?, act: PlannedAction::Edit(change), done })
    }

    /// Returns the ids of the skills that it creates.
    #[must_use]
    pub fn new_skills(&self) -> &[String] {
        &self.skills
    }

    /// Returns its effect; with the texts only if `with_text` is set.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn effect(&self, sandbox: &Sandbox, with_text: bool) -> Result<ToolEffect> {
        match &self.act {
            PlannedAction::Edit(change) => Ok(effect::of_edits(change, with_text)),
            PlannedAction::Move { from, to } => effect::of_move(sandbox, from, to, with_text),
            PlannedAction::Delete { path, .. } => effect::of_deletion(sandbox, path, with_text),
        }
    }

    /// Commits the write completely or not at all. `approved` is the digest of the effect that a
    /// person approved.
    ///
    /// # Errors
    /// `ErrorKind::Conflict` if a file has changed since it was examined, or the effect is not
    /// the approved one; those of the disk.
    pub fn commit(self, sandbox: &Sandbox, approved: Option<&str>) -> Result<ToolResult> {
        match &self.act {
            PlannedAction::Edit(change) => {
                effect::check_approved(approved, || Ok(effect::of_edits(change, true)))?;
                change.commit(sandbox)?;
            }
            PlannedAction::Move { from, to } => relocate::move_entry(sandbox, from, to, approved)?,
            PlannedAction::Delete { path, recursive } => {
                return relocate::remove(sandbox, path, *recursive, approved);
            }
        }
        Ok(self.done)
    }
}
