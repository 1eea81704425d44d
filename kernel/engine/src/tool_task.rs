//! Tasks that are one tool call.
//!
//! The begin and the end of the call are lines of the task. A call that was cut off between them is
//! made again where that is harmless; where it is not, a person decides.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillhost_agents::{AgentRuntime, TaskCall, WeakAgentRuntime};
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, Channel as _, UncertainCall, UncertainDecision,
};
use skillhost_core::KernelError;
use skillhost_files::sha256_hex;
use skillhost_payload::{
    CallContext, CallEffect, CallError, CallOrigin, CatalogScope, ErrorKind, InputRequest,
    ToolOutput,
};
use skillhost_tasks::{FailureReason, QueueError, Task, TaskKind, TaskOutcome};

use crate::failed_task::{budget_outcome, target_outcome};
use crate::task_channel::TaskChannel;
use crate::task_run::{RunEnd, TaskExecutor, TaskRun, call_origin};
use crate::tool_questions::{ask_questions, resolve_input};

/// The executor of tool calls.
pub(crate) struct ToolTaskExecutor {
    pub(crate) agents: WeakAgentRuntime,
}

/// A line of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
enum ToolCallLine {
    /// The call is about to be made.
    #[serde(rename = "call_begun")]
    Started {
        /// The effect of a repetition.
        effect: CallEffect,
    },
    /// The tool has returned.
    #[serde(rename = "call_ended")]
    Ended {
        text: String,
        is_error: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
    },
    /// The tool asks before it goes on; it is called again with the answers.
    #[serde(rename = "call_asked")]
    Asked {
        /// The questions.
        request: InputRequest,
    },
}

impl ToolCallLine {
    /// Returns the questions with which a call ended.
    fn request(&self) -> Option<&InputRequest> {
        match self {
            Self::Asked { request } => Some(request),
            Self::Started { .. } | Self::Ended { .. } => None,
        }
    }
}

#[async_trait]
impl TaskExecutor for ToolTaskExecutor {
    fn kind(&self) -> TaskKind {
        TaskKind::Tool
    }

    fn local_targets(&self) -> Option<Vec<String>> {
        let state = self.agents.upgrade().map(|agents| agents.extensions().state());
        let names = state.iter().flat_map(|state| state.tools.usable_names());
        Some(names.map(str::to_owned).collect())
    }

    async fn execute(&self, run: &TaskRun) -> RunEnd {
        let Some(agents) = self.agents.upgrade() else { return RunEnd::Stop };
        // The engine reports the error of the store with its next operation.
        let Ok(lines) = run.stored_lines().await else { return RunEnd::Stop };
        let lines: Vec<ToolCallLine> =
            lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if let Some(ToolCallLine::Ended { text, is_error, structured }) = lines.last() {
            let (text, structured) = (text.clone(), structured.clone());
            let outcome = TaskOutcome::Completed { text, structured, is_error: *is_error };
            return RunEnd::Finish(outcome);
        }
        let effect = match agents.tool_effect(&run.task.target, call_origin(&run.task)).await {
            Ok(effect) => effect,
            Err(error) => {
                let outcome = target_outcome(&run.task, &error.to_string(), &error.hint());
                return RunEnd::Finish(outcome);
            }
        };
        let asked: Vec<&InputRequest> = lines.iter().filter_map(ToolCallLine::request).collect();
        let input = match resolve_input(run, &asked).await {
            Ok(input) => input,
            Err(end) => return end,
        };
        // Calls that ended with questions are over: only a later one may have been cut off.
        let first = lines.iter().rposition(|line| line.request().is_some()).map_or(0, |at| at + 1);
        let lines = &lines[first..];
        let key = call_key(run, asked.len());
        let call = ToolTaskCall::new(run);
        let is_once = |line: &ToolCallLine| matches!(line, ToolCallLine::Started { effect } if *effect == CallEffect::Once);
        let attempts = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        if attempts > 0
            && (effect == CallEffect::Once || lines.iter().any(is_once))
            && let Some(end) = resolve_uncertain_call(&call, &key, attempts).await
        {
            return end;
        }
        let context = CallContext {
            idempotency_key: Some(key),
            input: Some(Box::new(input)),
            ..call_context(run, &agents)
        };
        // The wait for a worker or a person has cost nothing so far.
        let active = run.recorder.budget().start_call(context.call_id);
        let called = tokio::select! {
            biased;
            () = run.lease.cancel_token().cancelled() => {
                let by = run.lease.cancelled_by().unwrap_or_default();
                return RunEnd::Finish(TaskOutcome::Cancelled { by });
            }
            limit = run.recorder.budget().wait_for_deadline() => {
                return RunEnd::Finish(budget_outcome(&run.task, limit));
            }
            called = agents.invoke_for_task(context, &run.task.target, &run.input, &call) => called,
        };
        drop(active);
        match called {
            // The store has failed, or another claim has the task: the tool was not invoked.
            _ if call.is_stopped() => RunEnd::Stop,
            Ok(Some(output)) => end_call(run, asked.len() + 1, output).await,
            Ok(None) => RunEnd::Park(call.channel.take_wait()),
            Err(error) if call.is_refused() => {
                let text = error.to_string();
                RunEnd::Finish(TaskOutcome::Completed { text, structured: None, is_error: true })
            }
            Err(error) => end_failed_call(&run.task, effect, &error),
        }
    }
}

