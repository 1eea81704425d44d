//! Tasks that are one tool call.
//!
//! The begin and the end of the call are lines of the task. A call that was cut off between them is
//! made again where that is harmless; where it is not, a person decides.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillhost_agents::{RunControl as _, WeakAgentRuntime};
use skillhost_conversation::UncertainCall;
use skillhost_core::KernelError;
use skillhost_files::sha256_hex;
use skillhost_payload::{CallContext, CallEffect, CallOrigin, ErrorKind, ToolOutput};
use skillhost_tasks::{
    FailureReason, NewWait, Question, QuestionState, TaskKind, TaskOutcome, TaskQuery,
};

use crate::agent_task::target_outcome;
use crate::call_question::{AGAIN, HAPPENED, make_uncertain};
use crate::task_run::{RunEnd, TaskExecutor, TaskRun, call_origin};

/// The number of questions of a task that are read.
const MAX_QUESTIONS: usize = 1_000;

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
}

/// The decision about a call that may have happened.
enum Repetition {
    Again,
    End(RunEnd),
}

#[async_trait]
impl TaskExecutor for ToolTaskExecutor {
    fn kind(&self) -> TaskKind {
        TaskKind::Tool
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
            Err(error) => return RunEnd::Finish(target_outcome(&error.to_string(), &error.hint())),
        };
        let is_once = |line: &ToolCallLine| matches!(line, ToolCallLine::Started { effect } if *effect == CallEffect::Once);
        let attempts = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        if attempts > 0 && (effect == CallEffect::Once || lines.iter().any(is_once)) {
            match resolve_uncertain_call(run, attempts).await {
                Repetition::Again => {}
                Repetition::End(end) => return end,
            }
        }
        if run.recorder.check_call().await.is_err() {
            return RunEnd::Stop;
        }
        if record_line(run, &ToolCallLine::Started { effect }).await.is_err() {
            return RunEnd::Stop;
        }
        let context = call_context(run, agents.extensions().next_call_id());
        // The wait for a worker or a person has cost nothing so far.
        let active = run.recorder.budget().start_call(context.call_id);
        let called = tokio::select! {
            biased;
            () = run.lease.cancel_token().cancelled() => {
                let by = run.lease.cancelled_by().unwrap_or_default();
                return RunEnd::Finish(TaskOutcome::Cancelled { by });
            }
            limit = run.recorder.budget().wait_for_deadline() => {
                let message = format!("budget of {limit} is exhausted");
                return RunEnd::Finish(TaskOutcome::failed(FailureReason::Budget, message));
            }
            called = agents.invoke_tool(context, &run.task.target, &run.input) => called,
        };
        drop(active);
        end_call(run, effect, called).await
    }
}

/// Returns the end of a task whose call has returned.
async fn end_call(
    run: &TaskRun,
    effect: CallEffect,
    called: Result<ToolOutput, KernelError>,
) -> RunEnd {
    match called {
        Ok(ToolOutput { text, is_error, structured, .. }) => {
            let structured = structured.and_then(|raw| serde_json::from_str(raw.get()).ok());
            let line = ToolCallLine::Ended {
                text: text.clone(),
                is_error,
                structured: structured.clone(),
            };
            // Without the line the next attempt would not know of the result.
            if record_line(run, &line).await.is_err() {
                return RunEnd::Stop;
            }
            RunEnd::Finish(TaskOutcome::Completed { text, structured, is_error })
        }
        Err(error) => match (error.kind(), effect) {
            (ErrorKind::NotFound, _) => {
                RunEnd::Finish(target_outcome(&error.to_string(), &error.hint()))
            }
            // Only where a repetition is harmless: the error may hide an effect.
            (ErrorKind::Unavailable | ErrorKind::Timeout, CallEffect::Read | CallEffect::Keyed) => {
                RunEnd::Retry(error.to_string())
            }
            _ => {
                let (message, hint) = (error.to_string(), error.hint());
                let reason = FailureReason::Error;
                RunEnd::Finish(TaskOutcome::Failed { reason, message, hint })
            }
        },
    }
}

async fn record_line(
    run: &TaskRun,
    line: &ToolCallLine,
) -> Result<(), skillhost_tasks::QueueError> {
    // An enum of texts and JSON values is always valid JSON.
    run.recorder.record(vec![serde_json::to_string(line).unwrap_or_default()]).await
}

fn call_context(run: &TaskRun, call_id: u64) -> CallContext {
    let (task, origin) = (&run.task, call_origin(&run.task));
    CallContext {
        agent_id: match origin {
            CallOrigin::Operator => String::new(),
            _ => task.submitter.agent.clone().unwrap_or_default(),
        },
        session_id: format!("task-{}", task.id),
        turn_id: format!("task-{}-{}", task.id, task.epoch),
        call_id,
        origin,
        correlation_id: Some(
            task.submitter.correlation_id.clone().unwrap_or_else(|| task.id.to_string()),
        ),
        idempotency_key: Some(call_key(run)),
        ..CallContext::default()
    }
}

/// Returns the key of the call: the same at every attempt.
fn call_key(run: &TaskRun) -> String {
    sha256_hex(format!("call of a task\n{}", run.task.id).as_bytes())
}

/// Asks whether a call that may have happened is made again.
async fn resolve_uncertain_call(run: &TaskRun, attempts: u32) -> Repetition {
    let request = UncertainCall {
        agent_id: run.task.submitter.agent.clone().unwrap_or_else(|| "operator".to_owned()),
        tool: run.task.target.clone(),
        extension: String::new(),
        arguments: run.input.clone(),
        call_key: call_key(run),
        attempts,
        extension_sha256: None,
        can_park: true,
    };
    let question = make_uncertain(&run.task.id, &request);
    let query = TaskQuery::Questions {
        state: None,
        kind: Some(question.kind),
        task: Some(run.task.id.clone()),
        thread: None,
        limit: MAX_QUESTIONS,
    };
    let Ok(known) = run.queue.questions(query).await else { return Repetition::End(RunEnd::Stop) };
    // The number of attempts is part of the call, so each attempt has its own question.
    let is_same = |known: &&Question| known.call == question.call;
    let Some(closed) =
        known.iter().rev().find(is_same).filter(|known| known.state != QuestionState::Open)
    else {
        let wait = NewWait { questions: vec![question], ..NewWait::default() };
        return Repetition::End(RunEnd::Park(wait));
    };
    match closed.choice.as_deref().filter(|_| closed.state == QuestionState::Decided) {
        Some(AGAIN) => Repetition::Again,
        Some(HAPPENED) => Repetition::End(RunEnd::Finish(TaskOutcome::Completed {
            text:
                "the call was cut off; a person confirmed that it happened, but its result is not \
                   known"
                    .to_owned(),
            structured: None,
            is_error: false,
        })),
        _ => {
            let message = "the call was cut off and may have happened; it was not made again";
            let outcome = TaskOutcome::failed(FailureReason::Error, message);
            Repetition::End(RunEnd::Finish(outcome))
        }
    }
}
