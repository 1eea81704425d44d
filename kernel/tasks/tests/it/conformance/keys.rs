//! Submissions, their keys, and reads.

use skillhost_tasks::{
    HandleBinding, NewTask, QueueErrorKind, TaskAmounts, TaskFilter, TaskId, TaskState,
    TaskSubmitter,
};

use crate::fixture::{StoreFixture, child_of, new_task, refusal};

const MAX_INPUT_BYTES: usize = 256 * 1024;

fn keyed(key: &str, input: &str) -> NewTask {
    NewTask { key: Some(key.to_owned()), input: input.to_owned(), ..new_task() }
}

pub(crate) async fn same_key_returns_same_task(store: &StoreFixture) {
    let first = store.queue.submit(keyed("k", "{}")).await.unwrap();
    let second = store.queue.submit(keyed("k", "{}")).await.unwrap();
    assert_eq!((first.created, second.created), (true, false));
    assert_eq!(first.task, second.task);
    assert_eq!(store.outbox_keys("task.submitted").await, [first.task.id.to_string()]);
}

pub(crate) async fn other_input_conflicts(store: &StoreFixture) {
    store.submit(keyed("k", "{}")).await;
    assert_eq!(refusal(store.queue.submit(keyed("k", "[]")).await), QueueErrorKind::Conflict);
    let other_target = NewTask { target: "other".to_owned(), ..keyed("k", "{}") };
    assert_eq!(refusal(store.queue.submit(other_target).await), QueueErrorKind::Conflict);
}

pub(crate) async fn key_returns_newest_retry(store: &StoreFixture) {
    let mut newest = store.submit(keyed("k", "{}")).await.id;
    for _ in 0..3 {
        store.queue.cancel(newest.clone(), "operator").await.unwrap();
        let submitter = TaskSubmitter::default();
        let retried = store.queue.retry(newest.clone(), true, submitter).await.unwrap();
        assert_eq!(retried.task.retry_of, Some(newest));
        newest = retried.task.id;
    }
    let found = store.queue.submit(keyed("k", "{}")).await.unwrap();
    assert_eq!((found.created, found.task.id), (false, newest));
}

pub(crate) async fn retry_copies_lines(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let lines = vec!["a".to_owned(), "b".to_owned()];
    store.queue.record(claim.clone(), lines, TaskAmounts::default(), None).await.unwrap();
    store.complete(&claim).await;
    let submitter = TaskSubmitter::default();
    let again = store.queue.retry(claim.task, false, submitter.clone()).await.unwrap().task;
    let copied = store.queue.lines(&again.id, 0, 9).await.unwrap();
    let parts: Vec<_> = copied.iter().map(|line| (line.seq, line.epoch, &*line.line)).collect();
    assert_eq!(parts, [(0, 0, "a"), (1, 0, "b")]);
    assert_eq!(store.task(&again.id).await.lines, 2);
    assert_eq!(store.queue.input(&again.id).await.unwrap().as_deref(), Some("{}"));
    let claims = store.claim(1).await;
    let line = vec!["c".to_owned()];
    store.queue.record(claims[0].clone(), line, TaskAmounts::default(), None).await.unwrap();
    assert_eq!(store.queue.lines(&again.id, 2, 9).await.unwrap()[0].line, "c");
    store.complete(&claims[0]).await;
    let fresh = store.queue.retry(again.id, true, submitter).await.unwrap().task;
    assert_eq!(store.queue.lines(&fresh.id, 0, 9).await.unwrap(), []);
}

pub(crate) async fn retry_requires_terminal_task(store: &StoreFixture) {
    let task = store.submit_plain().await.id;
    let submitter = TaskSubmitter::default();
    let refused = store.queue.retry(task, false, submitter.clone()).await;
    assert_eq!(refusal(refused), QueueErrorKind::Conflict);
    let unknown = store.queue.retry(TaskId::generate(), false, submitter).await;
    assert_eq!(refusal(unknown), QueueErrorKind::NotFound);
}

pub(crate) async fn task_is_retried_once(store: &StoreFixture) {
    let task = store.submit_plain().await.id;
    store.queue.cancel(task.clone(), "operator").await.unwrap();
    store.queue.retry(task.clone(), false, TaskSubmitter::default()).await.unwrap();
    let second = store.queue.retry(task, false, TaskSubmitter::default()).await;
    assert_eq!(refusal(second), QueueErrorKind::Conflict);
}

pub(crate) async fn scopes_separate_keys(store: &StoreFixture) {
    let first = store.submit(keyed("k", "{}")).await.id;
    let second = NewTask { scope: "s".to_owned(), ..keyed("k", "[]") };
    assert_ne!(store.submit(second).await.id, first);
    // Tasks without a key are never the same.
    let (one, other) = (store.submit_plain().await, store.submit_plain().await);
    assert_ne!(one.id, other.id);
}

