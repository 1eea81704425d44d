//! Notices about the ends of tasks, for the threads that submitted them.
//!
//! A thread has each notice once: its key is that of the task. The event handler adds it to a thread
//! that no run has open; a run that has the thread open takes it between its model requests.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::value::to_raw_value;
use skillhost_agents::{NoticeSource, ThreadNotice, WeakAgentRuntime};
use skillhost_control::UserMessage;
use skillhost_conversation::{Thread, ThreadError, ThreadStore};
use skillhost_core::foreign_text::{kernel_element, neutralize, new_nonce, sanitize_line};
use skillhost_core::spawn_blocking;
use skillhost_events::{EventBus, topic};
use skillhost_home::Home;
use skillhost_payload::{CallError, ErrorKind, Event};
use skillhost_tasks::{
    EndNotice, Task, TaskFilter, TaskId, TaskOutcome, TaskQueue, TaskState, TaskSubmitter,
};

/// The length limit of a result in a notice, in characters; the task has it in full.
const MAX_RESULT_CHARS: usize = 4_000;
/// The interval at which a thread that is in use is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// The number of ended tasks that a run looks at.
const MAX_TASKS: usize = 100;

/// The notices about the ends of tasks.
pub struct EndNotices {
    agents: WeakAgentRuntime,
    queue: TaskQueue,
    /// Threads that runs have open and that lack a notice.
    waiting: Mutex<HashSet<String>>,
}

/// The fields of `task.ended` that a notice needs.
#[derive(Deserialize)]
struct TaskEndedEvent {
    task: TaskId,
    submitter: TaskSubmitter,
}

impl EndNotices {
    pub(crate) fn new(agents: WeakAgentRuntime, queue: TaskQueue) -> Self {
        Self { agents, queue, waiting: Mutex::default() }
    }

    /// Returns the thread that gets the notice of an event `task.ended`.
    #[must_use]
    pub fn thread_of_event(payload: &str) -> Option<String> {
        serde_json::from_str::<TaskEndedEvent>(payload).ok()?.submitter.thread
    }

    /// Handles an event `task.ended`, which may be handled twice: adds a notice to the thread of the
    /// submitter, or gives its agent a turn.
    ///
    /// # Errors
    /// An error of the queue, of the thread or of the event journal; the event is handled again.
    pub async fn handle_end(&self, payload: &str) -> Result<(), CallError> {
        let ended: TaskEndedEvent =
            serde_json::from_str(payload).map_err(|error| CallError::protocol_error(&error))?;
        // Only the row is trusted: an extension may publish such an event, too.
        let found = self.queue.find(&ended.task).await?;
        let Some(task) = found.filter(|task| task.state.is_terminal()) else { return Ok(()) };
        let TaskSubmitter { thread, agent, .. } = task.submitter.clone();
        let Some(thread) = thread.filter(|_| task.on_end != EndNotice::Silent) else {
            return Ok(());
        };
        // The run of a task gets the ends of its subtasks as results of its calls.
        // The ids of threads and of tasks have the same form.
        let is_task = match TaskId::parse(&thread) {
            Some(id) => self.queue.find(&id).await?.is_some(),
            None => false,
        };
        if is_task {
            return Ok(());
        }
        let Some(agents) = self.agents.upgrade() else { return Err(shutdown_error()) };
        match (task.on_end, agent) {
            (EndNotice::Wake, Some(agent)) => {
                let events = agents.extensions().events();
                publish_wake(events, &task, thread, agent).await
            }
            _ => self.add_notice(agents.extensions().home(), &task, &thread).await,
        }
    }

