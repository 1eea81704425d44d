//! The catalog block of each turn: whose it is, and where its matches come from.

use std::sync::Arc;
use std::time::Duration;

use skill_store::{
    Answer, Ask, Blocks, CatalogScope, Ranked, Ranker, RegistryConfig, Scope, Searcher, Skill,
    Snapshot, Store, Turn, explain_catalog,
};
use skillhost_sdk::prelude::*;
use skillhost_sdk::{CatalogScope as Catalog, tokio};

use crate::blocking;

/// So many matches of a prompt are looked at.
const MATCHES: usize = 100;

/// How long a turn waits for the first index; the kernel waits twice as long for the block.
const INDEX_WAIT: Duration = Duration::from_secs(1);

/// Makes the blocks.
pub(crate) struct Prompter {
    pub(crate) blocks: Blocks,
    config: RegistryConfig,
    store: Arc<Store>,
    searcher: Arc<Searcher>,
    ranker: Ranker,
}

impl Prompter {
    pub(crate) fn new(config: RegistryConfig, store: Arc<Store>) -> Self {
        let (searcher, ranker) = (Arc::new(Searcher::new()), Ranker::standard());
        Self { blocks: Blocks::new(config.l1_full_limit), config, store, searcher, ranker }
    }

    /// Returns the block where it is at hand.
    pub(crate) fn ready(&self, cx: &CallContext, prompt: &str) -> Option<Option<Arc<str>>> {
        self.blocks.ready(&self.store.snapshot(), &self.turn(cx, prompt))
    }

    pub(crate) fn block(&self, cx: &CallContext, prompt: &str) -> Option<Arc<str>> {
        let (snapshot, turn) = (self.store.snapshot(), self.turn(cx, prompt));
        let search = |admits: &dyn Fn(&Skill) -> bool| self.search(&snapshot, prompt, admits);
        blocking(|| self.blocks.block(&snapshot, &turn, &search))
    }

    pub(crate) fn explain(&self, cx: &CallContext, prompt: &str) -> Answer {
        let (snapshot, turn) = (self.store.snapshot(), self.turn(cx, prompt));
        let search = |admits: &dyn Fn(&Skill) -> bool| self.search(&snapshot, prompt, admits);
        explain_catalog(&self.blocks, &snapshot, &turn, &search)
    }

    fn search(
        &self,
        snapshot: &Arc<Snapshot>,
        prompt: &str,
        admits: &dyn Fn(&Skill) -> bool,
    ) -> Ranked {
        if self.searcher.generation().is_none() {
            let (searcher, store) = (Arc::clone(&self.searcher), Arc::clone(&self.store));
            let wanted = Arc::clone(snapshot);
            tokio::task::spawn_blocking(move || searcher.prepare(&store, &wanted));
            // What is there after that has to do.
            let _ready = self.searcher.wait(snapshot, INDEX_WAIT);
        }
        let (ranker, semantics) = (&self.ranker, None);
        let ask = Ask { query: prompt, limit: MATCHES, tags: &[], admits, ranker, semantics };
        self.searcher.search(&self.store, snapshot, &ask)
    }

    fn turn<'a>(&self, cx: &'a CallContext, prompt: &'a str) -> Turn<'a> {
        Turn {
            scope: scope(cx),
            session_id: &cx.session_id,
            agent_id: &cx.agent_id,
            prompt,
            budget_chars: self.config.budget_chars(cx.context_window),
        }
    }
}

/// What a call's agent has, as the kernel says.
pub(crate) fn scope(cx: &CallContext) -> Scope<'_> {
    let catalog = match &cx.catalog {
        Catalog::All => CatalogScope::All,
        Catalog::Declared => CatalogScope::Declared,
        Catalog::None => CatalogScope::None,
        Catalog::Globs { include, exclude } => CatalogScope::Globs { include, exclude },
    };
    Scope { catalog, bound: &cx.uses_skills }
}
