//! The embedding model of another extension, where the settings ask for one and it is there.

use std::time::{Duration, Instant};

use skill_format::sanitize_line;
use skill_store::{Nearness, Snapshot};
use skillhost_sdk::EmbeddingClient;
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::{select, sync::Notify, time::sleep};

use crate::blocking;
use crate::desk::Desk;

/// How long a query waits for its vector, and a batch of texts for theirs.
const QUERY_LIMIT: Duration = Duration::from_millis(200);
const BATCH_LIMIT: Duration = Duration::from_secs(30);

/// How often a model is asked again that failed.
const RETRY: Duration = Duration::from_secs(60);

/// Gets vectors for a finder; whatever goes wrong, words are searched.
pub(crate) struct Meaning {
    pub(crate) desk: Arc<Desk>,
    model: Option<EmbeddingClient>,
}

impl Meaning {
    pub(crate) fn new(desk: &Arc<Desk>) -> Self {
        // A manifest that does not name the extension has none.
        let model = desk.finder.wants_vectors().then(|| desk.cx.embedding_client("embedding").ok());
        Self { desk: Arc::clone(desk), model: model.flatten() }
    }

    /// Returns how near the skills are to a query, where a model has told of them.
    pub(crate) async fn near(&self, snapshot: &Arc<Snapshot>, query: &str) -> Option<Nearness> {
        let vectors = &self.desk.finder.vectors;
        let model = self.model.as_ref().filter(|_| vectors.are_ready(Instant::now()))?;
        let made = model.clone().with_timeout(QUERY_LIMIT).embed(&[query]).await;
        let made = made.map_err(|error| self.failed(&error)).ok()?;
        vectors.nearness(snapshot, made.first()?)
    }

    /// Keeps a large catalog ready to be searched, for ever.
    pub(crate) async fn keep_ready(&self, changed: &Notify) {
        loop {
            let snapshot = self.desk.store.snapshot();
            if blocking(|| self.desk.finder.keep_ready(&snapshot))
                && let Err(error) = self.embed(&snapshot).await
            {
                self.failed(&error);
            }
            select! { () = changed.notified() => {}, () = sleep(RETRY) => {} }
        }
    }

    /// Has vectors made of what has none.
    async fn embed(&self, snapshot: &Snapshot) -> Result<()> {
        let vectors = &self.desk.finder.vectors;
        let model = self.model.as_ref().filter(|_| !vectors.are_paused(Instant::now()));
        let Some(model) = model.map(|model| model.clone().with_timeout(BATCH_LIMIT)) else {
            return Ok(());
        };
        let info = model.model().await?;
        let mut missing = blocking(|| vectors.begin(snapshot, &info.id, info.dimension as usize));
        while let Some(batch) = blocking(|| missing.next_batch(&self.desk.store)) {
            let made = model.embed(&batch.texts()).await?;
            // A database that cannot be used only keeps less; the ledger tells of it.
            let _kept = blocking(|| vectors.keep(&batch, &made));
        }
        vectors.worked();
        Ok(())
    }

    fn failed(&self, error: &ExtensionError) {
        let reason = sanitize_line(&error.to_string());
        if self.desk.finder.vectors.failed(reason.clone(), Instant::now()) {
            tracing::warn!("skills are searched by their words alone: {reason}");
        }
    }
}
