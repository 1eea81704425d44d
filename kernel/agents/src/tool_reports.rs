//! The tools of agents, as providers of skills know them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use skillhost_core::{KernelState, ToolEntry};
use skillhost_home::{ADDED, Settings};
use skillhost_manifest::{ExtensionId, Manifest};
use skillhost_payload::{AgentTool, AgentTools, CallOrigin};

/// The tools of all agents as they were last sent to the providers of skills.
#[derive(Default)]
pub(crate) struct ToolReports {
    last: Mutex<LastReport>,
}

#[derive(Default)]
struct LastReport {
    /// The state and the settings that the report is about. Weak, because a state keeps its
    /// extensions alive; an address is not used again while such a handle exists.
    state: Weak<KernelState>,
    settings: Weak<Settings>,
    agents: Vec<AgentTools>,
    /// The numbers of the providers that have the report.
    providers: Vec<u64>,
    /// The number of different reports.
    revision: u64,
}

impl ToolReports {
    /// Returns the number of changes that were found so far.
    pub(crate) fn revision(&self) -> u64 {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).revision
    }

    /// Returns the tools of all agents, unless these providers have them already.
    pub(crate) fn find_change(
        &self,
        state: &Arc<KernelState>,
        settings: &Arc<Settings>,
        providers: Vec<u64>,
    ) -> Option<Vec<AgentTools>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // The usual case: two comparisons of addresses.
        let is_same = std::ptr::eq(last.state.as_ptr(), Arc::as_ptr(state))
            && std::ptr::eq(last.settings.as_ptr(), Arc::as_ptr(settings))
            && last.providers == providers;
        if is_same {
            return None;
        }
        let agents = list_all_tools(state, settings);
        let is_changed = agents != last.agents || last.revision == 0;
        let is_sent = !is_changed && last.providers == providers;
        *last = LastReport {
            state: Arc::downgrade(state),
            settings: Arc::downgrade(settings),
            agents: agents.clone(),
            providers,
            revision: last.revision + u64::from(is_changed),
        };
        (!is_sent).then_some(agents)
    }
}

/// Lists the tools of every agent.
fn list_all_tools(state: &KernelState, settings: &Settings) -> Vec<AgentTools> {
    let agents = state.agents.values();
    agents.filter_map(|agent| list_agent_tools(state, settings, &agent.manifest)).collect()
}

/// Lists the tools that an agent may call, with the names that the settings give to them.
pub(crate) fn list_agent_tools(
    state: &KernelState,
    settings: &Settings,
    manifest: &Manifest,
) -> Option<AgentTools> {
    manifest.agent()?;
    let is_added = |owner: &ExtensionId| state.added.contains(owner);
    let entries = state.tools.offered_entries(CallOrigin::Agent);
    let entries =
        entries.filter(|entry| uses_tool(manifest, &entry.owner, &entry.spec.name, is_added));
    let mut versions: BTreeMap<String, Option<String>> =
        entries.map(|entry| (entry.spec.name.clone(), tool_version(state, entry))).collect();
    let aliases = settings.tool_aliases.resolve_names(|name| versions.contains_key(name));
    let aliases: Vec<_> =
        aliases.map(|(name, tool)| (name.to_owned(), versions[tool].clone())).collect();
    versions.extend(aliases);
    let tools = versions.into_iter().map(|(name, version)| AgentTool { name, version });
    Some(AgentTools { agent_id: manifest.id.to_string(), tools: tools.collect() })
}

/// Returns whether a tool is one of an agent's `uses_tools`. `is_added` tells whether an extension is
/// one of the sandbox.
pub(crate) fn uses_tool(
    manifest: &Manifest,
    owner: &ExtensionId,
    name: &str,
    is_added: impl Fn(&ExtensionId) -> bool,
) -> bool {
    let uses = manifest.agent().map_or(&[][..], |agent| &agent.uses_tools);
    // An agent cannot call itself as a tool.
    *owner != manifest.id
        && (uses.iter().any(|used| used.value == name || *owner == *used.value)
            || (uses.iter().any(|used| used.value == ADDED) && is_added(owner)))
}

/// Returns the version of a tool: for a process the one that its server reports, for a library that of
/// its manifest, for a part of the kernel that of the kernel.
fn tool_version(state: &KernelState, entry: &ToolEntry) -> Option<String> {
    // The version of a skill is not one of its programs.
    if entry.is_program {
        return None;
    }
    if let Some(instance) = state.instances.get(&entry.owner) {
        let built = Some(&instance.build.version).filter(|version| !version.is_empty());
        let stated = instance.manifest.version.as_ref();
        let is_process = instance.manifest.command().is_some();
        return if is_process { built.or(stated) } else { stated.or(built) }.cloned();
    }
    match state.agents.get(&entry.owner) {
        Some(agent) => agent.manifest.version.clone(),
        None => Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}
