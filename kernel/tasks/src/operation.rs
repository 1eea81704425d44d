//! The operations of a queue and their outcomes.

use serde::{Deserialize, Serialize};

use crate::amounts::{TaskAmounts, TaskBudget};
use crate::error::QueueError;
use crate::ids::{QuestionId, TaskId};
use crate::question::{Decision, DecisionOutcome, NewQuestion, Question};
use crate::task::{
    EndNotice, Task, TaskClaim, TaskKind, TaskOutcome, TaskProgress, TaskSubmitter, WaitMode,
};

/// The size limit of an input, in bytes.
pub(crate) const MAX_INPUT_BYTES: usize = 256 * 1024;

/// A task to submit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewTask {
    /// The id, if no task has the key.
    pub id: TaskId,
    /// What executes it.
    pub kind: TaskKind,
    /// The agent, tool, provider or channel.
    pub target: String,
    /// A short text for people.
    pub title: String,
    /// The input, at most 256 KiB.
    pub input: String,
    /// Tasks of a lane run one after the other.
    pub lane: Option<String>,
    /// Higher ones are claimed first.
    pub priority: i32,
    /// The earliest start, in milliseconds since 1970; `None` is now.
    pub due_ms: Option<u64>,
    /// The task fails at this time.
    pub deadline_ms: Option<u64>,
    /// The limits; for a subtask at most the rest of its parent's.
    pub budget: TaskBudget,
    /// The task that submits it.
    pub parent: Option<TaskId>,
    /// Tasks that have to complete before it starts.
    pub after: Vec<TaskId>,
    /// The namespace of the key.
    pub scope: String,
    /// The idempotency key: the same key and input return the same task.
    pub key: Option<String>,
    /// The submitter.
    pub submitter: TaskSubmitter,
    /// What the thread of the submitter gets at the end.
    pub on_end: EndNotice,
    /// The handle of an MCP client, which is stored together with the task.
    pub handle: Option<HandleBinding>,
}

/// The length limit of a title that is made from a text.
const MAX_TITLE_CHARS: usize = 100;

/// A handle under which one principal finds a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleBinding {
    /// sha256 of the handle, hexadecimal.
    pub sha256: String,
    /// The principal.
    pub principal: String,
}

impl NewTask {
    /// Creates a task of an agent without limits, titled with the beginning of its text.
    #[must_use]
    pub fn for_agent(agent: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let line = text.trim_start().lines().next().unwrap_or_default();
        let title = line.chars().take(MAX_TITLE_CHARS).collect();
        Self { title, ..Self::new(TaskKind::Agent, agent, text) }
    }

    /// Creates a task without limits that is due at once.
    #[must_use]
    pub fn new(kind: TaskKind, target: impl Into<String>, input: impl Into<String>) -> Self {
        let target = target.into();
        Self {
            id: TaskId::generate(),
            kind,
            title: target.clone(),
            target,
            input: input.into(),
            lane: None,
            priority: 0,
            due_ms: None,
            deadline_ms: None,
            budget: TaskBudget::default(),
            parent: None,
            after: Vec::new(),
            scope: String::new(),
            key: None,
            submitter: TaskSubmitter::default(),
            on_end: EndNotice::default(),
            handle: None,
        }
    }
}

/// The tasks that a worker can execute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimFilter {
    /// Kinds with their targets; `None` is every target of the kind. Empty is every task.
    pub targets: Vec<(TaskKind, Option<Vec<String>>)>,
}

impl ClaimFilter {
    /// Returns whether a worker with this filter can execute a task.
    #[must_use]
    pub fn matches(&self, kind: TaskKind, target: &str) -> bool {
        let accepts = |(own, targets): &(TaskKind, Option<Vec<String>>)| {
            *own == kind && targets.as_ref().is_none_or(|all| all.iter().any(|one| one == target))
        };
        self.targets.is_empty() || self.targets.iter().any(accepts)
    }
}

/// What a run waits for when it stops to wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewWait {
    /// Questions to ask.
    pub questions: Vec<NewQuestion>,
    /// Tasks whose ends are awaited.
    pub tasks: Vec<TaskId>,
    /// Whether the end of one task is enough.
    pub mode: WaitMode,
    /// A time, in milliseconds since 1970.
    pub until_ms: Option<u64>,
}

/// Why a worker releases a claim without an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseReason {
    /// A transient error: the next attempt follows after a pause. Too many retries fail the task.
    Retry {
        /// The error.
        error: String,
        /// The random part of the pause, from -200 to 200 thousandths.
        jitter: i16,
    },
    /// The worker stops in order; the claim does not count as an attempt.
    Stop,
}

