//! The names of all fields of a manifest.

use crate::ManifestErrorKind;

/// The paths of all fields of a manifest; `[]` denotes an entry of a list.
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
    "agent.capability_mode",
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
    "channel",
    "sandbox",
    "sandbox.filesystem",
    "sandbox.filesystem.allowRead",
    "sandbox.filesystem.denyRead",
    "sandbox.filesystem.allowWrite",
    "sandbox.filesystem.denyWrite",
    "sandbox.network",
    "sandbox.network.allowedDomains",
    "sandbox.network.deniedDomains",
    "sandbox.network.allowUnixSockets",
    "sandbox.network.allowLocalBinding",
    "sandbox.limits",
    "sandbox.limits.memoryMib",
    "sandbox.limits.tasks",
    "sandbox.limits.fileMib",
    "sandbox.limits.diskMib",
    "sandbox.limits.files",
    "sandbox.limits.temporaryMib",
    "sandbox.minimum",
    "sandbox.require",
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

/// Returns the names of the fields of a mapping; `section` is its path.
pub(crate) fn known_fields(section: &str) -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(move |path| parent_path(path) == section).map(|path| last_segment(path))
}

/// Returns the error in a field name of the mapping at `section`, or `None` if it is known there.
pub(crate) fn check_field(section: &str, field: &str) -> Option<ManifestErrorKind> {
    if known_fields(section).any(|known| known == field) {
        return None;
    }
    // Fields of list entries and limits are too ambiguous to suggest a place: several lists have a
    // `name`, and `tasks` is a likely error for `task`.
    let is_clear = |path: &str| !path.contains('[') && !path.starts_with("sandbox.limits.");
    if let Some(path) = ALL.iter().find(|path| last_segment(path) == field && is_clear(path)) {
        let under = Some(parent_path(path)).filter(|parent| !parent.is_empty());
        return Some(ManifestErrorKind::MisplacedField { field: last_segment(path), under });
    }
    let nearest = suggest_name(field, known_fields(section));
    Some(ManifestErrorKind::UnknownField { field: field.to_owned(), nearest })
}

/// Returns the most similar of `names`, or `None` if no name is similar.
pub(crate) fn suggest_name<'a>(
    text: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    const SIMILAR: f64 = 0.8;
    // The comparison is quadratic in the length, and no name is that long.
    if text.len() > 64 {
        return None;
    }
    let text = text.to_lowercase().replace('-', "_");
    let likeness = |name: &str| {
        let name = name.replace('-', "_");
        // A part of a name is a likely abbreviation: `setup` of `setup_instructions`.
        let is_part = name.split('_').any(|part| part == text);
        strsim::jaro_winkler(&text, &name).max(if is_part { SIMILAR } else { 0.0 })
    };
    names
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= SIMILAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

fn parent_path(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

fn last_segment(path: &str) -> &str {
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
    fn schema_has_exactly_these_fields() {
        let mut in_schema = Vec::new();
        paths(&crate::manifest_schema(), "", &mut in_schema);
        in_schema.sort();
        let mut listed: Vec<&str> = ALL.to_vec();
        listed.sort_unstable();
        assert_eq!(in_schema, listed);
    }

    #[test]
    fn every_field_has_a_reader() {
        // A value that is wrong for every field: its reader reports an error under its path.
        for path in ALL {
            let mut text = String::new();
            let mut indent = String::new();
            for part in path.split('.') {
                let name = part.trim_end_matches("[]");
                text.push_str(&format!("{indent}{name}:"));
                indent.push_str("  ");
                text.push('\n');
                if part.ends_with("[]") {
                    // An entry whose fields start on the line of the dash.
                    text.push_str(&format!("{indent}-\n"));
                    indent.push_str("  ");
                }
            }
            text.push_str(&format!("{indent}- [~]\n"));
            let errors = crate::parse_manifest(&text).unwrap_err();
            let expected = path.replace("[]", "[0]");
            let is_reported = errors.iter().any(|error| match &error.kind {
                ManifestErrorKind::WrongType { field, .. } => field.starts_with(&expected),
                _ => false,
            });
            assert!(is_reported, "{path} has no reader:\n{text}{errors}");
        }
    }
}
