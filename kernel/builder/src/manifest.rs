//! The manifest of an extension that is built or approved.

use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::OperatorCommand;

use crate::error::{BuildError, PolicyViolation};

/// Parses a manifest and checks that it has the name of its directory.
///
/// # Errors
/// [`BuildError::PolicyViolations`].
pub(crate) fn parse_manifest_of(id: &ExtensionId, text: &str) -> Result<Manifest, BuildError> {
    let manifest = skillhost_manifest::parse_manifest(text).map_err(|errors| {
        let remedy = format!("see {}", OperatorCommand::PrintManifestSchema);
        manifest_violation(errors.to_string(), remedy)
    })?;
    if manifest.id != *id {
        let what = format!("id is `{}`, but the directory is `{id}`", manifest.id);
        return Err(manifest_violation(what, "give both the same name"));
    }
    Ok(manifest)
}

/// Creates the error for a violation in the manifest.
pub(crate) fn manifest_violation(what: impl Into<String>, remedy: impl Into<String>) -> BuildError {
    BuildError::PolicyViolations(vec![PolicyViolation {
        file: "manifest.yaml".to_owned(),
        line: None,
        what: what.into(),
        remedy: remedy.into(),
    }])
}
