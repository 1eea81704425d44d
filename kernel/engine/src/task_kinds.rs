//! The kinds of tasks that extensions execute, and the check of submissions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use skillhost_agents::AgentRuntime;
use skillhost_core::{ArgumentCheck, ExtensionHost, PinnedInstance};
use skillhost_home::suggest_similar;
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallError, ErrorKind, OperatorCommand, PrepareTaskRequest,
    PreparedTask, TaskKindSpec, TaskSupport, ToolAudience, ToolSpec, task_interface,
};

/// The number of mistakes of an input, and of kinds, in one error.
const MAX_LISTED: usize = 8;
/// The length limit of a title, in characters.
const MAX_TITLE_CHARS: usize = 100;

/// A kind of task with the extension that executes it.
pub(crate) struct FoundTaskKind {
    pub(crate) instance: PinnedInstance,
    pub(crate) spec: TaskKindSpec,
}

/// Finds the kind of a target, `EXTENSION/KIND`.
///
/// # Errors
/// [`ErrorKind::NotFound`] with similar kinds; the reason of an extension that is rejected; an error
/// of the extension.
pub(crate) async fn find_task_kind(
    host: &ExtensionHost,
    target: &str,
) -> Result<FoundTaskKind, CallError> {
    let (extension, kind) = target.split_once('/').unwrap_or((target, ""));
    let Some(instance) = host.pin_instance(extension).filter(provides_tasks) else {
        return Err(missing_extension_error(host, extension, target).await);
    };
    let kinds = list_kinds(&instance, host.limits().start).await?;
    match kinds.into_iter().find(|spec| spec.name == kind) {
        Some(spec) => Ok(FoundTaskKind { instance, spec }),
        None => {
            let message = format!("task kind `{}` not found", target.escape_debug());
            Err(CallError::new(ErrorKind::NotFound, message)
                .with_hint(suggest_kinds(host, target).await))
        }
    }
}

/// Checks a submission and returns its title.
///
/// # Errors
/// As for [`find_task_kind`]; [`ErrorKind::InvalidArgument`] for an input that its schema does not
/// allow; the error by which the extension rejects it.
pub(crate) async fn prepare_task(
    host: &ExtensionHost,
    context: &CallContext,
    target: &str,
    input: &str,
) -> Result<(TaskKindSpec, PreparedTask), CallError> {
    let FoundTaskKind { instance, spec } = find_task_kind(host, target).await?;
    check_input(target, &spec, input)?;
    let input = RawValue::from_string(input.to_owned())
        .map_err(|error| CallError::new(ErrorKind::InvalidArgument, error.to_string()))?;
    let request = PrepareTaskRequest { context: context.clone(), kind: spec.name.clone(), input };
    let payload =
        serde_json::to_vec(&request).map_err(|error| CallError::protocol_error(&error))?;
    let (name, method) = (task_interface::NAME, task_interface::PREPARE);
    let reply = instance.call(name, method, payload, host.limits().tool).await?;
    let PreparedTask { title } =
        serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))?;
    let line = title.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(target);
    let title = line.chars().take(MAX_TITLE_CHARS).collect();
    Ok((spec, PreparedTask { title }))
}

/// Checks the submission of an agent, which may use the kinds of the extensions that its `uses_tools`
/// names.
///
/// # Errors
/// As for [`prepare_task`]; [`ErrorKind::Denied`] for another extension.
pub(crate) async fn prepare_agent_task(
    agents: &AgentRuntime,
    context: &CallContext,
    target: &str,
    input: &str,
) -> Result<(TaskKindSpec, PreparedTask), CallError> {
    let host = agents.extensions();
    let agent = agents.refresh_agent(&context.agent_id).await.map_err(CallError::from)?;
    let found = find_task_kind(host, target).await?;
    // A kind is named by its extension only, as it has no name among the tools.
    if !agents.uses_tool(&agent, &found.instance.manifest.id, target) {
        let extension = &found.instance.manifest.id;
        let message = format!("agent `{}` may not start tasks of `{extension}`", context.agent_id);
        return Err(CallError::new(ErrorKind::Denied, message)
            .with_hint(format!("add `{extension}` to `uses_tools` of the agent")));
    }
    prepare_task(host, context, target, input).await
}

fn provides_tasks(instance: &PinnedInstance) -> bool {
    instance.provides(task_interface::NAME)
}

