//! Turns: agents with current instructions, their tools, models and context.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;
use skillhost_control::DEFAULT_AGENT;
use skillhost_conversation::{ModelError, ModelProvider};
use skillhost_core::foreign_text::neutralize;
use skillhost_core::{
    Agent, ContextBlock, KernelError, KernelState, ListedTools, PinnedInstance,
    ResolvedInstructions, compose_system_prompt, fetch_skill_generation,
};
use skillhost_home::DiscoveredManifest;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallContext, CallOrigin, Workspace, skill_interface};
use skillhost_workspaces::append_workspaces;

use crate::agent_runtime::AgentRuntime;
use crate::instructions::{InstructionResolver, catalog_scope, find_missing_tools};
use crate::tool_reports::uses_tool;

/// The request to compose one turn.
#[derive(Debug, Clone, Default)]
pub struct TurnRequest {
    /// The agent; if absent, the default one.
    pub agent: Option<String>,
    /// The user's message.
    pub prompt: String,
    /// The session; if absent, a new one.
    pub session_id: Option<String>,
    /// The size of the model's context window in tokens, if known.
    pub context_window: Option<u32>,
    /// The origin of the request.
    pub origin: CallOrigin,
    /// The id of the user's message or event that caused the turn.
    pub correlation_id: Option<String>,
    /// The workspaces of the run; `None` for those of the kernel.
    pub workspaces: Option<Vec<Workspace>>,
    /// The kernel's block about the channel that the reply goes to.
    pub channel_block: Option<ContextBlock>,
}

/// A composed turn.
#[derive(Debug, Clone, Serialize)]
pub struct ComposedTurn {
    /// The agent.
    pub agent: ExtensionId,
    /// Session and turn, as passed to every provider.
    pub context: CallContext,
    /// Instructions and blocks, joined by lines of `---`.
    pub system_prompt: String,
    /// Each provider's contribution, in chain order.
    pub blocks: Vec<ContextBlock>,
}

impl AgentRuntime {
    /// Returns every agent by id, including those in the error state.
    #[must_use]
    pub fn list_agents(&self) -> Vec<Arc<Agent>> {
        self.extensions().state().agents.values().cloned().collect()
    }

    /// Finds an agent and updates its instructions.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] with similar ids.
    pub fn refresh_agent<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Agent>, KernelError>> {
        Box::pin(async move {
            // An agent may name programs of skills, which are not loaded at the start.
            if self.find_agent(id).is_ok_and(|agent| agent.instructions().lacks_tools) {
                self.extensions().refresh_programs().await;
            }
            // The state is dropped before the pins.
            let (providers, state) = self.extensions().pin_state(|state| {
                Some((state.pin_providers(skill_interface::NAME)?, Arc::clone(state)))
            });
            self.report_tools(&state, &providers).await;
            let agent = state.agent(id)?;
            self.refresh(&state, &providers, agent).await;
            Ok(Arc::clone(agent))
        })
    }

    /// Finds an agent without an update.
    pub(crate) fn find_agent(&self, id: &str) -> Result<Arc<Agent>, KernelError> {
        self.extensions().state().agent(id).cloned()
    }

