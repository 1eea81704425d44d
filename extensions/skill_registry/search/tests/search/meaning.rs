//! Tests of the ranking with an embedding model.

use skill_search::{
    CosineScores, Document, EmbeddingSimilarity, Index, Ranker, SearchRequest, TextAnalyzer,
};

/// A table of cosines by id.
struct Table(&'static [(&'static str, f32)]);

impl EmbeddingSimilarity for Table {
    fn cosines(&self, id: &str) -> Option<CosineScores> {
        let (_, cosine) = self.0.iter().find(|(other, _)| *other == id)?;
        Some(CosineScores { description: *cosine, headings: cosine / 2.0, section: cosine / 4.0 })
    }

    fn nearest(&self, limit: usize) -> Vec<&str> {
        self.0.iter().map(|(id, _)| *id).take(limit).collect()
    }
}

#[test]
fn embeddings_add_candidates_and_features() {
    let rows =
        [("a", "count beads"), ("b", "count stars"), ("c", "cook soup"), ("d", "read books")];
    let documents =
        rows.map(|(id, description)| Document { id, description, ..Document::default() });
    let index = Index::build(TextAnalyzer::Standard, documents);
    let table = Table(&[("c", 0.75), ("b", 0.5), ("gone", 0.5), ("d", 0.25)]);
    let ranker = Ranker::standard();
    let request = SearchRequest {
        semantics: Some(&table),
        admits: &|id| id != "d",
        ..SearchRequest::new("count beads", &ranker)
    };
    let found = index.collect_features(&request);
    let ids: Vec<&str> = found.ids.iter().map(|id| &**id).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let last: Vec<&[f64]> = found.rows.iter().map(|row| &row[14..18]).collect();
    let rank = |place: f64| place.ln_1p();
    assert_eq!(
        last,
        [[0.0, 0.0, 0.0, rank(2.0)], [0.5, 0.25, 0.125, rank(1.0)], [0.75, 0.375, 0.1875, 0.0]]
    );
    assert_eq!(found.columns[14..18], ["cos", "cos_head", "cos_sec", "log_cos_rank"]);
    let hits = index.search(&request);
    let nearest = hits.iter().find(|hit| &*hit.id == "c").unwrap();
    assert!(nearest.fields.is_empty());

    // A ranker without cosines returns the same hits with and without them.
    let reference = Ranker::reference();
    let without = SearchRequest { semantics: None, ranker: &reference, ..request };
    let with = SearchRequest { ranker: &reference, ..request };
    assert_eq!(index.search(&with), index.search(&without));
    assert_eq!(index.search(&with).len(), 2);
}

#[test]
fn weights_change_only_their_model() {
    let standard = Ranker::standard();
    let (plain, semantic) = (standard.model(false), standard.model(true));
    assert_eq!(plain.columns().len(), plain.weights().len());
    assert_eq!(semantic.columns().len(), semantic.weights().len());
    assert!(standard.with_weights(vec![1.0; 3]).is_none());
    let weights = vec![0.5; plain.weights().len()];
    let other = standard.with_weights(weights.clone()).unwrap();
    assert_eq!(other.model(false).weights(), weights);
    assert_eq!(other.model(true).weights(), semantic.weights());
    let weights = vec![0.25; semantic.weights().len()];
    let other = standard.with_semantic_weights(weights.clone()).unwrap();
    assert_eq!(other.model(true).weights(), weights);
    assert!(Ranker::reference().with_semantic_weights(weights).is_none());
    for name in Ranker::NAMES {
        assert_eq!(Ranker::from_name(name).unwrap().name(), name);
    }
    assert!(Ranker::from_name("best").is_none());
}
