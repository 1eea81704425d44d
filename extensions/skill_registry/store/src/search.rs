//! Finds the skills that fit a request.
//!
//! A [`SkillSearcher`] keeps an index of every text, made when somebody first asks and renewed by what
//! changed. Whoever asks while it is renewed is answered from the index before; whoever asks before
//! there is one, from the catalog that the database keeps across starts, else from what a listing
//! says. What is gone from the snapshot is in no answer.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use skill_search::{EmbeddingSimilarity, Index, Ranker, RankingExplanation, SearchRequest};

use crate::ledger::{Ledger, LedgerError};
use crate::skill::Skill;
use crate::snapshot::Snapshot;
use crate::store::Store;

use self::built::SnapshotIndex;
use self::filter::QueryFilters;
use self::turn::RenewalLock;

pub use self::meaning::{EmbeddingBatch, EmbeddingVectors, MissingVectors, SimilarityScores};

mod built;
mod catalog;
mod filter;
mod meaning;
mod text;
mod turn;

/// Up to so many texts are read and indexed while somebody waits for an answer; more are somebody
/// else's work, see [`SkillSearcher::build_index`].
const AT_ONCE: usize = 64;

/// How long an answer waits for others to let go of the database.
const DATABASE_WAIT: Duration = Duration::from_millis(200);

/// Somebody's request.
#[derive(Clone, Copy)]
pub struct SkillQuery<'a> {
    /// What is wanted, in anybody's words.
    pub query: &'a str,
    /// At most this many skills are answered.
    pub limit: usize,
    /// Only skills that have all of these tags, whatever the case.
    pub tags: &'a [String],
    /// Only skills of which this is true.
    pub admits: &'a dyn Fn(&Skill) -> bool,
    /// What makes a skill fit.
    pub ranker: &'a Ranker,
    /// How near the skills are to the query, where an embedding model is at hand.
    pub semantics: Option<&'a dyn EmbeddingSimilarity>,
}

/// What an index answers, the best first.
#[derive(Clone, Debug)]
pub struct RankedSkills {
    /// The skills.
    pub hits: Vec<RankedSkill>,
    /// How many there are without the limit; a ranker compares a hundred or so at most.
    pub matched: usize,
    /// What they were found in.
    pub by: RankingSource,
}

/// A skill that was found.
#[derive(Clone, Debug)]
pub struct RankedSkill {
    /// The skill as the snapshot has it.
    pub skill: Arc<Skill>,
    /// How well it fits; comparable only within one answer.
    pub score: f64,
    /// The fields in which words of the query occur.
    pub fields: Vec<&'static str>,
}

/// Tells what an answer was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingSource {
    /// The index of every text.
    Index {
        /// The generation of the snapshot it was last renewed for.
        generation: u64,
        /// Whether that is the snapshot that was asked about.
        current: bool,
    },
    /// The catalog in the database: there is no index yet.
    Catalog,
    /// Names, descriptions and tags: there is no index yet and nothing in the database.
    Names,
}

impl RankingSource {
    /// Returns its name in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Index { .. } => "index",
            Self::Catalog => "catalog",
            Self::Names => "names",
        }
    }

    /// Says what an answer lacks that was not found in the index; nothing for one that was.
    #[must_use]
    pub const fn quality_warning(self) -> Option<&'static str> {
        match self {
            Self::Index { .. } => None,
            Self::Catalog => Some("the index is being made: ask again for a better order"),
            Self::Names => {
                Some("the index is being made: only names, descriptions and tags were searched")
            }
        }
    }
}

/// What [`SkillSearcher::search_filtered`] answers.
#[derive(Clone, Debug)]
pub struct SkillSearchResult {
    /// The skills.
    pub ranked: RankedSkills,
    /// The phrases and beginnings of words that the query asks for and no skill has; then they
    /// are left out of account.
    pub unmet: Vec<String>,
}

/// Finds the skills of one store that fit a request.
///
/// Cheap until somebody asks. Asking takes no lock that a renewal holds.
pub struct SkillSearcher {
    built: ArcSwapOption<SnapshotIndex>,
    /// An index of what a listing says, for those who cannot wait.
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
    /// Makes a searcher without an index.
    #[must_use]
    pub fn new() -> Self {
        Self {
            built: ArcSwapOption::empty(),
            names: ArcSwapOption::empty(),
            turn: RenewalLock::default(),
            ledger: None,
        }
    }

    /// Makes a searcher that also has the catalog in a ledger's database, see
    /// [`SkillSearcher::sync_catalog`]; opens nothing.
    #[must_use]
    pub fn with_catalog(ledger: &Ledger) -> Self {
        Self { ledger: Some(ledger.with_wait(DATABASE_WAIT)), ..Self::new() }
    }

