//! The changes of a transaction, written with one statement for each table.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::Object;
use futures::future::join_all;
use tokio_postgres::types::ToSql;

use super::failure::StatementFailure;
use super::row_cache::RowCache;
use super::stored_text::{encode_optional, encode_text, to_bigint};
use crate::ids::TaskId;
use crate::question::{Question, QuestionState};
use crate::queue::TaskAttempt;
use crate::store::{EventSubject, OutboxEvent};
use crate::task::Task;

const UPDATE_QUESTIONS: &str = "UPDATE questions q SET doc = v.doc, state = v.state
    FROM unnest($1::text[], $2::text[], $3::text[]) AS v (id, doc, state) WHERE q.id = v.id";
const INSERT_QUESTIONS: &str = "INSERT INTO questions
    (id, doc, state, kind, task, thread, call, opened_ms, home)
    SELECT v.*, $9::text FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
        $6::text[], $7::text[], $8::bigint[]) AS v";
const INSERT_LANES: &str = "INSERT INTO lanes SELECT DISTINCT lane
    FROM unnest($1::text[]) AS v (lane) ORDER BY lane ON CONFLICT DO NOTHING";
const INSERT_TASKS: &str = "INSERT INTO tasks
    (id, doc, input, state, kind, target, priority, due_ms, lane, deadline_ms, is_backoff, parent,
        root, scope, key, retry_of, thread, waits_for, home)
    SELECT id, doc, input, state, kind, target, priority, due_ms, lane, deadline_ms, is_backoff,
        parent, root, scope, key, retry_of, thread, string_to_array(waits_for, ' '),
        $19::text
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[],
        $8::bigint[], $9::text[], $10::bigint[], $11::boolean[], $12::text[], $13::text[],
        $14::text[], $15::text[], $16::text[], $17::text[], $18::text[])
    AS v (id, doc, input, state, kind, target, priority, due_ms, lane, deadline_ms, is_backoff,
        parent, root, scope, key, retry_of, thread, waits_for)";
const UPDATE_TASKS: &str = "UPDATE tasks t SET doc = v.doc, state = v.state, due_ms = v.due_ms,
        lease_ms = v.lease_ms, until_ms = v.until_ms, is_backoff = v.is_backoff,
        waits_for = string_to_array(v.waits_for, ' ')
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
        $7::boolean[], $8::text[])
    AS v (id, doc, state, due_ms, lease_ms, until_ms, is_backoff, waits_for) WHERE t.id = v.id";
const INSERT_LINES: &str = "INSERT INTO lines (task, seq, epoch, line)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[])";
const INSERT_ATTEMPTS: &str = "INSERT INTO attempts
    (task, epoch, worker, began_ms, ended_ms, how, error)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[],
        $6::text[], $7::text[])";
const UPDATE_ATTEMPTS: &str = "UPDATE attempts a
    SET ended_ms = v.ended_ms, how = v.how, error = v.error
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])
    AS v (task, epoch, ended_ms, how, error) WHERE a.task = v.task AND a.epoch = v.epoch";
// The row of the subject is older, or was inserted by a statement before this one.
const INSERT_OUTBOX: &str = "INSERT INTO outbox (topic, key, correlation_id, payload, home)
    SELECT v.topic, v.key, v.correlation_id, v.payload, coalesce(
        (SELECT t.home FROM tasks t WHERE t.id = v.task),
        (SELECT q.home FROM questions q WHERE q.id = v.question), '')
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
    WITH ORDINALITY AS v (topic, key, correlation_id, payload, task, question, n) ORDER BY n";

/// Changes that are not written yet. The changed tasks and questions are in the [`RowCache`].
#[derive(Debug, Default)]
pub(super) struct WriteBuffer {
    inserted: BTreeMap<TaskId, String>,
    updated: BTreeSet<TaskId>,
    inserted_questions: BTreeSet<String>,
    updated_questions: BTreeSet<String>,
    lines: Vec<(TaskId, u64, u64, String)>,
    begun: Vec<(TaskId, TaskAttempt)>,
    ended: Vec<(TaskId, TaskAttempt)>,
    outbox: Vec<OutboxEvent>,
}

