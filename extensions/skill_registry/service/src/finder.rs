//! The search of a running registry: for a prompt, for a query, and for explanations.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use skill_catalog::{Audience, HiddenSkill, Skill, Snapshot, Store};
use skill_ledger::{Ledger, LedgerError, OfferLog, SkillAccess};
use skill_search::{EmbeddingSimilarity, Ranker};
use skillhost_payload::CallContext;

use crate::block::{BlockRequest, CatalogBlocks, explain_catalog};
use crate::caller::scope_of;
use crate::config::{RegistryConfig, SearchEmbeddings};
use crate::search::{EmbeddingVectors, RankedSkills, SimilarityScores, SkillQuery, SkillSearcher};
use crate::tools::{ListSkillsArgs, SearchContext, ToolAnswer, search_skills};

/// So many matches of a prompt are looked at.
const MATCHES: usize = 100;

/// The time that a query waits for the first index.
const INDEX_WAIT: Duration = Duration::from_secs(1);

/// A finder for the skills of a store; builds the index in the background at the first use.
#[derive(Debug)]
pub struct SkillFinder {
    store: Arc<Store>,
    searcher: SkillSearcher,
    ranker: Ranker,
    blocks: CatalogBlocks,
    /// The vectors of an embedding model.
    pub vectors: EmbeddingVectors,
    config: RegistryConfig,
}

impl SkillFinder {
    /// Creates a finder that persists its data in a ledger's database; reads and opens no file.
    #[must_use]
    pub fn new(config: RegistryConfig, store: &Arc<Store>, ledger: &Ledger) -> Self {
        Self {
            store: Arc::clone(store),
            searcher: SkillSearcher::with_catalog(ledger),
            ranker: Ranker::standard(),
            blocks: CatalogBlocks::new(config.l1_full_limit),
            vectors: EmbeddingVectors::new(ledger),
            config,
        }
    }

    /// Returns the settings.
    #[must_use]
    pub fn config(&self) -> &RegistryConfig {
        &self.config
    }

    /// Returns the counts of the blocks that turns were offered.
    #[must_use]
    pub fn offers(&self) -> Arc<OfferLog> {
        Arc::clone(self.blocks.offers())
    }

    /// Returns whether the settings enable an embedding model.
    #[must_use]
    pub fn uses_embeddings(&self) -> bool {
        self.config.search_embeddings == SearchEmbeddings::Auto
    }

