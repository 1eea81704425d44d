//! What ends by time, and jumps of the clock.

use skillhost_tasks::{
    FailureReason, LostWorkers, NewTask, NewWait, ReleaseReason, TaskAmounts, TaskOutcome,
    TaskState,
};

use crate::fixture::{StoreFixture, new_task, question};

const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1000;

async fn sweep(store: &StoreFixture) -> skillhost_tasks::SweepReport {
    store.queue.sweep(LostWorkers::Expired).await.unwrap()
}

pub(crate) async fn expired_lease_frees_task(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    store.advance(29_999);
    assert_eq!(sweep(store).await.lost, 0);
    store.advance(1);
    assert_eq!(sweep(store).await.lost, 1);
    let task = store.task(&claim.task).await;
    assert_eq!((task.state, task.epoch, task.stalled), (TaskState::Ready, 1, 1));
}

pub(crate) async fn third_loss_fails_task(store: &StoreFixture) {
    let id = store.submit_plain().await.id;
    for _ in 0..3 {
        assert_eq!(store.claim(9).await.len(), 1);
        store.advance(30_000);
        assert_eq!(sweep(store).await.lost, 1);
    }
    let outcome = store.task(&id).await.outcome;
    let is_lost = matches!(outcome, Some(TaskOutcome::Failed { reason: FailureReason::Lost, .. }));
    assert!(is_lost, "{outcome:?}");
}

pub(crate) async fn new_process_frees_all(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    assert_eq!(sweep(store).await.lost, 0);
    assert_eq!(store.queue.sweep(LostWorkers::All).await.unwrap().lost, 1);
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
}

pub(crate) async fn deadline_fails_every_state(store: &StoreFixture) {
    let deadline_ms = Some(store.now() + 1_000);
    let limited = || NewTask { deadline_ms, ..new_task() };
    let running = store.start(limited()).await;
    let parked = store.start(limited()).await;
    store
        .park(&parked, NewWait { questions: vec![question("c", "{}")], ..NewWait::default() })
        .await;
    let ready = store.submit(limited()).await.id;
    let free = store.submit_plain().await.id;
    store.advance(999);
    assert_eq!(sweep(store).await.failed, 0);
    store.advance(1);
    assert_eq!(sweep(store).await.failed, 3);
    for id in [&running.task, &parked.task, &ready] {
        let outcome = store.task(id).await.outcome;
        let is_late =
            matches!(outcome, Some(TaskOutcome::Failed { reason: FailureReason::Deadline, .. }));
        assert!(is_late, "{outcome:?}");
    }
    assert_eq!(store.state(&free).await, TaskState::Ready);
    assert_eq!(store.queue.open_questions(9).await.unwrap(), []);
}

pub(crate) async fn clock_jump_forward_frees_lease(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    store.advance(YEAR_MS);
    assert_eq!(sweep(store).await.lost, 1);
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
    assert_eq!(store.claim(9).await.len(), 1);
}

pub(crate) async fn clock_jump_back_frees_lease(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let ready = store.submit_plain().await.id;
    store.set_time(store.now() - YEAR_MS);
    assert_eq!(sweep(store).await.lost, 1);
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
    // A task that is due at once is due before every clock.
    let claims = store.claim(9).await;
    assert_eq!(claims.len(), 2);
    assert!(claims.iter().any(|claim| claim.task == ready));
}

pub(crate) async fn clock_jump_back_ends_pause(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let reason = ReleaseReason::Retry { error: "busy".to_owned(), jitter: 0 };
    store.queue.release(claim, reason).await.unwrap();
    let planned = store.submit(NewTask { due_ms: Some(store.now()), ..new_task() }).await.id;
    store.set_time(store.now() - YEAR_MS);
    sweep(store).await;
    let claims = store.claim(9).await;
    assert_eq!(claims.len(), 1);
    // A time that a person has chosen stays.
    assert_ne!(claims[0].task, planned);
}

pub(crate) async fn waiting_time_wakes(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let until_ms = Some(store.now() + 500);
    store.park(&claim, NewWait { until_ms, ..NewWait::default() }).await;
    store.advance(499);
    assert_eq!(sweep(store).await.woken, 0);
    store.advance(1);
    assert_eq!(sweep(store).await.woken, 1);
    assert_eq!(store.state(&claim.task).await, TaskState::Ready);
}

pub(crate) async fn many_rows_are_swept(store: &StoreFixture) {
    for _ in 0..1_100 {
        store.submit_plain().await;
    }
    assert_eq!(store.claim(5_000).await.len(), 1_100);
    let claim = store.claim(1).await;
    assert_eq!(claim, []);
    store.advance(30_000);
    assert_eq!(sweep(store).await.lost, 1_100);
    assert_eq!(store.queue.counts().await.unwrap(), [(TaskState::Ready, 1_100)]);
    let claims = store.claim(1).await;
    let amounts = TaskAmounts::default();
    store.queue.record(claims[0].clone(), Vec::new(), amounts, None).await.unwrap();
}
