//! Smaller catalogs out of a large one.

use std::collections::{BTreeSet, HashMap};

use super::data::{LabelledQuery, LabelledSkill};
use super::random::SplitMix64;

/// The seed of the samples.
const SEED: u64 = 5;

/// A catalog of one size and its queries.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CatalogSample {
    /// Indices of skills, in the order of the full catalog.
    pub(super) skills: Vec<usize>,
    /// Indices of queries.
    pub(super) queries: Vec<usize>,
}

/// Cuts the queries at random into chunks whose own skills fill at most half of `size`, and gives
/// every chunk a catalog of those skills and of others drawn at random. Each query is in one chunk.
/// A size that the catalog does not exceed gives one sample with everything.
pub(super) fn draw_samples(
    skills: &[LabelledSkill],
    queries: &[LabelledQuery],
    size: usize,
) -> Vec<CatalogSample> {
    if size >= skills.len() {
        let all = CatalogSample {
            skills: (0..skills.len()).collect(),
            queries: (0..queries.len()).collect(),
        };
        return vec![all];
    }
    let index: HashMap<&str, usize> =
        skills.iter().enumerate().map(|(index, skill)| (skill.id.as_str(), index)).collect();
    let mut random = SplitMix64::new(SEED);
    let mut order: Vec<usize> = (0..queries.len()).collect();
    random.shuffle(&mut order);
    let mut chunks: Vec<(BTreeSet<usize>, Vec<usize>)> = Vec::new();
    for query in order {
        let own: BTreeSet<usize> = queries[query]
            .relevant
            .iter()
            .filter_map(|id| index.get(id.as_str()).copied())
            .collect();
        match chunks.last_mut() {
            Some((held, asked)) if held.union(&own).count() <= size / 2 => {
                held.extend(own);
                asked.push(query);
            }
            _ => chunks.push((own, vec![query])),
        }
    }
    chunks
        .into_iter()
        .map(|(mut held, queries)| {
            while held.len() < size {
                held.insert(random.below(skills.len()));
            }
            CatalogSample { skills: held.into_iter().collect(), queries }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(count: usize) -> Vec<LabelledSkill> {
        (0..count)
            .map(|n| LabelledSkill { id: format!("s{n}"), ..LabelledSkill::default() })
            .collect()
    }

    fn ask(relevant: &[usize]) -> LabelledQuery {
        LabelledQuery {
            id: String::new(),
            query: String::new(),
            relevant: relevant.iter().map(|n| format!("s{n}")).collect(),
            source: String::new(),
        }
    }

    #[test]
    fn samples_cover_each_query_once() {
        let skills = catalog(200);
        let queries: Vec<LabelledQuery> = (0..60).map(|n| ask(&[n, n + 100])).collect();
        let samples = draw_samples(&skills, &queries, 40);
        let mut asked: Vec<usize> = samples.iter().flat_map(|s| s.queries.clone()).collect();
        asked.sort_unstable();
        assert_eq!(asked, (0..60).collect::<Vec<_>>());
        // Ten queries with two skills each fill half of 40.
        assert_eq!(samples.iter().map(|s| s.queries.len()).collect::<Vec<_>>(), [10; 6]);
        for CatalogSample { skills, queries } in samples {
            assert_eq!(skills.len(), 40);
            assert!(skills.is_sorted());
            for query in queries {
                assert!(skills.contains(&query) && skills.contains(&(query + 100)));
            }
        }
    }

    #[test]
    fn catalog_size_takes_all_skills() {
        let all = draw_samples(&catalog(3), &[ask(&[1]), ask(&[2])], 5_000);
        assert_eq!(all, [CatalogSample { skills: vec![0, 1, 2], queries: vec![0, 1] }]);
    }
}
