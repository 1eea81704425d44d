//! The search for skills that match a query.
//!
//! A [`SkillSearcher`] holds an index of every text, built at the first query and renewed by the
//! changes. During a renewal a query uses the previous index; before the first index it uses the
//! catalog in the database, else the frontmatter of the listing. A skill that is gone from the
//! snapshot is in no result.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use filter::QueryFilters;
use query::rank_skills;
use renewal_lock::RenewalLock;
use skill_catalog::{Skill, Snapshot, Store};
use skill_ledger::{Ledger, LedgerError};
use skill_search::{Index, RankingExplanation};
use snapshot_index::SnapshotIndex;
use text::SearchableText;

pub use meaning::{EmbeddingBatch, EmbeddingVectors, MissingVectors, SimilarityScores};
pub use query::{RankedSkill, RankedSkills, RankingSource, SkillQuery};

mod catalog;
mod filter;
mod meaning;
mod query;
mod renewal_lock;
mod snapshot_index;
mod text;

/// The limit on the texts that are read and indexed during a query; more are left to
/// [`SkillSearcher::build_index`].
const AT_ONCE: usize = 64;

/// The time that a query waits for the lock of the database.
const DATABASE_WAIT: Duration = Duration::from_millis(200);

/// The result of [`SkillSearcher::search_filtered`].
#[derive(Clone, Debug)]
pub struct SkillSearchResult {
    /// The skills.
    pub ranked: RankedSkills,
    /// The phrases and prefixes of the query that match no skill; they are ignored.
    pub unmet: Vec<String>,
}

/// A searcher over the skills of one store.
///
/// Allocates little before the first query. A query takes no lock that a renewal holds.
pub struct SkillSearcher {
    built: ArcSwapOption<SnapshotIndex>,
    /// An index of the listing, for queries that cannot wait.
    names: ArcSwapOption<(u64, Index)>,
    turn: RenewalLock,
    ledger: Option<Ledger>,
}

impl Default for SkillSearcher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SkillSearcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Searcher").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

impl SkillSearcher {
    /// Creates a searcher without an index.
    #[must_use]
    pub fn new() -> Self {
        Self {
            built: ArcSwapOption::empty(),
            names: ArcSwapOption::empty(),
            turn: RenewalLock::default(),
            ledger: None,
        }
    }

    /// Creates a searcher that also uses the catalog in a ledger's database, see
    /// [`SkillSearcher::sync_catalog`]; opens no file.
    #[must_use]
    pub fn with_catalog(ledger: &Ledger) -> Self {
        Self { ledger: Some(ledger.with_wait(DATABASE_WAIT)), ..Self::new() }
    }

