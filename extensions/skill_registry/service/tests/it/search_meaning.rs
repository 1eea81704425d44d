//! The search with an embedding model, and the maintenance of its index.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use skill_catalog::{Audience, Skill, Store};
use skill_search::{EmbeddingSimilarity, Ranker};
use skill_service::{
    EmbeddingVectors, ListSkillsArgs, RegistryConfig, SkillFinder, SkillQuery, SkillSearcher,
};

use crate::fixture::tick;
use crate::search::{everybody, fixture, ids, ledger, tool, write};

/// Imitates an embedding model: a vector marks which of three words a text has.
fn embed(texts: &[&str]) -> Vec<Vec<f32>> {
    let has = |text: &str, word: &str| f32::from(u8::from(text.contains(word)));
    let vector = |text: &&str| ["tea", "form", "water"].map(|word| has(text, word)).to_vec();
    texts.iter().map(vector).collect()
}

/// Computes the missing vectors; returns the number of texts.
fn fill(vectors: &EmbeddingVectors, store: &Store, model: &str) -> usize {
    let mut missing = vectors.load_model(&store.snapshot(), model, 3);
    let mut texts = 0;
    while let Some(batch) = missing.next_batch(store) {
        texts += batch.texts().len();
        vectors.store_batch(&batch, &embed(&batch.texts())).unwrap();
    }
    texts
}

#[test]
fn vectors_cached_per_text_and_model() {
    let fixture = fixture();
    let store = fixture.open_warm();
    let snapshot = store.snapshot();
    let now = Instant::now();
    let vectors = EmbeddingVectors::new(&ledger(&fixture));
    assert!(!vectors.are_ready(now));
    assert!(vectors.similarity_scores(&snapshot, &[1.0, 0.0, 0.0]).is_none());
    // Description, the same with headings, and one section of each of five skills.
    assert_eq!(fill(&vectors, &store, "m1"), 15);
    assert_eq!(fill(&vectors, &store, "m1"), 0);
    assert!(vectors.are_ready(now));
    let near = vectors.similarity_scores(&snapshot, &[2.0, 0.0, 0.0]).unwrap();
    assert_eq!(near.nearest(1), ["tea"]);
    let cosines = near.cosines("tea").unwrap();
    let close = |cosine: f32, to: f32| assert!((cosine - to).abs() < 0.01, "{cosines:?}");
    close(cosines.description, 1.0);
    close(cosines.headings, 1.0);
    close(cosines.section, 0.0);
    let water = vectors.similarity_scores(&snapshot, &[0.0, 0.0, 1.0]).unwrap();
    assert!(water.cosines("tea").unwrap().section > 0.99);
    assert_eq!(near.cosines("nobody"), None);
    assert!(vectors.similarity_scores(&snapshot, &[1.0]).is_none());

    // A new start and an edit: one skill is embedded again, removed ones are dropped.
    tick(&fixture.path("skills/tea/SKILL.md"));
    write(&fixture, "tea", "Brews coffee.", "No more.");
    fs::remove_dir_all(fixture.path("skills/kubernetes")).unwrap();
    let store = fixture.open_warm();
    let vectors = EmbeddingVectors::new(&ledger(&fixture));
    assert_eq!(fill(&vectors, &store, "m1"), 3);
    let near = vectors.similarity_scores(&store.snapshot(), &[1.0, 0.0, 0.0]).unwrap();
    assert_eq!(near.nearest(9).len(), 4);
    // The vectors of another model are others.
    assert_eq!(fill(&vectors, &store, "m2"), 12);
    let other = EmbeddingVectors::new(&ledger(&fixture));
    assert_eq!((fill(&other, &store, "m1"), fill(&other, &store, "m2")), (0, 0));
    // Vectors of one model do not count for another.
    let mut missing =
        EmbeddingVectors::new(&ledger(&fixture)).load_model(&store.snapshot(), "m3", 3);
    let batch = missing.next_batch(&store).unwrap();
    other.store_batch(&batch, &embed(&batch.texts())).unwrap();
    assert_eq!(fill(&other, &store, "m3"), 12);
}

