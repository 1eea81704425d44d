//! Tasks of agents that the kernel submits for schedules and event subscriptions.

use std::time::Duration;

use serde::Deserialize;
use skillhost_agents::WeakAgentRuntime;
use skillhost_payload::{CallError, ErrorKind};
use skillhost_tasks::{
    EndNotice, FailureReason, NewTask, QueueError, QueueErrorKind, SubmitterOrigin, TaskBudget,
    TaskId, TaskOutcome, TaskQueue, TaskSubmitter,
};

/// The interval at which a task that is followed is read without a known change.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The limit of tasks that are followed to find the origin of one; deeper than any chain.
const MAX_CHAIN: usize = 64;

/// The submission of agents' tasks for schedules and event subscriptions.
#[derive(Clone)]
pub struct AgentTaskSubmitter {
    agents: WeakAgentRuntime,
    queue: TaskQueue,
}

/// The starter of a task: a schedule or an event subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStarter<'a> {
    /// A schedule, `EXTENSION/NAME`.
    Schedule(&'a str),
    /// A subscriber. Its tasks run one after the other.
    Subscriber(&'a str),
}

/// A task of an agent to submit.
#[derive(Debug, Clone)]
pub struct AgentTaskRequest<'a> {
    /// The starter.
    pub starter: TaskStarter<'a>,
    /// The agent.
    pub agent: &'a str,
    /// The task's text, untrusted if it contains data of an event.
    pub text: String,
    /// The idempotency key among the tasks of all starters of this kind.
    pub key: &'a str,
    /// The correlation id of all calls.
    pub correlation_id: &'a str,
    /// The limit of the time in model requests and tool calls.
    pub time_limit: Duration,
}

/// The fields of events about tasks and questions that name the task.
#[derive(Deserialize)]
struct TaskEvent {
    task: Option<String>,
}

impl TaskStarter<'_> {
    fn origin(self) -> SubmitterOrigin {
        match self {
            Self::Schedule(_) => SubmitterOrigin::Schedule,
            Self::Subscriber(_) => SubmitterOrigin::Event,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Schedule(name) | Self::Subscriber(name) => name,
        }
    }
}

impl AgentTaskSubmitter {
    /// Creates the submission into a queue.
    #[must_use]
    pub fn new(agents: WeakAgentRuntime, queue: TaskQueue) -> Self {
        Self { agents, queue }
    }

    /// Submits a task under an id, and returns when it is durable. A key that is known submits
    /// nothing, even if the text has changed since.
    ///
    /// # Errors
    /// An agent that does not exist or cannot be used, an error of the queue.
    pub async fn submit(&self, id: TaskId, request: AgentTaskRequest<'_>) -> Result<(), CallError> {
        let stopped = || CallError::new(ErrorKind::Unavailable, "kernel is shutting down");
        let agents = self.agents.upgrade().ok_or_else(stopped)?;
        // An error of the submission, which is retried or reported, and not of the task later.
        let agent = agents.refresh_agent(request.agent).await.map_err(CallError::from)?;
        agent.require_ready().map_err(CallError::from)?;
        let home = self.queue.store().home_identity().await.map_err(submission_error)?;
        let new = new_task(id, &home, request);
        match self.queue.submit(new).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == QueueErrorKind::Conflict => {
                tracing::debug!(%error, "a task was submitted before");
                Ok(())
            }
            Err(error) => Err(submission_error(error)),
        }
    }

    /// Returns the id of the task of a run, the same after a restart of the kernel. It differs
    /// between homes that share a queue.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn derive_id(&self, started_ms: u64, key: &str) -> Result<TaskId, CallError> {
        self.try_derive_id(started_ms, key).await.map_err(submission_error)
    }

    async fn try_derive_id(&self, started_ms: u64, key: &str) -> Result<TaskId, QueueError> {
        let home = self.queue.store().home_identity().await?;
        Ok(TaskId::derive(started_ms, &format!("{home}\n{key}")))
    }

    /// Waits for the end of the task of a run, however long that takes; `None` if it does not exist.
    /// A store that fails is tried again, unless it is damaged.
    ///
    /// # Errors
    /// A store that is damaged, or of a newer program.
    pub async fn wait_for_end(
        &self,
        started_ms: u64,
        key: &str,
    ) -> Result<Option<TaskOutcome>, CallError> {
        loop {
            let found = match self.try_derive_id(started_ms, key).await {
                Ok(id) => self.queue.find(&id).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(None) => return Ok(None),
                Ok(Some(task)) => {
                    if let Some(outcome) = task.outcome {
                        return Ok(Some(outcome));
                    }
                }
                Err(error)
                    if matches!(error.kind(), QueueErrorKind::Corrupt | QueueErrorKind::Newer) =>
                {
                    return Err(error.into());
                }
                // The engine reports it.
                Err(error) => tracing::debug!(%error, "a task could not be read; retrying"),
            }
            // A change between the two is found by the next read.
            self.queue.store().wait_for_change(POLL_INTERVAL).await;
        }
    }

    /// Returns whether an event is about a task that a subscription has started, directly or through
    /// other tasks, or about a question of such a task.
    ///
    /// # Errors
    /// An error of the queue.
    pub async fn is_about_started_task(&self, payload: &str) -> Result<bool, CallError> {
        let event: Option<TaskEvent> = serde_json::from_str(payload).ok();
        let named = event.and_then(|event| event.task);
        let mut next = named.as_deref().and_then(TaskId::parse);
        for _ in 0..MAX_CHAIN {
            let Some(id) = next else { return Ok(false) };
            let Some(task) = self.queue.find(&id).await? else { return Ok(false) };
            if task.submitter.origin == SubmitterOrigin::Event {
                return Ok(true);
            }
            next = task.parent.or(task.retry_of);
        }
        Ok(true)
    }
}

