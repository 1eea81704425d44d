//! A second implementation of the ranking, directly from its formula: without index, postings or
//! positions.

use std::collections::BTreeSet;

use skill_search::{Bm25fConstants, TextAnalyzer};

use crate::catalog::Skill;

/// The terms of a skill.
struct Terms {
    id: String,
    fields: [Vec<String>; 5],
    sections: Vec<Vec<String>>,
}

pub(crate) struct Naive {
    analysis: TextAnalyzer,
    constants: Bm25fConstants,
    skills: Vec<Terms>,
}

/// A candidate: id, BM25F score, the eleven features of the reference, the four further ones of
/// the standard ranker.
pub(crate) type Row = (String, f64, [f64; 15]);

fn first(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

fn count(terms: &[String], term: &String) -> f64 {
    terms.iter().filter(|it| *it == term).count() as f64
}

fn distinct(terms: &[String]) -> Vec<&String> {
    let mut found: Vec<&String> = Vec::new();
    terms.iter().for_each(|term| {
        if !found.contains(&term) {
            found.push(term);
        }
    });
    found
}

impl Naive {
    /// Creates the ranking of skills, which must be in the order of their ids.
    pub(crate) fn new(
        analysis: TextAnalyzer,
        constants: Bm25fConstants,
        skills: &[&Skill],
    ) -> Self {
        let terms = |skill: &&Skill| Terms {
            id: skill.id.clone(),
            fields: [
                analysis.terms(&skill.name),
                analysis.terms(&format!("{} {}", skill.description, skill.when_to_use)),
                analysis.terms(&skill.tags.join(" ")),
                analysis.terms(&skill.headings.join(" ")),
                analysis.terms(&first(&skill.body, 8_000)),
            ],
            sections: sections(analysis, &first(&skill.body, 12_000)),
        };
        Self { analysis, constants, skills: skills.iter().map(terms).collect() }
    }

    fn rarity(&self, term: &String) -> f64 {
        let all = self.skills.len() as f64;
        let has = |skill: &&Terms| skill.fields.iter().flatten().any(|it| it == term);
        let df = self.skills.iter().filter(has).count() as f64;
        (1.0 + (all - df + 0.5) / (df + 0.5)).ln().powf(self.constants.idf_power)
    }

    fn sat(&self, frequency: f64) -> f64 {
        frequency * (self.constants.k1 + 1.0) / (frequency + self.constants.k1)
    }

    fn normed(&self, skill: &Terms, field: usize, term: &String) -> f64 {
        let total: usize = self.skills.iter().map(|it| it.fields[field].len()).sum();
        let average = (total as f64 / self.skills.len() as f64).max(1e-9);
        let b = self.constants.length[field];
        let terms = &skill.fields[field];
        count(terms, term) / (1.0 - b + b * terms.len() as f64 / average)
    }

    fn combined(&self, skill: &Terms, term: &String) -> f64 {
        let weighted = |field| self.constants.weights[field] * self.normed(skill, field, term);
        self.sat((0..5).map(weighted).sum())
    }

    /// Returns the candidates of a query, best BM25F score first, then in the order of their ids.
    pub(crate) fn rows(&self, query: &str) -> Vec<Row> {
        let q = self.analysis.terms(query);
        let terms = distinct(&q);
        let weigh = |of: &[String]| -> Vec<(String, f64)> {
            let weight = |term: &&String| count(of, term).sqrt() * self.rarity(term);
            distinct(of).iter().map(|term| ((*term).clone(), weight(term))).collect()
        };
        let u = weigh(&q);
        let mass = u.iter().map(|(_, u)| u).sum::<f64>() + 1e-6;
        let distinct_mass = terms.iter().map(|term| self.rarity(term)).sum::<f64>() + 1e-6;
        let lex = |skill: &Terms, u: &[(String, f64)]| -> f64 {
            u.iter().map(|(term, u)| u * self.combined(skill, term)).sum()
        };
        let has = |skill: &&Terms| {
            let mut all = skill.fields.iter().chain(&skill.sections).flatten();
            all.any(|term| terms.contains(&term))
        };
        let mut found: Vec<(f64, &Terms)> =
            self.skills.iter().filter(has).map(|skill| (lex(skill, &u), skill)).collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.truncate(100);
        let max = found.first().map_or(0.0, |best| best.0).max(1e-9);
        let mut sentences: Vec<Vec<String>> = sentences(query)
            .iter()
            .map(|sentence| self.analysis.terms(sentence))
            .filter(|terms| distinct(terms).len() >= 2)
            .take(30)
            .collect();
        if sentences.is_empty() {
            sentences.push(q.clone());
        }
        let in_fields = |skill: &Terms, fields: &[usize], term: &String| {
            fields.iter().any(|&field| skill.fields[field].contains(term))
        };
        let summary_share = |term: &String| {
            let with = |fields: &[usize]| {
                self.skills.iter().filter(|skill| in_fields(skill, fields, term)).count() as f64
            };
            ((with(&[0, 1]) + 0.3) / (with(&[0, 1, 2, 3, 4]) + 1.0)).sqrt()
        };
        let first = &found[..found.len().min(50)];
        let local = |term: &String| {
            let with = |(_, skill): &&(f64, &Terms)| in_fields(skill, &[0, 1, 2, 3, 4], term);
            let (all, with) = (first.len() as f64, first.iter().filter(with).count() as f64);
            (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
        };
        let reweighed = |skill: &Terms, worth: &dyn Fn(&String) -> f64| {
            let v: Vec<_> = u.iter().map(|(term, u)| (term.clone(), u * worth(term))).collect();
            lex(skill, &v) / (v.iter().map(|(_, v)| v).sum::<f64>() + 1e-6)
        };
        let pairs: BTreeSet<_> = q.windows(2).map(|pair| (&pair[0], &pair[1])).collect();
        let row = |(score, skill): &(f64, &Terms)| {
            let sum = |value: &dyn Fn(&String) -> f64| -> f64 {
                u.iter().map(|(term, u)| u * value(term)).sum()
            };
            let in_field = |field| sum(&|term| self.sat(self.normed(skill, field, term))) / mass;
            let all: Vec<&String> = skill.fields.iter().flatten().collect();
            let covered = terms.iter().filter(|term| all.contains(*term));
            let covered: f64 = covered.map(|term| self.rarity(term)).sum();
            let name = distinct(&skill.fields[0]);
            let mass_of =
                |terms: Vec<&String>| -> f64 { terms.iter().map(|term| self.rarity(term)).sum() };
            let named = name.iter().copied().filter(|term| terms.contains(term)).collect();
            let (mut body, mut meta) = (0.0, 0.0);
            for (a, b) in &pairs {
                let weight = (self.rarity(a) + self.rarity(b)) / 2.0;
                let times = |field: usize| {
                    let neighbours = skill.fields[field].windows(2);
                    neighbours.filter(|it| it[0] == **a && it[1] == **b).count()
                };
                body += weight * (times(4) as f64).ln_1p() / mass;
                meta += if times(0) + times(1) + times(3) > 0 { weight } else { 0.0 };
            }
            let mut best: Vec<f64> =
                skill.sections.iter().map(|section| sum(&self.in_section(section))).collect();
            best.sort_by(|a, b| b.total_cmp(a));
            best.resize(3, 0.0);
            let fits: Vec<f64> = sentences
                .iter()
                .map(|sentence| {
                    let u = weigh(sentence);
                    lex(skill, &u) / (u.iter().map(|(_, u)| u).sum::<f64>() + 1e-6)
                })
                .collect();
            let features = [
                score / max,
                in_field(1),
                in_field(3),
                covered / distinct_mass,
                mass_of(named) / mass_of(name).max(1e-6),
                body,
                meta,
                best[0] / mass,
                (best[0] + best[1] + best[2]) / mass,
                fits.iter().copied().fold(0.0, f64::max),
                fits[0],
                terms.iter().filter(|term| in_fields(skill, &[1], term)).count() as f64
                    / terms.len().max(1) as f64,
                reweighed(skill, &summary_share),
                reweighed(skill, &local),
                fits.iter().copied().fold(f64::INFINITY, f64::min),
            ];
            (skill.id.clone(), *score, features)
        };
        found.iter().map(row).collect()
    }

    fn in_section<'a>(&'a self, section: &'a [String]) -> impl Fn(&String) -> f64 + 'a {
        let all: Vec<usize> =
            self.skills.iter().flat_map(|it| &it.sections).map(Vec::len).collect();
        let mean = all.iter().sum::<usize>() as f64 / all.len() as f64;
        let norm = 0.5 + 0.5 * section.len() as f64 / mean;
        move |term| self.sat(count(section, term) / norm)
    }
}

fn sections(analysis: TextAnalyzer, body: &str) -> Vec<Vec<String>> {
    let mut sections = Vec::new();
    let mut current: Vec<String> = Vec::new();
    for line in body.split('\n') {
        if line.starts_with('#') && current.len() >= 25 {
            sections.push(std::mem::take(&mut current));
        }
        current.extend(analysis.terms(line));
        while current.len() >= 150 {
            sections.push(current[..150].to_vec());
            current.drain(..120);
        }
    }
    if !current.is_empty() {
        sections.push(current);
    }
    sections.truncate(40);
    sections
}

/// Splits a query without code fences into sentences.
fn sentences(query: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut sentence = String::new();
    for c in query.chars() {
        let ends = sentence.ends_with(['.', '!', '?', ';', ':']) && c.is_whitespace();
        if c == '\n' || ends {
            found.push(std::mem::take(&mut sentence));
        }
        sentence.push(c);
    }
    found.push(sentence);
    found
}
