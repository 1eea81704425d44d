//! The file of the SQLite store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use skillhost_events::Clock;
use skillhost_tasks::{
    NewTask, Operation, OperationOutcome, Queue, QueueErrorKind, SqliteQueue, TaskKind, TaskQueue,
    TaskState,
};

use crate::fixture::{START_MS, new_task, refusal};
use crate::scenario;

fn open(directory: &Path) -> (SqliteQueue, TaskQueue) {
    let store = SqliteQueue::new(directory.join("data/work.db"), Clock::new(|| START_MS));
    (store.clone(), TaskQueue::new(Arc::new(store)))
}

/// Creates a file with rows in every state; no process has it open.
async fn closed_file(directory: &Path) {
    let data = directory.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let store = scenario::create_rows(&data).await;
    store.execute(scenario::operation(7)).await.unwrap();
    store.close().await;
}

/// Opens the file as another program does.
fn open_sql(directory: &Path) -> Connection {
    Connection::open(directory.join("data/work.db")).unwrap()
}

#[tokio::test]
async fn task_survives_closed_file() {
    let home = tempfile::tempdir().unwrap();
    let (store, queue) = open(home.path());
    let task = queue.submit(new_task()).await.unwrap().task;
    store.close().await;
    assert!(!home.path().join("data/work.db-wal").exists());
    let (_, queue) = open(home.path());
    assert_eq!(queue.find(&task.id).await.unwrap(), Some(task));
}

#[tokio::test]
async fn read_creates_no_file() {
    let home = tempfile::tempdir().unwrap();
    let (store, queue) = open(home.path());
    assert_eq!(queue.counts().await.unwrap(), []);
    assert_eq!(queue.next_due().await.unwrap(), None);
    store.check_integrity().await.unwrap();
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn empty_file_is_empty_queue() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("data")).unwrap();
    // As a process leaves it that is killed right after the creation.
    std::fs::write(home.path().join("data/work.db"), "").unwrap();
    let (_, queue) = open(home.path());
    assert_eq!(queue.counts().await.unwrap(), []);
    queue.submit(new_task()).await.unwrap();
    assert_eq!(queue.counts().await.unwrap(), [(TaskState::Ready, 1)]);
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let (_, queue) = open(home.path());
    queue.submit(new_task()).await.unwrap();
    let mode = |path: &str| std::fs::metadata(home.path().join(path)).unwrap().permissions().mode();
    assert_eq!(mode("data") & 0o777, 0o700);
    for name in ["data/work.db", "data/work.db-wal", "data/work.db-shm"] {
        assert_eq!(mode(name) & 0o777, 0o600, "{name}");
    }
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
    assert_eq!(refusal(refused), QueueErrorKind::Invalid);
    assert!(matches!(last, Ok(OperationOutcome::Submitted(_))));
    assert_eq!(queue.counts().await.unwrap(), [(TaskState::Ready, 2)]);
}

#[tokio::test]
async fn failing_operation_leaves_group_intact() {
    let home = tempfile::tempdir().unwrap();
    closed_file(home.path()).await;
    // A statement of one operation fails.
    let trigger = "CREATE TRIGGER test BEFORE INSERT ON handles
        BEGIN SELECT RAISE(ABORT, 'injected'); END";
    open_sql(home.path()).execute_batch(trigger).unwrap();
    let (store, queue) = open(home.path());
    let before = queue.list(Default::default()).await.unwrap().len();
    let submit = || queue.submit(new_task());
    let failing = store.execute(scenario::operation(14));
    let (first, failed, last) = tokio::join!(submit(), failing, submit());
    assert_eq!(refusal(failed), QueueErrorKind::Database);
    assert!(first.unwrap().created && last.unwrap().created);
    assert_eq!(queue.list(Default::default()).await.unwrap().len(), before + 2);
}

