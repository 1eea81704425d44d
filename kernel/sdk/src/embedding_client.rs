//! The client's end of the `embedding` interface.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skillhost_payload::{
    EmbedRequest, EmbeddingModelInfo, ErrorKind, embedding_interface, host_method,
};

use crate::codec::{from_bytes, to_bytes};
use crate::embedding_codec::decode_vectors;
use crate::error::{ExtensionError, Result};
use crate::link::HostLink;

/// The maximum components of a vector; no model has more.
const MAX_COMPONENTS: u32 = 65_536;

/// The default timeout of a request, equal to the kernel's timeout for a context block.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// A client of another extension's embedding provider; cheap to clone.
///
/// It caches the model, so that a caller that stores vectors never mixes those of two models: after
/// the other extension was reloaded with another model, [`EmbeddingClient::embed`] fails once with
/// [`ErrorKind::Conflict`], and [`EmbeddingClient::model`] returns the new one.
#[derive(Clone)]
pub struct EmbeddingClient {
    extension: String,
    link: HostLink,
    timeout: Duration,
    /// Shared by all clones, so that each of them sees a change of the model.
    cached_model: Arc<Mutex<Option<EmbeddingModelInfo>>>,
}

impl fmt::Debug for EmbeddingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingClient")
            .field("extension", &self.extension)
            .finish_non_exhaustive()
    }
}

impl EmbeddingClient {
    pub(crate) fn new(extension: &str, link: HostLink) -> Self {
        let (extension, cached_model) = (extension.to_owned(), Arc::default());
        Self { extension, link, timeout: DEFAULT_TIMEOUT, cached_model }
    }

    /// Sets the timeout of one request; the default is two seconds.
    ///
    /// The kernel's timeout for a call applies as well.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Requests the current model.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the extension is not loaded, [`ErrorKind::Timeout`],
    /// [`ErrorKind::Protocol`] for a model without an id or with an impossible dimension, and the
    /// errors of the provider.
    pub async fn model(&self) -> Result<EmbeddingModelInfo> {
        let reply = self.call(embedding_interface::MODEL, Vec::new()).await?;
        let model: EmbeddingModelInfo = from_bytes(&reply)?;
        if model.id.is_empty() || !(1..=MAX_COMPONENTS).contains(&model.dimension) {
            let message =
                format!("model `{}` with {} components is not valid", model.id, model.dimension);
            return Err(ExtensionError::new(ErrorKind::Protocol, message));
        }
        self.cache_model(Some(model.clone()));
        Ok(model)
    }

    /// Requests one vector per text, in the order of the texts.
    ///
    /// Each vector has the model's number of components, all of them finite.
    ///
    /// # Errors
    /// As for [`EmbeddingClient::model`]; [`ErrorKind::Conflict`] when the model has changed;
    /// [`ErrorKind::Protocol`] when the reply breaks the promise above.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        // The lock is released before any await.
        let cached = self.cached_model.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let model = match cached {
            Some(model) => model,
            None => self.model().await?,
        };
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let owned = texts.iter().map(|text| Cow::Borrowed(*text)).collect();
        let request = EmbedRequest { model: model.id.as_str().into(), texts: owned };
        let reply = self.call(embedding_interface::EMBED, to_bytes(&request)?).await;
        if let Err(error) = &reply
            && error.kind() == ErrorKind::Conflict
        {
            // Clear it, so that the next request asks for the model and succeeds.
            self.cache_model(None);
        }
        decode_vectors(&reply?, texts.len(), model.dimension)
    }

    fn cache_model(&self, model: Option<EmbeddingModelInfo>) {
        *self.cached_model.lock().unwrap_or_else(PoisonError::into_inner) = model;
    }

    async fn call(&self, method: &str, payload: Vec<u8>) -> Result<Vec<u8>> {
        let path = format!(
            "{}{}/{}/{method}",
            host_method::PROVIDER,
            self.extension,
            embedding_interface::NAME
        );
        let reply = tokio::time::timeout(self.timeout, self.link.call(&path, payload)).await;
        reply.unwrap_or_else(|_| {
            Err(ExtensionError::new(
                ErrorKind::Timeout,
                format!(
                    "embedding by `{}` timed out after {} ms",
                    self.extension,
                    self.timeout.as_millis()
                ),
            ))
        })
    }
}
