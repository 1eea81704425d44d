//! Refitted weights and their scores on held-out sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use skill_search::{EmbeddingSimilarity, Index, Ranker, SearchRequest};

use super::data::LabelledQuery;
use super::fit::{TrainingExample, fit_weights};
use super::meaning::CatalogVectors;
use super::score::RankingMetrics;

/// A source with fewer queries shares its fold with other small ones.
const OWN_FOLD: usize = 16;

/// Folds that the small sources are dealt out to.
const SHARED_FOLDS: usize = 3;

/// The result of a fit.
#[derive(Debug)]
pub(super) struct FittedWeights {
    /// A name for each weight.
    pub(super) columns: Vec<String>,
    /// The weights fitted on all queries.
    pub(super) weights: Vec<f64>,
    /// The scores on the queries of the fit.
    pub(super) inside: Vec<RankingMetrics>,
    /// The score of each query with weights fitted without its fold.
    pub(super) outside: Vec<RankingMetrics>,
}

/// Fits the second stage of a ranker; with vectors and the catalog's ids that for cosines.
pub(super) fn refit_ranker(
    index: &Index,
    ranker: &Ranker,
    vectors: Option<(&CatalogVectors<'_>, &[&str])>,
    queries: &[LabelledQuery],
    l2: f64,
) -> FittedWeights {
    let mut columns = Vec::new();
    let mut ids = Vec::new();
    let mut examples = Vec::new();
    for query in queries {
        let near = vectors.map(|(vectors, ids)| vectors.cosines_to(ids, &query.query));
        let semantics = near.as_ref().map(|near| near as &dyn EmbeddingSimilarity);
        let request = SearchRequest { semantics, ..SearchRequest::new(&query.query, ranker) };
        let candidates = index.collect_features(&request);
        let relevant = candidates.ids.iter().map(|id| query.relevant.iter().any(|it| **it == **id));
        examples.push(TrainingExample {
            relevant: relevant.collect(),
            features: candidates.rows.concat(),
            weight: 1.0,
        });
        columns = candidates.columns;
        ids.push(candidates.ids);
    }
    let measures = |at: usize, weights: &[f64]| {
        let ranked: Vec<_> =
            examples[at].order(weights).into_iter().map(|candidate| &*ids[at][candidate]).collect();
        RankingMetrics::compute(&queries[at].relevant, &ranked)
    };
    let weights = fit_weights(&examples.iter().collect::<Vec<_>>(), l2);
    let inside = (0..queries.len()).map(|at| measures(at, &weights)).collect();
    let folds = folds(queries);
    let mut outside = vec![RankingMetrics::default(); queries.len()];
    for fold in folds.iter().collect::<BTreeSet<_>>() {
        let others = examples.iter().zip(&folds).filter(|(_, other)| *other != fold);
        let weights = fit_weights(&others.map(|(example, _)| example).collect::<Vec<_>>(), l2);
        for at in (0..queries.len()).filter(|&at| folds[at] == *fold) {
            outside[at] = measures(at, &weights);
        }
    }
    FittedWeights { columns, weights, inside, outside }
}

/// Returns the mean over sources of the means over their queries, without small sources.
pub(super) fn by_source(queries: &[LabelledQuery], measures: &[RankingMetrics]) -> RankingMetrics {
    let mut sources: BTreeMap<&str, Vec<&RankingMetrics>> = BTreeMap::new();
    for (query, measures) in queries.iter().zip(measures) {
        sources.entry(&query.source).or_default().push(measures);
    }
    let means: Vec<RankingMetrics> = sources
        .into_values()
        // A source with few queries is too noisy for a mean of its own.
        .filter(|all| all.len() * 2 >= OWN_FOLD)
        .map(RankingMetrics::mean)
        .collect();
    RankingMetrics::mean(&means)
}

/// Formats the weights as Rust source.
pub(super) fn format_weights(fitted: &FittedWeights) -> String {
    let mut text = String::new();
    for (column, weight) in fitted.columns.iter().zip(&fitted.weights) {
        let _ = writeln!(text, "    {weight:.4}, // {column}");
    }
    text
}

/// Assigns a fold to each query: queries of one source are in one fold.
fn folds(queries: &[LabelledQuery]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for query in queries {
        *counts.entry(&query.source).or_default() += 1;
    }
    let small = counts.iter().filter(|(_, count)| **count < OWN_FOLD);
    let shared: BTreeMap<&str, String> = small
        .enumerate()
        .map(|(number, (source, _))| (*source, format!("small {}", number % SHARED_FOLDS)))
        .collect();
    let fold = |query: &LabelledQuery| shared.get(&*query.source).unwrap_or(&query.source).clone();
    queries.iter().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use skill_search::{Document, TextAnalyzer};

    use super::*;

    fn query(source: &str, text: &str, relevant: &str) -> LabelledQuery {
        LabelledQuery {
            id: String::new(),
            query: text.into(),
            relevant: vec![relevant.into()],
            source: source.into(),
        }
    }

    #[test]
    fn folds_keep_sources_together() {
        let mut queries: Vec<LabelledQuery> = (0..16).map(|_| query("big", "", "")).collect();
        queries.extend(["s1", "s2", "s3", "s4", "s1"].map(|source| query(source, "", "")));
        let folds = folds(&queries);
        assert!(folds[..16].iter().all(|fold| fold == "big"));
        assert_eq!(folds[16..], ["small 0", "small 1", "small 2", "small 0", "small 0"]);
    }

    #[test]
    fn sources_count_once_in_mean() {
        let good = RankingMetrics::compute(&["a".into()], &["a"]);
        let bad = RankingMetrics::compute(&["a".into()], &["b"]);
        let mut queries: Vec<LabelledQuery> = (0..30).map(|_| query("large", "", "")).collect();
        let mut measures = vec![good; 30];
        queries.extend((0..8).map(|_| query("less", "", "")));
        measures.extend([bad; 8]);
        queries.push(query("tiny", "", ""));
        measures.push(bad);
        assert_eq!(by_source(&queries, &measures).values(), [0.5; 6]);
    }

    #[test]
    fn fit_follows_labels() {
        // BM25F prefers the shorter description; the labels follow the name.
        let words = ["ant", "bee", "cow", "dog", "elk", "fox"];
        let names: Vec<String> = words.iter().map(|word| format!("{word}-keeper")).collect();
        let texts: Vec<String> =
            (0..6).map(|n| format!("Keeps every {} in a large field", words[n])).collect();
        let others: Vec<String> = words.iter().map(|word| format!("x-{word}s-y-z")).collect();
        let short: Vec<String> = words.iter().map(|word| format!("{word} {word} field")).collect();
        let document =
            |id, description| Document { id, name: id, description, ..Document::default() };
        let documents = (0..6)
            .flat_map(|n| [document(&*names[n], &*texts[n]), document(&*others[n], &*short[n])]);
        let index = Index::build(TextAnalyzer::Standard, documents);
        let queries: Vec<LabelledQuery> = (0..6)
            .map(|n| query(words[n], &format!("{} keeper field", words[n]), &names[n]))
            .collect();
        let fitted = refit_ranker(&index, &Ranker::standard(), None, &queries, 1e-3);
        assert_eq!(fitted.columns.len(), fitted.weights.len());
        assert_eq!(RankingMetrics::mean(&fitted.inside).values(), [1.0; 6]);
        assert_eq!(RankingMetrics::mean(&fitted.outside).values(), [1.0; 6]);
    }
}
