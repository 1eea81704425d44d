//! Edits of the text of a settings file that preserve comments and layout.

use std::collections::BTreeMap;
use std::str::FromStr;

use skill_catalog::SkillState;
use yaml_edit::{Document, Mapping};

use super::REGISTRY;

/// Returns the text with changed states of skills, or `None` if its layout cannot be edited. The
/// caller verifies the meaning of the result.
pub(super) fn edit_settings(
    text: &str,
    old: &BTreeMap<String, SkillState>,
    new: &BTreeMap<String, SkillState>,
) -> Option<String> {
    let Some((document, root)) = mapping(text) else { return appended(text, new) };
    let skills = child(&child(&child(&root, "extensions")?, REGISTRY)?, "skills")?;
    for id in old.keys().filter(|id| !new.contains_key(*id)) {
        skills.remove(id.as_str());
    }
    for (id, state) in new.iter().filter(|(id, state)| old.get(*id) != Some(state)) {
        skills.set(id.as_str(), state.as_str());
    }
    Some(document.to_string())
}

/// Returns the document and its keys, or `None` for a document without keys.
fn mapping(text: &str) -> Option<(Document, Mapping)> {
    let document = Document::from_str(text).ok()?;
    let root = document.as_mapping()?;
    Some((document, root))
}

fn child(parent: &Mapping, key: &str) -> Option<Mapping> {
    if parent.get_mapping(key).is_none() {
        parent.set(key, Mapping::new());
    }
    parent.get_mapping(key)
}

/// Appends the keys to a text that has none.
fn appended(text: &str, new: &BTreeMap<String, SkillState>) -> Option<String> {
    let says_something =
        |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    if text.lines().any(says_something) {
        return None;
    }
    let mut text = text.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("extensions:\n  {REGISTRY}:\n    skills:\n"));
    for (id, state) in new {
        // A JSON string is a valid YAML scalar.
        let id = serde_json::to_string(id).ok()?;
        text.push_str(&format!("      {id}: \"{}\"\n", state.as_str()));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(pairs: &[(&str, SkillState)]) -> BTreeMap<String, SkillState> {
        pairs.iter().map(|(id, state)| ((*id).to_owned(), *state)).collect()
    }

    #[test]
    fn edit_preserves_comments_and_layout() {
        let none = states(&[]);
        let off = states(&[("pdf", SkillState::Off)]);
        let cases = [
            (
                "",
                &none,
                &off,
                "extensions:\n  skill_registry:\n    skills:\n      \"pdf\": \"off\"\n",
            ),
            (
                "# mine\n",
                &none,
                &off,
                "# mine\nextensions:\n  skill_registry:\n    skills:\n      \"pdf\": \"off\"\n",
            ),
            (
                "# a\nallow_shadowing: []   # b\n\n# c\nextensions: {}\n#  d: e\n",
                &none,
                &off,
                "# a\nallow_shadowing: []   # b\n\n# c\n\
                 extensions: {skill_registry: {skills: {pdf: 'off'}}}\n#  d: e\n",
            ),
            (
                "extensions:\n  skill_registry:\n    # why\n    skills:\n      pdf: off\n      \
                 other: name-only  # so\n  echo: {greeting: hi}\n",
                &states(&[("pdf", SkillState::Off), ("other", SkillState::NameOnly)]),
                &states(&[("other", SkillState::NameOnly)]),
                "extensions:\n  skill_registry:\n    # why\n    skills:\n      \
                 other: name-only  # so\n  echo: {greeting: hi}\n",
            ),
        ];
        for (text, old, new, expected) in cases {
            assert_eq!(edit_settings(text, old, new).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(edit_settings("just text\n", &none, &off), None);
    }
}
