//! The plans of the statements: none reads rows that it does not return.

use rusqlite::Connection;

use super::*;
use crate::sqlite::{queries, schema};

fn open_memory() -> Connection {
    let mut conn = Connection::open_in_memory().unwrap();
    schema::MIGRATIONS.to_latest(&mut conn).unwrap();
    conn
}

/// Returns the steps of the plan of a statement.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    for number in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(number, rusqlite::types::Null).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get::<_, String>(3).unwrap());
    }
    steps
}

#[test]
fn every_statement_is_index_lookup() {
    let conn = open_memory();
    let built = [
        &TASK,
        &TASK_BY_KEY,
        &TASK_BY_RETRY,
        &OPEN_CHILDREN,
        &WAITING_FOR,
        &CLAIMABLE_TASKS,
        &OVERDUE_TASKS,
        &QUESTION,
        &QUESTION_OF_TASK,
        &QUESTION_OF_THREAD,
        &OPEN_QUESTIONS_OF_TASK,
        &OPEN_QUESTIONS_OF_THREAD,
        &OPEN_QUESTIONS_UNTIL,
    ];
    let constant = [
        INPUT,
        COUNT_OPEN,
        NEXT_PRIORITY,
        UPDATE_TASK,
        COPY_LINES,
        UPDATE_ATTEMPT,
        UPDATE_QUESTION,
        DELETE_OUTBOX,
        queries::NEXT_DUE,
    ];
    for sql in built.iter().map(|sql| sql.as_str()).chain(constant) {
        let steps = plan(&conn, sql);
        assert!(steps.iter().any(|step| step.starts_with("SEARCH")), "{sql}: {steps:?}");
        let scans: Vec<_> = steps.iter().filter(|step| step.starts_with("SCAN")).collect();
        // The condition `?4` for all running tasks reads the index of running ones.
        let permitted = |step: &&&String| !step.ends_with("USING COVERING INDEX leased_tasks");
        assert_eq!(scans.iter().filter(permitted).count(), 0, "{sql}: {steps:?}");
    }
}

#[test]
fn claim_needs_no_sorting() {
    let conn = open_memory();
    for sql in [CLAIMABLE_TASKS.as_str(), OPEN_CHILDREN.as_str(), NEXT_PRIORITY, queries::NEXT_DUE]
    {
        let steps = plan(&conn, sql);
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{sql}: {steps:?}");
    }
}

#[test]
fn full_index_is_required() {
    let conn = open_memory();
    conn.execute_batch("DROP INDEX ready_tasks").unwrap();
    let error = conn.prepare(CLAIMABLE_TASKS.as_str()).unwrap_err().to_string();
    assert!(error.contains("no such index"), "{error}");
}
