//! The check of grants, for scripts and for handler programs.

use skillhost_home::{ApprovalsError, GrantStatus, Home, ScriptGrants};
use skillhost_payload::{CallError, ErrorKind};
use skillhost_policy::PolicyChange;

use crate::plan::ScriptPlan;
use crate::script_result::printable_line;

/// The changes of a policy that a reason names.
const MAX_CHANGES: usize = 6;

/// Reads the operator's grants for code of skills. Blocks on the disk.
///
/// # Errors
/// [`ErrorKind::Io`] if the grants cannot be read; then no code is granted.
pub fn load_grants(home: &Home) -> Result<ScriptGrants, CallError> {
    ScriptGrants::load(home).map_err(|error| to_call_error(&error))
}

/// Compares the operator's grant for a skill's files with a run of them, under the policy of its use.
#[must_use]
pub fn check_grant(grants: &ScriptGrants, plan: &ScriptPlan) -> GrantStatus {
    grants.status(&plan.tree, plan.policy_use, plan.granted_policy())
}

/// Describes why a grant does not cover a run; `None` if it does or there is none.
#[must_use]
pub fn describe_grant(status: &GrantStatus, skill_id: &str) -> Option<String> {
    let skill_id = printable_line(skill_id);
    match status {
        GrantStatus::Granted | GrantStatus::Missing => None,
        GrantStatus::Outdated => Some(format!(
            "the approval of {skill_id} is of an earlier version, which did not separate scripts from \
             programs; it covers neither"
        )),
        GrantStatus::FilesChanged(paths) => Some(format!(
            "{skill_id} changed since approval: {}",
            printable_line(&paths.join(", "))
        )),
        GrantStatus::PolicyChanged(changes) => Some(format!(
            "the policy of {skill_id} changed since approval: {}",
            describe_changes(changes)
        )),
        GrantStatus::LevelLowered(level) => Some(format!(
            "the isolation is weaker than at the approval of {skill_id}, which was `{}`",
            level.as_str()
        )),
    }
}

/// Names the changes of a policy on one line.
#[must_use]
pub fn describe_changes(changes: &[PolicyChange]) -> String {
    let named = changes.iter().take(MAX_CHANGES);
    let mut parts: Vec<_> = named.map(|change| printable_line(&change.to_string())).collect();
    if changes.len() > MAX_CHANGES {
        parts.push(format!("and {} more", changes.len() - MAX_CHANGES));
    }
    parts.join(", ")
}

fn to_call_error(error: &ApprovalsError) -> CallError {
    CallError::new(ErrorKind::Io, error.to_string()).with_hint(error.hint())
}
