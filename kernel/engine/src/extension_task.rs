//! Tasks that extensions execute.
//!
//! Each attempt begins at the beginning and gets the steps that were stored, which its extension
//! skips. A run that asks a person ends, and its task waits without a worker.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use skillhost_agents::WeakAgentRuntime;
use skillhost_conversation::PersonQuestion;
use skillhost_payload::{
    CallContext, CallError, ErrorKind, TaskAnswer, TaskClaimRef, TaskQuestion, TaskRunReply,
    TaskRunRequest, TaskStep, task_interface,
};
use skillhost_questions::{CallSource, make_choice};
use skillhost_tasks::{
    FailureReason, NewWait, QuestionKind, QuestionState, TaskKind, TaskOutcome, TaskQuery,
};
use tokio::time::Instant;

use crate::extension_runs::{ExtensionRuns, ExtensionTaskLine};
use crate::failed_task::{budget_outcome, target_outcome};
use crate::task_kinds::{FoundTaskKind, find_task_kind};
use crate::task_run::{RunEnd, TaskExecutor, TaskRun};
use crate::tool_task::call_context;

/// The limit of one run; a run that exceeds it is retried, and continues behind its last step.
const MAX_RUN_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The limits of the questions of one run, and of the questions of a task that are read.
const MAX_OPEN_QUESTIONS: usize = 64;
const MAX_QUESTIONS: usize = 10_000;
/// The size limit of a question with its options, and of the text of a result, in bytes.
const MAX_QUESTION_BYTES: usize = 64 * 1024;
const MAX_RESULT_BYTES: usize = 1 << 20;
/// The prefix of the names of questions in the store.
const QUESTION_PREFIX: &str = "choice:";

/// The executor of the tasks of extensions; the target is `EXTENSION/KIND`.
pub(crate) struct ExtensionTaskExecutor {
    pub(crate) agents: WeakAgentRuntime,
    pub(crate) runs: Arc<ExtensionRuns>,
}

/// The results of the earlier attempts of a task.
struct StoredSteps {
    key: String,
    steps: Vec<TaskStep>,
    bytes: usize,
}

#[async_trait]
impl TaskExecutor for ExtensionTaskExecutor {
    fn kind(&self) -> TaskKind {
        TaskKind::Ext
    }

    async fn execute(&self, run: &TaskRun) -> RunEnd {
        let Some(agents) = self.agents.upgrade() else { return RunEnd::Stop };
        let found = match find_task_kind(agents.extensions(), &run.task.target).await {
            Ok(found) => found,
            Err(error) => return self.to_failed_end(run, error, FailureReason::Target),
        };
        let stored = match load_steps(run).await {
            Ok(stored) => stored,
            Err(end) => return end,
        };
        let context = CallContext {
            deadline_ms: run.recorder.budget().remaining_ms(Instant::now()),
            idempotency_key: Some(stored.key.clone()),
            ..call_context(run, &agents)
        };
        drop(agents);
        let bytes = stored.bytes;
        match make_request(run, &found, context, stored).await {
            Ok(request) => self.call_extension(run, &found, &request, bytes).await,
            Err(error) => self.to_failed_end(run, error, FailureReason::Error),
        }
    }
}

