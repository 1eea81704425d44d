//! Counts of the use of skills in a process that fails or is killed while it writes them.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use skill_ledger::{ActivationLog, LedgerSync, OfferLog, UsageCounts};
#[cfg(debug_assertions)]
use skillhost_files::fault::{self, InjectedFault};

use crate::crash_worker::{MARK, start_process, tell};
use crate::scenario::{ReviewScenario, reading};

const DIRECTORY: &str = "SKILL_USAGE_TEST_DIRECTORY";

/// The registry's part of a process: it counts one offer and one read, and writes them.
struct CountingProcess {
    offers: Arc<OfferLog>,
    log: ActivationLog,
    keeper: LedgerSync,
}

impl CountingProcess {
    fn new(scenario: &ReviewScenario) -> Self {
        let offers = Arc::new(OfferLog::default());
        let log = ActivationLog::new(Arc::clone(&offers));
        Self { offers, log, keeper: LedgerSync::new(&scenario.ledger) }
    }

    fn count(&self) {
        self.offers.record("builder", &"• `beads`\n".into(), Some(&["beads".into()].into()));
        self.log.record(reading(1, "beads"));
    }

    fn flush(&self) -> bool {
        self.keeper.flush_completely(&self.log).trouble.is_none()
    }
}

/// Returns the number of counted turns, which all counts have to equal.
fn counted(scenario: &ReviewScenario) -> u64 {
    let reads = scenario.ledger.stats(None).unwrap().first().map_or(0, |stats| stats.reads);
    let usage = scenario.ledger.skill_usage(None).unwrap();
    let counts = usage.first().map(|usage| usage.counts).unwrap_or_default();
    let expected = UsageCounts { offered: reads, surfaced: reads, reads, ..UsageCounts::default() };
    assert_eq!(counts, expected);
    reads
}

#[cfg(debug_assertions)]
#[test]
fn failed_step_counts_once() {
    let scenario = ReviewScenario::new();
    let process = CountingProcess::new(&scenario);
    process.count();
    fault::arm_fault(usize::MAX, InjectedFault::Io);
    assert!(process.flush());
    let steps = fault::disarm_faults();
    assert!(steps >= 3, "{steps} steps");
    for (nth, at) in (1..=steps).enumerate() {
        process.count();
        fault::arm_fault(at, InjectedFault::Io);
        // A step may have no fault that fails the call, as the creation of a directory that exists.
        let _done = process.flush();
        fault::disarm_faults();
        assert!(process.flush(), "step {at}");
        assert_eq!(counted(&scenario), nth as u64 + 2, "step {at} of {steps}");
    }
}

#[test]
fn killed_process_counts_never_twice() {
    let scenario = ReviewScenario::new();
    let mut total = 0;
    for round in 0..6 {
        let directory = scenario.fixture.path("").display().to_string();
        let mut worker =
            start_process("usage_crash::usage_worker_runs_until_killed", &[(DIRECTORY, directory)]);
        let lines = BufReader::new(worker.stdout.take().unwrap()).lines();
        let mut lines = lines.filter_map(|line| Some(line.unwrap().split_once(MARK)?.1.to_owned()));
        // Each round is killed at another time, during the write after this line.
        let seen = lines.by_ref().take(3 + round).count() as u64;
        worker.kill().unwrap();
        worker.wait().unwrap();
        let written = seen + lines.count() as u64;
        let found = counted(&scenario) - total;
        // The last write may be complete without its line.
        assert!(found == written || found == written + 1, "round {round}: {found} of {written}");
        total += found;
    }
    assert!(total > 0);
}

#[test]
fn usage_worker_runs_until_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let scenario = ReviewScenario::at(PathBuf::from(directory));
    let process = CountingProcess::new(&scenario);
    for number in 1_u64.. {
        process.count();
        assert!(process.flush());
        tell(&number.to_string());
    }
}
