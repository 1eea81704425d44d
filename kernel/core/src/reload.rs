//! Replaces a build of an extension in the running kernel.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use skillhost_control::{LoadReport, ReloadOutcome};
use skillhost_events::topic;
use skillhost_home::{DiscoveredManifest, LoadPhase, Settings};
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};

use crate::blocking::spawn_blocking;
use crate::context_chain::ContextChain;
use crate::error::KernelError;
use crate::extension_host::ExtensionHost;
use crate::instance::Instance;
use crate::load_error::ExtensionLoadError;
use crate::loader;
use crate::state::KernelState;

impl ExtensionHost {
    /// Replaces the build of a loaded extension; returns `None` for one that is not loaded. The
    /// caller holds the lock for changes.
    pub fn reload_loaded<'a>(
        self: &'a Arc<Self>,
        id: &'a str,
    ) -> BoxFuture<'a, Option<Result<ReloadOutcome, KernelError>>> {
        Box::pin(async move {
            let state = self.state.load_full();
            let old = state.instances.get(id).cloned()?;
            Some(self.replace_build(state, old).await)
        })
    }

    /// Loads the new build in parallel with the old one, switches, and shuts the old one down after
    /// its calls. No call is lost: those in flight finish on the old build.
    async fn replace_build(
        self: &Arc<Self>,
        state: Arc<KernelState>,
        old: Arc<Instance>,
    ) -> Result<ReloadOutcome, KernelError> {
        let started = std::time::Instant::now();
        let id = old.manifest.id.clone();
        let settings = self.reload_settings(&old.manifest.id)?;
        let found = self.reload_manifest(&old.manifest.id, &settings).await?;
        let to_reload_error = |failure: ExtensionLoadError| {
            let ExtensionLoadError { phase, reason, hint } = failure;
            KernelError::NotReloaded { id: old.manifest.id.clone(), phase, reason, hint }
        };
        if let Some(stale) = stale_library_error(&found) {
            return Err(to_reload_error(stale));
        }
        let new = self.load(&found, &settings).await.map_err(to_reload_error)?;
        let mut next = KernelState::clone(&state);
        next.tools.remove(&old.manifest.id);
        // The old build keeps its entries: only the copy of the state was changed.
        if let Err(problems) = next.add_tools(&new) {
            Arc::new(new).shutdown(&self.limits).await;
            return Err(to_reload_error(ExtensionLoadError::from_tool_errors(&problems)));
        }
        let new = Arc::new(new);
        next.instances.insert(old.manifest.id.clone(), Arc::clone(&new));
        next.chain = ContextChain::from_instances(next.instances.values());
        next.report = Arc::new(LoadReport {
            loaded: next.order.iter().map(|id| next.instances[id].to_report()).collect(),
            ..LoadReport::clone(&state.report)
        });
        let next = Arc::new(next);
        self.state.store(Arc::clone(&next));
        self.settings.store(settings);
        drop(next);
        self.notify_observers().await;
        let switched_ms = elapsed_ms(started);

        // Two services of one extension must not run at once, e.g. on one database.
        old.stop_service(&self.limits).await;
        if self.services_run.load(Ordering::SeqCst) {
            self.start_service(&new);
        }
        let from = old.build.version.clone();
        // This snapshot would keep the old build alive.
        drop(state);
        old.shutdown(&self.limits).await;
        let to = new.build.version.clone();
        let payload = serde_json::json!({ "id": id.as_str(), "from": from, "to": to });
        self.events.publish_kernel_event(topic::RELOADED, &payload).await;
        Ok(ReloadOutcome {
            id: id.to_string(),
            from,
            to,
            switched_ms,
            drained_ms: elapsed_ms(started),
        })
    }

    /// Reads the settings again, if they come from a file.
    pub fn reload_settings(
        &self,
        id: &skillhost_manifest::ExtensionId,
    ) -> Result<Arc<Settings>, KernelError> {
        let Some(file) = &self.settings_file else {
            return Ok(self.settings.load_full());
        };
        let loaded = Settings::load(file).map_err(|error| KernelError::NotReloaded {
            id: id.clone(),
            phase: LoadPhase::Discover,
            reason: error.to_string(),
            hint: error.hint(),
        })?;
        Ok(Arc::new(loaded.settings))
    }

    /// Reads the manifest again: a new build may have a new pin or configuration.
    async fn reload_manifest(
        &self,
        id: &skillhost_manifest::ExtensionId,
        settings: &Settings,
    ) -> Result<DiscoveredManifest, KernelError> {
        let shadowing = settings.allow_shadowing.clone();
        let (home, installation) = (self.home.clone(), self.installation.clone());
        let only = id.clone();
        let discovery_task = spawn_blocking(move || {
            skillhost_home::discover_admitted(&home, installation.as_ref(), &shadowing, Some(&only))
        });
        let mut found = discovery_task.await?;
        let rejected = found.rejected.iter().find(|rejection| rejection.id == id.as_str());
        match (found.manifests.remove(id), rejected) {
            (Some(manifest), _) if manifest.manifest.agent().is_none() => Ok(manifest),
            (_, Some(rejection)) => Err(KernelError::NotReloaded {
                id: id.clone(),
                phase: rejection.phase,
                reason: rejection.reason.clone(),
                hint: rejection.hint.clone(),
            }),
            _ => Err(CallError::new(
                ErrorKind::NotFound,
                format!("the manifest of `{id}` is missing, or names no code"),
            )
            .with_hint("the previous build stays in use until the kernel is restarted")
            .into()),
        }
    }
}

/// Rejects a library if a newer one is in a directory that a load ignores: its author expects that
/// build.
fn stale_library_error(found: &DiscoveredManifest) -> Option<ExtensionLoadError> {
    // The author's own directory, even if the loaded library is in a copy of it.
    let folder = found.path.parent()?;
    let (current, newer) = loader::newer_build(found.manifest.entrypoint()?, folder)?;
    let build = OperatorCommand::BuildExtension { id: found.manifest.id.as_str() };
    Some(ExtensionLoadError {
        phase: LoadPhase::Probe,
        reason: format!("{} is newer than {}, which is loaded", newer.display(), current.display()),
        hint: format!("install the new one: {build}; or remove it"),
    })
}

/// Returns the milliseconds since a time.
#[must_use]
pub fn elapsed_ms(started: std::time::Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
