//! Fuzzes the search index: any texts, any query, either analysis; an update equals a rebuild.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill_search::{Document, Index, Ranker, SearchRequest, TextAnalyzer, extract_headings};

fuzz_target!(|texts: (&str, &str, &str, &str)| {
    let (name, description, body, query) = texts;
    let document = Document { id: "a", name, description, body, ..Document::default() };
    let document = Document { headings: extract_headings(body), ..document };
    let other = Document { id: "b", description: query, body: name, ..Document::default() };
    for analysis in [TextAnalyzer::Reference, TextAnalyzer::Standard] {
        let built = Index::build(analysis, [document.clone(), other.clone()]);
        let changed = Index::build(analysis, [other.clone()]).with_updates([document.clone()], &[]);
        for name in Ranker::NAMES {
            let Some(ranker) = Ranker::from_name(name) else { continue };
            let request = SearchRequest::new(query, &ranker);
            let hits = built.search(&request);
            assert!(hits.iter().all(|hit| hit.score.is_finite()));
            assert_eq!(hits, changed.search(&request));
        }
    }
});
