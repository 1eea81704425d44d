//! The kernel: its loaded extensions, and its operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::Serialize;
use skillhost_conversation::{ModelError, ModelProvider, ModelSource};
use skillhost_events::{EventBus, Journal};
use skillhost_home::{
    ADDED, DiscoveredManifest, Home, Installation, LoadPhase, LoadRejection, SecretStore, Settings,
    suggest_similar,
};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallContext, CallError, CallOrigin, ToolOutput, skill_interface};
use tokio_util::sync::CancellationToken;

use crate::agents::{
    Agent, InstructionResolver, ResolvedInstructions, catalog_scope, fetch_skill_generation,
    find_missing_tools,
};
use crate::boot::BootOptions;
use crate::builder::ExtensionBuilder;
use crate::context_chain::{ContextBlock, ContextChain, compose_system_prompt};
use crate::conversations::MessageChannels;
use crate::error::KernelError;
use crate::instance::{Instance, PinnedInstance};
use crate::process::ProcessLauncher;
use crate::report::LoadReport;
use crate::restart::RestartCoordinator;
use crate::runtime::session::RunSessions;
use crate::scheduler::Scheduler;
use crate::serving::EventDelivery;
use crate::tools::{ListedTools, ToolTable};

/// Timeouts and limits of the kernel.
#[derive(Debug, Clone)]
pub struct KernelLimits {
    /// Creating, starting and describing one extension.
    pub start: Duration,
    /// One block of context, one listing of tools, one request for a skill.
    pub context: Duration,
    /// One tool call without a shorter deadline.
    pub tool: Duration,
    /// The approval of a person.
    pub approval: Duration,
    /// Requests to the model in one run of an agent whose manifest names no limit.
    pub turns: u32,
    /// One health check.
    pub health: Duration,
    /// Calls in flight when an extension ends.
    pub drain: Duration,
    /// One attempt to handle an event, if the subscription sets no limit.
    pub event: Duration,
    /// One attempt of an agent to handle an event.
    pub event_agent: Duration,
    /// The delays after each failed attempt to handle an event, except the last.
    pub event_retries: Vec<Duration>,
    /// The end of the service, of `stop`, and of the runtime: each.
    pub stop: Duration,
    /// The drain of active runs before a restart, including the agents to which they delegated
    /// tasks.
    pub rest: Duration,
    /// The request of a client on the control socket, and every line that it reads.
    pub control: Duration,
}

impl Default for KernelLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            start: seconds(10),
            context: seconds(2),
            tool: seconds(60),
            approval: seconds(120),
            turns: 100,
            health: seconds(2),
            drain: seconds(10),
            event: seconds(60),
            event_agent: seconds(600),
            event_retries: vec![seconds(1), seconds(5), seconds(25)],
            stop: seconds(5),
            rest: seconds(600),
            control: seconds(10),
        }
    }
}

/// A running kernel.
///
/// Cheap to clone. [`Kernel::shutdown`] stops it in order; a drop does not.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) shared: Arc<KernelShared>,
}

/// The state that every part of the kernel, callbacks included, can access.
pub(crate) struct KernelShared {
    pub(crate) home: Home,
    /// The settings of the start, or of the last reload.
    pub(crate) settings: ArcSwap<Settings>,
    /// The file from which a reload reads the settings again.
    pub(crate) settings_file: Option<std::path::PathBuf>,
    pub(crate) installation: Option<Installation>,
    pub(crate) limits: KernelLimits,
    pub(crate) models: Arc<dyn ModelSource>,
    pub(crate) processes: Arc<dyn ProcessLauncher>,
    pub(crate) builder: Arc<dyn ExtensionBuilder>,
    pub(crate) process_home: Option<std::path::PathBuf>,
    pub(crate) secrets: SecretStore,
    pub(crate) events: EventBus,
    pub(crate) serving: EventDelivery,
    /// The agents that currently run.
    pub(crate) sessions: Arc<RunSessions>,
    pub(crate) restarts: RestartCoordinator,
    pub(crate) conversations: MessageChannels,
    pub(crate) state: ArcSwap<KernelState>,
    /// Serializes reloads and the shutdown.
    pub(crate) changes: tokio::sync::Mutex<()>,
    /// Serializes changes of the configuration, including their reloads.
    pub(crate) configuring: tokio::sync::Mutex<()>,
    /// Services were started, so that a reload starts that of the new build.
    pub(crate) services_run: AtomicBool,
    /// The scheduled jobs.
    pub(crate) clockwork: Arc<Scheduler>,
    /// Cancelled when the kernel shuts down.
    pub(crate) stopping: CancellationToken,
    call_ids: AtomicU64,
}

