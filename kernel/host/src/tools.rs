//! The tool table: one name, one owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skillhost_contract::payload::{Audience, CallContext, ErrorKind, Origin, ToolOutput, ToolSpec};
use skillhost_manifest::ExtensionId;

use crate::error::{CallError, KernelError, similar};
use crate::instance::Instance;
use crate::kernel::Shared;

/// A tool and the extension it belongs to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnedTool {
    /// The extension.
    pub extension: ExtensionId,
    /// What it offers.
    #[serde(flatten)]
    pub spec: ToolSpec,
}

/// Who owns which tool name.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolTable {
    owners: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    owner: ExtensionId,
    audience: Audience,
}

/// Why a tool cannot be taken into the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ToolProblem {
    #[error("the tool name {0:?} is not 1 to 64 letters, digits, `_`, `-` or `.`")]
    Name(String),
    #[error("the input schema of the tool `{0}` is not a JSON object")]
    Schema(String),
    #[error("the tool `{name}` is declared twice")]
    Twice { name: String },
    #[error("the tool `{name}` of `{owner}` is already provided by `{other}`")]
    Taken { name: String, owner: ExtensionId, other: ExtensionId },
}

impl ToolProblem {
    /// What to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Taken { .. } => "rename the tool, or disable one of the two",
            Self::Name(_) | Self::Schema(_) | Self::Twice { .. } => {
                "correct what the extension's `tools` returns"
            }
        }
    }
}

impl ToolTable {
    /// Adds an extension's tools, all or none.
    ///
    /// # Errors
    /// Everything that is wrong with them: names and schemas that no model's interface takes, and
    /// names that are taken.
    pub(crate) fn add(&mut self, instance: &Instance) -> Result<(), Vec<ToolProblem>> {
        let owner = &instance.manifest.id;
        let mut problems = Vec::new();
        let mut added = BTreeMap::new();
        for spec in &instance.specs {
            let entry = Entry { owner: owner.clone(), audience: spec.audience };
            let name = spec.name.clone();
            if !is_valid_name(&name) {
                problems.push(ToolProblem::Name(name));
            } else if !spec.input_schema.is_object() {
                problems.push(ToolProblem::Schema(name));
            } else if let Some(taken) = self.owners.get(&name) {
                let (owner, other) = (owner.clone(), taken.owner.clone());
                problems.push(ToolProblem::Taken { name, owner, other });
            } else if added.insert(name.clone(), entry).is_some() {
                problems.push(ToolProblem::Twice { name });
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        self.owners.append(&mut added);
        Ok(())
    }

    /// Takes an extension's tools out.
    pub(crate) fn remove(&mut self, owner: &ExtensionId) {
        self.owners.retain(|_, entry| entry.owner != *owner);
    }

    /// Finds a tool's owner; operators' tools exist for operators only.
    fn owner(&self, name: &str, origin: Origin) -> Result<&ExtensionId, KernelError> {
        let offered =
            |entry: &Entry| entry.audience == Audience::Agent || origin == Origin::Operator;
        match self.owners.get(name) {
            Some(entry) if offered(entry) => Ok(&entry.owner),
            _ => {
                let names = self.owners.iter().filter(|(_, e)| offered(e)).map(|(n, _)| n.as_str());
                let similar = similar(name, names);
                Err(KernelError::NotFound { what: "tool", id: name.to_owned(), similar })
            }
        }
    }
}

fn is_valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

impl Shared {
    /// Lists the tools one caller may see, sorted by name; an extension that fails to answer is
    /// left out and its error is returned beside the list.
    pub(crate) async fn list_tools(
        &self,
        context: &CallContext,
        extensions: Option<&[&str]>,
    ) -> (Vec<OwnedTool>, Vec<(ExtensionId, CallError)>) {
        let wanted = |id: &ExtensionId| extensions.is_none_or(|ids| ids.contains(&id.as_str()));
        // The state is dropped before the pins are.
        let (instances, state) = self.pin(|state| {
            let wanted = state.instances.iter().filter(|(id, _)| wanted(id));
            let pinned: Option<Vec<_>> = wanted.map(|(_, instance)| instance.pin()).collect();
            Some((pinned?, Arc::clone(state)))
        });
        let (mut tools, mut failures) = (Vec::new(), Vec::new());
        for instance in &instances {
            let id = &instance.manifest.id;
            match instance.tools(context, &self.limits).await {
                Ok(specs) => tools.extend(
                    specs
                        .into_iter()
                        .filter(|spec| {
                            state.tools.owner(&spec.name, context.origin).ok() == Some(id)
                        })
                        .map(|spec| OwnedTool { extension: id.clone(), spec }),
                ),
                Err(error) => failures.push((id.clone(), error)),
            }
        }
        tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        (tools, failures)
    }

    /// Calls a tool with arguments as JSON text.
    pub(crate) async fn invoke_tool(
        &self,
        mut context: CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, KernelError> {
        let instance = self.pin(|state| match state.tools.owner(name, context.origin) {
            Ok(owner) => state.instances[owner].pin().map(Ok),
            Err(error) => Some(Err(error)),
        })?;
        check_arguments(arguments)?;
        context.call_id = self.next_call_id();
        let limit = match context.deadline_ms {
            Some(ms) => self.limits.tool.min(std::time::Duration::from_millis(ms)),
            None => self.limits.tool,
        };
        context.deadline_ms = u64::try_from(limit.as_millis()).ok();
        Ok(instance.invoke(&context, name, arguments, limit).await?)
    }
}

/// Arguments are one JSON object; their fields are the tool's business.
fn check_arguments(arguments: &str) -> Result<(), CallError> {
    let invalid = |message: String| {
        CallError::new(ErrorKind::InvalidArgument, message)
            .with_hint("arguments are one JSON object, such as {\"skill_id\": \"code-review\"}")
    };
    match serde_json::from_str::<serde::de::IgnoredAny>(arguments) {
        Err(error) => Err(invalid(format!("the arguments are not JSON: {error}"))),
        Ok(_) if !arguments.trim_start().starts_with('{') => {
            Err(invalid("the arguments are not a JSON object".to_owned()))
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_must_be_one_object() {
        assert_eq!(check_arguments(" {\"a\": 1}"), Ok(()));
        let message = |text| check_arguments(text).unwrap_err().message;
        assert_eq!(message("[1]"), "the arguments are not a JSON object");
        assert_eq!(message("\"x\""), "the arguments are not a JSON object");
        assert!(message("{\"a\": }").starts_with("the arguments are not JSON"));
        assert!(message("{} {}").starts_with("the arguments are not JSON"));
        assert!(message("").starts_with("the arguments are not JSON"));
    }

    #[test]
    fn tool_names_fit_every_models_interface() {
        let longest = "a".repeat(64);
        for name in ["echo", "skills.load", "a-b_c", longest.as_str()] {
            assert!(is_valid_name(name), "{name}");
        }
        for name in ["", "a b", "é", "a/b", &"a".repeat(65)] {
            assert!(!is_valid_name(name), "{name}");
        }
    }
}
