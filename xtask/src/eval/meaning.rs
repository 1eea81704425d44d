//! Nearness of meanings by the default word vectors, as the registry has it from an embedding
//! extension.

use std::collections::HashMap;

use skill_search::{CosineScores, EmbeddingSimilarity};
use word_vectors::VectorTable;

use super::data::LabelledSkill;

/// Sections of a body that get a vector.
const SECTIONS: usize = 40;

/// The words of a section, and the number of them that the next section repeats.
const WORDS: usize = 200;
const REPEATED: usize = 40;

/// The vectors of a catalog.
pub(super) struct CatalogVectors<'a> {
    table: VectorTable,
    skills: HashMap<&'a str, SkillSectionVectors>,
}

struct SkillSectionVectors {
    description: Vec<f32>,
    headings: Vec<f32>,
    sections: Vec<Vec<f32>>,
}

/// The vectors of a catalog's chosen skills, seen from a query.
pub(super) struct QueryCosines<'v, 'a> {
    vectors: &'v CatalogVectors<'a>,
    ids: &'v [&'v str],
    query: Vec<f32>,
}

impl<'a> CatalogVectors<'a> {
    pub(super) fn embed_catalog(skills: &'a [LabelledSkill]) -> Self {
        let table = VectorTable::static_minilm();
        let vectors = |skill: &'a LabelledSkill| {
            let text = format!("{} {}", skill.name.replace('-', " "), skill.description);
            let skilled = SkillSectionVectors {
                description: table.embed(&text),
                headings: table.embed(&format!("{text} {}", skill.headings.join(" "))),
                sections: sections(&skill.body).iter().map(|text| table.embed(text)).collect(),
            };
            (skill.id.as_str(), skilled)
        };
        let skills = skills.iter().map(vectors).collect();
        Self { table, skills }
    }

    /// Returns the skills with these ids that are near a query.
    pub(super) fn cosines_to<'v>(
        &'v self,
        ids: &'v [&'v str],
        query: &str,
    ) -> QueryCosines<'v, 'a> {
        QueryCosines { vectors: self, ids, query: self.table.embed(query) }
    }
}

impl EmbeddingSimilarity for QueryCosines<'_, '_> {
    fn cosines(&self, id: &str) -> Option<CosineScores> {
        let skilled = self.vectors.skills.get(id)?;
        let to_query = |vector: &Vec<f32>| dot(vector, &self.query);
        let best = skilled.sections.iter().map(to_query).max_by(f32::total_cmp);
        Some(CosineScores {
            description: to_query(&skilled.description),
            headings: to_query(&skilled.headings),
            section: best.unwrap_or_default(),
        })
    }

    fn nearest(&self, limit: usize) -> Vec<&str> {
        let cosine = |id: &&str| {
            let skilled = self.vectors.skills.get(id);
            skilled.map_or(0.0, |skilled| dot(&skilled.description, &self.query))
        };
        let mut all: Vec<(f32, &str)> = self.ids.iter().map(|id| (cosine(id), *id)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().take(limit).map(|(_, id)| id).collect()
    }
}

fn sections(body: &str) -> Vec<String> {
    let words: Vec<&str> = body.split_whitespace().collect();
    let mut found = Vec::new();
    let mut start = 0;
    while start < words.len() && found.len() < SECTIONS {
        found.push(words[start..words.len().min(start + WORDS)].join(" "));
        start += WORDS - REPEATED;
    }
    found
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_overlap_and_are_bounded() {
        let body = |count: usize| (0..count).map(|n| format!("w{n} ")).collect::<String>();
        let ends: Vec<(String, String)> = sections(&body(361))
            .iter()
            .map(|section| {
                let words: Vec<&str> = section.split(' ').collect();
                (words[0].to_owned(), words[words.len() - 1].to_owned())
            })
            .collect();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(ends, [pair("w0", "w199"), pair("w160", "w359"), pair("w320", "w360")]);
        assert_eq!(sections(&body(20_000)).len(), SECTIONS);
        assert_eq!(sections(""), Vec::<String>::new());
    }

    #[test]
    fn equal_meaning_is_nearest() {
        let skill = |id: &str, description: &str| LabelledSkill {
            id: id.into(),
            description: description.into(),
            ..LabelledSkill::default()
        };
        let skills =
            [skill("art", "Watercolour painting for beginners"), skill("sql", "Database queries")];
        let vectors = CatalogVectors::embed_catalog(&skills);
        let ids = ["art", "sql"];
        let near = vectors.cosines_to(&ids, "tune a slow SQL database");
        assert_eq!(near.nearest(1), ["sql"]);
        let description = |id| near.cosines(id).map(|cosines| cosines.description);
        assert!(description("sql") > description("art"));
        assert_eq!(near.cosines("none"), None);
    }
}
