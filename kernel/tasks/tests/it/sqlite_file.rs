//! The file of the SQLite store.

use std::path::Path;
use std::time::Duration;

use skillhost_events::Clock;
use skillhost_tasks::{
    ClaimFilter, NewTask, Operation, OperationOutcome, Queue, QueueErrorKind, SqliteQueue,
    TaskAmounts, TaskKind, TaskOutcome, TaskQueue, TaskState,
};

fn open(directory: &Path) -> (SqliteQueue, TaskQueue) {
    let store = SqliteQueue::new(directory.join("data/work.db"), Clock::new(|| 1_000));
    (store.clone(), TaskQueue::new(std::sync::Arc::new(store)))
}

fn completed(text: &str) -> TaskOutcome {
    TaskOutcome::Completed { text: text.to_owned(), structured: None, is_error: false }
}

#[tokio::test]
async fn task_survives_closed_file() {
    let home = tempfile::tempdir().unwrap();
    let (store, queue) = open(home.path());
    let task = queue.submit(NewTask::new(TaskKind::Tool, "echo", "{}")).await.unwrap().task;
    let filter = ClaimFilter::default();
    let claimed = queue.claim("w", filter, 9, Duration::from_secs(30)).await.unwrap();
    assert_eq!((claimed.len(), claimed[0].input.as_str()), (1, "{}"));
    let claim = claimed[0].task.current_claim().unwrap();
    queue.finish(claim, completed("done"), TaskAmounts::default()).await.unwrap();
    store.close().await;
    let (_, queue) = open(home.path());
    let stored = queue.find(&task.id).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.outcome), (TaskState::Completed, Some(completed("done"))));
    assert_eq!(queue.counts().await.unwrap(), [(TaskState::Completed, 1)]);
    assert_eq!(queue.outbox(9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn read_creates_no_file() {
    let home = tempfile::tempdir().unwrap();
    let (_, queue) = open(home.path());
    assert_eq!(queue.counts().await.unwrap(), []);
    assert_eq!(queue.next_due().await.unwrap(), None);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn refused_operation_leaves_group_intact() {
    let home = tempfile::tempdir().unwrap();
    let (store, queue) = open(home.path());
    let submit = |target: &str| {
        store.execute(Operation::Submit(Box::new(NewTask::new(TaskKind::Tool, target, "{}"))))
    };
    let (first, refused, last) = tokio::join!(submit("a"), submit(""), submit("b"));
    assert!(matches!(first, Ok(OperationOutcome::Submitted(_))));
    assert_eq!(refused.unwrap_err().kind(), QueueErrorKind::Invalid);
    assert!(matches!(last, Ok(OperationOutcome::Submitted(_))));
    assert_eq!(queue.counts().await.unwrap(), [(TaskState::Ready, 2)]);
}
