//! `skills-ref validate`: what it says about a frontmatter, in its order.

use skill_format::{Diagnostic, Span};
use unicode_normalization::UnicodeNormalization as _;

use super::python::{is_alnum, str_len, str_strip};
use super::yaml::{StrictYamlEntry, StrictYamlValue};
use super::{ReferenceError, ReferenceSkill, error, to_span};

/// The fields of the Agent Skills specification, sorted.
const FIELDS: [&str; 6] =
    ["allowed-tools", "compatibility", "description", "license", "metadata", "name"];

const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;
const LONGEST_COMPATIBILITY: usize = 500;

impl ReferenceSkill {
    /// Returns what the reference finds wrong; `dir_name` is the directory's name.
    #[must_use]
    pub fn validate(&self, dir_name: &str) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        self.unknown_fields(&mut found);
        match self.fields.get("name") {
            Some(entry) => name(entry, dir_name, &mut found),
            None => found.push(ReferenceError::MissingField("name").diagnostic()),
        }
        match self.fields.get("description") {
            Some(entry) => description(entry, &mut found),
            None => found.push(ReferenceError::MissingField("description").diagnostic()),
        }
        if let Some(entry) = self.fields.get("compatibility") {
            compatibility(entry, &mut found);
        }
        found
    }

    fn unknown_fields(&self, found: &mut Vec<Diagnostic>) {
        let unknown = self.fields.0.iter().filter(|entry| !FIELDS.contains(&entry.key.as_str()));
        let mut unknown: Vec<&StrictYamlEntry> = unknown.collect();
        let Some(first) = unknown.first() else { return };
        let at = to_span(first.key_at);
        unknown.sort_by(|a, b| a.key.cmp(&b.key));
        let names: Vec<&str> = unknown.iter().map(|entry| entry.key.as_str()).collect();
        let names = names.join(", ");
        let allowed = FIELDS.map(|field| format!("'{field}'")).join(", ");
        let message =
            format!("Unexpected fields in frontmatter: {names}. Only [{allowed}] are allowed.");
        found.push(error("frontmatter.unknownField", at, message));
    }
}

/// Returns the text of a required field and its place; reports what is empty or no text.
fn required<'a>(
    entry: &'a StrictYamlEntry,
    field: &'static str,
    type_rule: &'static str,
    found: &mut Vec<Diagnostic>,
) -> Option<(&'a str, Span)> {
    let at = to_span(entry.value_at);
    let empty = ReferenceError::EmptyField(field);
    let rule = match &entry.value {
        StrictYamlValue::Text(text) if !str_strip(text).is_empty() => return Some((text, at)),
        StrictYamlValue::Text(_) => empty.rule(),
        _ => type_rule,
    };
    found.push(error(rule, at, empty.to_string()));
    None
}

fn name(entry: &StrictYamlEntry, dir_name: &str, found: &mut Vec<Diagnostic>) {
    let Some((written, at)) = required(entry, "name", "name.type", found) else { return };
    let name: String = str_strip(written).nfkc().collect();
    let mut add = |rule, message: String| found.push(error(rule, at, message));
    let length = str_len(&name);
    if length > LONGEST_NAME {
        let limit = format!("{LONGEST_NAME} character limit ({length} chars)");
        add("name.maxLength", format!("Skill name '{name}' exceeds {limit}"));
    }
    if name != name.to_lowercase() {
        add("name.format", format!("Skill name '{name}' must be lowercase"));
    }
    if name.starts_with('-') || name.ends_with('-') {
        add("name.format", "Skill name cannot start or end with a hyphen".to_owned());
    }
    if name.contains("--") {
        add("name.format", "Skill name cannot contain consecutive hyphens".to_owned());
    }
    if !name.chars().all(|c| is_alnum(c) || c == '-') {
        let allowed = "Only letters, digits, and hyphens are allowed.";
        add("name.format", format!("Skill name '{name}' contains invalid characters. {allowed}"));
    }
    if dir_name.nfkc().ne(name.chars()) {
        let message = format!("Directory name '{dir_name}' must match skill name '{name}'");
        add("name.matchesDirectory", message);
    }
}

fn description(entry: &StrictYamlEntry, found: &mut Vec<Diagnostic>) {
    let text = required(entry, "description", "description.type", found);
    let Some((text, at)) = text else { return };
    let length = str_len(text);
    if length > LONGEST_DESCRIPTION {
        let limit = format!("{LONGEST_DESCRIPTION} character limit ({length} chars)");
        found.push(error("description.maxLength", at, format!("Description exceeds {limit}")));
    }
}

fn compatibility(entry: &StrictYamlEntry, found: &mut Vec<Diagnostic>) {
    let at = to_span(entry.value_at);
    let StrictYamlValue::Text(text) = &entry.value else {
        let message = "Field 'compatibility' must be a string";
        found.push(error("compatibility.type", at, message));
        return;
    };
    let length = str_len(text);
    if length > LONGEST_COMPATIBILITY {
        let limit = format!("{LONGEST_COMPATIBILITY} character limit ({length} chars)");
        found.push(error("compatibility.maxLength", at, format!("Compatibility exceeds {limit}")));
    }
}
