//! Concurrent use of a ledger: no data is lost, no call hangs.

use std::fs;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use skill_ledger::{LedgerErrorKind, ProposalFilter, ProposalState, ProposeRequest};

use crate::scenario::{ReviewScenario, operator, person, text, wish};

const THREADS: usize = 8;
const ROUNDS: usize = 6;

#[test]
fn one_concurrent_approval_wins() {
    let scenario = ReviewScenario::new();
    for round in 0..ROUNDS {
        let proposals: Vec<_> =
            (0..THREADS).map(|nth| scenario.propose("beads", &format!("{round}.{nth}"))).collect();
        let (won, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        thread::scope(|scope| {
            for (id, digest) in &proposals {
                let (scenario, won, start) = (&scenario, &won, &start);
                scope.spawn(move || {
                    let ledger = scenario.other();
                    let snapshot = scenario.snapshot();
                    start.wait();
                    match ledger.approve(&snapshot, &person(), id, *digest, None) {
                        Ok(_) => {
                            won.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert_eq!(error.reason(), LedgerErrorKind::Stale, "{error}"),
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), 1);
        let applied = ProposalFilter { state: Some(ProposalState::Applied), ..Default::default() };
        let last = scenario.ledger.proposals(applied).unwrap();
        assert_eq!(last.len(), round + 1);
        let winner = scenario.ledger.proposal(&last[round].id).unwrap();
        assert_eq!(scenario.file("beads/SKILL.md"), winner.new_text);
        for (id, _) in &proposals {
            if *id != winner.summary.id {
                scenario.ledger.reject(&person(), id, "lost").unwrap();
            }
        }
    }
    assert_eq!(scenario.leftovers(), Vec::<std::path::PathBuf>::new());
}

/// Appends lines to the skill, each by a proposal that is repeated until no other writer was
/// faster.
fn append(scenario: &ReviewScenario, nth: usize) {
    let ledger = scenario.other();
    for round in 0..ROUNDS {
        loop {
            let snapshot = scenario.snapshot();
            let seen = scenario.file("beads/SKILL.md").unwrap();
            let new = format!("{seen}{nth}.{round}\n");
            let wish = ProposeRequest {
                diff: Some(skill_diff::unified_diff(&seen, &new, "SKILL.md")),
                new_content: None,
                ..wish("beads", "")
            };
            let Ok(proposed) = ledger.propose(&snapshot, &operator(), &wish) else { continue };
            let (id, digest) = (proposed.proposal.id, proposed.proposal.new_digest);
            match ledger.approve(&snapshot, &person(), &id, digest, None) {
                Ok(_) => break,
                Err(error) => {
                    assert_eq!(error.reason(), LedgerErrorKind::Stale, "{error}");
                    ledger.reject(&person(), &id, "too late").unwrap();
                }
            }
        }
    }
}

/// Checks that every line exists, and every version in between.
#[track_caller]
fn assert_all_lines(scenario: &ReviewScenario, writers: usize) {
    let body = scenario.body("beads");
    let mut lines: Vec<&str> = body.lines().collect();
    lines.sort_unstable();
    let own = ["one", "two", "three"].map(str::to_owned);
    let added = (0..writers).flat_map(|nth| (0..ROUNDS).map(move |r| format!("{nth}.{r}")));
    let mut expected: Vec<String> = own.into_iter().chain(added).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    let versions = scenario.history("beads");
    assert_eq!(versions.len(), 1 + writers * ROUNDS);
    assert_eq!(scenario.ledger.proposals(ProposalFilter::default()), Ok(Vec::new()));
}

#[test]
fn threads_lose_no_lines() {
    let scenario = ReviewScenario::new();
    thread::scope(|scope| {
        for nth in 0..THREADS {
            let scenario = &scenario;
            scope.spawn(move || append(scenario, nth));
        }
    });
    assert_all_lines(&scenario, THREADS);
}

/// The program of the child processes; without its variables it returns at once.
#[test]
fn append_process() {
    let Ok(place) = std::env::var("SKILL_STORE_TEST_DESK") else { return };
    let nth = std::env::var("SKILL_STORE_TEST_WRITER").unwrap().parse().unwrap();
    append(&ReviewScenario::at(place.into()), nth);
}

#[test]
fn processes_lose_no_lines() {
    let scenario = ReviewScenario::new();
    let start = |nth: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ledger_races::append_process"])
            .env("SKILL_STORE_TEST_DESK", scenario.fixture.path(""))
            .env("SKILL_STORE_TEST_WRITER", nth.to_string())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..THREADS).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_all_lines(&scenario, THREADS);
}

#[test]
fn concurrent_edits_are_not_lost() {
    let scenario = ReviewScenario::new();
    let path = scenario.fixture.path("skills/beads/SKILL.md");
    let edits = AtomicUsize::new(0);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The editor replaces the file as a unit, like most do.
            while !done.load(Ordering::Relaxed) {
                let nth = edits.fetch_add(1, Ordering::Relaxed);
                let temporary = scenario.fixture.path("edit");
                fs::write(&temporary, text("beads", &format!("edit {nth}"))).unwrap();
                fs::rename(&temporary, &path).unwrap();
                thread::yield_now();
            }
        });
        for nth in 0..40 {
            let snapshot = scenario.snapshot();
            let wish = wish("beads", &format!("proposed {nth}"));
            let Ok(proposed) = scenario.ledger.propose(&snapshot, &operator(), &wish) else {
                continue;
            };
            let proposal = proposed.proposal;
            let id = &proposal.id;
            if scenario.ledger.approve(&snapshot, &person(), id, proposal.new_digest, None).is_err()
            {
                scenario.ledger.reject(&person(), id, "too late").unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let waiting = scenario.ledger.proposals(ProposalFilter::default()).unwrap();
    assert_eq!(waiting, []);
    assert_eq!(scenario.leftovers(), Vec::<std::path::PathBuf>::new());
}
