//! The loop of the engine.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use skillhost_tasks::{
    ClaimFilter, ClaimedTask, FailureReason, HeartbeatStatus, LostWorkers, QueueError,
    QueueErrorKind, ReleaseReason, TaskAmounts, TaskClaim, TaskId, TaskKind, TaskOutcome,
    TaskState, WaitOutcome,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine_parts::EngineParts;
use crate::outbox_relay::{RelayError, relay_outbox};
use crate::task_lease::TaskLease;
use crate::task_run::{RunEnd, TaskExecutor, TaskRun};

/// The longest interval of sweeps, and the longest wait for a change.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The wait for the lock that permits to claim.
const LOCK_INTERVAL: Duration = Duration::from_millis(500);
/// The first and the longest pause after an error of the store.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The time that a cancelled run has to stop by itself.
const CANCEL_LIMIT: Duration = Duration::from_millis(500);

/// The loop of the engine, which runs as one task per process.
pub(crate) struct WorkLoop {
    engine: Arc<EngineParts>,
    /// The name of this worker in the attempts.
    worker: String,
    /// The claims of an earlier process are released.
    has_recovered: bool,
    running: JoinSet<TaskId>,
    leases: HashMap<TaskId, Arc<TaskLease>>,
    /// The running tasks whose kind has workers of its own.
    separate: HashMap<TaskId, TaskKind>,
    last_heartbeat: Instant,
    last_sweep: Instant,
    /// The last claim found fewer tasks than there were workers.
    is_drained: bool,
}

impl WorkLoop {
    pub(crate) fn new(engine: Arc<EngineParts>) -> Self {
        let now = Instant::now();
        Self {
            engine,
            worker: format!("{}-{}", std::process::id(), TaskId::generate()),
            has_recovered: false,
            running: JoinSet::new(),
            leases: HashMap::new(),
            separate: HashMap::new(),
            last_heartbeat: now,
            last_sweep: now,
            is_drained: false,
        }
    }

    /// Works until `stop` is cancelled and no task runs, or until `abandon` is.
    pub(crate) async fn run(mut self, stop: CancellationToken, abandon: CancellationToken) {
        let changes = ChangeWatch::start(&self.engine);
        let mut pause = FIRST_PAUSE;
        while !(stop.is_cancelled() && self.running.is_empty()) {
            let wait = match self.work_once(stop.is_cancelled()).await {
                Ok(next) => {
                    self.engine.note_success();
                    pause = FIRST_PAUSE;
                    next
                }
                Err(error) => {
                    self.engine.note_failure(&error);
                    let wait = pause;
                    pause = (pause * 2).min(MAX_PAUSE);
                    wait
                }
            };
            tokio::select! {
                () = abandon.cancelled() => {
                    self.release_all().await;
                    break;
                }
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                Some(ended) = self.running.join_next() => self.remove_ended(ended.ok()),
                () = changes.changed.notified(), if self.has_recovered => self.is_drained = false,
                () = tokio::time::sleep(wait) => self.is_drained = false,
            }
            while let Some(ended) = self.running.try_join_next() {
                self.remove_ended(ended.ok());
            }
        }
        // The ends of the last runs; those that cannot be relayed now are by the next kernel.
        let _ = self.relay().await;
    }

    /// Does everything that is due; returns the time until the next thing is.
    async fn work_once(&mut self, is_stopping: bool) -> Result<Duration, QueueError> {
        if !(self.engine.can_claim)() {
            return Ok(LOCK_INTERVAL);
        }
        let queue = self.engine.queue.clone();
        if !self.has_recovered {
            let lost_workers = match queue.store().is_shared() {
                // A claim may belong to a worker of another machine that is alive.
                true => LostWorkers::Expired,
                // No worker of an earlier process is left, as only one process claims.
                false => LostWorkers::All,
            };
            if self.has_open_tasks().await? {
                queue.sweep(lost_workers).await?;
            }
            self.has_recovered = true;
        }
        // Before the sweep: after a suspension of the machine the leases of own runs look overdue.
        self.renew_leases().await?;
        self.follow_cancellations().await?;
        if self.last_sweep.elapsed() >= self.poll_interval() {
            self.last_sweep = Instant::now();
            // An idle home has no writes.
            if self.has_open_tasks().await? {
                queue.sweep(LostWorkers::Expired).await?;
            }
        }
        // A gate that is closed ends runs before their first request.
        if !is_stopping && !self.engine.gate.is_closed() {
            self.claim_due().await?;
        }
        self.relay().await?;
        self.next_wake().await
    }

