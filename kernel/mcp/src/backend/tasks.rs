//! The background tasks of clients, in the queue of the home.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use skillhost_home::McpReviewMode;
use skillhost_questions::QuestionTable;
use skillhost_tasks::{
    Decider, Decision, EndNotice, HandleBinding, NewTask, Question, QuestionState, QueueError,
    SubmitterOrigin, Task, TaskId, TaskQuery, TaskQueue, TaskSubmitter,
};

/// The maximum number of questions of a task that a client sees at once; a task asks fewer.
const MAX_QUESTIONS: usize = 64;

/// The longest pause between two looks at a task of another process.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The background tasks of clients.
#[derive(Clone)]
pub struct ClientTasks {
    queue: TaskQueue,
    questions: Arc<QuestionTable>,
    consents: McpReviewMode,
    is_served: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// A client as the owner of tasks: the connection that it came through, never what it reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientPrincipal(String);

/// The secret id under which a client knows a task; only its hash is stored.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TaskHandle(String);

impl ClientPrincipal {
    /// Returns the principal of standard input and output: the operator who started the server.
    pub(crate) fn stdio() -> Self {
        Self("mcp:stdio".to_owned())
    }

    /// Returns the principal of HTTP: the holder of the bearer token, if one is required.
    pub(crate) fn http(token: Option<&[u8; 32]>) -> Self {
        match token {
            // The same token is the same principal after a restart of the server.
            Some(hash) => Self(format!("mcp:http:{}", hex_text(&hash[..16]))),
            None => Self("mcp:http".to_owned()),
        }
    }

    /// Returns the principal as it is stored.
    pub(crate) fn as_str(&self) -> &str {
        let Self(text) = self;
        text
    }
}

impl TaskHandle {
    /// Generates a handle of 160 random bits.
    pub(crate) fn generate() -> Self {
        // 80 bits of each id come from the thread's secure generator.
        let [a, b] = [(); 2].map(|()| ulid::Ulid::generate().random());
        Self(format!("{a:020x}{b:020x}"))
    }

    /// Accepts the text of a client, which may be anything.
    pub(crate) fn from_client(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the text for the client.
    pub(crate) fn as_str(&self) -> &str {
        let Self(text) = self;
        text
    }

    /// Returns the sha256 in hexadecimal, as it is stored.
    fn to_sha256(&self) -> String {
        hex_text(&Sha256::digest(&self.0))
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Who has the handle and the connection has the task.
        f.write_str("TaskHandle(..)")
    }
}

impl ClientTasks {
    /// Creates the tasks of clients. `is_served` returns whether a kernel executes tasks.
    #[must_use]
    pub fn new(
        queue: TaskQueue,
        consents: McpReviewMode,
        is_served: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Self {
        let questions = Arc::new(QuestionTable::new(queue.clone()));
        Self { queue, questions, consents, is_served }
    }

    /// Returns whether a kernel executes tasks now.
    pub(crate) fn is_served(&self) -> bool {
        (self.is_served)()
    }

    /// Returns the table of questions.
    pub(crate) fn questions(&self) -> &Arc<QuestionTable> {
        &self.questions
    }

    /// Returns whether clients may approve calls.
    pub(crate) fn permits_consents(&self) -> bool {
        self.consents == McpReviewMode::Elicitation
    }

    /// Submits a task of a client with a new handle, in one transaction.
    ///
    /// # Errors
    /// As for [`TaskQueue::submit`].
    pub(crate) async fn submit(
        &self,
        owner: &ClientPrincipal,
        agent: String,
        key: Option<String>,
        task: NewTask,
    ) -> Result<(TaskHandle, Task), QueueError> {
        let handle = TaskHandle::generate();
        let binding =
            HandleBinding { sha256: handle.to_sha256(), principal: owner.as_str().to_owned() };
        let task = NewTask {
            handle: Some(binding),
            // Another principal's task of the same key is another task.
            scope: owner.as_str().to_owned(),
            key,
            on_end: EndNotice::Silent,
            submitter: TaskSubmitter {
                origin: SubmitterOrigin::Mcp,
                agent: Some(agent),
                principal: Some(owner.as_str().to_owned()),
                ..TaskSubmitter::default()
            },
            ..task
        };
        Ok((handle, self.queue.submit(task).await?.task))
    }

    /// Waits until a task ends or waits for a person, at most for a time; returns its last state.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn wait_for_end(
        &self,
        task: Task,
        at_most: Duration,
    ) -> Result<Task, QueueError> {
        let deadline = tokio::time::Instant::now() + at_most;
        let mut task = task;
        loop {
            let now = tokio::time::Instant::now();
            if task.state.is_terminal() || !task.waits.questions.is_empty() || now >= deadline {
                return Ok(task);
            }
            // A change by another process does not wake this one.
            let pause = LOOK_INTERVAL.min(deadline - now);
            // The store may return early without a change; an equal pause then limits the reads.
            tokio::join!(self.queue.store().wait_for_change(pause), tokio::time::sleep(pause));
            if let Some(found) = self.queue.find(&task.id).await? {
                task = found;
            }
        }
    }

