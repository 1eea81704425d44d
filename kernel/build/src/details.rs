//! The text that people are shown before they approve an extension.

use skillhost_kernel::{ApprovalDetails, PlannedFile, approval_details};
use skillhost_manifest::Manifest;

use crate::error::{BuildError, PolicyViolation};
use crate::policy::CrateRecipe;

/// Writes what an extension will be able to do, and every file.
///
/// # Errors
/// [`BuildError::PolicyViolations`] where a person cannot be shown everything.
pub(crate) fn write_details(
    manifest: &Manifest,
    files: &[PlannedFile],
    recipe: Option<&CrateRecipe>,
) -> Result<String, BuildError> {
    let notes: Vec<_> = recipe.map(dependencies).into_iter().collect();
    let ApprovalDetails { text, hidden } = approval_details(manifest, files, &notes);
    if hidden.is_empty() {
        return Ok(text);
    }
    let refusal = |what| PolicyViolation {
        file: format!("sandbox/extensions/{}", manifest.id),
        line: None,
        what,
        remedy:
            "a person has to see everything: keep data and long texts elsewhere, such as in its \
                 data directory"
                .to_owned(),
    };
    Err(BuildError::PolicyViolations(hidden.into_iter().map(refusal).collect()))
}

fn dependencies(recipe: &CrateRecipe) -> String {
    let mut names = vec!["skillhost-sdk".to_owned()];
    let others = recipe.dependencies.iter();
    names.extend(others.map(|other| format!("{} {}", other.name, other.version)));
    format!("depends on: {}", names.join(", "))
}
