//! The embedding extension: texts become vectors.
//!
//! Which model makes them is a matter of settings: the table of word vectors that is part of this
//! library (see `word-vectors`), a table in a local folder, or a server. No text leaves the machine
//! unless the settings name a server.

mod endpoint;
mod folder;

use std::path::PathBuf;

use skillhost_sdk::prelude::*;
use skillhost_sdk::serde::{self, Deserialize};
use word_vectors::{STATIC_MINILM, Table};

use crate::endpoint::{Endpoint, EndpointConfig};

/// The manifest's `config`.
#[derive(Deserialize)]
#[serde(crate = "serde", deny_unknown_fields)]
struct Config {
    #[serde(default)]
    model: ModelConfig,
}

/// What makes the vectors.
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

/// The extension.
enum Embedding {
    Table { id: String, table: Table },
    Endpoint(Endpoint),
}

#[async_trait]
impl Extension for Embedding {
    fn new(cx: ExtensionContext) -> Result<Self> {
        Ok(match cx.config::<Config>()?.model {
            ModelConfig::StaticMinilm => {
                Self::Table { id: STATIC_MINILM.to_owned(), table: Table::static_minilm() }
            }
            ModelConfig::Folder(path) => {
                let (id, table) = folder::read(&cx.home().join(path))?;
                Self::Table { id, table }
            }
            ModelConfig::Endpoint(config) => Self::Endpoint(Endpoint::new(cx, config)?),
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
impl EmbeddingProvider for Embedding {
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
                    // A caller that gives up a long list is noticed only where the task pauses.
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

export_extension!(Embedding: embeddings);
