//! Waits for tasks, and dependencies.

use skillhost_tasks::{
    FailureReason, NewTask, NewWait, QueueErrorKind, TaskId, TaskOutcome, TaskState, WaitMode,
    WaitOutcome,
};

use crate::fixture::{StoreFixture, after, child_of, new_task, refusal, wait_for};

/// Submits a task that is not due, so that it is not claimed.
async fn submit_later(store: &StoreFixture) -> TaskId {
    store.submit(NewTask { due_ms: Some(store.now() + 1), ..new_task() }).await.id
}

async fn cancel(store: &StoreFixture, id: &TaskId) {
    store.queue.cancel(id.clone(), "operator").await.unwrap();
}

pub(crate) async fn all_waits_for_every_end(store: &StoreFixture) {
    let (one, two) = (submit_later(store).await, submit_later(store).await);
    let claim = store.start(new_task()).await;
    store.park(&claim, wait_for(&[&one, &two, &one])).await;
    assert_eq!(store.outbox_keys("task.waiting").await, [format!("{}:1", claim.task)]);
    cancel(store, &one).await;
    let task = store.task(&claim.task).await;
    assert_eq!((task.state, &*task.waits.tasks), (TaskState::Waiting, &[two.clone()][..]));
    cancel(store, &two).await;
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
    assert_eq!(store.claim(9).await[0].epoch, 2);
}

pub(crate) async fn any_wakes_at_first_end(store: &StoreFixture) {
    let (one, two) = (submit_later(store).await, submit_later(store).await);
    let claim = store.start(new_task()).await;
    store.park(&claim, NewWait { mode: WaitMode::Any, ..wait_for(&[&one, &two]) }).await;
    cancel(store, &two).await;
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
    cancel(store, &one).await;
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
}

pub(crate) async fn ended_tasks_satisfy_at_once(store: &StoreFixture) {
    let (ended, open) = (submit_later(store).await, submit_later(store).await);
    cancel(store, &ended).await;
    let claim = store.start(new_task()).await;
    let any = NewWait { mode: WaitMode::Any, ..wait_for(&[&open, &ended]) };
    for wait in [wait_for(&[&ended]), any, NewWait::default()] {
        let outcome = store.queue.wait(claim.clone(), wait).await.unwrap();
        assert_eq!(outcome, WaitOutcome::Satisfied(Vec::new()));
    }
    assert_eq!(store.state(&claim.task).await, TaskState::Running);
}

pub(crate) async fn cycle_is_refused(store: &StoreFixture) {
    let first = store.start(new_task()).await;
    let second = store.start(new_task()).await;
    let third = store.submit(after(&[&second.task])).await.id;
    let own = store.queue.wait(first.clone(), wait_for(&[&first.task])).await;
    assert_eq!(refusal(own), QueueErrorKind::Cycle);
    store.park(&second, wait_for(&[&first.task])).await;
    for awaited in [&second.task, &third] {
        let refused = store.queue.wait(first.clone(), wait_for(&[awaited])).await;
        assert_eq!(refusal(refused), QueueErrorKind::Cycle);
    }
    assert_eq!(store.state(&first.task).await, TaskState::Running);
}

pub(crate) async fn dependency_starts_after_completion(store: &StoreFixture) {
    let first = store.start(new_task()).await;
    let second = store.start(new_task()).await;
    let dependent = store.submit(after(&[&first.task, &second.task])).await.id;
    assert_eq!(store.state(&dependent).await, TaskState::Waiting);
    store.complete(&first).await;
    assert_eq!(store.claim(9).await, []);
    store.complete(&second).await;
    assert_eq!(store.claim(9).await[0].task, dependent);
    // Completed ones do not delay it.
    assert_eq!(store.submit(after(&[&first.task])).await.state, TaskState::Ready);
}

pub(crate) async fn failed_dependency_fails_chain(store: &StoreFixture) {
    let first = store.start(new_task()).await;
    let mut chain = vec![first.task.clone()];
    for _ in 0..50 {
        let last = chain.last().unwrap().clone();
        chain.push(store.submit(after(&[&last])).await.id);
    }
    store.finish(&first, TaskOutcome::failed(FailureReason::Error, "broken")).await;
    for id in &chain[1..] {
        let outcome = store.task(id).await.outcome;
        let is_dependency =
            matches!(outcome, Some(TaskOutcome::Failed { reason: FailureReason::Dependency, .. }));
        assert!(is_dependency, "{outcome:?}");
    }
    assert_eq!(store.outbox_keys("task.ended").await.len(), chain.len());
    let late = store.submit(after(&[&chain[9]])).await;
    assert_eq!(late.state, TaskState::Failed);
}

pub(crate) async fn dependency_on_ancestor_is_refused(store: &StoreFixture) {
    let root = store.submit_plain().await.id;
    let child = store.submit(child_of(&root)).await.id;
    let new = NewTask { after: vec![root.clone()], ..child_of(&child) };
    assert_eq!(refusal(store.queue.submit(new).await), QueueErrorKind::Cycle);
    let own = new_task();
    let own = NewTask { after: vec![own.id.clone()], ..own };
    assert_eq!(refusal(store.queue.submit(own).await), QueueErrorKind::Cycle);
}

pub(crate) async fn unknown_task_is_refused(store: &StoreFixture) {
    let unknown = TaskId::generate();
    let claim = store.start(new_task()).await;
    let refused = store.queue.wait(claim, wait_for(&[&unknown])).await;
    assert_eq!(refusal(refused), QueueErrorKind::NotFound);
    assert_eq!(refusal(store.queue.submit(after(&[&unknown])).await), QueueErrorKind::NotFound);
}

pub(crate) async fn many_waiters_wake(store: &StoreFixture) {
    let awaited = submit_later(store).await;
    for _ in 0..20 {
        let claim = store.start(new_task()).await;
        store.park(&claim, wait_for(&[&awaited])).await;
    }
    cancel(store, &awaited).await;
    assert_eq!(store.claim(99).await.len(), 20);
}