/// Returns the task of a request of a home; without an identity the home has a queue of its own.
fn new_task(id: TaskId, home: &str, request: AgentTaskRequest<'_>) -> NewTask {
    let AgentTaskRequest { starter, agent, text, key, correlation_id, time_limit } = request;
    let in_home = |name: &str| match home {
        "" => name.to_owned(),
        home => format!("{name}@{home}"),
    };
    let (scope, lane) = match starter {
        TaskStarter::Schedule(_) => (in_home("schedule"), None),
        TaskStarter::Subscriber(name) => (in_home("event"), Some(in_home(&shorten_name(name)))),
    };
    NewTask {
        id,
        lane,
        budget: TaskBudget {
            time_ms: Some(u64::try_from(time_limit.as_millis()).unwrap_or(u64::MAX).max(1)),
            ..TaskBudget::default()
        },
        scope,
        key: Some(shorten_name(key)),
        submitter: TaskSubmitter {
            origin: starter.origin(),
            agent: Some(starter.name().to_owned()),
            correlation_id: Some(correlation_id.to_owned()),
            ..TaskSubmitter::default()
        },
        // No thread waits for its end; the event and the list of tasks have it.
        on_end: EndNotice::Silent,
        ..NewTask::for_agent(agent, text)
    }
}

/// Returns a name of a topic that is as long as topics may be, or its digest where the queue would
/// refuse it.
fn shorten_name(name: &str) -> String {
    const MAX_BYTES: usize = 400;
    match name.len() {
        0..=MAX_BYTES => name.to_owned(),
        _ => skillhost_files::sha256_hex(name.as_bytes()),
    }
}

fn submission_error(error: QueueError) -> CallError {
    let error = CallError::from(error);
    let message = format!("task could not be submitted: {}", error.message);
    CallError::new(error.kind, message).with_hint(error.hint)
}