    /// Returns whether a sweep could change anything: without open tasks and questions it must not
    /// even open a transaction.
    async fn has_open_tasks(&self) -> Result<bool, QueueError> {
        let queue = &self.engine.queue;
        let counts = queue.counts().await?;
        let is_open = |(state, count): &(TaskState, u64)| !state.is_terminal() && *count > 0;
        Ok(counts.iter().any(is_open) || !queue.open_questions(1).await?.is_empty())
    }

    async fn renew_leases(&mut self) -> Result<(), QueueError> {
        if self.leases.is_empty() || self.last_heartbeat.elapsed() < self.heartbeat_interval() {
            return Ok(());
        }
        let leases: Vec<_> = self.leases.values().cloned().collect();
        let claims = leases.iter().map(|lease| lease.claim.clone()).collect();
        let sent_at = Instant::now();
        // The moment of sending counts: the reply may be late.
        let states = self.engine.queue.heartbeat(claims, self.engine.lease).await?;
        self.last_heartbeat = sent_at;
        for (lease, status) in leases.iter().zip(states) {
            match status {
                HeartbeatStatus::Kept | HeartbeatStatus::Cancel => lease.confirm(sent_at),
                HeartbeatStatus::Lost => lease.lose(),
            }
        }
        Ok(())
    }

    /// Cancels the runs whose tasks are to be cancelled, and drops those whose claims are lost.
    async fn follow_cancellations(&self) -> Result<(), QueueError> {
        for (id, lease) in &self.leases {
            let task = self.engine.queue.find(id).await?;
            match task {
                Some(task) if task.current_claim().as_ref() == Some(&lease.claim) => {
                    if let Some(by) = &task.cancel {
                        lease.cancel_run(by);
                    }
                }
                _ => lease.lose(),
            }
        }
        Ok(())
    }

    async fn claim_due(&mut self) -> Result<(), QueueError> {
        let pools = self.free_pools();
        let queue = self.engine.queue.clone();
        if pools.is_empty() || self.is_drained {
            return Ok(());
        }
        match queue.next_due().await? {
            Some(due) if due <= queue.store().now_ms().await? => {}
            _ => return Ok(()),
        }
        // Tasks that are due but cannot be claimed, such as those of a lane, wait for a change.
        self.is_drained = true;
        for (filter, free) in pools {
            let claimed_at = Instant::now();
            let claimed = queue.claim(&self.worker, filter, free, self.engine.lease).await?;
            self.is_drained &= claimed.len() < free;
            if !claimed.is_empty() && self.leases.is_empty() {
                self.last_heartbeat = claimed_at;
            }
            for claimed in claimed {
                self.start_task(claimed, claimed_at);
            }
        }
        Ok(())
    }

    /// Returns the tasks that this process can execute, with the number of free workers: of the
    /// workers of the settings, and of each kind that has its own. Of a shared queue, the tasks of
    /// targets that this process lacks are left to others; of its own queue, they fail.
    fn free_pools(&self) -> Vec<(ClaimFilter, usize)> {
        let is_shared = self.engine.queue.store().is_shared();
        let mut common = Vec::new();
        let mut pools = Vec::new();
        for executor in &self.engine.executors {
            let kind = executor.kind();
            let targets = (kind, is_shared.then(|| executor.local_targets()).flatten());
            match executor.own_workers() {
                None => common.push(targets),
                Some(workers) => {
                    let busy = self.separate.values().filter(|other| **other == kind).count();
                    let filter = ClaimFilter { targets: vec![targets] };
                    pools.push((filter, workers.saturating_sub(busy)));
                }
            }
        }
        let busy = self.leases.len().saturating_sub(self.separate.len());
        let free = self.engine.worker_limit().saturating_sub(busy);
        pools.push((ClaimFilter { targets: common }, free));
        pools.retain(|(_, free)| *free > 0);
        pools
    }

