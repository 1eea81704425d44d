//! The catalog block of one turn: every skill where they are few, else those that matter.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use skill_catalog::{AgentScope, CatalogView, SharedCatalog, Skill, Snapshot};
use skill_format::{
    CatalogItem, RenderReport, RenderedSelection, SkillSelection, render_selection,
};
use skill_ledger::OfferLog;

use self::memory::{LastBlock, SessionMemory};
use crate::search::RankedSkills;

mod explain;
mod memory;

pub use explain::explain_catalog;

/// A turn as far as its block depends on it.
#[derive(Clone, Copy, Debug)]
pub struct BlockRequest<'a> {
    /// The scope of the agent.
    pub scope: AgentScope<'a>,
    /// The session, whose listed skills are remembered.
    pub session_id: &'a str,
    /// The agent: several may speak in one session.
    pub agent_id: &'a str,
    /// The text of the user's message.
    pub prompt: &'a str,
    /// The most characters of the block.
    pub budget_chars: usize,
}

/// A function that returns the visible skills that match a prompt, the best first.
pub type MatchFn<'a> = &'a dyn Fn(&dyn Fn(&Skill) -> bool) -> RankedSkills;

/// A builder of the catalog blocks of turns. It remembers the skills that each session was offered
/// and has read.
///
/// A block that lists every skill is rendered once and shared by all sessions. Above the limit, a
/// session is offered its agent's bound skills, the skills it read lately and the skills that match
/// its prompt. Later turns append to that list, so that the beginning of the prompt does not
/// change.
#[derive(Debug)]
pub struct CatalogBlocks {
    full_limit: usize,
    memory: Mutex<SessionMemory>,
    offers: Arc<OfferLog>,
}

impl CatalogBlocks {
    /// Creates a builder that lists every skill up to this limit, without a search.
    #[must_use]
    pub fn new(full_limit: usize) -> Self {
        Self { full_limit, memory: Mutex::default(), offers: Arc::default() }
    }

    /// Returns the counts of the blocks that turns were offered.
    #[must_use]
    pub fn offers(&self) -> &Arc<OfferLog> {
        &self.offers
    }

    /// Returns the block of a turn if it needs no search and was rendered before: the full listing,
    /// or the block of the session for the same prompt.
    ///
    /// Does not wait: while another turn holds the sessions, a picked block counts as not rendered.
    /// A full listing costs no allocation. Counts the turn as offered.
    #[must_use]
    pub fn cached_block(
        &self,
        snapshot: &Snapshot,
        turn: &BlockRequest<'_>,
    ) -> Option<Option<Arc<str>>> {
        let view = snapshot.cached_view(turn.scope)?;
        match view.cached_catalog(turn.budget_chars)? {
            None => Some(None),
            Some(catalog) if self.lists_all(view, catalog) => {
                self.offers.record(turn.agent_id, &catalog.text, None);
                Some(Some(Arc::clone(&catalog.text)))
            }
            Some(_) => self.shown_before(snapshot, turn).map(Some),
        }
    }

    /// Returns the last block of the session if it was picked for a turn like this one.
    fn shown_before(&self, snapshot: &Snapshot, turn: &BlockRequest<'_>) -> Option<Arc<str>> {
        let mut memory = match self.memory.try_lock() {
            Ok(memory) => memory,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // A turn must not wait here; the caller renders the block in this case.
            Err(TryLockError::WouldBlock) => return None,
        };
        let known = memory.last_block(turn.session_id, turn.agent_id)?;
        (known.mark == block_key(snapshot, turn)).then(|| self.offer(turn, known))
    }

    /// Counts a turn with a picked block and returns its text.
    fn offer(&self, turn: &BlockRequest<'_>, block: &LastBlock) -> Arc<str> {
        self.offers.record(turn.agent_id, &block.text, Some(&block.matched));
        Arc::clone(&block.text)
    }

    /// Returns the block of a turn, or `None` if the agent sees no skills. Searches for matches
    /// only above the limit of full listings. Counts the turn as offered.
    #[must_use]
    pub fn render_block(
        &self,
        snapshot: &Snapshot,
        turn: &BlockRequest<'_>,
        search: MatchFn<'_>,
    ) -> Option<Arc<str>> {
        let view = snapshot.view(turn.scope);
        let catalog = view.catalog(snapshot, turn.budget_chars)?;
        // A complete listing is the same for all sessions, so it needs no memory.
        if self.lists_all(view, &catalog) {
            self.offers.record(turn.agent_id, &catalog.text, None);
            return Some(Arc::clone(&catalog.text));
        }
        // The lock is released during the search, which can take long.
        let before = self.memory().session(turn.session_id, turn.agent_id);
        let mark = block_key(snapshot, turn);
        if let Some(known) = &before.known
            && known.mark == mark
        {
            return Some(self.offer(turn, known));
        }
        let picked = BlockCandidates::new(snapshot, view, &before.read, search);
        let selected = picked.render(snapshot, view, before.known.as_deref(), turn.budget_chars)?;
        let text: Arc<str> = selected.catalog.text.into();
        let lines =
            selected.shown.ids().filter_map(|id| Some(line_hash(snapshot, snapshot.get(id)?)));
        let lines = lines.collect();
        let matched = picked.matched_ids(&text);
        let known = LastBlock { mark, text, shown: selected.shown, lines, matched };
        let text = self.offer(turn, &known);
        self.memory().store_block(turn.session_id, turn.agent_id, known);
        Some(text)
    }

