//! How a running registry keeps up with the ledger: what it tells it, and what it hears from it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use skill_format::SkillId;

use crate::event::SkillEvent;
use crate::ledger::Ledger;
use crate::ledger::activation_log::{ActivationLog, FlushOutcome};
use crate::ledger::error::LedgerError;
use crate::ledger::event::LedgerEvent;
use crate::ledger::note::LedgerNote;
use crate::ledger::retention::RetentionRule;
use crate::news::LogMessage;
use crate::store::{BrokenSkill, Store};

/// How long a look at the ledger waits for others. The next look makes up for one that is given up.
const WAIT: Duration = Duration::from_secs(1);

/// A stamp that is younger may stand for two writes.
const RACY: Duration = Duration::from_secs(2);

/// What is told again after a start.
const RECENT_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// Stands for no number of the audit log.
const END: u64 = i64::MAX as u64;

/// Tells the ledger what happened to skills and hears what others did with it.
///
/// Nothing that is wrong with the ledger stops it: that is said, and made up for later.
pub struct LedgerSync {
    ledger: Ledger,
    state: Mutex<SyncState>,
    trouble: Mutex<Option<LedgerError>>,
}

/// What is known so far.
#[derive(Default)]
struct SyncState {
    /// The last number of the audit log that was heard of; nothing before the first look.
    heard: Option<u64>,
    stamp: Option<DatabaseStamp>,
    /// Skills whose change the ledger has not been told of.
    changed: BTreeSet<SkillId>,
    /// The first versions could not be recorded yet.
    unrecorded: bool,
    /// The texts are to be compared with the last versions once all of them are read.
    uncompared: bool,
    /// Versions that were recorded since the retention rule was last applied, and when that was.
    recorded: usize,
    retained: Option<SystemTime>,
    /// Broken skills whose last good text was looked for.
    sought: HashSet<BrokenSkill>,
}

/// One state of the database's file.
#[derive(Clone, Copy, PartialEq)]
struct DatabaseStamp {
    len: u64,
    modified: Option<SystemTime>,
}

/// What a look at the ledger brought.
#[derive(Debug, Default)]
pub struct LedgerOutcome {
    /// What happened, in its order.
    pub events: Vec<LedgerEvent>,
    /// What was noticed or repaired.
    pub notes: Vec<LedgerNote>,
    /// Why the ledger could not be used, if that is news.
    pub trouble: Option<LedgerError>,
}

impl LedgerOutcome {
    /// Returns what of it a log says.
    #[must_use]
    pub fn lines(&self) -> Vec<LogMessage> {
        let notes = self.notes.iter().map(ToString::to_string);
        let trouble = self.trouble.iter();
        let trouble =
            trouble.map(|error| format!("the ledger cannot be used: {error}; {}", error.hint()));
        notes.chain(trouble).map(|text| LogMessage::warning(&text)).collect()
    }
}

impl LedgerSync {
    /// Keeps up with a ledger; opens nothing.
    #[must_use]
    pub fn new(ledger: &Ledger) -> Self {
        let ledger = ledger.with_wait(WAIT);
        Self { ledger, state: Mutex::default(), trouble: Mutex::default() }
    }

    /// Says why the ledger could not be used when it was last looked at.
    #[must_use]
    pub fn last_error(&self) -> Option<LedgerError> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells a store which skills agents created, and what broken skills said when they were last
    /// good, without opening the ledger where that can be helped: before the first call.
    pub fn load_created_skills(&self, store: &Store) -> LedgerOutcome {
        let sought = self.serve_last_good(&mut self.lock(), store);
        let snapshot = store.snapshot();
        let created = match self.ledger.mirrored_created_skills(&snapshot) {
            Some(created) => Ok(created),
            None => self.ledger.created_skills(&snapshot),
        };
        self.to_outcome(created.and_then(|created| {
            store.set_created(created);
            sought.map(|()| Vec::new())
        }))
    }