impl WriteBuffer {
    /// Notes a new task with its input.
    pub(super) fn insert_task(&mut self, id: &TaskId, input: &str) {
        self.inserted.insert(id.clone(), input.to_owned());
    }

    /// Notes a changed task.
    pub(super) fn update_task(&mut self, id: &TaskId) {
        // A new row is written once, with its last value.
        if !self.inserted.contains_key(id) {
            self.updated.insert(id.clone());
        }
    }

    /// Notes a new question.
    pub(super) fn insert_question(&mut self, id: &str) {
        self.inserted_questions.insert(id.to_owned());
    }

    /// Notes a changed question.
    pub(super) fn update_question(&mut self, id: &str) {
        if !self.inserted_questions.contains(id) {
            self.updated_questions.insert(id.to_owned());
        }
    }

    /// Notes lines.
    pub(super) fn append_lines(&mut self, task: &TaskId, epoch: u64, first: u64, lines: &[String]) {
        let numbered = (first..).zip(lines);
        self.lines.extend(numbered.map(|(seq, line)| (task.clone(), seq, epoch, line.clone())));
    }

    /// Notes the beginning of an attempt.
    pub(super) fn begin_attempt(&mut self, task: &TaskId, attempt: TaskAttempt) {
        self.begun.push((task.clone(), attempt));
    }

    /// Notes the end of an attempt.
    pub(super) fn end_attempt(&mut self, task: &TaskId, end: TaskAttempt) {
        let mut begun = self.begun.iter_mut();
        match begun.find(|(own, attempt)| own == task && attempt.epoch == end.epoch) {
            Some((_, attempt)) => {
                (attempt.ended_ms, attempt.how, attempt.error) = (end.ended_ms, end.how, end.error);
            }
            None => self.ended.push((task.clone(), end)),
        }
    }

    /// Notes an event.
    pub(super) fn append_outbox(&mut self, event: &OutboxEvent) {
        self.outbox.push(event.clone());
    }

    /// Returns whether no change is left to write.
    pub(super) fn is_empty(&self) -> bool {
        self.inserted.is_empty()
            && self.updated.is_empty()
            && self.inserted_questions.is_empty()
            && self.updated_questions.is_empty()
            && self.lines.is_empty()
            && self.begun.is_empty()
            && self.ended.is_empty()
            && self.outbox.is_empty()
    }

    /// Returns whether the changes concern other machines: more than leases and lines.
    pub(super) fn concerns_others(&self) -> bool {
        !(self.inserted.is_empty() && self.outbox.is_empty() && self.ended.is_empty())
    }

    /// Writes the changes of a home and forgets them.
    pub(super) async fn flush(
        &mut self,
        client: &Object,
        rows: &RowCache,
        home: &str,
    ) -> Result<(), StatementFailure> {
        let changes = std::mem::take(self);
        let statements = changes.statements(rows, home)?;
        // Prepared first: a statement that is prepared for the first time waits for the server.
        let mut prepared = Vec::with_capacity(statements.len());
        for (text, columns) in &statements {
            prepared.push((client.prepare_cached(text).await?, columns));
        }
        // Sent without a wait for each other's results.
        let sent = prepared.iter().map(|(statement, columns)| async move {
            let columns: Vec<&(dyn ToSql + Sync)> =
                columns.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect();
            client.execute(statement, &columns).await
        });
        // In their order: the ones after a failed statement fail because of it.
        for outcome in join_all(sent).await {
            outcome?;
        }
        Ok(())
    }

