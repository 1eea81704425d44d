//! A queue of reads on their way into the ledger, so that a read does not wait for the disk.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use crate::ledger::Ledger;
use crate::records::activation::SkillActivation;
use crate::records::error::LedgerError;

/// The maximum number of queued reads; further reads are dropped and counted.
const CAPACITY: usize = 1_024;

/// A queue of reads that a background task writes to the ledger.
pub struct ActivationLog {
    sender: SyncSender<SkillActivation>,
    waiting: AtomicUsize,
    dropped: AtomicU64,
    receiver: Mutex<(Receiver<SkillActivation>, Vec<SkillActivation>)>,
}

/// The result of one flush.
pub(crate) struct FlushOutcome {
    /// The number of reads it wrote.
    pub(crate) readings: usize,
    /// The number of reads dropped since the previous flush.
    pub(crate) dropped: u64,
}

impl Default for ActivationLog {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(CAPACITY);
        let receiver = Mutex::new((receiver, Vec::new()));
        Self { sender, waiting: AtomicUsize::new(0), dropped: AtomicU64::new(0), receiver }
    }
}

impl ActivationLog {
    /// The number of queued reads that is worth an immediate flush.
    pub const BATCH: usize = 256;

    /// Queues a read without waiting; returns `true` if a batch is full now.
    pub fn record(&self, reading: SkillActivation) -> bool {
        // A full queue means that the disk cannot keep up; the caller answers a model and must not
        // wait.
        if self.sender.try_send(reading).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        (self.waiting.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(Self::BATCH)
    }

    /// Writes the queued reads. Reads that cannot be written are kept for the next flush.
    pub(crate) fn flush(&self, ledger: &Ledger) -> Result<FlushOutcome, LedgerError> {
        let mut guard = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let (receiver, batch) = &mut *guard;
        // While the ledger cannot be written, no more reads are kept than the channel holds.
        batch.extend(receiver.try_iter().take(CAPACITY - batch.len()));
        self.waiting.store(0, Ordering::Relaxed);
        ledger.record_activations(batch)?;
        // Only now, after the commit: a failed write leaves the batch as it was.
        let readings = batch.drain(..).len();
        Ok(FlushOutcome { readings, dropped: self.dropped.swap(0, Ordering::Relaxed) })
    }
}
