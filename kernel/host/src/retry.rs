//! Extensions that are loaded after the start: failed ones, and those that depend on them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use skillhost_events::topic;
use skillhost_home::{DiscoveredManifest, LoadPhase, LoadRejection, RESERVED_IDS, Settings};
use skillhost_manifest::{ExtensionId, ExtensionKind, IntegrationMode};
use skillhost_sandbox::{ExitCause, RestartBackoff, RestartDecision, RestartLimits};

use crate::boot::{ExtensionLoadError, spawn_blocking};
use crate::context_chain::ContextChain;
use crate::error::KernelError;
use crate::instance::Instance;
use crate::kernel::{Kernel, KernelShared, KernelState};
use crate::reload::{ReloadOutcome, elapsed_ms};
use crate::report::{LoadReport, LoadedAgent};

type Manifests = BTreeMap<ExtensionId, DiscoveredManifest>;

impl Kernel {
    /// Starts an extension that is not loaded, and those that were rejected because of it. The
    /// caller holds the lock for changes.
    pub(crate) async fn start_missing(&self, id: &str) -> Result<ReloadOutcome, KernelError> {
        let started = Instant::now();
        let id = ExtensionId::new(id).map_err(|_| self.unknown_extension_error(id))?;
        let settings = self.reload_settings(&id)?;
        let shadowing = settings.allow_shadowing.clone();
        let (home, installation) = (self.shared.home.clone(), self.shared.installation.clone());
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
        let wanted = wanted.ok_or_else(|| self.unknown_extension_error(id.as_str()))?;
        let to = match self.load_missing(wanted, &settings).await {
            Ok(instance) => instance.build.version.clone(),
            Err(failure) => {
                self.reject_again(id.as_str(), &failure);
                return Err(not_started_error(&id, failure));
            }
        };
        self.load_waiting(&found.manifests, &settings).await;
        self.resolve_waiting_agents(&found.manifests).await;
        self.shared.settings.store(settings);
        self.shared.clockwork.reload_jobs();
        self.update_handlers(&self.shared.state.load_full()).await;
        let payload = serde_json::json!({ "id": id, "from": "", "to": to });
        self.shared.events.publish_kernel_event(topic::RELOADED, &payload).await;
        let switched_ms = elapsed_ms(started);
        Ok(ReloadOutcome {
            id: id.to_string(),
            from: String::new(),
            to,
            switched_ms,
            drained_ms: switched_ms,
        })
    }

    /// Loads and wires one extension whose dependencies are in use.
    async fn load_missing(
        &self,
        found: &DiscoveredManifest,
        settings: &Settings,
    ) -> Result<Arc<Instance>, ExtensionLoadError> {
        let id = &found.manifest.id;
        let plan = |reason: String, hint: &str| ExtensionLoadError {
            phase: LoadPhase::Plan,
            reason,
            hint: hint.to_owned(),
        };
        if RESERVED_IDS.contains(&id.as_str()) {
            return Err(plan(
                format!("the id `{id}` is reserved by the kernel"),
                "choose another id",
            ));
        }
        if !found.manifest.enabled {
            return Err(plan(
                "it is disabled".to_owned(),
                "remove `enabled: false` from its manifest",
            ));
        }
        let state = self.shared.state.load_full();
        if let Some(missing) = missing_dependency(&state, found) {
            let hint = format!("start it first: skillhost ext reload {missing}");
            return Err(plan(format!("depends on `{missing}`, which is not loaded"), &hint));
        }
        let instance = self.load(found, settings).await?;
        let mut next = KernelState::clone(&state);
        if let Err(problems) = next.add_tools(&instance) {
            Arc::new(instance).shutdown(&self.shared.limits).await;
            return Err(ExtensionLoadError::from_tool_errors(&problems));
        }
        let instance = Arc::new(instance);
        next.order.push(id.clone());
        next.instances.insert(id.clone(), Arc::clone(&instance));
        next.chain = ContextChain::from_instances(next.instances.values());
        if found.path.starts_with(self.shared.home.extensions_dir()) {
            let mut added = (*next.added).clone();
            added.insert(id.clone());
            next.added = Arc::new(added);
        }
        let mut report = LoadReport::clone(&state.report);
        report.loaded.push(instance.to_report());
        report.rejected.retain(|rejection| rejection.id != id.as_str());
        report.rejected_tools.retain(|_, owner| owner != id.as_str());
        next.report = Arc::new(report);
        self.shared.state.store(Arc::new(next));
        if self.shared.services_run.load(Ordering::SeqCst) {
            self.start_service(&instance);
        }
        Ok(instance)
    }

    /// Loads extensions that were rejected because of a dependency that is now in use, in any
    /// order.
    async fn load_waiting(&self, manifests: &Manifests, settings: &Settings) {
        loop {
            let state = self.shared.state.load_full();
            let waiting = state.report.rejected.iter().filter(|it| it.phase == LoadPhase::Plan);
            let next = waiting.filter_map(|it| manifests.get(it.id.as_str())).find(|found| {
                found.manifest.agent().is_none()
                    && found.manifest.enabled
                    && missing_dependency(&state, found).is_none()
            });
            let Some(found) = next else { return };
            if let Err(failure) = self.load_missing(found, settings).await {
                // The phase must not be `Plan` any more, or this loop would not end.
                let phase = failure.phase.max(LoadPhase::Probe);
                self.reject_again(
                    found.manifest.id.as_str(),
                    &ExtensionLoadError { phase, ..failure },
                );
            }
        }
    }