/// The loaded extensions and agents; replaced as a unit, never changed in place.
#[derive(Default, Clone)]
pub(crate) struct KernelState {
    pub(crate) instances: BTreeMap<ExtensionId, Arc<Instance>>,
    /// The load order; the shutdown uses the reverse order.
    pub(crate) order: Vec<ExtensionId>,
    pub(crate) tools: ToolTable,
    pub(crate) chain: ContextChain,
    pub(crate) agents: BTreeMap<ExtensionId, Arc<Agent>>,
    /// The approved extensions in `sandbox/extensions`, loaded or not.
    pub(crate) added: Arc<BTreeSet<ExtensionId>>,
    /// The extensions that an operator has installed, loaded or not.
    pub(crate) shipped: Arc<BTreeSet<ExtensionId>>,
    pub(crate) report: Arc<LoadReport>,
}

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

/// The agent of a turn that names none.
pub const DEFAULT_AGENT: &str = "orchestrator_agent";

impl KernelShared {
    pub(crate) fn new(options: BootOptions, secrets: SecretStore) -> Self {
        let BootOptions {
            home,
            settings,
            settings_file,
            installation,
            limits,
            models,
            processes,
            supervised,
            builder,
            process_home,
        } = options;
        let events = EventBus::new(Journal::in_directory(&home.data_dir("kernel")));
        Self {
            restarts: RestartCoordinator::new(&home, supervised),
            home,
            settings: ArcSwap::from_pointee(settings),
            settings_file,
            installation,
            limits,
            models,
            processes,
            builder,
            process_home,
            secrets,
            events,
            serving: EventDelivery::default(),
            sessions: Arc::default(),
            conversations: MessageChannels::default(),
            state: ArcSwap::default(),
            changes: tokio::sync::Mutex::default(),
            configuring: tokio::sync::Mutex::default(),
            services_run: AtomicBool::new(false),
            clockwork: Arc::default(),
            stopping: CancellationToken::new(),
            call_ids: AtomicU64::new(1),
        }
    }

    /// Selects a pinned part of the current state. `choose` returns `None` if an instance is
    /// already ending, and is then called again with the state that replaced it.
    pub(crate) fn pin_state<T>(&self, choose: impl Fn(&Arc<KernelState>) -> Option<T>) -> T {
        loop {
            if let Some(chosen) = choose(&self.state.load()) {
                return chosen;
            }
        }
    }

    pub(crate) fn next_call_id(&self) -> u64 {
        self.call_ids.fetch_add(1, Ordering::Relaxed)
    }
}

impl KernelState {
    /// Finds the extension that provides an interface and is reachable through `from`'s
    /// dependencies.
    pub(crate) fn reachable_provider(
        &self,
        interface: &str,
        from: &skillhost_manifest::Manifest,
    ) -> Option<&Arc<Instance>> {
        let mut queue: Vec<&ExtensionId> = from.depends_on.iter().map(|d| &d.id).collect();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(id) = queue.pop() {
            // A dependency may be reachable on several paths.
            if !seen.insert(id) {
                continue;
            }
            if let Some(instance) = self.instances.get(id) {
                if instance.provides(interface) {
                    return Some(instance);
                }
                queue.extend(instance.manifest.depends_on.iter().map(|d| &d.id));
            } else if let Some(agent) = self.agents.get(id) {
                queue.extend(agent.manifest.depends_on.iter().map(|d| &d.id));
            }
        }
        None
    }

    fn agent(&self, id: &str) -> Result<&Arc<Agent>, KernelError> {
        self.agents.get(id).ok_or_else(|| {
            let unapproved = |r: &&LoadRejection| r.id == id && r.phase == LoadPhase::Approve;
            match (self.report.rejected.iter().find(unapproved), ExtensionId::new(id)) {
                (Some(rejection), Ok(id)) => KernelError::AgentFailed {
                    id,
                    reason: rejection.reason.clone(),
                    hint: rejection.hint.clone(),
                },
                _ => KernelError::NotFound {
                    what: "agent",
                    id: id.to_owned(),
                    similar: suggest_similar(id, self.agents.keys().map(ExtensionId::as_str)),
                },
            }
        })
    }

    /// Pins every extension that provides an interface; returns `None` if one is already ending.
    fn pin_providers(&self, interface: &str) -> Option<Vec<PinnedInstance>> {
        let providers = self.instances.values().filter(|instance| instance.provides(interface));
        providers.map(Instance::pin).collect()
    }

