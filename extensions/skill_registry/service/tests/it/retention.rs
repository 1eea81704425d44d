//! The retention of the ledger, and the space it releases.

use std::fs;
use std::time::Duration;

use rusqlite::Connection;
use skill_ledger::{LedgerSync, PruneReport, RetentionRule};

use crate::fixture::id;
use crate::scenario::{NOON, ReviewScenario, person, reading, text};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes `count` direct edits, each a version.
fn edit(scenario: &ReviewScenario, from: usize, count: usize) {
    let snapshot = scenario.snapshot();
    for number in from..from + count {
        scenario.write("beads", &text("beads", &format!("edit {number}")));
        scenario.ledger.record_direct_edits(&snapshot, &[id("beads")]).unwrap();
    }
}

fn prune(scenario: &ReviewScenario, rule: &RetentionRule) -> PruneReport {
    scenario.ledger.prune(rule, false).unwrap()
}

#[test]
fn default_retention_prunes_old_versions() {
    let scenario = ReviewScenario::new();
    edit(&scenario, 0, 10);
    let (proposal, digest) = scenario.propose("beads", "approved");
    scenario.approve(&proposal, digest).unwrap();
    edit(&scenario, 10, 140);
    let rule = RetentionRule::default();
    let report = prune(&scenario, &rule);
    // The first, the approved one, the newest hundred of these days; the proposal uses one of the
    // texts.
    let expected: Vec<u64> = [1, 11].into_iter().chain(52..=151).collect();
    assert_eq!((report.versions, report.skills, report.texts), (49, 1, 48));
    assert_eq!(scenario.version_numbers("beads"), expected);
    assert_eq!(prune(&scenario, &rule).versions, 0);

    scenario.clock.advance(31 * DAY);
    prune(&scenario, &rule);
    let expected: Vec<u64> = [1, 11].into_iter().chain(132..=151).collect();
    assert_eq!(scenario.version_numbers("beads"), expected);
    let back =
        scenario.ledger.rollback(&scenario.snapshot(), &person(), "beads", Some(1), None).unwrap();
    assert_eq!((back.version, scenario.body("beads")), (152, "edit 0".to_owned()));
}

#[test]
fn daily_last_version_is_kept_longer() {
    let scenario = ReviewScenario::new();
    for day in 0..60 {
        edit(&scenario, day * 3, 3);
        scenario.clock.advance(DAY);
    }
    prune(&scenario, &RetentionRule::default());
    let kept = scenario.version_numbers("beads");
    // Of the first thirty days the last ones, of the others all of the newest hundred.
    assert_eq!(kept[..5], [1, 3, 6, 9, 12]);
    assert!(kept.ends_with(&(100..=180).collect::<Vec<_>>()), "{kept:?}");
    scenario.clock.advance(100 * DAY);
    prune(&scenario, &RetentionRule::default());
    let expected: Vec<u64> = [1].into_iter().chain(161..=180).collect();
    assert_eq!(scenario.version_numbers("beads"), expected);
}

#[test]
fn approved_files_are_kept() {
    let scenario = ReviewScenario::new();
    edit(&scenario, 0, 3);
    let snapshot = scenario.snapshot();
    let digest = scenario.ledger.tree_of(&snapshot, "beads").unwrap();
    scenario.ledger.approve_skill(&snapshot, &person(), "beads", digest).unwrap();
    edit(&scenario, 3, 10);
    let rule = RetentionRule { newest: 1, newest_in_days: 0, daily_days: 0, ..Default::default() };
    assert_eq!(prune(&scenario, &rule).versions, 10);
    assert_eq!(scenario.version_numbers("beads"), [1, 3, 13]);
}

