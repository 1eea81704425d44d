//! The backend that serves a loaded kernel to MCP clients.

use async_trait::async_trait;
use serde_json::{Map, Value};
use skillhost_agents::{AgentRuntime, TaskCall};
use skillhost_core::KernelError;
use skillhost_events::topic;
use skillhost_home::{McpReviewMode, McpSettings};
use skillhost_payload::{
    CallContext, CallError, CallOrigin, CatalogScope, Event, PublishedBody, PublishedDetails,
    PublishedEntry, PublishedSkills, ReviewOffer, ToolOutput, ToolSpec,
};
use skillhost_tasks::{NewTask, TaskKind};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::published::{ClientReviewLedger, PublishedSkillClient};
use super::scope::{ScopeError, check_scope};
use super::{Backend, BackendError, ChangeCounter, ClientSession, ClientTasks, PromptArguments};

/// A backend that serves exported tools and published skills of a kernel.
pub struct KernelBackend {
    agents: AgentRuntime,
    catalog: CatalogScope,
    review: McpReviewMode,
    tasks: Option<ClientTasks>,
    changes: watch::Receiver<ChangeCounter>,
}

impl KernelBackend {
    /// Creates a backend for a kernel with the settings' catalog scope and review mode.
    ///
    /// Must be called within a Tokio runtime: it spawns a task that receives events until the
    /// backend is dropped.
    ///
    /// # Errors
    /// [`ScopeError`] for an invalid glob in the catalog scope.
    pub fn new(agents: AgentRuntime, settings: &McpSettings) -> Result<Self, ScopeError> {
        let catalog = settings.catalog.scope();
        check_scope(&catalog)?;
        let review = settings.review;
        let (sender, changes) = watch::channel(ChangeCounter::default());
        let mut events = agents.extensions().events().subscribe_all();
        tokio::spawn(async move {
            loop {
                let changed = tokio::select! {
                    () = sender.closed() => return,
                    event = events.recv() => match event {
                        Ok(event) => is_change(&event),
                        // One of the dropped events may have been a change.
                        Err(RecvError::Lagged(_)) => true,
                        Err(RecvError::Closed) => return,
                    },
                };
                if changed {
                    sender.send_modify(|change| change.0 += 1);
                }
            }
        });
        Ok(Self { agents, catalog, review, tasks: None, changes })
    }

    /// Lets clients submit background tasks.
    #[must_use]
    pub fn with_tasks(self, tasks: ClientTasks) -> Self {
        Self { tasks: Some(tasks), ..self }
    }

    fn published_skills(&self, session: &ClientSession) -> PublishedSkillClient<'_> {
        PublishedSkillClient::new(self.agents.extensions(), self.context(session))
    }

    fn context(&self, session: &ClientSession) -> CallContext {
        CallContext {
            agent_id: session.agent_id(),
            session_id: session.id.clone(),
            catalog: self.catalog.clone(),
            origin: CallOrigin::Mcp,
            ..CallContext::default()
        }
    }
}

/// The part of a tool output that announces a proposal.
#[derive(serde::Deserialize)]
struct ProposalNotice {
    proposal: String,
}

/// Returns `true` if an event changes the tools or skills that clients see.
fn is_change(event: &Event) -> bool {
    // Topics of proposals and versions also start with `skill.`, but clients see neither.
    let skill_changes = ["added", "changed", "removed", "renamed"];
    event.topic == topic::RELOADED
        || event.topic.strip_prefix("skill.").is_some_and(|change| skill_changes.contains(&change))
}

impl From<CallError> for BackendError {
    fn from(error: CallError) -> Self {
        let CallError { kind, message, hint } = error;
        Self { kind, message, hint }
    }
}

impl From<KernelError> for BackendError {
    fn from(error: KernelError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: error.hint() }
    }
}

#[async_trait]
impl Backend for KernelBackend {
    fn instructions(&self) -> String {
        "Skills are instructions for particular tasks. Before a task that a skill may cover, look \
         with list_skills and load it with read_skill, then follow it."
            .to_owned()
    }

    async fn tools(&self, session: &ClientSession) -> Result<Vec<ToolSpec>, BackendError> {
        let (tools, failures) = self.agents.exported_tools(&self.context(session)).await;
        for (id, error) in failures {
            // One broken extension must not hide the tools of the others.
            tracing::warn!(%id, %error, "tools of the extension not available");
        }
        Ok(tools.into_iter().map(|tool| tool.spec).collect())
    }

