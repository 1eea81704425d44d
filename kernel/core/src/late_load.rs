//! The load of extensions after the start: of rejected ones, and of those that depend on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use skillhost_control::LoadReport;
use skillhost_home::{DiscoveredManifest, LoadPhase, LoadRejection, RESERVED_IDS, Settings};
use skillhost_manifest::ExtensionId;
use skillhost_payload::OperatorCommand;

use crate::context_chain::ContextChain;
use crate::extension_host::ExtensionHost;
use crate::instance::Instance;
use crate::load_error::ExtensionLoadError;
use crate::state::KernelState;

/// Manifests by their ids.
pub type ManifestMap = BTreeMap<ExtensionId, DiscoveredManifest>;

impl ExtensionHost {
    /// Loads and wires one extension whose dependencies are in use.
    pub fn load_missing<'a>(
        self: &'a Arc<Self>,
        found: &'a DiscoveredManifest,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<Arc<Instance>, ExtensionLoadError>> {
        Box::pin(async move {
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
            let state = self.state.load_full();
            if let Some(missing) = missing_dependency(&state, found) {
                let start = OperatorCommand::ReloadExtension { id: missing.as_str() };
                let hint = format!("start it first: {start}");
                return Err(plan(format!("depends on `{missing}`, which is not loaded"), &hint));
            }
            let instance = self.load(found, settings).await?;
            let mut next = KernelState::clone(&state);
            if let Err(problems) = next.add_tools(&instance) {
                Arc::new(instance).shutdown(&self.limits).await;
                return Err(ExtensionLoadError::from_tool_errors(&problems));
            }
            let instance = Arc::new(instance);
            next.order.push(id.clone());
            next.instances.insert(id.clone(), Arc::clone(&instance));
            next.chain = ContextChain::from_instances(next.instances.values());
            if found.path.starts_with(self.home.extensions_dir()) {
                let mut added = (*next.added).clone();
                added.insert(id.clone());
                next.added = Arc::new(added);
            }
            let mut report = LoadReport::clone(&state.report);
            report.loaded.push(instance.to_report());
            report.rejected.retain(|rejection| rejection.id != id.as_str());
            report.rejected_tools.retain(|_, owner| owner != id.as_str());
            next.report = Arc::new(report);
            self.state.store(Arc::new(next));
            if self.services_run.load(Ordering::SeqCst) {
                self.start_service(&instance);
            }
            Ok(instance)
        })
    }

    /// Loads extensions that were rejected because of a dependency that is now in use, in any
    /// order.
    pub fn load_waiting<'a>(
        self: &'a Arc<Self>,
        manifests: &'a ManifestMap,
        settings: &'a Settings,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let state = self.state.load_full();
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
        })
    }

    /// Changes the report of a rejected extension. The caller holds the lock for changes.
    pub fn update_rejection(&self, id: &str, change: impl FnOnce(&mut LoadRejection)) {
        let mut next = KernelState::clone(&self.state.load());
        let mut report = LoadReport::clone(&next.report);
        if let Some(rejection) = report.rejected.iter_mut().find(|it| it.id == id) {
            change(rejection);
            next.report = Arc::new(report);
            self.state.store(Arc::new(next));
        }
    }

    /// Updates the reason of a rejected extension in the report.
    pub fn reject_again(&self, id: &str, failure: &ExtensionLoadError) {
        self.update_rejection(id, |rejection| {
            rejection.phase = failure.phase;
            rejection.reason.clone_from(&failure.reason);
            rejection.hint.clone_from(&failure.hint);
        });
    }
}

/// Returns the first required dependency that is not in use.
pub fn missing_dependency<'f>(
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
