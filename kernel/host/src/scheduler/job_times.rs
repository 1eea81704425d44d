//! The times of scheduled jobs: due, missed or skipped.
//!
//! Actions, stored outcomes and the current time are behind [`SchedulerEnv`], so that tests can
//! replace them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillhost_events::ScheduleRun;
use skillhost_manifest::{CronSchedule, ExtensionId, ScheduleAction, ScheduleSpec};
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{ScheduleRunOutcome, topic};

/// The interval of checks of the wall clock: it may be set, and it advances while the machine
/// sleeps, which timers do not.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// The delay after which a run counts as missed.
const LATE_MS: u64 = 60_000;
/// The limit up to which a clock set back counts as corrected, so that no run is repeated. A larger
/// step is accepted as the new time.
const SET_BACK_MS: u64 = 3_600_000;
/// The largest number of missed runs that is counted.
const MAX_MISSED_RUNS: usize = 1000;

/// A schedule of a loaded extension.
#[derive(Debug, Clone)]
pub(crate) struct ScheduledJob {
    /// The id, `extension/name`.
    pub(crate) id: String,
    pub(crate) owner: ExtensionId,
    pub(crate) schedule: ScheduleSpec,
    pub(crate) times: CronSchedule,
}

impl ScheduledJob {
    /// Creates a job from the manifest; `None` for a pattern that is never due, which parsing
    /// rejects.
    pub(crate) fn new(owner: &ExtensionId, schedule: &ScheduleSpec) -> Option<Self> {
        let times = CronSchedule::new(&schedule.cron, schedule.timezone.as_deref())?;
        let id = format!("{owner}/{}", schedule.name);
        Some(Self { id, owner: owner.clone(), schedule: schedule.clone(), times })
    }

    /// Returns the time limit of one run.
    pub(crate) fn limit(&self) -> Duration {
        let default_ms = match self.schedule.action {
            ScheduleAction::Task(_) | ScheduleAction::Tool { .. } => 60_000,
            ScheduleAction::Prompt(_) => 600_000,
        };
        Duration::from_millis(self.schedule.timeout_ms.unwrap_or(default_ms))
    }
}

/// A run of a job.
#[derive(Debug)]
pub(crate) struct JobRun {
    /// The correlation id: all calls and events of the run have it.
    pub(crate) name: String,
    /// The time of its start, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// The run is a task, which outlives the process.
    pub(crate) is_task: bool,
    /// An earlier process has started it.
    pub(crate) is_resumed: bool,
}

/// The environment of the scheduler: clock, jobs, stored runs and events.
#[async_trait]
pub(crate) trait SchedulerEnv: Send + Sync + 'static {
    /// Returns the time in milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// Returns the schedules of the loaded extensions.
    fn jobs(&self) -> Vec<ScheduledJob>;
    /// Returns the stored last run of a schedule.
    async fn last_run(&self, id: &str) -> Option<ScheduleRun>;
    /// Stores the last run of a schedule. `started_ms` is 0 where no run started.
    async fn record_run(&self, id: &str, run: ScheduleRun);
    /// Returns whether a run of a job is a task.
    fn is_task(&self, job: &ScheduledJob) -> bool;
    /// Executes a job and returns one line of its result. Of a run that is a task, only the end is
    /// awaited when it is resumed.
    async fn run_job(&self, job: &ScheduledJob, run: &JobRun) -> Result<Option<String>, CallError>;
    /// Publishes an event about a run.
    async fn publish_event(&self, topic: &str, run: &str, payload: Value);
}

/// The scheduler of a kernel.
#[derive(Default)]
pub(crate) struct Scheduler {
    /// Active runs, with the last due time that each one covers.
    running: Mutex<BTreeMap<String, u64>>,
    /// Notified when the loaded extensions have changed.
    changed: Notify,
    /// Cancelled when no new run may start.
    stop: CancellationToken,
    /// Cancelled when active runs have to end.
    abort: CancellationToken,
    tasks: TaskTracker,
}

