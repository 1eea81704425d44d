//! Claims: their order, their lanes and their fencing.

use skillhost_tasks::{
    ClaimFilter, HeartbeatStatus, LostWorkers, NewTask, NewWait, QueueErrorKind, ReleaseReason,
    TaskAmounts, TaskClaim, TaskKind, TaskState,
};

use crate::fixture::{LEASE, StoreFixture, completed, new_task, question, refusal, spent_tokens};

fn retry_reason() -> ReleaseReason {
    ReleaseReason::Retry { error: "busy".to_owned(), jitter: 0 }
}

pub(crate) async fn claim_order_follows_priority_and_time(store: &StoreFixture) {
    let now = store.now();
    let task = |priority: i32, due_ms: Option<u64>| NewTask { priority, due_ms, ..new_task() };
    let late = store.submit(task(0, Some(now))).await.id;
    let early = store.submit(task(0, Some(now - 5))).await.id;
    let low = store.submit(task(-1, None)).await.id;
    let high = store.submit(task(7, Some(now))).await.id;
    store.submit(task(9, Some(now + 1))).await;
    let claimed: Vec<_> = store.claim(9).await.into_iter().map(|claim| claim.task).collect();
    assert_eq!(claimed, [high, early, late, low]);
}

pub(crate) async fn filter_limits_claims(store: &StoreFixture) {
    let submit = |kind, target: &str| store.submit(NewTask::new(kind, target, "{}"));
    submit(TaskKind::Tool, "a").await;
    let tool = submit(TaskKind::Tool, "b").await.id;
    let agent = submit(TaskKind::Agent, "a").await.id;
    let targets =
        vec![(TaskKind::Tool, Some(vec!["b".to_owned(), "c".to_owned()])), (TaskKind::Agent, None)];
    let filter = ClaimFilter { targets };
    let claimed = store.queue.claim("w", filter, 9, LEASE).await.unwrap();
    let mut ids: Vec<_> = claimed.into_iter().map(|claimed| claimed.task.id).collect();
    ids.sort();
    let mut expected = vec![tool, agent];
    expected.sort();
    assert_eq!(ids, expected);
    assert_eq!(store.claim(0).await, []);
}

pub(crate) async fn lane_runs_in_order(store: &StoreFixture) {
    let in_lane = || NewTask { lane: Some("l".to_owned()), ..new_task() };
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(store.submit(in_lane()).await.id);
    }
    ids.sort();
    for id in &ids {
        let claims = store.claim(9).await;
        assert_eq!(claims.iter().map(|claim| &claim.task).collect::<Vec<_>>(), [id]);
        assert_eq!(store.claim(9).await, []);
        store.complete(&claims[0]).await;
    }
}

pub(crate) async fn lane_waits_for_parked_task(store: &StoreFixture) {
    let in_lane = || NewTask { lane: Some("l".to_owned()), ..new_task() };
    let claim = store.start(in_lane()).await;
    let mut later = in_lane();
    // Ids of one millisecond are not in order.
    while later.id < claim.task {
        later = in_lane();
    }
    store.submit(later).await;
    let until_ms = Some(store.now() + 1000);
    store.park(&claim, NewWait { until_ms, ..NewWait::default() }).await;
    assert_eq!(store.claim(9).await, []);
    store.queue.cancel(claim.task, "operator").await.unwrap();
    assert_eq!(store.claim(9).await.len(), 1);
}

pub(crate) async fn stale_claim_is_refused_everywhere(store: &StoreFixture) {
    let old = store.start(new_task()).await;
    store.queue.sweep(LostWorkers::All).await.unwrap();
    let current = store.claim(1).await.remove(0);
    assert_eq!((current.epoch, &current.task), (2, &old.task));
    let before = store.task(&old.task).await;
    let future = TaskClaim { epoch: 3, ..old.clone() };
    for claim in [old, future] {
        let (amounts, lines) = (spent_tokens(5), vec!["x".to_owned()]);
        let recorded = store.queue.record(claim.clone(), lines, amounts, None).await;
        assert_eq!(refusal(recorded), QueueErrorKind::Stale);
        let wait = NewWait { questions: vec![question("c", "{}")], ..NewWait::default() };
        assert_eq!(refusal(store.queue.wait(claim.clone(), wait).await), QueueErrorKind::Stale);
        let released = store.queue.release(claim.clone(), retry_reason()).await;
        assert_eq!(refusal(released), QueueErrorKind::Stale);
        let finished = store.queue.finish(claim.clone(), completed(), amounts).await;
        assert_eq!(refusal(finished), QueueErrorKind::Stale);
        let states = store.queue.heartbeat(vec![claim], LEASE).await.unwrap();
        assert_eq!(states, [HeartbeatStatus::Lost]);
    }
    assert_eq!(store.task(&before.id).await, before);
    assert_eq!(store.queue.open_questions(9).await.unwrap(), []);
    store.complete(&current).await;
    let again = store.queue.finish(current, completed(), TaskAmounts::default()).await;
    assert_eq!(refusal(again), QueueErrorKind::Stale);
    assert_eq!(store.outbox_keys("task.ended").await, [before.id.to_string()]);
}

