//! Agents of a running kernel that follow their manifests and prompts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use skillhost_agents::AgentRuntime;
use skillhost_control::{AgentError, LoadReport, LoadedAgent, ReloadOutcome};
use skillhost_core::{
    Agent, ExtensionLoadError, KernelError, KernelState, elapsed_ms, missing_dependency,
    spawn_blocking,
};
use skillhost_files::sha256_hex;
use skillhost_home::{
    DiscoveredManifest, DiscoveryResult, LoadPhase, LoadRejection, RESERVED_IDS, Settings,
};
use skillhost_manifest::{ExtensionId, IntegrationMode};
use skillhost_payload::OperatorCommand;

/// The number of characters of a digest in a reload's result.
const SHORT_DIGEST: usize = 12;

/// The effect of an update on an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentUpdate {
    /// It already had this manifest and these instructions.
    Unchanged,
    Added,
    Changed,
}

/// Finds the manifests of a home. With `only`, that extension is admitted for use: one in the
/// sandbox has a private copy of its approved files.
pub(crate) async fn find_manifests(
    agents: &AgentRuntime,
    settings: &Settings,
    only: Option<ExtensionId>,
) -> Result<DiscoveryResult, KernelError> {
    let host = agents.extensions();
    let (home, installation) = (host.home().clone(), host.installation().cloned());
    let shadowing = settings.allow_shadowing.clone();
    let finding = spawn_blocking(move || match &only {
        Some(id) => {
            skillhost_home::discover_admitted(&home, installation.as_ref(), &shadowing, Some(id))
        }
        None => skillhost_home::discover_manifests(&home, installation.as_ref(), &shadowing),
    });
    Ok(finding.await?)
}

