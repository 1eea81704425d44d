//! The fields of a frontmatter in the receipt of a loaded skill.

use serde_json::{Map, Value, json};
use skill_catalog::Skill;
use skill_format::{AllowedTools, Frontmatter, sanitize_line};

/// The length limit of one value, in characters.
const MAX_VALUE: usize = 1_024;
/// The length limit of a key or value of `metadata`, in characters.
const MAX_ENTRY: usize = 200;
/// The maximum number of entries of `metadata`; the others are counted.
const MAX_METADATA: usize = 16;

/// Returns the fields of the format, each on one line and limited in length.
pub(super) fn describe_properties(skill: &Skill, frontmatter: &Frontmatter) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, text: Option<&str>| {
        if let Some(text) = text {
            fields.insert(name.to_owned(), json!(limited(text, MAX_VALUE)));
        }
    };
    add("name", Some(frontmatter.name.as_deref().unwrap_or(skill.id().as_str())));
    add("description", Some(&frontmatter.description));
    add("license", frontmatter.license.as_deref());
    add("compatibility", frontmatter.compatibility.as_deref());
    match &frontmatter.allowed_tools {
        AllowedTools::Absent => {}
        AllowedTools::List(tools) => add("allowed-tools", Some(&tools.join(" "))),
        // As it is applied: no tool.
        AllowedTools::Unparsable => add("allowed-tools", Some("")),
    }
    let metadata = &frontmatter.metadata;
    if !metadata.is_empty() {
        let shown = metadata.iter().take(MAX_METADATA);
        let shown: Map<_, _> = shown
            .map(|(key, value)| (limited(key, MAX_ENTRY), json!(limited(value, MAX_ENTRY))))
            .collect();
        fields.insert("metadata".to_owned(), Value::Object(shown));
    }
    if metadata.len() > MAX_METADATA {
        fields.insert("more_metadata".to_owned(), json!(metadata.len() - MAX_METADATA));
    }
    Value::Object(fields)
}

fn limited(text: &str, max: usize) -> String {
    let line = sanitize_line(text);
    match line.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
