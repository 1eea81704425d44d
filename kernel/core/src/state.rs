//! The loaded extensions and agents of a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use skillhost_control::LoadReport;
use skillhost_home::{LoadPhase, LoadRejection, RESERVED_IDS, suggest_similar};
use skillhost_manifest::ExtensionId;
use skillhost_payload::ToolSpec;

use crate::agent::Agent;
use crate::context_chain::ContextChain;
use crate::error::{KernelError, NamedObject};
use crate::instance::{Instance, PinnedInstance};
use crate::tools::{ToolError, ToolTable};

/// The loaded extensions and agents; replaced as a unit, never changed in place.
#[derive(Default, Clone)]
pub struct KernelState {
    /// The loaded extensions.
    pub instances: BTreeMap<ExtensionId, Arc<Instance>>,
    /// The load order; the shutdown uses the reverse order.
    pub order: Vec<ExtensionId>,
    /// Every tool and its owner.
    pub tools: ToolTable,
    /// The context providers.
    pub chain: ContextChain,
    /// The agents, also those in the error state.
    pub agents: BTreeMap<ExtensionId, Arc<Agent>>,
    /// The approved extensions in `sandbox/extensions`, loaded or not.
    pub added: Arc<BTreeSet<ExtensionId>>,
    /// The extensions that an operator has installed, loaded or not.
    pub shipped: Arc<BTreeSet<ExtensionId>>,
    /// The report of the start, updated by later reloads.
    pub report: Arc<LoadReport>,
}

impl KernelState {
    /// Finds the extension that provides an interface and is reachable through `from`'s
    /// dependencies.
    pub fn reachable_provider(
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

    /// Finds an agent.
    pub fn agent(&self, id: &str) -> Result<&Arc<Agent>, KernelError> {
        self.agents.get(id).ok_or_else(|| {
            let unapproved = |r: &&LoadRejection| r.id == id && r.phase == LoadPhase::Approve;
            match (self.report.rejected.iter().find(unapproved), ExtensionId::new(id)) {
                (Some(rejection), Ok(id)) => KernelError::AgentFailed {
                    id,
                    reason: rejection.reason.clone(),
                    hint: rejection.hint.clone(),
                },
                _ => KernelError::NotFound {
                    what: NamedObject::Agent,
                    id: id.to_owned(),
                    similar: suggest_similar(id, self.agents.keys().map(ExtensionId::as_str)),
                },
            }
        })
    }

    /// Pins every extension that provides an interface; returns `None` if one is already ending.
    pub fn pin_providers(&self, interface: &str) -> Option<Vec<PinnedInstance>> {
        let providers = self.instances.values().filter(|instance| instance.provides(interface));
        providers.map(Instance::pin).collect()
    }

    /// Removes an extension, so that it can be shut down.
    pub(crate) fn remove_instance(&mut self, id: &ExtensionId) -> Option<Arc<Instance>> {
        self.order.retain(|other| other != id);
        self.tools.remove(id);
        let taken = self.instances.remove(id);
        self.chain = ContextChain::from_instances(self.instances.values());
        taken
    }
}

impl KernelState {
    /// Adds an extension's tools to the table. One from the sandbox cannot use the names of an
    /// installed extension.
    ///
    /// # Errors
    /// As for [`ToolTable::add`].
    pub fn add_tools(&mut self, instance: &Instance) -> Result<(), Vec<ToolError>> {
        self.check_names(&instance.manifest.id, &instance.specs)?;
        self.tools.add(instance)
    }

    /// Checks that the names of an extension and its tools are unambiguous in `uses_tools`.
    ///
    /// # Errors
    /// The names in use.
    pub fn check_names(&self, id: &ExtensionId, specs: &[ToolSpec]) -> Result<(), Vec<ToolError>> {
        if self.shipped.contains(id) {
            return Ok(());
        }
        let mut problems = Vec::new();
        if let Some(other) = self.tools.owner(id.as_str()).filter(|other| *other != id) {
            problems.push(ToolError::Id { id: id.clone(), other: other.clone() });
        }
        for spec in specs {
            let name = &spec.name;
            let other = self.shipped.get(name.as_str()).cloned().or_else(|| {
                RESERVED_IDS.contains(&name.as_str()).then(|| ExtensionId::new(name).ok()).flatten()
            });
            if let Some(other) = other {
                let (name, owner) = (name.clone(), id.clone());
                problems.push(ToolError::NameTaken { name, owner, other, is_agent: false });
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}
