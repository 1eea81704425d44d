//! The conversion of rows.

use rusqlite::Row;
use rusqlite::types::{ToSql, ToSqlOutput, Type};
use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer as _, value::Error as WordError};

use crate::ids::TaskId;
use crate::question::{Question, QuestionKind, QuestionState};
use crate::queue::{OutboxRow, TaskAttempt, TaskLine};
use crate::task::{EndNotice, SubmitterOrigin, Task, TaskKind, TaskState, TaskSubmitter};

/// The columns of [`task_from_row`].
pub(super) const TASK_COLUMNS: &str = "id, kind, target, title, input_sha256, state, lane, \
    priority, due_ms, is_backoff, deadline_ms, attempt, stalled, retries, epoch, worker, lease_ms, \
    budget, spent, reserved, parent, root, depth, waits, scope, key, origin, agent, thread, \
    principal, correlation_id, on_end, progress, cancel, outcome, retry_of, lines, created_ms, \
    started_ms, changed_ms, ended_ms";

/// The columns of [`question_from_row`].
pub(super) const QUESTION_COLUMNS: &str = "id, task, thread, kind, asker, call, title, subject, \
    digest, options, state, choice, reason, decider, opened_ms, closed_ms";

/// Converts the columns of [`TASK_COLUMNS`].
pub(super) fn task_from_row(row: &Row<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        id: id_column(row, 0)?,
        kind: word_column(row, 1)?,
        target: row.get(2)?,
        title: row.get(3)?,
        input_sha256: row.get(4)?,
        state: word_column(row, 5)?,
        lane: row.get(6)?,
        priority: row.get(7)?,
        due_ms: from_sql(row.get(8)?),
        is_backoff: row.get(9)?,
        deadline_ms: row.get::<_, Option<i64>>(10)?.map(from_sql),
        attempt: row.get(11)?,
        stalled: row.get(12)?,
        retries: row.get(13)?,
        epoch: from_sql(row.get(14)?),
        worker: row.get(15)?,
        lease_ms: row.get::<_, Option<i64>>(16)?.map(from_sql),
        budget: json_column(row, 17)?.unwrap_or_default(),
        spent: json_column(row, 18)?.unwrap_or_default(),
        reserved: json_column(row, 19)?.unwrap_or_default(),
        parent: optional_id_column(row, 20)?,
        root: id_column(row, 21)?,
        depth: row.get(22)?,
        waits: json_column(row, 23)?.unwrap_or_default(),
        scope: row.get(24)?,
        key: row.get(25)?,
        submitter: TaskSubmitter {
            origin: word_column::<SubmitterOrigin>(row, 26)?,
            agent: row.get(27)?,
            thread: row.get(28)?,
            principal: row.get(29)?,
            correlation_id: row.get(30)?,
        },
        on_end: word_column::<EndNotice>(row, 31)?,
        progress: json_column(row, 32)?,
        cancel: row.get(33)?,
        outcome: json_column(row, 34)?,
        retry_of: optional_id_column(row, 35)?,
        lines: from_sql(row.get(36)?),
        created_ms: from_sql(row.get(37)?),
        started_ms: row.get::<_, Option<i64>>(38)?.map(from_sql),
        changed_ms: from_sql(row.get(39)?),
        ended_ms: row.get::<_, Option<i64>>(40)?.map(from_sql),
    })
}

/// Converts the columns of [`QUESTION_COLUMNS`].
pub(super) fn question_from_row(row: &Row<'_>) -> rusqlite::Result<Question> {
    Ok(Question {
        id: row.get(0)?,
        task: optional_id_column(row, 1)?,
        thread: row.get(2)?,
        kind: word_column::<QuestionKind>(row, 3)?,
        asker: row.get(4)?,
        call: row.get(5)?,
        title: row.get(6)?,
        subject: row.get(7)?,
        digest: row.get(8)?,
        options: json_column(row, 9)?.unwrap_or_default(),
        state: word_column::<QuestionState>(row, 10)?,
        choice: row.get(11)?,
        reason: row.get(12)?,
        decider: json_column(row, 13)?,
        opened_ms: from_sql(row.get(14)?),
        closed_ms: row.get::<_, Option<i64>>(15)?.map(from_sql),
    })
}