    /// Returns the generation of the snapshot that the index was last renewed for.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        self.built.load().as_ref().map(|built| built.generation)
    }

    /// Returns the bytes that the index takes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.built.load().as_ref().map_or(0, |built| built.heap_bytes())
    }

    /// Ranks the skills of a snapshot by how well they fit. The query is plain text, whatever is in
    /// it.
    ///
    /// Reads and indexes what is new if that is little; else answers from what there is.
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
        if let Some(ranked) = self.search_catalog(snapshot, ask) {
            return ranked;
        }
        self.search_names(snapshot, ask)
    }

    /// Ranks as [`SkillSearcher::search`] does, among the skills that have the phrases (`"…"`) and the
    /// beginnings of words (`word*`) that the query asks for.
    ///
    /// If there are no such skills, that is said, and the words alone count.
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
        // A ranker knows whole words only.
        let query = filters.expand_prefixes(ask.query, &holders);
        let inner = SkillQuery { query: &query, admits: &among, limit: usize::MAX, ..*ask };
        let mut ranked = self.search(store, snapshot, &inner);
        ranked.matched = holders.len();
        // What has the phrase has it, whatever the ranker makes of its words.
        let scored: HashSet<&str> = ranked.hits.iter().map(|hit| hit.skill.id().as_str()).collect();
        let rest: Vec<Arc<Skill>> = holders
            .iter()
            .filter(|skill| !scored.contains(skill.id().as_str()))
            .take(ask.limit.saturating_sub(ranked.hits.len()))
            .cloned()
            .collect();
        ranked.hits.truncate(ask.limit);
        ranked.hits.extend(rest.into_iter().map(|skill| {
            let fields = filters.fields(&text::SearchableText::read(store, &skill, usize::MAX));
            RankedSkill { skill, score: 0.0, fields }
        }));
        SkillSearchResult { ranked, unmet: Vec::new() }
    }

    /// Says how the skills that [`SkillSearcher::search_filtered`] ranks come by their score; nothing while there is
    /// no index.
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

    /// Finds what the query insists on, if it does, and the skills that have it.
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

    /// Makes the index, or renews it, for a snapshot, on this thread. Does nothing if it is that far
    /// already; if somebody else is at it, waits and does what is left.
    pub fn build_index(&self, store: &Store, snapshot: &Arc<Snapshot>) {
        if !self.is_for(snapshot) {
            let _mine = self.turn.acquire();
            self.rebuild_index(store, snapshot);
        }
    }

    /// Waits until the index is as new as a snapshot, while somebody else renews it; tells whether
    /// it is.
    #[must_use]
    pub fn wait_for_index(&self, snapshot: &Snapshot, limit: Duration) -> bool {
        self.turn.wait_until(limit, || self.is_for(snapshot))
    }

    /// Brings the catalog in the database up to a snapshot; returns how many rows were renewed.
    ///
    /// # Errors
    /// Those of the disk and the database; what was renewed before stays renewed.
    pub fn sync_catalog(&self, store: &Store, snapshot: &Snapshot) -> Result<usize, LedgerError> {
        match &self.ledger {
            Some(ledger) => catalog::sync_rows(ledger, store, snapshot),
            None => Ok(0),
        }
    }

    fn is_for(&self, snapshot: &Snapshot) -> bool {
        self.generation().is_some_and(|generation| generation >= snapshot.generation())
    }

    /// Returns an index to answer from; renewed, if that is little work and nobody is at it.
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
        let Some(_mine) = self.turn.try_acquire() else { return built };
        self.rebuild_index(store, snapshot);
        self.built.load_full()
    }

    /// Renews the index; the turn is the caller's.
    fn rebuild_index(&self, store: &Store, snapshot: &Arc<Snapshot>) {
        let before = self.built.load_full();
        if self.is_for(snapshot) {
            return;
        }
        let built = match &before {
            Some(before) => before.updated(store, snapshot),
            None => SnapshotIndex::new(store, snapshot),
        };
        self.built.store(Some(Arc::new(built)));
        self.names.store(None);
    }

    fn search_names(&self, snapshot: &Arc<Snapshot>, ask: &SkillQuery<'_>) -> RankedSkills {
        let generation = snapshot.generation();
        let held = self.names.load_full().filter(|held| held.0 == generation);
        let held = held.unwrap_or_else(|| {
            let held = Arc::new((generation, built::build_name_index(snapshot)));
            self.names.store(Some(Arc::clone(&held)));
            held
        });
        rank_skills(&held.1, snapshot, ask, RankingSource::Names)
    }
}

fn ids(skills: &[Arc<Skill>]) -> HashSet<&str> {
    skills.iter().map(|skill| skill.id().as_str()).collect()
}

/// Asks an index for skills of a snapshot.
fn rank_skills(
    index: &Index,
    snapshot: &Snapshot,
    ask: &SkillQuery<'_>,
    by: RankingSource,
) -> RankedSkills {
    let found = index.search(&SearchRequest {
        query: ask.query,
        ranker: ask.ranker,
        limit: usize::MAX,
        admits: &|id| find_admitted(snapshot, ask, id).is_some(),
        semantics: ask.semantics,
    });
    let hits = found.iter().take(ask.limit).filter_map(|hit| {
        let skill = Arc::clone(snapshot.find_primary(&hit.id)?);
        Some(RankedSkill { skill, score: hit.score, fields: hit.fields.names() })
    });
    RankedSkills { hits: hits.collect(), matched: found.len(), by }
}

/// Looks up a skill that an answer may name.
fn find_admitted<'s>(
    snapshot: &'s Snapshot,
    ask: &SkillQuery<'_>,
    id: &str,
) -> Option<&'s Arc<Skill>> {
    let skill = snapshot.find_primary(id)?;
    ((ask.admits)(skill) && skill.has_tags(ask.tags)).then_some(skill)
}
