//! The catalog block of one turn: every skill where they are few, else those that matter.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use skill_format::{CatalogItem, RenderedSelection, SkillSelection, render_selection};

use crate::scope::AgentScope;
use crate::search::RankedSkills;
use crate::skill::Skill;
use crate::snapshot::Snapshot;
use crate::view::{CatalogView, SharedCatalog};

use self::memory::{LastBlock, SessionMemory};

mod explain;
mod memory;

pub use explain::explain_catalog;

/// A turn as far as its block depends on it.
#[derive(Clone, Copy, Debug)]
pub struct BlockRequest<'a> {
    /// What the agent may be shown.
    pub scope: AgentScope<'a>,
    /// The session, which keeps what it was shown.
    pub session_id: &'a str,
    /// The agent: several may speak in one session.
    pub agent_id: &'a str,
    /// What the user says.
    pub prompt: &'a str,
    /// The most characters of the block.
    pub budget_chars: usize,
}

/// Finds the skills that fit a prompt, the best first, among those that may be shown.
pub type MatchFn<'a> = &'a dyn Fn(&dyn Fn(&Skill) -> bool) -> RankedSkills;

/// Makes the blocks of turns and remembers what each session was shown and has read.
///
/// A block that lists every skill is rendered once and shared by all. Where there are too many, a
/// session is shown its agent's bound skills, what it read lately and what fits its prompt; later
/// turns add to that, so that the beginning of its prompt stays as it is.
#[derive(Debug)]
pub struct CatalogBlocks {
    full_limit: usize,
    memory: Mutex<SessionMemory>,
}

impl CatalogBlocks {
    /// Makes blocks that list up to so many skills without asking what matters.
    #[must_use]
    pub fn new(full_limit: usize) -> Self {
        Self { full_limit, memory: Mutex::default() }
    }

    /// Returns the block of a turn where it needs no search and was rendered before: the full
    /// listing, or what the session was shown for the same prompt.
    ///
    /// Does not wait: while another turn holds the sessions, a picked block counts as not at hand.
    /// A full listing costs no lock and no allocation.
    #[must_use]
    pub fn cached_block(
        &self,
        snapshot: &Snapshot,
        turn: &BlockRequest<'_>,
    ) -> Option<Option<Arc<str>>> {
        let view = snapshot.cached_view(turn.scope)?;
        match view.cached_catalog(turn.budget_chars)? {
            None => Some(None),
            Some(catalog) if self.lists_all(view, catalog) => Some(Some(Arc::clone(&catalog.text))),
            Some(_) => self.shown_before(snapshot, turn).map(Some),
        }
    }

    /// Returns the last block of the session if it was picked for a turn like this one.
    fn shown_before(&self, snapshot: &Snapshot, turn: &BlockRequest<'_>) -> Option<Arc<str>> {
        let mut memory = match self.memory.try_lock() {
            Ok(memory) => memory,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let known = memory.last_block(turn.session_id, turn.agent_id)?;
        (known.mark == block_key(snapshot, turn)).then(|| Arc::clone(&known.text))
    }

    /// Returns the block of a turn; nothing if its agent is shown no skills. Asks for matches only
    /// where not all skills are listed.
    #[must_use]
    pub fn render_block(
        &self,
        snapshot: &Snapshot,
        turn: &BlockRequest<'_>,
        search: MatchFn<'_>,
    ) -> Option<Arc<str>> {
        let view = snapshot.view(turn.scope);
        let catalog = view.catalog(snapshot, turn.budget_chars)?;
        if self.lists_all(view, &catalog) {
            return Some(Arc::clone(&catalog.text));
        }
        let before = self.memory().session(turn.session_id, turn.agent_id);
        let mark = block_key(snapshot, turn);
        if let Some(known) = &before.known
            && known.mark == mark
        {
            return Some(Arc::clone(&known.text));
        }
        let picked = BlockCandidates::new(snapshot, view, &before.read, search);
        let selected = picked.render(snapshot, view, before.known.as_deref(), turn.budget_chars)?;
        let text: Arc<str> = selected.catalog.text.into();
        let lines =
            selected.shown.ids().filter_map(|id| Some(line_hash(snapshot, snapshot.get(id)?)));
        let lines = lines.collect();
        let known = LastBlock { mark, text: Arc::clone(&text), shown: selected.shown, lines };
        self.memory().store_block(turn.session_id, turn.agent_id, known);
        Some(text)
    }

    /// Takes note that a session read a skill.
    pub fn record_read(&self, session_id: &str, agent_id: &str, skill_id: &str) {
        self.memory().record_read(session_id, agent_id, skill_id);
    }

    fn lists_all(&self, view: &CatalogView, catalog: &SharedCatalog) -> bool {
        let report = catalog.report;
        view.listed().len() <= self.full_limit
            || report.omitted + report.shortened + report.without_description == 0
    }

    fn memory(&self) -> MutexGuard<'_, SessionMemory> {
        // What is remembered is replaced as a whole.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the block of a turn is picked from.
struct BlockCandidates<'s> {
    stable: Vec<&'s Arc<Skill>>,
    found: RankedSkills,
}

impl<'s> BlockCandidates<'s> {
    fn new(
        snapshot: &'s Snapshot,
        view: &CatalogView,
        read: &[Box<str>],
        search: MatchFn<'_>,
    ) -> Self {
        let bound = view.bound().iter().map(|id| &**id);
        let recent = read.iter().rev().map(|id| &**id);
        let stable = bound.chain(recent).filter_map(|id| snapshot.get(id));
        let stable = stable.filter(|skill| view.is_listed_primary(snapshot, skill)).collect();
        let found = search(&|skill| view.is_listed(snapshot, skill));
        Self { stable, found }
    }

