//! The skills that a call uses, from the arguments that its tool declares.

use serde::Deserialize;
use serde_json::Value;
use skillhost_agents::ObservedCall;
use skillhost_payload::{SkillUseKind, ToolOutput};

/// The longest arguments that are parsed, in bytes.
const MAX_ARGUMENTS: usize = 256 << 10;
/// The largest number of skills of one call.
const MAX_SKILLS: usize = 8;
/// The longest name of a skill, with the label of its root, in bytes.
const MAX_NAME: usize = 129;
/// The longest path of a file, in bytes.
const MAX_PATH: usize = 256;
/// The longest description, in characters; the limit of the Agent Skills standard.
const MAX_DESCRIPTION: usize = 1024;

/// The use of skills by a call. It has only what may be exported: the arguments are texts of a model,
/// so they are used only where they have the form of a name or of a relative path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillCall {
    pub(crate) kind: SkillUseKind,
    /// The skills, whether they exist or not.
    pub(crate) skills: Vec<String>,
    /// The path of the file in the skill.
    pub(crate) resource: Option<String>,
}

/// The parts of results that are exported.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct SkillOutcome {
    /// The exit code of a script.
    pub(crate) exit_code: Option<i64>,
    /// The description of a skill whose instructions are in the result.
    pub(crate) description: Option<String>,
}

impl SkillCall {
    /// Reads the use of skills from a call; `None` if its tool uses none.
    pub(crate) fn read(call: &ObservedCall<'_>) -> Option<Self> {
        let declared = call.spec.skill_use.as_ref()?;
        let arguments: Value = match call.arguments.len() <= MAX_ARGUMENTS {
            true => serde_json::from_str(call.arguments).unwrap_or_default(),
            false => Value::Null,
        };
        let mut skills: Vec<_> = match arguments.get(&declared.skill_argument) {
            Some(Value::String(name)) => vec![name.clone()],
            Some(Value::Array(names)) => {
                names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
            }
            // The tools take the skill that was loaded last, too.
            None | Some(Value::Null) => {
                let last = call.context.active_skills.last();
                last.map(|skill| skill.skill_id.clone()).into_iter().collect()
            }
            Some(_) => Vec::new(),
        };
        skills.retain(|name| is_skill_name(name));
        skills.truncate(MAX_SKILLS);
        let path = declared.path_argument.as_ref().and_then(|argument| arguments.get(argument));
        let path = path.and_then(Value::as_str).filter(|path| is_relative_path(path));
        Some(Self { kind: declared.kind, skills, resource: path.map(str::to_owned) })
    }

    /// Returns the name of the script that the call runs.
    pub(crate) fn executable(&self) -> Option<&str> {
        let is_run = self.kind == SkillUseKind::Script;
        self.resource.as_deref().filter(|_| is_run).and_then(|path| path.rsplit('/').next())
    }

    /// Reads the exported parts of a result.
    pub(crate) fn read_outcome(&self, output: &ToolOutput) -> SkillOutcome {
        let Some(structured) = &output.structured else { return SkillOutcome::default() };
        let outcome: SkillOutcome = serde_json::from_str(structured.get()).unwrap_or_default();
        SkillOutcome {
            exit_code: outcome.exit_code.filter(|_| self.kind == SkillUseKind::Script),
            description: outcome
                .description
                .filter(|_| self.kind == SkillUseKind::Instructions && self.skills.len() == 1)
                .map(|text| text.chars().take(MAX_DESCRIPTION).collect()),
        }
    }
}

/// Returns whether a text has the form of the id of a skill, perhaps with the label of its root.
fn is_skill_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_part)
}

