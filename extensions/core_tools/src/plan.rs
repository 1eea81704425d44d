//! A write between its examination and its commit.

use skillhost_sdk::{Result, ToolEffect};

use crate::change::ChangeSet;
use crate::path::FilePath;
use crate::result::ToolResult;
use crate::roots::FileRoots;
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
    Move { from: FilePath, to: FilePath },
    Delete { path: FilePath, recursive: bool },
}

impl WritePlan {
    pub(crate) fn edits(roots: &FileRoots, change: ChangeSet, done: ToolResult) -> Result<Self> {
        Ok(Self { skills: change.new_skills(roots)?, act: PlannedAction::Edit(change), done })
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
    pub fn effect(&self, roots: &FileRoots, with_text: bool) -> Result<ToolEffect> {
        match &self.act {
            PlannedAction::Edit(change) => Ok(effect::of_edits(change, with_text)),
            PlannedAction::Move { from, to } => effect::of_move(roots, from, to, with_text),
            PlannedAction::Delete { path, .. } => effect::of_deletion(roots, path, with_text),
        }
    }

    /// Commits the write completely or not at all. `approved` is the digest of the effect that a
    /// person approved.
    ///
    /// # Errors
    /// `ErrorKind::Conflict` if a file has changed since it was examined, or the effect is not
    /// the approved one; those of the disk.
    pub fn commit(self, roots: &FileRoots, approved: Option<&str>) -> Result<ToolResult> {
        match &self.act {
            PlannedAction::Edit(change) => {
                effect::check_approved(approved, || Ok(effect::of_edits(change, true)))?;
                change.commit(roots)?;
            }
            PlannedAction::Move { from, to } => relocate::move_entry(roots, from, to, approved)?,
            PlannedAction::Delete { path, recursive } => {
                return relocate::remove(roots, path, *recursive, approved);
            }
        }
        Ok(self.done)
    }
}
