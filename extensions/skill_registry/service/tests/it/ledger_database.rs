//! A database that is missing, damaged, newer, locked or not writable; a lock held by others.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use skill_ledger::{LedgerErrorKind, LedgerNote, ProposalFilter, ProposalState};
use skillhost_payload::ErrorKind;

use crate::scenario::{NOON, ReviewScenario, person, text, wish};

/// Creates proposals in several states: open, for another base, rejected, applied.
fn busy_desk() -> (ReviewScenario, [String; 4]) {
    let scenario = ReviewScenario::new();
    scenario.write("pdf", &text("pdf", "read"));
    scenario.write("csv", &text("csv", "old"));
    let (open, _) = scenario.propose("beads", "one\nTWO\nthree");
    let (moved, _) = scenario.propose("pdf", "write");
    let (rejected, _) = scenario.propose("beads", "worse");
    scenario.ledger.reject(&person(), &rejected, "no").unwrap();
    let (applied, digest) = scenario.propose("csv", "new");
    scenario.approve(&applied, digest).unwrap();
    scenario.write("pdf", &text("pdf", "read all"));
    (scenario, [open, moved, rejected, applied])
}

/// Checks a ledger that was rebuilt from its files.
#[track_caller]
fn assert_rebuilt(scenario: &ReviewScenario, ids: &[String; 4], moved: bool) {
    let before = scenario.ledger.proposal(&ids[0]).unwrap();
    assert_eq!((before.summary.state, before.new_text), (ProposalState::Open, None));
    let notes = scenario.ledger.take_notes();
    let [LedgerNote::Rebuilt { moved_to, proposals: 4, unreadable }] = &notes[..] else {
        panic!("{notes:?}");
    };
    assert_eq!(unreadable, &Vec::<PathBuf>::new());
    assert_eq!(moved_to.is_some(), moved);
    if let Some(path) = moved_to {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, "registry.sqlite3.corrupt-20261122T015816.000Z");
        assert!(path.exists());
    }
    scenario.ledger.record_direct_edits(&scenario.snapshot(), &[]).unwrap();
    let states: Vec<_> =
        ids.iter().map(|id| scenario.ledger.proposal(id).unwrap().summary.state).collect();
    use ProposalState::{Open, Stale};
    assert_eq!(states, [Open, Stale, Open, Stale]);
    let open = scenario.ledger.proposal(&ids[0]).unwrap();
    assert_eq!(open.new_text, Some(text("beads", "one\nTWO\nthree")));
    assert_eq!(open.base_text, Some(text("beads", "one\ntwo\nthree")));
    assert_eq!((open.summary.created_ms, open.summary.added), (NOON, 1));
    scenario.approve(&ids[0], open.summary.new_digest).unwrap();
    assert_eq!(scenario.body("beads"), "one\nTWO\nthree");
    // A lost text can still be rebased: the diff is known.
    let error = scenario.ledger.rebase(&scenario.snapshot(), &person(), &ids[1]).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::DoesNotApply);
    let audit = scenario.audit();
    assert!(audit.iter().any(|entry| entry.action == "ledger.rebuilt"));
    // New ids still sort after the old ones.
    assert!(scenario.propose("beads", "next").0 > ids[3]);
    assert_eq!(scenario.ledger.take_notes(), []);
}

#[test]
fn missing_database_is_rebuilt() {
    let (scenario, ids) = busy_desk();
    fs::remove_file(scenario.data("registry.sqlite3")).unwrap();
    assert_rebuilt(&scenario, &ids, false);
}

#[test]
fn empty_database_is_rebuilt() {
    let (scenario, ids) = busy_desk();
    fs::write(scenario.data("registry.sqlite3"), "").unwrap();
    assert_rebuilt(&scenario, &ids, false);
}

#[test]
fn garbage_database_is_moved_aside() {
    let (scenario, ids) = busy_desk();
    fs::write(scenario.data("registry.sqlite3"), [0xA5; 20_000]).unwrap();
    assert_rebuilt(&scenario, &ids, true);
}

#[test]
fn truncated_database_is_moved_aside() {
    let (scenario, ids) = busy_desk();
    let path = scenario.data("registry.sqlite3");
    let length = fs::metadata(&path).unwrap().len();
    fs::File::options().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    assert_rebuilt(&scenario, &ids, true);
}

#[test]
fn inner_damage_is_found_after_crash() {
    let (scenario, ids) = busy_desk();
    let path = scenario.data("registry.sqlite3");
    let mut bytes = fs::read(&path).unwrap();
    let length = bytes.len();
    bytes[8_192..length].fill(0x5A);
    fs::write(&path, bytes).unwrap();
    // A crash leaves a name in the lock.
    fs::write(scenario.data("lock"), "4711\n").unwrap();
    assert_rebuilt(&scenario, &ids, true);
}