/// The call of a task, as the dispatch of calls sees it.
struct ToolTaskCall<'a> {
    run: &'a TaskRun,
    channel: TaskChannel,
    /// A person has refused the call.
    is_refused: AtomicBool,
    /// The start of the call could not be recorded.
    is_stopped: AtomicBool,
}

impl<'a> ToolTaskCall<'a> {
    fn new(run: &'a TaskRun) -> Self {
        Self {
            run,
            channel: TaskChannel::new(run.queue.clone(), run.task.id.clone()),
            is_refused: AtomicBool::default(),
            is_stopped: AtomicBool::default(),
        }
    }

    fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl TaskCall for ToolTaskCall<'_> {
    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision {
        // One approval covers the call and its repetitions with answers: the key of the first one.
        let call_key = Some(call_key(self.run, 0));
        let request = ApprovalRequest { call_key, ..request.clone() };
        let decision = self.channel.request_approval(&request).await;
        let is_refused = matches!(decision, ApprovalDecision::Refuse { .. });
        self.is_refused.store(is_refused, Ordering::Relaxed);
        decision
    }

    async fn start_call(&self, effect: CallEffect) -> Result<(), CallError> {
        let run = self.run;
        let started = async {
            // The decision of a person may have taken longer than the claim lasts.
            run.recorder.check_call().await?;
            record_line(run, &ToolCallLine::Started { effect }).await.map_err(CallError::from)
        };
        started.await.inspect_err(|_| self.is_stopped.store(true, Ordering::Relaxed))
    }
}

/// Returns the end of a task whose tool has returned; `round` numbers the calls with questions.
async fn end_call(run: &TaskRun, round: usize, output: ToolOutput) -> RunEnd {
    if let Some(request) = output.input_request {
        // Without the line the next attempt would not know that the call is over.
        return match record_line(run, &ToolCallLine::Asked { request: (*request).clone() }).await {
            Ok(()) => ask_questions(run, round, &request).await,
            Err(_) => RunEnd::Stop,
        };
    }
    let ToolOutput { text, is_error, structured, .. } = output;
    let structured: Option<Value> = structured.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let (text_line, structured_line) = (text.clone(), structured.clone());
    let line = ToolCallLine::Ended { text: text_line, is_error, structured: structured_line };
    // Without the line the next attempt would not know of the result.
    if record_line(run, &line).await.is_err() {
        return RunEnd::Stop;
    }
    RunEnd::Finish(TaskOutcome::Completed { text, structured, is_error })
}

