//! The check of grants, for scripts and for handler programs.

use skillhost_home::{ApprovalsError, GrantStatus, Home, ScriptGrants};
use skillhost_payload::{CallError, ErrorKind, SkillTree};
use skillhost_policy::IsolationLevel;

/// Compares the operator's grant for a skill's files with a run of them. Blocks on the disk.
///
/// # Errors
/// [`ErrorKind::Io`] if the grants cannot be read; then nothing is granted.
pub fn check_grant(
    home: &Home,
    tree: &SkillTree,
    policy_digest: &str,
    level: IsolationLevel,
) -> Result<GrantStatus, CallError> {
    let grants = ScriptGrants::load(home).map_err(|error| to_call_error(&error))?;
    Ok(grants.status(tree, policy_digest, level))
}

/// Describes why a grant does not cover a run; `None` if it does or there is none.
#[must_use]
pub fn describe_grant(status: &GrantStatus, skill_id: &str) -> Option<String> {
    match status {
        GrantStatus::Granted | GrantStatus::Missing => None,
        GrantStatus::FilesChanged(paths) => {
            Some(format!("{skill_id} changed since approval: {}", paths.join(", ")))
        }
        GrantStatus::PolicyChanged => {
            Some(format!("the policy of {skill_id} is another one than at its approval"))
        }
        GrantStatus::LevelLowered(level) => Some(format!(
            "the isolation is weaker than at the approval of {skill_id}, which was `{}`",
            level.as_str()
        )),
    }
}

fn to_call_error(error: &ApprovalsError) -> CallError {
    CallError::new(ErrorKind::Io, error.to_string()).with_hint(error.hint())
}