    /// Finds the task of a handle; `None` for an unknown handle and for one of another principal.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn find(
        &self,
        owner: &ClientPrincipal,
        handle: &TaskHandle,
    ) -> Result<Option<Task>, QueueError> {
        self.queue.find_by_handle(handle.to_sha256(), owner.as_str().to_owned()).await
    }

    /// Returns the open questions of a task.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn open_questions(&self, task: &TaskId) -> Result<Vec<Question>, QueueError> {
        let state = Some(QuestionState::Open);
        let task = Some(task.clone());
        let limit = MAX_QUESTIONS;
        let query = TaskQuery::Questions { state, kind: None, task, thread: None, limit };
        self.queue.questions(query).await
    }

    /// Decides a question. A question that was closed before stays as it is.
    ///
    /// # Errors
    /// As for [`TaskQueue::decide`].
    pub(crate) async fn decide(
        &self,
        question: &Question,
        choice: String,
        reason: Option<String>,
        by: &str,
    ) -> Result<(), QueueError> {
        let decision = Decision {
            question: question.id.clone(),
            digest: question.digest.clone(),
            choice,
            reason,
            decider: Decider { name: by.to_owned(), surface: "mcp".to_owned() },
        };
        self.queue.decide(decision).await.map(drop)
    }

    /// Closes a question that the user of a client declines to answer.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn decline(&self, question: &Question, by: &str) -> Result<(), QueueError> {
        self.queue.withdraw(&question.id, &format!("{by} declined to answer")).await.map(drop)
    }

    /// Cancels a task.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn cancel(&self, task: &TaskId, by: &str) -> Result<(), QueueError> {
        self.queue.cancel(task.clone(), by).await.map(drop)
    }

    /// Returns the time of the store.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn now_ms(&self) -> Result<u64, QueueError> {
        self.queue.store().now_ms().await
    }
}

/// Returns bytes in hexadecimal.
fn hex_text(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // A write to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_has_random_bits_only() {
        let [a, b] = [(); 2].map(|()| TaskHandle::generate());
        assert_eq!((a.as_str().len(), a == b), (40, false));
        assert_eq!(format!("{a:?}"), "TaskHandle(..)");
        let abc = TaskHandle::from_client("abc").to_sha256();
        assert!(abc.starts_with("ba7816bf8f01cfea") && abc.len() == 64, "{abc}");
    }

    #[test]
    fn principal_depends_on_token() {
        let all = [
            ClientPrincipal::stdio(),
            ClientPrincipal::http(None),
            ClientPrincipal::http(Some(&[1; 32])),
            ClientPrincipal::http(Some(&[2; 32])),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == one), Some(at));
        }
    }
}