impl ExtensionTaskExecutor {
    async fn call_extension(
        &self,
        run: &TaskRun,
        found: &FoundTaskKind,
        request: &TaskRunRequest,
        stored_bytes: usize,
    ) -> RunEnd {
        let payload = match serde_json::to_vec(request) {
            Ok(payload) => payload,
            Err(error) => {
                let error = CallError::protocol_error(&error);
                return self.to_failed_end(run, error, FailureReason::Error);
            }
        };
        if run.recorder.check_call().await.is_err() {
            return RunEnd::Stop;
        }
        let permitted = self.runs.insert(run, found.instance.manifest.id.as_str(), stored_bytes);
        // The wait for a worker or a person has cost nothing so far.
        let active = run.recorder.budget().start_call(request.context.call_id);
        let (name, method) = (task_interface::NAME, task_interface::RUN);
        let called = tokio::select! {
            biased;
            () = run.lease.cancel_token().cancelled() => {
                let by = run.lease.cancelled_by().unwrap_or_default();
                return RunEnd::Finish(TaskOutcome::Cancelled { by });
            }
            limit = run.recorder.budget().wait_for_deadline() => {
                return RunEnd::Finish(budget_outcome(&run.task, limit));
            }
            called = found.instance.call(name, method, payload, MAX_RUN_TIME) => called,
        };
        drop((active, permitted));
        let reply = called.and_then(|reply| {
            serde_json::from_slice(&reply).map_err(|error| CallError::protocol_error(&error))
        });
        match reply.and_then(|reply| to_reply_end(run, reply)) {
            Ok(end) => end,
            Err(error) => self.to_failed_end(run, error, FailureReason::Error),
        }
    }

    /// Returns the end of a run that returned an error; `reason` is that of an error which no other
    /// attempt could avoid.
    fn to_failed_end(&self, run: &TaskRun, error: CallError, reason: FailureReason) -> RunEnd {
        // The engine retries while the store fails.
        if run.recorder.store_error().is_some() {
            return RunEnd::Stop;
        }
        let CallError { kind, message, hint } = error;
        match kind {
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Cancelled => {
                match self.runs.is_stopping() {
                    true => RunEnd::Stop,
                    false => RunEnd::Retry(message),
                }
            }
            kind if kind.is_fault() => {
                RunEnd::Finish(TaskOutcome::Failed { reason: FailureReason::Crash, message, hint })
            }
            _ if reason == FailureReason::Target => {
                RunEnd::Finish(target_outcome(&run.task, &message, &hint))
            }
            _ => RunEnd::Finish(TaskOutcome::Failed { reason, message, hint }),
        }
    }
}

/// Loads the steps of earlier attempts; the first attempt stores the key of the task.
async fn load_steps(run: &TaskRun) -> Result<StoredSteps, RunEnd> {
    // The engine reports the error of the store with its next operation.
    let lines = run.stored_lines().await.map_err(|_| RunEnd::Stop)?;
    let bytes = lines.iter().map(String::len).sum();
    let (mut key, mut steps) = (None, Vec::with_capacity(lines.len()));
    for line in lines {
        match serde_json::from_str(&line) {
            Ok(ExtensionTaskLine::Start { key: stored }) => key = Some(stored),
            Ok(ExtensionTaskLine::Step { name, result }) => {
                let result = RawValue::from_string(result).map_err(|error| line_end(&error))?;
                steps.push(TaskStep { name, result });
            }
            Err(error) => return Err(line_end(&error)),
        }
    }
    let key = match key {
        Some(key) => key,
        None => {
            let key = run.task.id.to_string();
            let line = ExtensionTaskLine::Start { key: key.clone() };
            let line = serde_json::to_string(&line).map_err(|error| line_end(&error))?;
            run.recorder.record(vec![line]).await.map_err(|_| RunEnd::Stop)?;
            key
        }
    };
    Ok(StoredSteps { key, steps, bytes })
}

/// Returns the end of a task whose lines cannot be read.
fn line_end(error: &serde_json::Error) -> RunEnd {
    let message = format!("a stored step is not valid: {error}");
    let hint = "start it from the beginning: retry the task with `--fresh`".to_owned();
    RunEnd::Finish(TaskOutcome::Failed { reason: FailureReason::Error, message, hint })
}

