//! The tasks of extensions that run in this process, and the writes of their extensions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use skillhost_agents::RunGate;
use skillhost_payload::{
    CallError, ErrorKind, StoreTaskStepRequest, TaskClaimRef, TaskProgressReport,
};
use skillhost_tasks::{TaskAmounts, TaskClaim, TaskProgress, TaskQueue};

use crate::task_recorder::TaskRecorder;
use crate::task_run::TaskRun;

/// The size limit of a stored step, in bytes.
const MAX_STEP_BYTES: usize = 1 << 20;
/// The size limit of all steps of a task: each attempt gets them in one call.
const MAX_TASK_BYTES: usize = 64 << 20;
/// The length limit of the name of a step.
const MAX_NAME_BYTES: usize = 512;
/// The length limit of the text of a progress, in characters.
const MAX_PROGRESS_CHARS: usize = 500;

/// A line of a task of an extension.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(crate) enum ExtensionTaskLine {
    /// The first line.
    Start {
        /// The prefix of the keys of steps; a retry that continues these lines has it as well.
        key: String,
    },
    /// A step has ended.
    Step {
        /// The name.
        name: String,
        /// The result, as JSON text: a tagged enum cannot contain a raw value.
        result: String,
    },
}

/// The running tasks of extensions, by id.
pub(crate) struct ExtensionRuns {
    by_task: Mutex<HashMap<String, ExtensionRun>>,
    gate: Arc<RunGate>,
}

/// A running task of an extension.
#[derive(Clone)]
struct ExtensionRun {
    extension: String,
    claim: TaskClaim,
    queue: TaskQueue,
    recorder: Arc<TaskRecorder>,
    /// The bytes of the stored lines.
    stored: Arc<AtomicUsize>,
}

/// A guard that permits the writes of a run until it is dropped.
pub(crate) struct ExtensionRunGuard<'a> {
    runs: &'a ExtensionRuns,
    task: String,
    epoch: u64,
}

impl ExtensionRuns {
    pub(crate) fn new(gate: Arc<RunGate>) -> Self {
        Self { by_task: Mutex::default(), gate }
    }

    /// Returns whether runs have to stop at their next step.
    pub(crate) fn is_stopping(&self) -> bool {
        self.gate.is_closed()
    }

    /// Permits an extension the writes of a run.
    pub(crate) fn insert(
        &self,
        run: &TaskRun,
        extension: &str,
        stored_bytes: usize,
    ) -> ExtensionRunGuard<'_> {
        let task = run.task.id.to_string();
        let running = ExtensionRun {
            extension: extension.to_owned(),
            claim: run.lease.claim.clone(),
            queue: run.queue.clone(),
            recorder: Arc::clone(&run.recorder),
            stored: Arc::new(AtomicUsize::new(stored_bytes)),
        };
        let epoch = running.claim.epoch;
        self.lock().insert(task.clone(), running);
        ExtensionRunGuard { runs: self, task, epoch }
    }

    /// Stores a step; it is durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the claim is not the current one, [`ErrorKind::Denied`] for a task
    /// of another extension, [`ErrorKind::TooLarge`]; [`ErrorKind::Unavailable`] if the step is
    /// stored and the kernel stops.
    pub(crate) async fn store_step(
        &self,
        extension: &str,
        request: StoreTaskStepRequest,
    ) -> Result<(), CallError> {
        let StoreTaskStepRequest { claim, step } = request;
        let run = self.find(extension, &claim)?;
        if step.name.is_empty() || step.name.len() > MAX_NAME_BYTES {
            let message = format!("the name of a step has 1 to {MAX_NAME_BYTES} bytes");
            return Err(CallError::new(ErrorKind::InvalidArgument, message));
        }
        let line =
            ExtensionTaskLine::Step { name: step.name, result: step.result.get().to_owned() };
        let line =
            serde_json::to_string(&line).map_err(|error| CallError::protocol_error(&error))?;
        if line.len() > MAX_STEP_BYTES {
            let message = format!("a step has {} bytes, at most {MAX_STEP_BYTES}", line.len());
            return Err(too_large(message));
        }
        if run.stored.fetch_add(line.len(), Ordering::Relaxed) + line.len() > MAX_TASK_BYTES {
            run.stored.fetch_sub(line.len(), Ordering::Relaxed);
            let message = format!("the steps of the task have more than {MAX_TASK_BYTES} bytes");
            return Err(too_large(message));
        }
        run.recorder.record(vec![line]).await?;
        if self.is_stopping() {
            // The next kernel continues behind this step.
            return Err(CallError::new(ErrorKind::Unavailable, "the kernel is shutting down"));
        }
        Ok(())
    }

    /// Stores the progress of a run.
    ///
    /// # Errors
    /// As for [`ExtensionRuns::store_step`].
    pub(crate) async fn report_progress(
        &self,
        extension: &str,
        report: TaskProgressReport,
    ) -> Result<(), CallError> {
        let TaskProgressReport { claim, done, total, text } = report;
        let run = self.find(extension, &claim)?;
        if done < 0.0 || total.is_some_and(|total| total < 0.0) {
            let message = "the units of a progress are not negative";
            return Err(CallError::new(ErrorKind::InvalidArgument, message));
        }
        let text = text.chars().take(MAX_PROGRESS_CHARS).collect();
        let progress = Some(TaskProgress { done, total, text });
        Ok(run.queue.record(run.claim, Vec::new(), TaskAmounts::default(), progress).await?)
    }

    /// Finds the run of a claim; a run that has ended, or lost its claim, may not write.
    fn find(&self, extension: &str, claim: &TaskClaimRef) -> Result<ExtensionRun, CallError> {
        let shown = claim.task.escape_debug();
        match self.lock().get(&claim.task) {
            Some(run) if run.extension != extension => {
                let message = format!("task `{shown}` is not one of `{extension}`");
                Err(CallError::new(ErrorKind::Denied, message))
            }
            Some(run) if run.claim.epoch == claim.epoch => Ok(run.clone()),
            _ => {
                let message = format!("claim {} of task `{shown}` is not current", claim.epoch);
                Err(CallError::new(ErrorKind::Conflict, message).with_hint("end this run"))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ExtensionRun>> {
        self.by_task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ExtensionRunGuard<'_> {
    fn drop(&mut self) {
        let mut runs = self.runs.lock();
        // A later claim of the task may run already.
        if runs.get(&self.task).is_some_and(|run| run.claim.epoch == self.epoch) {
            runs.remove(&self.task);
        }
    }
}

fn too_large(message: String) -> CallError {
    CallError::new(ErrorKind::TooLarge, message)
        .with_hint("store large results in a file, and return its path from the step")
}
