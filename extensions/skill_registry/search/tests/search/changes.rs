//! Tests that an updated index equals a new one.

use std::collections::BTreeMap;

use proptest::prelude::*;
use skill_search::{Index, Ranker, SearchRequest, TextAnalyzer};

use crate::catalog::{Skill, skills, text};

/// Returns the complete explanations of some queries.
fn answers(index: &Index) -> Vec<String> {
    let queries = [
        "count the beads on a string",
        "publish a C++ package. Release the version; deploy_app",
        "部署服务 café привет",
        "w1 w4 w9 x1",
    ];
    let rankers = [Ranker::standard(), Ranker::bm25f()];
    let answer = |query: &str, ranker: &Ranker| {
        // Debug prints floats so that no two have the same text.
        format!("{:?}", index.explain(&SearchRequest::new(query, ranker), 100))
    };
    queries.iter().flat_map(|query| rankers.iter().map(|it| answer(query, it))).collect()
}

fn built(skills: &BTreeMap<String, Skill>) -> Index {
    Index::build(TextAnalyzer::Standard, skills.values().map(Skill::document))
}

fn check(start: &[Skill], changes: &[(Vec<Skill>, Vec<u32>)]) {
    let mut skills: BTreeMap<String, Skill> =
        start.iter().map(|skill| (skill.id.clone(), skill.clone())).collect();
    let mut index = Index::build(TextAnalyzer::Standard, start.iter().map(Skill::document));
    assert_eq!(answers(&index), answers(&built(&skills)));
    for (put, removed) in changes {
        let removed: Vec<String> = removed.iter().map(|id| format!("skill-{id}")).collect();
        let ids: Vec<&str> = removed.iter().map(String::as_str).collect();
        let before = (index.clone(), answers(&index));
        index = index.with_updates(put.iter().map(Skill::document), &ids);
        ids.iter().for_each(|id| drop(skills.remove(*id)));
        skills.extend(put.iter().map(|skill| (skill.id.clone(), skill.clone())));
        assert_eq!(answers(&index), answers(&built(&skills)));
        assert_eq!(answers(&before.0), before.1, "the previous index has changed");
        assert_eq!((index.len(), index.is_empty()), (skills.len(), skills.is_empty()));
        for id in (0..40).map(|id| format!("skill-{id}")) {
            assert_eq!(index.contains(&id), skills.contains_key(&id), "{id}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..Default::default() })]

    #[test]
    fn updated_index_equals_new_index(
        start in skills(0..30),
        changes in prop::collection::vec(
            (skills(0..4), prop::collection::vec(0_u32..40, 0..4)),
            1..8,
        ),
    ) {
        check(&start, &changes);
    }
}

fn plain(id: usize, description: &str) -> Skill {
    let (id, name) = (format!("skill-{id:03}"), format!("number-{}", id % 7));
    let body = format!("# Beads {id}\n{description} string beads publish package\n");
    Skill { id, name, description: description.to_owned(), body, ..Skill::default() }
}

#[test]
fn many_updates_merge_segments() {
    let start: Vec<Skill> = (0..300).map(|id| plain(id, "count beads")).collect();
    let mut skills: BTreeMap<String, Skill> =
        start.iter().map(|skill| (skill.id.clone(), skill.clone())).collect();
    // Enough documents for two threads.
    let mut index = built(&skills);
    let mut before = index.heap_bytes();
    let mut shrunk = 0;
    for step in 0..200 {
        let id = step * 17 % 330;
        if step % 5 == 0 {
            let id = format!("skill-{id:03}");
            index = index.with_updates([], &[&id]);
            skills.remove(&id);
        } else {
            let skill = plain(id, ["release version x1", "deploy_app café"][step % 2]);
            index = index.with_updates([skill.document()], &[]);
            skills.insert(skill.id.clone(), skill);
        }
        shrunk += usize::from(index.heap_bytes() + 1_000 < before);
        before = index.heap_bytes();
        if step % 20 == 19 {
            assert_eq!(answers(&index), answers(&built(&skills)), "{step}");
        }
    }
    assert!(shrunk >= 2, "never merged");
    let ids: Vec<&str> = skills.keys().map(String::as_str).collect();
    let empty = index.with_updates([], &ids);
    assert_eq!(answers(&empty), answers(&built(&BTreeMap::new())));
    assert!(empty.is_empty());
}

#[test]
fn deep_terms_match_without_counting() {
    let deep =
        |id| Skill { body: format!("{}\nzebra beads\n", "x ".repeat(4_100)), ..plain(id, "x") };
    let skills = [deep(1), plain(2, "zebra"), plain(3, "count"), deep(4)];
    let all = |skills: &[Skill]| {
        let documents = skills.iter().map(Skill::document);
        Index::build(TextAnalyzer::Standard, documents)
    };
    let ranker = Ranker::reference();
    let request = SearchRequest::new("zebra", &ranker);
    let built = all(&skills);
    let explanation = built.explain(&request, 10);
    assert_eq!(explanation.terms[0].skills, 1);
    let found: Vec<_> = built.search(&request);
    let found: Vec<_> = found.iter().map(|hit| (&*hit.id, hit.fields.names())).collect();
    let expected =
        [("skill-002", vec!["description", "body"]), ("skill-001", vec![]), ("skill-004", vec![])];
    assert_eq!(found, expected);
    let changed = all(&[plain(1, "y"), plain(2, "zebra"), plain(4, "y")])
        .with_updates(skills[2..].iter().map(Skill::document), &[])
        .with_updates([skills[0].document()], &[]);
    assert_eq!(format!("{:?}", changed.explain(&request, 10)), format!("{explanation:?}"));
}

#[test]
fn later_document_and_insert_win() {
    let documents = [plain(1, "count"), plain(2, "publish"), plain(1, "deploy")];
    let index = Index::build(TextAnalyzer::Standard, documents.iter().map(Skill::document));
    let expected: BTreeMap<_, _> =
        documents.iter().map(|skill| (skill.id.clone(), skill.clone())).collect();
    assert_eq!(answers(&index), answers(&built(&expected)));
    let changed = index.with_updates([documents[0].document()], &["skill-001", "skill-404"]);
    assert!(changed.contains("skill-001"));
    assert_eq!(changed.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn document_order_is_irrelevant(skills in skills(1..20), query in text(1..10)) {
        let distinct = crate::catalog::distinct(&skills);
        let forwards = Index::build(TextAnalyzer::Standard, distinct.iter().map(|it| it.document()));
        let backwards =
            Index::build(TextAnalyzer::Standard, distinct.iter().rev().map(|it| it.document()));
        let ranker = Ranker::standard();
        let request = SearchRequest::new(&query, &ranker);
        prop_assert_eq!(forwards.search(&request), backwards.search(&request));
    }
}
