//! The store of tasks, and ids of tasks and questions that may be shortened.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use skillhost_home::Home;
use skillhost_payload::CallError;
use skillhost_tasks::{
    Question, QuestionKind, QueueError, QueueErrorKind, SqliteQueue, Task, TaskFilter, TaskId,
    TaskQuery, TaskQueue, open_home_queue,
};
use skillhost_terminal::{CliContext, CliError, display_safe, exit, resolve_id};

/// The name under which this program changes tasks and decides.
pub(crate) const OPERATOR: &str = "operator";
/// The length of an id.
const ID_LENGTH: usize = 26;
/// The number of tasks that are read for a prefix: more than an error lists.
const MAX_CANDIDATES: usize = 12;
/// The number of open questions that are listed, and of questions that are read for a prefix.
pub(crate) const MAX_QUESTIONS: usize = 1000;

/// Returns the tasks of a home. Reading creates no file.
///
/// # Errors
/// The settings, which name the store, are not valid.
pub(crate) fn open_queue(session: &CliContext, home: &Home) -> Result<TaskQueue, CliError> {
    Ok(open_home_queue(home, &session.settings(home)?.settings))
}

/// Converts the error of a queue.
pub(crate) fn to_cli_error(error: QueueError) -> CliError {
    let kind = error.kind();
    let converted = CliError::from(CallError::from(error));
    match kind {
        QueueErrorKind::TooLarge => converted.with_code(exit::USAGE),
        // The state of other tasks is in the way, no permission.
        QueueErrorKind::Budget | QueueErrorKind::Limit => converted.with_code(exit::CONFLICT),
        QueueErrorKind::Locked | QueueErrorKind::Newer | QueueErrorKind::Database => {
            converted.with_code(exit::IO)
        }
        _ => converted,
    }
}

/// Finds a task by its id or the start of it.
///
/// # Errors
/// No task or several have it, or the store cannot be read.
pub(crate) async fn find_task(queue: &TaskQueue, given: &str) -> Result<Task, CliError> {
    // Ids are stored in lower case.
    let start = given.to_lowercase();
    let mut found = match TaskId::parse(&start) {
        Some(id) => Vec::from_iter(queue.find(&id).await.map_err(to_cli_error)?),
        None => list_by_prefix(queue, &start).await?,
    };
    if found.len() > 1 {
        let ids = found.iter().map(|task| task.id.as_str());
        // The id of none is the whole prefix, so this is the error that lists them.
        resolve_id("tasks", &start, ids)?;
    }
    found.pop().ok_or_else(|| {
        CliError::new(exit::NOT_FOUND, format!("task `{}` not found", display_safe(given)))
            .with_hint("see: skillhost task list")
    })
}

/// Returns the tasks whose ids start with a text, at most some more than an error lists.
async fn list_by_prefix(queue: &TaskQueue, start: &str) -> Result<Vec<Task>, CliError> {
    let is_prefix = !start.is_empty() && start.bytes().all(|byte| byte.is_ascii_alphanumeric());
    // Ids are sorted, so those with the prefix come right before its last possible id.
    let last = TaskId::parse(&format!("{start:z<ID_LENGTH$}")).filter(|_| is_prefix);
    let Some(before) = last else { return Ok(Vec::new()) };
    let filter =
        TaskFilter { before: Some(before), limit: MAX_CANDIDATES, ..TaskFilter::default() };
    let mut tasks = queue.list(filter).await.map_err(to_cli_error)?;
    tasks.retain(|task| task.id.as_str().starts_with(start));
    Ok(tasks)
}

/// Finds a question by its id or the start of it.
///
/// # Errors
/// No question or several have it, or the store cannot be read.
pub(crate) async fn find_question(queue: &TaskQueue, given: &str) -> Result<Question, CliError> {
    let start = given.to_lowercase();
    if let Some(question) = queue.question(&start).await.map_err(to_cli_error)? {
        return Ok(question);
    }
    let not_found = || {
        CliError::new(exit::NOT_FOUND, format!("question `{}` not found", display_safe(given)))
            .with_hint("see: skillhost inbox list; of a question that is closed, give the whole id")
    };
    if start.is_empty() || start.len() >= ID_LENGTH {
        return Err(not_found());
    }
    let query = |state| TaskQuery::Questions {
        state,
        kind: None,
        task: None,
        thread: None,
        limit: MAX_QUESTIONS,
    };
    // Open ones first: a closed one with the same beginning must not make an id ambiguous.
    let open = queue.open_questions(MAX_QUESTIONS).await.map_err(to_cli_error)?;
    let id = resolve_id("questions", &start, open.iter().map(|question| question.id.as_str()))?;
    if let Some(found) = open.into_iter().find(|question| question.id == id) {
        return Ok(found);
    }
    // One that was decided a moment ago has an answer, too.
    let all = queue.questions(query(None)).await.map_err(to_cli_error)?;
    let id = resolve_id("questions", &start, all.iter().map(|question| question.id.as_str()))?;
    all.into_iter().find(|question| question.id == id).ok_or_else(not_found)
}