/// A guard that marks a schedule as idle when its run ends in any way.
struct RunningJobGuard {
    scheduler: Arc<Scheduler>,
    id: String,
}

impl Drop for RunningJobGuard {
    fn drop(&mut self) {
        self.scheduler.running().remove(&self.id);
    }
}

impl Scheduler {
    /// Starts the loop, until [`Scheduler::shutdown`]. A second call, or one after the shutdown,
    /// has no effect.
    pub(crate) fn start<S: SchedulerEnv>(self: &Arc<Self>, env: Arc<S>) {
        if !self.tasks.is_empty() || self.stop.is_cancelled() {
            return;
        }
        let scheduler = Arc::clone(self);
        self.tasks.spawn(async move { scheduler.run_loop(&env).await });
    }

    /// Makes the loop read the jobs again.
    pub(crate) fn reload_jobs(&self) {
        self.changed.notify_one();
    }

    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.running().contains_key(id)
    }

    /// Prevents new runs: the kernel is about to shut down.
    pub(crate) fn stop_accepting(&self) {
        self.stop.cancel();
    }

    /// Prevents new runs, awaits the active ones, and aborts them after `limit`; their outcomes are
    /// stored and published all the same.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            self.abort.cancel();
            self.tasks.wait().await;
        }
    }

    /// Runs a schedule now, independent of its times.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] while a run is active; the error of its action.
    pub(crate) async fn run_now<S: SchedulerEnv>(
        self: &Arc<Self>,
        env: &S,
        job: &ScheduledJob,
    ) -> Result<ScheduleRunOutcome, CallError> {
        // A manual run covers no due time before it.
        let due = env.last_run(&job.id).await.map_or_else(|| env.now_ms(), |run| run.due_ms);
        let Some(running) = self.mark_running(&job.id, due) else {
            let message = format!("`{}` is already running", job.id);
            return Err(CallError::new(ErrorKind::Conflict, message)
                .with_hint(format!("wait for its end; see: {}", OperatorCommand::ShowEvents)));
        };
        let (started_ms, is_task) = (env.now_ms(), env.is_task(job));
        let run = JobRun::new(&job.id, started_ms, is_task);
        self.run(env, job, run, running).await
    }

    async fn run_loop<S: SchedulerEnv>(self: &Arc<Self>, env: &Arc<S>) {
        // The time up to which each schedule's due times are handled.
        let mut handled_until = BTreeMap::new();
        while !self.stop.is_cancelled() {
            let now = env.now_ms();
            let mut pause = POLL_INTERVAL;
            let mut present = BTreeSet::new();
            for job in env.jobs() {
                let since = match handled_until.get(&job.id) {
                    Some(&since) => since,
                    None => self.load_last_run(env, &job, now).await,
                };
                // Without this, a clock set back by a day would stop all schedules for a day.
                let since = if since > now + SET_BACK_MS { now } else { since };
                let (id, times) = (job.id.clone(), job.times.clone());
                let handled = self.process_due(env, job, since, now).await;
                if let Some(next) = times.next_after(handled) {
                    pause = pause.min(Duration::from_millis(next.saturating_sub(now).max(1)));
                }
                present.insert(id.clone());
                handled_until.insert(id, handled);
            }
            // A schedule that is loaded again later starts from its stored run.
            handled_until.retain(|id, _| present.contains(id));
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns the time up to which a schedule's due times are handled. A schedule seen for the
    /// first time starts now, so that its first run can be missed too.
    async fn load_last_run<S: SchedulerEnv>(
        self: &Arc<Self>,
        env: &Arc<S>,
        job: &ScheduledJob,
        now: u64,
    ) -> u64 {
        let id = &job.id;
        let Some(run) = env.last_run(id).await else {
            let seen = ScheduleRun { due_ms: now, started_ms: 0, ended_ms: None, error: None };
            env.record_run(id, seen).await;
            return now;
        };
        let is_open = run.started_ms != 0 && run.ended_ms.is_none() && !self.is_running(id);
        if is_open && env.is_task(job) {
            let due = run.due_ms;
            let resumed = JobRun { is_resumed: true, ..JobRun::new(id, run.started_ms, true) };
            if let Some(running) = self.mark_running(id, due) {
                self.spawn(env, job.clone(), resumed, running);
            }
            return due;
        }
        // The kernel was killed during the run, so no process stored its end.
        if is_open {
            let error = shutdown_error();
            let payload = json!({
                "schedule": id, "due": format_utc(run.due_ms), "kind": error.kind.as_str(),
                "error": error.message,
            });
            let ended = ScheduleRun { ended_ms: Some(now), error: Some(error.message), ..run };
            let due = ended.due_ms;
            env.record_run(id, ended).await;
            env.publish_event(topic::FAILED, &correlation_id(id, due), payload).await;
            return due;
        }
        run.due_ms
    }

    /// Handles every due time since `before`; returns the time up to which all are handled.
    async fn process_due<S: SchedulerEnv>(
        self: &Arc<Self>,
        env: &Arc<S>,
        job: ScheduledJob,
        since: u64,
        now: u64,
    ) -> u64 {
        let times = &job.times;
        let due = times.last_before(now).filter(|&due| due > since);
        let Some(due) = due else { return since };
        let in_time = now.saturating_sub(due) <= LATE_MS;
        let count = times.count_between(since, now, MAX_MISSED_RUNS + 1);
        let missed = if in_time { count - 1 } else { count };
        if missed > 0 {
            let last = if in_time { times.last_before(due - 1).unwrap_or(due) } else { due };
            self.report_missed(&**env, &job.id, missed, last).await;
        }
        if in_time {
            self.spawn_run(env, job, due).await;
        }
        due
    }

    async fn report_missed<S: SchedulerEnv>(&self, env: &S, id: &str, missed: usize, last: u64) {
        let missed = match missed > MAX_MISSED_RUNS {
            true => json!(format!("more than {MAX_MISSED_RUNS}")),
            false => json!(missed),
        };
        let times = missed.as_str().map_or_else(|| missed.to_string(), str::to_owned);
        tracing::warn!(schedule = id, missed = times, last = format_utc(last), "runs were missed");
        let run = ScheduleRun {
            due_ms: last,
            started_ms: 0,
            ended_ms: None,
            error: Some(format!("missed ({times}) while the kernel did not run")),
        };
        // An active run stores its own record at its end, which would overwrite this one.
        if !self.is_running(id) {
            env.record_run(id, run).await;
        }
        let payload = json!({ "schedule": id, "missed": missed, "last": format_utc(last) });
        env.publish_event(topic::MISSED, &correlation_id(id, last), payload).await;
    }

    async fn spawn_run<S: SchedulerEnv>(
        self: &Arc<Self>,
        env: &Arc<S>,
        job: ScheduledJob,
        due: u64,
    ) {
        // Before the first await, so that the next due time finds the run active.
        let Some(running) = self.mark_running(&job.id, due) else {
            let reason = "the run before is still going";
            tracing::warn!(schedule = job.id, reason, "a run was skipped");
            let payload = json!({ "schedule": job.id, "due": format_utc(due), "reason": reason });
            return env.publish_event(topic::SKIPPED, &correlation_id(&job.id, due), payload).await;
        };
        let run = JobRun::new(&job.id, env.now_ms(), env.is_task(&job));
        self.spawn(env, job, run, running);
    }

    fn spawn<S: SchedulerEnv>(
        self: &Arc<Self>,
        env: &Arc<S>,
        job: ScheduledJob,
        run: JobRun,
        running: RunningJobGuard,
    ) {
        let (scheduler, env) = (Arc::clone(self), Arc::clone(env));
        self.tasks.spawn(async move {
            // The error has been stored and published.
            let _ = scheduler.run(&*env, &job, run, running).await;
        });
    }

    /// Marks a schedule as running; `None` while a run is active, which then covers this due time
    /// too.
    fn mark_running(self: &Arc<Self>, id: &str, due: u64) -> Option<RunningJobGuard> {
        let mut running = self.running();
        if let Some(handled_until) = running.get_mut(id) {
            *handled_until = due.max(*handled_until);
            return None;
        }
        running.insert(id.to_owned(), due);
        Some(RunningJobGuard { scheduler: Arc::clone(self), id: id.to_owned() })
    }

    /// Executes one run, and stores and publishes its outcome.
    async fn run<S: SchedulerEnv>(
        &self,
        env: &S,
        job: &ScheduledJob,
        run: JobRun,
        running: RunningJobGuard,
    ) -> Result<ScheduleRunOutcome, CallError> {
        let id = &job.id;
        let due_ms = self.running().get(id).copied().unwrap_or_default();
        let JobRun { name, started_ms, is_resumed, .. } = &run;
        let started_ms = *started_ms;
        if !is_resumed {
            let started = ScheduleRun { due_ms, started_ms, ended_ms: None, error: None };
            env.record_run(id, started).await;
        }
        let Some(outcome) = self.await_end(env, job, &run).await else {
            let message = "kernel is shutting down; the next one follows the task of the run";
            return Err(CallError::new(ErrorKind::Cancelled, message)
                .with_hint(format!("see: {}", OperatorCommand::ShowStatus)));
        };
        let ended_ms = env.now_ms();
        let handled_until = self.running().get(id).copied().unwrap_or(due_ms);
        let error = outcome.as_ref().err().map(|error| error.message.clone());
        let run =
            ScheduleRun { due_ms: handled_until, started_ms, ended_ms: Some(ended_ms), error };
        env.record_run(id, run).await;
        // The next run may start before this one is published.
        drop(running);
        let ms = ended_ms.saturating_sub(started_ms);
        let mut payload = json!({ "schedule": id, "due": format_utc(due_ms), "ms": ms });
        match &outcome {
            Ok(line) => {
                if let Some(line) = line {
                    payload["result"] = json!(line);
                }
                env.publish_event(topic::RAN, name, payload).await;
            }
            Err(error) => {
                tracing::warn!(schedule = id, %error, "a run failed");
                payload["kind"] = json!(error.kind.as_str());
                payload["error"] = json!(error.message);
                if !error.hint.is_empty() {
                    payload["hint"] = json!(error.hint);
                }
                env.publish_event(topic::FAILED, name, payload).await;
            }
        }
        outcome.map(|result| ScheduleRunOutcome { schedule: id.clone(), ms, result })
    }

    /// Executes a run within its limit. A task has no limit here, and no end when the kernel stops:
    /// `None`; the next kernel resumes it.
    async fn await_end<S: SchedulerEnv>(
        &self,
        env: &S,
        job: &ScheduledJob,
        run: &JobRun,
    ) -> Option<Result<Option<String>, CallError>> {
        let limit = job.limit();
        let work = env.run_job(job, run);
        if run.is_task {
            return self.stop.run_until_cancelled(work).await;
        }
        Some(tokio::select! {
            // Checked first, so that a run that ends at the same moment is not aborted in part.
            biased;
            () = self.abort.cancelled() => Err(shutdown_error()),
            output = tokio::time::timeout(limit, work) => {
                output.unwrap_or_else(|_| Err(CallError::new(
                    ErrorKind::Timeout,
                    format!("timed out after {} ms", limit.as_millis()),
                ).with_hint("raise `timeout_ms` of the schedule")))
            }
        })
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobRun {
    fn new(id: &str, started_ms: u64, is_task: bool) -> Self {
        let name = correlation_id(id, started_ms);
        Self { name, started_ms, is_task, is_resumed: false }
    }
}

/// Returns the error of a run that ended with its kernel.
pub(super) fn shutdown_error() -> CallError {
    CallError::new(ErrorKind::Cancelled, "kernel ended during the run")
}

/// Returns the correlation id of one run: all its calls and events have it.
fn correlation_id(id: &str, ms: u64) -> String {
    format!("schedule:{id}@{}", format_utc(ms))
}

/// Formats a time for events: `2026-11-22T13:30:00Z`.
pub(super) fn format_utc(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(String::new, |time| time.to_string())
}

#[cfg(test)]
mod tests;