async fn make_request(
    run: &TaskRun,
    found: &FoundTaskKind,
    context: CallContext,
    stored: StoredSteps,
) -> Result<TaskRunRequest, CallError> {
    let input = RawValue::from_string(run.input.clone()).map_err(|error| {
        let message = format!("the input of the task is not JSON: {error}");
        CallError::new(ErrorKind::InvalidArgument, message)
    })?;
    Ok(TaskRunRequest {
        context,
        claim: TaskClaimRef { task: run.task.id.to_string(), epoch: run.lease.claim.epoch },
        kind: found.spec.name.clone(),
        input,
        attempt: run.task.attempt,
        key: stored.key,
        steps: stored.steps,
        answers: load_answers(run).await?,
    })
}

/// Loads the ends of the questions of earlier attempts.
async fn load_answers(run: &TaskRun) -> Result<Vec<TaskAnswer>, CallError> {
    let query = TaskQuery::Questions {
        state: None,
        kind: Some(QuestionKind::Choice),
        task: Some(run.task.id.clone()),
        thread: None,
        limit: MAX_QUESTIONS,
    };
    let asked = run.queue.questions(query).await?;
    let closed = asked.into_iter().filter(|question| question.state != QuestionState::Open);
    let answer = |question: skillhost_tasks::Question| {
        let name = question.call.strip_prefix(QUESTION_PREFIX)?.to_owned();
        // Of a withdrawn or expired question there is no choice.
        Some(TaskAnswer { name, answer: question.choice })
    };
    // Of several questions with one name, the latest counts: the others had another text.
    Ok(closed.rev().filter_map(answer).collect())
}

/// Returns the end of a run that returned in order.
///
/// # Errors
/// [`ErrorKind::Protocol`] for a question that cannot be asked, [`ErrorKind::TooLarge`].
fn to_reply_end(run: &TaskRun, reply: TaskRunReply) -> Result<RunEnd, CallError> {
    let questions = match reply {
        TaskRunReply::Completed { text, structured } => {
            let structured_bytes = structured.as_ref().map_or(0, |raw| raw.get().len());
            if text.len() + structured_bytes > MAX_RESULT_BYTES {
                let message = format!("the result has more than {MAX_RESULT_BYTES} bytes");
                return Err(CallError::new(ErrorKind::TooLarge, message)
                    .with_hint("store large results in a file, and return its path"));
            }
            let structured = structured.map(|raw| serde_json::from_str(raw.get())).transpose();
            let structured = structured.map_err(|error| CallError::protocol_error(&error))?;
            let outcome = TaskOutcome::Completed { text, structured, is_error: false };
            return Ok(RunEnd::Finish(outcome));
        }
        TaskRunReply::Asks(questions) => questions,
    };
    if questions.is_empty() || questions.len() > MAX_OPEN_QUESTIONS {
        let message = format!("a run asks 1 to {MAX_OPEN_QUESTIONS} questions at once");
        return Err(CallError::new(ErrorKind::Protocol, message));
    }
    let questions = questions.into_iter().map(|question| {
        check_question(&question)?;
        let TaskQuestion { name, question, options } = question;
        let request = PersonQuestion {
            agent_id: run.task.target.clone(),
            call_key: Some(name),
            question,
            options,
            can_park: true,
        };
        Ok(make_choice(CallSource::Task(&run.task.id), &request))
    });
    let questions = questions.collect::<Result<_, CallError>>()?;
    Ok(RunEnd::Park(NewWait { questions, ..NewWait::default() }))
}

/// Checks a question: a person has to be able to answer it.
fn check_question(question: &TaskQuestion) -> Result<(), CallError> {
    let TaskQuestion { name, question, options } = question;
    let texts = options.iter().chain([name, question]);
    let (bytes, has_empty) = texts
        .fold((0, false), |(bytes, empty), text| (bytes + text.len(), empty || text.is_empty()));
    if has_empty || bytes > MAX_QUESTION_BYTES {
        let message = format!(
            "question `{}` has an empty part, or more than {MAX_QUESTION_BYTES} bytes",
            name.chars().take(100).collect::<String>().escape_debug()
        );
        return Err(CallError::new(ErrorKind::Protocol, message));
    }
    Ok(())
}