/// Converts the columns seq, epoch, line.
pub(super) fn line_from_row(row: &Row<'_>) -> rusqlite::Result<TaskLine> {
    Ok(TaskLine { seq: from_sql(row.get(0)?), epoch: from_sql(row.get(1)?), line: row.get(2)? })
}

/// Converts the columns epoch, worker, began_ms, ended_ms, how, error.
pub(super) fn attempt_from_row(row: &Row<'_>) -> rusqlite::Result<TaskAttempt> {
    Ok(TaskAttempt {
        epoch: from_sql(row.get(0)?),
        worker: row.get(1)?,
        began_ms: from_sql(row.get(2)?),
        ended_ms: row.get::<_, Option<i64>>(3)?.map(from_sql),
        how: row.get(4)?,
        error: row.get(5)?,
    })
}

/// Converts the columns seq, topic, key, correlation_id, payload.
pub(super) fn outbox_from_row(row: &Row<'_>) -> rusqlite::Result<OutboxRow> {
    Ok(OutboxRow {
        seq: row.get(0)?,
        topic: row.get(1)?,
        key: row.get(2)?,
        correlation_id: row.get(3)?,
        payload: row.get(4)?,
    })
}

/// A value that is stored as JSON, or as NULL if it is the default.
pub(super) struct JsonColumn<'a, T>(pub(super) &'a T);

impl<T: Serialize + Default + PartialEq> ToSql for JsonColumn<'_, T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if *self.0 == T::default() {
            return Ok(ToSqlOutput::from(rusqlite::types::Null));
        }
        let text = serde_json::to_string(self.0)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(ToSqlOutput::from(text))
    }
}

/// An enumeration that is stored by its name.
pub(super) struct WordColumn<T>(pub(super) T);

impl<T: Serialize> ToSql for WordColumn<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_value(&self.0) {
            Ok(serde_json::Value::String(word)) => Ok(ToSqlOutput::from(word)),
            other => {
                let message = format!("not a name: {other:?}");
                Err(rusqlite::Error::ToSqlConversionFailure(message.into()))
            }
        }
    }
}

impl ToSql for TaskId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.as_str().to_sql()
    }
}

impl ToSql for TaskKind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.as_str().to_sql()
    }
}

impl ToSql for TaskState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.as_str().to_sql()
    }
}

/// Converts a number to the form in the file, which has only signed integers.
pub(super) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number from the form in the file.
pub(super) fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Returns the maximum number of rows in the form of a limit in SQL.
pub(super) fn limit_to_sql(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts the name of an enumeration.
pub(super) fn word_column<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    let word = row.get_ref(index)?.as_str()?;
    let parsed: Result<T, WordError> = T::deserialize(word.into_deserializer());
    parsed
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, error.into()))
}

fn json_column<T: DeserializeOwned>(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<T>> {
    let Some(text) = row.get_ref(index)?.as_str_or_null()? else { return Ok(None) };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, error.into()))
}

fn id_column(row: &Row<'_>, index: usize) -> rusqlite::Result<TaskId> {
    to_task_id(row.get_ref(index)?.as_str()?, index)
}

fn optional_id_column(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<TaskId>> {
    row.get_ref(index)?.as_str_or_null()?.map(|text| to_task_id(text, index)).transpose()
}

fn to_task_id(text: &str, index: usize) -> rusqlite::Result<TaskId> {
    TaskId::parse(text).ok_or_else(|| {
        let message = format!("`{}` is not the id of a task", text.escape_debug());
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, message.into())
    })
}