/// The time that a shell waits for a database of another machine.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of tasks that a shell is offered.
const MAX_COMPLETED: usize = 100;

/// Returns the newest tasks of the home with their titles, which are not trusted; none if they
/// cannot be read.
#[must_use]
pub fn task_ids(session: &CliContext) -> Vec<(String, String)> {
    let filter = TaskFilter { limit: MAX_COMPLETED, ..TaskFilter::default() };
    let tasks = read_for_shell(session, async |queue| queue.list(filter).await);
    tasks.into_iter().flatten().map(|task| (task.id.to_string(), task.title)).collect()
}

/// Returns the open questions of the home with their titles, as [`task_ids`] does.
#[must_use]
pub fn question_ids(session: &CliContext) -> Vec<(String, String)> {
    let open = read_for_shell(session, async |queue| queue.open_questions(MAX_COMPLETED).await);
    open.into_iter().flatten().map(|question| (question.id, question.title)).collect()
}

/// Reads the tasks of the home, within a time in which a shell can wait.
fn read_for_shell<T>(
    session: &CliContext,
    read: impl AsyncFnOnce(&TaskQueue) -> Result<T, QueueError>,
) -> Option<T> {
    let home = session.trusted_home().ok()?;
    let queue = open_queue(session, &home).ok()?;
    let reading = async { tokio::time::timeout(COMPLETION_TIMEOUT, read(&queue)).await };
    session.block_on(Box::pin(reading)).ok()?.ok()?.ok()
}

/// The numbers of tasks and open questions of a home.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TaskStoreReport {
    /// The number of tasks in each state that has any.
    pub(crate) tasks: BTreeMap<&'static str, u64>,
    /// The number of open questions.
    pub(crate) questions: usize,
}

/// Counts the tasks and open questions of a home.
///
/// # Errors
/// The tasks cannot be read.
pub(crate) fn count_tasks(session: &CliContext, home: &Home) -> Result<TaskStoreReport, CliError> {
    let queue = open_queue(session, home)?;
    session.block_on(Box::pin(async {
        let counts = queue.counts().await.map_err(to_cli_error)?;
        let mut open = queue.open_questions(MAX_QUESTIONS).await.map_err(to_cli_error)?;
        // Their ledger counts them.
        open.retain(|question| question.kind != QuestionKind::Proposal);
        let tasks = counts.into_iter().map(|(state, count)| (state.as_str(), count)).collect();
        Ok(TaskStoreReport { tasks, questions: open.len() })
    }))?
}

/// Checks the store with the tasks of a home; `None` if it is in order, or is a file that does not
/// exist. A damaged file is not changed.
///
/// # Errors
/// The home is not found, or it is broken.
pub fn find_task_store_problem(session: &CliContext) -> Result<Option<CallError>, CliError> {
    let home = session.home()?;
    // The data of a home that is not trusted is not opened.
    if home.is_untrusted() {
        return Ok(None);
    }
    // Settings that are not valid are a finding of their own.
    let Ok(queue) = open_queue(session, &home) else { return Ok(None) };
    if queue.store().is_shared() {
        let counted = session.block_on(Box::pin(queue.counts()))?;
        return Ok(counted.err().map(CallError::from));
    }
    let queue = SqliteQueue::in_directory(&home.data_dir("kernel"));
    let checked = session.block_on(Box::pin(queue.check_integrity()))?;
    Ok(checked.err().map(CallError::from))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skillhost_events::Clock;
    use skillhost_tasks::{MemoryQueue, NewTask, TaskKind};

    use super::*;

    async fn submit(queue: &TaskQueue, id: &str) {
        let mut task = NewTask::new(TaskKind::Agent, "worker", "do it");
        task.id = TaskId::parse(id).unwrap();
        queue.submit(task).await.unwrap();
    }

    #[tokio::test]
    async fn prefix_names_only_task() {
        let queue = TaskQueue::new(Arc::new(MemoryQueue::new(Clock::new(|| 0))));
        submit(&queue, "01k00000000000000000000001").await;
        submit(&queue, "01k00000000000000000000002").await;
        submit(&queue, "01m00000000000000000000003").await;
        submit(&queue, "7zzzzzzzzzzzzzzzzzzzzzzzzy").await;
        let find = async |given: &str| {
            find_task(&queue, given).await.map(|task| task.id.to_string()).map_err(|error| {
                format!("{} {}: {}", error.code(), error.message(), error.hints().join(" "))
            })
        };
        assert_eq!(find("01M").await, Ok("01m00000000000000000000003".to_owned()));
        assert_eq!(find("7zz").await, Ok("7zzzzzzzzzzzzzzzzzzzzzzzzy".to_owned()));
        let several = "2 `01k` is the beginning of several tasks: give more of: \
                       01k00000000000000000000001, 01k00000000000000000000002";
        assert_eq!(find("01k").await, Err(several.to_owned()));
        for given in
            ["", "01n", "8", "é", "01k00000000000000000000009", "01k000000000000000000000011"]
        {
            let error = find(given).await.unwrap_err();
            assert!(error.starts_with(&format!("3 task `{given}` not found")), "{error}");
        }
    }
}
