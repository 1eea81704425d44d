//! Synchronization of a running registry with the ledger, in both directions.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use skill_catalog::{BrokenSkill, SkillEvent, Store};
use skill_format::SkillId;

use crate::activation_log::{ActivationLog, FlushOutcome};
use crate::ledger::Ledger;
use crate::records::error::LedgerError;
use crate::records::event::LedgerEvent;
use crate::records::note::LedgerNote;
use crate::records::retention::RetentionRule;

/// The time a synchronization waits for the lock. A later one makes up for one that timed out.
const WAIT: Duration = Duration::from_secs(1);

/// The age below which a stamp may stand for two writes, because of the file system's resolution.
const RACY: Duration = Duration::from_secs(2);

/// The age up to which events are published again after a start.
const RECENT_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// Greater than every number of the audit log.
const END: u64 = i64::MAX as u64;

/// Synchronizes a running registry with the ledger: reports changes of skills and reads the changes
/// that other processes made.
///
/// An error of the ledger does not stop it: it is reported, and the work is done at a later call.
pub struct LedgerSync {
    ledger: Ledger,
    state: Mutex<SyncState>,
    last_error: Mutex<Option<LedgerError>>,
}

/// The state of the synchronization.
#[derive(Default)]
struct SyncState {
    /// The last number of the audit log that was read; `None` before the first read.
    last_seq: Option<u64>,
    stamp: Option<DatabaseStamp>,
    /// Skills whose change is not recorded in the ledger yet.
    changed: BTreeSet<SkillId>,
    /// `true` if the first versions are still to be recorded.
    unrecorded: bool,
    /// `true` if the texts are still to be compared with the last versions, once all of them are
    /// read.
    uncompared: bool,
    /// The number of versions recorded since the retention rule was last applied, and that time.
    recorded: usize,
    retained: Option<SystemTime>,
    /// Broken skills whose last good text was searched for.
    searched: HashSet<BrokenSkill>,
}

/// The size and time of the database's file.
#[derive(Clone, Copy, PartialEq)]
struct DatabaseStamp {
    len: u64,
    modified: Option<SystemTime>,
}

/// The result of a synchronization.
#[derive(Debug, Default)]
pub struct LedgerOutcome {
    /// The events, in order.
    pub events: Vec<LedgerEvent>,
    /// Observations and repairs.
    pub notes: Vec<LedgerNote>,
    /// The error of the ledger, unless it was reported before.
    pub trouble: Option<LedgerError>,
}

impl LedgerSync {
    /// Creates the synchronization with a ledger; opens no file.
    #[must_use]
    pub fn new(ledger: &Ledger) -> Self {
        // A short wait: the registry answers calls in between.
        let ledger = ledger.with_wait(WAIT);
        Self { ledger, state: Mutex::default(), last_error: Mutex::default() }
    }

    /// Returns the error of the last synchronization, if it failed.
    #[must_use]
    pub fn last_error(&self) -> Option<LedgerError> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Passes the skills that agents created and the last good texts of broken skills to a store,
    /// without opening the ledger where possible: it runs before the first call.
    pub fn load_created_skills(&self, store: &Store) -> LedgerOutcome {
        let searched = self.serve_last_good(&mut self.lock(), store);
        let snapshot = store.snapshot();
        // The copy needs no lock: another process that holds the ledger does not delay the start.
        let created = match self.ledger.mirrored_created_skills(&snapshot) {
            Some(created) => Ok(created),
            None => self.ledger.created_skills(&snapshot),
        };
        self.to_outcome(created.and_then(|created| {
            store.set_created(created);
            searched.map(|()| Vec::new())
        }))
    }

    /// Starts the synchronization: completes interrupted changes, rebuilds lost data, records the
    /// first version of every skill that has none and applies the retention rule. Changes that
    /// other processes made before cause no events.
    pub fn start(&self, store: &Store) -> LedgerOutcome {
        let mut state = self.lock();
        (state.unrecorded, state.uncompared) = (true, true);
        let done =
            self.ledger.record_direct_edits(&store.snapshot(), &[]).and_then(|mut events| {
                self.serve_last_good(&mut state, store)?;
                // Only for the last number: no event comes after `END`.
                self.read_new_events(&mut state, END)?;
                events.extend(self.record_first(&mut state, store, false)?);
                self.retain(&mut state)?;
                self.review(store)?;
                Ok(events)
            });
        self.to_outcome(done)
    }

    /// Returns the events of the last day that other processes, and earlier runs of this program,
    /// caused and that can be published again: their process may have ended before it published
    /// them.
    pub fn recent_events(&self) -> LedgerOutcome {
        let events = self.ledger.events_of(RECENT_WINDOW).map(|mut events| {
            // Without a key, subscribers could not recognize the second publication of an event.
            events.retain(|event| event.key().is_some());
            events
        });
        self.to_outcome(events)
    }

    /// Synchronizes after a scan of the skills; `changes` are the changes it found. Without any
    /// change this costs one `stat`; `fully` checks skills that agents created in any case.
    pub fn sync(&self, store: &Store, changes: &[SkillEvent], fully: bool) -> LedgerOutcome {
        let mut state = self.lock();
        for change in changes {
            state.changed.insert(change.id().clone());
            if let SkillEvent::Renamed { from, .. } = change {
                // The former id has lost its files; that is an edit of that skill, too.
                state.changed.insert(from.clone());
            }
        }
        let stamp = stamp(self.ledger.data_dir());
        // A young stamp may stand for a later write as well.
        let moved = stamp != state.stamp || stamp.is_some_and(DatabaseStamp::is_racy);
        if !moved && state.changed.is_empty() && !fully && !state.unrecorded {
            return LedgerOutcome::default();
        }
        let done = self.record_changes(&mut state, store, fully);
        // No stamp after an error, so that the next call tries again.
        state.stamp = done.is_ok().then_some(stamp).flatten();
        self.to_outcome(done)
    }

