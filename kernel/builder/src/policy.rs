//! The policy for the `Cargo.toml` and the sources of a crate.
//!
//! A build may run only code of the toolchain and of crates that an operator has allowed. Therefore
//! a `Cargo.toml` is parsed and not passed on: its allowed parts become a [`CrateRecipe`], and
//! cargo receives the text of [`CrateRecipe::manifest`].

mod cargo_toml;
mod sources;

use std::path::Path;

use serde_json::json;
use skillhost_files::TreeFile;

use crate::error::{BuildError, PolicyViolation};
use crate::files;

/// The allowed build settings of a crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrateRecipe {
    /// The name of the package.
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) edition: String,
    /// The name of the library.
    pub(crate) library: String,
    /// The dependencies on crates of the allow-list.
    pub(crate) dependencies: Vec<AllowedDependency>,
    /// The keys of `[profile.release]` and their values, as TOML.
    pub(crate) profile: Vec<(String, String)>,
}

/// A dependency on a crate of the allow-list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedDependency {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
    pub(crate) default_features: bool,
}

/// Checks the files of a crate and returns its recipe.
///
/// # Errors
/// [`BuildError::PolicyViolations`] with all violations.
pub(crate) fn check_crate(
    files: &[TreeFile],
    entrypoint: &str,
    allow: &[String],
) -> Result<CrateRecipe, BuildError> {
    let mut violations = Vec::new();
    let recipe = match files::file_text(files, "Cargo.toml") {
        Some(text) => cargo_toml::read_cargo_toml(text, entrypoint, allow, &mut violations),
        None => {
            violations.push(PolicyViolation {
                file: "Cargo.toml".into(),
                line: None,
                what: "not found or not text".into(),
                remedy: "write one, or give the manifest an entrypoint {command: […]}".into(),
            });
            None
        }
    };
    sources::check_sources(files, &mut violations);
    match recipe {
        Some(recipe) if violations.is_empty() => Ok(recipe),
        _ => Err(BuildError::PolicyViolations(violations)),
    }
}

impl CrateRecipe {
    /// Returns the `Cargo.toml` of the build.
    ///
    /// It disables cargo's discovery of build scripts, programs and enclosing workspaces.
    pub(crate) fn manifest(&self, sdk: &Path) -> String {
        // TOML basic strings and JSON strings have the same escapes for these values.
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
        // An abort would end the kernel, and an own workspace stops the search in parent
        // directories.
        text.push_str("panic = \"unwind\"\n\n[workspace]\n");
        text
    }
}

#[cfg(test)]
mod tests;
