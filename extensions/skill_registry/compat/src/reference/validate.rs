//! Checks of `skills-ref validate` on a frontmatter, in its order.

use skill_format::Diagnostic;
use unicode_normalization::UnicodeNormalization as _;
use yaml_tree::Span;

use super::error::{ReferenceError, error_diagnostic, to_span};
use super::python::{is_alnum, str_len, str_strip};
use super::skill::ReferenceSkill;
use super::yaml::{StrictYamlEntry, StrictYamlValue};

/// The fields of the Agent Skills specification, sorted.
const FIELDS: [&str; 6] =
    ["allowed-tools", "compatibility", "description", "license", "metadata", "name"];

const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1024;
const MAX_COMPATIBILITY_CHARS: usize = 500;

impl ReferenceSkill {
    /// Returns the findings of the reference; `dir_name` is the name of the directory.
    #[must_use]
    pub fn validate(&self, dir_name: &str) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        self.check_unknown_fields(&mut found);
        match self.fields.get("name") {
            Some(entry) => check_name(entry, dir_name, &mut found),
            None => found.push(ReferenceError::MissingField("name").to_diagnostic()),
        }
        match self.fields.get("description") {
            Some(entry) => check_description(entry, &mut found),
            None => found.push(ReferenceError::MissingField("description").to_diagnostic()),
        }
        if let Some(entry) = self.fields.get("compatibility") {
            check_compatibility(entry, &mut found);
        }
        found
    }

    fn check_unknown_fields(&self, found: &mut Vec<Diagnostic>) {
        let unknown = self.fields.0.iter().filter(|entry| !FIELDS.contains(&entry.key.as_str()));
        let mut unknown: Vec<&StrictYamlEntry> = unknown.collect();
        let Some(first) = unknown.first() else { return };
        let at = to_span(first.key_at);
        // The reference lists the names sorted, but the position is that of the first one in the
        // file.
        unknown.sort_by(|a, b| a.key.cmp(&b.key));
        let names: Vec<&str> = unknown.iter().map(|entry| entry.key.as_str()).collect();
        let names = names.join(", ");
        let allowed = FIELDS.map(|field| format!("'{field}'")).join(", ");
        let message =
            format!("Unexpected fields in frontmatter: {names}. Only [{allowed}] are allowed.");
        found.push(error_diagnostic("frontmatter.unknownField", at, message));
    }
}

/// Returns the text of a required field with its position; reports an empty or non-text value.
fn required_text<'a>(
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
    found.push(error_diagnostic(rule, at, empty.to_string()));
    None
}

fn check_name(entry: &StrictYamlEntry, dir_name: &str, found: &mut Vec<Diagnostic>) {
    let Some((written, at)) = required_text(entry, "name", "name.type", found) else { return };
    // The reference compares names in NFKC, so that look-alike spellings match.
    let name: String = str_strip(written).nfkc().collect();
    let mut add = |rule, message: String| found.push(error_diagnostic(rule, at, message));
    let length = str_len(&name);
    if length > MAX_NAME_CHARS {
        let limit = format!("{MAX_NAME_CHARS} character limit ({length} chars)");
        add("name.maxLength", format!("Skill name '{name}' exceeds {limit}"));
    }
    // One name can have several findings: the reference does not stop at the first.
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
    // The message has the directory name unnormalized, as the reference prints it.
    if dir_name.nfkc().ne(name.chars()) {
        let message = format!("Directory name '{dir_name}' must match skill name '{name}'");
        add("name.matchesDirectory", message);
    }
}

fn check_description(entry: &StrictYamlEntry, found: &mut Vec<Diagnostic>) {
    let text = required_text(entry, "description", "description.type", found);
    let Some((text, at)) = text else { return };
    let length = str_len(text);
    if length > MAX_DESCRIPTION_CHARS {
        let limit = format!("{MAX_DESCRIPTION_CHARS} character limit ({length} chars)");
        found.push(error_diagnostic(
            "description.maxLength",
            at,
            format!("Description exceeds {limit}"),
        ));
    }
}

fn check_compatibility(entry: &StrictYamlEntry, found: &mut Vec<Diagnostic>) {
    let at = to_span(entry.value_at);
    let StrictYamlValue::Text(text) = &entry.value else {
        let message = "Field 'compatibility' must be a string";
        found.push(error_diagnostic("compatibility.type", at, message));
        return;
    };
    let length = str_len(text);
    if length > MAX_COMPATIBILITY_CHARS {
        let limit = format!("{MAX_COMPATIBILITY_CHARS} character limit ({length} chars)");
        found.push(error_diagnostic(
            "compatibility.maxLength",
            at,
            format!("Compatibility exceeds {limit}"),
        ));
    }
}
