//! The statements of the transitions.
//!
//! Those that a full file could make slow name their index: the query fails if a change of the
//! schema makes it unusable, instead of reading every row.

use std::sync::LazyLock;

use super::rows::{QUESTION_COLUMNS, TASK_COLUMNS};

/// A statement that contains a list of columns.
pub(super) type BuiltStatement = LazyLock<String>;

pub(super) static TASK: BuiltStatement =
    LazyLock::new(|| format!("SELECT {TASK_COLUMNS} FROM tasks WHERE id = ?1"));

pub(super) static TASK_BY_KEY: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {TASK_COLUMNS} FROM tasks INDEXED BY tasks_by_key
         WHERE scope = ?1 AND key = ?2"
    )
});

pub(super) static TASK_BY_RETRY: BuiltStatement = LazyLock::new(|| {
    format!("SELECT {TASK_COLUMNS} FROM tasks INDEXED BY tasks_by_retry WHERE retry_of = ?1")
});

pub(super) const INPUT: &str =
    "SELECT input FROM inputs WHERE number = (SELECT number FROM tasks WHERE id = ?1)";

pub(super) static OPEN_CHILDREN: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {TASK_COLUMNS} FROM tasks INDEXED BY open_tasks_by_parent
         WHERE parent = ?1 AND ended_ms IS NULL ORDER BY id"
    )
});

pub(super) const COUNT_OPEN: &str = "SELECT count(*) FROM tasks INDEXED BY open_tasks_by_root
    WHERE root = ?1 AND parent IS NOT NULL AND ended_ms IS NULL";

pub(super) static WAITING_FOR: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {TASK_COLUMNS} FROM tasks
         WHERE id IN (SELECT task FROM waits WHERE awaited = ?1) AND state = 'waiting'
         ORDER BY id"
    )
});

/// The next lower priority of a ready task.
pub(super) const NEXT_PRIORITY: &str = "SELECT priority FROM tasks INDEXED BY ready_tasks
    WHERE state = 'ready' AND priority < ?1 ORDER BY priority DESC LIMIT 1";

/// The due tasks of a priority that no earlier task of their lane blocks, and no running one.
pub(super) static CLAIMABLE_TASKS: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {TASK_COLUMNS} FROM tasks AS task INDEXED BY ready_tasks
         WHERE state = 'ready' AND priority = ?1 AND due_ms <= ?2
             AND (task.lane IS NULL OR NOT EXISTS (
                 SELECT 1 FROM tasks AS earlier INDEXED BY open_tasks_by_lane
                 WHERE earlier.lane = task.lane AND earlier.ended_ms IS NULL
                     AND (earlier.id < task.id
                         OR (earlier.state = 'running' AND earlier.id <> task.id))
             ))
         ORDER BY due_ms, id"
    )
});

/// The tasks whose time is over: the present, the latest lease, the latest pause, whether every
/// running task counts, the limit.
pub(super) static OVERDUE_TASKS: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {TASK_COLUMNS} FROM tasks WHERE number IN (
             SELECT number FROM tasks INDEXED BY leased_tasks
                 WHERE state = 'running' AND lease_ms <= ?1
             UNION ALL SELECT number FROM tasks INDEXED BY leased_tasks
                 WHERE state = 'running' AND lease_ms > ?2
             UNION ALL SELECT number FROM tasks INDEXED BY leased_tasks
                 WHERE state = 'running' AND ?4
             UNION ALL SELECT number FROM tasks INDEXED BY limited_tasks
                 WHERE deadline_ms <= ?1 AND ended_ms IS NULL
             UNION ALL SELECT number FROM tasks INDEXED BY timed_tasks
                 WHERE state = 'waiting' AND until_ms <= ?1
             UNION ALL SELECT number FROM tasks INDEXED BY paused_tasks
                 WHERE state = 'ready' AND is_backoff = 1 AND due_ms > ?3
         ) ORDER BY id LIMIT ?5"
    )
});

pub(super) static QUESTION: BuiltStatement =
    LazyLock::new(|| format!("SELECT {QUESTION_COLUMNS} FROM questions WHERE id = ?1"));

