//! The tools by which agents submit tasks and follow them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use skillhost_agents::{AgentRuntime, WeakAgentRuntime};
use skillhost_core::{Plugin, PreparedCall, ToolTable};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{
    ApprovalPolicy, CallContext, CallEffect, CallError, ErrorKind, TaskSupport, ToolAudience,
    ToolOutput, ToolSpec, object_schema,
};
use skillhost_tasks::{
    EndNotice, NewTask, SubmitterOrigin, Task, TaskBudget, TaskId, TaskKind, TaskOutcome,
    TaskProgress, TaskQueue, TaskSubmitter, WaitMode,
};

use crate::running_tasks::RunningTasks;
use crate::task_kinds::prepare_agent_task;

/// The owner of the tools, for `uses_tools`; reserved as an id.
const TASKS_OWNER: &str = "tasks";

const SUBMIT: &str = "submit_task";
const WAIT: &str = "wait_for_tasks";
const CHECK: &str = "check_tasks";
const CANCEL: &str = "cancel_task";
const PROGRESS: &str = "report_progress";
const ASK: &str = "ask_person";

/// The limit of tasks in one call.
const MAX_TASKS: usize = 64;
/// The longest wait of an interactive run, less than the time of a call.
const MAX_LIVE_WAIT: Duration = Duration::from_secs(50);
/// The limit of parents that are followed to find the submitter; deeper than any task.
const MAX_DEPTH: usize = 64;
/// The length limit of a result in an answer, in characters.
const MAX_RESULT_CHARS: usize = 20_000;

/// The tools of tasks.
struct TaskTools {
    agents: WeakAgentRuntime,
    queue: TaskQueue,
    running: Arc<RunningTasks>,
}