#[test]
fn vectors_rank_texts_without_shared_words() {
    let fixture = fixture();
    let store = fixture.open_warm();
    let snapshot = store.snapshot();
    let (searcher, vectors) = (SkillSearcher::new(), EmbeddingVectors::new(&ledger(&fixture)));
    fill(&vectors, &store, "m1");
    let near = vectors.similarity_scores(&snapshot, &[0.0, 0.0, 1.0]).unwrap();
    let ranker = Ranker::standard();
    assert!(ranker.uses_cosines());
    let ask = SkillQuery {
        query: "etwas mit Wasser",
        limit: 9,
        tags: &[],
        admits: &everybody,
        ranker: &ranker,
        semantics: None,
    };
    assert_eq!(searcher.search(&store, &snapshot, &ask).hits.len(), 0);
    let ask = SkillQuery { semantics: Some(&near), ..ask };
    let ids: Vec<String> = searcher
        .search(&store, &snapshot, &ask)
        .hits
        .iter()
        .map(|hit| hit.skill.id().to_string())
        .collect();
    assert!(ids.contains(&"tea".to_owned()), "{ids:?}");
    let none = |skill: &Skill| skill.id().as_str() != "tea";
    let ask = SkillQuery { admits: &none, ..ask };
    let hits = searcher.search(&store, &snapshot, &ask).hits;
    assert!(hits.iter().all(|hit| hit.skill.id().as_str() != "tea"));
}

#[test]
fn failing_model_backs_off() {
    let fixture = fixture();
    let store = fixture.open_warm();
    let vectors = EmbeddingVectors::new(&ledger(&fixture));
    fill(&vectors, &store, "m1");
    let now = Instant::now();
    let later = |seconds| now + Duration::from_secs(seconds);
    assert!(vectors.record_failure("it hangs".to_owned(), now));
    assert!(vectors.is_backing_off(now) && !vectors.are_ready(later(59)));
    assert!(!vectors.is_backing_off(later(60)) && vectors.are_ready(later(60)));
    assert!(!vectors.record_failure("it hangs again".to_owned(), later(60)));
    assert!(vectors.is_backing_off(later(119)));
    assert_eq!(vectors.unavailable_reason().as_deref(), Some("it hangs again"));
    vectors.clear_backoff();
    assert_eq!((vectors.unavailable_reason(), vectors.are_ready(now)), (None, true));
    assert!(vectors.record_failure("it is gone".to_owned(), now));
}

#[test]
fn finder_prebuilds_only_large_index() {
    let fixture = fixture();
    let store = Arc::new(fixture.open_warm());
    let finder = |full_limit: usize| {
        let config = RegistryConfig { l1_full_limit: full_limit, ..RegistryConfig::default() };
        Arc::new(SkillFinder::new(config, &store, &ledger(&fixture)))
    };
    let (few, many) = (finder(5), finder(4));
    assert!(!few.ensure_index(&store.snapshot()));
    assert!(!fixture.path("data").exists());
    assert!(many.ensure_index(&store.snapshot()));
    assert!(fixture.path("data/registry.sqlite3").exists());
    let args = ListSkillsArgs { query: Some("tea".to_owned()), ..ListSkillsArgs::default() };
    for finder in [few, many] {
        let answer = finder.list(&store.snapshot(), Audience::Model, &args, None);
        assert_eq!(answer.structured["skills"][0]["skill_id"], "tea");
        assert_eq!(answer.structured["ranked_by"], "index");
        assert_eq!(finder.warning(None), None);
        finder.vectors.record_failure("it hangs".to_owned(), Instant::now());
        let (message, _) = finder.warning(None).unwrap();
        assert_eq!(message, "skills are searched by their words alone: it hangs");
    }
}

#[test]
fn readonly_home_is_searchable() {
    let fixture = fixture();
    // A file where the directory would be.
    fixture.write("data", "");
    let store = fixture.open_warm();
    let searcher = SkillSearcher::with_catalog(&ledger(&fixture));
    assert!(searcher.sync_catalog(&store, &store.snapshot()).is_err());
    assert_eq!(ids(&searcher, &store, "boil"), ["tea"]);
    let found = |query: &str| {
        let (_, answer) = tool(&store, &searcher, Audience::Operator, json!({"query": query}));
        answer["matched"].clone()
    };
    assert_eq!((found("\"pull request\""), found("brew*")), (json!(1), json!(1)));
    let vectors = EmbeddingVectors::new(&ledger(&fixture));
    let mut missing = vectors.load_model(&store.snapshot(), "m1", 3);
    let batch = missing.next_batch(&store).unwrap();
    assert!(vectors.store_batch(&batch, &embed(&batch.texts())).is_err());
    assert!(vectors.are_ready(Instant::now()));
}
