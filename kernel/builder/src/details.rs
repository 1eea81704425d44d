//! The review text of an extension.

use skillhost_files::TreeFile;
use skillhost_home::{ApprovalDetails, approval_details};
use skillhost_manifest::Manifest;

use crate::build_paths::BuildPaths;
use crate::changes::describe_changes;
use crate::error::{BuildError, PolicyViolation};
use crate::policy::CrateRecipe;

/// Returns the capabilities of an extension, what has changed since its approval, and all its files
/// as text.
///
/// # Errors
/// [`BuildError::PolicyViolations`] for files that the text cannot show completely.
pub(crate) fn write_details(
    place: &BuildPaths,
    manifest: &Manifest,
    files: &[TreeFile],
    (recipe, isolation): (Option<&CrateRecipe>, Vec<String>),
) -> Result<String, BuildError> {
    let notes: Vec<_> = recipe.map(format_dependencies).into_iter().chain(isolation).collect();
    let ApprovalDetails { text, hidden } = approval_details(manifest, files, &notes);
    if hidden.is_empty() {
        // After all files, the changes would be hard to find.
        let changes = describe_changes(place, manifest, files)?.unwrap_or_default();
        return Ok(changes + &text);
    }
    // An approval covers all files, so a file that the reviewer cannot see must not be part of it.
    let violation = |what| PolicyViolation {
        file: format!("sandbox/extensions/{}", manifest.id),
        line: None,
        what,
        remedy: "move data and long texts to the data directory: a review must show every file"
            .to_owned(),
    };
    Err(BuildError::PolicyViolations(hidden.into_iter().map(violation).collect()))
}

fn format_dependencies(recipe: &CrateRecipe) -> String {
    let mut names = vec!["skillhost-sdk".to_owned()];
    let others = recipe.dependencies.iter();
    names.extend(others.map(|other| format!("{} {}", other.name, other.version)));
    format!("depends on: {}", names.join(", "))
}