    /// Begins: brings what was interrupted to its end, makes again what was lost, records the first
    /// version of every skill that has none and applies the retention rule. What others did until now
    /// is no news.
    pub fn start(&self, store: &Store) -> LedgerOutcome {
        let mut state = self.lock();
        (state.unrecorded, state.uncompared) = (true, true);
        let done =
            self.ledger.record_direct_edits(&store.snapshot(), &[]).and_then(|mut events| {
                self.serve_last_good(&mut state, store)?;
                self.read_new_events(&mut state, END)?;
                events.extend(self.record_first(&mut state, store, false)?);
                self.retain(&mut state)?;
                self.review(store)?;
                Ok(events)
            });
        self.to_outcome(done)
    }

    /// Returns what others, and earlier runs of this program, did within the last day and can be told
    /// again: whoever did it may have ended before it was told.
    pub fn recent_events(&self) -> LedgerOutcome {
        let events = self.ledger.events_of(RECENT_WINDOW).map(|mut events| {
            events.retain(|event| event.key().is_some());
            events
        });
        self.to_outcome(events)
    }

    /// Keeps up after a look at the skills: `changes` are what that found. Where nothing happened,
    /// that costs one `stat`; `fully` looks at skills that agents created in any case.
    pub fn sync(&self, store: &Store, changes: &[SkillEvent], fully: bool) -> LedgerOutcome {
        let mut state = self.lock();
        for change in changes {
            state.changed.insert(change.id().clone());
            if let SkillEvent::Renamed { from, .. } = change {
                state.changed.insert(from.clone());
            }
        }
        let stamp = stamp(self.ledger.data_dir());
        let moved = stamp != state.stamp || stamp.is_some_and(DatabaseStamp::is_racy);
        if !moved && state.changed.is_empty() && !fully && !state.unrecorded {
            return LedgerOutcome::default();
        }
        let done = self.record_changes(&mut state, store, fully);
        state.stamp = done.is_ok().then_some(stamp).flatten();
        self.to_outcome(done)
    }

    /// Writes the readings that were collected.
    pub fn flush_activations(&self, log: &ActivationLog) -> LedgerOutcome {
        match log.flush(&self.ledger) {
            Ok(FlushOutcome { readings: 0, .. }) => LedgerOutcome::default(),
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
        let since = state.heard.unwrap_or(END);
        let mut events = self.read_new_events(state, since)?;
        events.extend(self.record_first(state, store, fully)?);
        if !state.changed.is_empty() {
            let changed: Vec<SkillId> = state.changed.iter().cloned().collect();
            events.extend(self.ledger.record_direct_edits(&store.snapshot(), &changed)?);
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

    /// Records the first versions of skills where that is due; once all texts are read, also what was
    /// edited while no registry ran.
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

    /// Gives a store the last good texts of skills that are broken and were not looked for yet.
    fn serve_last_good(&self, state: &mut SyncState, store: &Store) -> Result<(), LedgerError> {
        let mut broken = store.broken_skills();
        broken.retain(|skill| !state.sought.contains(skill));
        if broken.is_empty() {
            return Ok(());
        }
        store.serve_last_good(&self.ledger.last_good_texts(&broken)?);
        state.sought.extend(broken);
        Ok(())
    }

    fn read_new_events(
        &self,
        state: &mut SyncState,
        since: u64,
    ) -> Result<Vec<LedgerEvent>, LedgerError> {
        let (last, events) = self.ledger.events_since(since)?;
        state.heard = Some(last);
        Ok(events)
    }

    fn review(&self, store: &Store) -> Result<(), LedgerError> {
        store.set_created(self.ledger.created_skills(&store.snapshot())?);
        Ok(())
    }

    fn to_outcome(&self, done: Result<Vec<LedgerEvent>, LedgerError>) -> LedgerOutcome {
        let notes = self.ledger.take_notes();
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let (events, now) = match done {
            Ok(events) => (events, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let news = if *trouble == now { None } else { now.clone() };
        *trouble = now;
        LedgerOutcome { events, notes, trouble: news }
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
    let metadata = fs::metadata(data_dir.join(crate::db::FILE)).ok()?;
    Some(DatabaseStamp { len: metadata.len(), modified: metadata.modified().ok() })
}