/// The caller of a tool: the run of an agent.
struct TaskCaller {
    agents: AgentRuntime,
    /// The root thread of the run: that of a task for the run of a task.
    thread: String,
    /// The task that the run works on.
    task: Option<TaskId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubmitTaskArgs {
    agent: Option<String>,
    task: Option<String>,
    /// `EXTENSION/KIND`, with its input, instead of an agent with its task.
    kind: Option<String>,
    input: Option<Box<RawValue>>,
    title: Option<String>,
    key: Option<String>,
    #[serde(default)]
    after: Vec<String>,
    on_end: Option<EndNotice>,
    #[serde(default)]
    budget: TaskBudget,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitForTasksArgs {
    tasks: Vec<String>,
    #[serde(default)]
    mode: WaitMode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckTasksArgs {
    tasks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelTaskArgs {
    task: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskPersonArgs {
    question: String,
    #[serde(default)]
    options: Vec<String>,
}

/// Adds the tools to those of the kernel, for agents whose `uses_tools` name `tasks`.
pub(crate) fn add_tools(
    tools: &mut ToolTable,
    agents: WeakAgentRuntime,
    queue: TaskQueue,
    running: Arc<RunningTasks>,
) {
    let owner = ExtensionId::new(TASKS_OWNER).expect("the id is valid");
    let plugin: Arc<dyn Plugin> = Arc::new(TaskTools { agents, queue, running });
    let added = tools.add_builtin(&owner, &plugin, &tool_specs());
    added.expect("the tools have valid names and schemas");
}

fn tool_specs() -> Vec<ToolSpec> {
    let text =
        |description: &str| json!({"type": "string", "minLength": 1, "description": description});
    let ids = |description: &str| {
        json!({
            "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_TASKS,
            "description": description
        })
    };
    let limit =
        |description: &str| json!({"type": "integer", "minimum": 1, "description": description});
    let budget = json!({
        "type": "object",
        "properties": {
            "turns": limit("Model requests."),
            "tokens": limit("Tokens, input and output."),
            "time_ms": limit("Milliseconds of model requests and tool calls."),
            "cost": limit("Cost in millionths of a dollar.")
        },
        "additionalProperties": false,
        "description": "The limits of the task."
    });
    vec![
        new_spec(
            SUBMIT,
            "Submits a task to an agent, which works on it in the background, also after a restart. \
             The agent sees no message of this thread: include everything that it needs. The same \
             key and task return the task that exists. With `kind` and `input` instead of `agent` \
             and `task`, an extension executes it.",
            &json!({
                "agent": text("The agent, as list_agents names it."),
                "task": text("The task, complete in itself."),
                "kind": text("EXTENSION/KIND, for an extension of your tools that executes tasks."),
                "input": {"type": "object", "description": "The input of the kind."},
                "title": text("A short title for people."),
                "key": text("A key of your choice, so that the task is submitted once."),
                "after": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_TASKS,
                          "description": "Ids of tasks that have to complete before."},
                "on_end": {"enum": ["note", "wake", "silent"],
                           "description": "note: this thread gets a notice. wake: you get a turn with it. silent: neither."},
                "budget": budget
            }),
            &[],
            CallEffect::Keyed,
        ),
        new_spec(
            WAIT,
            "Waits until tasks have ended, and returns their results. Outside of a task it returns \
             their states after some time; call it again then.",
            &json!({
                "tasks": ids("The ids of the tasks."),
                "mode": {"enum": ["all", "any"], "description": "Whether all have to end, or one."}
            }),
            &["tasks"],
            CallEffect::Read,
        ),
        new_spec(
            CHECK,
            "Returns the states of tasks, and the results of those that have ended.",
            &json!({"tasks": ids("The ids of the tasks.")}),
            &["tasks"],
            CallEffect::Read,
        ),
        new_spec(
            CANCEL,
            "Cancels a task that you submitted, with the tasks below it.",
            &json!({"task": text("The id of the task.")}),
            &["task"],
            CallEffect::Keyed,
        ),
        new_spec(
            PROGRESS,
            "Reports the progress of the task that you work on, for people.",
            &json!({
                "done": {"type": "number", "minimum": 0, "description": "The finished units."},
                "total": {"type": "number", "minimum": 0, "description": "All units, if known."},
                "text": text("The present step, in a few words.")
            }),
            &["done", "text"],
            CallEffect::Keyed,
        ),
        new_spec(
            ASK,
            "Asks a person a question and waits for the answer. Use it only where the answer decides \
             what you do next and nothing else can give it.",
            &json!({
                "question": text("The question, complete in itself."),
                "options": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 8,
                            "description": "The possible answers; without them any text is one."}
            }),
            &["question"],
            CallEffect::Read,
        ),
    ]
}

fn new_spec(
    name: &str,
    description: &str,
    properties: &Value,
    required: &[&str],
    effect: CallEffect,
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: object_schema(properties, required),
        output_schema: None,
        read_only: name == CHECK,
        destructive: false,
        needs_approval: ApprovalPolicy::Never,
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: Some(effect),
        task: TaskSupport::Never,
        needs: Vec::new(),
        skill_use: None,
    }
}

#[async_trait]
impl Plugin for TaskTools {
    async fn tools(&self, _: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        Ok(tool_specs())
    }

    async fn prepare(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<PreparedCall, CallError> {
        if name != SUBMIT {
            return Ok(PreparedCall::default());
        }
        let args: SubmitTaskArgs = parse_args(arguments)?;
        let (Some(kind), Some(input)) = (args.kind, args.input) else {
            return Ok(PreparedCall::default());
        };
        let agents = &self.caller(context)?.agents;
        let (spec, prepared) = prepare_agent_task(agents, context, &kind, input.get()).await?;
        Ok(PreparedCall {
            is_protected: spec.needs_approval,
            details: Some(format!("{kind}: {}\n{}", prepared.title, spec.description)),
            ..PreparedCall::default()
        })
    }

    async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
        _: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        let caller = self.caller(context)?;
        match name {
            SUBMIT => self.submit(&caller, context, parse_args(arguments)?).await,
            WAIT => self.wait(&caller, context, parse_args(arguments)?).await,
            CHECK => {
                let CheckTasksArgs { tasks } = parse_args(arguments)?;
                let found = self.find_own(&caller, &tasks).await?;
                Ok(tasks_output(&found))
            }
            CANCEL => self.cancel(&caller, context, parse_args(arguments)?).await,
            PROGRESS => self.report(&caller, parse_args(arguments)?).await,
            ASK => {
                let AskPersonArgs { question, options } = parse_args(arguments)?;
                let text = caller.agents.ask_person(context, question, options).await?;
                Ok(ToolOutput { text, ..ToolOutput::default() })
            }
            other => Err(CallError::new(ErrorKind::NotFound, format!("tool `{other}` not found"))),
        }
    }
}

impl TaskTools {
    fn caller(&self, context: &CallContext) -> Result<TaskCaller, CallError> {
        let unavailable = |text: &str| CallError::new(ErrorKind::Unavailable, text);
        let agents = self.agents.upgrade().ok_or_else(|| unavailable("kernel is shutting down"))?;
        let thread = agents
            .root_thread(context)
            .ok_or_else(|| unavailable("tool requires a running agent"))?;
        let task = self.running.task_of_thread(&thread);
        Ok(TaskCaller { agents, thread, task })
    }

    async fn submit(
        &self,
        caller: &TaskCaller,
        context: &CallContext,
        args: SubmitTaskArgs,
    ) -> Result<ToolOutput, CallError> {
        let SubmitTaskArgs { agent, task, kind, input, title, key, after, on_end, budget } = args;
        let after = parse_ids(&after)?;
        // An unknown target is an error of this call, not of the task later.
        let new = match (agent, task, kind, input) {
            (Some(agent), Some(task), None, None) => {
                caller.agents.refresh_agent(&agent).await.map_err(CallError::from)?;
                NewTask::for_agent(agent, task)
            }
            (None, None, Some(kind), Some(input)) => {
                let (_, prepared) =
                    prepare_agent_task(&caller.agents, context, &kind, input.get()).await?;
                let title = prepared.title;
                NewTask { title, ..NewTask::new(TaskKind::Ext, kind, input.get()) }
            }
            _ => {
                let message = "a task has either `agent` and `task`, or `kind` and `input`";
                return Err(CallError::new(ErrorKind::InvalidArgument, message));
            }
        };
        let default_notice =
            if caller.task.is_some() { EndNotice::Silent } else { EndNotice::Note };
        let key = key.or_else(|| context.idempotency_key.clone());
        let origin = caller.task.as_ref().and_then(|task| self.running.subtask_origin(task));
        let origin = origin.unwrap_or(SubmitterOrigin::Agent);
        let new = NewTask {
            title: title.unwrap_or_else(|| new.title.clone()),
            budget,
            parent: caller.task.clone(),
            after,
            // The key of the call makes its repetition after a crash harmless.
            // Keys of different threads do not meet.
            scope: format!("thread:{}", caller.thread),
            key,
            submitter: TaskSubmitter {
                origin,
                agent: Some(context.agent_id.clone()),
                thread: Some(caller.thread.clone()),
                principal: None,
                correlation_id: context.correlation_id.clone(),
            },
            on_end: on_end.unwrap_or(default_notice),
            ..new
        };
        let submitted = self.queue.submit(new).await?;
        let value = json!({
            "task": submitted.task.id,
            "state": submitted.task.state,
            "created": submitted.created,
        });
        Ok(json_output(&value))
    }

    async fn wait(
        &self,
        caller: &TaskCaller,
        context: &CallContext,
        args: WaitForTasksArgs,
    ) -> Result<ToolOutput, CallError> {
        let WaitForTasksArgs { tasks, mode } = args;
        let has_ended = |found: &[Task]| match mode {
            WaitMode::All => found.iter().all(|task| task.state.is_terminal()),
            WaitMode::Any => found.iter().any(|task| task.state.is_terminal()),
        };
        let found = self.find_own(caller, &tasks).await?;
        if has_ended(&found) {
            return Ok(tasks_output(&found));
        }
        if let Some(id) = &caller.task {
            if found.iter().any(|task| task.id == *id) {
                return Err(CallError::new(
                    ErrorKind::InvalidArgument,
                    "a task cannot wait for itself",
                ));
            }
            let open = found.iter().filter(|task| !task.state.is_terminal());
            let open: Vec<_> = open.map(|task| task.id.clone()).collect();
            return Err(self.running.park_for_tasks(id, &caller.agents, context, &open, mode));
        }
        let limit = context.deadline_ms.map_or(MAX_LIVE_WAIT, Duration::from_millis);
        // Earlier than the end of the call, which would be an error.
        let limit = limit.mul_f32(0.8).min(MAX_LIVE_WAIT);
        let waiting = async {
            loop {
                // A missed change delays the result by this time only.
                self.queue.store().wait_for_change(Duration::from_secs(1)).await;
                let found = self.find_own(caller, &tasks).await?;
                if has_ended(&found) {
                    return Ok::<_, CallError>(found);
                }
            }
        };
        let found = match tokio::time::timeout(limit, waiting).await {
            Ok(found) => found?,
            Err(_) => self.find_own(caller, &tasks).await?,
        };
        Ok(tasks_output(&found))
    }

    async fn cancel(
        &self,
        caller: &TaskCaller,
        context: &CallContext,
        args: CancelTaskArgs,
    ) -> Result<ToolOutput, CallError> {
        let found = self.find_own(caller, &[args.task]).await?;
        let Some(task) = found.first() else { return Ok(tasks_output(&found)) };
        let by = format!("agent {}", context.agent_id);
        let cancelled = self.queue.cancel(task.id.clone(), &by).await?;
        Ok(tasks_output(&[cancelled]))
    }

    async fn report(
        &self,
        caller: &TaskCaller,
        progress: TaskProgress,
    ) -> Result<ToolOutput, CallError> {
        let Some(id) = &caller.task else {
            let message = "only the run of a task has a progress";
            return Err(
                CallError::new(ErrorKind::Unavailable, message).with_hint("write it in the reply")
            );
        };
        self.running.report_progress(id, progress).await?;
        Ok(ToolOutput { text: "reported".to_owned(), ..ToolOutput::default() })
    }

    /// Finds tasks that the caller submitted, or that are below those; any other does not exist for
    /// it.
    async fn find_own(&self, caller: &TaskCaller, ids: &[String]) -> Result<Vec<Task>, CallError> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        for id in parse_ids(ids)? {
            // A task that is named twice is one task.
            if !seen.insert(id.clone()) {
                continue;
            }
            match self.queue.find(&id).await? {
                Some(task) if self.is_own(caller, &task).await? => found.push(task),
                _ => {
                    let message = format!("task `{id}` not found");
                    return Err(CallError::new(ErrorKind::NotFound, message)
                        .with_hint("name a task that you submitted"));
                }
            }
        }
        Ok(found)
    }

    async fn is_own(&self, caller: &TaskCaller, task: &Task) -> Result<bool, CallError> {
        let mut task = task.clone();
        for _ in 0..MAX_DEPTH {
            if matches!(task.submitter.origin, SubmitterOrigin::Agent | SubmitterOrigin::Mcp)
                && task.submitter.thread.as_ref() == Some(&caller.thread)
            {
                return Ok(true);
            }
            let Some(parent) = task.parent.clone() else { return Ok(false) };
            match self.queue.find(&parent).await? {
                Some(parent) => task = parent,
                None => return Ok(false),
            }
        }
        Ok(false)
    }
}

fn parse_ids(ids: &[String]) -> Result<Vec<TaskId>, CallError> {
    let parse = |id: &String| {
        TaskId::parse(id).ok_or_else(|| {
            let message = format!("`{}` is not the id of a task", id.escape_debug());
            CallError::new(ErrorKind::InvalidArgument, message)
        })
    };
    ids.iter().map(parse).collect()
}

fn parse_args<T: DeserializeOwned>(arguments: &str) -> Result<T, CallError> {
    serde_json::from_str(arguments)
        .map_err(|error| CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}")))
}

fn tasks_output(tasks: &[Task]) -> ToolOutput {
    json_output(&json!({"tasks": tasks.iter().map(describe_task).collect::<Vec<_>>()}))
}

fn describe_task(task: &Task) -> Value {
    let mut value = json!({
        "task": task.id,
        "title": task.title,
        "state": task.state,
        "spent": task.spent,
    });
    // As `submit_task` names it.
    let target = if task.kind == TaskKind::Ext { "kind" } else { "agent" };
    value[target] = json!(task.target);
    if let Some(progress) = &task.progress {
        value["progress"] = json!(progress);
    }
    if let Some(by) = &task.cancel {
        value["cancel_requested_by"] = json!(by);
    }
    let cut = |text: &str| text.chars().take(MAX_RESULT_CHARS).collect::<String>();
    match &task.outcome {
        Some(TaskOutcome::Completed { text, .. }) => value["result"] = json!(cut(text)),
        Some(TaskOutcome::Failed { reason, message, .. }) => {
            value["error"] = json!({"reason": reason, "message": cut(message)});
        }
        Some(TaskOutcome::Cancelled { by }) => value["cancelled_by"] = json!(by),
        None => {}
    }
    value
}

fn json_output(value: &Value) -> ToolOutput {
    let structured = serde_json::value::to_raw_value(value).ok();
    ToolOutput { text: value.to_string(), structured, ..ToolOutput::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost_core::schema_error;

    #[test]
    fn task_tools_have_valid_schemas() {
        for spec in tool_specs() {
            assert_eq!(schema_error(&spec), None, "{}", spec.name);
        }
    }
}
