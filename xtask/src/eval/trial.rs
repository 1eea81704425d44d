//! Rankers that run the queries.

use std::fmt;
use std::time::{Duration, Instant};

use skill_search::{Document, EmbeddingSimilarity, Index, Ranker, SearchRequest, TextAnalyzer};

use super::data::{LabelledQuery, LabelledSkill};

/// The number of requested hits, which the measures use.
const LIMIT: usize = 100;

/// Builds an index over some skills of a catalog.
pub(super) fn build_index(
    analysis: TextAnalyzer,
    skills: &[LabelledSkill],
    chosen: &[usize],
) -> Index {
    let documents = chosen.iter().map(|&at| Document {
        id: &skills[at].id,
        name: &skills[at].name,
        description: &skills[at].description,
        when_to_use: &skills[at].when_to_use,
        tags: skills[at].tags.iter().map(String::as_str).collect(),
        headings: skills[at].headings.iter().map(String::as_str).collect(),
        body: &skills[at].body,
    });
    Index::build(analysis, documents)
}

/// Returns the ids that a ranker finds for a query, best first.
pub(super) fn rank_skills(
    index: &Index,
    ranker: &Ranker,
    semantics: Option<&dyn EmbeddingSimilarity>,
    query: &LabelledQuery,
) -> Vec<String> {
    let request =
        SearchRequest { limit: LIMIT, semantics, ..SearchRequest::new(&query.query, ranker) };
    index.search(&request).into_iter().map(|hit| hit.id.to_string()).collect()
}

/// The durations of queries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct QueryTimes {
    pub(super) median: Duration,
    pub(super) p99: Duration,
}

impl QueryTimes {
    /// Measures the ten best hits of every query, after a warm-up round.
    pub(super) fn measure(index: &Index, ranker: &Ranker, queries: &[LabelledQuery]) -> Self {
        let round = || -> Vec<Duration> {
            let timed = |query: &LabelledQuery| {
                let started = Instant::now();
                std::hint::black_box(index.search(&SearchRequest::new(&query.query, ranker)));
                started.elapsed()
            };
            queries.iter().map(timed).collect()
        };
        round();
        Self::from_all(round())
    }

    fn from_all(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |percent: usize| {
            let last = all.len().saturating_sub(1);
            all.get(last * percent / 100).copied().unwrap_or_default()
        };
        Self { median: at(50), p99: at(99) }
    }
}

impl fmt::Display for QueryTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "median {:.2} ms, p99 {:.2} ms", ms(self.median), ms(self.p99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_report_median_and_tail() {
        let all = (0..=200).rev().map(Duration::from_millis).collect();
        let median = Duration::from_millis(100);
        assert_eq!(
            QueryTimes::from_all(all),
            QueryTimes { median, p99: Duration::from_millis(198) }
        );
        let none = QueryTimes { median: Duration::ZERO, p99: Duration::ZERO };
        assert_eq!(QueryTimes::from_all(Vec::new()), none);
    }

    #[test]
    fn ranker_sees_chosen_skills_only() {
        let skill = |id: &str, description: &str| LabelledSkill {
            id: id.into(),
            name: id.into(),
            description: description.into(),
            ..LabelledSkill::default()
        };
        let skills =
            [skill("a", "Count beads."), skill("b", "Count pearls, beads."), skill("c", "")];
        let query = LabelledQuery {
            id: "q".into(),
            query: "count beads".into(),
            relevant: vec!["b".into()],
            source: String::new(),
        };
        let ranker = Ranker::bm25f();
        let all = build_index(TextAnalyzer::Standard, &skills, &[0, 1, 2]);
        assert_eq!(rank_skills(&all, &ranker, None, &query), ["a", "b"]);
        let some = build_index(TextAnalyzer::Standard, &skills, &[1, 2]);
        assert_eq!(rank_skills(&some, &ranker, None, &query), ["b"]);
    }
}
