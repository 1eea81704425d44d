//! The error of a skill whose requirements are not met.

use skill_catalog::RegistryError;
use skill_format::sanitize_line;
use skillhost_payload::ErrorKind;

/// Creates the error of a skill that requires a tool which its agent lacks.
pub(crate) fn ineligible_error(name: &str, reason: &str) -> RegistryError {
    let name: String = name.chars().take(128).collect();
    RegistryError::new(
        ErrorKind::Ineligible,
        format!("{}: {reason}", sanitize_line(&name)),
        "use another skill; the operator can add the tool to the agent's uses_tools, or name it in \
         tool_aliases in skillhost.yaml",
    )
}
