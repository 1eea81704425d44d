//! The parameters of a ranking.

use std::borrow::Cow;

use crate::CandidateMeasures;
use crate::features::{self, Feature};
use crate::weights::{self, Bm25fConstants};

/// A linear model over features and their square roots.
#[derive(Clone, Debug)]
pub struct LinearModel {
    features: Cow<'static, [Feature]>,
    weights: Vec<f64>,
}

impl LinearModel {
    fn new(features: impl Into<Cow<'static, [Feature]>>, weights: &[f64]) -> Self {
        let features = features.into();
        // Features come first, then their square roots.
        debug_assert_eq!(features.len() * 2, weights.len());
        Self { features, weights: weights.to_vec() }
    }

    /// Returns the features.
    #[must_use]
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Returns the weights: one for each feature, then one for each square root.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Returns the name of each weight.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        let names = || self.features.iter().map(|feature| feature.name);
        names().map(str::to_owned).chain(names().map(|name| format!("sqrt({name})"))).collect()
    }

    /// Computes the features of a candidate, then their square roots; the root of a negative one is 0.
    pub(crate) fn row(&self, measures: &CandidateMeasures) -> Vec<f64> {
        let mut row = Vec::with_capacity(self.weights.len());
        row.extend(self.features.iter().map(|feature| (feature.value)(measures)));
        for at in 0..self.features.len() {
            row.push(row[at].max(0.0).sqrt());
        }
        row
    }

    /// Sums the contributions of a candidate's features: value times weight, then the same for the
    /// square roots.
    pub(crate) fn score(&self, measures: &CandidateMeasures) -> f64 {
        // The order of the additions is fixed, so that scores equal the sums in explanations.
        let (plain, roots) = self.weights.split_at(self.features.len());
        let values = || self.features.iter().map(|feature| (feature.value)(measures));
        let plain: f64 = values().zip(plain).map(|(value, weight)| weight * value).sum();
        let root = |(value, weight): (f64, &f64)| weight * value.max(0.0).sqrt();
        values().zip(roots).map(root).fold(plain, |sum, part| sum + part)
    }

    fn with_weights(&self, weights: Vec<f64>) -> Option<Self> {
        let fits = weights.len() == self.weights.len();
        fits.then(|| Self { features: self.features.clone(), weights })
    }
}

/// The parameters of a ranking: the constants of its first stage, the model of its second.
#[derive(Clone, Debug)]
pub struct Ranker {
    name: &'static str,
    constants: Bm25fConstants,
    model: LinearModel,
    semantic: Option<LinearModel>,
}

impl Ranker {
    /// The names accepted by [`Ranker::from_name`].
    pub const NAMES: [&'static str; 3] = ["standard", "reference", "bm25f"];

    /// Returns the default ranker.
    #[must_use]
    pub fn standard() -> Self {
        let with_cosines: Vec<Feature> =
            features::STANDARD.iter().chain(&features::SEMANTIC).copied().collect();
        Self {
            name: "standard",
            constants: weights::STANDARD_CONSTANTS,
            model: LinearModel::new(&features::STANDARD[..], &weights::STANDARD),
            semantic: Some(LinearModel::new(with_cosines, &weights::SEMANTIC)),
        }
    }

    /// Returns the ranker for comparisons; its parameters never change, and it ignores embeddings.
    #[must_use]
    pub fn reference() -> Self {
        Self {
            name: "reference",
            constants: weights::REFERENCE_CONSTANTS,
            model: LinearModel::new(&features::REFERENCE[..], &weights::REFERENCE),
            semantic: None,
        }
    }

    /// Returns a ranker with only the first stage.
    #[must_use]
    pub fn bm25f() -> Self {
        Self {
            name: "bm25f",
            constants: weights::REFERENCE_CONSTANTS,
            model: LinearModel::new(&features::BM25F[..], &[1.0, 0.0]),
            semantic: None,
        }
    }

    /// Returns the ranker with a name, or `None` if the name is not in [`Ranker::NAMES`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "standard" => Some(Self::standard()),
            "reference" => Some(Self::reference()),
            "bm25f" => Some(Self::bm25f()),
            _ => None,
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the constants of the first stage.
    #[must_use]
    pub fn constants(&self) -> &Bm25fConstants {
        &self.constants
    }

    /// Returns the model that orders candidates: the one for queries with cosines if this ranker has
    /// it, otherwise the one without.
    #[must_use]
    pub fn model(&self, with_cosines: bool) -> &LinearModel {
        match &self.semantic {
            Some(model) if with_cosines => model,
            _ => &self.model,
        }
    }

    /// Returns whether this ranker uses cosines.
    #[must_use]
    pub fn uses_cosines(&self) -> bool {
        self.semantic.is_some()
    }

    /// Returns the same ranker with other weights in the model without cosines; `None` if the number
    /// of weights differs.
    #[must_use]
    pub fn with_weights(&self, weights: Vec<f64>) -> Option<Self> {
        let model = self.model.with_weights(weights)?;
        Some(Self { model, ..self.clone() })
    }

    /// Returns the same ranker with other weights in the model with cosines; `None` if it has no such
    /// model or the number of weights differs.
    #[must_use]
    pub fn with_semantic_weights(&self, weights: Vec<f64>) -> Option<Self> {
        let semantic = self.semantic.as_ref()?.with_weights(weights)?;
        Some(Self { semantic: Some(semantic), ..self.clone() })
    }

    /// Returns the same ranker with other constants of BM25F.
    #[must_use]
    pub fn with_constants(&self, constants: Bm25fConstants) -> Self {
        Self { constants, ..self.clone() }
    }
}