#[tokio::test]
async fn damaged_file_is_never_replaced() {
    let home = tempfile::tempdir().unwrap();
    closed_file(home.path()).await;
    let path = home.path().join("data/work.db");
    let good = std::fs::read(&path).unwrap();
    // Not a database; one page overwritten; the second half missing.
    let mut overwritten = good.clone();
    overwritten[4096..].fill(0x5a);
    for damaged in [b"no database at all".repeat(500), overwritten, good[..good.len() / 2].to_vec()]
    {
        std::fs::write(&path, &damaged).unwrap();
        let (store, queue) = open(home.path());
        let mut kinds = vec![refusal(store.check_integrity().await)];
        kinds.push(refusal(queue.submit(new_task()).await));
        assert_eq!(kinds, [QueueErrorKind::Corrupt; 2]);
        let error = store.execute(scenario::operation(1)).await.unwrap_err();
        assert!(error.hint().contains("restore `work.db` from a backup"), "{}", error.hint());
        store.close().await;
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "the file was changed");
        let names: Vec<_> = std::fs::read_dir(home.path().join("data")).unwrap().collect();
        assert!(names.len() <= 4, "{names:?}");
        // A restored file is used by the same process.
        std::fs::write(&path, &good).unwrap();
        queue.submit(new_task()).await.unwrap();
        store.check_integrity().await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn damage_is_remembered_until_repair() {
    let home = tempfile::tempdir().unwrap();
    closed_file(home.path()).await;
    let path = home.path().join("data/work.db");
    let damaged = b"no database at all".repeat(500);
    std::fs::write(&path, damaged).unwrap();
    let (_, queue) = open(home.path());
    assert_eq!(refusal(queue.counts().await), QueueErrorKind::Corrupt);
    assert_eq!(refusal(queue.submit(new_task()).await), QueueErrorKind::Corrupt);
    // Moved away, as the hint says: the next operation creates a new file.
    std::fs::rename(&path, home.path().join("old.db")).unwrap();
    assert_eq!(queue.counts().await.unwrap(), []);
    queue.submit(new_task()).await.unwrap();
    assert_eq!(queue.counts().await.unwrap(), [(TaskState::Ready, 1)]);
}

#[tokio::test]
async fn foreign_database_is_refused() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("data")).unwrap();
    open_sql(home.path()).execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    let (_, queue) = open(home.path());
    assert_eq!(refusal(queue.counts().await), QueueErrorKind::Corrupt);
    assert_eq!(refusal(queue.submit(new_task()).await), QueueErrorKind::Corrupt);
    let tables: i64 = open_sql(home.path())
        .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn newer_file_is_refused() {
    let home = tempfile::tempdir().unwrap();
    closed_file(home.path()).await;
    open_sql(home.path()).pragma_update(None, "user_version", 99).unwrap();
    let (_, queue) = open(home.path());
    assert_eq!(refusal(queue.counts().await), QueueErrorKind::Newer);
    let error = queue.submit(new_task()).await.unwrap_err();
    assert_eq!(error.kind(), QueueErrorKind::Newer);
    assert!(error.hint().contains("newer program"), "{}", error.hint());
}

