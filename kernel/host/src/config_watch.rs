//! A running kernel follows its settings, secrets, agents and approvals.
//!
//! Each poll compares the stamps of the files and opens none if they are the same. Changes that can
//! be applied are; the others become [`PendingChange`]s, each reported once to the operator, and in
//! every status until it is applied or undone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use skillhost_agents::AgentRuntime;
use skillhost_control::{KernelNotices, PendingChange};
use skillhost_core::{Instance, spawn_blocking};
use skillhost_events::topic;
use skillhost_home::{
    DiscoveredManifest, DiscoveryResult, ModelsSettings, Settings, SettingsError,
};
use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::{OperatorCommand, UserNotice};

use crate::agent_updates::{AgentUpdate, find_manifests, remove_agent, update_agent};
use crate::file_stamps::HomeStamps;

/// The interval between polls.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The watch of one kernel.
pub(crate) struct ConfigWatch {
    agents: AgentRuntime,
    supervised: bool,
    /// `None` until the watch starts. Serializes the polls.
    state: tokio::sync::Mutex<Option<WatchState>>,
    notices: Mutex<KernelNotices>,
}

/// The facts that the next poll compares with.
struct WatchState {
    stamps: HomeStamps,
    /// The settings of the start; some parts of the kernel keep them.
    started_with: Arc<Settings>,
    /// The settings of models that are in force.
    models: ModelsSettings,
    /// The configuration with which each extension was loaded.
    loaded_with: BTreeMap<ExtensionId, LoadBasis>,
}

/// The inputs of an extension's load.
struct LoadBasis {
    /// The number of the instance: another one was loaded with other inputs.
    number: u64,
    config: Value,
    memory_limit_mib: u64,
    /// Secrets that have changed since.
    changed_secrets: BTreeSet<String>,
}

impl ConfigWatch {
    pub(crate) fn new(agents: AgentRuntime, supervised: bool) -> Self {
        Self { agents, supervised, state: tokio::sync::Mutex::default(), notices: Mutex::default() }
    }

    /// Starts to follow the files as they are now; a second call has no effect.
    pub(crate) async fn start(&self) {
        let mut state = self.state.lock().await;
        if state.is_none() {
            let settings = self.agents.extensions().settings();
            let mut started = WatchState {
                // Nothing is known yet: the first poll also finds changes during the start.
                stamps: HomeStamps::default(),
                models: settings.models.clone(),
                started_with: Arc::clone(&settings),
                loaded_with: BTreeMap::new(),
            };
            self.update_bases(&mut started, &settings, &BTreeSet::new());
            *state = Some(started);
        }
    }

