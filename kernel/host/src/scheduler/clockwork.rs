//! When each schedule runs: which times have come, which were missed, which have to wait.
//!
//! Nothing here knows what a run does, where its outcome is kept or what the time is: that is the
//! [`SchedulerEnv`]'s business, so that tests can play it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillhost_contract::payload::ErrorKind;
use skillhost_events::ScheduleRun;
use skillhost_manifest::{CronSchedule, ExtensionId, ScheduleAction, ScheduleSpec};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{ScheduleRunOutcome, topic};
use crate::error::CallError;

/// The wall clock is looked at this often at least: it may be set, and it goes on while the machine
/// sleeps, which timers do not.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// A run that is later than this is missed.
const LATE_MS: u64 = 60_000;
/// A clock that was set back further than this is believed; less is a correction, after which
/// nothing comes twice.
const SET_BACK_MS: u64 = 3_600_000;
/// Missed runs are counted up to here.
const MAX_MISSED_RUNS: usize = 1000;

/// A schedule of something that is loaded.
#[derive(Debug)]
pub(crate) struct ScheduledJob {
    /// `extension/name`.
    pub(crate) id: String,
    pub(crate) owner: ExtensionId,
    pub(crate) schedule: ScheduleSpec,
    pub(crate) times: CronSchedule,
}

impl ScheduledJob {
    /// As the manifest says; what can never be due, which `parse` lets nobody write, is nothing.
    pub(crate) fn new(owner: &ExtensionId, schedule: &ScheduleSpec) -> Option<Self> {
        let times = CronSchedule::new(&schedule.cron, schedule.timezone.as_deref())?;
        let id = format!("{owner}/{}", schedule.name);
        Some(Self { id, owner: owner.clone(), schedule: schedule.clone(), times })
    }

    /// How long one run may take.
    pub(crate) fn limit(&self) -> Duration {
        let usual = match self.schedule.action {
            ScheduleAction::Task(_) | ScheduleAction::Tool { .. } => 60_000,
            ScheduleAction::Prompt(_) => 600_000,
        };
        Duration::from_millis(self.schedule.timeout_ms.unwrap_or(usual))
    }
}

/// The world in which schedules run.
#[async_trait]
pub(crate) trait SchedulerEnv: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;
    /// The schedules of what is loaded just now.
    fn jobs(&self) -> Vec<ScheduledJob>;
    /// What is known of a schedule from before.
    async fn last_run(&self, id: &str) -> Option<ScheduleRun>;
    /// Keeps what became of a schedule. `started_ms` is 0 where nothing began.
    async fn record_run(&self, id: &str, run: ScheduleRun);
    /// Does what a schedule says; a line about it. `run` names this run in what comes of it.
    async fn run_job(&self, planned: &ScheduledJob, run: &str)
    -> Result<Option<String>, CallError>;
    /// Publishes an event about a run.
    async fn publish_event(&self, topic: &str, run: &str, payload: Value);
}

/// The schedules of a kernel while it runs.
#[derive(Default)]
pub(crate) struct Scheduler {
    /// What runs, with the last time that is settled by it.
    running: Mutex<BTreeMap<String, u64>>,
    /// Something else is loaded.
    changed: Notify,
    /// Nothing new begins.
    stop: CancellationToken,
    /// What still runs is given up.
    give_up: CancellationToken,
    tasks: TaskTracker,
}

/// Takes a schedule out of those that run, however its run ends.
struct RunningJobGuard {
    clockwork: Arc<Scheduler>,
    id: String,
}

impl Drop for RunningJobGuard {
    fn drop(&mut self) {
        self.clockwork.running().remove(&self.id);
    }
}

impl Scheduler {
    /// Begins to watch the clock, until [`Scheduler::shutdown`]. A second call, or one after the end, does
    /// nothing.
    pub(crate) fn start<S: SchedulerEnv>(self: &Arc<Self>, stage: Arc<S>) {
        if !self.tasks.is_empty() || self.stop.is_cancelled() {
            return;
        }
        let clockwork = Arc::clone(self);
        self.tasks.spawn(async move { clockwork.run_loop(&stage).await });
    }

