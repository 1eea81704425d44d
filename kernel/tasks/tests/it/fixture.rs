//! The stores under test, and short forms of operations.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use skillhost_events::Clock;
use skillhost_tasks::{
    ClaimFilter, Decider, Decision, MemoryQueue, NewQuestion, NewTask, NewWait, QuestionKind,
    Queue, QueueError, QueueErrorKind, SqliteQueue, Task, TaskAmounts, TaskBudget, TaskClaim,
    TaskId, TaskKind, TaskOutcome, TaskQueue, TaskState, WaitOutcome, generate_question_id,
};

/// The first time of the injected clock: in the year 2026.
pub(crate) const START_MS: u64 = 1_780_000_000_000;
/// The lease of claims.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// An empty store with an injected clock.
pub(crate) struct StoreFixture {
    pub(crate) queue: TaskQueue,
    time: Arc<AtomicU64>,
    // Removed with the fixture: the directory or database of the store.
    _place: Box<dyn Any + Send + Sync>,
}

impl StoreFixture {
    /// Creates a fixture of a store that a function opens with a clock.
    pub(crate) fn new<P: Any + Send + Sync>(
        open: impl FnOnce(Clock) -> (Arc<dyn Queue>, P),
    ) -> Self {
        let time = Arc::new(AtomicU64::new(START_MS));
        let shared = Arc::clone(&time);
        let (store, place) = open(Clock::new(move || shared.load(Ordering::SeqCst)));
        Self { queue: TaskQueue::new(store), time, _place: Box::new(place) }
    }

    /// Creates a store in memory.
    pub(crate) fn memory() -> Self {
        Self::new(|clock| (Arc::new(MemoryQueue::new(clock)), ()))
    }

    /// Creates a store in a file.
    pub(crate) fn sqlite() -> Self {
        Self::new(|clock| {
            let home = tempfile::tempdir().unwrap();
            (Arc::new(SqliteQueue::new(home.path().join("work.db"), clock)), home)
        })
    }

    /// Creates a store in a schema of a server.
    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres(url: &str, schema: &str) -> Self {
        let time = Arc::new(AtomicU64::new(START_MS));
        let shared = Arc::clone(&time);
        let clock = Clock::new(move || shared.load(Ordering::SeqCst));
        let address = skillhost_tasks::PostgresAddress::parse(url, schema).unwrap();
        let connected = skillhost_tasks::PostgresQueue::connect_with_clock(address, clock).await;
        Self { queue: TaskQueue::new(Arc::new(connected.unwrap())), time, _place: Box::new(()) }
    }

    pub(crate) fn now(&self) -> u64 {
        self.time.load(Ordering::SeqCst)
    }

    pub(crate) fn set_time(&self, ms: u64) {
        self.time.store(ms, Ordering::SeqCst);
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.time.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) async fn submit(&self, new: NewTask) -> Task {
        self.queue.submit(new).await.unwrap().task
    }

    /// Submits a task that is due at once.
    pub(crate) async fn submit_plain(&self) -> Task {
        self.submit(new_task()).await
    }

    /// Submits a task and claims it. No other task may be due.
    pub(crate) async fn start(&self, new: NewTask) -> TaskClaim {
        let id = self.submit(new).await.id;
        let claims = self.claim(9).await;
        assert_eq!(claims.len(), 1);
        assert_eq!(claims[0].task, id);
        claims[0].clone()
    }

    pub(crate) async fn claim(&self, limit: usize) -> Vec<TaskClaim> {
        let tasks = self.queue.claim("w", ClaimFilter::default(), limit, LEASE).await.unwrap();
        tasks.iter().filter_map(|claimed| claimed.task.current_claim()).collect()
    }

    pub(crate) async fn finish(&self, claim: &TaskClaim, outcome: TaskOutcome) -> Task {
        self.queue.finish(claim.clone(), outcome, TaskAmounts::default()).await.unwrap()
    }

    pub(crate) async fn complete(&self, claim: &TaskClaim) -> Task {
        self.finish(claim, completed()).await
    }

    pub(crate) async fn task(&self, id: &TaskId) -> Task {
        self.queue.find(id).await.unwrap().unwrap()
    }

    pub(crate) async fn state(&self, id: &TaskId) -> TaskState {
        self.task(id).await.state
    }

    /// Parks a run; returns the ids of its questions.
    pub(crate) async fn park(&self, claim: &TaskClaim, wait: NewWait) -> Vec<String> {
        match self.queue.wait(claim.clone(), wait).await.unwrap() {
            WaitOutcome::Parked(questions) => {
                questions.into_iter().map(|question| question.id).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the keys of the outbox rows of a topic.
    pub(crate) async fn outbox_keys(&self, topic: &str) -> Vec<String> {
        let rows = self.queue.outbox(10_000).await.unwrap();
        rows.into_iter().filter(|row| row.topic == topic).map(|row| row.key).collect()
    }
}

pub(crate) fn new_task() -> NewTask {
    NewTask::new(TaskKind::Tool, "echo", "{}")
}

pub(crate) fn child_of(parent: &TaskId) -> NewTask {
    NewTask { parent: Some(parent.clone()), ..new_task() }
}

pub(crate) fn after(ids: &[&TaskId]) -> NewTask {
    NewTask { after: ids.iter().map(|id| (*id).clone()).collect(), ..new_task() }
}

pub(crate) fn tokens(tokens: u64) -> TaskBudget {
    TaskBudget { tokens: Some(tokens), ..TaskBudget::default() }
}

pub(crate) fn spent_tokens(tokens: u64) -> TaskAmounts {
    TaskAmounts { tokens, ..TaskAmounts::default() }
}

pub(crate) fn completed() -> TaskOutcome {
    TaskOutcome::Completed { text: "done".to_owned(), structured: None, is_error: false }
}

pub(crate) fn wait_for(ids: &[&TaskId]) -> NewWait {
    NewWait { tasks: ids.iter().map(|id| (*id).clone()).collect(), ..NewWait::default() }
}

pub(crate) fn question(call: &str, subject: &str) -> NewQuestion {
    NewQuestion {
        id: generate_question_id(),
        thread: None,
        kind: QuestionKind::Consent,
        asker: "agent".to_owned(),
        call: call.to_owned(),
        title: "may it".to_owned(),
        subject: subject.to_owned(),
        options: vec!["approve".to_owned(), "refuse".to_owned()],
    }
}

pub(crate) fn decision(question: &str, subject: &str, choice: &str) -> Decision {
    Decision {
        question: question.to_owned(),
        digest: skillhost_files::sha256_hex(subject.as_bytes()),
        choice: choice.to_owned(),
        reason: None,
        decider: Decider { name: "operator".to_owned(), surface: "terminal".to_owned() },
    }
}

/// Returns the kind of the error of a refused operation.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, QueueError>) -> QueueErrorKind {
    result.unwrap_err().kind()
}
