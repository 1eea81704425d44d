//! The transitions of one task, without any other row.

use crate::amounts::TaskAmounts;
use crate::ids::TaskId;
use crate::task::{FailureReason, Task, TaskOutcome, TaskProgress, TaskState, TaskWaits, WaitMode};

/// The number of attempts without a new line after which a task is lost.
const MAX_STALLED: u32 = 3;
/// The number of attempts after which a task is lost.
const MAX_ATTEMPTS: u32 = 100;
/// The number of retries after transient errors.
const MAX_RETRIES: u32 = 8;
/// The pause before the first retry; each further one is three times as long.
const FIRST_PAUSE_MS: u64 = 5_000;
/// The longest pause before a retry.
pub(crate) const MAX_PAUSE_MS: u64 = 60 * 60 * 1000;

/// An input of the state machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TaskInput<'a> {
    /// A worker claims the task.
    Claim { worker: &'a str, lease_end_ms: u64 },
    /// The worker is alive.
    Renew { lease_end_ms: u64 },
    /// The lease is over, or the worker's process has ended.
    LoseWorker,
    /// The run has stored lines and spent amounts.
    Record { lines: u64, spent: TaskAmounts, returned: TaskAmounts, progress: Option<TaskProgress> },
    /// The run stops to wait.
    Park { waits: TaskWaits },
    /// A question is no longer open.
    CloseQuestion { question: &'a str },
    /// A task that is waited for has ended.
    EndOther { task: &'a TaskId, completed: bool },
    /// The time that is waited for has come.
    ReachTime,
    /// The pause before a retry is over.
    EndPause,
    /// A transient error.
    Retry { error: &'a str, jitter: i16 },
    /// The worker stops in order.
    Stop,
    /// A request to cancel the task.
    RequestCancel { by: &'a str },
    /// The task ends.
    End { outcome: TaskOutcome },
}

/// The consequence of a transition for other rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TaskEffect {
    /// None.
    None,
    /// An attempt has begun.
    AttemptBegan,
    /// The attempt of an epoch has ended.
    AttemptEnded { epoch: u64, how: &'static str, error: Option<String> },
    /// The machine requires that the task ends.
    Ends(TaskOutcome),
    /// The task has ended; `epoch` is that of the attempt that ended with it.
    Ended { epoch: Option<u64> },
}

/// The error of an input that the state does not permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepRefusal;

/// Makes one transition. A refused input leaves the task as it was.
///
/// # Errors
/// [`StepRefusal`] where the state has no transition for the input.
pub(crate) fn step(
    task: &mut Task,
    input: TaskInput<'_>,
    now_ms: u64,
) -> Result<TaskEffect, StepRefusal> {
    let before = task.state;
    let effect = match (before, input) {
        (TaskState::Ready, TaskInput::Claim { worker, lease_end_ms }) => {
            claim(task, worker, lease_end_ms, now_ms)
        }
        (TaskState::Running, TaskInput::Renew { lease_end_ms }) => {
            task.lease_ms = Some(lease_end_ms);
            // A heartbeat is no transition, so the time of the last one stays.
            return Ok(TaskEffect::None);
        }
        (TaskState::Running, TaskInput::LoseWorker) => lose_worker(task),
        (TaskState::Running, TaskInput::Record { lines, spent, returned, progress }) => {
            // Only new lines are progress: amounts can be spent in a circle.
            task.lines += lines;
            if lines > 0 {
                task.stalled = 0;
            }
            task.spent = task.spent.saturating_add(spent).saturating_sub(returned);
            task.progress = progress.or_else(|| task.progress.take());
            return Ok(TaskEffect::None);
        }
        (TaskState::Running, TaskInput::Park { waits }) => match task.cancel.take() {
            Some(by) => TaskEffect::Ends(TaskOutcome::Cancelled { by }),
            None => {
                task.waits = waits;
                release(task, TaskState::Waiting, "waiting", None)
            }
        },
        (TaskState::Running, TaskInput::Retry { error, jitter }) => {
            retry(task, error, jitter, now_ms)
        }
        (TaskState::Running, TaskInput::Stop) => match task.cancel.take() {
            Some(by) => TaskEffect::Ends(TaskOutcome::Cancelled { by }),
            None => {
                // A restart of the kernel is no sign of a faulty task.
                task.attempt = task.attempt.saturating_sub(1);
                task.due_ms = 0;
                release(task, TaskState::Ready, "stop", None)
            }
        },
        (TaskState::Running, TaskInput::RequestCancel { by }) => {
            // The first request is the one that is reported.
            task.cancel.get_or_insert_with(|| by.to_owned());
            TaskEffect::None
        }
        (TaskState::Ready | TaskState::Waiting, TaskInput::RequestCancel { by }) => {
            TaskEffect::Ends(TaskOutcome::Cancelled { by: by.to_owned() })
        }
        (TaskState::Waiting, TaskInput::CloseQuestion { question }) => {
            task.waits.questions.retain(|waited| waited != question);
            wake_if_satisfied(task)
        }
        (TaskState::Waiting, TaskInput::EndOther { task: other, completed }) => {
            end_other(task, other, completed)
        }
        (TaskState::Waiting, TaskInput::ReachTime) => {
            task.waits.until_ms = None;
            wake_if_satisfied(task)
        }
        (TaskState::Ready, TaskInput::EndPause) if task.is_backoff => {
            (task.due_ms, task.is_backoff) = (0, false);
            TaskEffect::None
        }
        (
            TaskState::Ready | TaskState::Running | TaskState::Waiting,
            TaskInput::End { outcome },
        ) => end(task, outcome, now_ms),
        _ => return Err(StepRefusal),
    };
    task.changed_ms = now_ms;
    Ok(effect)
}

fn claim(task: &mut Task, worker: &str, lease_end_ms: u64, now_ms: u64) -> TaskEffect {
    // Before the claim, so that an attempt over the limit never starts.
    if task.attempt >= MAX_ATTEMPTS {
        let message = format!("the task was started {MAX_ATTEMPTS} times without an end");
        return TaskEffect::Ends(lost_outcome(message));
    }
    task.state = TaskState::Running;
    (task.due_ms, task.is_backoff) = (0, false);
    // From here on every write of an earlier claim is refused.
    task.epoch += 1;
    task.attempt += 1;
    task.worker = Some(worker.to_owned());
    task.lease_ms = Some(lease_end_ms);
    task.started_ms.get_or_insert(now_ms);
    TaskEffect::AttemptBegan
}

fn lose_worker(task: &mut Task) -> TaskEffect {
    if let Some(by) = task.cancel.take() {
        return TaskEffect::Ends(TaskOutcome::Cancelled { by });
    }
    // A task that ends its worker each time would do so forever.
    task.stalled += 1;
    if task.stalled >= MAX_STALLED {
        let message = format!("the worker was lost {MAX_STALLED} times without progress");
        return TaskEffect::Ends(lost_outcome(message));
    }
    task.due_ms = 0;
    release(task, TaskState::Ready, "lost", None)
}

fn lost_outcome(message: String) -> TaskOutcome {
    TaskOutcome::Failed {
        reason: FailureReason::Lost,
        message,
        hint: "see the attempts, correct the cause, and retry the task".to_owned(),
    }
}

fn retry(task: &mut Task, error: &str, jitter: i16, now_ms: u64) -> TaskEffect {
    if let Some(by) = task.cancel.take() {
        return TaskEffect::Ends(TaskOutcome::Cancelled { by });
    }
    // The pauses until then are about two and a half hours.
    if task.retries >= MAX_RETRIES {
        let message = format!("{error} (after {MAX_RETRIES} retries)");
        return TaskEffect::Ends(TaskOutcome::failed(FailureReason::Error, message));
    }
    let pause = retry_pause_ms(task.retries, jitter);
    task.retries += 1;
    (task.due_ms, task.is_backoff) = (now_ms.saturating_add(pause), true);
    release(task, TaskState::Ready, "retry", Some(error.to_owned()))
}

/// Returns the pause after a number of retries: 5·3ⁿ seconds, changed by thousandths, at most an
/// hour.
fn retry_pause_ms(retries: u32, jitter: i16) -> u64 {
    let pause = FIRST_PAUSE_MS.saturating_mul(3u64.saturating_pow(retries)).min(MAX_PAUSE_MS);
    let thousandths = u64::try_from(1000 + i64::from(jitter.clamp(-200, 200))).unwrap_or(1000);
    (pause.saturating_mul(thousandths) / 1000).min(MAX_PAUSE_MS)
}

fn end_other(task: &mut Task, other: &TaskId, completed: bool) -> TaskEffect {
    // Unlike a task that is waited for, whose failure the waiting run reads itself.
    if task.waits.after.contains(other) && !completed {
        return TaskEffect::Ends(TaskOutcome::failed(
            FailureReason::Dependency,
            format!("task `{other}`, which it comes after, did not complete"),
        ));
    }
    task.waits.after.retain(|waited| waited != other);
    let waited = task.waits.tasks.len();
    task.waits.tasks.retain(|waited| waited != other);
    if task.waits.mode == WaitMode::Any && task.waits.tasks.len() < waited {
        task.waits.tasks.clear();
    }
    wake_if_satisfied(task)
}

fn wake_if_satisfied(task: &mut Task) -> TaskEffect {
    if task.waits.is_empty() {
        task.state = TaskState::Ready;
        // With it the mode, which the next wait sets again.
        task.waits = TaskWaits::default();
    }
    TaskEffect::None
}

/// Ends the claim and returns the end of its attempt.
fn release(
    task: &mut Task,
    state: TaskState,
    how: &'static str,
    error: Option<String>,
) -> TaskEffect {
    task.state = state;
    (task.worker, task.lease_ms) = (None, None);
    TaskEffect::AttemptEnded { epoch: task.epoch, how, error }
}

fn end(task: &mut Task, outcome: TaskOutcome, now_ms: u64) -> TaskEffect {
    // A task that did not run has no attempt to end.
    let epoch = (task.state == TaskState::Running).then_some(task.epoch);
    task.state = outcome.state();
    (task.worker, task.lease_ms, task.waits) = (None, None, TaskWaits::default());
    (task.outcome, task.ended_ms) = (Some(outcome), Some(now_ms));
    TaskEffect::Ended { epoch }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transition::testing::new_task;

    fn running() -> Task {
        let mut task = new_task();
        let claim = TaskInput::Claim { worker: "w", lease_end_ms: 30 };
        assert_eq!(step(&mut task, claim, 1), Ok(TaskEffect::AttemptBegan));
        task
    }

    fn record_line<'a>() -> TaskInput<'a> {
        let (spent, returned) = (TaskAmounts::default(), TaskAmounts::default());
        TaskInput::Record { lines: 1, spent, returned, progress: None }
    }

    #[test]
    fn estimate_is_replaced_by_amount() {
        let mut task = running();
        let tokens = |tokens| TaskAmounts { tokens, ..TaskAmounts::default() };
        let mut record = |spent, returned| {
            let (spent, returned) = (tokens(spent), tokens(returned));
            let input = TaskInput::Record { lines: 0, spent, returned, progress: None };
            step(&mut task, input, 2).unwrap();
            task.spent.tokens
        };
        assert_eq!([record(900, 0), record(40, 900), record(0, 99)], [900, 40, 0]);
    }

    #[test]
    fn terminal_state_refuses_every_input() {
        let mut task = running();
        let outcome = TaskOutcome::Cancelled { by: "operator".into() };
        step(&mut task, TaskInput::End { outcome: outcome.clone() }, 2).unwrap();
        let before = task.clone();
        let inputs = [
            TaskInput::Claim { worker: "w", lease_end_ms: 1 },
            TaskInput::Renew { lease_end_ms: 1 },
            TaskInput::LoseWorker,
            record_line(),
            TaskInput::Park { waits: TaskWaits::default() },
            TaskInput::CloseQuestion { question: "q" },
            TaskInput::EndOther { task: &before.id, completed: true },
            TaskInput::ReachTime,
            TaskInput::EndPause,
            TaskInput::Retry { error: "e", jitter: 0 },
            TaskInput::Stop,
            TaskInput::RequestCancel { by: "operator" },
            TaskInput::End { outcome },
        ];
        for input in inputs {
            assert_eq!(step(&mut task, input, 3), Err(StepRefusal));
            assert_eq!(task, before);
        }
    }

    #[test]
    fn third_lost_worker_without_line_fails() {
        let mut task = running();
        for _ in 0..2 {
            step(&mut task, TaskInput::LoseWorker, 2).unwrap();
            step(&mut task, TaskInput::Claim { worker: "w", lease_end_ms: 9 }, 3).unwrap();
        }
        let effect = step(&mut task, TaskInput::LoseWorker, 4).unwrap();
        assert!(matches!(effect, TaskEffect::Ends(TaskOutcome::Failed { .. })), "{effect:?}");
        let mut task = running();
        for _ in 0..20 {
            step(&mut task, record_line(), 2).unwrap();
            let effect = step(&mut task, TaskInput::LoseWorker, 2).unwrap();
            assert!(matches!(effect, TaskEffect::AttemptEnded { .. }), "{effect:?}");
            step(&mut task, TaskInput::Claim { worker: "w", lease_end_ms: 9 }, 3).unwrap();
        }
    }

    #[test]
    fn hundred_attempts_are_the_limit() {
        let mut task = new_task();
        task.attempt = MAX_ATTEMPTS;
        let effect = step(&mut task, TaskInput::Claim { worker: "w", lease_end_ms: 9 }, 3).unwrap();
        assert!(matches!(effect, TaskEffect::Ends(_)), "{effect:?}");
    }

    #[test]
    fn stop_is_not_an_attempt() {
        let mut task = running();
        step(&mut task, TaskInput::Stop, 2).unwrap();
        assert_eq!((task.attempt, task.epoch, task.state), (0, 1, TaskState::Ready));
    }

    #[test]
    fn retry_pauses_grow_to_an_hour() {
        let pauses: Vec<_> = (0..8).map(|n| retry_pause_ms(n, 0) / 1000).collect();
        assert_eq!(pauses, [5, 15, 45, 135, 405, 1215, 3600, 3600]);
        assert_eq!((retry_pause_ms(0, -200), retry_pause_ms(0, 200)), (4_000, 6_000));
        assert_eq!((retry_pause_ms(9, 200), retry_pause_ms(u32::MAX, 0)), (3_600_000, 3_600_000));
        let mut task = running();
        for _ in 0..MAX_RETRIES {
            step(&mut task, TaskInput::Retry { error: "e", jitter: 0 }, 2).unwrap();
            step(&mut task, TaskInput::Claim { worker: "w", lease_end_ms: 9 }, 3).unwrap();
        }
        let effect = step(&mut task, TaskInput::Retry { error: "e", jitter: 0 }, 2).unwrap();
        assert!(matches!(effect, TaskEffect::Ends(_)), "{effect:?}");
    }

    #[test]
    fn waits_end_when_every_part_has() {
        let mut task = running();
        let (a, b) = (TaskId::generate(), TaskId::generate());
        let waits = TaskWaits {
            questions: vec!["q".into()],
            tasks: vec![a.clone(), b.clone()],
            until_ms: Some(9),
            ..TaskWaits::default()
        };
        step(&mut task, TaskInput::Park { waits }, 2).unwrap();
        step(&mut task, TaskInput::CloseQuestion { question: "q" }, 3).unwrap();
        step(&mut task, TaskInput::EndOther { task: &a, completed: false }, 3).unwrap();
        step(&mut task, TaskInput::ReachTime, 3).unwrap();
        assert_eq!(task.state, TaskState::Waiting);
        step(&mut task, TaskInput::EndOther { task: &b, completed: true }, 3).unwrap();
        assert_eq!(task.state, TaskState::Ready);
    }

    #[test]
    fn any_mode_wakes_at_first_end() {
        let mut task = running();
        let (a, b) = (TaskId::generate(), TaskId::generate());
        let tasks = vec![a.clone(), b];
        let waits = TaskWaits { tasks, mode: WaitMode::Any, ..TaskWaits::default() };
        step(&mut task, TaskInput::Park { waits }, 2).unwrap();
        step(&mut task, TaskInput::EndOther { task: &a, completed: true }, 3).unwrap();
        assert_eq!((task.state, task.waits.is_empty()), (TaskState::Ready, true));
    }

    #[test]
    fn failed_dependency_ends_the_task() {
        let mut task = new_task();
        let other = TaskId::generate();
        task.state = TaskState::Waiting;
        task.waits.after = vec![other.clone()];
        let input = TaskInput::EndOther { task: &other, completed: false };
        let effect = step(&mut task, input, 3).unwrap();
        let TaskEffect::Ends(TaskOutcome::Failed { reason, .. }) = effect else {
            panic!("{effect:?}")
        };
        assert_eq!(reason, FailureReason::Dependency);
    }

    #[test]
    fn cancel_marks_running_task_only() {
        let mut task = running();
        assert_eq!(step(&mut task, TaskInput::RequestCancel { by: "a" }, 2), Ok(TaskEffect::None));
        step(&mut task, TaskInput::RequestCancel { by: "b" }, 2).unwrap();
        assert_eq!(task.cancel.as_deref(), Some("a"));
        let parked = step(&mut task, TaskInput::Park { waits: TaskWaits::default() }, 3).unwrap();
        assert_eq!(parked, TaskEffect::Ends(TaskOutcome::Cancelled { by: "a".into() }));
    }
}