    async fn call(
        &self,
        session: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Option<ToolOutput>, BackendError> {
        let arguments = Value::Object(arguments.clone()).to_string();
        match self.agents.invoke_exported(self.context(session), name, &arguments).await {
            Ok(output) => Ok(Some(output)),
            // An unknown tool is a protocol error, every other failure a tool result.
            Err(KernelError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn call_with_consent(
        &self,
        session: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
        consent: &dyn TaskCall,
    ) -> Result<Option<ToolOutput>, BackendError> {
        let arguments = Value::Object(arguments.clone()).to_string();
        let context = self.context(session);
        match self.agents.invoke_exported_with(context, name, &arguments, consent).await {
            Ok(output) => Ok(output),
            Err(KernelError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn generation(&self, session: &ClientSession) -> Result<(u64, u64), BackendError> {
        Ok(self.published_skills(session).generation().await?)
    }

    async fn skills(&self, session: &ClientSession) -> Result<PublishedSkills, BackendError> {
        Ok(self.published_skills(session).skills().await?)
    }

    async fn details(
        &self,
        session: &ClientSession,
        skill_ids: &[&str],
    ) -> Result<Vec<PublishedDetails>, BackendError> {
        let skill_ids = skill_ids.iter().map(|&id| id.to_owned()).collect();
        Ok(self.published_skills(session).details(skill_ids).await?)
    }

    async fn stamp(&self, session: &ClientSession, skill_ids: &[&str]) -> Option<u64> {
        let skill_ids = skill_ids.iter().map(|&id| id.to_owned()).collect();
        self.published_skills(session).stamp(skill_ids).await
    }

    async fn read(
        &self,
        session: &ClientSession,
        uri: &str,
    ) -> Result<PublishedBody, BackendError> {
        Ok(self.published_skills(session).read(uri.to_owned()).await?)
    }

    async fn directory(
        &self,
        session: &ClientSession,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>, BackendError> {
        Ok(self.published_skills(session).directory(uri.to_owned()).await?)
    }

    async fn prompt(
        &self,
        session: &ClientSession,
        skill_id: &str,
        arguments: PromptArguments,
    ) -> Result<String, BackendError> {
        let published = self.published_skills(session);
        Ok(published.prompt(skill_id.to_owned(), arguments).await?.text)
    }

    async fn review(
        &self,
        session: &ClientSession,
        output: &ToolOutput,
    ) -> Result<Option<ReviewOffer>, BackendError> {
        if self.review == McpReviewMode::Off {
            return Ok(None);
        }
        let structured = output.structured.as_ref();
        let proposed =
            structured.and_then(|text| serde_json::from_str::<ProposalNotice>(text.get()).ok());
        match proposed {
            None => Ok(None),
            Some(ProposalNotice { proposal }) => {
                Ok(self.published_skills(session).review_offer(proposal).await?)
            }
        }
    }

    async fn decide(
        &self,
        session: &ClientSession,
        offer: ReviewOffer,
        approve: bool,
        reason: String,
    ) -> Result<String, BackendError> {
        let published = self.published_skills(session);
        if let Some(tasks) = &self.tasks {
            let ledger = ClientReviewLedger::new(published.clone());
            let (context, questions) = (self.context(session), tasks.questions());
            let decision = (approve, &*reason);
            if questions.decide_offer(&ledger, context, &offer, decision).await? {
                return Ok(ledger.take_outcome());
            }
        }
        // Its ledger does not list its proposals, and has the first decision nevertheless.
        Ok(published.submit_decision(offer, approve, reason).await?)
    }

    fn tasks(&self) -> Option<&ClientTasks> {
        self.tasks.as_ref()
    }

    fn new_task(
        &self,
        _session: &ClientSession,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<NewTask, BackendError> {
        let arguments = Value::Object(arguments.clone()).to_string();
        Ok(match self.agents.parse_agent_call(name, &arguments)? {
            // A call of an agent's tool belongs to a run that delegates; a client has none.
            Some(text) => NewTask::for_agent(name, text),
            None => NewTask::new(TaskKind::Tool, name, arguments),
        })
    }

    fn changes(&self) -> watch::Receiver<ChangeCounter> {
        self.changes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_id_is_sanitized() {
        let agent_id = |client: &str| {
            ClientSession { id: String::new(), client: client.to_owned() }.agent_id()
        };
        assert_eq!(agent_id("claude-code"), "mcp:claude-code");
        assert_eq!(agent_id("a b/../\u{1b}[0m"), "mcp:a-b-..---0m");
        assert_eq!(agent_id(&"x".repeat(500)).len(), "mcp:".len() + 64);
    }

    #[test]
    fn only_visible_events_are_changes() {
        let change = |topic: &str| {
            let payload = serde_json::value::to_raw_value(&()).unwrap();
            is_change(&Event::new(topic, "", payload))
        };
        for topic in ["skill.added", "skill.changed", "skill.removed", "skill.renamed"] {
            assert!(change(topic), "{topic}");
        }
        assert!(change(topic::RELOADED));
        for topic in ["skill.proposal.created", "skill.version.created", "other.added", "skill."] {
            assert!(!change(topic), "{topic}");
        }
    }
}
