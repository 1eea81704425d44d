//! Takes a new build of an extension into use while everything runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use skillhost_contract::payload::ErrorKind;

use crate::boot::{ExtensionLoadError, spawn_blocking};
use crate::context_chain::ContextChain;
use crate::discovery::{self, DiscoveredManifest};
use crate::error::{CallError, KernelError};
use crate::events::topic;
use crate::kernel::{Kernel, KernelState};
use crate::loader;
use crate::report::{LoadPhase, LoadReport};
use crate::settings::Settings;

/// What a reload did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadOutcome {
    /// The extension.
    pub id: String,
    /// Version of the build that was in use; empty where none was.
    pub from: String,
    /// Version of the build now in use.
    pub to: String,
    /// Milliseconds until the new build answered calls.
    pub switched_ms: u64,
    /// Milliseconds until the old build had ended.
    pub drained_ms: u64,
}

impl Kernel {
    /// Loads the library anew, or starts the process anew, beside the old one, switches, and ends the
    /// old one when its calls are done. No call is lost: those in flight finish on the old build. An
    /// extension that is not loaded is started, and with it what was rejected for want of it. The settings are read again
    /// from [`BootOptions::settings_file`](crate::BootOptions::settings_file); the new build gets
    /// what they say now.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] for an extension that is not there; [`KernelError::NotReloaded`] when
    /// the new build is refused, or is not what would be loaded, in which case the old one goes on as
    /// if nothing had happened; [`KernelError::NotStarted`] when there was no old one.
    pub async fn reload(&self, id: &str) -> Result<ReloadOutcome, KernelError> {
        let _alone = self.shared.changes.lock().await;
        let started = std::time::Instant::now();
        let state = self.shared.state.load_full();
        let Some(old) = state.instances.get(id).cloned() else {
            return self.start_missing(id).await;
        };
        let settings = self.reload_settings(&old.manifest.id)?;
        let found = self.reload_manifest(&old.manifest.id, &settings).await?;
        let refused = |failure: ExtensionLoadError| {
            let ExtensionLoadError { phase, reason, hint } = failure;
            KernelError::NotReloaded { id: old.manifest.id.clone(), phase, reason, hint }
        };
        if let Some(stale) = stale_library(&found) {
            return Err(refused(stale));
        }
        let new = self.load(&found, &settings).await.map_err(refused)?;
        let mut next = KernelState::clone(&state);
        next.tools.remove(&old.manifest.id);
        if let Err(problems) = next.take_tools(&new) {
            Arc::new(new).shutdown(&self.shared.limits).await;
            return Err(refused(ExtensionLoadError::from_tool_errors(&problems)));
        }
        let new = Arc::new(new);
        next.instances.insert(old.manifest.id.clone(), Arc::clone(&new));
        next.chain = ContextChain::from_instances(next.instances.values());
        next.report = Arc::new(LoadReport {
            loaded: next.order.iter().map(|id| next.instances[id].to_report()).collect(),
            ..LoadReport::clone(&state.report)
        });
        let next = Arc::new(next);
        self.shared.state.store(Arc::clone(&next));
        self.shared.settings.store(settings);
        self.shared.clockwork.reload_jobs();
        self.update_handlers(&next).await;
        drop(next);
        let switched_ms = elapsed_ms(started);

        // Two services of one extension must not run at once, e.g. on one database.
        old.stop_service(&self.shared.limits).await;
        if self.shared.services_run.load(Ordering::SeqCst) {
            self.start_service(&new);
        }
        let from = old.build.version.clone();
        // The snapshot taken above would keep the old build alive.
        drop(state);
        old.shutdown(&self.shared.limits).await;
        let to = new.build.version.clone();
        let payload = serde_json::json!({ "id": id, "from": from, "to": to });
        self.shared.events.publish_kernel_event(topic::RELOADED, &payload).await;
        Ok(ReloadOutcome {
            id: id.to_owned(),
            from,
            to,
            switched_ms,
            drained_ms: elapsed_ms(started),
        })
    }

    /// Reads the settings again, where they come from a file.
    pub(crate) fn reload_settings(
        &self,
        id: &skillhost_manifest::ExtensionId,
    ) -> Result<Arc<Settings>, KernelError> {
        let Some(file) = &self.shared.settings_file else {
            return Ok(self.shared.settings.load_full());
        };
        let loaded = Settings::load(file).map_err(|error| KernelError::NotReloaded {
            id: id.clone(),
            phase: LoadPhase::Discover,
            reason: error.to_string(),
            hint: error.hint(),
        })?;
        Ok(Arc::new(loaded.settings))
    }

    /// Reads the manifest again: a new build may come with a new pin or configuration.
    async fn reload_manifest(
        &self,
        id: &skillhost_manifest::ExtensionId,
        settings: &Settings,
    ) -> Result<DiscoveredManifest, KernelError> {
        let shadowing = settings.allow_shadowing.clone();
        let (home, installation) = (self.shared.home.clone(), self.shared.installation.clone());
        let only = id.clone();
        let looked = spawn_blocking(move || {
            discovery::discover_admitted(&home, installation.as_ref(), &shadowing, Some(&only))
        });
        let mut found = looked.await?;
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
                format!("the manifest of `{id}` is gone, or no longer names code"),
            )
            .with_hint("the build that was in use goes on until the kernel is restarted")
            .into()),
        }
    }
}

/// Refuses to load a library while a newer one lies where nobody looks: a build whose author expects
/// to see it.
fn stale_library(found: &DiscoveredManifest) -> Option<ExtensionLoadError> {
    // The author's own folder, also where what is loaded is a copy of it.
    let folder = found.path.parent()?;
    let (current, newer) = loader::newer_build(found.manifest.entrypoint()?, folder)?;
    let id = &found.manifest.id;
    Some(ExtensionLoadError {
        phase: LoadPhase::Probe,
        reason: format!(
            "{} is newer than {}, which is what is loaded",
            newer.display(),
            current.display()
        ),
        hint: format!("install the new one: skillhost ext build {id}; or remove it"),
    })
}

pub(crate) fn elapsed_ms(started: std::time::Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
