//! The interface that checks, builds and installs extensions of agents and operators.
//!
//! The kernel decides who may build, and obtains the approval of a person; an [`ExtensionBuilder`]
//! does the work. The kernel itself knows neither compiler nor policy.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use skillhost_control::RollbackOutcome;
use skillhost_files::TreeFile;
use skillhost_home::Approver;
use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::{CallError, ErrorKind, ToolSpec};
use skillhost_sandbox::IsolationReport;

/// A builder of one home's extensions.
#[async_trait]
pub trait ExtensionBuilder: Send + Sync {
    /// Completes or undoes the interrupted operations of a process that died. Called before
    /// extensions are loaded; returns notes about the result.
    fn recover(&self) -> Vec<String>;

    /// Reads all files of a build and checks them against the policy. Changes no file.
    ///
    /// # Errors
    /// Every violation of the policy, with file and line.
    async fn plan_build(&self, id: &ExtensionId) -> Result<BuildPlan, CallError>;

    /// Builds exactly the files of the plan, and tries the result in a separate process. Installs
    /// no file. Dropping the future ends every process that was started.
    ///
    /// # Errors
    /// The compiler's messages, or the error of the trial.
    async fn build(&self, plan: &BuildPlan) -> Result<BuildCandidate, CallError>;

    /// Installs a candidate and records its approval; the previous build is kept. After a crash at
    /// any step, [`ExtensionBuilder::recover`] restores either the old build or the new one.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the files differ from those of the plan. After this error, and
    /// after errors of the file system, the previous state is in place.
    async fn install(
        &self,
        plan: &BuildPlan,
        made: &BuildCandidate,
        approver: &Approver,
    ) -> Result<(), CallError>;

    /// Restores the previous build and keeps the current one. The restored build is approved if the
    /// other files are the same as before.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] without a previous build.
    async fn rollback(
        &self,
        id: &ExtensionId,
        approver: &Approver,
    ) -> Result<RollbackOutcome, CallError>;
}

/// The input of a build.
#[derive(Clone)]
pub struct BuildPlan {
    /// The manifest among the files.
    pub manifest: Arc<Manifest>,
    /// sha256 of all `files`; hexadecimal.
    pub sha256: String,
    /// Every file with its bytes. Later changes of the directory have no effect on the build.
    pub files: Vec<TreeFile>,
    /// The files as displayed to the person who approves. Untrusted text.
    pub details: String,
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

/// A build that passed its trial and is not installed.
#[derive(Debug, Clone)]
pub struct BuildCandidate {
    /// The tools of the extension.
    pub tools: Vec<ToolSpec>,
    /// The tools were not listed, because the extension requires other extensions.
    pub unasked: bool,
    /// The version, as reported by the build.
    pub version: String,
    /// sha256 of the library, or of the files of a process extension; hexadecimal.
    pub sha256: String,
    /// The compiler's warnings; may be empty.
    pub warnings: String,
    /// The isolation of the build and of the trial; `None` for an agent.
    pub isolation: Option<IsolationReport>,
    /// The path of the candidate until it is installed.
    pub staged: PathBuf,
}

/// The builder of a kernel without one.
pub struct NoBuilder;

impl NoBuilder {
    fn unavailable_error<T>() -> Result<T, CallError> {
        Err(CallError::new(ErrorKind::Unavailable, "this kernel cannot build extensions"))
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
