//! Tests that every query returns a result.

use std::cell::Cell;

use proptest::prelude::*;
use skill_search::{Document, Index, Ranker, SearchRequest, TextAnalyzer};

use crate::catalog::{Skill, skills};

fn index() -> Index {
    let rows = [
        ("beads", "Counts beads on a string", "AND or NOT NEAR quotes"),
        ("emoji", "Launches rockets 🚀 of 部署 and שלום", "rocket"),
        ("tests", "Tests NEAR misses", "beads"),
    ];
    let documents = rows.map(|(id, description, body)| Document {
        id,
        name: id,
        description,
        body,
        ..Document::default()
    });
    Index::build(TextAnalyzer::Standard, documents)
}

fn found(query: &str) -> Vec<String> {
    let ranker = Ranker::standard();
    let hits = index().search(&SearchRequest::new(query, &ranker));
    hits.iter().map(|hit| hit.id.to_string()).collect()
}

#[test]
fn query_has_no_special_syntax() {
    let beads = ["beads", "tests"];
    let long = format!("beads {}", "x y z ".repeat(200_000));
    let rows: [(&str, &[&str]); 14] = [
        ("beads", &beads),
        ("\"beads* AND (\"", &beads),
        ("name:beads^2 -- '; DROP TABLE skills", &beads),
        ("be\0ads beads\0", &beads),
        (&long, &beads),
        ("", &[]),
        ("  \n\t", &[]),
        ("the of and", &[]),
        ("🚀", &[]),
        ("🚀🚀 rocket", &["emoji"]),
        ("部署", &["emoji"]),
        ("\u{202e}שלום", &["emoji"]),
        ("* OR ( ) : ^ \" '", &[]),
        ("NEAR(beads, 5)", &beads),
    ];
    for (query, expected) in rows {
        let start: String = query.chars().take(40).collect();
        assert_eq!(found(query), expected, "{start}");
    }
}

#[test]
fn query_beyond_limit_is_ignored() {
    let filler = "z ".repeat(8 * 1024);
    assert_eq!(found(&format!("{filler}beads")), Vec::<String>::new());
    assert_eq!(found(&format!("{}beads", &filler[..filler.len() - 6])), ["beads", "tests"]);
}

#[test]
fn admits_is_called_only_as_needed() {
    let skills: Vec<Skill> = (0..1_000)
        .map(|id| Skill {
            id: format!("skill-{id:03}"),
            description: format!("beads {}", "filler ".repeat(id)),
            ..Skill::default()
        })
        .collect();
    let index = Index::build(TextAnalyzer::Standard, skills.iter().map(Skill::document));
    let ranker = Ranker::standard();
    let calls = Cell::new(0);
    let search = |admits: &dyn Fn(&str) -> bool| {
        calls.set(0);
        let admits = |id: &str| {
            calls.set(calls.get() + 1);
            admits(id)
        };
        let request =
            SearchRequest { limit: 1_000, admits: &admits, ..SearchRequest::new("beads", &ranker) };
        let hits = index.search(&request);
        (hits.first().map(|hit| hit.id.to_string()), hits.len(), calls.get())
    };
    assert_eq!(search(&|_| true), (Some("skill-000".to_owned()), 100, 100));
    assert_eq!(search(&|_| false), (None, 0, 1_000));
    let even = |id: &str| id.ends_with(['1', '3', '5', '7', '9']);
    let (best, count, calls) = search(&even);
    assert_eq!((best, count), (Some("skill-001".to_owned()), 100));
    assert!((200..=300).contains(&calls), "{calls}");
}

#[test]
fn documents_of_any_size_are_indexed() {
    let word = "a".repeat(100_000);
    let ideographs = "部署服务".repeat(20_000);
    let many: Vec<&str> = vec!["beads beads"; 20_000];
    let rows = [
        Document {
            id: "words",
            name: &word,
            description: &word,
            body: &word,
            ..Document::default()
        },
        Document {
            id: "ideographs",
            name: &ideographs,
            description: &ideographs,
            when_to_use: &ideographs,
            tags: vec![&ideographs; 3],
            headings: vec![&ideographs; 3],
            body: &ideographs,
        },
        Document { id: "lists", tags: many.clone(), headings: many, ..Document::default() },
        Document { id: "", ..Document::default() },
    ];
    let index = Index::build(TextAnalyzer::Standard, rows);
    let ranker = Ranker::standard();
    for (query, id) in [("署服", "ideographs"), ("bead", "lists"), (&word[..16_000], "words")] {
        let hits = index.search(&SearchRequest::new(query, &ranker));
        assert_eq!(hits.iter().map(|hit| &*hit.id).collect::<Vec<_>>(), [id]);
        assert!(hits[0].score.is_finite());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_text_returns_finite_scores(skills in skills(0..6), query in any::<String>(), body in any::<String>()) {
        let other = Document { id: "other", description: &query, body: &body, ..Document::default() };
        for analysis in [TextAnalyzer::Reference, TextAnalyzer::Standard] {
            let documents = skills.iter().map(Skill::document).chain([other.clone()]);
            let index = Index::build(analysis, documents);
            for name in Ranker::NAMES {
                let ranker = Ranker::from_name(name).unwrap();
                let hits = index.search(&SearchRequest::new(&query, &ranker));
                prop_assert!(hits.iter().all(|hit| hit.score.is_finite()));
                let has_terms = !analysis.terms(&query).is_empty();
                prop_assert_eq!(hits.iter().any(|hit| &*hit.id == "other"), has_terms);
            }
        }
    }
}
