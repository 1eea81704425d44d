//! The declarations of skills that have an effect at run time: required tools and conflicts.
//!
//! The scan of a store reads the frontmatter of each skill. This index adds the `skill.yaml` next to
//! it, which it reads again where its stamp has changed, and compares the required tools with those
//! of each agent.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use cap_std::fs::Metadata;
use skill_catalog::{FileSignature, HiddenSkill, RegistryError, Skill, Snapshot, Store};
use skill_compat::extended::ExtendedSpec;
use skill_compat::{AvailableTool, describe_tool_problems};
use skill_format::{SKILL_YAML, sanitize_line};
use skillhost_payload::{AgentTools, CallContext};

use crate::declared_spec::read_sidecar;
use crate::file_stamp::file_signature;
use crate::ineligible::ineligible_error;

/// An index of the declarations of the skills of a store.
#[derive(Debug)]
pub struct DeclarationIndex {
    store: Arc<Store>,
    state: Mutex<DeclarationState>,
    current: ArcSwap<DeclaredSkills>,
}

#[derive(Debug, Default)]
struct DeclarationState {
    /// The skills with declarations or a `skill.yaml`.
    known: HashMap<String, KnownDeclarations>,
    tools: HashMap<String, Vec<AvailableTool>>,
}

/// The declarations of a skill, and the sources that they were read from.
#[derive(Debug)]
struct KnownDeclarations {
    /// The frontmatter's part: a new text has a new address.
    skill: Arc<Skill>,
    /// The stamp of `skill.yaml`; `None` if it has to be read again.
    stamp: Option<FileStamp>,
    spec: Arc<ExtendedSpec>,
}

/// The stamp of a `skill.yaml`; `None` without the file.
type FileStamp = Option<FileSignature>;

/// The declarations at one moment.
#[derive(Debug, Default)]
pub(crate) struct DeclaredSkills {
    revision: u64,
    /// By the key of the skill.
    specs: HashMap<String, Arc<ExtendedSpec>>,
    /// The skills that each agent is not offered; an agent without any has no entry.
    hidden: HashMap<String, Arc<[HiddenSkill]>>,
}

impl DeclaredSkills {
    /// Returns whether no skill declares anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Returns the declarations of a skill, or `None` without any.
    pub(crate) fn find(&self, skill: &Skill) -> Option<&Arc<ExtendedSpec>> {
        // Nothing is allocated for a home without declarations.
        if self.specs.is_empty() { None } else { self.specs.get(&skill.cache_key()) }
    }
}