pub(crate) async fn heartbeat_reports_each_claim(store: &StoreFixture) {
    let kept = store.start(new_task()).await;
    let cancelled = store.start(new_task()).await;
    let ended = store.start(new_task()).await;
    store.queue.cancel(cancelled.task.clone(), "operator").await.unwrap();
    store.complete(&ended).await;
    store.advance(20_000);
    let claims = vec![cancelled, ended, kept.clone()];
    let states = store.queue.heartbeat(claims, LEASE).await.unwrap();
    assert_eq!(states, [HeartbeatStatus::Cancel, HeartbeatStatus::Lost, HeartbeatStatus::Kept]);
    assert_eq!(store.task(&kept.task).await.lease_ms, Some(store.now() + 30_000));
}

pub(crate) async fn future_task_is_not_due(store: &StoreFixture) {
    assert_eq!(store.queue.next_due().await.unwrap(), None);
    let due = store.now() + 10;
    store.submit(NewTask { due_ms: Some(due), ..new_task() }).await;
    store.submit(NewTask { due_ms: Some(due + 9), priority: 3, ..new_task() }).await;
    assert_eq!(store.queue.next_due().await.unwrap(), Some(due));
    assert_eq!(store.claim(9).await, []);
    store.advance(10);
    assert_eq!(store.claim(9).await.len(), 1);
    assert_eq!(store.queue.next_due().await.unwrap(), Some(due + 9));
}

pub(crate) async fn release_after_error_pauses(store: &StoreFixture) {
    let mut claim = store.start(new_task()).await;
    for pause in [5_000, 15_000, 45_000] {
        let task = store.queue.release(claim.clone(), retry_reason()).await.unwrap();
        assert_eq!((task.state, task.due_ms), (TaskState::Ready, store.now() + pause));
        store.advance(pause - 1);
        assert_eq!(store.claim(1).await, []);
        store.advance(1);
        claim = store.claim(1).await.remove(0);
    }
    assert_eq!(claim.epoch, 4);
    let attempts = store.queue.attempts(&claim.task).await.unwrap();
    assert_eq!(attempts[0].error.as_deref(), Some("busy"));
    assert_eq!(attempts.len(), 4);
}

pub(crate) async fn orderly_stop_is_uncounted(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let task = store.queue.release(claim, ReleaseReason::Stop).await.unwrap();
    assert_eq!((task.state, task.attempt, task.epoch), (TaskState::Ready, 0, 1));
    assert_eq!(store.claim(1).await[0].epoch, 2);
}

pub(crate) async fn lines_continue_after_lost_worker(store: &StoreFixture) {
    let mut claim = store.start(new_task()).await;
    for number in 0..5_u64 {
        let lines = vec![format!("line {number}")];
        store.queue.record(claim, lines, TaskAmounts::default(), None).await.unwrap();
        store.queue.sweep(LostWorkers::All).await.unwrap();
        claim = store.claim(1).await.remove(0);
    }
    let lines = store.queue.lines(&claim.task, 0, 9).await.unwrap();
    let parts: Vec<_> = lines.iter().map(|line| (line.seq, line.epoch)).collect();
    assert_eq!(parts, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]);
    assert_eq!(store.queue.lines(&claim.task, 3, 1).await.unwrap()[0].line, "line 3");
}

pub(crate) async fn attempts_record_their_end(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    store.queue.sweep(LostWorkers::All).await.unwrap();
    let second = store.claim(1).await.remove(0);
    store.advance(9);
    store.complete(&second).await;
    let attempts = store.queue.attempts(&claim.task).await.unwrap();
    let ends: Vec<_> = attempts.iter().map(|attempt| attempt.how.as_deref()).collect();
    assert_eq!(ends, [Some("lost"), Some("completed")]);
    assert_eq!(attempts[1].ended_ms, Some(store.now()));
    assert_eq!(attempts[1].began_ms, store.now() - 9);
}
