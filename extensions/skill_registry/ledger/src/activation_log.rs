//! A queue of reads on their way into the ledger, so that a read does not wait for the disk.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::bounce_tracker::BounceTracker;
use crate::ledger::Ledger;
use crate::offer_log::OfferLog;
use crate::records::activation::SkillActivation;
use crate::records::error::LedgerError;
use crate::records::usage::{UsageMap, utc_day};

/// The maximum number of queued reads; further reads are dropped and counted.
const CAPACITY: usize = 1_024;

/// The interval at which the counts of offers are written.
const OFFER_INTERVAL: Duration = Duration::from_secs(30);

/// A queue of reads, and counts of offers, that a background task writes to the ledger.
pub struct ActivationLog {
    sender: SyncSender<SkillActivation>,
    waiting: AtomicUsize,
    dropped: AtomicU64,
    offers: Arc<OfferLog>,
    bounces: Mutex<BounceTracker>,
    /// The runs of scripts that are not written yet.
    scripts: Mutex<UsageMap>,
    unwritten: Mutex<UnwrittenUsage>,
}

/// The data of a flush that is not committed yet.
struct UnwrittenUsage {
    receiver: Receiver<SkillActivation>,
    batch: Vec<SkillActivation>,
    /// The counts of offers and bounced reads.
    usage: UsageMap,
    /// The time of the last write of offers.
    offers_at: Option<SystemTime>,
}

/// The result of one flush.
pub(crate) struct FlushOutcome {
    /// The number of reads and counts it wrote.
    pub(crate) entries: usize,
    /// The number of reads dropped since the previous flush.
    pub(crate) dropped: u64,
}

impl Default for ActivationLog {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl ActivationLog {
    /// The number of queued reads that is worth an immediate flush.
    pub const BATCH: usize = 256;

    /// Creates a queue that also writes the counts of offers.
    #[must_use]
    pub fn new(offers: Arc<OfferLog>) -> Self {
        let (sender, receiver) = sync_channel(CAPACITY);
        let (batch, usage) = (Vec::new(), UsageMap::new());
        Self {
            sender,
            waiting: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            offers,
            bounces: Mutex::default(),
            scripts: Mutex::default(),
            unwritten: Mutex::new(UnwrittenUsage { receiver, batch, usage, offers_at: None }),
        }
    }

    /// Notes that an agent uses a skill in another way than by reading it, such as by running its
    /// script: its last read does not count as bounced.
    pub fn note_use(&self, session_id: &str, agent_id: &str, skill_id: &str) {
        lock(&self.bounces).note_use(session_id, agent_id, skill_id);
    }

    /// Counts a run of a script of a skill.
    pub fn count_script_run(&self, at: SystemTime, agent_id: &str, skill_id: &str) {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let day = utc_day(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        let key = (day, skill_id.into(), agent_id.into());
        lock(&self.scripts).entry(key).or_default().scripts += 1;
    }

    /// Queues a read without waiting for the disk; returns `true` if a batch is full now.
    pub fn record(&self, reading: SkillActivation) -> bool {
        lock(&self.bounces).observe(&reading);
        // A full queue means that the disk cannot keep up; the caller answers a model and must not
        // wait.
        if self.sender.try_send(reading).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        (self.waiting.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(Self::BATCH)
    }

    /// Writes the queued reads, and the counts of offers at their interval or if `complete`. Data
    /// that cannot be written is kept for the next flush.
    pub(crate) fn flush(
        &self,
        ledger: &Ledger,
        complete: bool,
    ) -> Result<FlushOutcome, LedgerError> {
        let mut guard = lock(&self.unwritten);
        let UnwrittenUsage { receiver, batch, usage, offers_at } = &mut *guard;
        let now = ledger.clock.now();
        // A clock that was set back must not stop the writes.
        let is_over =
            |at: SystemTime| now.duration_since(at).map_or(true, |it| it >= OFFER_INTERVAL);
        if (complete || offers_at.is_none_or(is_over))
            // Each turn would otherwise cost a write of its own.
            && self.offers.drain_into(usage, utc_day(ledger.stamp().now_ms))
        {
            *offers_at = Some(now);
        }
        lock(&self.bounces).drain_into(usage);
        for (key, counts) in lock(&self.scripts).drain() {
            usage.entry(key).or_default().add(&counts);
        }
        // While the ledger cannot be written, no more reads are kept than the channel holds.
        batch.extend(receiver.try_iter().take(CAPACITY - batch.len()));
        self.waiting.store(0, Ordering::Relaxed);
        ledger.record_usage(batch, usage)?;
        // Only now, after the commit: a failed write leaves the batch as it was.
        let entries = batch.drain(..).len() + usage.drain().len();
        Ok(FlushOutcome { entries, dropped: self.dropped.swap(0, Ordering::Relaxed) })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change of the data is complete before the next one that could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
