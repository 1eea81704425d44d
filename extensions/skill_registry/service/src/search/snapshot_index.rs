//! An index with the versions of the texts it was built from.

use std::sync::Arc;

use skill_catalog::{Skill, Snapshot, Store};
use skill_format::Digest;
use skill_search::{Document, Index, RankingExplanation, SearchRequest, TextAnalyzer};

use super::query::{RankedSkills, RankingSource, SkillQuery, find_admitted, rank_skills};
use super::text::{SearchableText, display_name};

/// So many characters of a body are indexed: no ranker looks further.
const BODY_CHARS: usize = 12_000;

/// The limit on the hits of an explanation.
const MOST_EXPLAINED: usize = 100;

/// An index of every text of a snapshot.
pub(super) struct SnapshotIndex {
    /// The generation of the snapshot.
    pub(super) generation: u64,
    index: Index,
    /// The indexed skills, sorted by id.
    entries: Vec<IndexedSkill>,
}

/// A skill that is indexed.
#[derive(Clone)]
struct IndexedSkill {
    skill: Arc<Skill>,
    /// The digest of the indexed text; `None` if the text was not available.
    digest: Option<Digest>,
}

impl IndexedSkill {
    /// Returns whether the indexed text is the current one of a skill.
    fn is_current(&self, skill: &Arc<Skill>) -> bool {
        match (self.digest, skill.digest()) {
            // Equal texts have equal fields, in any directory.
            (Some(indexed), Some(now)) => indexed == now,
            // A skill without a digest is identified by its address in memory.
            _ => Arc::ptr_eq(&self.skill, skill),
        }
    }
}

/// The differences between a snapshot and the index.
pub(super) struct IndexChanges<'s> {
    /// The skills to index.
    pub(super) put: Vec<&'s Arc<Skill>>,
    /// The ids that are gone.
    removed: Vec<&'s str>,
}

impl SnapshotIndex {
    pub(super) fn new(store: &Store, snapshot: &Snapshot) -> Self {
        let nothing = Self {
            generation: 0,
            index: Index::build(TextAnalyzer::Standard, []),
            entries: Vec::new(),
        };
        nothing.updated(store, snapshot)
    }

    /// Compares the index with a snapshot.
    pub(super) fn changes<'s>(&'s self, snapshot: &'s Snapshot) -> IndexChanges<'s> {
        let mut changes = IndexChanges { put: Vec::new(), removed: Vec::new() };
        // Both lists are sorted by id, so one pass finds every difference.
        let mut entries = self.entries.iter().peekable();
        for skill in snapshot.skills() {
            while let Some(gone) = entries.next_if(|entry| entry.skill.id() < skill.id()) {
                changes.removed.push(gone.skill.id().as_str());
            }
            match entries.next_if(|entry| entry.skill.id() == skill.id()) {
                Some(entry) if entry.is_current(skill) => {}
                _ => changes.put.push(skill),
            }
        }
        changes.removed.extend(entries.map(|entry| entry.skill.id().as_str()));
        changes
    }

    /// Builds the index of a snapshot from this one by reading the changes.
    pub(super) fn updated(&self, store: &Store, snapshot: &Snapshot) -> Self {
        let changes = self.changes(snapshot);
        let texts: Vec<SearchableText> = changes
            .put
            .iter()
            .map(|skill| SearchableText::read(store, skill, BODY_CHARS))
            .collect();
        let documents = texts.iter().map(SearchableText::document);
        // If every text is new, a build is cheaper than an update of the old index.
        let index = if texts.len() == snapshot.skills().len() {
            Index::build(TextAnalyzer::Standard, documents)
        } else {
            self.index.with_updates(documents, &changes.removed)
        };
        let mut read = texts.iter().peekable();
        let mut before = self.entries.iter().peekable();
        let entries = snapshot.skills().iter().map(|skill| {
            while before.next_if(|entry| entry.skill.id() < skill.id()).is_some() {}
            let entry = before.next_if(|entry| entry.skill.id() == skill.id());
            let digest = match read.next_if(|text| text.skill.id() == skill.id()) {
                Some(text) => text.digest,
                None => entry.and_then(|entry| entry.digest),
                // An unchanged skill keeps the digest of the text that was indexed, not that of its
                // file.
            };
            IndexedSkill { skill: Arc::clone(skill), digest }
        });
        Self { generation: snapshot.generation(), entries: entries.collect(), index }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes() + self.entries.capacity() * size_of::<IndexedSkill>()
    }

    pub(super) fn search(&self, snapshot: &Snapshot, ask: &SkillQuery<'_>) -> RankedSkills {
        let generation = self.generation;
        let current = generation == snapshot.generation();
        rank_skills(&self.index, snapshot, ask, RankingSource::Index { generation, current })
    }

    pub(super) fn explain(&self, snapshot: &Snapshot, ask: &SkillQuery<'_>) -> RankingExplanation {
        let request = SearchRequest {
            query: ask.query,
            ranker: ask.ranker,
            limit: ask.limit,
            admits: &|id| find_admitted(snapshot, ask, id).is_some(),
            semantics: ask.semantics,
        };
        // An explanation is for people; more hits would only make it long.
        self.index.explain(&request, ask.limit.min(MOST_EXPLAINED))
    }
}

/// Builds an index from the frontmatter of the skills; reads no file.
pub(super) fn build_name_index(snapshot: &Snapshot) -> Index {
    let names: Vec<String> = snapshot.skills().iter().map(|skill| display_name(skill)).collect();
    let documents = snapshot.skills().iter().zip(&names).map(|(skill, name)| Document {
        id: skill.id().as_str(),
        name,
        description: skill.description(),
        when_to_use: skill.when_to_use().unwrap_or_default(),
        tags: skill.tags().iter().map(|tag| &**tag).collect(),
        ..Document::default()
    });
    Index::build(TextAnalyzer::Standard, documents)
}