    /// Builds the request for the catalog block of a turn whose agent is not offered some skills.
    #[must_use]
    pub fn block_request<'a>(
        &self,
        context: &'a CallContext,
        prompt: &'a str,
        hidden: &'a [HiddenSkill],
    ) -> BlockRequest<'a> {
        let budget_chars = self.config.budget_chars(context.context_window);
        let (session_id, agent_id) = (&*context.session_id, &*context.agent_id);
        let scope = scope_of(context, hidden);
        BlockRequest { scope, session_id, agent_id, prompt, budget_chars }
    }

    /// Returns the block of a turn where it is at hand, without waiting; see [`CatalogBlocks::cached_block`].
    #[must_use]
    pub fn cached_block(&self, turn: &BlockRequest<'_>) -> Option<Option<Arc<str>>> {
        self.blocks.cached_block(&self.store.snapshot(), turn)
    }

    /// Returns the block of a turn, or `None` if its agent sees no skills.
    #[must_use]
    pub fn block(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        turn: &BlockRequest<'_>,
        near: Option<&SimilarityScores>,
    ) -> Option<Arc<str>> {
        self.blocks
            .render_block(snapshot, turn, &|admits| self.matches(snapshot, turn, near, admits))
    }

    /// Explains the content of a turn's block.
    #[must_use]
    pub fn explain(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        turn: &BlockRequest<'_>,
        near: Option<&SimilarityScores>,
    ) -> ToolAnswer {
        explain_catalog(&self.blocks, snapshot, turn, &|admits| {
            self.matches(snapshot, turn, near, admits)
        })
    }

    /// Records that a session received content of a skill.
    pub fn record_read(&self, session_id: &str, agent_id: &str, read: &SkillAccess) {
        // Another file of a skill does not replace its line in the block.
        if read.path.is_none() {
            self.blocks.record_read(session_id, agent_id, &read.skill_id);
        }
    }

    /// Answers `list_skills`.
    #[must_use]
    pub fn list(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        audience: Audience<'_>,
        args: &ListSkillsArgs,
        near: Option<&SimilarityScores>,
    ) -> ToolAnswer {
        if args.query.as_ref().is_some_and(|query| !query.trim().is_empty()) {
            self.start_index(snapshot);
        }
        let Self { store, searcher, ranker, .. } = &**self;
        let semantics = near.map(|near| near as &dyn EmbeddingSimilarity);
        let search = SearchContext { store, snapshot, searcher, ranker, semantics };
        search_skills(&search, audience, args)
    }

    /// Returns the state of the registry for an operator: the problems and their hints. `ledger` is
    /// the error of the ledger.
    #[must_use]
    pub fn warning(&self, ledger: Option<LedgerError>) -> Option<(String, String)> {
        // Only one is reported; what makes results wrong comes before what makes them worse.
        let snapshot = self.store.snapshot();
        let status = |message: String, hint: &str| Some((message, hint.to_owned()));
        if let Some(partial) = snapshot.partial() {
            let message = format!("the list of skills is not complete: {partial}");
            let hint = "skills found earlier are kept until the directories can be read again";
            return status(message, hint);
        }
        if let Some(error) = ledger {
            return status(
                format!("the ledger cannot be used: {error}"),
                &error.hint().to_string(),
            );
        }
        if let Some(reason) = self.vectors.unavailable_reason() {
            let message = format!("skills are searched by their words alone: {reason}");
            let hint =
                "look at the extension `embedding`; `search_embeddings: off` does without it";
            return status(message, hint);
        }
        let unmatched = snapshot.unmatched_settings();
        let all = unmatched.iter().map(ToString::to_string).reduce(|all, one| all + "; " + &one)?;
        status(all, "correct extensions.skill_registry.skills in skillhost.yaml")
    }

    /// Updates the index to a snapshot if there are so many skills that every turn needs a search;
    /// returns whether there are.
    ///
    /// A database error only affects the next start; the ledger reports it.
    pub fn ensure_index(&self, snapshot: &Arc<Snapshot>) -> bool {
        let many = snapshot.skills().len() > self.config.l1_full_limit;
        if many {
            self.searcher.build_index(&self.store, snapshot);
            // After the index, which answers queries in the meantime.
            let _kept = self.searcher.sync_catalog(&self.store, snapshot);
        }
        many
    }

    fn matches(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        turn: &BlockRequest<'_>,
        near: Option<&SimilarityScores>,
        admits: &dyn Fn(&Skill) -> bool,
    ) -> RankedSkills {
        self.start_index(snapshot);
        let semantics = near.map(|near| near as &dyn EmbeddingSimilarity);
        let (query, ranker) = (turn.prompt, &self.ranker);
        let ask = SkillQuery { query, limit: MATCHES, tags: &[], admits, ranker, semantics };
        self.searcher.search(&self.store, snapshot, &ask)
    }

    /// Starts building the first index and waits for it for a moment; afterwards the query uses the
    /// available data.
    fn start_index(self: &Arc<Self>, snapshot: &Arc<Snapshot>) {
        if self.searcher.generation().is_some() {
            return;
        }
        let (finder, wanted) = (Arc::clone(self), Arc::clone(snapshot));
        let made = thread::Builder::new().name("skill-index".to_owned());
        let made = made.spawn(move || finder.searcher.build_index(&finder.store, &wanted));
        if made.is_ok() {
            let _is_there = self.searcher.wait_for_index(snapshot, INDEX_WAIT);
        }
    }
}
