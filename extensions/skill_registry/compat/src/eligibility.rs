//! Eligibility: the requirements of a skill against the available skills and tools.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use crate::extended::{ExtendedSpec, ToolDependency, ToolVersion, tool_name};

/// An available tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableTool {
    /// Its name, without a pattern.
    pub name: String,
    /// The version that it reports, if any.
    pub version: Option<String>,
}

/// The result of an eligibility check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// All checked requirements are met.
    Eligible,
    /// A requirement is not met. The skill is loaded nevertheless.
    Ineligible(Vec<MissingRequirement>),
}

/// A requirement of a skill that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingRequirement {
    /// A required skill does not exist; holds its id.
    MissingSkill(String),
    /// A required tool does not exist; holds the tool as the skill names it.
    MissingTool(String),
    /// A required tool is too old or reports no version.
    OldTool {
        /// The tool as the skill names it.
        tool: String,
        /// The available version.
        has: Option<String>,
        /// The minimum version.
        needs: ToolVersion,
    },
}

/// Checks the requirements of a skill.
///
/// `requires` are the ids in its field `requires`, all of them required; `extended` are its
/// declarations. Optional skills and tools do not count; nor do conflicts, which matter only where
/// both skills are in use (see [`build_graph`](crate::graph::build_graph)). `skills` returns `true`
/// for an existing id. `tools` are the available tools; if they are `None`, tools are not checked
/// and
/// [`unchecked_tools`] lists them. A pattern such as `Bash(git:*)` requires the tool `Bash`.
#[must_use]
pub fn check_eligibility(
    requires: &[String],
    extended: &ExtendedSpec,
    skills: &dyn Fn(&str) -> bool,
    tools: Option<&[AvailableTool]>,
) -> Eligibility {
    let mut reasons = Vec::new();
    let mut add = |reason: MissingRequirement| {
        // `requires` and the dependencies often name the same skill.
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    };
    let needed = extended.composition.iter().flat_map(|it| &it.dependencies);
    let needed = needed.filter(|it| !it.optional).map(|it| &it.skill_name);
    for id in requires.iter().chain(needed).filter(|id| !skills(id)) {
        add(MissingRequirement::MissingSkill(id.clone()));
    }
    for needed in required_tools(extended) {
        let Some(tools) = tools else { break };
        if let Some(missing) = check_tool(needed, tools) {
            add(missing);
        }
    }
    if reasons.is_empty() { Eligibility::Eligible } else { Eligibility::Ineligible(reasons) }
}

fn required_tools(extended: &ExtendedSpec) -> impl Iterator<Item = &ToolDependency> {
    extended.tools.iter().flat_map(|it| &it.dependencies).filter(|it| it.required)
}

/// Checks a required tool against the available ones.
fn check_tool(needed: &ToolDependency, tools: &[AvailableTool]) -> Option<MissingRequirement> {
    let name = tool_name(&needed.tool);
    // Several servers can offer a tool of one name; one new enough is sufficient.
    let mut found = tools.iter().filter(|tool| tool.name == name).peekable();
    let Some(first) = found.peek() else {
        return Some(MissingRequirement::MissingTool(needed.tool.clone()));
    };
    let has = first.version.clone();
    // Without a minimum, any version counts, even none.
    let oldest = needed.min_version.as_ref()?;
    let version = |tool: &AvailableTool| tool.version.as_deref().and_then(ToolVersion::new);
    let is_new_enough = found.any(|tool| version(tool).is_some_and(|version| version >= *oldest));
    (!is_new_enough).then(|| MissingRequirement::OldTool {
        tool: needed.tool.clone(),
        has,
        needs: oldest.clone(),
    })
}

/// Describes each required tool that is missing or too old: `Bash ≥ 2.0 is missing`. Quotes
/// untrusted text.
#[must_use]
pub fn describe_tool_problems(extended: &ExtendedSpec, tools: &[AvailableTool]) -> Vec<String> {
    let mut problems: Vec<String> = Vec::new();
    for needed in required_tools(extended) {
        let Some(missing) = check_tool(needed, tools) else { continue };
        let minimum = needed.min_version.as_ref();
        let minimum = minimum.map(|oldest| format!(" ≥ {oldest}")).unwrap_or_default();
        let found = match missing {
            MissingRequirement::OldTool { has: Some(has), .. } => format!(" (found {has})"),
            MissingRequirement::OldTool { has: None, .. } => " (found without a version)".into(),
            _ => String::new(),
        };
        let problem = format!("{}{minimum} is missing{found}", needed.tool);
        // A tool may be named once for each of its patterns.
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems
}

/// Returns the required tools that [`check_eligibility`] did not check, as the skill names them.
#[must_use]
pub fn unchecked_tools<'a>(
    extended: &'a ExtendedSpec,
    tools: Option<&[AvailableTool]>,
) -> Vec<&'a str> {
    required_tools(extended).filter(|_| tools.is_none()).map(|it| it.tool.as_str()).collect()
}