/// Reloads an agent from its files; returns `None` if the id is not that of an agent.
///
/// # Errors
/// [`KernelError::NotReloaded`]: the agent is as before.
pub(crate) async fn reload_agent(
    agents: &AgentRuntime,
    id: &str,
) -> Option<Result<ReloadOutcome, KernelError>> {
    let started = Instant::now();
    let id = ExtensionId::new(id).ok()?;
    let settings = match agents.extensions().reload_settings(&id) {
        Ok(settings) => settings,
        Err(error) => return is_agent(agents, &id).then_some(Err(error)),
    };
    let mut found = match find_manifests(agents, &settings, Some(id.clone())).await {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let not_reloaded = |phase, reason, hint| {
        let id = id.clone();
        Some(Err(KernelError::NotReloaded { id, phase, reason, hint }))
    };
    let Some(manifest) = found.manifests.remove(&id) else {
        let unapproved = found.unapproved.get(&id).is_some_and(|it| it.manifest.agent().is_some());
        let rejection = found.rejected.into_iter().find(|rejection| rejection.id == id.as_str());
        return match rejection {
            Some(LoadRejection { phase, reason, hint, .. })
                if unapproved || is_agent(agents, &id) =>
            {
                not_reloaded(phase, reason, hint)
            }
            _ => None,
        };
    };
    manifest.manifest.agent()?;
    let digest = |state: &KernelState| {
        let agent = state.agents.get(&id)?;
        let digest = sha256_hex(agent.instructions().instructions.as_bytes());
        Some(format!("instructions {}", &digest[..SHORT_DIGEST]))
    };
    let host = agents.extensions();
    let from = digest(&host.state()).unwrap_or_default();
    if let Err(error) = update_agent(agents, &manifest).await {
        let ExtensionLoadError { phase, reason, hint } = error;
        return not_reloaded(phase, reason, hint);
    }
    let to = digest(&host.state()).unwrap_or_default();
    let ms = elapsed_ms(started);
    let id = id.to_string();
    Some(Ok(ReloadOutcome { id, from, to, switched_ms: ms, drained_ms: ms }))
}

fn is_agent(agents: &AgentRuntime, id: &ExtensionId) -> bool {
    agents.extensions().state().agents.contains_key(id)
}

/// Puts the manifest and the prompt of an agent in force. Active runs keep those that they started
/// with.
///
/// # Errors
/// The reason why they cannot be used; the agent is as before.
pub(crate) async fn update_agent(
    agents: &AgentRuntime,
    found: &DiscoveredManifest,
) -> Result<AgentUpdate, ExtensionLoadError> {
    let host = agents.extensions();
    let _guard = host.lock_changes().await;
    let state = host.state();
    let (manifest, id) = (&found.manifest, &found.manifest.id);
    check_usable(&state, found)?;
    let mut next = KernelState::clone(&state);
    next.tools.remove(id);
    if manifest.agent().is_some_and(|it| it.integration_mode == IntegrationMode::Tool) {
        agents
            .add_alias(&mut next, manifest)
            .map_err(|problems| ExtensionLoadError::from_tool_errors(&problems))?;
    }
    let resolved = agents.resolve_agent(&next, found).await;
    if let Some(AgentError { reason, hint }) = resolved.problem {
        return Err(ExtensionLoadError { phase: LoadPhase::Resolve, reason, hint });
    }
    let update = match state.agents.get(id) {
        Some(old) if old.instructions().problem.is_none() => {
            let is_same = old.manifest == *manifest
                && old.instructions().instructions == resolved.instructions;
            if is_same { AgentUpdate::Unchanged } else { AgentUpdate::Changed }
        }
        _ => AgentUpdate::Added,
    };
    if update == AgentUpdate::Unchanged {
        return Ok(update);
    }
    next.agents.insert(id.clone(), Arc::new(Agent::new(found, resolved)));
    let ids = if found.is_in_sandbox() { &mut next.added } else { &mut next.shipped };
    let mut changed = BTreeSet::clone(ids);
    changed.insert(id.clone());
    *ids = Arc::new(changed);
    let mut report = LoadReport::clone(&state.report);
    report.agents.retain(|agent| agent.id != *id);
    report.agents.push(LoadedAgent { id: id.clone(), name: manifest.name.clone() });
    report.rejected.retain(|rejection| rejection.id != id.as_str());
    report.disabled.retain(|disabled| disabled != id);
    next.report = Arc::new(report);
    host.replace_state(next);
    // Its schedules and subscriptions may have changed.
    host.notify_observers().await;
    Ok(update)
}

/// Removes an agent whose manifest no longer exists. Active runs end as they would otherwise.
pub(crate) async fn remove_agent(agents: &AgentRuntime, id: &ExtensionId) {
    let host = agents.extensions();
    let _guard = host.lock_changes().await;
    let mut next = KernelState::clone(&host.state());
    next.agents.remove(id);
    next.tools.remove(id);
    let mut report = LoadReport::clone(&next.report);
    report.agents.retain(|agent| agent.id != *id);
    report.rejected.retain(|rejection| rejection.id != id.as_str());
    next.report = Arc::new(report);
    host.replace_state(next);
    host.notify_observers().await;
}

/// Rejects an agent that a start would reject as well, apart from its instructions.
fn check_usable(state: &KernelState, found: &DiscoveredManifest) -> Result<(), ExtensionLoadError> {
    let id = &found.manifest.id;
    let failed = |reason: String, hint: String| {
        Err(ExtensionLoadError { phase: LoadPhase::Plan, reason, hint })
    };
    if RESERVED_IDS.contains(&id.as_str()) {
        let hint = "choose another id".to_owned();
        return failed(format!("the id `{id}` is reserved by the kernel"), hint);
    }
    if state.instances.contains_key(id) {
        let hint = "choose another id, or restart the kernel".to_owned();
        return failed(format!("the id `{id}` is that of a loaded extension"), hint);
    }
    if let Some(missing) = missing_dependency(state, found) {
        let start = OperatorCommand::ReloadExtension { id: missing.as_str() };
        return failed(
            format!("depends on `{missing}`, which is not loaded"),
            format!("start it first: {start}"),
        );
    }
    // As at the start, an agent in the sandbox cannot use the names of an installed extension.
    match state.shipped.contains(id) && found.is_in_sandbox() && !state.agents.contains_key(id) {
        true => failed(
            format!("the id `{id}` is used by an installed extension"),
            "choose another id".to_owned(),
        ),
        false => Ok(()),
    }
}
