//! The errors that prevent runs.

use std::io;
use std::path::{Path, PathBuf};

use skillhost_conversation::ModelError;
use skillhost_files::{LockError, TreeError};
use skillhost_home::HomeError;
use skillhost_payload::{CallError, OperatorCommand};

/// An error that prevents runs, or their results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A file of the results or of the home of the runs.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The files of a skill or of a workspace.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The home of the runs.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Another process writes the same results.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The model cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The kernel of the runs.
    #[error(transparent)]
    Kernel(#[from] CallError),
    /// A cost limit without a price.
    #[error("the price of model `{model}` is not known")]
    UnknownPrice {
        /// The model.
        model: String,
    },
    /// The agent of the runs cannot answer.
    #[error("agent `{agent}` cannot be tested: {reason}")]
    Agent {
        /// The agent.
        agent: String,
        /// The reason.
        reason: String,
    },
    /// The controls show that a result would have no meaning.
    #[error("the harness cannot see triggers: {reason}")]
    Harness {
        /// The control that failed.
        reason: String,
    },
    /// Even the first requests of the runs exceed a limit.
    #[error("the runs need more than the budget: {estimate}")]
    Budget {
        /// The least amount that they need.
        estimate: String,
    },
}

impl EvalError {
    /// Returns a hint; may be empty.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Model(error) => error.hint.clone(),
            Self::Tree(error) => error.hint(),
            Self::UnknownPrice { model } => format!(
                "add `models.known.{model}.price` to skillhost.yaml, or limit --budget-tokens"
            ),
            Self::Agent { .. } => format!("see: {}", OperatorCommand::ListAgents),
            Self::Harness { .. } => {
                "check that the skill is enabled and that the agent may read it".to_owned()
            }
            Self::Budget { .. } => "raise the budget, or lower --runs".to_owned(),
            Self::Kernel(error) => error.hint.clone(),
            Self::Io { .. } | Self::Home(_) | Self::Lock(_) => String::new(),
        }
    }

    /// Converts an error of a file.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        // Owned, because the caller may drop the path before the operation.
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
