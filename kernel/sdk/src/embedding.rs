//! Both ends of the `embedding` interface.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use skillhost_contract::payload::{
    EmbedRequest, EmbeddingModelInfo, ErrorKind, embedding_interface, host_method,
};

use crate::error::{ExtensionError, Result};
use crate::guard::HostLink;
use crate::interface::{Interface, from_bytes, to_bytes};
use crate::provider::EmbeddingProvider;

/// The maximum components of a vector; no model has more.
const MAX_COMPONENTS: u32 = 65_536;

/// The default timeout of a request, equal to the kernel's timeout for a context block.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// The `embedding` interface of an [`EmbeddingProvider`].
pub(crate) struct EmbeddingInterface<T>(pub(crate) Arc<T>);

#[async_trait]
impl<T: EmbeddingProvider> Interface for EmbeddingInterface<T> {
    fn name(&self) -> &'static str {
        embedding_interface::NAME
    }

    async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>> {
        match method {
            embedding_interface::MODEL => to_bytes(&self.0.model()),
            embedding_interface::EMBED => {
                let request: EmbedRequest<'_> = serde_json::from_slice(payload)
                    .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))?;
                // The library may have been reloaded with another model since the caller looked.
                let model = self.0.model();
                if model.id != request.model {
                    return Err(ExtensionError::new(
                        ErrorKind::Conflict,
                        format!("the model is `{}`, not `{}`", model.id, request.model),
                    ));
                }
                let texts: Vec<&str> = request.texts.iter().map(AsRef::as_ref).collect();
                encode_vectors(&self.0.embed(&texts).await?, texts.len(), model.dimension)
            }
            other => {
                Err(ExtensionError::new(ErrorKind::Protocol, format!("unknown method `{other}`")))
            }
        }
    }
}

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

fn to_length(dimension: u32) -> usize {
    // The maximum fails every comparison on platforms where the number does not fit.
    usize::try_from(dimension).unwrap_or(usize::MAX)
}

/// Encodes vectors for the wire. The wire format loses their number and sizes: they are checked
/// here.
fn encode_vectors(vectors: &[Vec<f32>], count: usize, dimension: u32) -> Result<Vec<u8>> {
    if vectors.len() != count {
        let message = format!("expected {count} vectors, received {}", vectors.len());
        return Err(ExtensionError::new(ErrorKind::Protocol, message));
    }
    if let Some(wrong) = vectors.iter().find(|vector| vector.len() != to_length(dimension)) {
        let message =
            format!("expected vectors of {dimension} components, received {}", wrong.len());
        return Err(ExtensionError::new(ErrorKind::Protocol, message));
    }
    Ok(vectors.iter().flatten().flat_map(|component| component.to_le_bytes()).collect())
}

/// Decodes the output of [`encode_vectors`]. The sender is another extension, so all is checked.
fn decode_vectors(bytes: &[u8], count: usize, dimension: u32) -> Result<Vec<Vec<f32>>> {
    // Saturating: a wrong dimension must give an error and no overflow.
    let vector_bytes = to_length(dimension).saturating_mul(size_of::<f32>());
    if bytes.len() != count.saturating_mul(vector_bytes) {
        let message = format!(
            "expected {count} vectors of {dimension} components of 4 bytes, received {} bytes",
            bytes.len()
        );
        return Err(ExtensionError::new(ErrorKind::Protocol, message));
    }
    let (components, _) = bytes.as_chunks();
    let vectors: Vec<Vec<f32>> = components
        .chunks(to_length(dimension))
        .map(|vector| vector.iter().map(|four| f32::from_le_bytes(*four)).collect())
        .collect();
    // One NaN would make every comparison with the stored vector meaningless.
    if vectors.iter().flatten().any(|component| !component.is_finite()) {
        let message = "received a vector with a component that is not finite";
        return Err(ExtensionError::new(ErrorKind::Protocol, message));
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_round_trip() {
        let vectors = vec![vec![0.5, -1.0, f32::MIN_POSITIVE], vec![0.0, -0.0, f32::MAX]];
        let bytes = encode_vectors(&vectors, 2, 3).unwrap();
        assert_eq!(bytes[..8], [0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf]);
        assert_eq!(decode_vectors(&bytes, 2, 3).unwrap(), vectors);
    }

    #[test]
    fn wrong_vectors_fail_at_both_ends() {
        let encode_error = |result: Result<Vec<u8>>| {
            let error = result.unwrap_err();
            (error.kind(), error.message().to_owned())
        };
        let protocol_error = |message: &str| (ErrorKind::Protocol, message.to_owned());
        let one = [vec![1.0, 2.0]];
        assert_eq!(
            encode_error(encode_vectors(&one, 2, 2)),
            protocol_error("expected 2 vectors, received 1")
        );
        assert_eq!(
            encode_error(encode_vectors(&one, 1, 3)),
            protocol_error("expected vectors of 3 components, received 2")
        );
        // The total number of components is right.
        let odd = [vec![1.0], vec![2.0, 3.0, 4.0]];
        assert_eq!(
            encode_error(encode_vectors(&odd, 2, 2)),
            protocol_error("expected vectors of 2 components, received 1")
        );

        let decode_error = |bytes: &[u8], count| {
            let error = decode_vectors(bytes, count, 2).unwrap_err();
            (error.kind(), error.message().to_owned())
        };
        let short = "expected 2 vectors of 2 components of 4 bytes, received 15 bytes";
        assert_eq!(decode_error(&[0; 15], 2), protocol_error(short));
        let long = "expected 1 vectors of 2 components of 4 bytes, received 16 bytes";
        assert_eq!(decode_error(&[0; 16], 1), protocol_error(long));
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let bytes = encode_vectors(&[vec![1.0, wrong]], 1, 2).unwrap();
            let message = "received a vector with a component that is not finite";
            assert_eq!(decode_error(&bytes, 1), protocol_error(message));
        }
    }
}
