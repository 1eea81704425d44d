//! The tool table: one name, one owner.

use std::collections::BTreeMap;

use serde::Serialize;
use skillhost_contract::payload::{Audience, CallContext, ErrorKind, Origin, ToolOutput, ToolSpec};
use skillhost_manifest::ExtensionId;

use crate::error::{CallError, KernelError, similar};
use crate::instance::Instance;
use crate::kernel::Shared;

/// A tool and the extension it belongs to.
#[derive(Debug, Clone, Serialize)]
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

impl ToolTable {
    /// Adds an extension's tools, all or none.
    ///
    /// # Errors
    /// A message naming both owners of a name, or a name that no model's interface takes.
    pub(crate) fn add(&mut self, instance: &Instance) -> Result<(), String> {
        let owner = &instance.manifest.id;
        let mut problems = Vec::new();
        let mut added = BTreeMap::new();
        for spec in &instance.specs {
            let entry = Entry { owner: owner.clone(), audience: spec.audience };
            if !is_valid_name(&spec.name) {
                problems.push(format!(
                    "the tool name {:?} is not 1 to 64 letters, digits, `_`, `-` or `.`",
                    spec.name
                ));
            } else if let Some(other) = self.owners.get(&spec.name) {
                problems.push(format!(
                    "the tool `{}` of `{owner}` is already provided by `{}`",
                    spec.name, other.owner
                ));
            } else if added.insert(spec.name.clone(), entry).is_some() {
                problems.push(format!("`{owner}` provides the tool `{}` twice", spec.name));
            }
        }
        if !problems.is_empty() {
            return Err(problems.join("\n"));
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
        let state = self.state.load_full();
        let (mut tools, mut failures) = (Vec::new(), Vec::new());
        for (id, instance) in &state.instances {
            if extensions.is_some_and(|wanted| !wanted.contains(&id.as_str())) {
                continue;
            }
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
        let state = self.state.load_full();
        let owner = state.tools.owner(name, context.origin)?;
        let instance = state.instances.get(owner).ok_or_else(|| {
            CallError::new(ErrorKind::Unavailable, format!("`{owner}` is not loaded"))
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
