//! Skills that share a catalog with the tested ones.
//!
//! In a small home every skill is found by nearly every query. Among these skills a test shows
//! whether its words distinguish a skill.

use std::fmt::Write as _;

use yaml_tree::{StrictLimits, Value, parse_strict};

/// The list, one skill per entry.
const DISTRACTORS: &str = include_str!("../data/distractors.yaml");

/// A skill that is searched together with those under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistractorSkill {
    /// The id.
    pub id: String,
    /// The description.
    pub description: String,
    /// The tags.
    pub tags: Vec<String>,
}

/// Returns the distractors, about 200, sorted by id.
///
/// # Panics
/// The list in this crate is not valid; a test reads it.
#[must_use]
pub fn distractor_skills() -> Vec<DistractorSkill> {
    let limits = StrictLimits { bytes: 1 << 20, depth: 4, values: 10_000 };
    let tree = parse_strict(DISTRACTORS, limits).expect("the list of distractors is YAML");
    let Value::Sequence(list) = tree.root else { panic!("the distractors are no list") };
    let mut skills: Vec<_> = list.items.iter().map(to_skill).collect();
    // The order of the file is by subject.
    skills.sort_by(|a, b| a.id.cmp(&b.id));
    skills
}

fn to_skill(item: &Value) -> DistractorSkill {
    let Value::Mapping(map) = item else { panic!("a distractor is no map") };
    let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let tags = match map.get("tags") {
        Some(Value::Sequence(list)) => list.items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let tags = tags.into_iter().map(str::to_owned).collect();
    DistractorSkill { id: text("id"), description: text("description"), tags }
}

impl DistractorSkill {
    /// Renders its SKILL.md.
    #[must_use]
    pub fn to_skill_file(&self) -> String {
        let mut text = format!("---\nname: {}\ndescription: >-\n  {}\n", self.id, self.description);
        if !self.tags.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "metadata:\n  tags: {}\n", self.tags.join(", "));
        }
        let _ = write!(text, "---\n\n# {}\n\n{}\n", self.id.replace('-', " "), self.description);
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn distractors_are_distinct_skills() {
        let skills = distractor_skills();
        assert!((190..=260).contains(&skills.len()), "{}", skills.len());
        let ids: HashSet<&str> = skills.iter().map(|skill| skill.id.as_str()).collect();
        let descriptions: HashSet<&str> =
            skills.iter().map(|skill| skill.description.as_str()).collect();
        assert_eq!((ids.len(), descriptions.len()), (skills.len(), skills.len()));
        for skill in &skills {
            let parsed = skill_format::parse_head(&skill.id, skill.to_skill_file().as_bytes());
            assert_eq!(parsed.diagnostics, [], "{}", skill.id);
            let description = parsed.frontmatter.map(|it| it.description);
            assert_eq!(description.as_deref(), Some(&*skill.description));
            assert!(skill.description.len() >= 60, "{}", skill.id);
        }
    }
}