    /// Applies the changes since the last poll; without [`ConfigWatch::start`] it has no effect.
    pub(crate) async fn poll(&self) {
        let mut state = self.state.lock().await;
        let Some(state) = state.as_mut() else { return };
        let stamps = self.observe().await;
        if stamps.is_same(&state.stamps) && !self.has_reloaded(state) {
            return;
        }
        let earlier = std::mem::replace(&mut state.stamps, stamps);
        let notices = self.apply(state, &earlier).await;
        let before = {
            let mut current = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, notices.clone())
        };
        self.report(&before, &notices).await;
    }

    /// Returns the changes that are not applied.
    pub(crate) fn notices(&self) -> KernelNotices {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn observe(&self) -> HomeStamps {
        let host = self.agents.extensions();
        let home = host.home().clone();
        let known =
            host.state().agents.values().map(|agent| agent.path.clone()).collect::<Vec<_>>();
        let directories: BTreeSet<PathBuf> =
            known.iter().filter_map(|path| path.parent()).map(PathBuf::from).collect();
        let observing = spawn_blocking(move || HomeStamps::observe(&home, &directories));
        observing.await.unwrap_or_default()
    }

    /// Returns whether an extension was loaded since the last poll, which may settle a change.
    fn has_reloaded(&self, state: &WatchState) -> bool {
        let current = self.agents.extensions().state();
        let known = |instance: &Arc<Instance>| {
            let basis = state.loaded_with.get(&instance.manifest.id);
            basis.is_some_and(|basis| basis.number == instance.number)
        };
        !current.instances.values().all(known)
    }

    async fn apply(&self, state: &mut WatchState, earlier: &HomeStamps) -> KernelNotices {
        let host = self.agents.extensions();
        let mut pending = Vec::new();
        let (settings, invalid_settings) = match self.load_settings().await {
            Ok(settings) => (settings, None),
            Err(error) => (host.settings(), Some(Self::invalid_settings(&error))),
        };
        let secrets = self.reload_secrets(&mut pending).await;
        let previous = host.settings();
        if previous != settings {
            host.replace_settings(Arc::clone(&settings));
            let changed = changed_groups(&previous, &settings);
            self.announce(format!("skillhost.yaml is in force: {}", changed.join(", "))).await;
        }
        // Compared with those in force: a reload may have replaced the other settings before.
        let env = host.home().root().join(".env");
        if state.models != settings.models || state.stamps.has_change_below(earlier, &env) {
            state.models = settings.models.clone();
            let (agents, models) = (self.agents.clone(), settings.models.clone());
            // Reads the keys again.
            if let Err(error) =
                spawn_blocking(move || agents.model_source().settings_changed(&models)).await
            {
                tracing::warn!(%error, "models could not be changed");
            }
        }
        if !secrets.is_empty() {
            let names: Vec<_> = secrets.iter().map(String::as_str).collect();
            self.announce(format!(".env is in force: {}", names.join(", "))).await;
        }
        self.update_bases(state, &settings, &secrets);
        pending.extend(self.settings_that_require_restart(&state.started_with, &settings));
        match find_manifests(&self.agents, &settings, None).await {
            Ok(found) => {
                self.update_agents(state, earlier, &found, &settings, &mut pending).await;
                self.find_pending_extensions(state, &found, &settings, &mut pending);
            }
            Err(error) => tracing::warn!(%error, "manifests could not be read"),
        }
        KernelNotices { invalid_settings, pending, missing_keys: Vec::new() }
    }

    async fn load_settings(&self) -> Result<Arc<Settings>, SettingsError> {
        let host = self.agents.extensions();
        let Some(file) = host.settings_file().map(PathBuf::from) else {
            return Ok(host.settings());
        };
        let current = host.settings();
        match spawn_blocking(move || Settings::load(&file)).await {
            Ok(loaded) => Ok(Arc::new(loaded?.settings)),
            Err(error) => {
                tracing::warn!(%error, "settings could not be read");
                Ok(current)
            }
        }
    }

    fn invalid_settings(error: &SettingsError) -> PendingChange {
        PendingChange {
            // The error has the complete path.
            subject: "settings".to_owned(),
            reason: format!("{error}; the last valid settings stay in force"),
            hint: error.hint(),
        }
    }

    /// Reads the secrets again; returns the names of those that have changed.
    async fn reload_secrets(&self, pending: &mut Vec<PendingChange>) -> BTreeSet<String> {
        let host = Arc::clone(self.agents.extensions());
        match spawn_blocking(move || host.secrets().reload()).await {
            Ok(Ok(changed)) => changed,
            Ok(Err(error)) => {
                pending.push(PendingChange {
                    subject: ".env".to_owned(),
                    reason: format!("{error}; the last valid secrets stay in use"),
                    hint: "correct the file; each line is NAME=value".to_owned(),
                });
                BTreeSet::new()
            }
            Err(error) => {
                tracing::warn!(%error, "secrets could not be read");
                BTreeSet::new()
            }
        }
    }

    /// Records the inputs of extensions that were loaded since the last poll.
    fn update_bases(
        &self,
        state: &mut WatchState,
        settings: &Settings,
        secrets: &BTreeSet<String>,
    ) {
        let current = self.agents.extensions().state();
        state.loaded_with.retain(|id, _| current.instances.contains_key(id));
        for (id, instance) in &current.instances {
            let basis = || LoadBasis {
                number: instance.number,
                config: settings.extension_config(&instance.manifest),
                memory_limit_mib: settings.processes.memory_limit_mib,
                changed_secrets: BTreeSet::new(),
            };
            let known = state.loaded_with.entry(id.clone()).or_insert_with(basis);
            if known.number != instance.number {
                *known = basis();
            }
            // A library asks for its secrets when it needs them; a process got them at its start.
            if instance.manifest.command().is_some() {
                let named = instance.manifest.secrets.iter().filter(|name| secrets.contains(*name));
                known.changed_secrets.extend(named.cloned());
            }
        }
    }

    /// Updates, adds and removes agents. One that cannot be used in its new form stays as it is.
    async fn update_agents(
        &self,
        state: &WatchState,
        earlier: &HomeStamps,
        found: &DiscoveryResult,
        settings: &Settings,
        pending: &mut Vec<PendingChange>,
    ) {
        let current = self.agents.extensions().state();
        let approvals = self.agents.extensions().home().data_dir("kernel").join("approvals.jsonl");
        let agents = found.manifests.values().filter(|found| found.manifest.agent().is_some());
        for manifest in agents.filter(|found| found.manifest.enabled) {
            let id = &manifest.manifest.id;
            let directory = manifest.path.parent().unwrap_or(&manifest.path);
            let known = current.agents.get(id);
            let may_differ = known.is_none_or(|agent| agent.instructions().problem.is_some())
                || state.stamps.has_change_below(earlier, directory)
                || manifest.is_in_sandbox() && state.stamps.has_change_below(earlier, &approvals);
            if may_differ {
                let mut problems = Vec::new();
                self.update_one_agent(manifest, settings, &mut problems).await;
                // An agent with the same files fails because of a skill or tool, which its next
                // turn reports: no other form of it stays in use.
                let has_same_files = known.is_some_and(|agent| agent.manifest == manifest.manifest)
                    && !state.stamps.has_other_stamp_below(earlier, directory);
                if !has_same_files || manifest.is_in_sandbox() {
                    pending.extend(problems);
                }
            }
        }
        for (id, agent) in &current.agents {
            let listed = found.manifests.get(id);
            let rejected = found.rejected.iter().find(|rejection| rejection.id == id.as_str());
            let is_gone = listed.is_none() && rejected.is_none() && !agent.path.exists();
            let is_disabled = listed.is_some_and(|found| !found.manifest.enabled);
            if is_gone || is_disabled {
                remove_agent(&self.agents, id).await;
                let reason = if is_disabled { "is disabled" } else { "was removed" };
                self.announce(format!("agent `{id}` {reason}")).await;
            } else if let Some(rejection) = rejected.filter(|_| listed.is_none()) {
                pending.extend(self.pending_agent(id, &rejection.reason, &rejection.hint));
            }
        }
    }

    async fn update_one_agent(
        &self,
        manifest: &DiscoveredManifest,
        settings: &Settings,
        pending: &mut Vec<PendingChange>,
    ) {
        let id = &manifest.manifest.id;
        let admitted = match manifest.is_in_sandbox() {
            false => Some(manifest.clone()),
            // Its files are used as they were approved, from a copy.
            true => match find_manifests(&self.agents, settings, Some(id.clone())).await {
                Ok(mut found) => {
                    let rejected = found.rejected.iter().find(|it| it.id == id.as_str());
                    if let Some(rejection) = rejected {
                        pending.extend(self.pending_agent(id, &rejection.reason, &rejection.hint));
                    }
                    found.manifests.remove(id)
                }
                Err(error) => {
                    tracing::warn!(%id, %error, "agent could not be read");
                    None
                }
            },
        };
        let Some(admitted) = admitted else { return };
        match update_agent(&self.agents, &admitted).await {
            Ok(AgentUpdate::Unchanged) => {}
            Ok(AgentUpdate::Added) => self.announce(format!("agent `{id}` was added")).await,
            Ok(AgentUpdate::Changed) => self.announce(format!("agent `{id}` was updated")).await,
            Err(error) => pending.extend(self.pending_agent(id, &error.reason, &error.hint)),
        }
    }

    /// Returns the pending change of an agent that cannot be used in its new form; `None` if the
    /// report of the start lists it already.
    fn pending_agent(&self, id: &ExtensionId, reason: &str, hint: &str) -> Option<PendingChange> {
        let state = self.agents.extensions().state();
        let known = state.agents.get(id);
        let is_used = known.is_some_and(|agent| agent.instructions().problem.is_none());
        let is_reported = state.report.rejected.iter().any(|it| it.id == id.as_str());
        let stays = if is_used { "; its previous form stays in use" } else { "" };
        (is_used || !is_reported).then(|| PendingChange {
            subject: format!("agent `{id}`"),
            reason: format!("{reason}{stays}"),
            hint: hint.to_owned(),
        })
    }

    /// Lists the extensions on disk that differ from those that are loaded.
    fn find_pending_extensions(
        &self,
        state: &WatchState,
        found: &DiscoveryResult,
        settings: &Settings,
        pending: &mut Vec<PendingChange>,
    ) {
        let current = self.agents.extensions().state();
        for (id, found) in &found.manifests {
            let manifest = &found.manifest;
            if manifest.agent().is_some() {
                continue;
            }
            let reason = match (current.instances.get(id), state.loaded_with.get(id)) {
                (None, _) if !manifest.enabled => None,
                // The report of the start has the reason.
                (None, _) if current.report.rejected.iter().any(|it| it.id == id.as_str()) => None,
                (None, _) => Some("is not loaded yet".to_owned()),
                (Some(_), _) if !manifest.enabled => {
                    pending.push(PendingChange {
                        subject: format!("extension `{id}`"),
                        reason: "is loaded, and its manifest disables it".to_owned(),
                        hint: self.restart_hint(),
                    });
                    None
                }
                (Some(instance), Some(basis)) => {
                    find_difference(instance, basis, manifest, settings)
                }
                (Some(_), None) => None,
            };
            pending.extend(reason.map(|reason| PendingChange {
                subject: format!("extension `{id}`"),
                reason,
                hint: OperatorCommand::ReloadExtension { id: id.as_str() }.to_string(),
            }));
        }
        let rejected: BTreeSet<_> =
            current.report.rejected.iter().map(|rejection| rejection.id.as_str()).collect();
        for rejection in &found.rejected {
            let is_known = rejected.contains(rejection.id.as_str())
                || current.agents.contains_key(rejection.id.as_str());
            if !is_known {
                pending.push(PendingChange {
                    subject: format!("extension `{}`", rejection.id),
                    reason: rejection.reason.clone(),
                    hint: rejection.hint.clone(),
                });
            }
        }
        for id in current.instances.keys() {
            let is_rejected = found.rejected.iter().any(|rejection| rejection.id == id.as_str());
            if !found.manifests.contains_key(id) && !is_rejected {
                pending.push(PendingChange {
                    subject: format!("extension `{id}`"),
                    reason: "is loaded, and its manifest was removed".to_owned(),
                    hint: self.restart_hint(),
                });
            }
        }
    }

    /// Lists the settings that only a start reads.
    fn settings_that_require_restart(
        &self,
        started_with: &Settings,
        settings: &Settings,
    ) -> Vec<PendingChange> {
        let groups = [
            ("build", started_with.build != settings.build),
            ("supervisor", self.supervised && started_with.supervisor != settings.supervisor),
        ];
        let changed = groups.into_iter().filter(|(_, has_changed)| *has_changed);
        changed
            .map(|(group, _)| PendingChange {
                subject: format!("skillhost.yaml: {group}"),
                reason: "takes effect at the next start".to_owned(),
                hint: self.restart_hint(),
            })
            .collect()
    }

    fn restart_hint(&self) -> String {
        let run = match self.supervised {
            true => OperatorCommand::RunSupervisedKernel,
            false => OperatorCommand::RunKernel,
        };
        format!("{}; then: {run}", OperatorCommand::StopKernel)
    }

    /// Reports each change that is newly pending, and settings that are valid again.
    async fn report(&self, before: &KernelNotices, now: &KernelNotices) {
        match (&before.invalid_settings, &now.invalid_settings) {
            (Some(_), None) => self.announce("skillhost.yaml is valid again".to_owned()).await,
            (before, Some(invalid)) if before.as_ref() != Some(invalid) => {
                self.announce(format_change(invalid)).await;
            }
            _ => {}
        }
        for change in now.pending.iter().filter(|change| !before.pending.contains(change)) {
            self.announce(format_change(change)).await;
        }
    }

    /// Shows a line to the operator, and adds it to the log.
    async fn announce(&self, text: String) {
        tracing::info!("{text}");
        let events = self.agents.extensions().events();
        events.publish_kernel_event(topic::NOTICE, &UserNotice { text }).await;
    }
}

