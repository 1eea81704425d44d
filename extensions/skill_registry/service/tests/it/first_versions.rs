//! The first version of every skill, and the last good text of a broken one.

use std::fs;

use skill_catalog::Store;
use skill_ledger::{LedgerEvent, LedgerSync, VersionAuthor, VersionEvent};

use crate::fixture::{assert_quiet, body, findings, id, ids};
use crate::scenario::{ReviewScenario, person, poll_and_sync, text};

/// Starts like a running registry; expects no notes and no error.
fn start_sync(scenario: &ReviewScenario, store: &Store) -> LedgerSync {
    let keeper = LedgerSync::new(&scenario.ledger);
    let prepared = keeper.load_created_skills(store);
    assert_eq!((prepared.notes, prepared.trouble), (Vec::new(), None));
    let started = keeper.start(store);
    assert_eq!((started.notes, started.trouble), (Vec::new(), None));
    keeper
}

#[test]
fn first_edit_keeps_original() {
    let scenario = ReviewScenario::new();
    scenario.fixture.write("skills/beads/scripts/run.sh", "#!/bin/sh\n");
    let store = scenario.fixture.open();
    let keeper = start_sync(&scenario, &store);
    store.poll_full();
    let original = scenario.file("beads/SKILL.md").unwrap();
    scenario.write("beads", &format!("{original}appended\n"));
    poll_and_sync(&keeper, &store);
    let history = scenario.history("beads");
    assert_eq!(history.len(), 2);
    assert_eq!(history[0].author, VersionAuthor::External);
    assert_eq!((history[0].reason.as_deref(), history[0].files), (Some("as first seen"), 2));
    scenario.ledger.rollback(&scenario.snapshot(), &person(), "beads", None, None).unwrap();
    assert_eq!(scenario.file("beads/SKILL.md"), Some(original));
}

#[test]
fn removed_skill_is_restored() {
    let scenario = ReviewScenario::new();
    let store = scenario.fixture.open();
    let keeper = start_sync(&scenario, &store);
    fs::remove_dir_all(scenario.fixture.path("skills/beads")).unwrap();
    poll_and_sync(&keeper, &store);
    poll_and_sync(&keeper, &store);
    assert_eq!(ids(&store), [""; 0]);
    scenario.ledger.rollback(&scenario.snapshot(), &person(), "beads", Some(1), None).unwrap();
    assert_eq!(scenario.body("beads"), "one\ntwo\nthree");
}

#[test]
fn first_versions_are_recorded_in_batches() {
    let scenario = ReviewScenario::empty();
    for number in 0..300 {
        let name = format!("s{number}");
        scenario.write(&name, &text(&name, "same"));
    }
    let store = scenario.fixture.open();
    let keeper = start_sync(&scenario, &store);
    let lines = || {
        let lines = scenario.audit();
        let first = lines.iter().filter(|line| line.action == "versions.first");
        first.map(|line| line.detail["skills"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(lines(), [256, 44]);
    // Recorded once, also for the next start; a poll without changes opens no file.
    store.poll_full();
    keeper.sync(&store, &[], true);
    assert_quiet(&store);
    start_sync(&scenario, &scenario.fixture.open_warm());
    assert_eq!(lines(), [256, 44]);
}

#[test]
fn edits_between_runs_are_recorded() {
    let scenario = ReviewScenario::new();
    start_sync(&scenario, &scenario.fixture.open());
    scenario.write("beads", &text("beads", "edited while nothing ran"));
    let store = scenario.fixture.open();
    let keeper = start_sync(&scenario, &store);
    let report = store.poll_full();
    let kept = keeper.sync(&store, &report.events, true);
    let [LedgerEvent::VersionCreated(VersionEvent { version: 2, .. })] = &kept.events[..] else {
        panic!("{kept:?}");
    };
    scenario.write("beads", &text("beads", "edited again"));
    poll_and_sync(&keeper, &store);
    assert_eq!(scenario.version_numbers("beads"), [1, 2, 3]);
}

#[test]
fn last_good_text_survives_restart() {
    let scenario = ReviewScenario::new();
    scenario.write("pdf", "never good");
    start_sync(&scenario, &scenario.fixture.open());
    scenario.write("beads", "---\nname: beads\n---\nno description\n");
    // The recorded broken text is skipped.
    let snapshot = scenario.snapshot();
    assert_eq!(snapshot.skills().len(), 0);
    scenario.ledger.record_direct_edits(&snapshot, &[id("beads")]).unwrap();

    let store = scenario.fixture.open();
    assert_eq!(ids(&store), [""; 0]);
    let keeper = start_sync(&scenario, &store);
    assert_eq!(ids(&store), ["beads"]);
    assert_eq!(body(&store, "beads"), ("one\ntwo\nthree".to_owned(), true));
    let of_beads = findings(&store).into_iter().filter(|(.., skipped)| !skipped);
    let rules: Vec<_> = of_beads.map(|(_, rule, _)| rule).collect();
    assert_eq!(rules, ["description.required", "file.lastGood"]);
    // It stays across further polls.
    assert_quiet(&store);
    store.poll_full();
    keeper.sync(&store, &[], true);
    assert_eq!(body(&store, "beads"), ("one\ntwo\nthree".to_owned(), true));
    scenario.write("beads", &text("beads", "repaired"));
    poll_and_sync(&keeper, &store);
    assert_eq!(body(&store, "beads"), ("repaired".to_owned(), false));
    assert_eq!(ids(&store), ["beads"]);
}
