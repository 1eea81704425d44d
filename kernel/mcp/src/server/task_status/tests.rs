use skillhost_tasks::{
    MemoryQueue, NewTask, Operation, OperationOutcome, Queue as _, TaskKind, TaskProgress,
};

use super::*;

/// Returns a task as a submission stores it, with a state.
async fn task_in(state: TaskState) -> Task {
    let queue = MemoryQueue::new(skillhost_events::Clock::system());
    let new = Box::new(NewTask::new(TaskKind::Tool, "work", "{}"));
    let OperationOutcome::Submitted(submitted) =
        queue.execute(Operation::Submit(new)).await.unwrap()
    else {
        panic!("another outcome")
    };
    Task { state, created_ms: 1_000, changed_ms: 2_000, ..submitted.task }
}

fn shown(task: &Task, now_ms: u64) -> Value {
    let rights = AnswerRights::default();
    let view = TaskView { questions: &[], rights, declares_output: false, now_ms };
    serde_json::to_value(to_detailed_task("h", task, &view)).unwrap()
}

#[tokio::test]
async fn polls_slow_down_without_worker() {
    let waiting = task_in(TaskState::Waiting).await;
    let running = task_in(TaskState::Running).await;
    for (idle_ms, interval) in
        [(0, 1_000), (9_999, 1_000), (10_000, 5_000), (59_999, 5_000), (60_000, 30_000)]
    {
        assert_eq!(shown(&waiting, 2_000 + idle_ms)["pollIntervalMs"], interval, "{idle_ms}");
        assert_eq!(shown(&running, 2_000 + idle_ms)["pollIntervalMs"], 1_000);
    }
    // The clock of the store was set back.
    assert_eq!(shown(&waiting, 0)["pollIntervalMs"], 1_000);
}

#[tokio::test]
async fn life_time_counts_from_creation() {
    let mut task = task_in(TaskState::Completed).await;
    assert_eq!(shown(&task, 0)["ttlMs"], Value::Null);
    task.ended_ms = Some(6_000);
    task.outcome =
        Some(TaskOutcome::Completed { text: String::new(), structured: None, is_error: false });
    let ended = shown(&task, 0);
    assert_eq!(ended["ttlMs"], 5_000 + 2_592_000_000_u64);
    assert_eq!(ended["createdAt"], "1970-01-01T00:00:01.000Z");
    assert_eq!(ended["lastUpdatedAt"], "1970-01-01T00:00:02.000Z");
}

#[tokio::test]
async fn status_names_the_obstacle() {
    let message = |task: &Task| shown(task, 0)["statusMessage"].clone();
    let mut task = task_in(TaskState::Waiting).await;
    assert_eq!(message(&task), "waits until a set time");
    task.waits.tasks = vec![task.id.clone()];
    assert_eq!(message(&task), "waits for another task");
    task.waits.after = vec![task.id.clone()];
    assert_eq!(message(&task), "waits for 2 other tasks");
    let mut ready = task_in(TaskState::Ready).await;
    ready.is_backoff = true;
    assert_eq!(message(&ready), "is retried after a pause");
    let mut running = task_in(TaskState::Running).await;
    assert_eq!(message(&running), Value::Null);
    let text = "x".repeat(1_000);
    running.progress = Some(TaskProgress { done: 2.0, total: None, text });
    assert_eq!(message(&running).as_str().unwrap().len(), MAX_STATUS);
    running.cancel = Some("a".to_owned());
    assert_eq!(message(&running), "is being cancelled");
}
