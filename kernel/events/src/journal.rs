//! The asynchronous interface of the journal; a worker thread owns the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::error::{JournalError, JournalErrorKind};
use crate::event::{
    ClaimedDeliveries, DeadLetter, NewEvent, ScheduleRun, StoredEvent, Subscriber, TailQuery,
};
use crate::journal_file;
use crate::store::{JournalResult, JournalStore};

/// The retention limits of the journal.
#[derive(Debug, Clone)]
pub struct RetentionLimits {
    /// The maximum age of an event without pending deliveries, in milliseconds.
    pub age_ms: u64,
    /// The maximum number of events; the oldest are dropped even with pending deliveries.
    pub events: u64,
    /// The maximum bytes of the file in use; the oldest events are dropped as for `events`.
    pub bytes: u64,
}

impl Default for RetentionLimits {
    /// Returns thirty days, 200,000 events, 256 MiB.
    fn default() -> Self {
        Self { age_ms: 30 * 24 * 60 * 60 * 1000, events: 200_000, bytes: 256 << 20 }
    }
}

/// The result of [`Journal::prune`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// The number of dropped events.
    pub events: usize,
    /// The number of pending deliveries lost with them, because a limit was exceeded.
    pub undelivered: usize,
    /// The number of deliveries that became dead letters because their subscriber was removed.
    pub buried: usize,
}

/// The journal of one home; cheap to clone.
///
/// The first operation opens the file and starts the thread. Only [`Journal::append`],
/// [`Journal::recover`], [`Journal::set_subscribers`], [`Journal::claim_due`] and
/// [`Journal::record_run`] create a missing file and quarantine a damaged one as
/// `events.db.corrupt-1`, or with the next free number.
#[derive(Debug, Clone)]
pub struct Journal {
    shared: Arc<JournalShared>,
}

/// The state shared by all clones of a journal.
#[derive(Debug)]
struct JournalShared {
    path: PathBuf,
    clock: Clock,
    /// The queue of the worker thread; `None` while no thread runs.
    sender: Mutex<Option<mpsc::Sender<JournalJob>>>,
}

/// A job for the worker thread.
type JournalJob = Box<dyn FnOnce(&mut JournalWorker) + Send>;

/// The state of the worker thread.
// SQLite calls block, so they must not run on the callers' runtime.
struct JournalWorker {
    path: PathBuf,
    clock: Clock,
    store: Option<JournalStore>,
    /// The file may be created and replaced, not only read.
    may_create: bool,
    /// The identity of the open file.
    identity: Option<(u64, u64)>,
    /// The current subscribers, which a new file needs as well.
    subscribers: Vec<Subscriber>,
    /// The paths of quarantined files, until a caller takes them.
    quarantined: Vec<PathBuf>,
}