    /// Removes an extension, so that it can be shut down.
    fn remove_instance(&mut self, id: &ExtensionId) -> Option<Arc<Instance>> {
        self.order.retain(|other| other != id);
        self.tools.remove(id);
        let taken = self.instances.remove(id);
        self.chain = ContextChain::from_instances(self.instances.values());
        taken
    }
}

impl Kernel {
    /// Returns the home of this kernel.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.shared.home
    }

    /// Returns the report of the start, updated by later reloads.
    #[must_use]
    pub fn report(&self) -> Arc<LoadReport> {
        Arc::clone(&self.shared.state.load().report)
    }

    /// Returns the events of the home.
    #[must_use]
    pub fn events(&self) -> &EventBus {
        &self.shared.events
    }

    /// Returns every agent by id, including those in the error state.
    #[must_use]
    pub fn agents(&self) -> Vec<Arc<Agent>> {
        self.shared.state.load().agents.values().cloned().collect()
    }

    /// Finds an agent and updates its instructions.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] with similar ids.
    pub async fn refresh_agent(&self, id: &str) -> Result<Arc<Agent>, KernelError> {
        // The state is dropped before the pins.
        let (providers, state) = self.shared.pin_state(|state| {
            Some((state.pin_providers(skill_interface::NAME)?, Arc::clone(state)))
        });
        let agent = state.agent(id)?;
        self.refresh(&state, &providers, agent).await;
        Ok(Arc::clone(agent))
    }

    /// Finds an agent without an update.
    pub(crate) fn find_agent(&self, id: &str) -> Result<Arc<Agent>, KernelError> {
        self.shared.state.load().agent(id).cloned()
    }

    /// Lists the tools that a caller may see, and the extensions that failed to list theirs.
    /// `agent` restricts them to its `uses_tools`: tools, or extensions with all of their tools.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] for an unknown agent.
    pub async fn list_tools(&self, agent: Option<&str>) -> Result<ListedTools, KernelError> {
        let Some(id) = agent else {
            let context = CallContext { origin: CallOrigin::Operator, ..CallContext::default() };
            return Ok(self.shared.list_tools(&context, |_, _| true).await);
        };
        let agent = self.refresh_agent(id).await?;
        let context = self.call_context(&agent, &TurnRequest::default());
        Ok(self.list_agent_tools(&agent, &context).await)
    }

    /// Lists the tools that an agent may call.
    pub(crate) async fn list_agent_tools(
        &self,
        agent: &Agent,
        context: &CallContext,
    ) -> ListedTools {
        let uses = &agent.agent_manifest().uses_tools;
        let added = match uses.iter().any(|used| used.value == ADDED) {
            true => Arc::clone(&self.shared.state.load().added),
            false => Arc::default(),
        };
        let wanted = |owner: &ExtensionId, name: &str| {
            // An agent cannot call itself as a tool.
            *owner != agent.manifest.id
                && (uses.iter().any(|used| used.value == name || *owner == *used.value)
                    || added.contains(owner))
        };
        self.shared.list_tools(context, wanted).await
    }

    /// Resolves the model of an agent: the requested one, else the settings' choice for this agent,
    /// else the manifest's, else the default.
    pub(crate) fn resolve_model(
        &self,
        agent: &Agent,
        wanted: Option<&str>,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        let id = agent.manifest.id.as_str();
        let chosen = self.shared.settings.load().models.agents.contains_key(id);
        let own = agent.agent_manifest().model.as_deref().filter(|_| !chosen);
        self.shared.models.resolve_model(wanted.or(own), id)
    }

    /// Calls a tool with arguments as JSON text, in the name of the context's caller.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] with similar names; [`KernelError::Call`] with the tool's error,
    /// or of the kind [`ErrorKind::Denied`](crate::ErrorKind) without the required approval.
    pub async fn invoke_tool_as(
        &self,
        context: CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        self.invoke_tool(context, name, arguments).await
    }

    /// Calls an operator's tool about an agent: with the context of the agent's calls, in a session
    /// of its own.
    ///
    /// # Errors
    /// As for [`Kernel::invoke_tool_as`], and [`KernelError::NotFound`] for an unknown agent.
    pub async fn invoke_for_agent(
        &self,
        agent: &str,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let agent = self.refresh_agent(agent).await?;
        let request = TurnRequest { origin: CallOrigin::Operator, ..TurnRequest::default() };
        self.invoke_tool_as(self.call_context(&agent, &request), name, arguments).await
    }

    /// Composes one turn: the agent's instructions and every provider's block.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] for an unknown agent, [`KernelError::AgentFailed`] for one in the
    /// error state. A provider that fails is skipped and named in the result.
    #[tracing::instrument(name = "turn", skip_all, fields(agent))]
    pub async fn compose_turn(&self, request: &TurnRequest) -> Result<ComposedTurn, KernelError> {
        let agent = self.refresh_agent(request.agent.as_deref().unwrap_or(DEFAULT_AGENT)).await?;
        tracing::Span::current().record("agent", agent.manifest.id.as_str());
        let resolved = agent.require_ready()?;
        let context = self.call_context(&agent, request);
        let next = || CallContext { call_id: self.shared.next_call_id(), ..context.clone() };
        let chain = self.shared.pin_state(|state| state.chain.pin());
        let blocks = chain.collect_blocks(next, &request.prompt, self.shared.limits.context).await;
        let system_prompt = compose_system_prompt(&resolved.instructions, &blocks);
        Ok(ComposedTurn { agent: agent.manifest.id.clone(), context, system_prompt, blocks })
    }

    /// Requests the block of a single context provider, as [`Kernel::compose_turn`] does for each.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] if it is not loaded, [`KernelError::Call`] with its error.
    pub async fn context_block(
        &self,
        extension: &str,
        context: &CallContext,
        prompt: &str,
    ) -> Result<Option<String>, KernelError> {
        let found = self.shared.pin_state(|state| match state.instances.get(extension) {
            Some(instance) => instance.pin().map(Some),
            None => Some(None),
        });
        let instance = found.ok_or_else(|| self.unknown_extension_error(extension))?;
        Ok(instance.get_context(context, prompt, self.shared.limits.context).await?)
    }

    /// Runs the health check of every extension.
    pub async fn check_health(&self) -> Vec<(ExtensionId, Result<(), CallError>)> {
        let instances: Vec<_> =
            self.shared.pin_state(|state| state.instances.values().map(Instance::pin).collect());
        let checks = instances.iter().map(|instance| async move {
            (instance.manifest.id.clone(), instance.health_check(&self.shared.limits).await)
        });
        futures::future::join_all(checks).await
    }

    /// Notifies every extension of a changed log filter.
    pub fn log_filter_changed(&self) {
        for instance in self.shared.state.load().instances.values() {
            instance.log_filter_changed();
        }
    }

    /// Stops scheduled jobs and event deliveries, then every extension in reverse load order, one
    /// after the other: service, calls in flight, `stop`, runtime. The dependencies of an extension
    /// are available until its own end.
    pub async fn shutdown(&self) {
        self.shared.stopping.cancel();
        self.shared.clockwork.shutdown(self.shared.limits.drain).await;
        self.stop_event_delivery().await;
        let _guard = self.shared.changes.lock().await;
        loop {
            let mut next = KernelState::clone(&self.shared.state.load());
            let Some(last) = next.order.last().cloned() else { break };
            let taken = next.remove_instance(&last);
            // Stored before the shutdown, so that no new call finds the extension.
            self.shared.state.store(Arc::new(next));
            if let Some(instance) = taken {
                instance.shutdown(&self.shared.limits).await;
            }
        }
        self.shared.events.journal().close().await;
    }

    pub(crate) fn unknown_extension_error(&self, id: &str) -> KernelError {
        let state = self.shared.state.load();
        let rejected = state.report.rejected.iter().map(|rejection| rejection.id.as_str());
        let known = state.instances.keys().map(ExtensionId::as_str).chain(rejected);
        let similar = suggest_similar(id, known);
        KernelError::NotFound { what: "extension", id: id.to_owned(), similar }
    }

    pub(crate) fn call_context(&self, agent: &Agent, request: &TurnRequest) -> CallContext {
        let settings = agent.agent_manifest();
        let turn = self.shared.next_call_id();
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
        }
    }

    /// Resolves an agent's instructions again if the skills may have changed. Every turn queries
    /// all providers, because the query also lets a provider detect a change.
    async fn refresh(&self, state: &KernelState, providers: &[PinnedInstance], agent: &Agent) {
        let reached = state.reachable_provider(skill_interface::NAME, &agent.manifest);
        let mut current = None;
        for provider in providers {
            match fetch_skill_generation(provider, self.shared.limits.context).await {
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
        let outdated = current != resolved.generation || resolved.problem.is_some();
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
            home: &self.shared.home,
            provider: state.reachable_provider(interface, manifest).map(|provider| &**provider),
            any_provider: any.map(|instance| &instance.manifest.id),
            limit: self.shared.limits.context,
        };
        match find_missing_tools(state, &found.path, manifest) {
            Some(problem) => ResolvedInstructions {
                lacks_tools: true,
                ..ResolvedInstructions::from_error(problem)
            },
            None => resolver.resolve(found).await,
        }
    }
}
