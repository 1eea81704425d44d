//! The beginning of a transaction: one statement for each kind of row that its operations read.
//!
//! Rows are locked in the order of tasks and questions, each by id, so that transactions of several
//! machines rarely wait for each other in a circle.

use std::collections::BTreeSet;

use deadpool_postgres::Object;
use futures::future::join3;
use tokio_postgres::Row;

use super::failure::StatementFailure;
use super::row_cache::{LoadedSet, RowCache};
use super::statement::{CHILDREN, OPEN_QUESTIONS, WAITING, decode_doc, decode_time, query_rows};
use super::stored_text::encode_text;
use crate::ids::TaskId;
use crate::operation::Operation;

const LOCK_TASKS: &str = "SELECT doc FROM tasks WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE";
const LOCK_KEYED: &str = "SELECT doc FROM tasks WHERE key IS NOT NULL
    AND (scope, key) IN (SELECT * FROM unnest($1::text[], $2::text[])) ORDER BY id FOR UPDATE";
const LOCK_QUESTIONS: &str =
    "SELECT doc FROM questions WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE";
const TASKS_OF_QUESTIONS: &str =
    "SELECT task FROM questions WHERE id = ANY ($1::text[]) AND task IS NOT NULL";
const TIME: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The rows that operations name.
#[derive(Debug, Default)]
struct NamedRows {
    tasks: BTreeSet<TaskId>,
    /// Those that the operations may end.
    ending: BTreeSet<TaskId>,
    keys: BTreeSet<(String, String)>,
    questions: BTreeSet<String>,
}

impl NamedRows {
    fn of_operations(operations: &[Operation]) -> Self {
        let mut named = Self::default();
        for operation in operations {
            named.add(operation);
        }
        named
    }

    fn add(&mut self, operation: &Operation) {
        match operation {
            Operation::Submit(new) => {
                self.tasks.insert(new.id.clone());
                self.tasks.extend(new.parent.iter().chain(&new.after).cloned());
                self.keys.extend(new.key.clone().map(|key| (new.scope.clone(), key)));
            }
            Operation::Heartbeat { claims, .. } => {
                self.tasks.extend(claims.iter().map(|claim| claim.task.clone()));
            }
            Operation::Record { claim, .. } | Operation::Release { claim, .. } => {
                self.tasks.insert(claim.task.clone());
            }
            Operation::Wait { claim, wait } => {
                self.tasks.insert(claim.task.clone());
                self.tasks.extend(wait.tasks.iter().cloned());
            }
            Operation::Finish { claim, .. } => {
                self.tasks.insert(claim.task.clone());
                self.ending.insert(claim.task.clone());
            }
            Operation::Cancel { task, .. } => {
                self.tasks.insert(task.clone());
                self.ending.insert(task.clone());
            }
            Operation::Retry { task, .. } | Operation::BindHandle { task, .. } => {
                self.tasks.insert(task.clone());
            }
            Operation::Decide(decision) => {
                self.questions.insert(decision.question.clone());
            }
            Operation::Withdraw { question, .. } => self.questions.extend(question.clone()),
            Operation::Ask(_)
            | Operation::Claim { .. }
            | Operation::Sweep { .. }
            | Operation::AcknowledgeOutbox { .. } => {}
        }
    }
}

