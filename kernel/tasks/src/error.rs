//! The errors of queues.

use std::borrow::Cow;
use std::fmt::Display;

use skillhost_payload::{CallError, ErrorKind};

/// An error of an operation of a queue. The operation made no change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QueueError {
    kind: QueueErrorKind,
    message: String,
    hint: Cow<'static, str>,
}

/// The kind of a queue's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueErrorKind {
    /// A value is not valid.
    Invalid,
    /// A text exceeds its limit.
    TooLarge,
    /// The task or question does not exist.
    NotFound,
    /// The key belongs to a task with another input, or the task is in another state.
    Conflict,
    /// The claim is not the current one of its task.
    Stale,
    /// A subtask requests more than the rest of its parent's budget.
    Budget,
    /// A limit of the number or the depth of subtasks.
    Limit,
    /// Tasks would wait for each other.
    Cycle,
    /// A newer program wrote the store.
    Newer,
    /// Another program has locked the store.
    Locked,
    /// The store or its disk failed.
    Io,
    /// The store is damaged.
    Corrupt,
    /// Any other error of the database.
    Database,
}

impl QueueError {
    /// Creates an error.
    #[must_use]
    pub fn new(
        kind: QueueErrorKind,
        message: impl Into<String>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, message: message.into(), hint: hint.into() }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> QueueErrorKind {
        self.kind
    }

    /// Returns the remedy, as an imperative; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    pub(crate) fn invalid(message: impl Into<String>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self::new(QueueErrorKind::Invalid, message, hint)
    }

    pub(crate) fn task_not_found(id: &impl Display) -> Self {
        Self::new(QueueErrorKind::NotFound, format!("task `{id}` not found"), "list the tasks")
    }

    pub(crate) fn question_not_found(id: &str) -> Self {
        let message = format!("question `{}` not found", id.escape_debug());
        Self::new(QueueErrorKind::NotFound, message, "list the inbox")
    }

    pub(crate) fn stale(task: &impl Display, epoch: u64) -> Self {
        let message = format!("claim {epoch} of task `{task}` is no longer the current one");
        Self::new(QueueErrorKind::Stale, message, "end the run; another one has the task")
    }

    pub(crate) fn exceeded_budget(name: &str, wanted: Option<u64>, rest: u64) -> Self {
        let message = match wanted {
            Some(wanted) => format!("budget `{name}` of {wanted} exceeds the rest of {rest}"),
            None => format!("budget `{name}` of the parent task is spent or reserved"),
        };
        Self::new(QueueErrorKind::Budget, message, "request less, or wait for other subtasks")
    }
}

impl From<QueueError> for CallError {
    fn from(error: QueueError) -> Self {
        let kind = match error.kind() {
            QueueErrorKind::Invalid | QueueErrorKind::Cycle => ErrorKind::InvalidArgument,
            QueueErrorKind::TooLarge => ErrorKind::TooLarge,
            QueueErrorKind::NotFound => ErrorKind::NotFound,
            QueueErrorKind::Conflict | QueueErrorKind::Stale => ErrorKind::Conflict,
            QueueErrorKind::Budget | QueueErrorKind::Limit => ErrorKind::Denied,
            QueueErrorKind::Locked => ErrorKind::Unavailable,
            QueueErrorKind::Io | QueueErrorKind::Corrupt => ErrorKind::Io,
            QueueErrorKind::Newer | QueueErrorKind::Database => ErrorKind::Failed,
        };
        Self::new(kind, error.to_string()).with_hint(error.hint())
    }
}