    /// Returns the generation of the snapshot that the index was last renewed for.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        self.built.load().as_ref().map(|built| built.generation)
    }

    /// Returns the size of the index in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.built.load().as_ref().map_or(0, |built| built.heap_bytes())
    }

    /// Ranks the skills of a snapshot by their match with a query. The query is plain text without
    /// a syntax.
    ///
    /// Reads and indexes the changes if they are few; else uses the existing index.
    #[must_use]
    pub fn search(
        &self,
        store: &Store,
        snapshot: &Arc<Snapshot>,
        ask: &SkillQuery<'_>,
    ) -> RankedSkills {
        if let Some(built) = self.usable_index(store, snapshot) {
            return built.search(snapshot, ask);
        }
        let ranked =
            self.ledger.as_ref().and_then(|ledger| catalog::search_rows(ledger, snapshot, ask));
        if let Some(ranked) = ranked {
            return ranked;
        }
        self.search_names(snapshot, ask)
    }

    /// Ranks as [`SkillSearcher::search`] does, among the skills that have the phrases (`"…"`) and
    /// the prefixes (`word*`) of the query.
    ///
    /// If no skill has them, the result reports it, and only the words count.
    #[must_use]
    pub fn search_filtered(
        &self,
        store: &Store,
        snapshot: &Arc<Snapshot>,
        ask: &SkillQuery<'_>,
    ) -> SkillSearchResult {
        let Some((filters, holders)) = self.apply_filters(store, snapshot, ask) else {
            return SkillSearchResult {
                ranked: self.search(store, snapshot, ask),
                unmet: Vec::new(),
            };
        };
        if holders.is_empty() {
            return SkillSearchResult {
                ranked: self.search(store, snapshot, ask),
                unmet: filters.display_filters(),
            };
        }
        let ids = ids(&holders);
        let among = |skill: &Skill| ids.contains(skill.id().as_str());
        // A ranker matches complete words only.
        let query = filters.expand_prefixes(ask.query, &holders);
        let inner = SkillQuery { query: &query, admits: &among, limit: usize::MAX, ..*ask };
        let mut ranked = self.search(store, snapshot, &inner);
        ranked.matched = holders.len();
        // A skill with the phrase is a hit, even if the ranker ignores its words.
        let scored: HashSet<&str> = ranked.hits.iter().map(|hit| hit.skill.id().as_str()).collect();
        let rest: Vec<Arc<Skill>> = holders
            .iter()
            .filter(|skill| !scored.contains(skill.id().as_str()))
            .take(ask.limit.saturating_sub(ranked.hits.len()))
            .cloned()
            .collect();
        // Hits with a score come before those with the phrase alone.
        ranked.hits.truncate(ask.limit);
        ranked.hits.extend(rest.into_iter().map(|skill| {
            let fields = filters.fields(&SearchableText::read(store, &skill, usize::MAX));
            RankedSkill { skill, score: 0.0, fields }
        }));
        SkillSearchResult { ranked, unmet: Vec::new() }
    }

    /// Explains the scores of the skills that [`SkillSearcher::search_filtered`] ranks; `None`
    /// before the index is built.
    #[must_use]
    pub fn explain(
        &self,
        store: &Store,
        snapshot: &Arc<Snapshot>,
        ask: &SkillQuery<'_>,
    ) -> Option<RankingExplanation> {
        let built = self.usable_index(store, snapshot)?;
        match self.apply_filters(store, snapshot, ask) {
            Some((filters, holders)) if !holders.is_empty() => {
                let ids = ids(&holders);
                let among = |skill: &Skill| ids.contains(skill.id().as_str());
                let query = filters.expand_prefixes(ask.query, &holders);
                Some(built.explain(snapshot, &SkillQuery { query: &query, admits: &among, ..*ask }))
            }
            _ => Some(built.explain(snapshot, ask)),
        }
    }

    /// Parses the filters of a query and finds the skills that meet them.
    fn apply_filters(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        ask: &SkillQuery<'_>,
    ) -> Option<(QueryFilters, Vec<Arc<Skill>>)> {
        let filters = QueryFilters::parse(ask.query);
        if filters.is_empty() {
            return None;
        }
        let admits = |skill: &Skill| (ask.admits)(skill) && skill.has_tags(ask.tags);
        let holders = self.find_matching(store, snapshot, &filters, &admits);
        Some((filters, holders))
    }

    /// Finds the skills that meet the filters: out of the database where it knows their texts, else
    /// by reading them.
    fn find_matching(
        &self,
        store: &Store,
        snapshot: &Snapshot,
        filters: &QueryFilters,
        admits: &dyn Fn(&Skill) -> bool,
    ) -> Vec<Arc<Skill>> {
        let known = self
            .ledger
            .as_ref()
            .and_then(|ledger| catalog::query_matches(ledger, filters.filters()));
        let holds = |skill: &Arc<Skill>| {
            let known = known.as_ref().and_then(|known| known.get(skill));
            known
                // The text is read only if the database does not know it in this version.
                .unwrap_or_else(|| filters.matches(&SearchableText::read(store, skill, usize::MAX)))
        };
        let admitted = snapshot.skills().iter().filter(|skill| admits(skill));
        admitted.filter(|skill| holds(skill)).cloned().collect()
    }

    /// Builds or renews the index for a snapshot on this thread. Returns at once if the index is
    /// current; waits for a renewal on another thread and then renews the rest.
    pub fn build_index(&self, store: &Store, snapshot: &Arc<Snapshot>) {
        if !self.is_for(snapshot) {
            // The lock is held during the build, so that a second caller waits instead of building
            // again.
            let _mine = self.turn.acquire();
            self.rebuild_index(store, snapshot);
        }
    }

    /// Waits until another thread has renewed the index to a snapshot; returns `false` after the
    /// timeout.
    #[must_use]
    pub fn wait_for_index(&self, snapshot: &Snapshot, limit: Duration) -> bool {
        self.turn.wait_until(limit, || self.is_for(snapshot))
    }

    /// Updates the catalog in the database to a snapshot; returns the number of renewed rows.
    ///
    /// # Errors
    /// Those of the disk and the database; rows renewed before the error stay renewed.
    pub fn sync_catalog(&self, store: &Store, snapshot: &Snapshot) -> Result<usize, LedgerError> {
        match &self.ledger {
            Some(ledger) => catalog::sync_rows(ledger, store, snapshot),
            None => Ok(0),
        }
    }

    fn is_for(&self, snapshot: &Snapshot) -> bool {
        // A newer index also serves an older snapshot: missing skills are filtered out.
        self.generation().is_some_and(|generation| generation >= snapshot.generation())
    }

    /// Returns an index for a query, renewed if few texts changed and no other thread renews it.
    fn usable_index(&self, store: &Store, snapshot: &Arc<Snapshot>) -> Option<Arc<SnapshotIndex>> {
        let built = self.built.load_full();
        if self.is_for(snapshot) {
            return built;
        }
        let news = match &built {
            Some(built) => built.changes(snapshot).put.len(),
            None => snapshot.skills().len(),
        };
        if news > AT_ONCE {
            return built;
        }
        // While another thread renews the index, the previous one is good enough.
        let Some(_mine) = self.turn.try_acquire() else { return built };
        self.rebuild_index(store, snapshot);
        self.built.load_full()
    }

    /// Renews the index; the turn is the caller's.
    fn rebuild_index(&self, store: &Store, snapshot: &Arc<Snapshot>) {
        let before = self.built.load_full();
        // Another thread may have renewed the index before this one acquired the lock.
        if self.is_for(snapshot) {
            return;
        }
        let built = match &before {
            Some(before) => before.updated(store, snapshot),
            None => SnapshotIndex::new(store, snapshot),
        };
        self.built.store(Some(Arc::new(built)));
        // The index replaces the listing; its memory is released.
        self.names.store(None);
    }

    fn search_names(&self, snapshot: &Arc<Snapshot>, ask: &SkillQuery<'_>) -> RankedSkills {
        let generation = snapshot.generation();
        // The listing is indexed once per snapshot.
        let held = self.names.load_full().filter(|held| held.0 == generation);
        let held = held.unwrap_or_else(|| {
            let held = Arc::new((generation, snapshot_index::build_name_index(snapshot)));
            self.names.store(Some(Arc::clone(&held)));
            held
        });
        rank_skills(&held.1, snapshot, ask, RankingSource::Names)
    }
}

fn ids(skills: &[Arc<Skill>]) -> HashSet<&str> {
    skills.iter().map(|skill| skill.id().as_str()).collect()
}