async fn list_kinds(
    instance: &PinnedInstance,
    limit: Duration,
) -> Result<Vec<TaskKindSpec>, CallError> {
    let (name, method) = (task_interface::NAME, task_interface::KINDS);
    let reply = instance.call(name, method, b"null".to_vec(), limit).await?;
    serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))
}

/// Returns the error of an extension that executes no tasks in this kernel.
async fn missing_extension_error(host: &ExtensionHost, id: &str, target: &str) -> CallError {
    let (report, shown) = (host.report(), id.escape_debug());
    if let Some(rejected) = report.rejected.iter().find(|rejected| rejected.id == id) {
        let reason = rejected.reason.lines().next().unwrap_or_default();
        let message = format!("extension `{shown}` is rejected ({}): {reason}", rejected.phase);
        return CallError::new(ErrorKind::Failed, message).with_hint(rejected.hint.clone());
    }
    if report.disabled.iter().any(|disabled| disabled.as_str() == id) {
        let message = format!("extension `{shown}` is disabled");
        return CallError::new(ErrorKind::Failed, message)
            .with_hint("set `enabled: true` in its manifest");
    }
    let message = match host.pin_instance(id) {
        Some(_) => format!("extension `{shown}` executes no tasks"),
        None => format!("task kind `{}` not found", target.escape_debug()),
    };
    CallError::new(ErrorKind::NotFound, message).with_hint(suggest_kinds(host, target).await)
}

/// Returns the similar kinds, or all.
async fn suggest_kinds(host: &ExtensionHost, target: &str) -> String {
    let providers = host.pin_state(|state| state.pin_providers(task_interface::NAME));
    let mut known = Vec::new();
    for instance in &providers {
        // A provider that fails to list its kinds is reported when one of them is used.
        let kinds = list_kinds(instance, host.limits().start).await.unwrap_or_default();
        known.extend(kinds.iter().map(|kind| format!("{}/{}", instance.manifest.id, kind.name)));
    }
    let similar = suggest_similar(target, known.iter().map(String::as_str));
    match (similar.as_slice(), known.as_slice()) {
        ([], []) => {
            format!("no loaded extension executes tasks; see: {}", OperatorCommand::ListExtensions)
        }
        ([], known) => {
            format!("use one of: {}", known[..known.len().min(MAX_LISTED)].join(", "))
        }
        (similar, _) => format!("did you mean {}?", similar.join(", ")),
    }
}

/// Checks that an input is one JSON object that the kind's schema allows.
fn check_input(target: &str, spec: &TaskKindSpec, input: &str) -> Result<(), CallError> {
    let invalid = |message: String| {
        CallError::new(ErrorKind::InvalidArgument, format!("input of `{target}`: {message}"))
    };
    let value: Value =
        serde_json::from_str(input).map_err(|error| invalid(format!("not JSON: {error}")))?;
    if !value.is_object() {
        return Err(invalid("not a JSON object".to_owned()));
    }
    // The check of tools, with its texts about mistakes.
    let check = ArgumentCheck::new(Arc::new(ToolSpec {
        name: spec.name.clone(),
        description: String::new(),
        input_schema: spec.input_schema.clone(),
        output_schema: None,
        read_only: false,
        destructive: false,
        needs_approval: ApprovalPolicy::Never,
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: None,
        task: TaskSupport::Never,
        needs: Vec::new(),
        skill_use: None,
    }));
    let mistakes = check.mistakes(&value);
    match mistakes.as_slice() {
        [] => Ok(()),
        mistakes => {
            let listed = mistakes[..mistakes.len().min(MAX_LISTED)].join("; ");
            Err(invalid(listed).with_hint(format!("the schema is: {}", spec.input_schema)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn input_matches_schema() {
        let schema = json!({
            "type": "object",
            "properties": {"pages": {"type": "integer"}},
            "required": ["pages"],
            "additionalProperties": false
        });
        let spec = TaskKindSpec::new("import", "Imports.", schema);
        let message = |input| check_input("a/import", &spec, input).unwrap_err().message;
        assert_eq!(check_input("a/import", &spec, "{\"pages\": 2}"), Ok(()));
        assert_eq!(message("[1]"), "input of `a/import`: not a JSON object");
        assert!(message("{").starts_with("input of `a/import`: not JSON: "), "{}", message("{"));
        assert_eq!(message("{}"), "input of `a/import`: field `pages` is missing");
        let unknown = message("{\"pages\": 1, \"page\": 2}");
        assert!(unknown.contains("did you mean pages?"), "{unknown}");
    }
}
