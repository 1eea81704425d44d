//! The journal as callers hold it: a thread owns the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::error::{JournalError, JournalErrorKind};
use crate::event::{
    ClaimedDeliveries, DeadLetter, NewEvent, ScheduleRun, StoredEvent, Subscriber, TailQuery,
};
use crate::place;
use crate::store::{JournalResult, JournalStore};

/// How much is kept.
#[derive(Debug, Clone)]
pub struct RetentionLimits {
    /// Milliseconds that an event which nobody waits for is kept.
    pub age_ms: u64,
    /// Events; the oldest are dropped above it, whoever waits for them.
    pub events: u64,
    /// Bytes of the file that are in use; above it as for `events`.
    pub bytes: u64,
}

impl Default for RetentionLimits {
    /// Thirty days, 200,000 events, 256 MiB.
    fn default() -> Self {
        Self { age_ms: 30 * 24 * 60 * 60 * 1000, events: 200_000, bytes: 256 << 20 }
    }
}

/// What [`Journal::prune`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Events that are not kept any longer.
    pub events: usize,
    /// Deliveries that were lost with them, because there was too much.
    pub undelivered: usize,
    /// Deliveries that were given up because their subscriber is gone.
    pub buried: usize,
}

/// The journal of one home; cheap to clone.
///
/// Nothing is opened, and no thread started, before something is asked. Only [`Journal::append`],
/// [`Journal::recover`], [`Journal::set_subscribers`], [`Journal::claim_due`] and
/// [`Journal::record_run`] make a missing file and put a damaged one aside: to `events.db.corrupt-1`,
/// or the next free number.
#[derive(Debug, Clone)]
pub struct Journal {
    shared: Arc<JournalShared>,
}

#[derive(Debug)]
struct JournalShared {
    path: PathBuf,
    clock: Clock,
    desk: Mutex<Option<mpsc::Sender<JournalJob>>>,
}

type JournalJob = Box<dyn FnOnce(&mut JournalWorker) + Send>;

/// What the thread has before it.
struct JournalWorker {
    path: PathBuf,
    clock: Clock,
    store: Option<JournalStore>,
    /// The file may be made and replaced, not only read.
    makes: bool,
    /// Of the open file.
    identity: Option<(u64, u64)>,
    subscribers: Vec<Subscriber>,
    /// Where damaged files were put, until somebody asks.
    aside: Vec<PathBuf>,
}

impl Journal {
    /// The journal in a file, which need not be there yet.
    #[must_use]
    pub fn new(path: PathBuf, clock: Clock) -> Self {
        Self { shared: Arc::new(JournalShared { path, clock, desk: Mutex::default() }) }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Keeps an event: it is on the disk when this returns. Where one with its topic and key is
    /// there, that one is returned, with `false`.
    ///
    /// # Errors
    /// For an event that is too large or malformed, and when the file or its disk fails.
    pub async fn append(&self, event: NewEvent) -> JournalResult<(StoredEvent, bool)> {
        event.check()?;
        let now = self.now_ms();
        self.with_store(move |store, _| store.append(&event, now)).await
    }

    /// Finds the event of a topic with a key.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn find(&self, topic: &str, key: &str) -> JournalResult<Option<StoredEvent>> {
        let (topic, key) = (topic.to_owned(), key.to_owned());
        self.with_existing_store(move |store| store.find(&topic, &key)).await
    }

