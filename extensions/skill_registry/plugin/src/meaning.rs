//! The embedding model of another extension, where the settings ask for one and it is there.

use std::time::{Duration, Instant};

use skill_format::sanitise_line;
use skill_store::{Finder, Nearness, Snapshot, Store};
use skillhost_sdk::EmbeddingClient;
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::{select, sync::Notify, time::sleep};

use crate::blocking;

/// How long a query waits for its vector, and a batch of texts for theirs.
const QUERY_LIMIT: Duration = Duration::from_millis(200);
const BATCH_LIMIT: Duration = Duration::from_secs(30);

/// How often a model is asked again that failed.
const RETRY: Duration = Duration::from_secs(60);

/// Gets vectors for a finder; whatever goes wrong, words are searched.
pub(crate) struct Meaning {
    store: Arc<Store>,
    finder: Arc<Finder>,
    model: Option<EmbeddingClient>,
}

impl Meaning {
    pub(crate) fn new(cx: &ExtensionContext, store: &Arc<Store>, finder: &Arc<Finder>) -> Self {
        // A manifest that does not name the extension has none.
        let model = finder.wants_vectors().then(|| cx.embeddings("embedding").ok()).flatten();
        Self { store: Arc::clone(store), finder: Arc::clone(finder), model }
    }

    /// Returns how near the skills are to a query, where a model has told of them.
    pub(crate) async fn near(&self, snapshot: &Arc<Snapshot>, query: &str) -> Option<Nearness> {
        let vectors = &self.finder.vectors;
        let model = self.model.as_ref().filter(|_| vectors.are_ready(Instant::now()))?;
        let made = model.clone().within(QUERY_LIMIT).embed(&[query]).await;
        let made = made.map_err(|error| self.failed(&error)).ok()?;
        vectors.nearness(snapshot, made.first()?)
    }

    /// Keeps a large catalog ready to be searched, for ever.
    pub(crate) async fn keep_ready(&self, changed: &Notify) {
        loop {
            let snapshot = self.store.snapshot();
            let large = blocking(|| self.finder.keep_ready(&snapshot)).unwrap_or_else(|error| {
                tracing::debug!("the catalog is not kept: {error}");
                true
            });
            if large && let Err(error) = self.embed(&snapshot).await {
                self.failed(&error);
            }
            select! { () = changed.notified() => {}, () = sleep(RETRY) => {} }
        }
    }

    /// Has vectors made of what has none.
    async fn embed(&self, snapshot: &Snapshot) -> Result<()> {
        let vectors = &self.finder.vectors;
        let model = self.model.as_ref().filter(|_| !vectors.are_paused(Instant::now()));
        let Some(model) = model.map(|model| model.clone().within(BATCH_LIMIT)) else {
            return Ok(());
        };
        let info = model.model().await?;
        let mut missing = blocking(|| vectors.begin(snapshot, &info.id, info.dimension as usize));
        while let Some(batch) = blocking(|| missing.next_batch(&self.store)) {
            let made = model.embed(&batch.texts()).await?;
            if let Err(error) = blocking(|| vectors.keep(&batch, &made)) {
                tracing::debug!("vectors are not kept: {error}");
            }
        }
        vectors.worked();
        Ok(())
    }

    fn failed(&self, error: &ExtError) {
        let reason = sanitise_line(&error.to_string());
        if self.finder.vectors.failed(reason.clone(), Instant::now()) {
            tracing::warn!("skills are searched by their words alone: {reason}");
        }
    }
}
