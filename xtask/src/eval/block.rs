//! The catalog in the prompt: whether the skill that a task needs has a line there.

use std::collections::HashMap;

use skill_format::{CatalogItem, SkillSelection, render_selection, shorten_description};
use skill_search::{Ranker, TextAnalyzer};

use super::data::{LabelledQuery, LabelledSkill};
use super::sample::draw_samples;
use super::trial;

/// The size of the catalogs.
pub(super) const SIZE: usize = 1_000;

/// The characters that the block may have.
pub(super) const BUDGET: usize = 8_000;

/// Returns for each query whether the block of a session's first prompt has a line for a labeled
/// skill.
pub(super) fn listed_in_block(
    skills: &[LabelledSkill],
    queries: &[LabelledQuery],
    ranker: &Ranker,
) -> Vec<bool> {
    let short: Vec<_> =
        skills.iter().map(|skill| shorten_description(&skill.description)).collect();
    let mut found = Vec::new();
    for sample in draw_samples(skills, queries, SIZE) {
        let index = trial::build_index(TextAnalyzer::Standard, skills, &sample.skills);
        let mut items: Vec<CatalogItem<'_>> = sample
            .skills
            .iter()
            .map(|&at| CatalogItem { id: &skills[at].id, description: &short[at] })
            .collect();
        items.sort_by_key(|item| item.id);
        let by_id: HashMap<&str, CatalogItem<'_>> =
            items.iter().map(|item| (item.id, *item)).collect();
        for query in sample.queries.iter().map(|&query| &queries[query]) {
            let ranked = trial::rank_skills(&index, ranker, None, query);
            let matched: Vec<_> =
                ranked.iter().filter_map(|id| by_id.get(id.as_str()).copied()).collect();
            let choice = SkillSelection {
                stable: &[],
                matched: &matched,
                others: &items,
                total: items.len(),
            };
            let block = render_selection(&choice, BUDGET);
            let ids = block.iter().flat_map(|block| block.shown.ids());
            found.push(ids.into_iter().any(|id| query.relevant.iter().any(|it| it == id)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn match_keeps_line_in_large_catalog() {
        let mut skills: Vec<LabelledSkill> = (0..900)
            .map(|n| LabelledSkill {
                id: format!("a{n:03}"),
                description: "Words about all sorts of things, none of which matters.".into(),
                ..LabelledSkill::default()
            })
            .collect();
        skills.push(LabelledSkill {
            id: "z".into(),
            description: "Counts beads on a string.".into(),
            ..LabelledSkill::default()
        });
        let query = |text: &str| LabelledQuery {
            id: String::new(),
            query: text.into(),
            relevant: vec!["z".into()],
            source: String::new(),
        };
        let queries = [query("how many beads are there?"), query("bake a cake")];
        assert_eq!(listed_in_block(&skills, &queries, &Ranker::standard()), [true, false]);
    }
}
