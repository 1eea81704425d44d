//! The worked examples of the reference ranker.

use skill_search::{Index, Ranker, SearchRequest, TextAnalyzer};

use super::data::GoldenExample;

/// The permitted difference of a score from the example.
const TOLERANCE: f64 = 1e-4;

/// Compares the product's reference ranker with the examples; returns a line for each difference.
pub(super) fn find_differences(index: &Index, examples: &[GoldenExample]) -> Vec<String> {
    let ranker = Ranker::reference();
    examples
        .iter()
        .flat_map(|example| {
            let found = difference(index, &ranker, example);
            found.into_iter().map(|what| format!("{}: {what}", example.id))
        })
        .collect()
}

fn difference(index: &Index, ranker: &Ranker, example: &GoldenExample) -> Vec<String> {
    let mut found = Vec::new();
    let tokens = TextAnalyzer::Reference.terms(&example.query);
    if tokens != example.tokens {
        found.push(format!("tokens {tokens:?}, not {:?}", example.tokens));
    }
    let request = SearchRequest {
        limit: example.lexical.len(),
        ..SearchRequest::new(&example.query, ranker)
    };
    let hits = index.search(&request);
    let same = hits.len() == example.lexical.len()
        && hits
            .iter()
            .zip(&example.lexical)
            .all(|(hit, (id, score))| *hit.id == **id && (hit.score - score).abs() <= TOLERANCE);
    if !same {
        let hits: Vec<_> = hits.iter().map(|hit| (&*hit.id, hit.score)).collect();
        found.push(format!("ranked {hits:?}, not {:?}", example.lexical));
    }
    let candidates = index.collect_features(&request);
    let first = example.lexical.first().map(|(id, _)| id.as_str());
    let row = candidates.ids.iter().position(|id| Some(&**id) == first);
    let features = row.map_or(&[][..], |row| &candidates.rows[row]);
    let wanted = &example.lexical_top1_features;
    // The reference may have fewer columns; ours come after them.
    let same = features.len() >= wanted.len()
        && features.iter().zip(wanted).all(|(is, wanted)| (is - wanted).abs() <= TOLERANCE);
    if !same {
        found.push(format!("features {features:?}, not {wanted:?}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use skill_search::Document;

    use super::*;

    fn index() -> Index {
        let documents = [("beads", "Counts beads."), ("pdf", "Fills in forms.")];
        let documents = documents.map(|(id, description)| Document {
            id,
            name: id,
            description,
            ..Document::default()
        });
        Index::build(TextAnalyzer::Reference, documents)
    }

    /// Returns the example that the index itself gives.
    fn example() -> GoldenExample {
        let ranker = Ranker::reference();
        let request = SearchRequest::new("count the beads", &ranker);
        let hits = index().search(&request);
        GoldenExample {
            id: "q1".into(),
            query: "count the beads".into(),
            tokens: vec!["count".into(), "bead".into()],
            lexical: hits.iter().map(|hit| (hit.id.to_string(), hit.score)).collect(),
            lexical_top1_features: index().collect_features(&request).rows[0][..11].to_vec(),
        }
    }

    #[test]
    fn golden_differences_give_one_line_each() {
        assert_eq!(find_differences(&index(), &[example()]), Vec::<String>::new());
        let mut near = example();
        near.lexical[0].1 += TOLERANCE / 2.0;
        assert_eq!(find_differences(&index(), &[near]), Vec::<String>::new());
        let mut other = example();
        other.tokens[0] = "counts".into();
        other.lexical[0].1 += 2.0 * TOLERANCE;
        other.lexical_top1_features[3] -= 2.0 * TOLERANCE;
        let lines = find_differences(&index(), &[other]);
        let starts: Vec<_> = lines.iter().map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(starts, [Some("tokens"), Some("ranked"), Some("features")], "{lines:?}");
    }
}
