//! Tests that the ranking follows its formula.

use proptest::prelude::*;
use skill_search::{Index, Ranker, SearchRequest, TextAnalyzer};

use crate::catalog::{Skill, distinct, skills, text};
use crate::naive::Naive;

/// The indexes of the naive features in the reference ranker.
const REFERENCE: [usize; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/// The indexes of the naive features in the standard ranker.
const STANDARD: [usize; 14] = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14];

/// Compares the candidates of a query and their features with the formula.
fn check(analysis: TextAnalyzer, skills: &[Skill], query: &str) {
    let (ranker, features) = match analysis {
        TextAnalyzer::Standard => (Ranker::standard(), &STANDARD[..]),
        TextAnalyzer::Reference => (Ranker::reference(), &REFERENCE[..]),
    };
    let index = Index::build(analysis, skills.iter().map(Skill::document));
    let found = index.collect_features(&SearchRequest::new(query, &ranker));
    let naive = Naive::new(analysis, *ranker.constants(), &distinct(skills));
    let mut expected = naive.rows(query);
    let rows = found.ids.iter().zip(&found.lex).zip(&found.rows);
    let mut rows: Vec<_> = rows.map(|((id, lex), row)| (id, lex, row)).collect();
    // Scores that differ only in the last digits may be in another order.
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    rows.sort_by(|a, b| a.0.cmp(b.0));
    assert_eq!(rows.len(), expected.len(), "{query:?}");
    for ((id, lex, row), (expected_id, expected_lex, naive)) in rows.into_iter().zip(expected) {
        assert_eq!(**id, expected_id);
        assert!((lex - expected_lex).abs() < 1e-9, "{id}: {lex} {expected_lex}");
        let expected = features.iter().map(|&at| naive[at]);
        let roots = expected.clone().map(|value: f64| value.max(0.0).sqrt());
        assert_eq!(row.len(), 2 * features.len());
        for (at, expected) in expected.chain(roots).enumerate() {
            let (column, value) = (&found.columns[at], row[at]);
            assert!((value - expected).abs() < 1e-6, "{query:?} {id} {column}: {value} {expected}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn features_match_formula(
        skills in skills(0..25),
        query in text(0..25),
        standard in any::<bool>(),
    ) {
        check(if standard { TextAnalyzer::Standard } else { TextAnalyzer::Reference }, &skills, &query);
    }
}

#[test]
fn word_at_body_end_is_cut() {
    let words = "publish packaging versions\ncolours c++ 部署服务 ";
    for shift in 0..words.chars().count() {
        let body = format!("{} {}", "x".repeat(shift), words.repeat(250));
        let read: Vec<char> = body.chars().take(8_000).collect();
        let end: String = read[7_975..].iter().collect();
        let id = "skill".to_owned();
        let skill = Skill { id, name: "beads".to_owned(), body, ..Skill::default() };
        for analysis in [TextAnalyzer::Reference, TextAnalyzer::Standard] {
            check(analysis, std::slice::from_ref(&skill), &end);
        }
    }
}