/// Returns whether a text is the path of a file below a skill, without a step to a directory above.
fn is_relative_path(text: &str) -> bool {
    // A file with such a path need not exist: the path is not opened here.
    let is_step = |step: &str| !step.is_empty() && step != "." && step != "..";
    let is_plain = |c: char| !c.is_control() && c != '\\' && c != ':';
    text.len() <= MAX_PATH && text.split('/').all(is_step) && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillhost_payload::{CallContext, SkillRef, SkillUse, ToolSpec};

    use super::*;

    fn spec(kind: SkillUseKind, skill: &str) -> ToolSpec {
        let mut spec: ToolSpec =
            serde_json::from_value(json!({"name": "t", "description": "", "input_schema": {}}))
                .unwrap();
        spec.skill_use = Some(SkillUse {
            kind,
            skill_argument: skill.to_owned(),
            path_argument: Some("path".to_owned()),
        });
        spec
    }

    fn read(spec: &ToolSpec, arguments: &str) -> Option<SkillCall> {
        let loaded =
            |id: &str| SkillRef { skill_id: id.to_owned(), digest: String::new(), tree: None };
        let context = CallContext {
            active_skills: vec![loaded("csv"), loaded("pdf")],
            ..CallContext::default()
        };
        SkillCall::read(&ObservedCall {
            spec,
            arguments,
            context: &context,
            root_thread_id: None,
            parent: None,
        })
    }

    #[test]
    fn declared_arguments_name_skill_and_file() {
        let tool = spec(SkillUseKind::Resource, "skill_id");
        let call = read(&tool, r#"{"skill_id": "pdf@team", "path": "references/a b.md"}"#).unwrap();
        assert_eq!(call.skills, ["pdf@team"]);
        assert_eq!(call.resource.as_deref(), Some("references/a b.md"));
        assert_eq!(call.executable(), None);
        let many = read(&spec(SkillUseKind::Instructions, "names"), r#"{"names": ["a", 3, "b"]}"#);
        assert_eq!(many.unwrap().skills, ["a", "b"]);
    }

    #[test]
    fn absent_argument_means_last_loaded_skill() {
        let tool = spec(SkillUseKind::Script, "skill");
        let call = read(&tool, r#"{"path": "scripts/report.py"}"#).unwrap();
        assert_eq!(call.skills, ["pdf"]);
        assert_eq!(call.executable(), Some("report.py"));
    }

    #[test]
    fn tool_without_declaration_uses_no_skill() {
        let tool = ToolSpec { skill_use: None, ..spec(SkillUseKind::Resource, "skill_id") };
        assert_eq!(read(&tool, r#"{"skill_id": "pdf"}"#), None);
    }

    #[test]
    fn texts_of_other_forms_are_not_exported() {
        let tool = spec(SkillUseKind::Resource, "skill_id");
        let long = "a".repeat(130);
        for name in ["", "fill in my W-9", "a/b", "a\u{1b}[2J", "naïve", long.as_str()] {
            let arguments = json!({"skill_id": name, "path": "x"}).to_string();
            assert!(read(&tool, &arguments).unwrap().skills.is_empty(), "{name:?}");
        }
        let long = "a/".repeat(200);
        for path in
            ["/etc/passwd", "../secret", "a/../b", "./a", "a//b", "C:\\x", "C:x", "a\nb", &long]
        {
            let arguments = json!({"skill_id": "pdf", "path": path}).to_string();
            assert_eq!(read(&tool, &arguments).unwrap().resource, None, "{path:?}");
        }
        for arguments in ["", "[]", "{", r#"{"skill_id": {"a": 1}}"#, &"x".repeat(300 << 10)] {
            let call = read(&tool, arguments).unwrap();
            assert!(call.resource.is_none() && call.skills.len() <= 1);
        }
    }

    #[test]
    fn outcome_has_only_exit_code_and_description() {
        let output = |value: Value| ToolOutput {
            structured: Some(serde_json::value::to_raw_value(&value).unwrap()),
            ..ToolOutput::default()
        };
        let value = json!({"exit_code": 3, "description": "d".repeat(2000), "stdout": "secret"});
        let run = read(&spec(SkillUseKind::Script, "skill"), "{}").unwrap();
        let outcome = run.read_outcome(&output(value.clone()));
        assert_eq!((outcome.exit_code, outcome.description), (Some(3), None));
        let load = read(&spec(SkillUseKind::Instructions, "skill"), "{}").unwrap();
        let outcome = load.read_outcome(&output(value));
        assert_eq!(outcome.exit_code, None);
        assert_eq!(outcome.description.map(|text| text.len()), Some(1024));
        assert_eq!(run.read_outcome(&output(json!("text"))), SkillOutcome::default());
        assert_eq!(run.read_outcome(&ToolOutput::default()), SkillOutcome::default());
    }
}
