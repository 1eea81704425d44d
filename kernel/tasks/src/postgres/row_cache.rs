//! The rows that a transaction has locked, with its changes of them.
//!
//! A set of rows, such as the subtasks of a task, is loaded once. It is complete from then on: a row
//! that would join it requires the lock of the task, which the transaction has.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::TaskId;
use crate::question::{Question, QuestionState};
use crate::task::{Task, TaskState};

/// The rows of a transaction.
#[derive(Debug, Default)]
pub(super) struct RowCache {
    tasks: BTreeMap<TaskId, Option<Task>>,
    questions: BTreeMap<String, Option<Question>>,
    inputs: BTreeMap<TaskId, String>,
    loaded: BTreeSet<LoadedSet>,
}

/// A set of rows that the cache has completely.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoadedSet {
    /// The task with a key.
    Key(String, String),
    /// The task that repeats one.
    Retry(TaskId),
    /// The open subtasks of a task.
    Children(TaskId),
    /// The tasks that wait for a task.
    Waiting(TaskId),
    /// The open questions of a task.
    Questions(TaskId),
}

impl RowCache {
    /// Returns a task, or `None` if it is not loaded.
    pub(super) fn task(&self, id: &TaskId) -> Option<Option<Task>> {
        self.tasks.get(id).cloned()
    }

    /// Returns a question, or `None` if it is not loaded.
    pub(super) fn question(&self, id: &str) -> Option<Option<Question>> {
        self.questions.get(id).cloned()
    }

    /// Returns a task that is loaded.
    pub(super) fn stored_task(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.get(id)?.as_ref()
    }

    /// Returns a question that is loaded.
    pub(super) fn stored_question(&self, id: &str) -> Option<&Question> {
        self.questions.get(id)?.as_ref()
    }

    /// Returns an input that is loaded.
    pub(super) fn input(&self, id: &TaskId) -> Option<&String> {
        self.inputs.get(id)
    }

    /// Adds a row of the database, unless the transaction has the row already.
    pub(super) fn add_task(&mut self, task: Task) {
        // The transaction's version may be changed; the one of the database is older then.
        self.tasks.entry(task.id.clone()).or_default().get_or_insert(task);
    }

    /// Adds a row of the database, unless the transaction has the row already.
    pub(super) fn add_question(&mut self, question: Question) {
        self.questions.entry(question.id.clone()).or_default().get_or_insert(question);
    }

    /// Remembers that a task does not exist, unless it is loaded.
    pub(super) fn mark_task(&mut self, id: &TaskId) {
        self.tasks.entry(id.clone()).or_default();
    }

    /// Remembers that a question does not exist, unless it is loaded.
    pub(super) fn mark_question(&mut self, id: &str) {
        self.questions.entry(id.to_owned()).or_default();
    }

    /// Adds an input.
    pub(super) fn add_input(&mut self, id: &TaskId, input: String) {
        self.inputs.insert(id.clone(), input);
    }

    /// Replaces a task.
    pub(super) fn replace_task(&mut self, task: Task) {
        self.tasks.insert(task.id.clone(), Some(task));
    }

    /// Replaces a question.
    pub(super) fn replace_question(&mut self, question: Question) {
        self.questions.insert(question.id.clone(), Some(question));
    }

    /// Returns whether a set is loaded.
    pub(super) fn has_set(&self, set: &LoadedSet) -> bool {
        self.loaded.contains(set)
    }

    /// Marks a set as loaded.
    pub(super) fn mark_set(&mut self, set: LoadedSet) {
        self.loaded.insert(set);
    }

    /// Returns the loaded tasks that match, by id.
    pub(super) fn select(&self, matches: impl Fn(&Task) -> bool) -> Vec<Task> {
        self.tasks.values().flatten().filter(|task| matches(task)).cloned().collect()
    }

    /// Returns the loaded questions that match, by id.
    pub(super) fn select_questions(&self, matches: impl Fn(&Question) -> bool) -> Vec<Question> {
        self.questions.values().flatten().filter(|question| matches(question)).cloned().collect()
    }

    /// Returns the loaded tasks that wait for a task.
    pub(super) fn waiting_for(&self, id: &TaskId) -> Vec<Task> {
        let waits = |task: &Task| task.waits.all_tasks().any(|waited| waited == id);
        self.select(|task| task.state == TaskState::Waiting && waits(task))
    }

    /// Returns the loaded open questions of a task.
    pub(super) fn open_questions_of(&self, id: &TaskId) -> Vec<Question> {
        self.select_questions(|question| {
            question.task.as_ref() == Some(id) && question.state == QuestionState::Open
        })
    }
}
