//! The active skills of a run while its calls are executed.

use std::sync::{Mutex, PoisonError};

use skillhost_payload::{ActiveSkillsChange, SkillRef};

/// The active skills that the calls of one run see. At the start of each turn they are those of the
/// thread; the thread stores a change together with the result of the call that made it.
#[derive(Default)]
pub(crate) struct SessionSkills(Mutex<Vec<SkillRef>>);

impl SessionSkills {
    /// Returns the active skills, the most recent last.
    pub(crate) fn list(&self) -> Vec<SkillRef> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the list by that of the thread.
    pub(crate) fn set(&self, skills: Vec<SkillRef>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = skills;
    }

    /// Applies the change of a call, for the calls after it.
    pub(crate) fn apply(&self, change: &ActiveSkillsChange) {
        change.apply(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