    /// Adds to what the session was shown, or begins anew where that has changed or there is no
    /// room.
    fn render(
        &self,
        snapshot: &Snapshot,
        view: &CatalogView,
        known: Option<&LastBlock>,
        budget_chars: usize,
    ) -> Option<RenderedSelection> {
        let stable = lines(snapshot, self.stable.iter().copied());
        let matched = lines(snapshot, self.found.hits.iter().map(|hit| &hit.skill));
        let (stable, matched) = (items(&stable), items(&matched));
        let total = view.listed().len();
        let mut choice = SkillSelection { stable: &stable, matched: &matched, others: &[], total };
        if let Some(known) = known
            && let Some(gone) = removed_since(snapshot, view, known)
            && let Some(next) = known.shown.extend(&choice, &gone, budget_chars)
        {
            return Some(next);
        }
        let others = lines(snapshot, view.skills(snapshot));
        let others = items(&others);
        choice.others = &others;
        render_selection(&choice, budget_chars)
    }
}

/// Returns which of the skills a session was shown are no longer there for it; nothing if one of
/// them has become another.
fn removed_since<'k>(
    snapshot: &Snapshot,
    view: &CatalogView,
    known: &'k LastBlock,
) -> Option<Vec<&'k str>> {
    let mut gone = Vec::new();
    for (id, line) in known.shown.ids().zip(&known.lines) {
        match snapshot.get(id).filter(|skill| view.is_listed_primary(snapshot, skill)) {
            None => gone.push(id),
            Some(skill) if line_hash(snapshot, skill) != *line => return None,
            Some(_) => {}
        }
    }
    Some(gone)
}

type CatalogLine<'s> = (&'s str, Cow<'s, str>);

fn lines<'s>(
    snapshot: &'s Snapshot,
    skills: impl Iterator<Item = &'s Arc<Skill>>,
) -> Vec<CatalogLine<'s>> {
    skills.map(|skill| (skill.id().as_str(), snapshot.catalog_line(skill))).collect()
}

fn items<'s>(lines: &'s [CatalogLine<'_>]) -> Vec<CatalogItem<'s>> {
    lines.iter().map(|(id, description)| CatalogItem { id, description }).collect()
}

fn line_hash(snapshot: &Snapshot, skill: &Skill) -> u64 {
    let mut hasher = DefaultHasher::new();
    snapshot.catalog_line(skill).hash(&mut hasher);
    hasher.finish()
}

/// Tells turns apart whose blocks may differ.
fn block_key(snapshot: &Snapshot, turn: &BlockRequest<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (snapshot.generation(), turn.prompt, turn.scope, turn.budget_chars).hash(&mut hasher);
    hasher.finish()
}