    /// Adds the notice to a thread, as soon as no run has it open.
    async fn add_notice(&self, home: &Home, task: &Task, thread: &str) -> Result<(), CallError> {
        let notice = to_notice(task);
        loop {
            let (store, id) = (ThreadStore::new(home), thread.to_owned());
            match spawn_blocking(move || store.open(&id)).await? {
                Ok(open) if open.has_notice(&notice.key) => {
                    self.forget_waiting(thread);
                    return Ok(());
                }
                // A parked call is answered first: its run takes the notice afterwards.
                Ok(open) if open.has_open_calls() => {
                    self.mark_waiting(thread);
                    drop(open);
                }
                Ok(mut open) => {
                    self.forget_waiting(thread);
                    return push_notice(&mut open, notice).await;
                }
                Err(ThreadError::Busy { .. }) => self.mark_waiting(thread),
                // Deleted by its user.
                Err(ThreadError::NotFound { .. }) => return Ok(()),
                Err(error) => {
                    let message = format!("notice of task `{}`: {error}", task.id);
                    return Err(CallError::new(error.kind(), message).with_hint(error.hint()));
                }
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    fn mark_waiting(&self, thread: &str) {
        self.lock_waiting().insert(thread.to_owned());
    }

    fn forget_waiting(&self, thread: &str) {
        self.lock_waiting().remove(thread);
    }

    fn lock_waiting(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl NoticeSource for EndNotices {
    async fn pending_notices(&self, thread: &str, is_first: bool) -> Vec<ThreadNotice> {
        // A run asks the queue once, and again only when the handler has found its thread in use.
        if !is_first && !self.lock_waiting().contains(thread) {
            return Vec::new();
        }
        let states = vec![TaskState::Completed, TaskState::Failed, TaskState::Cancelled];
        let thread = Some(thread.to_owned());
        let filter = TaskFilter { states, thread, limit: MAX_TASKS, ..TaskFilter::default() };
        let mut ended = match self.queue.list(filter).await {
            Ok(ended) => ended,
            Err(error) => {
                tracing::debug!(%error, "the ends of tasks could not be read");
                return Vec::new();
            }
        };
        ended.retain(|task| task.on_end == EndNotice::Note);
        // As they happened, not as the tasks were submitted.
        ended.sort_by_key(|task| task.ended_ms);
        ended.iter().map(to_notice).collect()
    }
}

async fn push_notice(thread: &mut Thread, notice: ThreadNotice) -> Result<(), CallError> {
    let ThreadNotice { key, text } = notice;
    thread
        .push_notice(key, text)
        .await
        .map_err(|error| CallError::new(error.kind(), error.to_string()).with_hint(error.hint()))
}

/// Publishes the message that gives the submitting agent a turn: once, as its key is that of the
/// task.
async fn publish_wake(
    events: &EventBus,
    task: &Task,
    thread: String,
    agent: String,
) -> Result<(), CallError> {
    let message = UserMessage {
        message_id: message_id(task),
        thread,
        agent,
        text: describe_end(task),
        model: None,
        workspaces: Vec::new(),
        channel: None,
    };
    let payload = to_raw_value(&message).map_err(|error| CallError::protocol_error(&error))?;
    let event = Event {
        key: Some(message.message_id.clone()),
        correlation_id: Some(message.message_id),
        ..Event::new(topic::USER_MESSAGE, "kernel", payload)
    };
    events.publish(event).await.map(drop)
}

fn message_id(task: &Task) -> String {
    format!("task-{}", task.id)
}

fn to_notice(task: &Task) -> ThreadNotice {
    // Neutralized before: a result cannot close the element.
    let text = kernel_element("notice", &new_nonce(), &describe_end(task));
    ThreadNotice { key: message_id(task), text }
}

/// Returns the text about the end of a task. Titles and results are untrusted.
fn describe_end(task: &Task) -> String {
    let title = sanitize_line(&task.title);
    let head = format!(
        "The task {} ({}: {title}) has {}.",
        task.id,
        sanitize_line(&task.target),
        match task.state {
            TaskState::Completed => "completed",
            TaskState::Failed => "failed",
            _ => "been cancelled",
        }
    );
    let detail = match &task.outcome {
        Some(TaskOutcome::Completed { text, .. }) => format!("Its result:\n{}", shorten(text)),
        Some(TaskOutcome::Failed { message, .. }) => format!("Its error: {}", shorten(message)),
        Some(TaskOutcome::Cancelled { .. }) | None => return head,
    };
    neutralize(&format!("{head}\n{detail}")).into_owned()
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_RESULT_CHARS) {
        Some((end, _)) => format!("{}…\n(shortened; check_tasks has all of it)", &text[..end]),
        None => text.to_owned(),
    }
}

fn shutdown_error() -> CallError {
    CallError::new(ErrorKind::Unavailable, "kernel is shutting down")
}
