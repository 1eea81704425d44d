//! The load of agents: their tools, their instructions, and extensions that agents wait for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use skillhost_control::{AgentError, LoadReport, LoadedAgent, ReloadOutcome};
use skillhost_core::{
    Agent, ExtensionLoadError, KernelError, KernelState, LoadedManifests, ManifestMap,
    ResolvedInstructions, ToolError, elapsed_ms, missing_dependency, spawn_blocking, to_rejection,
};
use skillhost_events::topic;
use skillhost_home::{DiscoveredManifest, DiscoveryResult, LoadPhase, LoadRejection};
use skillhost_manifest::{ExtensionId, ExtensionKind, IntegrationMode, Manifest};
use skillhost_payload::task_interface;

use crate::agent_runtime::AgentRuntime;
use crate::runtime::agent_alias::{agent_alias_plugin, agent_alias_spec};

impl AgentRuntime {
    /// Loads every possible extension in dependency order, then resolves the agents.
    pub fn load_all(&self, found: DiscoveryResult) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let LoadedManifests { manifests, mut state, mut report, agents } =
                self.extensions().load_all(found).await;
            let agents = self.wire_agents(&mut state, &mut report, &manifests, &agents);
            for id in agents {
                self.add_agent(&mut state, &mut report, &manifests[id]).await;
            }
            keep_rejected_agents(&mut state, &report, &manifests);
            report.note_declared_tools(&manifests);
            state.report = Arc::new(report);
            self.extensions().replace_state(state);
        })
    }

    /// Adds the agents that are tools to the table, before any agent names one. Returns the agents
    /// that can be resolved.
    fn wire_agents<'m>(
        &self,
        state: &mut KernelState,
        report: &mut LoadReport,
        manifests: &'m BTreeMap<ExtensionId, DiscoveredManifest>,
        agents: &'m [ExtensionId],
    ) -> Vec<&'m ExtensionId> {
        let mut wired = Vec::new();
        for id in agents {
            let found = &manifests[id];
            let agent = found.manifest.agent().expect("only agents are wired here");
            let taken = match agent.integration_mode {
                IntegrationMode::Standalone => Ok(()),
                IntegrationMode::Tool => self.add_alias(state, &found.manifest),
            };
            match taken {
                Ok(()) => wired.push(id),
                Err(problems) => {
                    let failure = ExtensionLoadError::from_tool_errors(&problems);
                    let (reason, hint) = (failure.reason.clone(), failure.hint.clone());
                    let resolved = ResolvedInstructions::from_error(AgentError { reason, hint });
                    state.agents.insert(id.clone(), Arc::new(Agent::new(found, resolved)));
                    report.rejected.push(to_rejection(manifests, id, failure));
                }
            }
        }
        wired
    }

    async fn add_agent(
        &self,
        state: &mut KernelState,
        report: &mut LoadReport,
        found: &DiscoveredManifest,
    ) {
        let manifest = &found.manifest;
        let resolved = self.resolve(state, found).await;
        match &resolved.problem {
            Some(problem) => report.rejected.push(LoadRejection {
                id: manifest.id.to_string(),
                phase: LoadPhase::Resolve,
                reason: problem.reason.clone(),
                hint: problem.hint.clone(),
                manifest: found.path.clone(),
            }),
            None => report
                .agents
                .push(LoadedAgent { id: manifest.id.clone(), name: manifest.name.clone() }),
        }
        let agent = manifest.agent().expect("only agents are added");
        for used in &agent.uses_tools {
            let silent = state
                .instances
                .get(used.as_str())
                .is_some_and(|i| i.specs.is_empty() && !i.provides(task_interface::NAME));
            if silent {
                report.notes.push(format!(
                    "{}:{}:{}: uses_tools: the extension `{}` has no tools",
                    found.path.display(),
                    used.line,
                    used.column,
                    used.value
                ));
            }
        }
        state.agents.insert(manifest.id.clone(), Arc::new(Agent::new(found, resolved)));
    }

    /// Loads the new build of an extension in parallel with the old one, switches, and shuts the old
    /// one down after its calls. No call is lost: those in flight finish on the old build. An
    /// extension that is not loaded is started, together with those that were rejected because of
    /// it. The settings are read again from [`ExtensionHost::settings_file`] and apply to the new
    /// build.
    ///
    /// [`ExtensionHost::settings_file`]: skillhost_core::ExtensionHost::settings_file
    ///
    /// # Errors
    /// [`KernelError::NotFound`] for an unknown extension; [`KernelError::NotReloaded`] if the new
    /// build is rejected, or is not the one that would be loaded, in which case the old one stays
    /// in use; [`KernelError::NotStarted`] without an old one.
    pub fn reload<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ReloadOutcome, KernelError>> {
        Box::pin(async move {
            let _guard = self.extensions().lock_changes().await;
            match self.extensions().reload_loaded(id).await {
                Some(reloaded) => reloaded,
                None => self.start_missing(id).await,
            }
        })
    }

    /// Starts an extension that is not loaded, and those that were rejected because of it. The
    /// caller holds the lock for changes.
    pub fn start_missing<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, Result<ReloadOutcome, KernelError>> {
        Box::pin(async move {
            let started = Instant::now();
            let id =
                ExtensionId::new(id).map_err(|_| self.extensions().unknown_extension_error(id))?;
            let settings = self.extensions().reload_settings(&id)?;
            let shadowing = settings.allow_shadowing.clone();
            let (home, installation) =
                (self.extensions().home().clone(), self.extensions().installation().cloned());
            // Each extension has its private copy, because dependents of this one may be loaded, too.
            let mut found = spawn_blocking(move || {
                skillhost_home::discover_admitted(&home, installation.as_ref(), &shadowing, None)
            })
            .await?;
            let index = found.rejected.iter().position(|rejection| rejection.id == id.as_str());
            if let Some(rejection) = index.map(|index| found.rejected.swap_remove(index)) {
                let LoadRejection { phase, reason, hint, .. } = rejection;
                return Err(not_started_error(&id, ExtensionLoadError { phase, reason, hint }));
            }
            let wanted = found.manifests.get(&id).filter(|it| it.manifest.agent().is_none());
            let wanted =
                wanted.ok_or_else(|| self.extensions().unknown_extension_error(id.as_str()))?;
            let to = match self.extensions().load_missing(wanted, &settings).await {
                Ok(instance) => instance.build.version.clone(),
                Err(failure) => {
                    self.extensions().reject_again(id.as_str(), &failure);
                    return Err(not_started_error(&id, failure));
                }
            };
            self.extensions().load_waiting(&found.manifests, &settings).await;
            self.resolve_waiting_agents(&found.manifests).await;
            self.extensions().replace_settings(settings);
            self.extensions().notify_observers().await;
            let payload = serde_json::json!({ "id": id, "from": "", "to": to });
            self.extensions().events().publish_kernel_event(topic::RELOADED, &payload).await;
            let switched_ms = elapsed_ms(started);
            Ok(ReloadOutcome {
                id: id.to_string(),
                from: String::new(),
                to,
                switched_ms,
                drained_ms: switched_ms,
            })
        })
    }

    /// Resolves agents again that were rejected because of a missing extension.
    async fn resolve_waiting_agents(&self, manifests: &ManifestMap) {
        let mut next = KernelState::clone(&self.extensions().state());
        let mut report = LoadReport::clone(&next.report);
        for rejection in &next.report.rejected.clone() {
            let Some(found) = manifests.get(rejection.id.as_str()) else { continue };
            let (ExtensionKind::Agent(settings), None) =
                (&found.manifest.kind, missing_dependency(&next, found))
            else {
                continue;
            };
            let id = &found.manifest.id;
            let Some(agent) = next.agents.get(id).cloned() else { continue };
            let resolved = self.resolve(&next, found).await;
            if resolved.problem.is_some() {
                continue;
            }
            let wired = settings.integration_mode == IntegrationMode::Tool
                && rejection.phase < LoadPhase::Resolve;
            if wired && self.add_alias(&mut next, &found.manifest).is_err() {
                continue;
            }
            agent.resolved.store(Arc::new(resolved));
            report.rejected.retain(|other| other.id != rejection.id);
            report.agents.push(LoadedAgent { id: id.clone(), name: found.manifest.name.clone() });
        }
        next.report = Arc::new(report);
        self.extensions().replace_state(next);
    }

    /// Adds an agent that other agents call as a tool.
    ///
    /// # Errors
    /// Another extension has a tool of that name.
    pub fn add_alias(
        &self,
        state: &mut KernelState,
        manifest: &Manifest,
    ) -> Result<(), Vec<ToolError>> {
        let plugin = agent_alias_plugin(self);
        state.tools.add_builtin(&manifest.id, &plugin, &[agent_alias_spec(manifest)])
    }
}

/// Keeps agents whose dependencies failed, so that a request for one reports the reason.
fn keep_rejected_agents(
    state: &mut KernelState,
    report: &LoadReport,
    manifests: &BTreeMap<ExtensionId, DiscoveredManifest>,
) {
    for rejection in report.rejected.iter().filter(|r| r.phase == LoadPhase::Plan) {
        let found = manifests.get(rejection.id.as_str());
        if let Some(found) = found.filter(|found| found.manifest.agent().is_some()) {
            let problem =
                AgentError { reason: rejection.reason.clone(), hint: rejection.hint.clone() };
            let agent = Arc::new(Agent::new(found, ResolvedInstructions::from_error(problem)));
            state.agents.insert(found.manifest.id.clone(), agent);
        }
    }
}

fn not_started_error(id: &ExtensionId, failure: ExtensionLoadError) -> KernelError {
    let ExtensionLoadError { phase, reason, hint } = failure;
    KernelError::NotStarted { id: id.clone(), phase, reason, hint }
}