impl DeclarationIndex {
    /// Creates the index of a store. It is filled by its first refresh.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, state: Mutex::default(), current: ArcSwap::default() }
    }

    /// Finds changes. Costs one `stat` per skill.
    pub fn refresh(&self) {
        let (snapshot, mut state) = (self.store.snapshot(), self.lock());
        let mut changed = false;
        let shadowed = snapshot.shadowed().iter().map(|shadowed| &shadowed.skill);
        for skill in snapshot.skills().iter().chain(shadowed.clone()) {
            changed |= self.refresh_skill(&mut state, skill);
        }
        if !state.known.is_empty() {
            let all = snapshot.skills().iter().chain(shadowed);
            let present: HashSet<_> = all.map(|skill| skill.cache_key()).collect();
            let before = state.known.len();
            state.known.retain(|key, _| present.contains(key));
            changed |= state.known.len() != before;
        }
        if changed {
            self.publish(&state);
        }
    }

    /// Reads the declarations of a skill again if they may have changed; returns whether they have.
    fn refresh_skill(&self, state: &mut DeclarationState, skill: &Arc<Skill>) -> bool {
        let stamp = read_stamp(&skill.dir());
        if stamp == Some(None) && skill.declared().is_none() && state.known.is_empty() {
            return false;
        }
        let key = skill.cache_key();
        if stamp == Some(None) && skill.declared().is_none() {
            return state.known.remove(&key).is_some();
        }
        let known = state.known.get(&key);
        let is_same = known.is_some_and(|known| {
            known.stamp.is_some() && known.stamp == stamp && Arc::ptr_eq(&known.skill, skill)
        });
        if is_same {
            return false;
        }
        let own = skill.declared().map(ExtendedSpec::from_frontmatter).unwrap_or_default();
        let spec = own.merge_with(read_sidecar(skill).unwrap_or_default());
        let changed = known.is_none_or(|known| *known.spec != spec);
        // A write shortly after this one may leave an equal stamp.
        let now = self.store.now();
        let stamp = stamp.filter(|stamp| !stamp.is_some_and(|stamp| stamp.is_racy(now)));
        let (skill, spec) = (Arc::clone(skill), Arc::new(spec));
        state.known.insert(key, KnownDeclarations { skill, stamp, spec });
        changed
    }

    /// Replaces the tools of all agents.
    pub fn set_agent_tools(&self, agents: Vec<AgentTools>) {
        let mut state = self.lock();
        state.tools =
            agents.into_iter().map(|it| (it.agent_id.clone(), to_available_tools(&it))).collect();
        self.publish(&state);
    }

    /// Puts the declarations in force, with the hidden skills of each agent.
    fn publish(&self, state: &DeclarationState) {
        let is_stated = |known: &&KnownDeclarations| !known.spec.is_empty();
        let declared: Vec<_> = state.known.values().filter(is_stated).collect();
        let hide = |agent: &String, tools: &Vec<AvailableTool>| {
            let mut hidden: Vec<HiddenSkill> = declared
                .iter()
                .filter_map(|known| {
                    let reasons = describe_tool_problems(&known.spec, tools);
                    (!reasons.is_empty()).then(|| HiddenSkill {
                        id: known.skill.id().as_str().into(),
                        source: known.skill.source().into(),
                        reason: describe_reasons(&reasons, agent).into(),
                    })
                })
                .collect();
            // A map has no order, and the list is compared as a part of the scope.
            hidden.sort();
            (!hidden.is_empty()).then(|| (agent.clone(), hidden.into()))
        };
        let hidden = state.tools.iter().filter_map(|(agent, tools)| hide(agent, tools)).collect();
        let specs = declared.iter().map(|it| (it.skill.cache_key(), Arc::clone(&it.spec)));
        let revision = self.current.load().revision + 1;
        self.current.store(Arc::new(DeclaredSkills { revision, specs: specs.collect(), hidden }));
    }

    /// Returns a number that grows with each change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.current.load().revision
    }

    /// Returns the skills that the agent of a call is not offered, because it lacks a tool that they
    /// require. For an agent whose tools are not known there are none.
    #[must_use]
    pub fn hidden_skills(&self, context: &CallContext) -> HiddenSkills {
        let current = self.current.load();
        // The usual case costs no lookup.
        if current.hidden.is_empty() {
            return HiddenSkills(None);
        }
        HiddenSkills(current.hidden.get(&context.agent_id).cloned())
    }

    /// Checks that the agent of a call has the tools that a skill requires.
    ///
    /// # Errors
    /// [`ErrorKind::Ineligible`](skillhost_payload::ErrorKind::Ineligible) with the missing tools.
    pub fn check_eligible(
        &self,
        snapshot: &Snapshot,
        context: &CallContext,
        name: &str,
    ) -> Result<(), RegistryError> {
        let hidden = self.hidden_skills(context);
        let Some(skill) = snapshot.get(name).filter(|_| !hidden.is_empty()) else { return Ok(()) };
        // A skill outside of the agent's scope is not revealed.
        let view = snapshot.view(crate::caller::scope_of(context, &[]));
        match hidden.iter().find(|hidden| hidden.is_skill(skill)) {
            Some(it) if view.contains(snapshot, skill) || view.is_bound(snapshot, skill) => {
                Err(ineligible_error(name, &it.reason))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn current(&self) -> Arc<DeclaredSkills> {
        self.current.load_full()
    }

    fn lock(&self) -> MutexGuard<'_, DeclarationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The skills that one agent is not offered.
#[derive(Clone, Debug, Default)]
pub struct HiddenSkills(Option<Arc<[HiddenSkill]>>);

impl std::ops::Deref for HiddenSkills {
    type Target = [HiddenSkill];

    fn deref(&self) -> &[HiddenSkill] {
        self.0.as_deref().unwrap_or_default()
    }
}

pub(crate) fn describe_reasons(reasons: &[String], agent: &str) -> String {
    sanitize_line(&format!("{} for {agent}", reasons.join(", ")))
}

pub(crate) fn to_available_tools(agent: &AgentTools) -> Vec<AvailableTool> {
    let tools = agent.tools.iter();
    tools.map(|it| AvailableTool { name: it.name.clone(), version: it.version.clone() }).collect()
}

/// Returns the stamp of the `skill.yaml` in a directory, or `None` if it cannot be examined.
fn read_stamp(dir: &Path) -> Option<FileStamp> {
    match std::fs::symlink_metadata(dir.join(SKILL_YAML)) {
        Ok(metadata) => Some(Some(file_signature(&Metadata::from_just_metadata(metadata)))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(None),
        Err(_) => None,
    }
}