    /// Lists events in their order.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn tail(&self, tail: TailQuery) -> JournalResult<Vec<StoredEvent>> {
        self.with_existing_store(move |store| store.tail(&tail)).await
    }

    /// Says who gets events from now on; only the process that delivers does.
    ///
    /// A new subscriber gets what is appended after this. One that is not named any more gets nothing
    /// until it is named again; within a day it then gets what it missed.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn set_subscribers(&self, subscribers: Vec<Subscriber>) -> JournalResult<()> {
        let now = self.now_ms();
        self.with_store(move |store, list| {
            store.set_subscribers(&subscribers, now)?;
            list.clone_from(&subscribers);
            Ok(())
        })
        .await
    }

    /// Takes the deliveries that are due, at most one per lane of each subscriber. Each attempt
    /// counts from here on.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn claim_due(&self) -> JournalResult<ClaimedDeliveries> {
        let (now, steady) = (self.now_ms(), self.steady_ms());
        self.with_store(move |store, list| store.claim_due(list, now, steady)).await
    }

    /// Whether another process changed the journal since this was last asked; true at first.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn has_external_changes(&self) -> JournalResult<bool> {
        self.with_existing_store(|store| store.changed_elsewhere()).await
    }

    /// Notes that a claimed delivery was handled; false where it was not claimed.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn ack(&self, delivery: i64) -> JournalResult<bool> {
        self.with_existing_store(move |store| store.ack(delivery)).await
    }

    /// Notes that the attempt at a claimed delivery failed. There is another one at `retry_at`, a time
    /// of [`Journal::steady_ms`]; without it the delivery is dead.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn fail(
        &self,
        delivery: i64,
        error: &str,
        retry_at: Option<u64>,
    ) -> JournalResult<bool> {
        let (error, now) = (error.to_owned(), self.now_ms());
        self.with_existing_store(move |store| store.fail(delivery, &error, retry_at, now)).await
    }

    /// Puts a claimed delivery back until [`Journal::recover`]; its attempt does not count.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn release(&self, delivery: i64) -> JournalResult<bool> {
        let now = self.now_ms();
        self.with_existing_store(move |store| store.release(delivery, now)).await
    }

    /// Makes due again what a process that is gone had claimed or released. What it had tried
    /// `attempts` times is dead from now on, and returned. No retry waits longer than `longest` after
    /// this, however the clock was set meanwhile. Examines the whole file.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn recover(
        &self,
        attempts: u32,
        longest: Duration,
    ) -> JournalResult<Vec<DeadLetter>> {
        let (now, steady) = (self.now_ms(), self.steady_ms());
        let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        let latest = steady.saturating_add(longest);
        self.run_job(move |desk| {
            desk.open(true)?;
            desk.try_twice(|store, _| store.recover(attempts, latest, now))
        })
        .await
    }

    /// Lists the deliveries that were given up, the oldest first.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn dead_letters(&self) -> JournalResult<Vec<DeadLetter>> {
        self.with_existing_store(|store| store.dead_letters()).await
    }

    /// Makes a dead delivery due again, with all its attempts.
    ///
    /// # Errors
    /// [`JournalErrorKind::NotFound`] where there is no such dead delivery, or nobody who handles it
    /// any more.
    pub async fn retry_dead_letter(&self, delivery: i64) -> JournalResult<DeadLetter> {
        let now = self.now_ms();
        self.with_existing_store(move |store| store.retry(delivery, now).map(Some))
            .await?
            .ok_or_else(|| JournalError::unknown_dead_letter(delivery))
    }

    /// The last run of a schedule.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn last_run(&self, schedule: &str) -> JournalResult<Option<ScheduleRun>> {
        let schedule = schedule.to_owned();
        self.with_existing_store(move |store| store.last_run(&schedule)).await
    }

    /// Replaces the last run of a schedule; on the disk when this returns.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn record_run(&self, schedule: &str, run: ScheduleRun) -> JournalResult<()> {
        let schedule = schedule.to_owned();
        self.with_store(move |store, _| store.record_run(&schedule, &run)).await
    }

    /// Drops what is not kept any longer.
    ///
    /// # Errors
    /// When the file or its disk fails.
    pub async fn prune(&self, limits: RetentionLimits) -> JournalResult<PruneReport> {
        let now = self.now_ms();
        self.with_existing_store(move |store| store.prune(&limits, now)).await
    }

    /// Where damaged files were put since this was last asked.
    pub async fn take_quarantined(&self) -> Vec<PathBuf> {
        let begun = self.lock_sender().is_some();
        match begun {
            true => {
                self.run_job(|desk| Ok(std::mem::take(&mut desk.aside))).await.unwrap_or_default()
            }
            false => Vec::new(),
        }
    }

    /// Closes the file. It is opened again when something is asked.
    pub async fn close(&self) {
        let sender = self.lock_sender().take();
        if let Some(sender) = sender {
            let (done, closed) = oneshot::channel();
            let close: JournalJob = Box::new(move |desk| {
                desk.store = None;
                let _ = done.send(());
            });
            if sender.send(close).is_ok() {
                let _ = closed.await;
            }
        }
    }

    /// What its clock says, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.shared.clock.now_ms()
    }

    /// The time that retries wait by: as [`Journal::now_ms`], but nobody sets it.
    #[must_use]
    pub fn steady_ms(&self) -> u64 {
        self.shared.clock.steady_ms()
    }

    fn lock_sender(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<JournalJob>>> {
        self.shared.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the file, made if it is not there.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl Fn(&mut JournalStore, &mut Vec<Subscriber>) -> JournalResult<T> + Send + 'static,
    ) -> JournalResult<T> {
        self.run_job(move |desk| {
            desk.open(false)?;
            desk.try_twice(&work)
        })
        .await
    }

    /// Does something with the file; where there is none, nothing.
    async fn with_existing_store<T: Default + Send + 'static>(
        &self,
        work: impl Fn(&mut JournalStore) -> JournalResult<T> + Send + 'static,
    ) -> JournalResult<T> {
        self.run_job(move |desk| {
            desk.close_if_moved();
            if desk.store.is_none() {
                desk.set_store(JournalStore::open_current(&desk.path)?);
            }
            match desk.store {
                Some(_) => desk.try_twice(|store, _| work(store)),
                None => Ok(T::default()),
            }
        })
        .await
    }

    async fn run_job<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut JournalWorker) -> JournalResult<T> + Send + 'static,
    ) -> JournalResult<T> {
        let (answer, answered) = oneshot::channel();
        self.sender()?
            .send(Box::new(move |desk| {
                // Whoever asked may have given up; the work is done all the same.
                let _ = answer.send(work(desk));
            }))
            .map_err(|_| JournalError::worker_stopped())?;
        answered.await.unwrap_or_else(|_| Err(JournalError::worker_stopped()))
    }

    /// The thread, started when it is first needed. It ends with the last clone.
    fn sender(&self) -> JournalResult<mpsc::Sender<JournalJob>> {
        let mut desk = self.lock_sender();
        if let Some(sender) = &*desk {
            return Ok(sender.clone());
        }
        let (sender, jobs) = mpsc::channel::<JournalJob>();
        let (path, clock) = (self.shared.path.clone(), self.shared.clock.clone());
        let work = move || {
            let mut desk = JournalWorker::new(path, clock);
            while let Ok(job) = jobs.recv() {
                job(&mut desk);
            }
        };
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(work)
            .map_err(|error| JournalError::io("cannot start its thread", &error))?;
        Ok(desk.insert(sender).clone())
    }
}