    /// Returns the statements in their order: a question is closed before one of the same call is
    /// opened.
    fn statements(&self, rows: &RowCache, home: &str) -> Result<Vec<Statement>, StatementFailure> {
        let mut statements: Vec<Statement> = Vec::new();
        let question = |id: &String| rows.stored_question(id);
        let updated: Vec<_> = self.updated_questions.iter().filter_map(question).collect();
        if !updated.is_empty() {
            statements.push((
                UPDATE_QUESTIONS,
                vec![
                    column(&updated, |question| encode_text(&question.id).into_owned()),
                    try_column(&updated, to_json)?,
                    column(&updated, |question| state_name(question)),
                ],
            ));
        }
        let inserted: Vec<_> = self.inserted_questions.iter().filter_map(question).collect();
        if !inserted.is_empty() {
            let mut columns = question_columns(&inserted)?;
            columns.push(Box::new(home.to_owned()));
            statements.push((INSERT_QUESTIONS, columns));
        }
        self.task_statements(rows, home, &mut statements)?;
        if !self.lines.is_empty() {
            statements.push((
                INSERT_LINES,
                vec![
                    column(&self.lines, |(task, ..)| task.as_str().to_owned()),
                    column(&self.lines, |(_, seq, ..)| to_bigint(*seq)),
                    column(&self.lines, |(_, _, epoch, _)| to_bigint(*epoch)),
                    column(&self.lines, |(.., line)| encode_text(line).into_owned()),
                ],
            ));
        }
        if !self.begun.is_empty() {
            let mut columns = attempt_ends(&self.begun);
            columns.insert(2, column(&self.begun, |(_, a)| encode_text(&a.worker).into_owned()));
            columns.insert(3, column(&self.begun, |(_, a)| to_bigint(a.began_ms)));
            statements.push((INSERT_ATTEMPTS, columns));
        }
        if !self.ended.is_empty() {
            statements.push((UPDATE_ATTEMPTS, attempt_ends(&self.ended)));
        }
        if !self.outbox.is_empty() {
            statements.push((
                INSERT_OUTBOX,
                vec![
                    column(&self.outbox, |event| event.topic.to_owned()),
                    column(&self.outbox, |event| encode_text(&event.key).into_owned()),
                    column(&self.outbox, |event| owned(event.correlation_id.as_deref())),
                    column(&self.outbox, |event| event.payload.clone()),
                    column(&self.outbox, |event| match &event.subject {
                        EventSubject::Task(id) => Some(id.to_string()),
                        EventSubject::Question(_) => None,
                    }),
                    column(&self.outbox, |event| match &event.subject {
                        EventSubject::Task(_) => None,
                        EventSubject::Question(id) => Some(encode_text(id).into_owned()),
                    }),
                ],
            ));
        }
        Ok(statements)
    }

    fn task_statements(
        &self,
        rows: &RowCache,
        home: &str,
        statements: &mut Vec<Statement>,
    ) -> Result<(), StatementFailure> {
        let new = self.inserted.iter();
        let new: Vec<(&Task, &String)> =
            new.filter_map(|(id, input)| Some((rows.stored_task(id)?, input))).collect();
        if !new.is_empty() {
            // Before the tasks, so that a claim that sees a task finds its lane.
            let lanes: Vec<_> = new.iter().filter_map(|(task, _)| task.lane.as_deref()).collect();
            if !lanes.is_empty() {
                let lanes = column(&lanes, |lane| encode_text(lane).into_owned());
                statements.push((INSERT_LANES, vec![lanes]));
            }
            let mut columns = task_columns(&new)?;
            columns.push(Box::new(home.to_owned()));
            statements.push((INSERT_TASKS, columns));
        }
        let changed = self.updated.iter();
        let changed: Vec<&Task> = changed.filter_map(|id| rows.stored_task(id)).collect();
        if !changed.is_empty() {
            statements.push((
                UPDATE_TASKS,
                vec![
                    column(&changed, |task| task.id.as_str().to_owned()),
                    try_column(&changed, to_json)?,
                    column(&changed, |task| task.state.as_str().to_owned()),
                    column(&changed, |task| to_bigint(task.due_ms)),
                    column(&changed, |task| task.lease_ms.map(to_bigint)),
                    column(&changed, |task| task.waits.until_ms.map(to_bigint)),
                    column(&changed, |task| task.is_backoff),
                    column(&changed, |task| joined_waits(task)),
                ],
            ));
        }
        Ok(())
    }
}