/// Begins a transaction, locks the rows that its operations name, and returns the server's time.
pub(super) async fn begin_transaction(
    client: &Object,
    operations: &[Operation],
    rows: &mut RowCache,
) -> Result<u64, StatementFailure> {
    let mut named = NamedRows::of_operations(operations);
    // Before the transaction and without locks: a question stays with its task, and the locks of
    // tasks come first.
    let questions: Vec<_> = named.questions.iter().map(|id| encode_text(id)).collect();
    if !questions.is_empty() {
        for row in query_rows(client, TASKS_OF_QUESTIONS, &[&questions]).await? {
            named.tasks.extend(TaskId::parse(row.get(0)));
        }
    }
    let ids: Vec<&str> = named.tasks.iter().map(TaskId::as_str).collect();
    let (lock, time) =
        (client.prepare_cached(LOCK_TASKS).await?, client.prepare_cached(TIME).await?);
    // One round trip for all three. The time is read with the locks, as the wait for them may last.
    let (begun, locked, time) = join3(
        client.batch_execute("BEGIN"),
        client.query(&lock, &[&ids]),
        client.query_one(&time, &[]),
    )
    .await;
    begun?;
    add_tasks(rows, &locked?)?;
    named.tasks.iter().for_each(|id| rows.mark_task(id));
    // Locked as well, as another operation of the batch may change them.
    if !named.keys.is_empty() {
        let (scopes, keys): (Vec<_>, Vec<_>) =
            named.keys.iter().map(|(scope, key)| (encode_text(scope), encode_text(key))).unzip();
        add_tasks(rows, &query_rows(client, LOCK_KEYED, &[&scopes, &keys]).await?)?;
        for (scope, key) in named.keys {
            rows.mark_set(LoadedSet::Key(scope, key));
        }
    }
    lock_relatives(client, &named.ending, rows).await?;
    if !questions.is_empty() {
        add_questions(rows, &query_rows(client, LOCK_QUESTIONS, &[&questions]).await?)?;
        named.questions.iter().for_each(|id| rows.mark_question(id));
    }
    decode_time(&time?)
}

/// Locks what the ends of tasks concern: parents, subtasks, waiting tasks, questions.
async fn lock_relatives(
    client: &Object,
    ending: &BTreeSet<TaskId>,
    rows: &mut RowCache,
) -> Result<(), StatementFailure> {
    let open = |id: &&TaskId| rows.stored_task(id).is_some_and(|task| !task.state.is_terminal());
    let ending: Vec<TaskId> = ending.iter().filter(open).cloned().collect();
    if ending.is_empty() {
        return Ok(());
    }
    // An end changes the reservation of the parent. Reading them now instead of one by one saves
    // a round trip for each.
    let parents = ending.iter().filter_map(|id| rows.stored_task(id)?.parent.clone());
    let parents: BTreeSet<TaskId> = parents.filter(|id| rows.task(id).is_none()).collect();
    if !parents.is_empty() {
        let ids: Vec<&str> = parents.iter().map(TaskId::as_str).collect();
        add_tasks(rows, &query_rows(client, LOCK_TASKS, &[&ids]).await?)?;
        parents.iter().for_each(|id| rows.mark_task(id));
    }
    let ids: Vec<&str> = ending.iter().map(TaskId::as_str).collect();
    // The tasks are locked by now, so no row can join these sets.
    let children = client.prepare_cached(CHILDREN).await?;
    let waiting = client.prepare_cached(WAITING).await?;
    let questions = client.prepare_cached(OPEN_QUESTIONS).await?;
    let (children, waiting, questions) = join3(
        client.query(&children, &[&ids]),
        client.query(&waiting, &[&ids]),
        client.query(&questions, &[&ids]),
    )
    .await;
    add_tasks(rows, &children?)?;
    add_tasks(rows, &waiting?)?;
    add_questions(rows, &questions?)?;
    for id in ending {
        rows.mark_set(LoadedSet::Children(id.clone()));
        rows.mark_set(LoadedSet::Waiting(id.clone()));
        rows.mark_set(LoadedSet::Questions(id));
    }
    Ok(())
}

fn add_tasks(rows: &mut RowCache, found: &[Row]) -> Result<(), StatementFailure> {
    found.iter().try_for_each(|row| decode_doc(row).map(|task| rows.add_task(task)))
}

fn add_questions(rows: &mut RowCache, found: &[Row]) -> Result<(), StatementFailure> {
    found.iter().try_for_each(|row| decode_doc(row).map(|question| rows.add_question(question)))
}