impl Journal {
    /// Returns the journal in the kernel's data directory; no file is opened before its first use.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        Self::new(directory.join("events.db"), Clock::system())
    }

    /// Creates a journal for a file that may not exist yet.
    #[must_use]
    pub fn new(path: PathBuf, clock: Clock) -> Self {
        Self { shared: Arc::new(JournalShared { path, clock, sender: Mutex::default() }) }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Appends an event; it is durable when this returns.
    ///
    /// If an event with its topic and key exists, that one is returned with `false`.
    ///
    /// # Errors
    /// An error for an event that is too large or not valid, and an error of the file or its disk.
    pub async fn append(&self, event: NewEvent) -> JournalResult<(StoredEvent, bool)> {
        // Before the job: an event that is not valid must not create a file.
        event.check()?;
        let now = self.now_ms();
        self.with_store(move |store, _| store.append(&event, now)).await
    }

    /// Finds the event of a topic with a key.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn find(&self, topic: &str, key: &str) -> JournalResult<Option<StoredEvent>> {
        let (topic, key) = (topic.to_owned(), key.to_owned());
        self.with_existing_store(move |store| store.find(&topic, &key)).await
    }

    /// Lists events in the order of their ids.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn tail(&self, tail: TailQuery) -> JournalResult<Vec<StoredEvent>> {
        self.with_existing_store(move |store| store.tail(&tail)).await
    }

    /// Replaces the subscribers. Only the delivering process may call this.
    ///
    /// A new subscriber receives the events appended after this. A removed subscriber receives no
    /// events until it is added again; within a day it then receives the events that it missed.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn set_subscribers(&self, subscribers: Vec<Subscriber>) -> JournalResult<()> {
        let now = self.now_ms();
        self.with_store(move |store, list| {
            store.set_subscribers(&subscribers, now)?;
            list.clone_from(&subscribers);
            Ok(())
        })
        .await
    }

    /// Claims the deliveries that are due, at most one per ordering key of each subscriber.
    ///
    /// Each claim counts as an attempt.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn claim_due(&self) -> JournalResult<ClaimedDeliveries> {
        let (now, steady) = (self.now_ms(), self.steady_ms());
        self.with_store(move |store, list| store.claim_due(list, now, steady)).await
    }

    /// Returns whether another process changed the journal since the last call; at first `true`.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn has_external_changes(&self) -> JournalResult<bool> {
        self.with_existing_store(|store| store.has_external_changes()).await
    }

    /// Acknowledges a claimed delivery; `false` if it is not claimed.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn ack(&self, delivery: i64) -> JournalResult<bool> {
        self.with_existing_store(move |store| store.ack(delivery)).await
    }

    /// Records the failure of a claimed delivery; `false` if it is not claimed.
    ///
    /// The next attempt is due at `retry_at`, a time of [`Journal::steady_ms`]; without it the
    /// delivery becomes a dead letter.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn fail(
        &self,
        delivery: i64,
        error: &str,
        retry_at: Option<u64>,
    ) -> JournalResult<bool> {
        let (error, now) = (error.to_owned(), self.now_ms());
        self.with_existing_store(move |store| store.fail(delivery, &error, retry_at, now)).await
    }

    /// Releases a claimed delivery until [`Journal::recover`]; its attempt does not count.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn release(&self, delivery: i64) -> JournalResult<bool> {
        let now = self.now_ms();
        self.with_existing_store(move |store| store.release(delivery, now)).await
    }

    /// Releases the claimed deliveries of a subscriber until [`Journal::recover`]; their attempts do
    /// not count. Returns their number.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn release_claimed(&self, subscriber: &str) -> JournalResult<usize> {
        let (subscriber, now) = (subscriber.to_owned(), self.now_ms());
        self.with_existing_store(move |store| store.release_claimed(&subscriber, now)).await
    }

    /// Reschedules the deliveries that a terminated process had claimed or released.
    ///
    /// Claimed deliveries with `attempts` attempts become dead letters and are returned. Afterwards
    /// no retry waits longer than `max_delay`, even if the clock was changed. Checks every page of
    /// the file.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn recover(
        &self,
        attempts: u32,
        max_delay: Duration,
    ) -> JournalResult<Vec<DeadLetter>> {
        let (now, steady) = (self.now_ms(), self.steady_ms());
        let max_delay = u64::try_from(max_delay.as_millis()).unwrap_or(u64::MAX);
        let latest = steady.saturating_add(max_delay);
        self.run_job(move |worker| {
            worker.open(true)?;
            worker.retry_if_corrupt(|store, _| store.recover(attempts, latest, now))
        })
        .await
    }

    /// Lists the dead letters, the oldest first.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn dead_letters(&self) -> JournalResult<Vec<DeadLetter>> {
        self.with_existing_store(|store| store.dead_letters()).await
    }

    /// Retries a dead letter, with all its attempts.
    ///
    /// # Errors
    /// [`JournalErrorKind::NotFound`] if the dead letter or its subscriber does not exist.
    pub async fn retry_dead_letter(&self, delivery: i64) -> JournalResult<DeadLetter> {
        let now = self.now_ms();
        self.with_existing_store(move |store| store.retry(delivery, now).map(Some))
            .await?
            .ok_or_else(|| JournalError::unknown_dead_letter(delivery))
    }

    /// Returns the last run of a schedule.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn last_run(&self, schedule: &str) -> JournalResult<Option<ScheduleRun>> {
        let schedule = schedule.to_owned();
        self.with_existing_store(move |store| store.last_run(&schedule)).await
    }

    /// Replaces the last run of a schedule; durable when this returns.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn record_run(&self, schedule: &str, run: ScheduleRun) -> JournalResult<()> {
        let schedule = schedule.to_owned();
        self.with_store(move |store, _| store.record_run(&schedule, &run)).await
    }

    /// Drops events beyond the retention limits.
    ///
    /// # Errors
    /// An error of the file or its disk.
    pub async fn prune(&self, limits: RetentionLimits) -> JournalResult<PruneReport> {
        let now = self.now_ms();
        self.with_existing_store(move |store| store.prune(&limits, now)).await
    }

    /// Returns the paths of the files quarantined since the last call.
    pub async fn take_quarantined(&self) -> Vec<PathBuf> {
        // Without a thread no file was opened, and the query must not start one.
        let is_running = self.lock_sender().is_some();
        match is_running {
            true => self
                .run_job(|worker| Ok(std::mem::take(&mut worker.quarantined)))
                .await
                .unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// Closes the file; the next operation opens it again.
    pub async fn close(&self) {
        // Without its sender the thread ends after the job below.
        let sender = self.lock_sender().take();
        if let Some(sender) = sender {
            let (closed_tx, closed_rx) = oneshot::channel();
            let close: JournalJob = Box::new(move |worker| {
                worker.store = None;
                let _ = closed_tx.send(());
            });
            if sender.send(close).is_ok() {
                let _ = closed_rx.await;
            }
        }
    }

    /// Returns the wall time of its clock, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.shared.clock.now_ms()
    }

    /// Returns the steady time of its clock, which schedules retries.
    #[must_use]
    pub fn steady_ms(&self) -> u64 {
        self.shared.clock.steady_ms()
    }

    fn lock_sender(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<JournalJob>>> {
        self.shared.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the file and creates a missing one.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl Fn(&mut JournalStore, &mut Vec<Subscriber>) -> JournalResult<T> + Send + 'static,
    ) -> JournalResult<T> {
        self.run_job(move |worker| {
            worker.open(false)?;
            worker.retry_if_corrupt(&work)
        })
        .await
    }

    /// Runs `work` with an existing file; without a file returns the default.
    async fn with_existing_store<T: Default + Send + 'static>(
        &self,
        work: impl Fn(&mut JournalStore) -> JournalResult<T> + Send + 'static,
    ) -> JournalResult<T> {
        self.run_job(move |worker| {
            worker.close_if_moved();
            if worker.store.is_none() {
                worker.set_store(JournalStore::open_current(&worker.path)?);
            }
            match worker.store {
                Some(_) => worker.retry_if_corrupt(|store, _| work(store)),
                None => Ok(T::default()),
            }
        })
        .await
    }

    async fn run_job<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut JournalWorker) -> JournalResult<T> + Send + 'static,
    ) -> JournalResult<T> {
        let (result_tx, result_rx) = oneshot::channel();
        self.worker_sender()?
            .send(Box::new(move |worker| {
                // The caller may have been cancelled; the work is done nevertheless.
                let _ = result_tx.send(work(worker));
            }))
            .map_err(|_| JournalError::worker_stopped())?;
        result_rx.await.unwrap_or_else(|_| Err(JournalError::worker_stopped()))
    }

    /// Returns the queue of the worker thread and starts a missing thread.
    fn worker_sender(&self) -> JournalResult<mpsc::Sender<JournalJob>> {
        let mut slot = self.lock_sender();
        if let Some(sender) = &*slot {
            return Ok(sender.clone());
        }
        let (sender, jobs) = mpsc::channel::<JournalJob>();
        let (path, clock) = (self.shared.path.clone(), self.shared.clock.clone());
        // The thread owns no sender, so it ends with the last clone of the journal.
        let work = move || {
            let mut worker = JournalWorker::new(path, clock);
            while let Ok(job) = jobs.recv() {
                job(&mut worker);
            }
        };
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(work)
            .map_err(|error| JournalError::io("cannot start its thread", &error))?;
        Ok(slot.insert(sender).clone())
    }
}

