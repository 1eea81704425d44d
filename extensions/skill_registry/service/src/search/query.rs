//! Queries for skills and their results.

use std::sync::Arc;

use skill_catalog::{Skill, Snapshot};
use skill_search::{EmbeddingSimilarity, Index, Ranker, SearchRequest};

/// A query for skills.
#[derive(Clone, Copy)]
pub struct SkillQuery<'a> {
    /// The query, as free text.
    pub query: &'a str,
    /// The limit on the number of hits.
    pub limit: usize,
    /// Only skills that have all of these tags, in any case.
    pub tags: &'a [String],
    /// Only skills that this predicate admits.
    pub admits: &'a dyn Fn(&Skill) -> bool,
    /// The ranker of the hits.
    pub ranker: &'a Ranker,
    /// The similarity of skills to the query, if an embedding model is available.
    pub semantics: Option<&'a dyn EmbeddingSimilarity>,
}

/// The hits of a query, the best first.
#[derive(Clone, Debug)]
pub struct RankedSkills {
    /// The skills.
    pub hits: Vec<RankedSkill>,
    /// The number of hits without the limit; a ranker compares about a hundred at most.
    pub matched: usize,
    /// The source of the hits.
    pub by: RankingSource,
}

/// A skill that was found.
#[derive(Clone, Debug)]
pub struct RankedSkill {
    /// The skill as the snapshot has it.
    pub skill: Arc<Skill>,
    /// The score; comparable only within one result.
    pub score: f64,
    /// The fields in which words of the query occur.
    pub fields: Vec<&'static str>,
}

/// The source that ranked a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingSource {
    /// The index of every text.
    Index {
        /// The generation of the snapshot it was last renewed for.
        generation: u64,
        /// `true` if that is the snapshot of the query.
        current: bool,
    },
    /// The catalog in the database: the index is not built yet.
    Catalog,
    /// Names, descriptions and tags: the index is not built yet and the database has no catalog.
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

    /// Returns the limits of a result that does not come from the index, or `None` for one that
    /// does.
    #[must_use]
    pub const fn quality_warning(self) -> Option<&'static str> {
        match self {
            Self::Index { .. } => None,
            Self::Catalog => Some("the index is being built: ask again for a better order"),
            Self::Names => {
                Some("the index is being built: only names, descriptions and tags were searched")
            }
        }
    }
}

/// Ranks the skills of a snapshot by an index.
pub(super) fn rank_skills(
    index: &Index,
    snapshot: &Snapshot,
    ask: &SkillQuery<'_>,
    by: RankingSource,
) -> RankedSkills {
    let found = index.search(&SearchRequest {
        query: ask.query,
        ranker: ask.ranker,
        // The limit applies after the filter, and `matched` counts all hits.
        limit: usize::MAX,
        admits: &|id| find_admitted(snapshot, ask, id).is_some(),
        semantics: ask.semantics,
    });
    let hits = found.iter().take(ask.limit).filter_map(|hit| {
        // The index may hold a skill that the snapshot no longer has.
        let skill = Arc::clone(snapshot.find_primary(&hit.id)?);
        Some(RankedSkill { skill, score: hit.score, fields: hit.fields.names() })
    });
    RankedSkills { hits: hits.collect(), matched: found.len(), by }
}

/// Looks up a skill that a result may name.
pub(super) fn find_admitted<'s>(
    snapshot: &'s Snapshot,
    ask: &SkillQuery<'_>,
    id: &str,
) -> Option<&'s Arc<Skill>> {
    let skill = snapshot.find_primary(id)?;
    ((ask.admits)(skill) && skill.has_tags(ask.tags)).then_some(skill)
}