#[test]
fn dry_run_removes_nothing() {
    let scenario = ReviewScenario::new();
    edit(&scenario, 0, 30);
    let rule = RetentionRule { newest: 1, newest_in_days: 0, daily_days: 0, ..Default::default() };
    let would = scenario.ledger.prune(&rule, true).unwrap();
    assert_eq!((would.versions, would.texts), (28, 28));
    assert_eq!(scenario.version_numbers("beads").len(), 30);
    assert_eq!(prune(&scenario, &rule).versions, 28);
    assert_eq!(scenario.version_numbers("beads"), [1, 30]);
    // Numbers continue after the last one, pruned or not.
    edit(&scenario, 30, 1);
    assert_eq!(scenario.version_numbers("beads"), [1, 30, 31]);
}

#[test]
fn database_shrinks() {
    for former in [false, true] {
        let scenario = ReviewScenario::new();
        let snapshot = scenario.snapshot();
        for number in 0..40 {
            let noise = format!("{number} ").repeat(60_000);
            scenario.write("beads", &text("beads", &noise));
            scenario.ledger.record_direct_edits(&snapshot, &[id("beads")]).unwrap();
        }
        let path = scenario.data("registry.sqlite3");
        let open = || Connection::open(&path).unwrap();
        if former {
            // The format of earlier versions.
            open().execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
        }
        let before = fs::metadata(&path).unwrap().len();
        let rule =
            RetentionRule { newest: 1, newest_in_days: 0, daily_days: 0, ..Default::default() };
        let report = prune(&scenario, &rule);
        let after = fs::metadata(&path).unwrap().len();
        assert_eq!((report.file_before, report.file_after), (before, after));
        assert!(after * 4 < before, "{former}: {before} {after}");
        let mode: i64 = open().query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap();
        let check: String = open().query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!((mode, check.as_str()), (2, "ok"));
        let violations = "SELECT count(*) FROM pragma_foreign_key_check";
        assert_eq!(open().query_row(violations, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    }
}

#[test]
fn pending_proposals_keep_their_texts() {
    let scenario = ReviewScenario::new();
    let (waiting, digest) = scenario.propose("beads", "wanted");
    let (rejected, _) = scenario.propose("beads", "unwanted");
    scenario.ledger.reject(&person(), &rejected, "no").unwrap();
    scenario.clock.advance(100 * DAY);
    prune(&scenario, &RetentionRule::default());
    assert!(scenario.ledger.proposal(&waiting).unwrap().new_text.is_some());
    let decided = scenario.ledger.proposal(&rejected).unwrap();
    assert!(decided.new_text.is_none() && decided.diff.contains("+unwanted"), "{decided:?}");
    scenario.approve(&waiting, digest).unwrap();
    assert_eq!(scenario.body("beads"), "wanted");
}

#[test]
fn readings_are_bounded() {
    let scenario = ReviewScenario::new();
    let readings: Vec<_> = (0..50).map(|_| reading(NOON, "beads")).collect();
    scenario.ledger.record_activations(&readings).unwrap();
    let rule = RetentionRule { readings: 20, ..RetentionRule::default() };
    assert_eq!(prune(&scenario, &rule).readings, 30);
    assert_eq!(scenario.ledger.stats(None).unwrap()[0].reads, 20);
    scenario.clock.advance(366 * DAY);
    assert_eq!(prune(&scenario, &rule).readings, 20);
}

#[test]
fn running_registry_applies_the_rule() {
    let scenario = ReviewScenario::new();
    edit(&scenario, 0, 130);
    let keeper = LedgerSync::new(&scenario.ledger);
    let store = scenario.store();
    assert_eq!(keeper.start(&store).trouble, None);
    assert_eq!(scenario.version_numbers("beads").len(), 101);
    // Again after a day.
    edit(&scenario, 200, 20);
    keeper.sync(&store, &[], true);
    assert_eq!(scenario.version_numbers("beads").len(), 121);
    scenario.clock.advance(DAY);
    keeper.sync(&store, &[], true);
    assert_eq!(scenario.version_numbers("beads").len(), 101);
}
