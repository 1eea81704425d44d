//! The catalog that routing is tested in.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use skill_catalog::{
    AgentScope, CatalogScope, Skill, SkillRoot, Snapshot, Store, StoreError, StoreOptions,
    SystemClock, TrustLevel,
};
use skill_format::SkillId;
use skill_search::Ranker;
use skill_service::{BlockRequest, CatalogBlocks, SkillQuery, SkillSearcher};
use skillhost_files::RunDirectory;

use crate::distractor_files::{DISTRACTORS, DistractorFiles};

/// The matches of a query that are compared, as in a turn.
const MATCHES: usize = 100;

/// The label of the root with the candidates, and the name of its directory.
const CANDIDATES: &str = "test-candidates";

/// The catalog of a test.
#[derive(Clone, Debug)]
pub struct RoutingSetup {
    /// The options of the home's catalog; without roots, only the candidates are tested.
    pub options: StoreOptions,
    /// The texts that replace installed skills, or are added to them.
    pub candidates: Vec<CandidateSkill>,
    /// Whether the distractors are added.
    pub with_distractors: bool,
}

/// The text of a skill that is tested before it is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateSkill {
    /// The id.
    pub id: SkillId,
    /// The bytes of its SKILL.md.
    pub bytes: Vec<u8>,
}

/// The part of the catalog that an agent sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentView {
    /// Globs over the ids that it sees.
    pub include: Vec<String>,
    /// Globs over the ids that it does not see.
    pub exclude: Vec<String>,
    /// The ids that are bound into its instructions.
    pub bound: Vec<String>,
}

impl Default for AgentView {
    fn default() -> Self {
        Self { include: vec!["*".to_owned()], exclude: Vec::new(), bound: Vec::new() }
    }
}

/// An error that prevents a test.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// The files of the test could not be written.
    #[error("the files of the test cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The options of the catalog contradict each other.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The answer of the catalog to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedQuery {
    /// The ids of the matches, the best first.
    pub ranked: Vec<String>,
    /// The matches with a word of the query in name, description or tags.
    pub matched_by_text: HashSet<String>,
    /// The ids with a line in the block.
    pub listed: HashSet<String>,
    /// The ids with a description in the block.
    pub described: HashSet<String>,
    /// The length of the block in characters.
    pub block_chars: usize,
}

/// A catalog with candidates in place of installed skills, and distractors.
pub struct RoutingHarness {
    store: Store,
    snapshot: Arc<Snapshot>,
    searcher: SkillSearcher,
    ranker: Ranker,
    blocks: CatalogBlocks,
    distractors: Option<Arc<DistractorFiles>>,
    /// The directories of candidates, removed with the last harness that uses them.
    directories: Vec<Arc<RunDirectory>>,
}

impl Default for RoutingSetup {
    fn default() -> Self {
        let options = StoreOptions::default();
        Self { options, candidates: Vec::new(), with_distractors: true }
    }
}

impl RoutingHarness {
    /// Opens the catalog and builds its index. Blocks.
    ///
    /// # Errors
    /// Fails if the temporary directory cannot be written, and on contradictory options.
    pub fn open(setup: RoutingSetup) -> Result<Self, HarnessError> {
        let directory = Arc::new(RunDirectory::create()?);
        let RoutingSetup { mut options, candidates, with_distractors } = setup;
        for candidate in &candidates {
            write_candidate(&directory, candidate)?;
        }
        // The first root wins: a candidate replaces the installed copy.
        options.roots.insert(0, added_root(directory.path().join(CANDIDATES), CANDIDATES));
        let distractors = with_distractors.then(DistractorFiles::open_shared).transpose()?;
        if let Some(files) = &distractors {
            // The last root loses: a skill of the home with the id of a distractor replaces it.
            options.roots.push(added_root(files.path(), DISTRACTORS));
        }
        Self::index(options, distractors, vec![directory])
    }

    /// Opens the same catalog with another candidate in place of its skill; the distractors are not
    /// written again. Blocks.
    ///
    /// # Errors
    /// Fails as [`RoutingHarness::open`] does.
    pub fn with_candidate(&self, candidate: &CandidateSkill) -> Result<Self, HarnessError> {
        let directory = Arc::new(RunDirectory::create()?);
        write_candidate(&directory, candidate)?;
        let mut options = self.store.options().clone();
        options.roots.retain(|root| root.label != CANDIDATES);
        options.roots.insert(0, added_root(directory.path().join(CANDIDATES), CANDIDATES));
        let mut directories = self.directories.clone();
        directories.push(directory);
        Self::index(options, self.distractors.clone(), directories)
    }