    /// Resolves agents again that were rejected because of a missing extension.
    async fn resolve_waiting_agents(&self, manifests: &Manifests) {
        let mut next = KernelState::clone(&self.shared.state.load());
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
            if wired && next.tools.add_agent(&found.manifest).is_err() {
                continue;
            }
            agent.resolved.store(Arc::new(resolved));
            report.rejected.retain(|other| other.id != rejection.id);
            report.agents.push(LoadedAgent { id: id.clone(), name: found.manifest.name.clone() });
        }
        next.report = Arc::new(report);
        self.shared.state.store(Arc::new(next));
    }

    /// Retries each process extension that failed at its start: after 1, 2, 4 and 8 seconds. `ext
    /// doctor` reports the next attempt.
    pub(crate) fn retry_failed_processes(&self) {
        let report = self.report();
        let failed: Vec<_> =
            report.rejected.iter().filter(|it| it.phase == LoadPhase::Start).collect();
        if failed.is_empty() {
            return;
        }
        let settings = self.shared.settings.load();
        let installation = self.shared.installation.as_ref();
        let found = skillhost_home::discover_manifests(
            &self.shared.home,
            installation,
            &settings.allow_shadowing,
        );
        let is_process = |id: &str| {
            found.manifests.get(id).is_some_and(|found| found.manifest.command().is_some())
        };
        for rejection in failed.into_iter().filter(|it| is_process(&it.id)) {
            let task = retry_extension(Arc::downgrade(&self.shared), rejection.id.clone());
            let stopping = self.shared.stopping.clone();
            tokio::spawn(stopping.run_until_cancelled_owned(task));
        }
    }

    /// Starts an extension, unless it is already loaded.
    async fn start_unless_loaded(&self, id: &str) -> Result<(), KernelError> {
        let _guard = self.shared.changes.lock().await;
        if self.shared.state.load().instances.contains_key(id) {
            return Ok(());
        }
        self.start_missing(id).await.map(drop)
    }

    /// Adds the next attempt for a process that failed at its start to the report.
    async fn note_retry(&self, id: &str, next: &RestartDecision) {
        let _guard = self.shared.changes.lock().await;
        let line = match next {
            RestartDecision::Restart(wait) => format!("{RETRY} in {} ms", wait.as_millis()),
            RestartDecision::Stop(tries) => format!(
                "restart limit reached after {tries} failures; to retry: skillhost ext reload {id}"
            ),
        };
        self.update_rejection(id, |rejection| {
            // The line of the previous attempt is replaced.
            let hint = rejection.hint.lines().filter(|line| !line.starts_with(RETRY));
            let lines: Vec<_> = hint.chain([&*line]).map(str::to_owned).collect();
            rejection.hint = lines.join("\n");
        });
    }

    /// Changes the report of a rejected extension. The caller holds the lock for changes.
    fn update_rejection(&self, id: &str, change: impl FnOnce(&mut LoadRejection)) {
        let mut next = KernelState::clone(&self.shared.state.load());
        let mut report = LoadReport::clone(&next.report);
        if let Some(rejection) = report.rejected.iter_mut().find(|it| it.id == id) {
            change(rejection);
            next.report = Arc::new(report);
            self.shared.state.store(Arc::new(next));
        }
    }

    /// Updates the reason of a rejected extension in the report.
    fn reject_again(&self, id: &str, failure: &ExtensionLoadError) {
        self.update_rejection(id, |rejection| {
            rejection.phase = failure.phase;
            rejection.reason.clone_from(&failure.reason);
            rejection.hint.clone_from(&failure.hint);
        });
    }
}

/// The start of the hint's line about the next attempt.
const RETRY: &str = "it is started again";

/// Retries one extension until it starts or the restart limit is reached.
async fn retry_extension(shared: Weak<KernelShared>, id: String) {
    let mut backoff = RestartBackoff::new(RestartLimits::default());
    let started = Instant::now();
    loop {
        let next = backoff.record_exit(ExitCause::Crashed, started.elapsed());
        // Upgraded for each step, so that the wait does not keep the kernel alive.
        let Some(kernel) = shared.upgrade().map(|shared| Kernel { shared }) else { return };
        kernel.note_retry(&id, &next).await;
        drop(kernel);
        let RestartDecision::Restart(wait) = next else { return };
        tokio::time::sleep(wait).await;
        let Some(kernel) = shared.upgrade().map(|shared| Kernel { shared }) else { return };
        match kernel.start_unless_loaded(&id).await {
            Ok(()) => return tracing::info!(id, "started after a retry"),
            Err(error) => tracing::warn!(id, %error, "retry failed"),
        }
        let rejected = kernel.report();
        // An operator may have started it, or it now fails in a phase that a retry cannot fix.
        if !rejected.rejected.iter().any(|it| it.id == id && it.phase == LoadPhase::Start) {
            return;
        }
    }
}

/// Returns the first required dependency that is not in use.
fn missing_dependency<'f>(
    state: &KernelState,
    found: &'f DiscoveredManifest,
) -> Option<&'f ExtensionId> {
    let ready = |id: &ExtensionId| {
        let agent = state.agents.get(id);
        state.instances.contains_key(id)
            || agent.is_some_and(|agent| agent.instructions().problem.is_none())
    };
    let needed = found.manifest.depends_on.iter().filter(|needed| !needed.optional);
    needed.map(|needed| &needed.id).find(|id| !ready(id))
}

fn not_started_error(id: &ExtensionId, failure: ExtensionLoadError) -> KernelError {
    let ExtensionLoadError { phase, reason, hint } = failure;
    KernelError::NotStarted { id: id.clone(), phase, reason, hint }
}