    /// Returns the interval of heartbeats: two may be late.
    fn heartbeat_interval(&self) -> Duration {
        self.engine.lease / 3
    }

    /// Returns the interval of sweeps, and the longest wait for a change.
    fn poll_interval(&self) -> Duration {
        POLL_INTERVAL.min(self.engine.lease / 3)
    }

    fn start_task(&mut self, claimed: ClaimedTask, claimed_at: Instant) {
        let Some(claim) = claimed.task.current_claim() else { return };
        let id = claim.task.clone();
        let lease = Arc::new(TaskLease::new(claim, claimed_at, self.engine.lease));
        self.leases.insert(id.clone(), Arc::clone(&lease));
        let kind = claimed.task.kind;
        let has_own_workers =
            |one: &Arc<dyn TaskExecutor>| one.kind() == kind && one.own_workers().is_some();
        if self.engine.executors.iter().any(has_own_workers) {
            self.separate.insert(id.clone(), kind);
        }
        let engine = Arc::clone(&self.engine);
        let run = TaskRun::new(engine.queue.clone(), claimed, lease);
        self.running.spawn(async move {
            execute_task(&engine, &run).await;
            id
        });
    }

    /// Drops the runs that do not stop, and releases their claims; a call that was cut off is found
    /// in the lines of its task.
    async fn release_all(&mut self) {
        // Waits for the ends, so that no run writes after its release.
        self.running.shutdown().await;
        for (_, lease) in self.leases.drain() {
            // A claim that cannot be released is taken over at the next start.
            let claim = lease.claim.clone();
            let _ = self.engine.queue.release(claim, ReleaseReason::Stop).await;
        }
    }

    fn remove_ended(&mut self, ended: Option<TaskId>) {
        match ended {
            Some(id) => {
                self.leases.remove(&id);
                self.separate.remove(&id);
            }
            // Panics are caught within the task, so this one was aborted with the runtime.
            None => {
                self.leases.retain(|_, lease| Arc::strong_count(lease) > 1);
                self.separate.retain(|id, _| self.leases.contains_key(id));
            }
        }
        self.is_drained = false;
    }

    async fn relay(&self) -> Result<(), QueueError> {
        let Some(agents) = self.engine.agents.upgrade() else { return Ok(()) };
        match relay_outbox(&self.engine.queue, agents.extensions().events()).await {
            Ok(()) => Ok(()),
            Err(RelayError::Queue(error)) => Err(error),
            Err(RelayError::Journal(error)) => {
                // The journal reports its own state; the rows wait in the outbox.
                tracing::debug!(%error, "events of tasks could not be stored yet");
                Ok(())
            }
        }
    }

    /// Returns the time until the next task is due, or the next heartbeat.
    async fn next_wake(&self) -> Result<Duration, QueueError> {
        let queue = &self.engine.queue;
        let mut wait = self.poll_interval();
        if !self.leases.is_empty() {
            wait =
                wait.min(self.heartbeat_interval().saturating_sub(self.last_heartbeat.elapsed()));
        }
        let has_free_worker = !self.free_pools().is_empty();
        if !self.is_drained
            && has_free_worker
            && let Some(due) = queue.next_due().await?
        {
            let pause = due.saturating_sub(queue.store().now_ms().await?);
            wait = wait.min(Duration::from_millis(pause));
        }
        Ok(wait)
    }
}

/// A watch for changes of the queue that misses none while the loop works.
struct ChangeWatch {
    changed: Arc<Notify>,
    watching: tokio::task::JoinHandle<()>,
}