/// Returns the names of the top-level settings that differ.
fn changed_groups(before: &Settings, after: &Settings) -> Vec<String> {
    let value = |settings: &Settings| serde_json::to_value(settings).unwrap_or_default();
    let (before_values, after_values) = (value(before), value(after));
    let groups = after_values.as_object().into_iter().flatten();
    let changed = groups.filter(|(group, value)| before_values.get(group) != Some(value));
    let mut names: Vec<_> = changed.map(|(group, _)| group.clone()).collect();
    if before.configured != after.configured {
        names.push("configuration by agents".to_owned());
    }
    names
}

/// Returns the reason why a loaded extension differs from its manifest and settings.
fn find_difference(
    instance: &Instance,
    basis: &LoadBasis,
    manifest: &Manifest,
    settings: &Settings,
) -> Option<String> {
    let is_process = manifest.command().is_some();
    if *instance.manifest != *manifest {
        Some("has another manifest than the one that is loaded".to_owned())
    } else if settings.extension_config(manifest) != basis.config {
        Some("has another configuration than the one that is loaded".to_owned())
    } else if is_process && settings.processes.memory_limit_mib != basis.memory_limit_mib {
        Some("runs with the earlier memory limit of processes".to_owned())
    } else if !basis.changed_secrets.is_empty() {
        let names: Vec<_> = basis.changed_secrets.iter().map(String::as_str).collect();
        Some(format!("runs with earlier secrets: {}", names.join(", ")))
    } else {
        None
    }
}

/// Formats a change on one line.
fn format_change(change: &PendingChange) -> String {
    let PendingChange { subject, reason, hint } = change;
    let line = |text: &str| text.replace('\n', " ");
    match hint.as_str() {
        "" => format!("{subject}: {}", line(reason)),
        hint => format!("{subject}: {}; {}", line(reason), line(hint)),
    }
}