impl JournalWorker {
    fn new(path: PathBuf, clock: Clock) -> Self {
        Self {
            path,
            clock,
            store: None,
            may_create: false,
            identity: None,
            subscribers: Vec::new(),
            quarantined: Vec::new(),
        }
    }

    fn set_store(&mut self, store: Option<JournalStore>) {
        self.identity = journal_file::file_identity(&self.path);
        self.store = store;
    }

    /// Closes the file if another process has quarantined it.
    // Events written to a quarantined file would never be delivered.
    fn close_if_moved(&mut self) {
        if self.store.is_some() && self.identity != journal_file::file_identity(&self.path) {
            self.store = None;
        }
    }

    fn open(&mut self, examine: bool) -> JournalResult<()> {
        self.may_create = true;
        self.close_if_moved();
        match &self.store {
            None => {
                self.reopen(examine)?;
                self.register_subscribers()
            }
            Some(store) if examine => match store.check_integrity() {
                Err(error) if error.kind() == JournalErrorKind::Corrupt => self.reopen(true),
                other => other,
            },
            Some(_) => Ok(()),
        }
    }

    fn reopen(&mut self, examine: bool) -> JournalResult<()> {
        // Closed first: a file cannot be renamed while it is open on some platforms.
        self.store = None;
        let (store, quarantined) = journal_file::open_journal(&self.path, examine)?;
        if let Some(quarantined) = quarantined {
            tracing::error!(
                path = %quarantined.display(),
                "the event journal was damaged and is quarantined; its events are not delivered"
            );
            self.quarantined.push(quarantined);
        }
        self.set_store(Some(store));
        Ok(())
    }

    /// Registers the current subscribers in a new file.
    fn register_subscribers(&mut self) -> JournalResult<()> {
        match &mut self.store {
            Some(store) if !self.subscribers.is_empty() => {
                store.set_subscribers(&self.subscribers, self.clock.now_ms())
            }
            _ => Ok(()),
        }
    }

    /// Runs `work` with the open file, and once more with a new file if the old one is damaged.
    fn retry_if_corrupt<T>(
        &mut self,
        work: impl Fn(&mut JournalStore, &mut Vec<Subscriber>) -> JournalResult<T>,
    ) -> JournalResult<T> {
        let store = self.store.as_mut().ok_or_else(JournalError::worker_stopped)?;
        match work(store, &mut self.subscribers) {
            Err(error) if error.kind() == JournalErrorKind::Corrupt && self.may_create => {
                self.reopen(true)?;
                self.register_subscribers()?;
            }
            other => return other,
        }
        let store = self.store.as_mut().ok_or_else(JournalError::worker_stopped)?;
        work(store, &mut self.subscribers)
    }
}