pub(super) static QUESTION_OF_TASK: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {QUESTION_COLUMNS} FROM questions INDEXED BY questions_by_task
         WHERE task = ?1 AND call = ?2
         ORDER BY state = 'open' DESC, id DESC LIMIT 1"
    )
});

pub(super) static QUESTION_OF_THREAD: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {QUESTION_COLUMNS} FROM questions INDEXED BY questions_by_thread
         WHERE task IS NULL AND thread IS ?1 AND call = ?2
         ORDER BY state = 'open' DESC, id DESC LIMIT 1"
    )
});

pub(super) static OPEN_QUESTIONS_OF_TASK: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {QUESTION_COLUMNS} FROM questions INDEXED BY open_questions_by_task
         WHERE task = ?1 AND state = 'open' ORDER BY id"
    )
});

pub(super) static OPEN_QUESTIONS_OF_THREAD: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {QUESTION_COLUMNS} FROM questions INDEXED BY open_questions_by_thread
         WHERE task IS NULL AND thread = ?1 AND state = 'open' ORDER BY id"
    )
});

pub(super) static OPEN_QUESTIONS_UNTIL: BuiltStatement = LazyLock::new(|| {
    format!(
        "SELECT {QUESTION_COLUMNS} FROM questions INDEXED BY open_questions
         WHERE opened_ms <= ?1 AND state = 'open' ORDER BY id LIMIT ?2"
    )
});

pub(super) static INSERT_TASK: BuiltStatement =
    LazyLock::new(|| insert_into("tasks", TASK_COLUMNS));

pub(super) const INSERT_INPUT: &str = "INSERT INTO inputs (number, input) VALUES (?1, ?2)";

/// Writes the columns that transitions change.
pub(super) const UPDATE_TASK: &str = "UPDATE tasks SET state = ?2, due_ms = ?3, is_backoff = ?4,
    attempt = ?5, stalled = ?6, retries = ?7, epoch = ?8, worker = ?9, lease_ms = ?10, spent = ?11,
    reserved = ?12, waits = ?13, progress = ?14, cancel = ?15, outcome = ?16, lines = ?17,
    started_ms = ?18, changed_ms = ?19, ended_ms = ?20 WHERE id = ?1";

pub(super) const INSERT_LINE: &str =
    "INSERT INTO lines (task, seq, epoch, line) VALUES (?1, ?2, ?3, ?4)";

pub(super) const COPY_LINES: &str = "INSERT INTO lines (task, seq, epoch, line)
    SELECT ?2, seq, 0, line FROM lines WHERE task = ?1";

pub(super) const INSERT_ATTEMPT: &str =
    "INSERT INTO attempts (task, epoch, worker, began_ms) VALUES (?1, ?2, ?3, ?4)";

pub(super) const UPDATE_ATTEMPT: &str =
    "UPDATE attempts SET ended_ms = ?3, how = ?4, error = ?5 WHERE task = ?1 AND epoch = ?2";

pub(super) static INSERT_QUESTION: BuiltStatement =
    LazyLock::new(|| insert_into("questions", QUESTION_COLUMNS));

pub(super) const UPDATE_QUESTION: &str = "UPDATE questions
    SET state = ?2, choice = ?3, reason = ?4, decider = ?5, closed_ms = ?6 WHERE id = ?1";

pub(super) const INSERT_OUTBOX: &str =
    "INSERT INTO outbox (topic, key, correlation_id, payload) VALUES (?1, ?2, ?3, ?4)";

pub(super) const DELETE_OUTBOX: &str = "DELETE FROM outbox WHERE seq = ?1";

pub(super) const INSERT_HANDLE: &str = "INSERT INTO handles (sha256, task, principal)
    VALUES (?1, ?2, ?3)
    ON CONFLICT (sha256) DO UPDATE SET task = excluded.task, principal = excluded.principal";

fn insert_into(table: &str, columns: &str) -> String {
    let count = columns.split(',').count();
    let values: Vec<_> = (1..=count).map(|number| format!("?{number}")).collect();
    format!("INSERT INTO {table} ({columns}) VALUES ({})", values.join(", "))
}

#[cfg(test)]
#[path = "statements/tests.rs"]
mod tests;
