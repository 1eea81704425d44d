//! The retention of the ledger, and the space it releases.

use std::fs;
use std::time::Duration;

use rusqlite::Connection;
use skill_ledger::{LedgerSync, PruneReport, RetentionRule};

use crate::desk::{Desk, NOON, person, reading, text};
use crate::scene::id;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes `count` direct edits, each a version.
fn edit(desk: &Desk, from: usize, count: usize) {
    let snapshot = desk.snapshot();
    for number in from..from + count {
        desk.write("beads", &text("beads", &format!("edit {number}")));
        desk.ledger.record_direct_edits(&snapshot, &[id("beads")]).unwrap();
    }
}

fn prune(desk: &Desk, rule: &RetentionRule) -> PruneReport {
    desk.ledger.prune(rule, false).unwrap()
}

#[test]
fn default_retention_prunes_old_versions() {
    let desk = Desk::new();
    edit(&desk, 0, 10);
    let (proposal, digest) = desk.propose("beads", "approved");
    desk.approve(&proposal, digest).unwrap();
    edit(&desk, 10, 140);
    let rule = RetentionRule::default();
    let report = prune(&desk, &rule);
    // The first, the approved one, the newest hundred of these days; the proposal uses one of the
    // texts.
    let expected: Vec<u64> = [1, 11].into_iter().chain(52..=151).collect();
    assert_eq!((report.versions, report.skills, report.texts), (49, 1, 48));
    assert_eq!(desk.version_numbers("beads"), expected);
    assert_eq!(prune(&desk, &rule).versions, 0);

    desk.clock.advance(31 * DAY);
    prune(&desk, &rule);
    let expected: Vec<u64> = [1, 11].into_iter().chain(132..=151).collect();
    assert_eq!(desk.version_numbers("beads"), expected);
    let back = desk.ledger.rollback(&desk.snapshot(), &person(), "beads", Some(1), None).unwrap();
    assert_eq!((back.version, desk.body("beads")), (152, "edit 0".to_owned()));
}

#[test]
fn daily_last_version_is_kept_longer() {
    let desk = Desk::new();
    for day in 0..60 {
        edit(&desk, day * 3, 3);
        desk.clock.advance(DAY);
    }
    prune(&desk, &RetentionRule::default());
    let kept = desk.version_numbers("beads");
    // Of the first thirty days the last ones, of the others all of the newest hundred.
    assert_eq!(kept[..5], [1, 3, 6, 9, 12]);
    assert!(kept.ends_with(&(100..=180).collect::<Vec<_>>()), "{kept:?}");
    desk.clock.advance(100 * DAY);
    prune(&desk, &RetentionRule::default());
    let expected: Vec<u64> = [1].into_iter().chain(161..=180).collect();
    assert_eq!(desk.version_numbers("beads"), expected);
}

#[test]
fn approved_files_are_kept() {
    let desk = Desk::new();
    edit(&desk, 0, 3);
    let snapshot = desk.snapshot();
    let digest = desk.ledger.tree_of(&snapshot, "beads").unwrap();
    desk.ledger.approve_skill(&snapshot, &person(), "beads", digest).unwrap();
    edit(&desk, 3, 10);
    let rule = RetentionRule { newest: 1, newest_in_days: 0, daily_days: 0, ..Default::default() };
    assert_eq!(prune(&desk, &rule).versions, 10);
    assert_eq!(desk.version_numbers("beads"), [1, 3, 13]);
}

#[test]
fn dry_run_removes_nothing() {
    let desk = Desk::new();
    edit(&desk, 0, 30);
    let rule = RetentionRule { newest: 1, newest_in_days: 0, daily_days: 0, ..Default::default() };
    let would = desk.ledger.prune(&rule, true).unwrap();
    assert_eq!((would.versions, would.texts), (28, 28));
    assert_eq!(desk.version_numbers("beads").len(), 30);
    assert_eq!(prune(&desk, &rule).versions, 28);
    assert_eq!(desk.version_numbers("beads"), [1, 30]);
}

#[test]
fn database_shrinks() {
    for former in [false, true] {
        let desk = Desk::new();
        let snapshot = desk.snapshot();
        for number in 0..40 {
            let noise = format!("{number} ").repeat(60_000);
            desk.write("beads", &text("beads", &noise));
            desk.ledger.record_direct_edits(&snapshot, &[id("beads")]).unwrap();
        }
        let path = desk.data("registry.sqlite3");
        let open = || Connection::open(&path).unwrap();
        if former {
            // The format of earlier versions.
            open().execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
        }
        let before = fs::metadata(&path).unwrap().len();
        let rule =
            RetentionRule { newest: 1, newest_in_days: 0, daily_days: 0, ..Default::default() };
        let report = prune(&desk, &rule);
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
    let desk = Desk::new();
    let (waiting, digest) = desk.propose("beads", "wanted");
    let (rejected, _) = desk.propose("beads", "unwanted");
    desk.ledger.reject(&person(), &rejected, "no").unwrap();
    desk.clock.advance(100 * DAY);
    prune(&desk, &RetentionRule::default());
    assert!(desk.ledger.proposal(&waiting).unwrap().new_text.is_some());
    let decided = desk.ledger.proposal(&rejected).unwrap();
    assert!(decided.new_text.is_none() && decided.diff.contains("+unwanted"), "{decided:?}");
    desk.approve(&waiting, digest).unwrap();
    assert_eq!(desk.body("beads"), "wanted");
}

#[test]
fn readings_are_bounded() {
    let desk = Desk::new();
    let readings: Vec<_> = (0..50).map(|_| reading(NOON, "beads")).collect();
    desk.ledger.record_activations(&readings).unwrap();
    let rule = RetentionRule { readings: 20, ..RetentionRule::default() };
    assert_eq!(prune(&desk, &rule).readings, 30);
    assert_eq!(desk.ledger.stats(None).unwrap()[0].reads, 20);
    desk.clock.advance(366 * DAY);
    assert_eq!(prune(&desk, &rule).readings, 20);
}

#[test]
fn running_registry_applies_the_rule() {
    let desk = Desk::new();
    edit(&desk, 0, 130);
    let keeper = LedgerSync::new(&desk.ledger);
    let store = desk.store();
    assert_eq!(keeper.start(&store).trouble, None);
    assert_eq!(desk.version_numbers("beads").len(), 101);
    // Again after a day.
    edit(&desk, 200, 20);
    keeper.sync(&store, &[], true);
    assert_eq!(desk.version_numbers("beads").len(), 121);
    desk.clock.advance(DAY);
    keeper.sync(&store, &[], true);
    assert_eq!(desk.version_numbers("beads").len(), 101);
}
