//! The embedding extension, which converts texts to vectors.
//!
//! The settings select the model: the table of word vectors in this library (see `word-vectors`), a
//! table in a local directory, or a server. No text leaves the machine unless the settings name a
//! server.

mod endpoint;
mod folder;

use std::path::PathBuf;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use word_vectors::{STATIC_MINILM, VectorTable};

use crate::endpoint::{EmbeddingEndpoint, EndpointConfig};

/// The `config` of the manifest.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct EmbeddingConfig {
    #[serde(default)]
    model: ModelConfig,
}

/// The setting `model`.
#[derive(Default, Deserialize)]
#[serde(crate = "serde")]
enum ModelConfig {
    #[default]
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

#[async_trait]
impl Extension for EmbeddingExtension {
    fn new(cx: ExtensionContext) -> Result<Self> {
        Ok(match cx.config::<EmbeddingConfig>()?.model {
            ModelConfig::StaticMinilm => {
                Self::Table { id: STATIC_MINILM.to_owned(), table: VectorTable::static_minilm() }
            }
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
