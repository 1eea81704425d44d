//! The ranking is that of the formula.

use proptest::prelude::*;
use skill_search::{Analysis, Index, Ranker, Request};

use crate::catalog::{distinct, skills, text};
use crate::naive::Naive;

/// Which of the naive features the rankers have, in their order.
const REFERENCE: [usize; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const STANDARD: [usize; 14] = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14];

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn candidates_and_features_are_those_of_the_formula(
        skills in skills(0..25),
        query in text(0..25),
        standard in any::<bool>(),
    ) {
        let (analysis, ranker, features) = match standard {
            true => (Analysis::Standard, Ranker::standard(), &STANDARD[..]),
            false => (Analysis::Reference, Ranker::reference(), &REFERENCE[..]),
        };
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
        for ((id, lex, row), (expected_id, expected_lex, naive)) in rows.into_iter().zip(expected) {
            prop_assert_eq!(&**id, expected_id);
            prop_assert!((lex - expected_lex).abs() < 1e-9, "{}: {} {}", id, lex, expected_lex);
            let expected = features.iter().map(|&at| naive[at]);
            let roots = expected.clone().map(|value: f64| value.max(0.0).sqrt());
            prop_assert_eq!(row.len(), 2 * features.len());
            for (at, expected) in expected.chain(roots).enumerate() {
                let same = (row[at] - expected).abs() < 1e-6;
                prop_assert!(same, "{} {}: {} {}", id, found.columns[at], row[at], expected);
            }
        }
    }
}
