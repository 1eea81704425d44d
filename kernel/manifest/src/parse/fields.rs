//! The names of all fields.

use crate::ManifestErrorKind;

/// Every field a manifest can have, as its path; `[]` stands for an entry of a list.
pub(crate) const ALL: &[&str] = &[
    "id",
    "name",
    "version",
    "description",
    "entrypoint",
    "entrypoint.command",
    "sha256",
    "agent",
    "agent.integration_mode",
    "agent.model",
    "agent.instructions",
    "agent.parallel_tool_calls",
    "agent.parameters",
    "agent.uses_tools",
    "agent.uses_skills",
    "agent.catalog",
    "agent.catalog.include",
    "agent.catalog.exclude",
    "agent.allowed_tools_mode",
    "agent.limits",
    "agent.limits.max_turns",
    "agent.limits.max_tokens_per_invocation",
    "agent.limits.time_budget_ms",
    "depends_on",
    "depends_on[].id",
    "depends_on[].optional",
    "config",
    "secrets",
    "secrets[].name",
    "secrets[].optional",
    "env",
    "start_timeout_ms",
    "enabled",
    "setup_instructions",
    "events",
    "events.publishes",
    "events.publishes[].topic",
    "events.publishes[].description",
    "events.subscribes",
    "events.subscribes[].topic",
    "events.subscribes[].description",
    "events.subscribes[].handler",
    "events.subscribes[].text",
    "events.subscribes[].agent",
    "events.subscribes[].prompt",
    "events.subscribes[].timeout_ms",
    "schedules",
    "schedules[].name",
    "schedules[].cron",
    "schedules[].timezone",
    "schedules[].task",
    "schedules[].tool",
    "schedules[].arguments",
    "schedules[].prompt",
    "schedules[].timeout_ms",
    "mcp",
    "mcp.tools",
    "tools",
    "tools.prefix",
    "tools.rename",
    "tools.include",
    "tools.exclude",
];

/// Returns the names of the fields that a mapping can have; `place` is its path.
pub(crate) fn known_fields(place: &str) -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(move |path| parent(path) == place).map(|path| name(path))
}

/// Says what is wrong with a field of the mapping at `place`, if anything.
pub(crate) fn check_field(place: &str, field: &str) -> Option<ManifestErrorKind> {
    if known_fields(place).any(|known| known == field) {
        return None;
    }
    if let Some(path) = ALL.iter().find(|path| name(path) == field && !path.contains('[')) {
        let under = Some(parent(path)).filter(|parent| !parent.is_empty());
        return Some(ManifestErrorKind::MisplacedField { field: name(path), under });
    }
    let nearest = suggest_name(field, known_fields(place));
    Some(ManifestErrorKind::UnknownField { field: field.to_owned(), nearest })
}

/// Returns the most similar of `names`, unless none is similar.
pub(crate) fn suggest_name<'a>(
    text: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    const SIMILAR: f64 = 0.8;
    if text.len() > 64 {
        return None;
    }
    let text = text.to_lowercase().replace('-', "_");
    let likeness = |name: &str| {
        let name = name.replace('-', "_");
        let is_part = name.split('_').any(|part| part == text);
        strsim::jaro_winkler(&text, &name).max(if is_part { SIMILAR } else { 0.0 })
    };
    names
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= SIMILAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

fn name(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Collects the paths of all properties of a schema.
    fn paths(schema: &Value, path: &str, found: &mut Vec<String>) {
        for choice in schema["anyOf"].as_array().into_iter().flatten() {
            paths(choice, path, found);
        }
        if schema["items"].is_object() {
            paths(&schema["items"], &format!("{path}[]"), found);
        }
        if let Some(properties) = schema["properties"].as_object() {
            assert_eq!(schema["additionalProperties"], false, "{path:?} is closed");
            for (name, schema) in properties {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let described = schema["description"].as_str().is_some_and(|text| !text.is_empty());
                assert!(described, "{path} has a description");
                paths(schema, &path, found);
                found.push(path);
            }
        }
    }

    #[test]
    fn the_schema_has_exactly_these_fields() {
        let mut in_schema = Vec::new();
        paths(&crate::manifest_schema(), "", &mut in_schema);
        in_schema.sort();
        let mut listed: Vec<&str> = ALL.to_vec();
        listed.sort_unstable();
        assert_eq!(in_schema, listed);
    }

    #[test]
    fn every_field_is_read() {
        // A value that is wrong for every field: whoever reads it complains under its path.
        for path in ALL {
            let mut text = String::new();
            let mut indent = String::new();
            for part in path.split('.') {
                let name = part.trim_end_matches("[]");
                text.push_str(&format!("{indent}{name}:"));
                indent.push_str("  ");
                text.push('\n');
                if part.ends_with("[]") {
                    // An entry whose fields begin beside the dash.
                    text.push_str(&format!("{indent}-\n"));
                    indent.push_str("  ");
                }
            }
            text.push_str(&format!("{indent}- [~]\n"));
            let errors = crate::parse_manifest(&text).unwrap_err();
            let expected = path.replace("[]", "[0]");
            let complained = errors.iter().any(|error| match &error.kind {
                ManifestErrorKind::WrongType { field, .. } => field.starts_with(&expected),
                _ => false,
            });
            assert!(complained, "nobody read {path}:\n{text}{errors}");
        }
    }
}