    /// What is loaded has changed.
    pub(crate) fn reload_jobs(&self) {
        self.changed.notify_one();
    }

    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.running().contains_key(id)
    }

    /// Lets nothing new begin: the kernel is about to end.
    pub(crate) fn stop_accepting(&self) {
        self.stop.cancel();
    }

    /// Lets nothing new begin, waits for what runs, and gives it up after `limit`; then its outcome
    /// is kept and told all the same.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            self.give_up.cancel();
            self.tasks.wait().await;
        }
    }

    /// Runs a schedule now, whatever the time is.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] while it runs already; what its action says.
    pub(crate) async fn run_now<S: SchedulerEnv>(
        self: &Arc<Self>,
        stage: &S,
        planned: &ScheduledJob,
    ) -> Result<ScheduleRunOutcome, CallError> {
        // A run by hand settles nothing that was due before.
        let due =
            stage.last_run(&planned.id).await.map_or_else(|| stage.now_ms(), |run| run.due_ms);
        let Some(running) = self.mark_running(&planned.id, due) else {
            let message = format!("`{}` is running already", planned.id);
            return Err(CallError::new(ErrorKind::Conflict, message)
                .with_hint("wait for its end; skillhost events tail shows it"));
        };
        self.run(stage, planned, running).await
    }

    async fn run_loop<S: SchedulerEnv>(self: &Arc<Self>, stage: &Arc<S>) {
        // Up to when each schedule is settled.
        let mut settled = BTreeMap::new();
        while !self.stop.is_cancelled() {
            let now = stage.now_ms();
            let mut nap = POLL_INTERVAL;
            let mut there = BTreeSet::new();
            for planned in stage.jobs() {
                let before = match settled.get(&planned.id) {
                    Some(&before) => before,
                    None => self.load_last_run(&**stage, &planned, now).await,
                };
                let before = if before > now + SET_BACK_MS { now } else { before };
                let (id, times) = (planned.id.clone(), planned.times.clone());
                let until = self.process_due(stage, planned, before, now).await;
                if let Some(next) = times.next_after(until) {
                    nap = nap.min(Duration::from_millis(next.saturating_sub(now).max(1)));
                }
                there.insert(id.clone());
                settled.insert(id, until);
            }
            settled.retain(|id, _| there.contains(id));
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    /// Finds out up to when a schedule is settled that was not seen since the start. One that was
    /// never seen at all is from now on, so that the first run can be missed too.
    async fn load_last_run<S: SchedulerEnv>(
        &self,
        stage: &S,
        planned: &ScheduledJob,
        now: u64,
    ) -> u64 {
        let id = &planned.id;
        let Some(run) = stage.last_run(id).await else {
            let seen = ScheduleRun { due_ms: now, started_ms: 0, ended_ms: None, error: None };
            stage.record_run(id, seen).await;
            return now;
        };
        if run.started_ms != 0 && run.ended_ms.is_none() && !self.is_running(id) {
            let error = shutdown_error();
            let payload = json!({
                "schedule": id, "due": format_utc(run.due_ms), "kind": error.kind.as_str(),
                "error": error.message,
            });
            let ended = ScheduleRun { ended_ms: Some(now), error: Some(error.message), ..run };
            let due = ended.due_ms;
            stage.record_run(id, ended).await;
            stage.publish_event(topic::FAILED, &run_id(id, due), payload).await;
            return due;
        }
        run.due_ms
    }

    /// Deals with every time that has come since `before`; returns up to when all is settled.
    async fn process_due<S: SchedulerEnv>(
        self: &Arc<Self>,
        stage: &Arc<S>,
        planned: ScheduledJob,
        before: u64,
        now: u64,
    ) -> u64 {
        let times = &planned.times;
        let due = times.last_before(now).filter(|&due| due > before);
        let Some(due) = due else { return before };
        let in_time = now.saturating_sub(due) <= LATE_MS;
        let count = times.count_between(before, now, MAX_MISSED_RUNS + 1);
        let missed = if in_time { count - 1 } else { count };
        if missed > 0 {
            let last = if in_time { times.last_before(due - 1).unwrap_or(due) } else { due };
            self.report_missed(&**stage, &planned.id, missed, last).await;
        }
        if in_time {
            self.spawn_run(stage, planned, due).await;
        }
        due
    }

    async fn report_missed<S: SchedulerEnv>(&self, stage: &S, id: &str, missed: usize, last: u64) {
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
        if !self.is_running(id) {
            stage.record_run(id, run).await;
        }
        let payload = json!({ "schedule": id, "missed": missed, "last": format_utc(last) });
        stage.publish_event(topic::MISSED, &run_id(id, last), payload).await;
    }

    async fn spawn_run<S: SchedulerEnv>(
        self: &Arc<Self>,
        stage: &Arc<S>,
        planned: ScheduledJob,
        due: u64,
    ) {
        // Before anything is awaited: the next time finds it running.
        let Some(running) = self.mark_running(&planned.id, due) else {
            let reason = "the run before is still going";
            tracing::warn!(schedule = planned.id, reason, "a run was skipped");
            let payload =
                json!({ "schedule": planned.id, "due": format_utc(due), "reason": reason });
            return stage.publish_event(topic::SKIPPED, &run_id(&planned.id, due), payload).await;
        };
        let (clockwork, stage) = (Arc::clone(self), Arc::clone(stage));
        self.tasks.spawn(async move {
            // What went wrong has been kept and told.
            let _ = clockwork.run(&*stage, &planned, running).await;
        });
    }

    /// Marks a schedule as running; nothing where it runs already, which then settles this time too.
    fn mark_running(self: &Arc<Self>, id: &str, due: u64) -> Option<RunningJobGuard> {
        let mut running = self.running();
        if let Some(settled) = running.get_mut(id) {
            *settled = due.max(*settled);
            return None;
        }
        running.insert(id.to_owned(), due);
        Some(RunningJobGuard { clockwork: Arc::clone(self), id: id.to_owned() })
    }

    /// One run: what it does, within its limit, and what becomes of it.
    async fn run<S: SchedulerEnv>(
        &self,
        stage: &S,
        planned: &ScheduledJob,
        running: RunningJobGuard,
    ) -> Result<ScheduleRunOutcome, CallError> {
        let id = &planned.id;
        let due_ms = self.running().get(id).copied().unwrap_or_default();
        let started_ms = stage.now_ms();
        let begun = ScheduleRun { due_ms, started_ms, ended_ms: None, error: None };
        stage.record_run(id, begun).await;
        let (limit, name) = (planned.limit(), run_id(id, started_ms));
        let outcome = tokio::select! {
            biased;
            () = self.give_up.cancelled() => Err(shutdown_error()),
            done = tokio::time::timeout(limit, stage.run_job(planned, &name)) => {
                done.unwrap_or_else(|_| Err(CallError::new(
                    ErrorKind::Timeout,
                    format!("did not end within {} ms", limit.as_millis()),
                ).with_hint("allow it more with `timeout_ms`")))
            }
        };
        let ended_ms = stage.now_ms();
        let settled = self.running().get(id).copied().unwrap_or(due_ms);
        let error = outcome.as_ref().err().map(|error| error.message.clone());
        let run = ScheduleRun { due_ms: settled, started_ms, ended_ms: Some(ended_ms), error };
        stage.record_run(id, run).await;
        // The next one may begin before this one is told.
        drop(running);
        let ms = ended_ms.saturating_sub(started_ms);
        let mut payload = json!({ "schedule": id, "due": format_utc(due_ms), "ms": ms });
        match &outcome {
            Ok(line) => {
                if let Some(line) = line {
                    payload["result"] = json!(line);
                }
                stage.publish_event(topic::RAN, &name, payload).await;
            }
            Err(error) => {
                tracing::warn!(schedule = id, %error, "a run failed");
                payload["kind"] = json!(error.kind.as_str());
                payload["error"] = json!(error.message);
                stage.publish_event(topic::FAILED, &name, payload).await;
            }
        }
        outcome.map(|result| ScheduleRunOutcome { schedule: id.clone(), ms, result })
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shutdown_error() -> CallError {
    CallError::new(ErrorKind::Cancelled, "the kernel ended while it ran")
}

/// What names one run of a schedule: everything that it causes carries this.
fn run_id(id: &str, ms: u64) -> String {
    format!("schedule:{id}@{}", format_utc(ms))
}

/// A time as events have it: `2026-11-22T13:30:00Z`.
pub(super) fn format_utc(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(String::new, |time| time.to_string())
}

#[cfg(test)]
mod tests;