/// An operation; its execution is one transition, in one transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Operation {
    /// Submits a task (transition 1).
    Submit(Box<NewTask>),
    /// Claims due tasks for a worker (2).
    Claim {
        /// The name of the worker.
        worker: String,
        /// What it can execute.
        filter: ClaimFilter,
        /// The maximum number of tasks.
        limit: usize,
        /// The length of the lease, in milliseconds.
        lease_ms: u64,
    },
    /// Renews the leases of claims (3).
    Heartbeat {
        /// The claims.
        claims: Vec<TaskClaim>,
        /// The length of the lease, in milliseconds.
        lease_ms: u64,
    },
    /// Ends leases, waits, deadlines and questions whose time is over (4, 7, 11).
    Sweep {
        /// The workers whose claims end although their leases have not; for a store that only one
        /// process claims from, at its start.
        lost_workers: LostWorkers,
    },
    /// Stores lines, spent amounts and progress of a run (5).
    Record {
        /// The claim.
        claim: TaskClaim,
        /// Lines of the run's journal.
        lines: Vec<String>,
        /// Amounts spent since the last record.
        spent: TaskAmounts,
        /// Amounts that earlier records counted too much, such as the estimate of a model request.
        returned: TaskAmounts,
        /// The progress, if it has changed.
        progress: Option<TaskProgress>,
    },
    /// Ends a run that waits (6).
    Wait {
        /// The claim.
        claim: TaskClaim,
        /// What it waits for.
        wait: NewWait,
    },
    /// Asks a question for a run of a thread, or for a command.
    Ask(Box<NewQuestion>),
    /// Decides a question (7).
    Decide(Decision),
    /// Withdraws the open questions of a thread, or one question.
    Withdraw {
        /// The thread.
        thread: Option<String>,
        /// The question.
        question: Option<QuestionId>,
        /// The reason.
        reason: String,
    },
    /// Releases a claim without an outcome (8).
    Release {
        /// The claim.
        claim: TaskClaim,
        /// The reason.
        reason: ReleaseReason,
    },
    /// Ends a task (9).
    Finish {
        /// The claim.
        claim: TaskClaim,
        /// The outcome.
        outcome: TaskOutcome,
        /// Amounts spent since the last record.
        spent: TaskAmounts,
    },
    /// Cancels a task and its subtasks (10).
    Cancel {
        /// The task.
        task: TaskId,
        /// Who cancels it.
        by: String,
    },
    /// Submits a terminal task again, as a new one.
    Retry {
        /// The task.
        task: TaskId,
        /// The id of the new task.
        id: TaskId,
        /// The lines of the old task are not copied: the new one starts from the beginning.
        fresh: bool,
        /// The submitter.
        submitter: TaskSubmitter,
    },
    /// Removes published rows from the outbox (12).
    AcknowledgeOutbox {
        /// The sequence numbers.
        seqs: Vec<i64>,
    },
    /// Stores another handle of a task.
    BindHandle {
        /// sha256 of the handle, hexadecimal.
        sha256: String,
        /// The task.
        task: TaskId,
        /// The principal.
        principal: String,
    },
}

/// Whose claims a sweep ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LostWorkers {
    /// Only those whose lease is over.
    #[default]
    Expired,
    /// All: no worker of an earlier process is left.
    All,
}

/// The outcome of an [`Operation`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OperationOutcome {
    /// Of [`Operation::Submit`] and [`Operation::Retry`].
    Submitted(Box<SubmitOutcome>),
    /// Of [`Operation::Claim`].
    Claimed(Vec<ClaimedTask>),
    /// Of [`Operation::Heartbeat`], in the order of the claims.
    Heartbeats(Vec<HeartbeatStatus>),
    /// Of [`Operation::Sweep`].
    Swept(SweepReport),
    /// Of [`Operation::Wait`].
    Waiting(WaitOutcome),
    /// Of [`Operation::Ask`]: the question, possibly closed already.
    Asked(Box<Question>),
    /// Of [`Operation::Decide`].
    Decided(Box<DecisionOutcome>),
    /// Of [`Operation::Cancel`], [`Operation::Release`] and [`Operation::Finish`]: the task after it.
    Changed(Box<Task>),
    /// Of the others: the number of changed rows.
    Done(usize),
}

/// The result of a submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubmitOutcome {
    /// The task.
    pub task: Task,
    /// False if a task with the key and the input existed.
    pub created: bool,
}

/// A task that a worker has claimed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimedTask {
    /// The task.
    pub task: Task,
    /// The input.
    pub input: String,
}

/// The state of a claim after a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeartbeatStatus {
    /// The lease is renewed.
    Kept,
    /// The lease is renewed; the run has to end, as the task is to be cancelled.
    Cancel,
    /// The claim is not the current one; the run has to end without a write.
    Lost,
}

/// What a run that wants to wait gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitOutcome {
    /// The task waits; the claim has ended. The questions are in the order of the request.
    Parked(Vec<Question>),
    /// Every part is closed, ended or past; the claim goes on.
    Satisfied(Vec<Question>),
}

/// The result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepReport {
    /// The number of claims that were ended because their worker was lost.
    pub lost: usize,
    /// The number of waiting tasks whose time has come.
    pub woken: usize,
    /// The number of tasks that failed: by their deadline, or lost too often.
    pub failed: usize,
    /// The number of expired questions.
    pub expired: usize,
}

/// The result of an operation.
pub type OperationResult = Result<OperationOutcome, QueueError>;
