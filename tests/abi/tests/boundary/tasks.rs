//! Tasks that a real library executes.

use std::time::{Duration, Instant};

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use skillhost_payload::{
    ErrorKind, StoreTaskStepRequest, TaskClaimRef, TaskProgressReport, TaskStep,
};
use skillhost_tasks::{
    Decider, Decision, FailureReason, NewTask, Task, TaskBudget, TaskKind, TaskOutcome, TaskQueue,
    TaskState,
};
use test_support::{STUCK_AFTER, TestHome, example_library};

use crate::fixture::{KernelFixture, misbehaving};

const IMPORT: &str = "importer/import";

/// A home with the extension `importer`, and one with another.
fn importer_home() -> TestHome {
    let yaml = "id: importer\nname: Importer\nentrypoint: importer\n";
    let home = TestHome::new().manifest("importer", yaml);
    misbehaving(home.library("importer", "importer", &example_library("importer")), "other", "")
}

async fn boot() -> KernelFixture {
    let fixture = KernelFixture::boot(importer_home()).await;
    fixture.kernel.start_event_delivery().await.expect("no other kernel runs");
    fixture
}

impl KernelFixture {
    fn queue(&self) -> &TaskQueue {
        self.kernel.tasks().queue()
    }

    async fn submit(&self, input: Value) -> Task {
        let new = NewTask::new(TaskKind::Ext, IMPORT, input.to_string());
        self.queue().submit(new).await.expect("a valid task").task
    }

    async fn wait_for(&self, task: &Task, condition: impl Fn(&Task) -> bool) -> Task {
        let start = Instant::now();
        loop {
            let found = self.queue().find(&task.id).await.expect("a readable store");
            let found = found.expect("the task exists");
            if condition(&found) {
                return found;
            }
            assert!(start.elapsed() < STUCK_AFTER, "{found:#?}");
            self.queue().store().wait_for_change(Duration::from_millis(200)).await;
        }
    }

    async fn wait_for_end(&self, task: &Task) -> Task {
        self.wait_for(task, |task| task.state.is_terminal()).await
    }

    /// Runs a task to its end.
    async fn run_task(&self, input: Value) -> Task {
        let task = self.submit(input).await;
        self.wait_for_end(&task).await
    }

    async fn line_count(&self, task: &Task) -> usize {
        self.queue().lines(&task.id, 0, 1_000).await.expect("a readable store").len()
    }
}

fn failure_of(task: &Task) -> (FailureReason, &str) {
    match &task.outcome {
        Some(TaskOutcome::Failed { reason, message, .. }) => (*reason, message),
        other => panic!("{other:?}"),
    }
}