    /// Composes the block of an agent's first turn with a prompt; no session remembers it.
    #[must_use]
    pub fn first_block(
        &self,
        snapshot: &Snapshot,
        turn: &BlockRequest<'_>,
        search: MatchFn<'_>,
    ) -> FirstBlock {
        let view = snapshot.view(turn.scope);
        let picked = BlockCandidates::new(snapshot, view, &[], search);
        // The same decision as for a prompt: all skills if they are few and fit, else a selection.
        let full = view.catalog(snapshot, turn.budget_chars);
        let full = full.filter(|catalog| self.lists_all(view, catalog));
        let lists_all = full.is_some();
        let (text, report, ids) = match full {
            Some(catalog) => {
                let listed = view.skills(snapshot).take(catalog.report.listed);
                let ids = listed.map(|skill| skill.id().to_string()).collect();
                (Some(Arc::clone(&catalog.text)), Some(catalog.report), ids)
            }
            None => match picked.render(snapshot, view, None, turn.budget_chars) {
                Some(made) => {
                    let ids = made.shown.ids().map(str::to_owned).collect();
                    (Some(made.catalog.text.into()), Some(made.catalog.report), ids)
                }
                None => (None, None, Vec::new()),
            },
        };
        FirstBlock { text, report, ids, lists_all, found: picked.found }
    }

    /// Records that a session read a skill.
    pub fn record_read(&self, session_id: &str, agent_id: &str, skill_id: &str) {
        self.memory().record_read(session_id, agent_id, skill_id);
    }

    fn lists_all(&self, view: &CatalogView, catalog: &SharedCatalog) -> bool {
        let report = catalog.report;
        view.listed().len() <= self.full_limit
            || report.omitted + report.shortened + report.without_description == 0
    }

    fn memory(&self) -> MutexGuard<'_, SessionMemory> {
        // Every field of the session is replaced, so a panic of another holder leaves no mixed
        // state.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The block of an agent's first turn with a prompt, and the ranking from which it was picked.
#[derive(Clone, Debug)]
pub struct FirstBlock {
    /// The text; `None` if the agent sees no skills.
    pub text: Option<Arc<str>>,
    /// The cuts of the text.
    pub report: Option<RenderReport>,
    /// The ids of the skills with a line, in the order of their lines.
    pub ids: Vec<String>,
    /// `true` if every skill is listed for each prompt.
    pub lists_all: bool,
    /// The matches of the prompt.
    pub found: RankedSkills,
}

impl FirstBlock {
    /// Returns the ids of the skills whose line has a description.
    #[must_use]
    pub fn described_ids(&self) -> HashSet<&str> {
        let text = self.text.as_deref().unwrap_or_default();
        text.lines().filter_map(skill_format::described_id).collect()
    }
}

/// The skills from which the block of a turn is picked.
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
        // The most recent reading first, because the budget may cut the rest.
        let recent = read.iter().rev().map(|id| &**id);
        let stable = bound.chain(recent).filter_map(|id| snapshot.get(id));
        let stable = stable.filter(|skill| view.is_listed_primary(snapshot, skill)).collect();
        let found = search(&|skill| view.is_listed(snapshot, skill));
        Self { stable, found }
    }

    /// Returns the ids of the matches that a block describes.
    fn matched_ids(&self, text: &str) -> Arc<[Box<str>]> {
        let described: HashSet<&str> =
            text.lines().filter_map(skill_format::described_id).collect();
        let ids = self.found.hits.iter().map(|hit| hit.skill.id().as_str());
        ids.filter(|id| described.contains(id)).map(Box::from).collect()
    }

    /// Appends to the lines of the session, or starts a new list if an earlier line has changed or
    /// the budget is exceeded.
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
            // Extending keeps the beginning of the prompt, which models cache.
            && let Some(next) = known.shown.extend(&choice, &gone, budget_chars)
        {
            return Some(next);
        }
        // Only a new block needs the other skills; their lines cost time in a large catalog.
        let others = lines(snapshot, view.skills(snapshot));
        let others = items(&others);
        choice.others = &others;
        render_selection(&choice, budget_chars)
    }
}

/// Returns the skills of a session that were removed from its scope, or `None` if the line of one
/// of them has changed.
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

/// Returns a key that differs between turns whose blocks may differ.
fn block_key(snapshot: &Snapshot, turn: &BlockRequest<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (snapshot.generation(), turn.prompt, turn.scope, turn.budget_chars).hash(&mut hasher);
    hasher.finish()
}
