//! The operator's policy for code of skills, and the refusals of runs.

use skillhost_home::{Home, load_operator_policy, operator_policy_without_home};
use skillhost_policy::OperatorPolicy;
use skillhost_terminal::{CliError, exit};

/// Returns the operator's statements; outside of a home there are only the defaults.
pub(super) fn operator_policy(home: Option<&Home>) -> Result<OperatorPolicy, CliError> {
    match home {
        Some(home) => Ok(load_operator_policy(home)?),
        None => Ok(operator_policy_without_home()),
    }
}

/// Converts the error of a run that did not start. A missing isolation must not look like the exit
/// code 1 of a script.
pub(super) fn refusal(error: skillhost_payload::CallError) -> CliError {
    let error = CliError::from(error);
    let code = if error.code() == exit::FINDINGS { exit::IO } else { error.code() };
    error.with_code(code)
}