fn result_of(task: &Task) -> &str {
    match &task.outcome {
        Some(TaskOutcome::Completed { text, .. }) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_and_progress_are_stored() {
    let fixture = boot().await;
    let task = fixture.run_task(json!({"pages": 3})).await;
    assert_eq!(result_of(&task), "3 pages, unasked");
    let Some(TaskOutcome::Completed { structured, .. }) = &task.outcome else { panic!() };
    assert_eq!(structured, &Some(json!({"pages": 3, "bytes": 300, "attempt": 1})));
    let progress = task.progress.clone().unwrap();
    assert_eq!((progress.done, progress.total, &*progress.text), (3.0, Some(3.0), "page 3"));
    // The key, and a line per step.
    assert_eq!(fixture.line_count(&task).await, 4);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_fail_their_task_only() {
    let fixture = boot().await;
    for (fault, reason, message) in [
        ("fail", FailureReason::Error, "no pages are left"),
        ("panic", FailureReason::Crash, "panicked"),
        ("twice", FailureReason::Error, "step `page 1` is used twice in one run"),
        ("large", FailureReason::Error, "a step has 20971"),
        ("blank", FailureReason::Crash, "question `blank` has an empty part"),
    ] {
        let task = fixture.run_task(json!({"pages": 1, "fault": fault})).await;
        let (found, text) = failure_of(&task);
        assert_eq!(found, reason, "{fault}: {text}");
        assert!(text.contains(message), "{fault}: {text}");
    }
    assert_eq!(result_of(&fixture.run_task(json!({"pages": 1})).await), "1 pages, unasked");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_error_is_retried_later() {
    let fixture = boot().await;
    let task = fixture.submit(json!({"pages": 1, "fault": "unavailable"})).await;
    let waiting = fixture.wait_for(&task, |task| task.is_backoff).await;
    assert_eq!((waiting.state, waiting.retries), (TaskState::Ready, 1));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_budget_ends_endless_step() {
    let fixture = boot().await;
    let budget = TaskBudget { time_ms: Some(50), ..TaskBudget::default() };
    let input = json!({"pages": 1, "hang": 1}).to_string();
    let new = NewTask { budget, ..NewTask::new(TaskKind::Ext, IMPORT, input) };
    let task = fixture.queue().submit(new).await.unwrap().task;
    let ended = fixture.wait_for_end(&task).await;
    let (reason, message) = failure_of(&ended);
    assert_eq!((reason, ended.spent.time_ms >= 50), (FailureReason::Budget, true), "{message}");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_current_claim_may_write() {
    let fixture = boot().await;
    let task = fixture.submit(json!({"pages": 2, "hang": 2})).await;
    let running = fixture.wait_for(&task, |task| task.progress.is_some()).await;
    let tasks = fixture.kernel.tasks();
    let step = |epoch| StoreTaskStepRequest {
        claim: TaskClaimRef { task: task.id.to_string(), epoch },
        step: TaskStep { name: "forged".to_owned(), result: to_raw_value(&1).unwrap() },
    };
    let lines = fixture.line_count(&task).await;
    for (extension, epoch, kind) in [
        ("importer", running.epoch + 1, ErrorKind::Conflict),
        ("importer", running.epoch - 1, ErrorKind::Conflict),
        ("other", running.epoch, ErrorKind::Denied),
    ] {
        let error = tasks.store_task_step(extension, step(epoch)).await.unwrap_err();
        assert_eq!(error.kind, kind, "{extension} {epoch}: {error}");
        let claim = TaskClaimRef { task: task.id.to_string(), epoch };
        let report = TaskProgressReport { claim, done: 9.0, total: None, text: String::new() };
        let error = tasks.report_task_progress(extension, report).await.unwrap_err();
        assert_eq!(error.kind, kind);
    }
    assert_eq!(fixture.line_count(&task).await, lines);
    fixture.queue().cancel(task.id.clone(), "operator").await.unwrap();
    let ended = fixture.wait_for_end(&task).await;
    assert_eq!((ended.state, ended.progress.unwrap().done), (TaskState::Cancelled, 1.0));
    let error = tasks.store_task_step("importer", step(running.epoch)).await.unwrap_err();
    assert_eq!((error.kind, fixture.line_count(&task).await), (ErrorKind::Conflict, lines));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_task_continues_behind_its_steps() {
    let fixture = boot().await;
    let task = fixture.submit(json!({"pages": 2, "ask": "Publish?"})).await;
    let waiting = fixture.wait_for(&task, |task| task.state == TaskState::Waiting).await;
    assert_eq!((waiting.worker, waiting.waits.questions.len()), (None, 1));
    let question = fixture.queue().open_questions(10).await.unwrap().remove(0);
    assert_eq!((&*question.title, &*question.asker), ("Publish?", IMPORT));
    let decision = |choice: &str| Decision {
        question: question.id.clone(),
        digest: question.digest.clone(),
        choice: choice.to_owned(),
        reason: None,
        decider: Decider { name: "operator".into(), surface: "test".into() },
    };
    // Only an option is an answer.
    fixture.queue().decide(decision("maybe")).await.unwrap_err();
    fixture.queue().decide(decision("no")).await.unwrap();
    let ended = fixture.wait_for_end(&task).await;
    assert_eq!(result_of(&ended), "2 pages, no");
    for page in ["PAGE 1", "PAGE 2"] {
        let text = std::fs::read_to_string(fixture.home.path(page)).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_question_fails_the_task() {
    let fixture = boot().await;
    let task = fixture.submit(json!({"pages": 1, "ask": "Publish?"})).await;
    fixture.wait_for(&task, |task| task.state == TaskState::Waiting).await;
    let question = fixture.queue().open_questions(10).await.unwrap().remove(0);
    assert!(fixture.queue().withdraw(&question.id, "no longer needed").await.unwrap());
    let ended = fixture.wait_for_end(&task).await;
    let (reason, message) = failure_of(&ended);
    assert_eq!(reason, FailureReason::Error, "{message}");
    assert!(message.contains("question `publish` was not answered"), "{message}");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_are_prepared() {
    let fixture = boot().await;
    let prepare = async |target: &str, input: Value| {
        fixture.kernel.tasks().prepare_task(target, &input.to_string()).await
    };
    assert_eq!(prepare(IMPORT, json!({"pages": 2})).await.unwrap().title, "2 pages");
    for (target, input, kind, message, hint) in [
        (IMPORT, json!({}), ErrorKind::InvalidArgument, "field `pages` is missing", "schema"),
        (IMPORT, json!({"pages": 0}), ErrorKind::InvalidArgument, "no pages", "at least one"),
        (
            "importer/imports",
            json!({}),
            ErrorKind::NotFound,
            "`importer/imports` not found",
            "did you mean importer/import",
        ),
        (
            "importr/import",
            json!({}),
            ErrorKind::NotFound,
            "`importr/import` not found",
            "did you mean importer/import",
        ),
        ("other/import", json!({}), ErrorKind::NotFound, "`other` executes no tasks", "importer/"),
        ("x", json!({}), ErrorKind::NotFound, "task kind `x` not found", "use one of: importer/"),
    ] {
        let error = prepare(target, input).await.unwrap_err();
        assert_eq!(error.kind, kind, "{target}: {error}");
        assert!(error.message.contains(message), "{target}: {error}");
        assert!(error.hint.contains(hint), "{target}: {}", error.hint);
    }
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_extension_fails_its_task() {
    let home = importer_home().file("manifests/importer/libimporter.so", "no library");
    let fixture = KernelFixture::boot(home).await;
    fixture.kernel.start_event_delivery().await.expect("no other kernel runs");
    let ended = fixture.run_task(json!({"pages": 1})).await;
    let (reason, message) = failure_of(&ended);
    assert_eq!(reason, FailureReason::Target, "{message}");
    assert!(message.starts_with("extension `importer` is rejected ("), "{message}");
    fixture.kernel.shutdown().await;
}
