//! Where extensions that agents or operators write are checked, built and installed.
//!
//! The kernel decides who may have what built and sees to it that somebody agrees; an
//! [`ExtensionBuilder`] does the work. The kernel itself knows neither compiler nor policy.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use skillhost_contract::payload::{ErrorKind, ToolSpec};
use skillhost_manifest::{ExtensionId, Manifest};

use crate::approvals::Approver;
use crate::error::CallError;

/// Builds extensions of one home.
#[async_trait]
pub trait ExtensionBuilder: Send + Sync {
    /// Ends what a process that died left half done. Called before anything is loaded; returns what
    /// should be known of it.
    fn recover(&self) -> Vec<String>;

    /// Reads everything that would be built and checks it against the policy. Changes nothing.
    ///
    /// # Errors
    /// Everything that is refused, with file and line.
    async fn plan_build(&self, id: &ExtensionId) -> Result<BuildPlan, CallError>;

    /// Builds exactly what the plan holds, and tries the result in a process of its own. Installs
    /// nothing. A dropped future ends every process that was started.
    ///
    /// # Errors
    /// The compiler's messages, or what went wrong in the trial.
    async fn build(&self, plan: &BuildPlan) -> Result<BuildCandidate, CallError>;

    /// Puts what was made in its place and records that it is approved; the build that was there
    /// before is kept. After a crash at any step, [`ExtensionBuilder::recover`] leaves either the old
    /// build or the new one.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when the files are no longer those of the plan; then, and where the
    /// file system fails, nothing has changed.
    async fn install(
        &self,
        plan: &BuildPlan,
        made: &BuildCandidate,
        approver: &Approver,
    ) -> Result<(), CallError>;

    /// Takes the build that was in place before back, and keeps the one that is. It is approved where
    /// its other files are those that were.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there was none.
    async fn rollback(
        &self,
        id: &ExtensionId,
        approver: &Approver,
    ) -> Result<RollbackOutcome, CallError>;
}

/// What would be built.
#[derive(Clone)]
pub struct BuildPlan {
    /// The manifest among the files.
    pub manifest: Arc<Manifest>,
    /// Over everything in `files`; hexadecimal.
    pub sha256: String,
    /// Every file, with its bytes: what is built is these, whatever happens to the folder.
    pub files: Vec<PlannedFile>,
    /// The files as people are shown them before they agree. Untrusted text.
    pub details: String,
}

/// One file of a plan.
#[derive(Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// The path below the extension's folder.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// It may be run.
    pub executable: bool,
}

impl fmt::Debug for PlannedFile {
    /// Leaves the bytes out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes, executable } = self;
        write!(f, "{path} ({} bytes{})", bytes.len(), if *executable { ", executable" } else { "" })
    }
}

impl fmt::Debug for BuildPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.files.iter().map(|file| &file.path).collect();
        f.debug_struct("BuildPlan")
            .field("id", &self.manifest.id)
            .field("sha256", &self.sha256)
            .field("files", &paths)
            .finish_non_exhaustive()
    }
}

/// A build that was tried and is not installed.
#[derive(Debug, Clone)]
pub struct BuildCandidate {
    /// The tools it has.
    pub tools: Vec<ToolSpec>,
    /// It was not asked for its tools, because it needs other extensions.
    pub unasked: bool,
    /// Its version, as it says itself.
    pub version: String,
    /// sha256 of the library, or of the files of a process extension; hexadecimal.
    pub sha256: String,
    /// What the compiler had to say beside errors; may be empty.
    pub warnings: String,
    /// Where it lies until it is installed.
    pub staged: PathBuf,
}

/// An extension that was built and installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildOutcome {
    /// The extension.
    pub id: ExtensionId,
    /// Version of the build.
    pub version: String,
    /// sha256 of the library, or of the files of a process extension; hexadecimal.
    pub sha256: String,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// What the compiler had to say; may be empty.
    pub warnings: String,
    /// It is in use already. Otherwise it is from the next start on.
    pub active: bool,
}

/// What would be built, as whoever has to agree sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildPreview {
    /// The extension.
    pub id: ExtensionId,
    /// Names exactly these files: [`Kernel::build_extension`](crate::Kernel::build_extension) takes
    /// it.
    pub sha256: String,
    /// The files. Untrusted text.
    pub details: String,
}

/// A build that is in place again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackOutcome {
    /// The extension.
    pub id: ExtensionId,
    /// sha256 of the library that was in place.
    pub from: String,
    /// sha256 of the library that is in place now.
    pub to: String,
    /// It is approved. Otherwise its other files have changed since they were, and a person has to
    /// approve it again before it is used.
    #[serde(default)]
    pub approved: bool,
    /// It is in use already. Otherwise it is from the next start on.
    pub active: bool,
}

/// What a kernel has that was given no builder.
pub(crate) struct NoBuilder;

impl NoBuilder {
    fn unavailable_error<T>() -> Result<T, CallError> {
        Err(CallError::new(ErrorKind::Unavailable, "this kernel builds no extensions"))
    }
}

#[async_trait]
impl ExtensionBuilder for NoBuilder {
    fn recover(&self) -> Vec<String> {
        Vec::new()
    }

    async fn plan_build(&self, _: &ExtensionId) -> Result<BuildPlan, CallError> {
        Self::unavailable_error()
    }

    async fn build(&self, _: &BuildPlan) -> Result<BuildCandidate, CallError> {
        Self::unavailable_error()
    }

    async fn install(
        &self,
        _: &BuildPlan,
        _: &BuildCandidate,
        _: &Approver,
    ) -> Result<(), CallError> {
        Self::unavailable_error()
    }

    async fn rollback(&self, _: &ExtensionId, _: &Approver) -> Result<RollbackOutcome, CallError> {
        Self::unavailable_error()
    }
}
