//! Vectors of texts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The interface of embedding providers, called through the generic call.
pub mod embedding_interface {
    /// Name of the interface.
    pub const NAME: &str = "embedding";
    /// No payload → [`crate::EmbeddingModelInfo`].
    pub const MODEL: &str = "model";
    /// [`crate::EmbedRequest`] → the vectors in the order of the texts, each component `f32` LE.
    // Binary instead of JSON: text would triple the size and cost most of the call.
    pub const EMBED: &str = "embed";
}

/// The description of an embedding model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingModelInfo {
    /// The id of the model and of everything that changes its vectors; only vectors with the same
    /// id are comparable.
    pub id: String,
    /// The number of components of every vector, at least one.
    pub dimension: u32,
}

/// A request for the vectors of texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedRequest<'a> {
    /// The model that the caller expects; another one causes [`crate::ErrorKind::Conflict`].
    // Vectors of two models must never be mixed, even if the provider was reloaded in between.
    #[serde(borrow)]
    pub model: Cow<'a, str>,
    /// The texts.
    #[serde(borrow)]
    pub texts: Vec<Cow<'a, str>>,
}