impl ChangeWatch {
    fn start(engine: &EngineParts) -> Self {
        let (changed, queue) = (Arc::new(Notify::new()), engine.queue.clone());
        let notify = Arc::clone(&changed);
        let watching = tokio::spawn(async move {
            loop {
                queue.store().wait_for_change(POLL_INTERVAL).await;
                notify.notify_one();
            }
        });
        Self { changed, watching }
    }
}

impl Drop for ChangeWatch {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// Executes a task and stores its end.
async fn execute_task(engine: &EngineParts, run: &TaskRun) {
    let Some(executor) = engine.executors.iter().find(|one| one.kind() == run.task.kind) else {
        // Only kinds with an executor are claimed.
        return;
    };
    let executing = AssertUnwindSafe(executor.execute(run)).catch_unwind();
    let ignores_cancellation = async {
        run.lease.cancel_token().cancelled().await;
        tokio::time::sleep(CANCEL_LIMIT).await;
    };
    let end = tokio::select! {
        biased;
        // Another claim has the task: this run must not write anything.
        () = run.lease.wait_for_loss() => return,
        end = executing => end.unwrap_or_else(|_| {
            let reason = FailureReason::Error;
            RunEnd::Finish(TaskOutcome::failed(reason, "the run of the task panicked"))
        }),
        () = ignores_cancellation => {
            let by = run.lease.cancelled_by().unwrap_or_default();
            RunEnd::Finish(TaskOutcome::Cancelled { by })
        }
    };
    store_end(engine, run, end).await;
}

/// Stores the end of a run; tries again while the store fails, until the claim is lost.
async fn store_end(engine: &EngineParts, run: &TaskRun, end: RunEnd) {
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match try_store_end(run, &end).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if is_final(&error) {
            tracing::debug!(task = %run.task.id, %error, "the end of a run was not stored");
            return;
        }
        engine.note_failure(&error);
        tokio::select! {
            () = run.lease.wait_for_loss() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_PAUSE),
        }
    }
}

/// Returns whether another attempt to store an end cannot succeed.
fn is_final(error: &QueueError) -> bool {
    !matches!(
        error.kind(),
        QueueErrorKind::Locked
            | QueueErrorKind::Io
            | QueueErrorKind::Corrupt
            | QueueErrorKind::Newer
            | QueueErrorKind::Database
    )
}

async fn try_store_end(run: &TaskRun, end: &RunEnd) -> Result<(), QueueError> {
    let claim: TaskClaim = run.lease.claim.clone();
    let spent = run.recorder.settle_amounts().await?;
    let release = async |reason: ReleaseReason| {
        if spent != TaskAmounts::default() {
            run.recorder.record(Vec::new()).await?;
        }
        run.queue.release(claim.clone(), reason).await.map(drop)
    };
    match end {
        RunEnd::Finish(outcome) => {
            run.queue.finish(claim.clone(), outcome.clone(), spent).await.map(drop)
        }
        RunEnd::Retry(error) => {
            let reason = ReleaseReason::Retry { error: error.clone(), jitter: random_jitter() };
            release(reason).await
        }
        RunEnd::Stop => release(ReleaseReason::Stop).await,
        RunEnd::Park(wait) => {
            if spent != TaskAmounts::default() {
                run.recorder.record(Vec::new()).await?;
            }
            match run.queue.wait(claim.clone(), wait.clone()).await? {
                WaitOutcome::Parked(_) => Ok(()),
                // Decided in between: the next attempt goes on at once.
                WaitOutcome::Satisfied(_) => {
                    run.queue.release(claim.clone(), ReleaseReason::Stop).await.map(drop)
                }
            }
        }
    }
}

/// Returns a random number of thousandths from -200 to 200.
fn random_jitter() -> i16 {
    let random = ulid::Ulid::generate().random() % 401;
    i16::try_from(random).unwrap_or(200) - 200
}
