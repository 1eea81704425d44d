//! Budgets of tasks and subtasks.

use skillhost_tasks::{NewTask, QueueErrorKind, TaskAmounts, TaskBudget};

use crate::fixture::{StoreFixture, child_of, completed, new_task, refusal, spent_tokens, tokens};

pub(crate) async fn child_reserves_and_returns(store: &StoreFixture) {
    let parent = store.start(NewTask { budget: tokens(100), ..new_task() }).await;
    let child = store.start(NewTask { budget: tokens(60), ..child_of(&parent.task) }).await;
    assert_eq!(store.task(&parent.task).await.reserved, spent_tokens(60));
    store.queue.finish(child, completed(), spent_tokens(25)).await.unwrap();
    let after = store.task(&parent.task).await;
    assert_eq!((after.reserved, after.spent), (TaskAmounts::default(), spent_tokens(25)));
    // Without a request a child gets half of the rest.
    let next = store.submit(child_of(&parent.task)).await;
    assert_eq!(next.budget, tokens(38));
}

pub(crate) async fn child_exceeding_rest_is_refused(store: &StoreFixture) {
    let parent = store.start(NewTask { budget: tokens(100), ..new_task() }).await;
    let child = |limit| NewTask { budget: tokens(limit), ..child_of(&parent.task) };
    store.submit(child(70)).await;
    assert_eq!(refusal(store.queue.submit(child(31)).await), QueueErrorKind::Budget);
    store.submit(child(30)).await;
    assert_eq!(refusal(store.queue.submit(child(1)).await), QueueErrorKind::Budget);
    let none = store.queue.submit(child_of(&parent.task)).await;
    assert_eq!(refusal(none), QueueErrorKind::Budget);
    assert_eq!(store.task(&parent.task).await.reserved, spent_tokens(100));
}

pub(crate) async fn spent_amounts_add_up(store: &StoreFixture) {
    let claim = store.start(new_task()).await;
    let amounts = TaskAmounts { turns: 1, tokens: u64::MAX, time_ms: 5, cost: 7 };
    for _ in 0..2 {
        store.queue.record(claim.clone(), Vec::new(), amounts, None).await.unwrap();
    }
    let spent = store.queue.finish(claim, completed(), amounts).await.unwrap().spent;
    let expected = TaskAmounts { turns: 3, tokens: u64::MAX, time_ms: 15, cost: 21 };
    assert_eq!(spent, expected);
}

pub(crate) async fn zero_budget_is_refused(store: &StoreFixture) {
    let new = NewTask { budget: tokens(0), ..new_task() };
    assert_eq!(refusal(store.queue.submit(new).await), QueueErrorKind::Invalid);
}

pub(crate) async fn child_of_unlimited_parent_reserves(store: &StoreFixture) {
    let parent = store.start(new_task()).await;
    let limited = store.submit(NewTask { budget: tokens(9), ..child_of(&parent.task) }).await;
    let unlimited = store.submit(child_of(&parent.task)).await;
    assert_eq!(unlimited.budget, TaskBudget::default());
    assert_eq!(store.task(&parent.task).await.reserved, spent_tokens(9));
    store.queue.cancel(limited.id, "operator").await.unwrap();
    assert_eq!(store.task(&parent.task).await.reserved, TaskAmounts::default());
}