/// Returns the text of a completed task.
///
/// # Errors
/// The end of any other task, with its remedy.
pub fn text_of_outcome(outcome: TaskOutcome) -> Result<String, CallError> {
    match outcome {
        TaskOutcome::Completed { text, is_error: false, .. } => Ok(text),
        TaskOutcome::Completed { text, is_error: true, .. } => {
            Err(CallError::new(ErrorKind::Failed, text))
        }
        TaskOutcome::Failed { reason, message, hint } => {
            let kind = match reason {
                FailureReason::Deadline => ErrorKind::Timeout,
                FailureReason::Budget => ErrorKind::TooLarge,
                FailureReason::Target => ErrorKind::Unavailable,
                FailureReason::Crash => ErrorKind::Panicked,
                FailureReason::Error | FailureReason::Dependency | FailureReason::Lost => {
                    ErrorKind::Failed
                }
            };
            Err(CallError::new(kind, message).with_hint(hint))
        }
        TaskOutcome::Cancelled { by } => {
            Err(CallError::new(ErrorKind::Cancelled, format!("its task was cancelled by {by}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skillhost_events::Clock;
    use skillhost_tasks::{MemoryQueue, TaskKind};

    use super::*;

    fn request<'a>(starter: TaskStarter<'a>, text: &str, key: &'a str) -> AgentTaskRequest<'a> {
        let time_limit = Duration::from_secs(600);
        let (agent, text) = ("looker", text.to_owned());
        AgentTaskRequest { starter, agent, text, key, correlation_id: "event-7", time_limit }
    }

    fn submitter() -> AgentTaskSubmitter {
        let queue = MemoryQueue::new(Clock::new(|| 1_000));
        AgentTaskSubmitter::new(WeakAgentRuntime::default(), TaskQueue::new(Arc::new(queue)))
    }

    #[test]
    fn task_names_its_starter() {
        let starter = TaskStarter::Subscriber("looker:news:invoke_agent");
        let id = TaskId::generate();
        let new = new_task(id.clone(), "", request(starter, "Look.\nHard.", "k@1"));
        assert_eq!((new.id, new.title.as_str(), new.scope.as_str()), (id, "Look.", "event"));
        assert_eq!(new.lane.as_deref(), Some("looker:news:invoke_agent"));
        assert_eq!((new.key.as_deref(), new.budget.time_ms), (Some("k@1"), Some(600_000)));
        let TaskSubmitter { origin, agent, thread, principal, correlation_id } = new.submitter;
        assert_eq!((origin, thread, principal), (SubmitterOrigin::Event, None, None));
        assert_eq!(agent.as_deref(), Some("looker:news:invoke_agent"));
        assert_eq!((correlation_id.as_deref(), new.on_end), (Some("event-7"), EndNotice::Silent));
    }

    #[test]
    fn homes_have_keys_of_their_own() {
        let of = |home: &str, starter| {
            let new = new_task(TaskId::generate(), home, request(starter, "Look.", "k"));
            (new.scope, new.lane)
        };
        let lane = |text: &str| Some(text.to_owned());
        assert_eq!(of("h1", TaskStarter::Subscriber("s")), ("event@h1".to_owned(), lane("s@h1")));
        assert_eq!(of("h1", TaskStarter::Schedule("s")), ("schedule@h1".to_owned(), None));
        assert_eq!(of("", TaskStarter::Schedule("s")), ("schedule".to_owned(), None));
    }

    #[tokio::test]
    async fn longest_names_are_accepted() {
        let name = "x".repeat(600);
        let starter = TaskStarter::Subscriber(&name);
        let new = new_task(TaskId::generate(), "01k", request(starter, "Look.", &name));
        let task = submitter().queue.submit(new).await.unwrap().task;
        assert_eq!(task.submitter.agent, Some(name));
    }

    #[tokio::test]
    async fn chain_of_a_subscription_is_found() {
        let submitter = submitter();
        let queue = &submitter.queue;
        let submit = async |new: NewTask| queue.submit(new).await.unwrap().task;
        let starter = TaskStarter::Subscriber("s");
        let first = submit(new_task(TaskId::generate(), "", request(starter, "Look.", "k"))).await;
        let below = NewTask {
            parent: Some(first.id.clone()),
            ..NewTask::new(TaskKind::Agent, "looker", "Part")
        };
        let below = submit(below).await;
        let other = submit(NewTask::new(TaskKind::Agent, "looker", "Other")).await;
        let is_started = async |id: &str| {
            let payload = serde_json::json!({ "task": id }).to_string();
            submitter.is_about_started_task(&payload).await.unwrap()
        };
        assert!(is_started(first.id.as_str()).await && is_started(below.id.as_str()).await);
        assert!(!is_started(other.id.as_str()).await && !is_started("another").await);
        assert!(!submitter.is_about_started_task("[]").await.unwrap());
    }

    #[tokio::test]
    async fn end_of_followed_task_is_returned() {
        let submitter = submitter();
        let id = submitter.derive_id(5, "k").await.unwrap();
        assert_eq!(submitter.wait_for_end(5, "k").await.unwrap(), None);
        let starter = TaskStarter::Schedule("a/b");
        let new = new_task(id.clone(), "", request(starter, "Look.", "k"));
        submitter.queue.submit(new).await.unwrap();
        let following = submitter.clone();
        let following = tokio::spawn(async move { following.wait_for_end(5, "k").await });
        submitter.queue.cancel(id, "operator").await.unwrap();
        let ended = following.await.unwrap().unwrap().unwrap();
        let error = text_of_outcome(ended).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), {
            (ErrorKind::Cancelled, "its task was cancelled by operator")
        });
    }
}
