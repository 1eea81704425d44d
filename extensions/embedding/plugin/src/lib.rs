//! The embedding extension, which converts texts to vectors.
//!
//! The settings select the model: a table of word vectors in a local directory, or a server. With the
//! feature `static-minilm`, the library includes a table (see `word-vectors`). No text leaves the
//! machine unless the settings name a server.

mod endpoint;
mod folder;

use std::path::PathBuf;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use word_vectors::VectorTable;

use crate::endpoint::{EmbeddingEndpoint, EndpointConfig};

/// The `config` of the manifest.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct EmbeddingConfig {
    model: ModelConfig,
}

/// The setting `model`.
#[derive(Deserialize)]
#[serde(crate = "serde")]
enum ModelConfig {
    #[serde(rename = "static-minilm-128")]
    StaticMinilm,
    #[serde(rename = "file")]
    Folder(PathBuf),
    #[serde(rename = "endpoint")]
    Endpoint(EndpointConfig),
}

/// The extension with its model.
enum EmbeddingExtension {
    Table { id: String, table: VectorTable },
    Endpoint(EmbeddingEndpoint),
}

#[cfg(feature = "static-minilm")]
#[expect(clippy::unnecessary_wraps, reason = "a library without the table returns an error")]
fn open_static_minilm() -> Result<EmbeddingExtension> {
    let id = word_vectors::STATIC_MINILM.to_owned();
    Ok(EmbeddingExtension::Table { id, table: VectorTable::static_minilm() })
}

#[cfg(not(feature = "static-minilm"))]
fn open_static_minilm() -> Result<EmbeddingExtension> {
    let message = "the table static-minilm-128 is not part of this library";
    let hint = "set config.model to {file: PATH} or {endpoint: …} as in \
                manifests/embedding/manifest.yaml, or build the library with the feature static-minilm";
    Err(ExtensionError::invalid_argument(message).with_hint(hint))
}

#[async_trait]
impl Extension for EmbeddingExtension {
    fn new(cx: ExtensionContext) -> Result<Self> {
        Ok(match cx.config::<EmbeddingConfig>()?.model {
            ModelConfig::StaticMinilm => open_static_minilm()?,
            ModelConfig::Folder(path) => {
                // A relative path belongs to the home, not to the working directory of the kernel.
                let (id, table) = folder::load_model(&cx.home().join(path))?;
                Self::Table { id, table }
            }
            ModelConfig::Endpoint(config) => Self::Endpoint(EmbeddingEndpoint::new(cx, config)?),
        })
    }

    async fn health_check(&self) -> Result<()> {
        match self {
            Self::Table { .. } => Ok(()),
            Self::Endpoint(endpoint) => endpoint.health(),
        }
    }
}

#[async_trait]
impl EmbeddingProvider for EmbeddingExtension {
    fn model(&self) -> EmbeddingModelInfo {
        match self {
            Self::Table { id, table } => EmbeddingModelInfo {
                id: id.clone(),
                dimension: u32::try_from(table.dimension()).unwrap_or(u32::MAX),
            },
            Self::Endpoint(endpoint) => endpoint.model(),
        }
    }

    async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        match self {
            Self::Table { table, .. } => {
                let mut vectors = Vec::with_capacity(texts.len());
                for (number, text) in texts.iter().enumerate() {
                    vectors.push(table.embed(text));
                    // A cancelled call is noticed only where the task yields.
                    if number % 256 == 255 {
                        skillhost_sdk::tokio::task::yield_now().await;
                    }
                }
                Ok(vectors)
            }
            Self::Endpoint(endpoint) => endpoint.embed(texts).await,
        }
    }
}

export_extension!(EmbeddingExtension: embeddings);
