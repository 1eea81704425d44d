//! The interface between an MCP server and the kernel.

mod kernel;
mod published;
mod scope;
mod tasks;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Map, Value};
use skillhost_agents::TaskCall;
use skillhost_payload::{
    ErrorKind, PublishedBody, PublishedDetails, PublishedEntry, PublishedSkills, ReviewOffer,
    ToolOutput, ToolSpec,
};
use skillhost_tasks::{NewTask, TaskKind};
use tokio::sync::watch;

pub use kernel::KernelBackend;
pub use scope::ScopeError;
pub use tasks::ClientTasks;
pub(crate) use tasks::{ClientPrincipal, TaskHandle};

/// The arguments of a skill invocation, by name.
pub type PromptArguments = BTreeMap<String, String>;

/// A counter of changes in a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeCounter(pub u64);

/// The session of one connected client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSession {
    /// Unique among all sessions.
    pub id: String,
    /// The name that the client reports for itself, unverified.
    pub client: String,
}

/// The maximum length of a client name, in characters.
const MAX_CLIENT_NAME: usize = 64;

impl ClientSession {
    /// Returns the agent id of the client: its reported name, sanitized for log lines and file
    /// names.
    pub(crate) fn agent_id(&self) -> String {
        let fit = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        format!("mcp:{}", self.client.chars().take(MAX_CLIENT_NAME).map(fit).collect::<String>())
    }
}

/// An error returned by a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BackendError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The description of the error.
    pub message: String,
    /// The suggested remedy; may be empty.
    pub hint: String,
}

impl BackendError {
    /// Creates an error for an object that does not exist or is hidden from this client.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::NotFound, message: message.into(), hint: String::new() }
    }
}

/// A backend that executes the requests of clients.
///
/// Ids and addresses are untrusted input. Every future may be dropped before it completes.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Returns the instructions for the model that a client receives on connecting.
    fn instructions(&self) -> String;

    /// Lists the tools that clients may call, sorted by name.
    async fn tools(&self, session: &ClientSession) -> Result<Vec<ToolSpec>, BackendError>;

    /// Calls a tool with arguments as a JSON object; returns `None` if clients have no such tool.
    async fn call(
        &self,
        session: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, BackendError>;

    /// Calls a tool as [`Backend::call`], and requests the approval that it requires. Without an
    /// output the approval may be parked. The default requests none.
    async fn call_with_consent(
        &self,
        session: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
        _consent: &dyn TaskCall,
    ) -> Result<Option<ToolOutput>, BackendError> {
        self.call(session, name, arguments).await
    }

    /// Returns a value that changes whenever the result of [`Backend::skills`] may change.
    ///
    /// The server reads it before every use of the list, so it must be cheap.
    async fn generation(&self, session: &ClientSession) -> Result<(u64, u64), BackendError>;

    /// Lists the skills that clients see, sorted by id; the list is the same for all clients.
    async fn skills(&self, session: &ClientSession) -> Result<PublishedSkills, BackendError>;

    /// Returns frontmatter and files of skills in the given order; unknown ids are skipped.
    async fn details(
        &self,
        session: &ClientSession,
        skill_ids: &[&str],
    ) -> Result<Vec<PublishedDetails>, BackendError>;

    /// Returns a cheap value that changes whenever the [`Backend::details`] of these skills may
    /// change.
    ///
    /// The default is `None`, which disables the cache of details.
    async fn stamp(&self, _session: &ClientSession, _skill_ids: &[&str]) -> Option<u64> {
        None
    }

    /// Reads a file of a skill completely.
    async fn read(&self, session: &ClientSession, uri: &str)
    -> Result<PublishedBody, BackendError>;

    /// Lists a directory of a skill by name.
    async fn directory(
        &self,
        session: &ClientSession,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>, BackendError>;

    /// Renders the text for the model when a user invokes a skill.
    async fn prompt(
        &self,
        session: &ClientSession,
        skill_id: &str,
        arguments: PromptArguments,
    ) -> Result<String, BackendError>;

    /// Returns the proposal in a tool output that requires a decision.
    ///
    /// `None` if there is no proposal, if this client may not ask its user, or if the proposal
    /// cannot be displayed completely. The default is `None`.
    async fn review(
        &self,
        _session: &ClientSession,
        _output: &ToolOutput,
    ) -> Result<Option<ReviewOffer>, BackendError> {
        Ok(None)
    }

    /// Submits a user's decision about an offer; returns its result as text for the model.
    async fn decide(
        &self,
        _session: &ClientSession,
        offer: ReviewOffer,
        _approve: bool,
        _reason: String,
    ) -> Result<String, BackendError> {
        Err(BackendError::not_found(format!("proposal {} not found", offer.proposal)))
    }

    /// Returns the background tasks of clients; `None` if this backend has none.
    fn tasks(&self) -> Option<&ClientTasks> {
        None
    }

    /// Returns the task that executes a call. The default is a task that calls the tool.
    ///
    /// # Errors
    /// An error of the call.
    fn new_task(
        &self,
        _session: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<NewTask, BackendError> {
        let arguments = Value::Object(arguments.clone()).to_string();
        Ok(NewTask::new(TaskKind::Tool, name, arguments))
    }

    /// Returns a receiver that is notified when tools, skills or files may have changed.
    fn changes(&self) -> watch::Receiver<ChangeCounter>;
}