    /// Writes the queued reads to the ledger, and the counts of offers where their interval is over.
    pub fn flush_activations(&self, log: &ActivationLog) -> LedgerOutcome {
        self.flush(log, false)
    }

    /// Writes the queued reads and all counts to the ledger, before the registry stops.
    pub fn flush_completely(&self, log: &ActivationLog) -> LedgerOutcome {
        self.flush(log, true)
    }

    fn flush(&self, log: &ActivationLog, complete: bool) -> LedgerOutcome {
        match log.flush(&self.ledger, complete) {
            Ok(FlushOutcome { entries: 0, .. }) => LedgerOutcome::default(),
            Ok(FlushOutcome { dropped, .. }) => {
                if dropped > 0 {
                    self.ledger.note(LedgerNote::ReadingsDropped { count: dropped });
                }
                self.to_outcome(Ok(Vec::new()))
            }
            Err(error) => self.to_outcome(Err(error)),
        }
    }

    fn record_changes(
        &self,
        state: &mut SyncState,
        store: &Store,
        fully: bool,
    ) -> Result<Vec<LedgerEvent>, LedgerError> {
        if fully {
            self.serve_last_good(state, store)?;
        }
        let since = state.last_seq.unwrap_or(END);
        // Events of others first: they were recorded before the ones this call records.
        let mut events = self.read_new_events(state, since)?;
        events.extend(self.record_first(state, store, fully)?);
        if !state.changed.is_empty() {
            let changed: Vec<SkillId> = state.changed.iter().cloned().collect();
            events.extend(self.ledger.record_direct_edits(&store.snapshot(), &changed)?);
            // Only after success: changes that could not be recorded are kept for the next call.
            state.changed.clear();
        }
        let is_version = |event: &&LedgerEvent| matches!(event, LedgerEvent::VersionCreated(_));
        state.recorded += events.iter().filter(is_version).count();
        let now = self.ledger.clock.now();
        let is_due = state.retained.is_some_and(|then| {
            now.duration_since(then).unwrap_or_default() >= RetentionRule::INTERVAL
                || state.recorded >= RetentionRule::VERSIONS_BETWEEN
        });
        if is_due {
            self.retain(state)?;
        }
        self.review(store)?;
        Ok(events)
    }

    /// Records the first versions of skills if that is due; once all texts are read, also direct
    /// edits that were made while no registry ran.
    fn record_first(
        &self,
        state: &mut SyncState,
        store: &Store,
        fully: bool,
    ) -> Result<Vec<LedgerEvent>, LedgerError> {
        let compares = fully && state.uncompared;
        if !state.unrecorded && !compares {
            return Ok(Vec::new());
        }
        let events = self.ledger.record_first_versions(&store.snapshot())?;
        state.unrecorded = false;
        state.uncompared &= !compares;
        Ok(events)
    }

    fn retain(&self, state: &mut SyncState) -> Result<(), LedgerError> {
        self.ledger.retain()?;
        (state.recorded, state.retained) = (0, Some(self.ledger.clock.now()));
        Ok(())
    }

    /// Passes the last good texts of newly broken skills to a store.
    fn serve_last_good(&self, state: &mut SyncState, store: &Store) -> Result<(), LedgerError> {
        let mut broken = store.broken_skills();
        broken.retain(|skill| !state.searched.contains(skill));
        if broken.is_empty() {
            return Ok(());
        }
        // Also those without a good text count as searched: their versions do not change by
        // themselves.
        store.serve_last_good(&self.ledger.last_good_texts(&broken)?);
        state.searched.extend(broken);
        Ok(())
    }

    fn read_new_events(
        &self,
        state: &mut SyncState,
        since: u64,
    ) -> Result<Vec<LedgerEvent>, LedgerError> {
        let (last, events) = self.ledger.events_since(since)?;
        state.last_seq = Some(last);
        Ok(events)
    }

    fn review(&self, store: &Store) -> Result<(), LedgerError> {
        store.set_created(self.ledger.created_skills(&store.snapshot())?);
        Ok(())
    }

    fn to_outcome(&self, done: Result<Vec<LedgerEvent>, LedgerError>) -> LedgerOutcome {
        let notes = self.ledger.take_notes();
        let mut last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        let (events, now) = match done {
            Ok(events) => (events, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        // The same error is reported once, not at every poll.
        let trouble = if *last_error == now { None } else { now.clone() };
        *last_error = now;
        LedgerOutcome { events, notes, trouble }
    }

    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DatabaseStamp {
    fn is_racy(self) -> bool {
        let age = self.modified.map(|modified| modified.elapsed().unwrap_or_default());
        age.is_none_or(|age| age < RACY)
    }
}

fn stamp(data_dir: &Path) -> Option<DatabaseStamp> {
    let metadata = fs::metadata(data_dir.join(crate::sqlite::FILE)).ok()?;
    Some(DatabaseStamp { len: metadata.len(), modified: metadata.modified().ok() })
}