#[test]
fn invalid_proposal_files_are_reported() {
    let (scenario, ids) = busy_desk();
    fs::remove_file(scenario.data("registry.sqlite3")).unwrap();
    fs::write(scenario.data("proposals/notes.md"), "# Notes\n").unwrap();
    fs::copy(scenario.ledger.proposal(&ids[0]).unwrap().file, scenario.data("proposals/z-copy.md"))
        .unwrap();
    let notes = scenario.ledger.take_notes();
    let LedgerNote::Rebuilt { unreadable, .. } = &notes[0] else { panic!("{notes:?}") };
    assert_eq!(unreadable, &[scenario.data("proposals/notes.md")]);
    fs::remove_file(scenario.data("registry.sqlite3")).unwrap();
    scenario.ledger.proposals(ProposalFilter::default()).unwrap();
    let notes = scenario.ledger.take_notes();
    let LedgerNote::Rebuilt { unreadable, proposals, .. } = &notes[0] else { panic!("{notes:?}") };
    let copies = [scenario.data("proposals/notes.md"), scenario.data("proposals/z-copy.md")];
    assert_eq!((unreadable.as_slice(), *proposals), (&copies[..], 4));
}

#[test]
fn data_directory_is_cleaned_after_crash() {
    let (scenario, ids) = busy_desk();
    let files: Vec<_> = ids.iter().map(|id| scenario.ledger.proposal(id).unwrap().file).collect();
    let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    fs::remove_file(&files[0]).unwrap();
    fs::write(&files[1], "edited by hand").unwrap();
    fs::remove_file(&files[3]).unwrap();
    for left in ["proposals/.tmp-x.md", ".tmp-created.json", ".generation.4711.99"] {
        fs::write(scenario.data(left), "").unwrap();
    }
    scenario.ledger.proposals(ProposalFilter::default()).unwrap();
    assert_eq!(scenario.leftovers().len(), 3, "no process died");
    fs::write(scenario.data("lock"), "4711\n").unwrap();
    scenario.ledger.proposals(ProposalFilter::default()).unwrap();
    assert_eq!(scenario.leftovers(), Vec::<PathBuf>::new());
    let now: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    assert_eq!(now, [&texts[0], "edited by hand", &texts[2], &texts[3]]);
}

#[test]
fn forged_file_has_no_effect() {
    let (scenario, ids) = busy_desk();
    let file = scenario.ledger.proposal(&ids[0]).unwrap().file;
    let forged = fs::read_to_string(&file).unwrap();
    let forged = forged.replace("state: open", "state: approved").replace("+TWO", "+EVIL");
    fs::write(&file, forged).unwrap();
    fs::remove_file(scenario.data("registry.sqlite3")).unwrap();
    scenario.ledger.record_direct_edits(&scenario.snapshot(), &[]).unwrap();
    // The diff does not result in the text of the named digest.
    let proposal = scenario.ledger.proposal(&ids[0]).unwrap();
    assert_eq!((proposal.summary.state, proposal.new_text), (ProposalState::Stale, None));
    assert_eq!(scenario.body("beads"), "one\ntwo\nthree");
}

#[test]
fn lock_wait_is_limited() {
    let scenario = ReviewScenario::new();
    scenario.propose("beads", "1");
    let held = fs::File::options().write(true).open(scenario.data("lock")).unwrap();
    held.lock().unwrap();
    let hurried = scenario.other().set_wait(Duration::from_millis(30));
    let error = hurried.proposals(ProposalFilter::default()).unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Io, LedgerErrorKind::Locked));
    let lock = scenario.data("lock");
    assert_eq!(
        error.to_string(),
        format!("{} has been held by another process for 0.03 s", lock.display())
    );
    held.unlock().unwrap();
    assert_eq!(hurried.proposals(ProposalFilter::default()).unwrap().len(), 1);
}

#[test]
fn unwritable_path_is_named() {
    let scenario = ReviewScenario::new();
    fs::write(scenario.data(""), "a file where the directory should be").unwrap();
    let error = scenario.ask(&wish("beads", "x")).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Io);
    assert!(error.to_string().starts_with(&scenario.data("").display().to_string()), "{error}");
    fs::remove_file(scenario.data("")).unwrap();
    fs::create_dir_all(scenario.data("registry.sqlite3")).unwrap();
    let error = scenario.ask(&wish("beads", "x")).unwrap_err();
    assert_eq!(error.reason(), LedgerErrorKind::Io);
    assert!(error.to_string().contains("registry.sqlite3: the database cannot be"), "{error}");
}

#[test]
fn order_survives_clock_change() {
    let scenario = ReviewScenario::new();
    let (first, _) = scenario.propose("beads", "1");
    scenario.clock.set(std::time::UNIX_EPOCH + Duration::from_secs(5));
    let (second, digest) = scenario.propose("beads", "2");
    assert!(first < second);
    let summaries = scenario.ledger.proposals(ProposalFilter::default()).unwrap();
    let seen: Vec<_> = summaries.iter().map(|s| (s.seq, s.created_ms)).collect();
    assert_eq!(seen, [(1, NOON), (2, 5_000)]);
    scenario.approve(&second, digest).unwrap();
    let entries = scenario.audit();
    assert!(entries.is_sorted_by(|a, b| (a.seq, &a.id) < (b.seq, &b.id)));
    scenario.clock.set(std::time::UNIX_EPOCH - Duration::from_secs(5));
    scenario.ledger.reject(&person(), &first, "no").unwrap();
}
