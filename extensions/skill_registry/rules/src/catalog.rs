//! Rules over all skills of a catalog: duplicate names, missing skills, overlapping descriptions.

mod overlap;

use std::collections::HashMap;

use skill_format::{Severity, SkillInput};
use yaml_tree::Span;

use crate::profile::Profile;
use crate::rule::{Finding, FindingSink, Rule};
use crate::rules::{catalog_duplicate, catalog_overlap, requires_unresolved};
use crate::skill_document::SkillDocument;
use crate::suppress;

/// The maximum number of suggestions for missing skills: each one compares every id.
const MAX_SUGGESTIONS: usize = 100;

/// The data of one skill that catalog rules need; owned and small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogSkill {
    /// The name of its directory.
    pub id: String,
    /// The `name` of the frontmatter with its position.
    pub name: Option<(String, Span)>,
    /// The `description` with its position.
    pub description: (String, Span),
    /// The ids in `requires`.
    pub requires: Vec<String>,
    /// The position of `requires`.
    pub requires_at: Span,
    /// The rules that the frontmatter suppresses.
    pub allowed: Vec<String>,
}

impl CatalogSkill {
    /// Extracts the data of a skill, or `None` if it has no usable frontmatter.
    #[must_use]
    pub fn new(input: &SkillInput<'_>) -> Option<Self> {
        Self::from_document(&SkillDocument::new(input, Profile::default()))
    }

    /// Extracts the data of a parsed skill, or `None` if it has no usable frontmatter.
    #[must_use]
    pub fn from_document(skill: &SkillDocument<'_>) -> Option<Self> {
        let frontmatter = skill.frontmatter()?;
        // Portable skills keep `requires` below `metadata`.
        let requires_at = match skill.field("requires") {
            Some(entry) => entry.value.span(),
            None => skill.field_span("metadata"),
        };
        Some(Self {
            id: skill.input().dir_name.to_owned(),
            name: frontmatter.name.clone().map(|name| (name, skill.field_span("name"))),
            description: (frontmatter.description.clone(), skill.field_span("description")),
            requires: frontmatter.requires.clone(),
            requires_at,
            allowed: suppress::file_wide_suppressions(skill),
        })
    }
}

/// Checks the skills of a catalog against each other. Returns findings with the index of their
/// skill, in the order of the skills.
///
/// The order of the skills only decides which of two similar skills is reported: the later one. A
/// single skill has no findings, because the rest of its catalog is unknown. The time is
/// proportional to the words of all descriptions, even for skills that are all alike.
#[must_use]
pub fn check_catalog(skills: &[CatalogSkill]) -> Vec<(usize, Finding)> {
    if skills.len() < 2 {
        return Vec::new();
    }
    let mut findings = CatalogFindings { skills, list: Vec::new() };
    find_duplicates(skills, &mut findings);
    find_unresolved(skills, &mut findings);
    for found in overlap::find_overlaps(skills) {
        let (skill, other) = (&skills[found.index], &skills[found.other]);
        let message = if found.same {
            format!("the description says the same as that of `{}`", other.id)
        } else {
            let percent = found.percent;
            format!("the description says nearly the same as that of `{}` ({percent} %)", other.id)
        };
        let help = "say in each when to use it and not the other, or make one skill of the two";
        findings.add(&catalog_overlap::RULE, found.index, skill.description.1, message, help);
    }
    let mut list = findings.list;
    list.sort_by_key(|(index, found)| (*index, found.diagnostic.line, found.diagnostic.rule));
    list
}

struct CatalogFindings<'a> {
    skills: &'a [CatalogSkill],
    list: Vec<(usize, Finding)>,
}

impl CatalogFindings<'_> {
    fn add(&mut self, rule: &'static Rule, index: usize, at: Span, message: String, help: &str) {
        let severity = rule.levels.level_for(Profile::default()).severity();
        // Catalog rules check suppressions themselves: they run outside of `suppress`.
        let allowed = self.skills[index].allowed.iter().any(|id| id == rule.id);
        // Errors cannot be suppressed.
        let severity = severity.filter(|severity| *severity == Severity::Error || !allowed);
        let Some(severity) = severity else { return };
        let mut found = Vec::new();
        FindingSink::new(rule, severity, &mut found).add(at, message, help);
        self.list.extend(found.into_iter().map(|finding| (index, finding)));
    }
}

/// Reports ids and names of an earlier skill, ignoring case.
fn find_duplicates(skills: &[CatalogSkill], findings: &mut CatalogFindings<'_>) {
    let mut ids: HashMap<String, usize> = HashMap::with_capacity(skills.len());
    let mut names: HashMap<String, usize> = HashMap::with_capacity(skills.len());
    for (index, skill) in skills.iter().enumerate() {
        let rule = &catalog_duplicate::RULE;
        // Some file systems ignore case, so that such directories cannot coexist there.
        let first = *ids.entry(skill.id.to_lowercase()).or_insert(index);
        if first != index {
            let message = if skills[first].id == skill.id {
                format!("an earlier skill has the directory name `{}`, too", skill.id)
            } else {
                format!("the directory differs from `{}` in case only", skills[first].id)
            };
            let help = "rename one of them; of two skills with one id, the first is loaded";
            findings.add(rule, index, Span::default(), message, help);
            // One finding per skill: equal ids mostly have equal names, too.
            continue;
        }
        let Some((name, at)) = &skill.name else { continue };
        let first = *names.entry(name.trim().to_lowercase()).or_insert(index);
        if first != index {
            let message = format!("the name `{name}` is also that of `{}`", skills[first].id);
            findings.add(rule, index, *at, message, "give each skill a name of its own");
        }
    }
}

/// Reports required skills that are not in the catalog.
fn find_unresolved(skills: &[CatalogSkill], findings: &mut CatalogFindings<'_>) {
    let by_id: HashMap<&str, ()> = skills.iter().map(|skill| (&*skill.id, ())).collect();
    let mut suggestions = 0;
    for (index, skill) in skills.iter().enumerate() {
        for required in &skill.requires {
            // `id@root` selects the skill of a certain root if several have the id.
            let id = required.split_once('@').map_or(&**required, |(id, _)| id);
            let message = if id == skill.id {
                "the skill requires itself".to_owned()
            } else if by_id.contains_key(id) {
                continue;
            } else {
                format!("there is no skill `{required}`")
            };
            let near = (id != skill.id && suggestions < MAX_SUGGESTIONS).then(|| {
                suggestions += 1;
                nearest_id(id, skills)
            });
            let help = match near.flatten() {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add the skill, or remove it from `requires`".to_owned(),
            };
            findings.add(&requires_unresolved::RULE, index, skill.requires_at, message, &help);
        }
    }
}

fn nearest_id<'a>(id: &str, skills: &'a [CatalogSkill]) -> Option<&'a str> {
    let lower = id.to_lowercase();
    let scored = skills.iter().map(|skill| {
        let near = strsim::jaro_winkler(&lower, &skill.id.to_lowercase());
        (near, &*skill.id)
    });
    // Ties go to the smaller id, so that the result does not depend on the order of skills.
    let best = scored.max_by(|left, right| left.0.total_cmp(&right.0).then(right.1.cmp(left.1)))?;
    (best.0 > 0.85).then_some(best.1)
}

#[cfg(test)]
mod tests;