/// Writes a lower-case fragment that quotes untrusted text.
impl fmt::Display for MissingRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingSkill(id) => write!(f, "required skill `{id}` not found"),
            Self::MissingTool(tool) => write!(f, "required tool `{tool}` not found"),
            Self::OldTool { tool, has: Some(has), needs } => {
                write!(f, "required tool `{tool}` has version {has}; requires {needs} or later")
            }
            Self::OldTool { tool, has: None, needs } => {
                write!(f, "required tool `{tool}` reports no version; requires {needs} or later")
            }
        }
    }
}

/// Serializes as an object with `kind`, `name` and `message`.
impl Serialize for MissingRequirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, name) = match self {
            Self::MissingSkill(id) => ("missing_skill", id),
            Self::MissingTool(tool) => ("missing_tool", tool),
            Self::OldTool { tool, .. } => ("old_tool", tool),
        };
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("kind", kind)?;
        map.serialize_entry("name", name)?;
        map.serialize_entry("message", &self.to_string())?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extended::ParsedExtendedSpec;

    fn extended() -> ExtendedSpec {
        let yaml = "\
tools:
  dependencies:
    - {tool: 'Bash(git:*)', required: true, purpose: x, minVersion: '2.40'}
    - {tool: Read, required: true, purpose: x}
    - {tool: Web, required: false, purpose: x}
composition:
  dependencies:
    - {skillName: people, reason: x}
    - {skillName: weather, reason: x, optional: true}
  conflicts: [insult]
";
        ParsedExtendedSpec::parse_skill_yaml(yaml, "greet").extended
    }

    fn tool(name: &str, version: Option<&str>) -> AvailableTool {
        AvailableTool { name: name.to_owned(), version: version.map(str::to_owned) }
    }

    fn reasons(skills: &[&str], tools: Option<&[AvailableTool]>) -> Vec<String> {
        let requires = ["base".to_owned(), "people".to_owned()];
        match check_eligibility(&requires, &extended(), &|id| skills.contains(&id), tools) {
            Eligibility::Eligible => Vec::new(),
            Eligibility::Ineligible(reasons) => {
                reasons.iter().map(MissingRequirement::to_string).collect()
            }
        }
    }

    #[test]
    fn each_reason_is_reported_once() {
        let tools = [tool("Bash", Some("2.39")), tool("bash", Some("9"))];
        assert_eq!(
            reasons(&["insult"], Some(&tools)),
            [
                "required skill `base` not found",
                "required skill `people` not found",
                "required tool `Bash(git:*)` has version 2.39; requires 2.40 or later",
                "required tool `Read` not found",
            ]
        );
        let silent = [tool("Bash", None), tool("Read", None)];
        assert_eq!(
            reasons(&["base", "people"], Some(&silent)),
            ["required tool `Bash(git:*)` reports no version; requires 2.40 or later"]
        );
    }

    #[test]
    fn complete_skill_is_eligible() {
        let tools = [tool("Read", None), tool("Bash", None), tool("Bash", Some("2.100"))];
        assert_eq!(reasons(&["base", "people"], Some(&tools)), [""; 0]);
        assert_eq!(reasons(&["base", "people"], None), [""; 0]);
        let extended = extended();
        assert_eq!(unchecked_tools(&extended, None), ["Bash(git:*)", "Read"]);
        assert_eq!(unchecked_tools(&extended, Some(&[])), [""; 0]);
    }

    #[test]
    fn reason_serializes_as_object() {
        assert_eq!(
            serde_json::to_value(MissingRequirement::MissingTool("Bash(git:*)".to_owned()))
                .unwrap(),
            serde_json::json!({
                "kind": "missing_tool",
                "name": "Bash(git:*)",
                "message": "required tool `Bash(git:*)` not found",
            })
        );
    }
}
