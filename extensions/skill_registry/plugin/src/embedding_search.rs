//! The embedding model of another extension, if the settings enable one and it is loaded.

use std::time::{Duration, Instant};

use skill_catalog::Snapshot;
use skill_format::sanitize_line;
use skill_service::SimilarityScores;
use skillhost_sdk::EmbeddingClient;
use skillhost_sdk::prelude::*;
use skillhost_sdk::tokio::select;
use skillhost_sdk::tokio::sync::Notify;
use skillhost_sdk::tokio::time::sleep;

use crate::bridge::run_blocking;
use crate::registry_state::RegistryState;

/// The timeout of a query's vector, and of a batch of texts.
const QUERY_LIMIT: Duration = Duration::from_millis(200);
const BATCH_LIMIT: Duration = Duration::from_secs(30);

/// The interval between attempts after a failure of the model.
const RETRY: Duration = Duration::from_secs(60);

/// A client of the embedding model for a finder; after an error only words are searched.
pub(crate) struct EmbeddingSearch {
    pub(crate) registry: Arc<RegistryState>,
    model: Option<EmbeddingClient>,
}

impl EmbeddingSearch {
    pub(crate) fn new(registry: &Arc<RegistryState>) -> Self {
        // A manifest that does not name the extension has none.
        let model = registry
            .finder
            .uses_embeddings()
            .then(|| registry.cx.embedding_client("embedding").ok());
        Self { registry: Arc::clone(registry), model: model.flatten() }
    }

    /// Returns the similarity of the skills to a query, or `None` without a model.
    pub(crate) async fn score_similarity(
        &self,
        snapshot: &Arc<Snapshot>,
        query: &str,
    ) -> Option<SimilarityScores> {
        let vectors = &self.registry.finder.vectors;
        let model = self.model.as_ref().filter(|_| vectors.are_ready(Instant::now()))?;
        let made = model.clone().with_timeout(QUERY_LIMIT).embed(&[query]).await;
        let made = made.map_err(|error| self.record_failure(&error)).ok()?;
        vectors.similarity_scores(snapshot, made.first()?)
    }

    /// Keeps the index of a large catalog current; never returns.
    pub(crate) async fn maintain_index(&self, changed: &Notify) {
        loop {
            let snapshot = self.registry.store.snapshot();
            if run_blocking(|| self.registry.finder.ensure_index(&snapshot))
                && let Err(error) = self.embed(&snapshot).await
            {
                self.record_failure(&error);
            }
            select! { () = changed.notified() => {}, () = sleep(RETRY) => {} }
        }
    }

    /// Computes the missing vectors.
    async fn embed(&self, snapshot: &Snapshot) -> Result<()> {
        let vectors = &self.registry.finder.vectors;
        let model = self.model.as_ref().filter(|_| !vectors.is_backing_off(Instant::now()));
        let Some(model) = model.map(|model| model.clone().with_timeout(BATCH_LIMIT)) else {
            return Ok(());
        };
        let info = model.model().await?;
        let mut missing =
            run_blocking(|| vectors.load_model(snapshot, &info.id, info.dimension as usize));
        while let Some(batch) = run_blocking(|| missing.next_batch(&self.registry.store)) {
            let made = model.embed(&batch.texts()).await?;
            // A database error only affects the next start; the ledger reports it.
            let _kept = run_blocking(|| vectors.store_batch(&batch, &made));
        }
        vectors.clear_backoff();
        Ok(())
    }

    fn record_failure(&self, error: &ExtensionError) {
        let reason = sanitize_line(&error.to_string());
        if self.registry.finder.vectors.record_failure(reason.clone(), Instant::now()) {
            tracing::warn!("skills are searched by their words alone: {reason}");
        }
    }
}