/// A statement with a value for each of its parameters.
type Statement = (&'static str, Vec<Column>);
/// The values of a column.
type Column = Box<dyn ToSql + Sync + Send>;

fn column<R, T: ToSql + Sync + Send + 'static>(rows: &[R], value: impl Fn(&R) -> T) -> Column {
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}

fn try_column<R>(
    rows: &[R],
    value: impl Fn(&R) -> Result<String, StatementFailure>,
) -> Result<Column, StatementFailure> {
    Ok(Box::new(rows.iter().map(value).collect::<Result<Vec<_>, _>>()?))
}

fn to_json(value: &impl serde::Serialize) -> Result<String, StatementFailure> {
    serde_json::to_string(value).map_err(|error| StatementFailure::corrupt(error.to_string()))
}

fn owned(text: Option<&str>) -> Option<String> {
    encode_optional(text).map(std::borrow::Cow::into_owned)
}

/// Returns the ids that a task waits for; ids have no spaces.
fn joined_waits(task: &Task) -> String {
    let ids: Vec<_> = task.waits.all_tasks().map(TaskId::as_str).collect();
    ids.join(" ")
}

/// Returns the name of a state, as stored.
fn state_name(question: &Question) -> String {
    question_state(question.state).to_owned()
}

/// Returns the name of a state, as stored.
pub(super) fn question_state(state: QuestionState) -> &'static str {
    match state {
        QuestionState::Open => "open",
        QuestionState::Decided => "decided",
        QuestionState::Withdrawn => "withdrawn",
        QuestionState::Expired => "expired",
    }
}

fn question_columns(rows: &[&Question]) -> Result<Vec<Column>, StatementFailure> {
    Ok(vec![
        column(rows, |question| encode_text(&question.id).into_owned()),
        try_column(rows, to_json)?,
        column(rows, |question| state_name(question)),
        column(rows, |question| question.kind.as_str().to_owned()),
        column(rows, |question| question.task.as_ref().map(ToString::to_string)),
        column(rows, |question| owned(question.thread.as_deref())),
        column(rows, |question| encode_text(&question.call).into_owned()),
        column(rows, |question| to_bigint(question.opened_ms)),
    ])
}

fn task_columns(rows: &[(&Task, &String)]) -> Result<Vec<Column>, StatementFailure> {
    Ok(vec![
        column(rows, |(task, _)| task.id.as_str().to_owned()),
        try_column(rows, |(task, _)| to_json(task))?,
        column(rows, |(_, input)| encode_text(input).into_owned()),
        column(rows, |(task, _)| task.state.as_str().to_owned()),
        column(rows, |(task, _)| task.kind.as_str().to_owned()),
        column(rows, |(task, _)| encode_text(&task.target).into_owned()),
        column(rows, |(task, _)| task.priority),
        column(rows, |(task, _)| to_bigint(task.due_ms)),
        column(rows, |(task, _)| owned(task.lane.as_deref())),
        column(rows, |(task, _)| task.deadline_ms.map(to_bigint)),
        column(rows, |(task, _)| task.is_backoff),
        column(rows, |(task, _)| task.parent.as_ref().map(ToString::to_string)),
        column(rows, |(task, _)| task.root.to_string()),
        column(rows, |(task, _)| encode_text(&task.scope).into_owned()),
        column(rows, |(task, _)| owned(task.key.as_deref())),
        column(rows, |(task, _)| task.retry_of.as_ref().map(ToString::to_string)),
        column(rows, |(task, _)| owned(task.submitter.thread.as_deref())),
        column(rows, |(task, _)| joined_waits(task)),
    ])
}

/// Returns the columns of the ends of attempts, after the task and the epoch.
fn attempt_ends(rows: &[(TaskId, TaskAttempt)]) -> Vec<Column> {
    vec![
        column(rows, |(task, _)| task.to_string()),
        column(rows, |(_, attempt)| to_bigint(attempt.epoch)),
        column(rows, |(_, attempt)| attempt.ended_ms.map(to_bigint)),
        column(rows, |(_, attempt)| owned(attempt.how.as_deref())),
        column(rows, |(_, attempt)| owned(attempt.error.as_deref())),
    ]
}
