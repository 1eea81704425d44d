//! The registry of skills: a first scan, polls, and the snapshot everybody reads.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use serde::Serialize;

use crate::cache::TextCache;
use crate::clock::Clock;
use crate::created::CreatedSkills;
use crate::entry::ScannedDirectory;
use crate::error::StoreError;
use crate::event::{SkillEvent, diff_skills};
use crate::ignore::IgnorePatterns;
use crate::options::{SkillRoot, StoreOptions};
use crate::problem::PartialScan;
use crate::resolve::{CopyCache, resolve_ids};
use crate::roots::{OpenRoot, RootStatus};
use crate::snapshot::Snapshot;
use crate::state::SkillStates;
use crate::walk::{ScanContext, ScanMode, ScanResult, scan_roots};

mod last_good;
mod quick_check;

pub use last_good::{BrokenSkill, LastGoodText};

/// A store of skills: it finds them, watches them for changes and serves their content.
///
/// Reading a [`Snapshot`] takes no lock; polls run one at a time.
pub struct Store {
    options: StoreOptions,
    ignore: IgnorePatterns,
    clock: Arc<dyn Clock>,
    roots: Arc<[Arc<SkillRoot>]>,
    states: Arc<SkillStates>,
    snapshot: ArcSwap<Snapshot>,
    pub(crate) cache: TextCache,
    state: Mutex<PollState>,
}

/// The result of the last pass.
#[derive(Debug)]
struct PollState {
    roots: Vec<RootStatus>,
    containers: Vec<ScannedDirectory>,
    verdicts: CopyCache,
    last_full: SystemTime,
    /// Something has to be looked at again even if no stamp moves.
    unsettled: bool,
}

/// The result and the cost of a poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PollReport {
    /// The generation of the snapshot after the poll.
    pub generation: u64,
    /// `true` if the poll published a new snapshot.
    pub changed: bool,
    /// The changes of skills, in the order of their ids.
    pub events: Vec<SkillEvent>,
    /// The number of opened SKILL.md files.
    pub opened: usize,
    /// The number of examined files and directories.
    pub stats: usize,
    /// `true` if every file was read.
    pub full_pass: bool,
}

impl Store {
    /// Opens a store: scans the roots and reads every SKILL.md up to its closing fence.
    ///
    /// # Errors
    /// Fails on contradictory options. Problems on the disk are part of the snapshot.
    pub fn open(options: StoreOptions, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        check_labels(&options.roots)?;
        let ignore = IgnorePatterns::new(&options.ignore)?;
        let roots: Arc<[Arc<SkillRoot>]> = options.roots.iter().cloned().map(Arc::new).collect();
        let now = clock.now();
        let empty = Snapshot::new(0, Arc::clone(&roots), vec![], vec![], vec![], None);
        let states = Arc::new(SkillStates::new(&options.skills));
        let store = Self {
            states,
            cache: TextCache::new(options.cache_bytes),
            options,
            ignore,
            clock,
            roots,
            snapshot: ArcSwap::from_pointee(empty),
            state: Mutex::new(PollState {
                roots: Vec::new(),
                containers: Vec::new(),
                verdicts: CopyCache::new(),
                last_full: now,
                unsettled: false,
            }),
        };
        let opened = store.open_roots();
        store.run_scan(&mut store.lock(), &opened, ScanMode::Listing, now);
        Ok(store)
    }

    /// Returns the current snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns the options of the store.
    #[must_use]
    pub fn options(&self) -> &StoreOptions {
        &self.options
    }

    /// Returns the time that stamps are compared with.
    pub fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Sets the skills that agents created; publishes a new snapshot if they changed.
    pub fn set_created(&self, created: CreatedSkills) {
        // A concurrent pass would replace this snapshot with one built from the previous state.
        let _alone = self.lock();
        let before = self.snapshot.load();
        if *before.created() != created {
            self.snapshot.store(Arc::new(before.with_new_created(created)));
        }
    }

    /// Polls for changes, by `stat` alone if all stamps are equal, and publishes them at once.
    ///
    /// Reads every file once per [`full_pass`](StoreOptions::full_pass), even if all stamps are
    /// equal.
    pub fn poll(&self) -> PollReport {
        let mut state = self.lock();
        let now = self.clock.now();
        // A clock that was set back must not put the pass off.
        let due = now
            .duration_since(state.last_full)
            .map_or(true, |since| since >= self.options.full_pass);
        self.poll_with(&mut state, now, due)
    }