    fn index(
        options: StoreOptions,
        distractors: Option<Arc<DistractorFiles>>,
        directories: Vec<Arc<RunDirectory>>,
    ) -> Result<Self, HarnessError> {
        let blocks = CatalogBlocks::new(options.l1_full_limit);
        let store = Store::open(options, Arc::new(SystemClock))?;
        let snapshot = store.snapshot();
        // Without the database of the home: its rows may belong to other texts.
        let searcher = SkillSearcher::new();
        searcher.build_index(&store, &snapshot);
        let ranker = Ranker::standard();
        Ok(Self { store, snapshot, searcher, ranker, blocks, distractors, directories })
    }

    /// Returns the catalog.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Returns the files of the distractors.
    pub(crate) fn distractors(&self) -> Option<Arc<DistractorFiles>> {
        self.distractors.clone()
    }

    /// Returns the number of distractors.
    #[must_use]
    pub fn distractor_count(&self) -> usize {
        self.distractors.as_ref().map_or(0, |files| files.count())
    }

    /// Returns whether a skill is a distractor.
    #[must_use]
    pub fn is_distractor(&self, skill: &Skill) -> bool {
        skill.source() == DISTRACTORS
    }

    /// Ranks the skills that an agent sees for a query, and composes the block of its first turn.
    #[must_use]
    pub fn route(&self, view: &AgentView, query: &str) -> RoutedQuery {
        // The usual view is compiled once and shared by all queries.
        let sees_all = view.exclude.is_empty() && view.include.iter().any(|glob| glob == "*");
        // Distractors compete with the skills of every agent.
        let include: Vec<String> = match sees_all {
            true => Vec::new(),
            false => {
                let added = self.distractors.iter().flat_map(|files| files.ids());
                view.include.iter().chain(added).cloned().collect()
            }
        };
        let catalog = match sees_all {
            true => CatalogScope::All,
            false => CatalogScope::Globs { include: &include, exclude: &view.exclude },
        };
        let turn = BlockRequest {
            scope: AgentScope { catalog, bound: &view.bound, hidden: &[] },
            session_id: "",
            agent_id: "",
            prompt: query,
            budget_chars: self.store.options().l1_budget_chars,
        };
        let block = self.blocks.first_block(&self.snapshot, &turn, &|admits| {
            let ask = SkillQuery {
                query,
                limit: MATCHES,
                tags: &[],
                admits,
                ranker: &self.ranker,
                semantics: None,
            };
            self.searcher.search(&self.store, &self.snapshot, &ask)
        });
        let hits = &block.found.hits;
        let is_text = |field: &&str| matches!(*field, "name" | "description" | "tags");
        let by_text = hits.iter().filter(|hit| hit.fields.iter().any(is_text));
        RoutedQuery {
            ranked: hits.iter().map(|hit| hit.skill.id().to_string()).collect(),
            matched_by_text: by_text.map(|hit| hit.skill.id().to_string()).collect(),
            described: block.described_ids().into_iter().map(str::to_owned).collect(),
            block_chars: block.report.map_or(0, |report| report.chars),
            listed: block.ids.into_iter().collect(),
        }
    }
}

fn write_candidate(directory: &RunDirectory, candidate: &CandidateSkill) -> io::Result<()> {
    let place = directory.path().join(CANDIDATES).join(candidate.id.as_str());
    fs::create_dir_all(&place)?;
    fs::write(place.join("SKILL.md"), &candidate.bytes)
}

fn added_root(path: PathBuf, label: &str) -> SkillRoot {
    SkillRoot { label: label.to_owned(), path, trust: TrustLevel::Operator }
}

/// Returns the digest of the skills that compete with one: SHA-256 of their ids, descriptions and
/// texts, in hexadecimal digits.
#[must_use]
pub fn digest_catalog(snapshot: &Snapshot, changed: &str) -> String {
    let mut hasher = Sha256::new();
    for skill in snapshot.skills().iter().filter(|skill| skill.id().as_str() != changed) {
        hasher.update(skill.id().as_str().as_bytes());
        hasher.update([0]);
        // By its text, as a skill that is only touched competes as before.
        hasher.update(skill.description().as_bytes());
        hasher.update([0]);
        hasher.update(skill.digest().map(|digest| digest.to_string()).unwrap_or_default());
    }
    skillhost_files::to_hex(&hasher.finalize())
}
