//! A run of a background task, whose steps are stored.

use std::collections::HashSet;
use std::fmt::Display;
use std::future::Future;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use skillhost_payload::{
    ErrorKind, StoreTaskStepRequest, TaskAnswer, TaskClaimRef, TaskProgressReport, TaskQuestion,
    TaskRunReply, TaskRunRequest, TaskStep, host_method,
};

use crate::args::ToolArgs;
use crate::codec::to_bytes;
use crate::error::{ExtensionError, Result};
use crate::link::HostLink;

/// The result of a task: text for people and models, and an optional value for programs.
#[derive(Debug, Clone)]
pub struct TaskResult {
    text: String,
    structured: Option<Box<RawValue>>,
}

impl TaskResult {
    /// Creates a result with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), structured: None }
    }

    /// Adds a value for programs.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] for a value that is no JSON.
    pub fn with_structured<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self> {
        self.structured = Some(to_raw(value)?);
        Ok(self)
    }
}

/// A name within a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TaskName {
    Step(String),
    Question(String),
}

/// A run of a task.
///
/// A task may run several times: after a crash, after a restart, and after a person has answered.
/// Each run begins from its beginning; a step that was stored is not executed again.
pub struct TaskRun {
    request: TaskRunRequest,
    link: HostLink,
    /// The names that this run has used.
    names: Mutex<HashSet<TaskName>>,
    /// The questions without an answer.
    open: Mutex<Vec<TaskQuestion>>,
}

impl TaskRun {
    /// Returns the kind of the task.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.request.kind
    }

    /// Returns the input.
    #[must_use]
    pub fn input(&self) -> ToolArgs<'_> {
        ToolArgs::new(self.request.input.get())
    }

    /// Returns the number of the attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.request.attempt
    }

    /// Returns the id of the task.
    #[must_use]
    pub fn task_id(&self) -> &str {
        &self.request.claim.task
    }

    /// Returns an idempotency key for a step: the same in every attempt, also of a retry that
    /// continues the task, and different for every other step.
    #[must_use]
    pub fn idempotency_key(&self, step: &str) -> String {
        format!("{}/{step}", self.request.key)
    }

    /// Executes a step and stores its result, or returns the stored result.
    ///
    /// A step that was cut off is executed again: a call of another system in it needs
    /// [`TaskRun::idempotency_key`], or has to be harmless when it is repeated.
    ///
    /// # Errors
    /// The error of the step, which is not stored; [`ErrorKind::InvalidArgument`] for a name that
    /// this run has used; [`ErrorKind::Conflict`] if another run has the task, which has to end
    /// this one.
    pub async fn step<T, F>(&self, name: &str, work: F) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T>> + Send,
    {
        self.register(&TaskName::Step(name.to_owned()))?;
        if let Some(step) = self.request.steps.iter().find(|step| step.name == name) {
            return parse(step.result.get(), name);
        }
        let value = work.await?;
        let step = TaskStep { name: name.to_owned(), result: to_raw(&value)? };
        let request = StoreTaskStepRequest { claim: self.claim(), step };
        self.link.call(host_method::STORE_TASK_STEP, to_bytes(&request)?).await?;
        Ok(value)
    }

    /// Asks a person, and returns the answer.
    ///
    /// Without an answer the error ends the run: return it with `?`. The task then waits, without a
    /// worker and at no cost, and runs again when the question is closed. Empty options permit any
    /// text.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while the question is open, [`ErrorKind::Denied`] if it was
    /// withdrawn or expired.
    pub fn ask(&self, name: &str, question: &str, options: &[&str]) -> Result<String> {
        self.register(&TaskName::Question(name.to_owned()))?;
        let mut answers = self.request.answers.iter();
        match answers.find(|answer| answer.name == name) {
            Some(TaskAnswer { answer: Some(text), .. }) => Ok(text.clone()),
            Some(_) => {
                let message = format!("question `{name}` was not answered");
                Err(ExtensionError::new(ErrorKind::Denied, message))
            }
            None => {
                let question = TaskQuestion {
                    name: name.to_owned(),
                    question: question.to_owned(),
                    options: options.iter().map(ToString::to_string).collect(),
                };
                lock_unpoisoned(&self.open).push(question);
                let message = format!("the task waits for the answer to `{name}`");
                Err(ExtensionError::new(ErrorKind::Unavailable, message))
            }
        }
    }

    /// Reports the progress: finished units, all units if known, and a short text.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if another run has the task.
    pub async fn progress(&self, done: f64, total: Option<f64>, text: impl Display) -> Result<()> {
        let report =
            TaskProgressReport { claim: self.claim(), done, total, text: text.to_string() };
        self.link.call(host_method::REPORT_TASK_PROGRESS, to_bytes(&report)?).await.map(drop)
    }

    /// Creates the run of a request.
    pub(crate) fn new(request: TaskRunRequest, link: HostLink) -> Self {
        Self { request, link, names: Mutex::default(), open: Mutex::default() }
    }

    /// Returns the reply to the request of a run that has returned.
    pub(crate) fn into_reply(self, result: Result<TaskResult>) -> Result<TaskRunReply> {
        let open = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(TaskResult { text, structured }) => Ok(TaskRunReply::Completed { text, structured }),
            // The author returned the error of `ask`, or another one because of it.
            Err(_) if !open.is_empty() => Ok(TaskRunReply::Asks(open)),
            Err(error) => Err(error),
        }
    }

    fn claim(&self) -> TaskClaimRef {
        self.request.claim.clone()
    }

    fn register(&self, name: &TaskName) -> Result<()> {
        // The second one would get the result of the first one after a restart.
        match lock_unpoisoned(&self.names).insert(name.clone()) {
            true => Ok(()),
            false => Err(name.duplicate_error()),
        }
    }
}

impl TaskName {
    fn duplicate_error(&self) -> ExtensionError {
        let (what, name) = match self {
            Self::Step(name) => ("step", name),
            Self::Question(name) => ("question", name),
        };
        ExtensionError::invalid_argument(format!("{what} `{name}` is used twice in one run"))
            .with_hint("number the names of a loop, such as `page 1`")
    }
}

fn to_raw<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>> {
    to_raw_value(value).map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))
}

fn parse<T: DeserializeOwned>(text: &str, name: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        // A newer build of the extension may have changed the type.
        let message = format!("the stored result of step `{name}` has another shape: {error}");
        ExtensionError::failed(message)
            .with_hint("give the changed step another name, or retry the task from its beginning")
    })
}

/// Locks a mutex; the values stay consistent even if another thread panicked.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
