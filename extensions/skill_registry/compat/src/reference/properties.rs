//! Output of `skills-ref read-properties` and `skills-ref to-prompt`.

use yaml_tree::Span;

use super::error::ReferenceError;
use super::python::{html_escape, json_dumps, str_strip, to_str};
use super::scanner::ScanMark;
use super::skill::ReferenceSkill;
use super::surrogate::is_encodable;
use super::yaml::{StrictYamlEntry, StrictYamlMap, StrictYamlValue};

/// The properties of a skill as the reference reads them.
#[derive(Clone, Debug)]
pub struct ReferenceProperties {
    name: String,
    description: String,
    /// License, compatibility and allowed-tools unchanged, values of metadata as texts.
    rest: Vec<(&'static str, StrictYamlValue)>,
}

impl ReferenceSkill {
    /// Returns the properties without validating them.
    ///
    /// # Errors
    /// Returns [`ReferenceError`] if the name or the description is missing, empty or not a text.
    pub fn properties(&self) -> Result<ReferenceProperties, ReferenceError> {
        // The reference looks for both fields before it looks at their values.
        for field in ["name", "description"] {
            self.fields.get(field).ok_or(ReferenceError::MissingField(field))?;
        }
        let mut rest = Vec::new();
        for field in ["license", "compatibility", "allowed-tools"] {
            rest.extend(self.fields.get(field).map(|entry| (field, entry.value.clone())));
        }
        match self.fields.get("metadata").map(|entry| &entry.value) {
            Some(StrictYamlValue::Map(StrictYamlMap(entries))) if !entries.is_empty() => {
                rest.push((
                    "metadata",
                    StrictYamlValue::Map(StrictYamlMap(
                        entries.iter().map(flatten_entry).collect(),
                    )),
                ));
            }
            // An empty value is falsy in Python and left out.
            None | Some(StrictYamlValue::Map(_)) => {}
            Some(StrictYamlValue::Text(text)) if text.is_empty() => {}
            Some(other) => rest.push(("metadata", other.clone())),
        }
        Ok(ReferenceProperties {
            name: self.required_text("name")?,
            description: self.required_text("description")?,
            rest,
        })
    }

    fn required_text(&self, field: &'static str) -> Result<String, ReferenceError> {
        match self.fields.get(field).map(|entry| &entry.value) {
            Some(StrictYamlValue::Text(text)) if !str_strip(text).is_empty() => {
                Ok(str_strip(text).to_owned())
            }
            _ => Err(ReferenceError::EmptyField(field)),
        }
    }
}

/// Converts the value of a metadata entry to a text.
fn flatten_entry(entry: &StrictYamlEntry) -> StrictYamlEntry {
    StrictYamlEntry { value: StrictYamlValue::Text(to_str(&entry.value)), ..entry.clone() }
}

impl ReferenceProperties {
    /// Renders the JSON of `skills-ref read-properties`, without the final newline.
    ///
    /// # Errors
    /// Returns [`ReferenceError::Crash`] if a value is a plain `=` or `<<`, which the reference
    /// cannot serialize.
    pub fn to_json(&self) -> Result<String, ReferenceError> {
        let entry = |key: &str, value: &StrictYamlValue| {
            let (key_at, value_at) = (ScanMark::default(), ScanMark::default());
            StrictYamlEntry { key: key.to_owned(), key_at, value: value.clone(), value_at }
        };
        let mut entries = vec![
            entry("name", &StrictYamlValue::Text(self.name.clone())),
            entry("description", &StrictYamlValue::Text(self.description.clone())),
        ];
        entries.extend(self.rest.iter().map(|(key, value)| entry(key, value)));
        json_dumps(&StrictYamlValue::Map(StrictYamlMap(entries))).ok_or_else(|| {
            crash_error("a plain `=` or `<<` is not text for it and cannot be written as JSON")
        })
    }
}

fn crash_error(problem: &str) -> ReferenceError {
    let (rule, at) = ("frontmatter.yaml", Span { line: 1, column: 0 });
    ReferenceError::Crash { rule, problem: problem.to_owned(), at }
}

/// A skill for [`to_prompt`].
#[derive(Clone, Debug)]
pub struct PromptSkill {
    /// The properties of the skill.
    pub properties: ReferenceProperties,
    /// The absolute path of its SKILL.md; printed as it is, without any escaping.
    pub location: String,
}

/// Renders the block of `skills-ref to-prompt`, without the final newline.
///
/// # Errors
/// Returns [`ReferenceError::Crash`] if a text contains half of a UTF-16 pair, which cannot be
/// printed.
pub fn to_prompt(skills: &[PromptSkill]) -> Result<String, ReferenceError> {
    let mut lines = vec!["<available_skills>".to_owned()];
    for PromptSkill { properties: ReferenceProperties { name, description, .. }, location } in
        skills
    {
        if !is_encodable(name) || !is_encodable(description) {
            return Err(crash_error("a half of a UTF-16 pair cannot be printed"));
        }
        lines.extend(["<skill>", "<name>"].map(str::to_owned));
        lines.push(html_escape(name));
        lines.extend(["</name>", "<description>"].map(str::to_owned));
        lines.push(html_escape(description));
        lines.extend(["</description>", "<location>"].map(str::to_owned));
        // The reference does not escape the location.
        lines.push(location.clone());
        lines.extend(["</location>", "</skill>"].map(str::to_owned));
    }
    lines.push("</available_skills>".to_owned());
    Ok(lines.join("\n"))
}
