//! Why an extension is not built.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skillhost_kernel::{ApprovalsError, CallError, ErrorKind, LoadPhase, TreeError};

/// One thing that the policy does not let pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyViolation {
    /// The file, relative to the extension's folder.
    pub file: String,
    /// The line, from 1, where there is one.
    pub line: Option<u32>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for PolicyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// Why an extension was not built, installed or rolled back.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The policy does not let it pass; never empty.
    #[error("{}", lines(.0))]
    PolicyViolations(Vec<PolicyViolation>),
    /// The files are others by now.
    #[error("the files of `{id}` have changed while it was built")]
    Changed {
        /// The extension.
        id: String,
    },
    /// It does not compile.
    #[error("it does not compile\n{messages}")]
    Compile {
        /// The compiler's messages, shortened, each with the line it points at.
        messages: String,
        /// What to do about it; may be empty.
        hint: String,
    },
    /// A program could not be started.
    #[error("{program} could not be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program was ended from outside.
    #[error("{program} was ended by signal {signal}")]
    Killed {
        /// The program.
        program: String,
        /// The signal's number.
        signal: i32,
    },
    /// It took too long, and was ended.
    #[error("{what} took longer than {} ms and was ended", limit.as_millis())]
    TimedOut {
        /// What took too long.
        what: &'static str,
        /// How long it may take.
        limit: Duration,
        /// What to do about it.
        hint: &'static str,
    },
    /// There is nothing to build against.
    #[error("the sources of skillhost-sdk do not lie beside this executable")]
    NoSdk,
    /// The compiler has read files that nobody was shown.
    #[error("it was built from files that were not shown: {}", files.join(", "))]
    UnreviewedFiles {
        /// The files.
        files: Vec<String>,
    },
    /// It was built, and does not load.
    #[error("it was built and does not load, phase {phase}: {reason}")]
    Rejected {
        /// Where it failed.
        phase: LoadPhase,
        /// Why.
        reason: String,
        /// What to do about it; may be empty.
        hint: String,
    },
    /// It was built, and brings its process down.
    #[error("it was built, and does not load: {what}")]
    Trial {
        /// What happened.
        what: String,
        /// What it printed; may be empty.
        printed: String,
    },
    /// The manifest's text cannot be given another `sha256`.
    #[error("manifest.yaml: a line `sha256: …` cannot be put into it")]
    Unpinnable,
    /// There is no build to go back to.
    #[error("there is no earlier build of `{id}`")]
    NoPreviousBuild {
        /// The extension.
        id: String,
        /// What to do instead.
        hint: String,
    },
    /// The kept build does not fit any more.
    #[error("the earlier build of `{id}` is {was}, and the manifest names {is}")]
    PreviousBuildMismatch {
        /// The extension.
        id: String,
        /// The kept build's file name.
        was: String,
        /// The name that the manifest's `entrypoint` stands for.
        is: String,
    },
    /// Another process builds for this home.
    #[error("another process builds an extension of this home")]
    Busy,
    /// An installation failed, and so did putting everything back.
    #[error("{source}; the installation is half done and inert until the next start {what}")]
    Unsettled {
        /// What failed first.
        source: Box<BuildError>,
        /// What the next start does with it.
        what: &'static str,
    },
    /// The library that a manifest names is not there.
    #[error("the library `{name}` is not in sandbox/extensions/{id}")]
    NoLibrary {
        /// The extension.
        id: String,
        /// The file name.
        name: String,
    },
    /// The manifest pins other files.
    #[error("the manifest pins the sha256 {pinned}, and {what} has {actual}")]
    OtherPin {
        /// From the manifest.
        pinned: String,
        /// Of the library or the files.
        actual: String,
        /// Which of the two.
        what: String,
    },
    /// The journal of approvals could not be read or written.
    #[error(transparent)]
    Approvals(#[from] ApprovalsError),
    /// The folder's files could not be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn lines(refusals: &[PolicyViolation]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl BuildError {
    /// Names the file that a failed operation was about.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::PolicyViolations(_) | Self::UnreviewedFiles { .. } => ErrorKind::Denied,
            Self::Changed { .. } | Self::PreviousBuildMismatch { .. } => ErrorKind::Conflict,
            Self::TimedOut { .. } => ErrorKind::Timeout,
            Self::Start { .. } | Self::Killed { .. } | Self::NoSdk | Self::Busy => {
                ErrorKind::Unavailable
            }
            Self::NoPreviousBuild { .. } | Self::NoLibrary { .. } => ErrorKind::NotFound,
            Self::OtherPin { .. } => ErrorKind::Conflict,
            Self::Tree(TreeError::Io { .. }) | Self::Approvals(_) | Self::Io { .. } => {
                ErrorKind::Io
            }
            Self::Tree(_) => ErrorKind::Denied,
            Self::Unsettled { source, .. } => source.kind(),
            Self::Compile { .. }
            | Self::Rejected { .. }
            | Self::Trial { .. }
            | Self::Unpinnable => ErrorKind::Failed,
        }
    }

    /// What to do about it, one line each; may be empty.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::PolicyViolations(refusals) => {
                let mut remedies: Vec<_> = refusals.iter().map(|r| r.remedy.as_str()).collect();
                remedies.dedup();
                remedies.join("\n")
            }
            Self::Compile { hint, .. }
            | Self::Rejected { hint, .. }
            | Self::NoPreviousBuild { hint, .. } => hint.clone(),
            Self::Changed { .. } => "leave the files as they are until it is built".to_owned(),
            Self::Start { .. } => {
                "a Rust toolchain has to be installed, with cargo in PATH".to_owned()
            }
            Self::Killed { .. } => "build it again".to_owned(),
            Self::TimedOut { hint, .. } => (*hint).to_owned(),
            Self::NoSdk => {
                "name them: build.sdk in skillhost.yaml (kernel/sdk in the source tree)".to_owned()
            }
            Self::UnreviewedFiles { .. } => {
                "put what it needs into its own files, in src/, as Rust".to_owned()
            }
            Self::Trial { printed, .. } if printed.is_empty() => String::new(),
            Self::Trial { printed, .. } => format!("it printed: {printed}"),
            Self::Unpinnable => {
                "write the manifest as plain lines `field: value`, without `sha256`".to_owned()
            }
            Self::PreviousBuildMismatch { .. } => {
                "put the entrypoint back, then roll back".to_owned()
            }
            Self::Busy => "wait until it is done".to_owned(),
            Self::Unsettled { source, .. } => source.hint(),
            Self::NoLibrary { id, name } => format!(
                "build it: skillhost ext build {id}\nor copy one that you have built there, such as \
                 target/release/{name}"
            ),
            Self::OtherPin { .. } => "correct or remove `sha256` in the manifest".to_owned(),
            Self::Approvals(error) => error.hint(),
            Self::Tree(error) => error.hint(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "make room on the disk".to_owned()
            }
            Self::Io { .. } => "check that it exists and may be read and written".to_owned(),
        }
    }
}

impl From<BuildError> for CallError {
    fn from(error: BuildError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: error.hint() }
    }
}