/// Returns the end of a task whose call has failed.
fn end_failed_call(task: &Task, effect: CallEffect, error: &KernelError) -> RunEnd {
    let (message, hint) = (error.to_string(), error.hint());
    match (error.kind(), effect) {
        // The tool, not something that it looked for.
        _ if matches!(error, KernelError::NotFound { .. }) => {
            RunEnd::Finish(target_outcome(task, &message, &hint))
        }
        // Only where a repetition is harmless: the error may hide an effect.
        (ErrorKind::Unavailable | ErrorKind::Timeout, CallEffect::Read | CallEffect::Keyed) => {
            RunEnd::Retry(message)
        }
        (kind, _) => {
            let reason = if kind.is_fault() { FailureReason::Crash } else { FailureReason::Error };
            RunEnd::Finish(TaskOutcome::Failed { reason, message, hint })
        }
    }
}

async fn record_line(run: &TaskRun, line: &ToolCallLine) -> Result<(), QueueError> {
    // An enum of texts and JSON values is always valid JSON.
    run.recorder.record(vec![serde_json::to_string(line).unwrap_or_default()]).await
}

/// Returns the context of a call that a task makes.
pub(crate) fn call_context(run: &TaskRun, agents: &AgentRuntime) -> CallContext {
    let (task, origin) = (&run.task, call_origin(&run.task));
    CallContext {
        agent_id: match origin {
            CallOrigin::Operator => String::new(),
            _ => task.submitter.agent.clone().unwrap_or_default(),
        },
        session_id: format!("task-{}", task.id),
        turn_id: format!("task-{}-{}", task.id, task.epoch),
        call_id: agents.extensions().next_call_id(),
        // As for a plain call of the client.
        catalog: match origin {
            CallOrigin::Mcp => agents.extensions().settings().mcp.catalog.scope(),
            CallOrigin::Agent | CallOrigin::Operator => CatalogScope::default(),
        },
        origin,
        correlation_id: Some(
            task.submitter.correlation_id.clone().unwrap_or_else(|| task.id.to_string()),
        ),
        ..CallContext::default()
    }
}

/// Returns the key of the call: the same at every attempt, and another one after each request of the
/// tool for answers.
fn call_key(run: &TaskRun, round: usize) -> String {
    let task = &run.task.id;
    let call = match round {
        0 => format!("call of a task\n{task}"),
        round => format!("call of a task\n{task}\n{round}"),
    };
    sha256_hex(call.as_bytes())
}

/// Asks whether a call that may have happened is made again; returns `None` if it is, else the end of
/// the attempt.
async fn resolve_uncertain_call(
    call: &ToolTaskCall<'_>,
    key: &str,
    attempts: u32,
) -> Option<RunEnd> {
    let run = call.run;
    let request = UncertainCall {
        agent_id: run.task.submitter.agent.clone().unwrap_or_else(|| "operator".to_owned()),
        tool: run.task.target.clone(),
        extension: String::new(),
        arguments: run.input.clone(),
        call_key: key.to_owned(),
        attempts,
        extension_sha256: None,
        can_park: true,
    };
    match call.channel.resolve_uncertain_call(&request).await {
        UncertainDecision::Again => None,
        UncertainDecision::Parked => Some(RunEnd::Park(call.channel.take_wait())),
        UncertainDecision::Happened => Some(RunEnd::Finish(TaskOutcome::Completed {
            text:
                "the call was cut off; a person confirmed that it happened, but its result is not \
                   known"
                    .to_owned(),
            structured: None,
            is_error: false,
        })),
        UncertainDecision::Stop => {
            let message = "the call was cut off and may have happened; it was not made again";
            let outcome = TaskOutcome::failed(FailureReason::Error, message);
            Some(RunEnd::Finish(outcome))
        }
    }
}
