//! Trees of tasks: their limits and their cancellation.

use skillhost_tasks::{NewWait, QueueErrorKind, ReleaseReason, TaskOutcome, TaskState};

use crate::fixture::{StoreFixture, child_of, new_task, refusal, wait_for};

pub(crate) async fn cancel_ends_open_tree(store: &StoreFixture) {
    let root = store.submit_plain().await.id;
    let child = store.submit(child_of(&root)).await.id;
    let grandchild = store.submit(child_of(&child)).await.id;
    let other = store.submit_plain().await.id;
    let task = store.queue.cancel(root.clone(), "operator").await.unwrap();
    assert_eq!(task.outcome, Some(TaskOutcome::Cancelled { by: "operator".to_owned() }));
    for id in [&child, &grandchild] {
        assert_eq!(store.state(id).await, TaskState::Cancelled);
    }
    assert_eq!(store.state(&other).await, TaskState::Ready);
    let mut ended = store.outbox_keys("task.ended").await;
    ended.sort();
    let mut expected = vec![root.to_string(), child.to_string(), grandchild.to_string()];
    expected.sort();
    assert_eq!(ended, expected);
}

pub(crate) async fn cancel_marks_running_tree(store: &StoreFixture) {
    let root = store.start(new_task()).await;
    let running = store.start(child_of(&root.task)).await;
    let below = store.submit(child_of(&running.task)).await.id;
    let task = store.queue.cancel(root.task.clone(), "operator").await.unwrap();
    assert_eq!((task.state, task.cancel.as_deref()), (TaskState::Running, Some("operator")));
    let child = store.task(&running.task).await;
    assert_eq!((child.state, child.cancel.as_deref()), (TaskState::Running, Some("operator")));
    assert_eq!(store.state(&below).await, TaskState::Cancelled);
    // The first end counts: a run that completes first has completed.
    assert_eq!(store.complete(&root).await.state, TaskState::Completed);
}

pub(crate) async fn end_of_parent_cancels_children(store: &StoreFixture) {
    let parent = store.start(new_task()).await;
    let running = store.start(child_of(&parent.task)).await;
    let ready = store.submit(child_of(&parent.task)).await.id;
    store.complete(&parent).await;
    assert_eq!(store.state(&ready).await, TaskState::Cancelled);
    let child = store.task(&running.task).await;
    assert_eq!(child.state, TaskState::Running);
    assert!(child.cancel.is_some());
}

pub(crate) async fn marked_task_ends_on_release(store: &StoreFixture) {
    let until_ms = Some(store.now() + 5);
    for number in 0..3 {
        let claim = store.start(new_task()).await;
        store.queue.cancel(claim.task.clone(), "operator").await.unwrap();
        let retry = ReleaseReason::Retry { error: "busy".to_owned(), jitter: 0 };
        match number {
            0 => drop(store.queue.release(claim.clone(), retry).await.unwrap()),
            1 => drop(store.queue.release(claim.clone(), ReleaseReason::Stop).await.unwrap()),
            _ => drop(store.park(&claim, NewWait { until_ms, ..NewWait::default() }).await),
        }
        assert_eq!(store.state(&claim.task).await, TaskState::Cancelled);
    }
}

pub(crate) async fn cancelled_terminal_task_stays(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let ended = store.complete(&claim).await;
    store.advance(5);
    let task = store.queue.cancel(claim.task.clone(), "operator").await.unwrap();
    assert_eq!(task, ended);
    assert_eq!(store.outbox_keys("task.ended").await, [claim.task.to_string()]);
    let unknown = store.queue.cancel(skillhost_tasks::TaskId::generate(), "operator").await;
    assert_eq!(refusal(unknown), QueueErrorKind::NotFound);
}

pub(crate) async fn depth_is_limited(store: &StoreFixture) {
    let mut lowest = store.submit_plain().await;
    for depth in 1..=8 {
        lowest = store.submit(child_of(&lowest.id)).await;
        assert_eq!(lowest.depth, depth);
    }
    let deeper = store.queue.submit(child_of(&lowest.id)).await;
    assert_eq!(refusal(deeper), QueueErrorKind::Limit);
}

pub(crate) async fn open_tasks_are_limited(store: &StoreFixture) {
    let root = store.submit_plain().await.id;
    let mut last = root.clone();
    for _ in 0..64 {
        last = store.submit(child_of(&root)).await.id;
    }
    let refused = store.queue.submit(child_of(&root)).await;
    assert_eq!(refusal(refused), QueueErrorKind::Limit);
    store.queue.cancel(last, "operator").await.unwrap();
    store.submit(child_of(&root)).await;
}

pub(crate) async fn child_of_ended_parent_is_refused(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let child = store.submit(child_of(&claim.task)).await.id;
    store.park(&claim, wait_for(&[&child])).await;
    store.queue.cancel(claim.task.clone(), "operator").await.unwrap();
    let refused = store.queue.submit(child_of(&claim.task)).await;
    assert_eq!(refusal(refused), QueueErrorKind::Conflict);
    let unknown = store.queue.submit(child_of(&skillhost_tasks::TaskId::generate())).await;
    assert_eq!(refusal(unknown), QueueErrorKind::NotFound);
}
