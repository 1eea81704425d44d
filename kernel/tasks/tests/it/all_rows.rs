//! Every row of a store, read through its interface.

use skillhost_tasks::{
    OutboxRow, QueryResult, Question, Queue, Task, TaskFilter, TaskId, TaskQuery,
};

/// The limit of lists: every row.
const ALL: usize = 1_000_000;

pub(crate) async fn list_tasks(queue: &dyn Queue, limit: usize) -> Vec<Task> {
    let filter = TaskFilter { limit, ..TaskFilter::default() };
    match queue.read(TaskQuery::Tasks(filter)).await.unwrap() {
        QueryResult::Tasks(tasks) => tasks,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn all_tasks(queue: &dyn Queue) -> Vec<Task> {
    list_tasks(queue, ALL).await
}

pub(crate) async fn all_questions(queue: &dyn Queue) -> Vec<Question> {
    let (state, kind, task, thread) = (None, None, None, None);
    let query = TaskQuery::Questions { state, kind, task, thread, limit: ALL };
    match queue.read(query).await.unwrap() {
        QueryResult::Questions(questions) => questions,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn all_outbox(queue: &dyn Queue) -> Vec<OutboxRow> {
    match queue.read(TaskQuery::Outbox { limit: ALL }).await.unwrap() {
        QueryResult::Outbox(rows) => rows,
        other => panic!("{other:?}"),
    }
}

/// Returns the answers about the parts of tasks, and to the queries that filter.
pub(crate) async fn read_details(queue: &dyn Queue, tasks: &[TaskId]) -> Vec<QueryResult> {
    let all = TaskFilter { limit: ALL, ..TaskFilter::default() };
    let thread = TaskFilter { thread: Some("a".to_owned()), ..all.clone() };
    let handle = TaskQuery::Handle { sha256: "a".to_owned(), principal: "b".to_owned() };
    let mut queries = vec![TaskQuery::Counts, TaskQuery::NextDue, TaskQuery::Tasks(thread), handle];
    for task in tasks {
        queries.push(TaskQuery::Input(task.clone()));
        queries.push(TaskQuery::Attempts(task.clone()));
        queries.push(TaskQuery::Lines { task: task.clone(), after: 0, limit: ALL });
        let (root, parent) = (Some(task.clone()), Some(task.clone()));
        queries.push(TaskQuery::Tasks(TaskFilter { root, ..all.clone() }));
        queries.push(TaskQuery::Tasks(TaskFilter { parent, ..all.clone() }));
    }
    let mut found = Vec::new();
    for query in queries {
        found.push(queue.read(query).await.unwrap());
    }
    found
}

/// Returns all rows.
pub(crate) async fn read_all_rows(queue: &dyn Queue) -> Vec<QueryResult> {
    let tasks = all_tasks(queue).await;
    let ids: Vec<_> = tasks.iter().map(|task| task.id.clone()).collect();
    let mut rows = read_details(queue, &ids).await;
    rows.push(QueryResult::Tasks(tasks));
    rows.push(QueryResult::Questions(all_questions(queue).await));
    rows.push(QueryResult::Outbox(all_outbox(queue).await));
    rows
}