    /// Lists the tools that a caller may see, and the extensions that failed to list theirs.
    /// `agent` restricts them to its `uses_tools`: tools, or extensions with all of their tools.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] for an unknown agent.
    pub fn list_tools<'a>(
        &'a self,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListedTools, KernelError>> {
        Box::pin(async move {
            let Some(id) = agent else {
                let context =
                    CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
                return Ok(self.extensions().list_tools(&context, &|_, _| true).await);
            };
            let agent = self.refresh_agent(id).await?;
            let context = self.call_context(&agent, &TurnRequest::default());
            Ok(self.list_agent_tools(&agent, &context).await)
        })
    }

    /// Lists the tools that an agent may call.
    pub(crate) async fn list_agent_tools(
        &self,
        agent: &Agent,
        context: &CallContext,
    ) -> ListedTools {
        let wanted = |owner: &ExtensionId, name: &str| self.uses_tool(agent, owner, name);
        self.extensions().list_tools(context, &wanted).await
    }

    /// Returns whether a tool is one of an agent's `uses_tools`.
    #[must_use]
    pub fn uses_tool(&self, agent: &Agent, owner: &ExtensionId, name: &str) -> bool {
        let is_added = |owner: &ExtensionId| self.extensions().state().added.contains(owner);
        uses_tool(&agent.manifest, owner, name, is_added)
    }

    /// Resolves the model of an agent: the requested one, else the settings' choice for this agent,
    /// else the manifest's, else the default.
    ///
    /// # Errors
    /// [`ModelError`] for an unknown model, and for one whose key is missing.
    pub fn resolve_model(
        &self,
        agent: &Agent,
        wanted: Option<&str>,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        let id = agent.manifest.id.as_str();
        let chosen = self.extensions().settings().models.agents.contains_key(id);
        let own = agent.agent_manifest().model.as_deref().filter(|_| !chosen);
        self.model_source().resolve_model(wanted.or(own), id)
    }

    /// Composes one turn: the agent's instructions and every provider's block.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] for an unknown agent, [`KernelError::AgentFailed`] for one in the
    /// error state. A provider that fails is skipped and named in the result.
    #[tracing::instrument(name = "turn", skip_all, fields(agent))]
    pub fn compose_turn<'a>(
        &'a self,
        request: &'a TurnRequest,
    ) -> BoxFuture<'a, Result<ComposedTurn, KernelError>> {
        Box::pin(async move {
            let agent =
                self.refresh_agent(request.agent.as_deref().unwrap_or(DEFAULT_AGENT)).await?;
            tracing::Span::current().record("agent", agent.manifest.id.as_str());
            let resolved = agent.require_ready()?;
            let context = self.call_context(&agent, request);
            let next =
                || CallContext { call_id: self.extensions().next_call_id(), ..context.clone() };
            let chain = self.extensions().pin_state(|state| state.chain.pin());
            let mut blocks = chain
                .collect_blocks(&next, &request.prompt, self.extensions().limits().context)
                .await;
            if let Some(block) = request.channel_block.clone() {
                // The kernel's own block is the first one of its priority.
                let at = blocks.iter().position(|other| other.priority >= block.priority);
                blocks.insert(at.unwrap_or(blocks.len()), block);
            }
            let workspaces = match request.workspaces.clone() {
                Some(workspaces) => workspaces,
                None => self.resolve_workspaces(Vec::new()).await.0,
            };
            let instructions = append_workspaces(&resolved.instructions, &workspaces);
            let instructions = neutralize(&instructions);
            let system_prompt = compose_system_prompt(&instructions, &blocks);
            Ok(ComposedTurn { agent: agent.manifest.id.clone(), context, system_prompt, blocks })
        })
    }

    /// Returns the context of the calls of one turn.
    #[must_use]
    pub fn call_context(&self, agent: &Agent, request: &TurnRequest) -> CallContext {
        let settings = agent.agent_manifest();
        let turn = self.extensions().next_call_id();
        CallContext {
            agent_id: agent.manifest.id.to_string(),
            // Turns without a session share that of the process.
            session_id: request
                .session_id
                .clone()
                .unwrap_or_else(|| format!("session-{}", std::process::id())),
            turn_id: format!("turn-{turn}"),
            call_id: turn,
            deadline_ms: None,
            context_window: request.context_window,
            uses_skills: settings.uses_skills.iter().map(|skill| skill.value.clone()).collect(),
            catalog: catalog_scope(&settings.catalog),
            origin: request.origin,
            correlation_id: request.correlation_id.clone(),
            approved_effect: None,
            // `invoke_tool` sets these: only tools need them.
            workspaces: Vec::new(),
            active_skills: Vec::new(),
            call_chain: Vec::new(),
            operator_policy: None,
            reads_files: false,
            idempotency_key: None,
            call_number: None,
            input: None,
        }
    }

    /// Resolves an agent's instructions again if the skills may have changed. Every turn queries
    /// all providers, because the query also lets a provider detect a change.
    async fn refresh(&self, state: &KernelState, providers: &[PinnedInstance], agent: &Agent) {
        let reached = state.reachable_provider(skill_interface::NAME, &agent.manifest);
        let mut current = None;
        for provider in providers {
            match fetch_skill_generation(provider, self.extensions().limits().context).await {
                Ok(generation) if reached.is_some_and(|r| r.number == provider.number) => {
                    current = Some(generation);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(id = %provider.manifest.id, %error, "no skill generation");
                }
            }
        }
        let binds_skills = !agent.agent_manifest().uses_skills.is_empty();
        let resolved = agent.instructions();
        // An error may pass without a change of the skills: the provider was slow, or about to end.
        let outdated = current != resolved.generation
            || resolved.problem.is_some()
            // Another tool may be one that a bound skill requires.
            || resolved.tools_revision != self.tool_reports().revision();
        // A reload may have removed a tool, or restored it.
        let tools_moved = match &resolved.problem {
            None => find_missing_tools(state, &agent.path, &agent.manifest).is_some(),
            Some(_) => {
                resolved.lacks_tools
                    && find_missing_tools(state, &agent.path, &agent.manifest).is_none()
            }
        };
        if (binds_skills && current.is_some() && outdated) || tools_moved {
            let resolved = self.resolve(state, agent.found()).await;
            agent.resolved.store(Arc::new(resolved));
        }
    }

    /// Resolves the instructions of an agent for a state of the kernel.
    pub fn resolve_agent<'a>(
        &'a self,
        state: &'a KernelState,
        found: &'a DiscoveredManifest,
    ) -> BoxFuture<'a, ResolvedInstructions> {
        Box::pin(self.resolve(state, found))
    }

    pub(crate) async fn resolve(
        &self,
        state: &KernelState,
        found: &DiscoveredManifest,
    ) -> ResolvedInstructions {
        let manifest = &found.manifest;
        let interface = skill_interface::NAME;
        let mut all = state.instances.values();
        let any = all.find(|instance| instance.provides(interface));
        let resolver = InstructionResolver {
            home: self.extensions().home(),
            provider: state.reachable_provider(interface, manifest).map(|provider| &**provider),
            any_provider: any.map(|instance| &instance.manifest.id),
            limit: self.extensions().limits().context,
        };
        if let Some(problem) = find_missing_tools(state, &found.path, manifest) {
            return ResolvedInstructions {
                lacks_tools: true,
                ..ResolvedInstructions::from_error(problem)
            };
        }
        let tools_revision = self.tool_reports().revision();
        let provider = resolver.provider;
        let problem = self.find_binding_problem(state, provider, &found.path, manifest).await;
        let resolved = match problem {
            Some(problem) => ResolvedInstructions::from_error(problem),
            None => resolver.resolve(found).await,
        };
        ResolvedInstructions { tools_revision, ..resolved }
    }
}
