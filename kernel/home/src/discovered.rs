//! A manifest that was found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillhost_files::sha256_hex;
use skillhost_manifest::Manifest;

use crate::approvals::ApprovalRecord;
use crate::private_directory::PrivateDirectory;

/// A manifest and its location.
#[derive(Debug, Clone)]
pub struct DiscoveredManifest {
    /// The parsed manifest.
    pub manifest: Arc<Manifest>,
    /// The manifest's file, as people know it.
    pub path: PathBuf,
    /// sha256 of its text; hexadecimal. Computed only for directories that agents can write to.
    pub text_sha256: String,
    /// Agents can write to its directory, so that only its own files may be used.
    pub own_files_only: bool,
    /// The approval of a person; absent for an operator's manifest.
    pub approval: Option<Arc<ApprovalRecord>>,
    /// The copy of the approved files, from which the extension is used.
    pub copy: Option<Arc<PrivateDirectory>>,
}

impl DiscoveredManifest {
    /// Creates the entry of an operator's manifest, whose files are used in place.
    #[must_use]
    pub fn of_operator(manifest: Manifest, path: PathBuf, _text: &str) -> Self {
        Self {
            manifest: Arc::new(manifest),
            path,
            text_sha256: String::new(),
            own_files_only: false,
            approval: None,
            copy: None,
        }
    }

    /// Creates the entry of a manifest in a directory that agents write to.
    #[must_use]
    pub fn of_sandbox(manifest: Manifest, path: PathBuf, text: &str) -> Self {
        let text_sha256 = sha256_hex(text.as_bytes());
        Self { text_sha256, own_files_only: true, ..Self::of_operator(manifest, path, text) }
    }

    /// Returns whether it was found in `sandbox/extensions`.
    #[must_use]
    pub fn is_in_sandbox(&self) -> bool {
        self.own_files_only
    }

    /// Returns the directory whose prompt and library are used: for an extension in the sandbox the
    /// private copy of the approved files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        match &self.copy {
            Some(copy) => &copy.path,
            None => self.path.parent().unwrap_or(Path::new(".")),
        }
    }
}
