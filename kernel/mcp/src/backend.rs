//! What an MCP server serves.

mod kernel;
mod scope;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Map, Value};
use skillhost_contract::payload::{
    ErrorKind, PublishedBody, PublishedDetails, PublishedEntry, PublishedSkills, ReviewOffer,
    ToolOutput, ToolSpec,
};
use tokio::sync::watch;

pub use kernel::KernelBackend;
pub use scope::ScopeError;

/// What a person gave when invoking a skill, by the arguments' names.
pub type PromptArguments = BTreeMap<String, String>;

/// Counts the changes of what a backend serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeCounter(pub u64);

/// One client for as long as it is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSession {
    /// Unique among all sessions.
    pub id: String,
    /// What the client calls itself; nobody has checked it.
    pub client: String,
}

/// Why a backend could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BackendError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// What went wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

impl BackendError {
    /// Something that is not there, or not for this client.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::NotFound, message: message.into(), hint: String::new() }
    }
}

/// Answers what clients ask for.
///
/// Ids and addresses come from strangers. Every future may be dropped before it is done.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// What the server says about itself when a client arrives, for the model.
    fn instructions(&self) -> String;

    /// Lists the tools that clients may call, sorted by name.
    async fn tools(&self, session: &ClientSession) -> Result<Vec<ToolSpec>, BackendError>;

    /// Calls a tool with arguments as a JSON object; nothing if there is no such tool for clients.
    async fn call(
        &self,
        session: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, BackendError>;

    /// Returns what changes whenever [`Backend::skills`] may answer otherwise. Asked before every use
    /// of the list, so it must be cheap.
    async fn generation(&self, session: &ClientSession) -> Result<(u64, u64), BackendError>;

    /// Lists the skills that clients see, sorted by id; to all of them the same.
    async fn skills(&self, session: &ClientSession) -> Result<PublishedSkills, BackendError>;

    /// Returns frontmatter and files of skills, in the order asked for; what is not there is left
    /// out.
    async fn details(
        &self,
        session: &ClientSession,
        skill_ids: &[&str],
    ) -> Result<Vec<PublishedDetails>, BackendError>;

    /// Returns a number that changes whenever [`Backend::details`] of these skills may answer
    /// otherwise, and costs less; by default `None`, and the details are asked for every time.
    async fn stamp(&self, _session: &ClientSession, _skill_ids: &[&str]) -> Option<u64> {
        None
    }

    /// Reads a whole file of a skill.
    async fn read(&self, session: &ClientSession, uri: &str)
    -> Result<PublishedBody, BackendError>;

    /// Lists a directory of a skill by name.
    async fn directory(
        &self,
        session: &ClientSession,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>, BackendError>;

    /// Returns what the model is told when a person invokes a skill.
    async fn prompt(
        &self,
        session: &ClientSession,
        skill_id: &str,
        arguments: PromptArguments,
    ) -> Result<String, BackendError>;

    /// Returns what a call's output asks a person to decide, if this client may ask its human and all
    /// of it can be shown. By default nobody is asked.
    async fn review(
        &self,
        _session: &ClientSession,
        _output: &ToolOutput,
    ) -> Result<Option<ReviewOffer>, BackendError> {
        Ok(None)
    }

    /// Hands on what a person decided about an offer; returns what came of it, for the model.
    async fn decide(
        &self,
        _session: &ClientSession,
        offer: ReviewOffer,
        _approve: bool,
        _reason: String,
    ) -> Result<String, BackendError> {
        Err(BackendError::not_found(format!("nobody may decide about {}", offer.proposal)))
    }

    /// Tells when tools, skills or files may have changed.
    fn changes(&self) -> watch::Receiver<ChangeCounter>;
}
