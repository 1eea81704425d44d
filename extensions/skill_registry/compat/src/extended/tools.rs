//! Parsing of tool bindings.

use serde::Serialize;
use yaml_tree::Value;

use super::reader::{RecordReader, SectionRules, excerpt};
use super::version::ToolVersion;

pub(super) static RULES: SectionRules = SectionRules {
    name: "tools",
    kind: "tools.type",
    required: "tools.required",
    value: "tools.value",
    unknown: "tools.unknownField",
};

pub(super) const FIELDS: &[&str] = &["dependencies"];

/// The tools that a skill needs (SkillsCraft specification reference).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolBinding {
    /// The tools, in the order written. Required.
    pub dependencies: Vec<ToolDependency>,
}

/// A tool that a skill uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDependency {
    /// The tool or a pattern of its uses, such as `SkillAccess` or `Bash(git:*)`. Required.
    pub tool: String,
    /// Whether the skill requires the tool. Required; `true` if the field is missing.
    pub required: bool,
    /// The purpose. Required.
    pub purpose: String,
    /// The minimum version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_version: Option<ToolVersion>,
}

/// Returns the name of the tool in a pattern: `Bash` of `Bash(git:*)`.
#[must_use]
pub(crate) fn tool_name(pattern: &str) -> &str {
    pattern.split('(').next().unwrap_or_default().trim()
}

/// Returns `true` if a text is the name of a tool, optionally followed by a pattern in parentheses.
fn is_tool(text: &str) -> bool {
    let name = tool_name(text);
    let plain = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == ')');
    let rest = &text[text.find('(').unwrap_or(text.len())..];
    // `()` without a pattern matches no use of the tool.
    plain && (rest.is_empty() || (rest.len() > 2 && rest.ends_with(')')))
}

pub(super) fn read_tools(reader: &mut RecordReader<'_>, value: &Value) -> Option<ToolBinding> {
    let record = reader.read_record(RULES.name.to_owned(), value, FIELDS)?;
    let mut dependencies = Vec::new();
    for (index, item) in reader.read_list(&record, "dependencies", true).iter().enumerate() {
        let name = format!("{}.dependencies[{index}]", record.name);
        let fields = ["tool", "required", "purpose", "minVersion"];
        let Some(item) = reader.read_record(name, item, &fields) else { continue };
        let tool = reader.required_text(&item, "tool");
        // Assuming `true` is the safe side: the skill is not offered without the tool.
        let required = reader.required_boolean(&item, "required").unwrap_or(true);
        let purpose = reader.required_text(&item, "purpose").unwrap_or_default();
        let version = reader.read_text(&item, "minVersion");
        let min_version = version.as_deref().and_then(ToolVersion::new);
        if let (Some(version), None) = (&version, &min_version) {
            let message = format!("`{}` is not a version", excerpt(version));
            let help = "write numbers separated by periods, such as `2.40`";
            reader.report(RULES.value, item.field_span("minVersion"), message, help);
        }
        let Some(tool) = tool else { continue };
        if !is_tool(&tool) {
            let message = format!("`{}` is not the name of a tool", excerpt(&tool));
            let help = "write one tool, such as `Read` or `Bash(git:*)`";
            reader.report(RULES.value, item.field_span("tool"), message, help);
            continue;
        }
        dependencies.push(ToolDependency { tool, required, purpose, min_version });
    }
    Some(ToolBinding { dependencies })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_names_tool() {
        for (pattern, name) in [
            ("Read", "Read"),
            ("Bash(git:*)", "Bash"),
            ("Bash(npm run test:*)", "Bash"),
            ("mcp__github__search", "mcp__github__search"),
        ] {
            assert!(is_tool(pattern), "{pattern}");
            assert_eq!(tool_name(pattern), name);
        }
        for other in ["", "(git:*)", "Bash(git:*", "Bash()", "Bash)", "Read Write", "Bash(a)b"] {
            assert!(!is_tool(other), "{other}");
        }
    }
}