#[tokio::test]
async fn locked_file_is_reported_and_readable() {
    let home = tempfile::tempdir().unwrap();
    closed_file(home.path()).await;
    let other = open_sql(home.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (_, queue) = open(home.path());
    let submit = queue.submit(new_task());
    let read = async {
        // A read does not wait for the writer that waits for the lock.
        let began = std::time::Instant::now();
        queue.counts().await.unwrap();
        began.elapsed()
    };
    let (submitted, read_time) = tokio::join!(submit, read);
    assert_eq!(refusal(submitted), QueueErrorKind::Locked);
    assert!(read_time < Duration::from_secs(4), "{read_time:?}");
    other.execute_batch("ROLLBACK").unwrap();
    queue.submit(new_task()).await.unwrap();
}

#[tokio::test]
async fn schema_protects_ended_rows() {
    let home = tempfile::tempdir().unwrap();
    closed_file(home.path()).await;
    let sql = open_sql(home.path());
    for (statement, message) in [
        ("UPDATE tasks SET title = 'x' WHERE state = 'completed'", "terminal task never"),
        ("UPDATE tasks SET state = 'ready', ended_ms = NULL WHERE state = 'completed'", "terminal"),
        ("DELETE FROM tasks WHERE state = 'completed'", "never deleted"),
        ("UPDATE questions SET choice = 'x' WHERE state = 'decided'", "closed question never"),
        ("DELETE FROM questions WHERE state = 'decided'", "never deleted"),
        ("UPDATE tasks SET epoch = epoch - 1 WHERE state = 'running'", "never decreases"),
        ("UPDATE inputs SET input = 'x'", "input never changes"),
        ("DELETE FROM inputs", "never deleted"),
        ("UPDATE tasks SET state = 'completed' WHERE state = 'running'", "CHECK"),
        ("UPDATE tasks SET state = 'other' WHERE state = 'running'", "CHECK"),
        ("UPDATE tasks SET due_ms = 'soon' WHERE state = 'ready'", "cannot store TEXT"),
        (
            "INSERT INTO outbox (topic, key, payload) SELECT topic, key, payload FROM outbox",
            "UNIQUE",
        ),
        ("UPDATE tasks SET scope = '', key = 'k' WHERE ended_ms IS NULL", "UNIQUE"),
        ("UPDATE tasks SET retry_of = 'x' WHERE ended_ms IS NULL", "UNIQUE"),
    ] {
        let error = sql.execute_batch(statement).unwrap_err().to_string();
        assert!(error.contains(message), "{statement}: {error}");
    }
}

#[tokio::test]
async fn change_of_other_process_ends_wait() {
    let home = tempfile::tempdir().unwrap();
    let (store, queue) = open(home.path());
    let (_, other) = open(home.path());
    queue.submit(new_task()).await.unwrap();
    // The first waits see what has happened so far.
    store.wait_for_change(Duration::from_secs(60)).await;
    store.wait_for_change(Duration::from_secs(60)).await;
    let long = Duration::from_secs(600);
    let wait = tokio::time::timeout(long, store.wait_for_change(long));
    let (waited, _) = tokio::join!(wait, other.submit(new_task()));
    assert!(waited.is_ok());
    assert_eq!(queue.claim("w", Default::default(), 9, long).await.unwrap().len(), 2);
}

#[tokio::test]
async fn commit_before_wait_ends_it() {
    let home = tempfile::tempdir().unwrap();
    let (store, queue) = open(home.path());
    queue.submit(new_task()).await.unwrap();
    let began = std::time::Instant::now();
    store.wait_for_change(Duration::from_secs(600)).await;
    assert!(began.elapsed() < Duration::from_secs(300));
}

#[tokio::test]
async fn idle_store_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    closed_file(home.path()).await;
    let (store, queue) = open(home.path());
    // What a worker does while no task is due.
    let idle = async || {
        let due = queue.claim("w", Default::default(), 9, Duration::from_secs(1)).await.unwrap();
        queue.sweep(skillhost_tasks::LostWorkers::Expired).await.unwrap();
        queue.outbox(9).await.unwrap();
        queue.next_due().await.unwrap();
        due.len()
    };
    idle().await;
    let stamp = || {
        let stat = |name: &str| {
            let found = std::fs::metadata(home.path().join("data").join(name)).unwrap();
            (found.len(), found.modified().unwrap())
        };
        (stat("work.db"), stat("work.db-wal"))
    };
    let version = open_sql(home.path());
    let data_version =
        || version.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).unwrap();
    let before = (stamp(), data_version());
    for _ in 0..20 {
        assert_eq!(idle().await, 0);
        store.wait_for_change(Duration::from_millis(1)).await;
    }
    assert_eq!((stamp(), data_version()), before);
}
