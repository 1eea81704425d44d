//! The `embedding` interface: computes vectors of texts.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::{EmbedRequest, ErrorKind, embedding_interface};

use crate::codec::to_bytes;
use crate::embedding_codec::encode_vectors;
use crate::error::{ExtensionError, Result};
use crate::interface::Interface;
use crate::provider::EmbeddingProvider;

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