impl JournalWorker {
    fn new(path: PathBuf, clock: Clock) -> Self {
        let (subscribers, aside) = (Vec::new(), Vec::new());
        Self { path, clock, store: None, makes: false, identity: None, subscribers, aside }
    }

    fn set_store(&mut self, store: Option<JournalStore>) {
        self.identity = place::file_identity(&self.path);
        self.store = store;
    }

    /// Another process may have put the file aside: nobody would read what is written to it.
    fn close_if_moved(&mut self) {
        if self.store.is_some() && self.identity != place::file_identity(&self.path) {
            self.store = None;
        }
    }

    fn open(&mut self, examine: bool) -> JournalResult<()> {
        self.makes = true;
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
        self.store = None;
        let (store, aside) = place::open_journal(&self.path, examine)?;
        if let Some(aside) = aside {
            tracing::error!(
                path = %aside.display(),
                "the event journal was damaged and put aside; events in it are not delivered"
            );
            self.aside.push(aside);
        }
        self.set_store(Some(store));
        Ok(())
    }

    /// Tells a new file who gets events.
    fn register_subscribers(&mut self) -> JournalResult<()> {
        match &mut self.store {
            Some(store) if !self.subscribers.is_empty() => {
                store.set_subscribers(&self.subscribers, self.clock.now_ms())
            }
            _ => Ok(()),
        }
    }

    /// Does something with the open file; a second time with a new one where the file turns out to be
    /// damaged.
    fn try_twice<T>(
        &mut self,
        work: impl Fn(&mut JournalStore, &mut Vec<Subscriber>) -> JournalResult<T>,
    ) -> JournalResult<T> {
        let store = self.store.as_mut().ok_or_else(JournalError::worker_stopped)?;
        match work(store, &mut self.subscribers) {
            Err(error) if error.kind() == JournalErrorKind::Corrupt && self.makes => {
                self.reopen(true)?;
                self.register_subscribers()?;
            }
            other => return other,
        }
        let store = self.store.as_mut().ok_or_else(JournalError::worker_stopped)?;
        work(store, &mut self.subscribers)
    }
}
