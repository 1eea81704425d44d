//! What a crate may say about its own build: its `Cargo.toml`, and how its sources name files.
//!
//! A build may run no code but the toolchain's and that of crates an operator has allowed. So a
//! `Cargo.toml` is not passed on but read: what is allowed becomes a [`CrateRecipe`], and cargo is given
//! the text that [`CrateRecipe::manifest`] writes.

mod cargo_toml;
mod sources;

use std::path::Path;

use serde_json::json;
use skillhost_kernel::PlannedFile;

use crate::error::{BuildError, PolicyViolation};
use crate::files;

/// A crate that may be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrateRecipe {
    /// The package's name.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) edition: String,
    /// The library's name.
    pub(crate) library: String,
    /// Crates of the allow-list.
    pub(crate) dependencies: Vec<AllowedDependency>,
    /// Keys of `[profile.release]` and their values, as TOML.
    pub(crate) profile: Vec<(String, String)>,
}

/// One crate of the allow-list, as the extension wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedDependency {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
    pub(crate) default_features: bool,
}

/// Reads a crate's files.
///
/// # Errors
/// [`BuildError::PolicyViolations`] with everything that may not be there.
pub(crate) fn check_crate(
    files: &[PlannedFile],
    entrypoint: &str,
    allow: &[String],
) -> Result<CrateRecipe, BuildError> {
    let mut refusals = Vec::new();
    let recipe = match files::file_text(files, "Cargo.toml") {
        Some(text) => cargo_toml::read_cargo_toml(text, entrypoint, allow, &mut refusals),
        None => {
            refusals.push(PolicyViolation {
                file: "Cargo.toml".into(),
                line: None,
                what: "is not there, or is not text".into(),
                remedy: "write one, or give the manifest an entrypoint {command: […]}".into(),
            });
            None
        }
    };
    sources::check_sources(files, &mut refusals);
    match recipe {
        Some(recipe) if refusals.is_empty() => Ok(recipe),
        _ => Err(BuildError::PolicyViolations(refusals)),
    }
}

impl CrateRecipe {
    /// The `Cargo.toml` that is built from. Nothing is found out by cargo itself: no build script,
    /// no program, no workspace around it.
    pub(crate) fn manifest(&self, sdk: &Path) -> String {
        // A TOML basic string and a JSON string escape alike what these can hold.
        let quoted = |text: &str| json!(text).to_string();
        let mut text = format!(
            "[package]\nname = {}\nversion = {}\nedition = {}\npublish = false\nbuild = false\n\
             autobins = false\nautoexamples = false\nautotests = false\n\
             autobenches = false\n\n[lib]\nname = {}\ncrate-type = [\"cdylib\"]\n\
             path = \"src/lib.rs\"\n\n[dependencies]\nskillhost-sdk = {{ path = {} }}\n",
            quoted(&self.name),
            quoted(&self.version),
            quoted(&self.edition),
            quoted(&self.library),
            quoted(&sdk.to_string_lossy()),
        );
        for dependency in &self.dependencies {
            text.push_str(&format!(
                "{} = {{ version = {}, default-features = {}, features = {} }}\n",
                dependency.name,
                quoted(&dependency.version),
                dependency.default_features,
                json!(dependency.features),
            ));
        }
        text.push_str("\n[profile.release]\n");
        for (key, value) in &self.profile {
            text.push_str(&format!("{key} = {value}\n"));
        }
        text.push_str("panic = \"unwind\"\n\n[workspace]\n");
        text
    }
}

#[cfg(test)]
mod tests;
