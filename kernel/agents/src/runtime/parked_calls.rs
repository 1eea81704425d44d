//! The calls of a run's model that may wait parked, and delegations, which wait for subtasks.

use std::sync::Arc;

use skillhost_core::ToolEntry;
use skillhost_home::KERNEL_OWNER;
use skillhost_payload::{CallContext, CallEffect};

use super::RunControl;
use super::session::RunSession;

/// The tool of the kernel that delegates a task.
pub(super) const DELEGATE: &str = "delegate_task";

impl RunSession {
    /// Returns the run's channel if it may park the requests about a call: the run can be started
    /// again, and the call is in its thread. The calls that a tool makes in turn have no key.
    pub(super) fn can_park(&self, context: &CallContext) -> bool {
        let channel = self.reporter.channel.as_ref();
        self.durable
            && context.idempotency_key.is_some()
            && channel.is_some_and(|channel| channel.can_park())
    }

    /// Returns the control of the task to which a delegation by a call adds a subtask; `None` where
    /// it is made within the run.
    pub(super) fn subtask_control(&self, context: &CallContext) -> Option<&Arc<dyn RunControl>> {
        self.control.as_ref().filter(|_| self.can_park(context))
    }

    /// Returns the effect of repeating a call of the run's model.
    pub(super) fn call_effect(&self, context: &CallContext, entry: &ToolEntry) -> CallEffect {
        match is_delegation(entry) && self.subtask_control(context).is_some() {
            // A repetition finds the subtask by its key.
            true => CallEffect::Read,
            false => entry.spec.call_effect(),
        }
    }
}

/// Returns whether a tool delegates to an agent: that of the kernel, or one with an agent's name.
fn is_delegation(entry: &ToolEntry) -> bool {
    let (owner, name) = (entry.owner.as_str(), entry.spec.name.as_str());
    let is_alias = entry.builtin.is_some() && !entry.is_program && owner == name;
    is_alias || (owner == KERNEL_OWNER && name == DELEGATE)
}