pub(crate) async fn known_id_conflicts(store: &StoreFixture) {
    let id = store.submit_plain().await.id;
    let again = NewTask { id, ..new_task() };
    assert_eq!(refusal(store.queue.submit(again).await), QueueErrorKind::Conflict);
}

pub(crate) async fn large_input_is_refused(store: &StoreFixture) {
    let largest = NewTask { input: "x".repeat(MAX_INPUT_BYTES), ..new_task() };
    let task = store.submit(largest).await.id;
    assert_eq!(store.queue.input(&task).await.unwrap().unwrap().len(), MAX_INPUT_BYTES);
    let larger = NewTask { input: "x".repeat(MAX_INPUT_BYTES + 1), ..new_task() };
    assert_eq!(refusal(store.queue.submit(larger).await), QueueErrorKind::TooLarge);
    assert_eq!(store.queue.counts().await.unwrap(), [(TaskState::Ready, 1)]);
}

pub(crate) async fn outbox_numbers_are_unique(store: &StoreFixture) {
    store.submit_plain().await;
    let first = store.queue.outbox(9).await.unwrap();
    assert_eq!(first.len(), 1);
    store.queue.acknowledge_outbox(vec![first[0].seq]).await.unwrap();
    assert_eq!(store.queue.outbox(9).await.unwrap(), []);
    store.submit_plain().await;
    let second = store.queue.outbox(9).await.unwrap();
    assert!(second[0].seq > first[0].seq, "a late acknowledgment would remove a new row");
}

pub(crate) async fn handle_requires_its_principal(store: &StoreFixture) {
    let task = store.submit_plain().await;
    let bind =
        |task: TaskId, owner: &str| store.queue.bind_handle("h".to_owned(), task, owner.to_owned());
    bind(task.id.clone(), "me").await.unwrap();
    let find =
        |handle: &str, owner: &str| store.queue.find_by_handle(handle.to_owned(), owner.to_owned());
    assert_eq!(find("h", "me").await.unwrap(), Some(task));
    assert_eq!(find("h", "other").await.unwrap(), None);
    assert_eq!(find("other", "me").await.unwrap(), None);
    assert_eq!(refusal(bind(TaskId::generate(), "me").await), QueueErrorKind::NotFound);
}

pub(crate) async fn handle_comes_with_its_task(store: &StoreFixture) {
    let submit = |sha256: &str, input: &str| {
        let handle = HandleBinding { sha256: sha256.to_owned(), principal: "me".to_owned() };
        let (key, input) = (Some("k".to_owned()), input.to_owned());
        store.queue.submit(NewTask { handle: Some(handle), key, input, ..new_task() })
    };
    let find = |sha256: &str| store.queue.find_by_handle(sha256.to_owned(), "me".to_owned());
    let task = submit("first", "same").await.unwrap().task;
    assert_eq!(find("first").await.unwrap().as_ref(), Some(&task));
    // The same key is the same task, under both handles.
    assert!(!submit("second", "same").await.unwrap().created);
    for handle in ["first", "second"] {
        assert_eq!(find(handle).await.unwrap().as_ref(), Some(&task), "{handle}");
    }
    // A refused submission leaves no handle.
    assert_eq!(refusal(submit("third", "other").await), QueueErrorKind::Conflict);
    assert_eq!(find("third").await.unwrap(), None);
}

pub(crate) async fn lists_filter_and_page(store: &StoreFixture) {
    let root = store.submit_plain().await.id;
    let child = store.submit(child_of(&root)).await.id;
    let submitter = TaskSubmitter { thread: Some("t".to_owned()), ..TaskSubmitter::default() };
    let other = store.submit(NewTask { submitter, ..new_task() }).await.id;
    store.queue.cancel(other.clone(), "operator").await.unwrap();
    let list = async |filter: TaskFilter| {
        let found = store.queue.list(filter).await.unwrap();
        found.into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    let all = TaskFilter::default();
    let mut every = vec![root.clone(), child.clone(), other.clone()];
    every.sort_by(|a, b| b.cmp(a));
    assert_eq!(list(all.clone()).await, every);
    assert_eq!(list(TaskFilter { limit: 2, ..all.clone() }).await, every[..2]);
    let before = Some(every[1].clone());
    assert_eq!(list(TaskFilter { before, ..all.clone() }).await, every[2..]);
    let tree = TaskFilter { root: Some(root.clone()), ..all.clone() };
    assert_eq!(list(tree).await.len(), 2);
    assert_eq!(list(TaskFilter { root: Some(child.clone()), ..all.clone() }).await, []);
    assert_eq!(list(TaskFilter { parent: Some(root), ..all.clone() }).await, [child]);
    let thread = Some("t".to_owned());
    assert_eq!(list(TaskFilter { thread, ..all.clone() }).await, std::slice::from_ref(&other));
    let states = vec![TaskState::Cancelled];
    assert_eq!(list(TaskFilter { states, ..all }).await, [other]);
}
