//! The ranking is that of the formula.

use proptest::prelude::*;
use skill_search::{Analysis, Index, Ranker, Request};

use crate::catalog::{distinct, skills, text};
use crate::naive::Naive;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn candidates_and_features_are_those_of_the_formula(
        skills in skills(0..25),
        query in text(0..25),
        standard in any::<bool>(),
    ) {
        let analysis = if standard { Analysis::Standard } else { Analysis::Reference };
        let ranker = Ranker::reference();
        let index = Index::build(analysis, skills.iter().map(|skill| skill.document()));
        let found = index.features(&Request::new(&query, &ranker));
        let naive = Naive::new(analysis, *ranker.constants(), &distinct(&skills));
        let mut expected = naive.rows(&query);
        // Scores that differ in the last digits may be in another order.
        let mut rows: Vec<_> =
            found.ids.iter().zip(&found.lex).zip(&found.rows).map(|((id, lex), row)| (id, lex, row)).collect();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        rows.sort_by(|a, b| a.0.cmp(b.0));
        prop_assert_eq!(rows.len(), expected.len());
        for ((id, lex, row), (expected_id, expected_lex, features)) in rows.into_iter().zip(expected) {
            prop_assert_eq!(&**id, expected_id);
            prop_assert!((lex - expected_lex).abs() < 1e-9, "{}: {} {}", id, lex, expected_lex);
            let roots = features.map(|value| value.max(0.0).sqrt());
            for (at, expected) in features.into_iter().chain(roots).enumerate() {
                let same = (row[at] - expected).abs() < 1e-6;
                prop_assert!(same, "{} {}: {} {}", id, found.columns[at], row[at], expected);
            }
        }
    }
}
