//! The `embedding` interface, seen from both of its ends.

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

/// More components than any model has: what claims more is not believed.
const MOST_COMPONENTS: u32 = 65_536;

/// As long as the kernel waits for a block of context.
const LIMIT: Duration = Duration::from_secs(2);

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
            other => Err(ExtensionError::new(ErrorKind::Protocol, format!("no method `{other}`"))),
        }
    }
}

/// The embedding provider of another extension; cheap to clone.
///
/// It remembers the model it learnt of, so that a caller that keeps vectors never mixes those of
/// two models: when the other extension comes back with another model, [`EmbeddingClient::embed`]
/// fails once with [`ErrorKind::Conflict`], and [`EmbeddingClient::model`] says what is there now.
#[derive(Clone)]
pub struct EmbeddingClient {
    extension: String,
    link: HostLink,
    limit: Duration,
    known: Arc<Mutex<Option<EmbeddingModelInfo>>>,
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
        let (extension, known) = (extension.to_owned(), Arc::default());
        Self { extension, link, limit: LIMIT, known }
    }

    /// Sets how long one request may take; two seconds without it, and never longer than the kernel
    /// allows a call.
    #[must_use]
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Asks which model there is now.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when the extension is not loaded, [`ErrorKind::Timeout`],
    /// [`ErrorKind::Protocol`] for a model without a name or with an impossible dimension, and what
    /// the provider returns.
    pub async fn model(&self) -> Result<EmbeddingModelInfo> {
        let reply = self.call(embedding_interface::MODEL, Vec::new()).await?;
        let model: EmbeddingModelInfo = from_bytes(&reply)?;
        if model.id.is_empty() || !(1..=MOST_COMPONENTS).contains(&model.dimension) {
            let said = format!("`{}` with {} components", model.id, model.dimension);
            return Err(ExtensionError::new(ErrorKind::Protocol, format!("no such model: {said}")));
        }
        self.cache_model(Some(model.clone()));
        Ok(model)
    }

    /// Makes one vector per text, in the order of the texts: as many as there are texts, each with
    /// the model's number of components, all of them finite.
    ///
    /// # Errors
    /// As for [`EmbeddingClient::model`]; [`ErrorKind::Conflict`] when the model is another by now;
    /// [`ErrorKind::Protocol`] when the answer is not what is promised above.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let model = match known {
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
            self.cache_model(None);
        }
        decode_vectors(&reply?, texts.len(), model.dimension)
    }

    fn cache_model(&self, model: Option<EmbeddingModelInfo>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = model;
    }

    async fn call(&self, method: &str, payload: Vec<u8>) -> Result<Vec<u8>> {
        let path = format!(
            "{}{}/{}/{method}",
            host_method::PROVIDER,
            self.extension,
            embedding_interface::NAME
        );
        let reply = tokio::time::timeout(self.limit, self.link.call(&path, payload)).await;
        reply.unwrap_or_else(|_| {
            Err(ExtensionError::new(
                ErrorKind::Timeout,
                format!(
                    "`{}` made no vectors within {} ms",
                    self.extension,
                    self.limit.as_millis()
                ),
            ))
        })
    }
}

fn size(dimension: u32) -> usize {
    usize::try_from(dimension).unwrap_or(usize::MAX)
}

/// Writes vectors as they travel. Their number and sizes are lost there, so they are checked here.
fn encode_vectors(vectors: &[Vec<f32>], count: usize, dimension: u32) -> Result<Vec<u8>> {
    if vectors.len() != count {
        let what = format!("{} vectors came for {count} texts", vectors.len());
        return Err(ExtensionError::new(ErrorKind::Protocol, what));
    }
    if let Some(odd) = vectors.iter().find(|vector| vector.len() != size(dimension)) {
        let what = format!("a vector has {} components, the model {dimension}", odd.len());
        return Err(ExtensionError::new(ErrorKind::Protocol, what));
    }
    Ok(vectors.iter().flatten().flat_map(|component| component.to_le_bytes()).collect())
}

/// Reads what [`encode_vectors`] wrote, or somebody else: nothing about it is believed.
fn decode_vectors(bytes: &[u8], count: usize, dimension: u32) -> Result<Vec<Vec<f32>>> {
    let each = size(dimension).saturating_mul(size_of::<f32>());
    if bytes.len() != count.saturating_mul(each) {
        let what = format!(
            "{} bytes came for {count} vectors of {dimension} components of 4 bytes",
            bytes.len()
        );
        return Err(ExtensionError::new(ErrorKind::Protocol, what));
    }
    let (components, _) = bytes.as_chunks();
    let vectors: Vec<Vec<f32>> = components
        .chunks(size(dimension))
        .map(|vector| vector.iter().map(|four| f32::from_le_bytes(*four)).collect())
        .collect();
    if vectors.iter().flatten().any(|component| !component.is_finite()) {
        let what = "a vector has a component that is not a finite number";
        return Err(ExtensionError::new(ErrorKind::Protocol, what));
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_arrive_as_they_were_sent() {
        let vectors = vec![vec![0.5, -1.0, f32::MIN_POSITIVE], vec![0.0, -0.0, f32::MAX]];
        let bytes = encode_vectors(&vectors, 2, 3).unwrap();
        assert_eq!(bytes[..8], [0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf]);
        assert_eq!(decode_vectors(&bytes, 2, 3).unwrap(), vectors);
    }

    #[test]
    fn what_was_not_asked_for_is_refused_at_both_ends() {
        let said = |result: Result<Vec<u8>>| {
            let error = result.unwrap_err();
            (error.kind(), error.message().to_owned())
        };
        let refused = |what: &str| (ErrorKind::Protocol, what.to_owned());
        let one = [vec![1.0, 2.0]];
        assert_eq!(said(encode_vectors(&one, 2, 2)), refused("1 vectors came for 2 texts"));
        assert_eq!(
            said(encode_vectors(&one, 1, 3)),
            refused("a vector has 2 components, the model 3")
        );
        // As many numbers as two vectors of two have.
        let odd = [vec![1.0], vec![2.0, 3.0, 4.0]];
        assert_eq!(
            said(encode_vectors(&odd, 2, 2)),
            refused("a vector has 1 components, the model 2")
        );

        let said = |bytes: &[u8], count| {
            let error = decode_vectors(bytes, count, 2).unwrap_err();
            (error.kind(), error.message().to_owned())
        };
        let short = "15 bytes came for 2 vectors of 2 components of 4 bytes";
        assert_eq!(said(&[0; 15], 2), refused(short));
        let long = "16 bytes came for 1 vectors of 2 components of 4 bytes";
        assert_eq!(said(&[0; 16], 1), refused(long));
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let bytes = encode_vectors(&[vec![1.0, wrong]], 1, 2).unwrap();
            let what = "a vector has a component that is not a finite number";
            assert_eq!(said(&bytes, 1), refused(what));
        }
    }
}