    /// Reads every file now. Afterwards every digest is known, and every text that fits is cached
    /// in case its file becomes invalid.
    pub fn poll_full(&self) -> PollReport {
        let mut state = self.lock();
        self.poll_with(&mut state, self.clock.now(), true)
    }

    fn poll_with(&self, state: &mut PollState, now: SystemTime, full: bool) -> PollReport {
        let opened = self.open_roots();
        let mut stats = 0;
        // Nearly every poll ends here, at the cost of one `stat` per file.
        if !full && state.is_unchanged(&opened, &mut stats) {
            return PollReport {
                generation: self.snapshot.load().generation(),
                changed: false,
                events: Vec::new(),
                opened: 0,
                stats,
                full_pass: false,
            };
        }
        let mode = if full { ScanMode::Everything } else { ScanMode::Changes };
        let mut report = self.run_scan(state, &opened, mode, now);
        report.stats += stats;
        report
    }

    /// Runs a pass and publishes its result.
    fn run_scan(
        &self,
        state: &mut PollState,
        opened: &[OpenRoot],
        mode: ScanMode,
        now: SystemTime,
    ) -> PollReport {
        let walked = scan_roots(ScanContext {
            roots: opened,
            ignore: &self.ignore,
            limits: self.options.limits,
            cache: &self.cache,
            previous: &state.containers,
            mode,
            now,
        });
        if mode == ScanMode::Everything {
            state.last_full = now;
            // Copies are compared again: their other files have no stamps in the scan.
            state.verdicts.clear();
        }
        let ScanResult { containers, mut problems, partial, opened: reads, stats, .. } = walked;
        let index = resolve_ids(&containers, &mut state.verdicts);
        for container in &containers {
            for entry in &container.entries {
                problems.extend(entry.problems.iter().map(Arc::clone));
            }
        }
        problems.extend(index.problems);
        problems.shrink_to_fit();
        state.unsettled = containers.iter().any(|container| {
            container.unsettled || container.entries.iter().any(|entry| entry.needs_recheck())
        });
        state.roots = opened.iter().map(OpenRoot::status).collect();
        state.containers = containers;

        let before = self.snapshot.load();
        let partial = (!partial.is_empty()).then_some(PartialScan { reasons: partial });
        let after = Snapshot::new(
            before.generation() + 1,
            Arc::clone(&self.roots),
            index.skills,
            index.shadowed,
            problems,
            partial,
        )
        .with_copies(index.copies)
        .with_states(Arc::clone(&self.states))
        .carry_created_from(&before);
        // No snapshot precedes the first pass, so it has no events.
        let first = mode == ScanMode::Listing;
        let changed = first || !after.has_same_content(&before);
        let events = if first { Vec::new() } else { diff_skills(before.skills(), after.skills()) };
        let generation = if changed { after.generation() } else { before.generation() };
        if changed {
            self.snapshot.store(Arc::new(after));
        }
        let full_pass = mode == ScanMode::Everything;
        PollReport { generation, changed, events, opened: reads, stats, full_pass }
    }

    fn open_roots(&self) -> Vec<OpenRoot> {
        self.roots.iter().map(OpenRoot::open).collect()
    }

    fn lock(&self) -> MutexGuard<'_, PollState> {
        // A pass that panicked has published no snapshot, so the state is that of the previous
        // pass.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("options", &self.options)
            .field("generation", &self.snapshot.load().generation())
            .finish_non_exhaustive()
    }
}

fn check_labels(roots: &[SkillRoot]) -> Result<(), StoreError> {
    const MAX: usize = 1_000;
    if roots.len() > MAX {
        return Err(StoreError::TooManyRoots(MAX));
    }
    for (at, root) in roots.iter().enumerate() {
        // These characters would make `id@label` or a path with the label ambiguous.
        if root.label.is_empty() || root.label.contains(['@', '#', '/']) {
            return Err(StoreError::Label(root.label.clone()));
        }
        if roots[..at].iter().any(|other| other.label == root.label) {
            return Err(StoreError::DuplicateLabel(root.label.clone()));
        }
    }
    Ok(())
}
