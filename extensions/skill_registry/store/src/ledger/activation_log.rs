//! Readings on their way into the ledger, off the path of those who read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use crate::ledger::Ledger;
use crate::ledger::activation::SkillActivation;
use crate::ledger::error::LedgerError;

/// How many readings wait at most; what comes beyond is dropped and counted.
const CAPACITY: usize = 1_024;

/// Collects readings until somebody writes them.
pub struct ActivationLog {
    sender: SyncSender<SkillActivation>,
    waiting: AtomicUsize,
    dropped: AtomicU64,
    receiver: Mutex<(Receiver<SkillActivation>, Vec<SkillActivation>)>,
}

/// What a writing came to.
pub(super) struct FlushOutcome {
    /// How many readings it wrote.
    pub(super) readings: usize,
    /// How many were dropped since the writing before.
    pub(super) dropped: u64,
}

impl Default for ActivationLog {
    fn default() -> Self {
        let (sender, receiver) = sync_channel(CAPACITY);
        let receiver = Mutex::new((receiver, Vec::new()));
        Self { sender, waiting: AtomicUsize::new(0), dropped: AtomicU64::new(0), receiver }
    }
}

impl ActivationLog {
    /// How many readings make a batch that is worth writing at once.
    pub const BATCH: usize = 256;

    /// Takes a reading, without waiting; tells whether a batch is full now.
    pub fn record(&self, reading: SkillActivation) -> bool {
        if self.sender.try_send(reading).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        (self.waiting.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(Self::BATCH)
    }

    /// Writes what was recorded. What cannot be written is kept for the next time.
    pub(super) fn flush(&self, ledger: &Ledger) -> Result<FlushOutcome, LedgerError> {
        let mut held = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let (receiver, batch) = &mut *held;
        // While nothing can be written, no more is kept than the channel holds.
        batch.extend(receiver.try_iter().take(CAPACITY - batch.len()));
        self.waiting.store(0, Ordering::Relaxed);
        ledger.record_activations(batch)?;
        let readings = batch.drain(..).len();
        Ok(FlushOutcome { readings, dropped: self.dropped.swap(0, Ordering::Relaxed) })
    }
}
